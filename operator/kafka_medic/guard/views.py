"""Do the accounts of all brokers agree with what is decided?"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_medic.cluster.agreement import Disagreement, agreement
from kafka_medic.cluster.snapshot import Mode, PartitionRow, Snapshot, View
from kafka_medic.guard.context import RestartContext, RestartQuestion
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.rows import known_ids
from kafka_medic.guard.stuck import undeclared
from kafka_medic.guard.succession import left_to_stale
from kafka_medic.guard.unserved import not_served
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Guard

VIEWS_AGREE = Guard.VIEWS_AGREE
EXAMPLES = 5
_NOBODY = -1


def views_agree(snapshot: Snapshot, question: RestartQuestion) -> tuple[Reason, ...]:
    """Every broker that answers names the registered members and, for each partition, the leader and epoch that are
    decided. A difference is allowed only in brokers that this run cures, when the target is one of them and is stale
    still, and none of the others would lead a partition then. Brokers that the run has away are not asked, and whether
    they are members is not settled. Nor is it of those that only a new controller can declare gone.
    """
    cures, target = question.context.cures, question.broker
    cured = target in cures and (_zombie(snapshot, target) or _known_stale(snapshot, target))
    found, differing = _compared(snapshot, question, cures if cured else frozenset())
    left = tuple(_left_to_stale(snapshot, question, differing))
    return (*(r for r in found if not (left and r.verdict is Verdict.ALLOW)), *left)


def agree_but_for(snapshot: Snapshot, question: RestartQuestion, excused: frozenset[int]) -> tuple[Reason, ...]:
    """Whether the views agree by now, whatever those of `excused` report."""
    return _compared(snapshot, question, excused)[0]


def all_views_agree(snapshot: Snapshot) -> tuple[Reason, ...]:
    """Whether every broker that answers has reported a view that agrees with what is decided, and a majority decided
    everything. Of a large cluster each broker is judged by the topics that it was asked about."""
    reasons, _ = _compared(snapshot, RestartQuestion(_NOBODY, RestartContext(), ()), frozenset())
    if snapshot.views is None or snapshot.brokers is None or snapshot.partitions is None:
        return reasons
    found, more = agreement(snapshot), []
    if not found.witnessed:
        message = f"{found.reporting} of {found.voters} registered brokers reported their view (required: a majority)"
        more.append(Reason(VIEWS_AGREE, Verdict.UNKNOWN, message))
    if found.undecided:
        message = f"brokers differ and no majority decides: {some(sorted(found.undecided), EXAMPLES)}"
        more.append(Reason(VIEWS_AGREE, Verdict.UNKNOWN, message))
    if found.doubted:
        message = f"the view of broker {some(sorted(found.doubted))} may be stale"
        more.append(Reason(VIEWS_AGREE, Verdict.UNKNOWN, message))
    return (*(r for r in reasons if not (more and r.verdict is Verdict.ALLOW)), *more)


def _compared(
    snapshot: Snapshot, question: RestartQuestion, excused: frozenset[int]
) -> tuple[tuple[Reason, ...], list[int]]:
    """(what refuses, or else the one that allows; the brokers that differ)."""
    guard, away = VIEWS_AGREE, question.context.together
    if snapshot.views is None or snapshot.brokers is None or snapshot.partitions is None:
        what = [n for n in ("views", "brokers", "partitions") if getattr(snapshot, n) is None]
        return (Reason(guard, Verdict.UNKNOWN, f"not known: {some(what)}"),), []
    views = {v.broker: v for v in snapshot.views}
    expected = _expected(snapshot, away)
    reasons = list(_undecided(snapshot, question))
    if len(views) != len(snapshot.views):
        reasons.append(Reason(guard, Verdict.UNKNOWN, "the snapshot has more than one view of the same broker"))
    whole = [v for v in views.values() if v.broker not in away and v.members is not None and v.leaders is not None]
    differing = []
    for view in sorted(whole, key=lambda view: view.broker):
        refusals, differs = _judged(snapshot, question, view, excused)
        reasons += refusals
        if differs:
            differing.append(view.broker)
    if silent := sorted(set(expected) - {v.broker for v in whole}):
        message = f"broker {some(silent)} did not report its view"
        reasons.append(Reason(guard, Verdict.UNKNOWN, message))
    return tuple(reasons) or (_agreed(expected, differing),), differing


def _expected(snapshot: Snapshot, away: frozenset[int]) -> list[int]:
    """Brokers that have to report. One that is known to be down has no view; that it is down is for another guard."""
    brokers = [b for b in snapshot.brokers or () if b.id not in away]
    return [b.id for b in brokers if b.reachable is not False and (b.registered is not False or b.reachable)]


def _judged(
    snapshot: Snapshot, question: RestartQuestion, view: View, excused: frozenset[int]
) -> tuple[list[Reason], bool]:
    """(what this view refuses, whether it differs)."""
    reasons = []
    if gaps := list(_gaps(snapshot, view)):
        reasons.append(Reason(VIEWS_AGREE, Verdict.UNKNOWN, f"broker {view.broker}: {some(gaps, EXAMPLES)}"))
    unsettled = question.context.together | undeclared(snapshot, question)
    found = agreement(snapshot).disagreements.get(view.broker)
    differences = list(_differences(snapshot, view, found, unsettled))
    if differences and view.broker not in excused:
        message = f"the view of broker {view.broker} differs: {some(differences, EXAMPLES)}"
        reasons.append(Reason(VIEWS_AGREE, Verdict.DENY, message))
    return reasons, bool(differences)


def _agreed(expected: list[int], differing: list[int]) -> Reason:
    """Where no view refuses."""
    if differing:
        message = f"the views of broker {some(differing)} differ, which this run cures"
        return Reason(VIEWS_AGREE, Verdict.ALLOW, message)
    if not expected:
        return Reason(VIEWS_AGREE, Verdict.UNKNOWN, "no broker reported its view of the cluster")
    return Reason(VIEWS_AGREE, Verdict.ALLOW, f"the views of {many(len(expected), 'broker')} agree")


def _known_stale(snapshot: Snapshot, broker: int) -> bool:
    known = None not in (snapshot.views, snapshot.brokers, snapshot.partitions)
    return known and broker in agreement(snapshot).disagreements


def _zombie(snapshot: Snapshot, broker_id: int) -> bool:
    broker = snapshot.broker(broker_id)
    return broker is not None and broker.reachable is True and broker.registered is False


def _left_to_stale(snapshot: Snapshot, question: RestartQuestion, stale: list[int]) -> Iterator[Reason]:
    dead = not_served(snapshot, question)
    rows = [row for row in question.rows or () if row.tp not in dead]
    doubted = agreement(snapshot).doubted
    left = left_to_stale(snapshot, question.broker, rows, {*stale, *doubted}, question.context.together)
    for heir in sorted(set(left.values())):
        which = some([tp for tp, broker in left.items() if broker == heir], EXAMPLES)
        message = f"broker {heir} would then lead {which} without serving: its view is stale"
        if heir not in stale:
            message = f"broker {heir} would then lead {which}, but its view may be stale: {doubted[heir]}"
        yield Reason(VIEWS_AGREE, Verdict.DENY if heir in stale else Verdict.UNKNOWN, message)


def _undecided(snapshot: Snapshot, question: RestartQuestion) -> Iterator[Reason]:
    """Partitions that the target may have a replica of, and whose leader or epoch is not known, with the accounts of
    those on which brokers differ. `question.rows` name every partition whose replicas are not known."""
    found = agreement(snapshot)
    disputed = set(found.undecided)
    unknown = [
        row.tp
        for row in question.rows or ()
        if (row.leader is None or row.leader_epoch is None or row.tp in disputed) and _concerns(row, question.broker)
    ]
    if unknown:
        shown = [
            f"{tp}: {'; '.join(found.accounts_of(tp))}" if tp in disputed else f"{tp}" for tp in unknown[:EXAMPLES]
        ]
        more = f" and {len(unknown) - EXAMPLES} more" if len(unknown) > EXAMPLES else ""
        message = f"leader or epoch not known, or brokers differ and no majority decides: {', '.join(shown)}{more}"
        yield Reason(VIEWS_AGREE, Verdict.UNKNOWN, message)


def _concerns(row: PartitionRow, broker: int) -> bool:
    replicas = known_ids(row.replicas)
    return replicas is None or broker in replicas


def _gaps(snapshot: Snapshot, view: View) -> Iterator[str]:
    """What cannot be compared."""
    if unsure := [b.id for b in snapshot.brokers or () if b.registered is None]:
        yield f"whether broker {some(unsure)} is registered is not known"
    if snapshot.cluster.mode is None:
        yield "whether this is KRaft or ZooKeeper is not known"
    elif snapshot.cluster.mode is Mode.ZOOKEEPER:
        authority = snapshot.controller.id if snapshot.controller else None
        if authority is None or view.controller is None:
            yield "the controller is not known, or the view names none"
    for column in ("leader", "epoch"):
        if view.leaders is not None and view.leaders[column].null_count:
            yield f"its view has partitions whose {column} is not known"
    if view.broker in agreement(snapshot).unidentified:
        yield "its view has topics whose id is not known"


def _differences(
    snapshot: Snapshot, view: View, found: Disagreement | None, unsettled: frozenset[int]
) -> Iterator[str]:
    if found is None:
        return
    if (set(found.absent) | set(found.ghosts)) - unsettled:
        registered = sorted(b.id for b in snapshot.brokers or () if b.registered)
        yield f"members {some(sorted(view.members or ()))}, registered are {some(registered)}"
    if found.controller is not None:
        active = snapshot.controller.id if snapshot.controller else None
        yield f"controller {found.controller}, the active one is {active}"
    yield from found.examples(found.beliefs.num_rows)
