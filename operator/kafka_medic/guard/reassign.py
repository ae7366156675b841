"""May these replicas be added now, and those of brokers that are gone be given up for them?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kafka_medic.cluster.elements import failed_directories
from kafka_medic.cluster.snapshot import Broker, Mode, PartitionRow, Snapshot, TopicPartition
from kafka_medic.guard import fit
from kafka_medic.guard.evaluate import evaluate, some
from kafka_medic.guard.freshness import MAX_AGE, SOURCES_FRESH, sources_fresh
from kafka_medic.guard.rows import known_ids, troubled_rows
from kafka_medic.guard.verdict import Judgement, Reason, Verdict
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Guard

Move = tuple[str, int, Sequence[int], Sequence[int]]
"""(topic, partition, replicas before, replicas after): as the plan was approved."""

NEEDED = ("kafka", "views", "reassignments")


@dataclass(frozen=True, slots=True)
class _Question:
    """The snapshot with what is asked of it, and the rows that matter, read once."""

    snapshot: Snapshot
    moves: Mapping[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]]
    factor: int
    rows: Mapping[TopicPartition, PartitionRow]
    troubled: tuple[PartitionRow, ...] | None
    replaced: frozenset[int] = frozenset()
    asked: frozenset[TopicPartition] = frozenset()

    def down(self, broker_id: int) -> bool | None:
        """Registered and answering is up; None when one of the two is not known and the other does not
        say."""
        broker = self.snapshot.broker(broker_id)
        if broker is None or broker.registered is False or broker.reachable is False:
            return True
        return False if broker.live else None


def judge_reassign(
    snapshot: Snapshot,
    moves: Sequence[Move],
    factor: int,
    now: datetime,
    max_age: float = MAX_AGE,
    replaced: Collection[int] | None = None,
    asked: Collection[TopicPartition] = (),
) -> Judgement:
    """All guards on sending, or going on with, a reassignment that adds replicas and removes none but those on brokers
    that it replaces; with `replaced` None it is about an effect that copies nothing. `asked`: partitions whose move may
    have been sent; any other reassignment in flight is somebody else's, also one to the planned set. What may pass by
    itself (a broker that is down, somebody else's reassignment) is Wait; a plan that no longer fits the cluster is
    Deny."""
    wanted = {TopicPartition(t, p): (tuple(before), tuple(after)) for t, p, before, after in moves}
    question = _Question(
        snapshot,
        wanted,
        factor,
        {r.tp: r for r in snapshot.rows(set(wanted))},
        troubled_rows(snapshot),
        frozenset(replaced or ()),
        frozenset(asked),
    )
    return evaluate(
        [
            (SOURCES_FRESH, lambda: sources_fresh(snapshot, now, _needed(question), max_age=max_age)),
            (Guard.CLUSTER_REACHABLE, lambda: cluster_reachable(snapshot)),
            (Guard.ENOUGH_LIVE_BROKERS, lambda: _enough_live_brokers(question)),
            (Guard.TARGETS_ALIVE, lambda: _targets_alive(question)),
            (fit.FIT_TO_RECEIVE, lambda: _fit(question)),
            (Guard.NO_FOREIGN_REASSIGNMENT, lambda: _no_foreign_reassignment(question)),
            (Guard.BROKERS_STABLE, lambda: brokers_stable(snapshot, question.replaced)),
            (Guard.PRECONDITIONS_HOLD, lambda: _preconditions_hold(question, len(moves))),
            *([] if replaced is None else [(Guard.REPLACED_BROKERS_DOWN, lambda: _replaced_brokers_down(question))]),
        ]
    )


def _needed(q: _Question) -> tuple[str, ...]:
    """Sources. What a broker that is up replaces, its own word on its log directories has to say."""
    up = any(b.live and b.id in q.replaced for b in q.snapshot.brokers or ())
    return (*NEEDED, "log-dirs") if up else NEEDED


def cluster_reachable(snapshot: Snapshot) -> Reason:
    """Some broker answers."""
    guard, brokers = Guard.CLUSTER_REACHABLE, snapshot.brokers
    if not brokers:
        return Reason(guard, Verdict.UNKNOWN, "the brokers are not known")
    answering = [b.id for b in brokers if b.reachable is True]
    if answering:
        return Reason(guard, Verdict.ALLOW, many(len(answering), "broker answers", "brokers answer"))
    if any(b.reachable is None for b in brokers):
        return Reason(guard, Verdict.UNKNOWN, "whether any broker answers is not known")
    return Reason(guard, Verdict.WAIT, "no broker answers")


def _enough_live_brokers(q: _Question) -> Reason:
    guard, factor, brokers = Guard.ENOUGH_LIVE_BROKERS, q.factor, q.snapshot.brokers
    if brokers is None:
        return Reason(guard, Verdict.UNKNOWN, "the brokers are not known")
    states = [q.down(b.id) for b in brokers]
    live, unsure = states.count(False), states.count(None)
    text = f"{many(live, 'live broker')} (required by the factor: {factor})"
    if live >= factor:
        return Reason(guard, Verdict.ALLOW, text)
    if live + unsure >= factor:
        return Reason(guard, Verdict.UNKNOWN, f"{text}; the state of {many(unsure, 'more broker')} is not known")
    if len(brokers) >= factor:
        return Reason(guard, Verdict.WAIT, f"{text}; start the brokers that are down")
    return Reason(guard, Verdict.DENY, f"{text}; add brokers, or lower the expected factor")


def _targets_alive(q: _Question) -> tuple[Reason, ...]:
    """Every broker that is to hold a replica lives, and so does each partition's leader, whom the new ones copy from:
    one whose view is stale would not let them. Whoever is in sync hears of a new leader epoch."""
    guard = Guard.TARGETS_ALIVE
    if q.snapshot.brokers is None or q.snapshot.partitions is None:
        return (Reason(guard, Verdict.UNKNOWN, "the brokers or the partitions are not known"),)
    listed = {b.id for b in q.snapshot.brokers}
    reasons = [*_targets(q, listed), *_leaders(q)]
    leaders = sorted({r.leader for r in q.rows.values() if r.leader is not None} & listed)
    for leader in leaders:
        reasons += fit.own_view(q.snapshot, leader, guard, "so new replicas may not be able to copy from it")
    for follower in sorted(_of_a_new_epoch(q) - set(leaders)):
        reasons += fit.own_view(q.snapshot, follower, guard, "so it would fall out of the ISR")
    return tuple(reasons) or (
        Reason(guard, Verdict.ALLOW, "every target is live, and every leader has current metadata"),
    )


def _targets(q: _Question, listed: set[int]) -> Iterator[Reason]:
    guard = Guard.TARGETS_ALIVE
    targets = {b for _, after in q.moves.values() for b in after}
    if strangers := sorted(targets - listed):
        message = f"the plan puts replicas on broker {some(strangers)}, which is not part of the cluster"
        yield Reason(guard, Verdict.DENY, message)
    if dead := sorted(b for b in targets & listed if q.down(b) is True):
        yield Reason(guard, Verdict.WAIT, f"the plan needs broker {some(dead)}, which is down")
    if unsure := sorted(b for b in targets & listed if q.down(b) is None):
        yield Reason(guard, Verdict.UNKNOWN, f"whether broker {some(unsure)} is live is not known")


def _leaders(q: _Question) -> Iterator[Reason]:
    guard = Guard.TARGETS_ALIVE
    leaderless, unknown = [], []
    for tp, row in q.rows.items():
        if row.leader is None or (row.leader >= 0 and q.down(row.leader) is None):
            unknown.append(tp)
        elif row.leader < 0 or q.down(row.leader):
            leaderless.append(tp)
    if leaderless:
        yield Reason(guard, Verdict.WAIT, f"no live leader to copy from: {some(leaderless)}")
    if unknown:
        yield Reason(guard, Verdict.UNKNOWN, f"whether a live broker leads is not known: {some(unknown)}")


def _of_a_new_epoch(q: _Question) -> set[int]:
    """Brokers that are in sync with a partition whose leader epoch a move raises, and that keep their replica. With
    ZooKeeper every reassignment raises it, with KRaft one that takes a replica away (PartitionChangeBuilder). A
    follower that does not hear of it is refused by its leader."""
    found: set[int] = set()
    for tp, (before, after) in q.moves.items():
        row = q.rows.get(tp)
        due = row is not None and not row.reassigning and set(row.replicas or ()) != set(after)
        if row is not None and due and (q.snapshot.cluster.mode is Mode.ZOOKEEPER or set(before) - set(after)):
            found |= (known_ids(row.isr) or frozenset()) & set(after)
    return found


def _fit(q: _Question) -> tuple[Reason, ...]:
    """Of the brokers that get a replica which they do not hold yet."""
    added = {b for before, after in q.moves.values() for b in set(after) - set(before)}
    return fit.fit_to_receive(q.snapshot, added, list(q.moves))


def _no_foreign_reassignment(q: _Question) -> tuple[Reason, ...]:
    """Any reassignment in flight is exactly one of these moves, and was asked for: it leads to the planned set, and
    removes nothing but what the plan replaces."""
    guard = Guard.NO_FOREIGN_REASSIGNMENT
    if q.troubled is None:
        return (Reason(guard, Verdict.UNKNOWN, "the partitions are not known"),)
    foreign, unknown = [], []
    for row in q.troubled:
        if known_ids(row.adding) is None or known_ids(row.removing) is None:
            unknown.append(row.tp)
        elif row.reassigning and not _is_ours(q, row):
            foreign.append(row.tp)
    reasons = []
    if foreign:
        message = f"another client is reassigning {some(foreign)}"
        reasons.append(Reason(guard, Verdict.WAIT, message))
    if unknown:
        message = f"whether a reassignment is in flight is not known for {some(unknown)}"
        reasons.append(Reason(guard, Verdict.UNKNOWN, message))
    return tuple(reasons) or (Reason(guard, Verdict.ALLOW, "no other client is reassigning partitions"),)


def _is_ours(q: _Question, row: PartitionRow) -> bool:
    move = q.moves.get(row.tp)
    if move is None or row.tp not in q.asked or not set(row.removing or ()) <= q.replaced:
        return False
    return carries_out(row, *move)


def carries_out(row: PartitionRow, before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether the reassignment in flight leads from the one replica set to the other: it adds and removes nothing else.
    Kafka lists the replicas being added, and those being removed, among the replicas (KIP-455)."""
    replicas, adding, removing = set(row.replicas or ()), set(row.adding or ()), set(row.removing or ())
    if row.replicas is None or not removing <= set(before) - set(after) or not adding <= set(after) - set(before):
        return False
    return replicas | adding == set(after) | removing


def _replaced_brokers_down(q: _Question) -> tuple[Reason, ...]:
    """What is replaced is gone by two witnesses, who can contradict each other, and is in no ISR of these partitions.
    Of a broker that is down: the controller has no registration of it, and it does not answer. A broker that is cut off
    from the operator alone still serves clients. Of a broker that is up: it says itself that the replica's log
    directory has failed, and the leader has it out of the ISR."""
    guard, brokers = Guard.REPLACED_BROKERS_DOWN, q.snapshot.brokers
    if not q.replaced:
        return (Reason(guard, Verdict.ALLOW, "no broker is replaced"),)
    if brokers is None or q.snapshot.partitions is None:
        return (Reason(guard, Verdict.UNKNOWN, "the brokers or the partitions are not known"),)
    named = sorted((b for b in brokers if b.id in q.replaced), key=lambda b: b.id)
    reasons = [reason for broker in named if (reason := _still_there(q, broker)) is not None]
    isrs = {row.tp: known_ids(row.isr) for row in q.rows.values()}
    if unread := [tp for tp, isr in isrs.items() if isr is None]:
        reasons.append(Reason(guard, Verdict.UNKNOWN, f"the ISR is not known: {some(unread)}"))
    if held := [tp for tp, isr in isrs.items() if isr and isr & q.replaced]:
        reasons.append(Reason(guard, Verdict.WAIT, f"a broker that is replaced is still in the ISR of {some(held)}"))
    up = [b.id for b in named if b.live]
    down = sorted(q.replaced - set(up))
    gone = [f"broker {some(down)} is not registered and does not answer"] if down else []
    gone += [f"broker {some(up)} reports that the log directory of these replicas has failed"] if up else []
    return tuple(reasons) or (Reason(guard, Verdict.ALLOW, "; ".join(gone)),)


def _still_there(q: _Question, broker: Broker) -> Reason | None:
    """Why what it holds of these partitions is not known to be gone."""
    guard = Guard.REPLACED_BROKERS_DOWN
    if broker.live and failed_directories(broker):
        if broker.offline_replicas is None:
            message = f"which replicas are on the failed log directory of broker {broker.id} is not known"
            return Reason(guard, Verdict.UNKNOWN, message)
        # While a reassignment removes a replica, its directory is not known, and no foreign one is allowed.
        held = (
            tp
            for tp, row in q.rows.items()
            if broker.id in (row.replicas or ()) and broker.id not in (row.removing or ())
        )
        if served := sorted(tp for tp in held if tp not in broker.offline_replicas):
            message = f"broker {broker.id} has {some(served)} on a log directory that works"
            return Reason(guard, Verdict.DENY, message)
        return None
    if broker.registered:
        return Reason(guard, Verdict.DENY, f"broker {broker.id} is registered, so it is not to be replaced")
    if broker.reachable:
        return Reason(guard, Verdict.DENY, f"broker {broker.id} answers, so it may still serve clients")
    if broker.registered is None:
        return Reason(guard, Verdict.UNKNOWN, f"whether broker {broker.id} is registered is not known")
    if broker.reachable is None:
        message = (
            f"whether broker {broker.id} still answers clients is not known: its answer is no view of the cluster, or "
            "the operator has known no address of it since it started"
        )
        return Reason(guard, Verdict.UNKNOWN, message)
    return None


def brokers_stable(snapshot: Snapshot, but: Collection[int] = ()) -> tuple[Reason, ...]:
    """Every broker is registered, answers and recovers no log; those that the plan replaces are not asked about."""
    guard, brokers = Guard.BROKERS_STABLE, snapshot.brokers
    if brokers is None:
        return (Reason(guard, Verdict.UNKNOWN, "the brokers are not known"),)
    brokers = tuple(b for b in brokers if b.id not in but)
    down = [b.id for b in brokers if b.registered is False or b.reachable is False]
    recovering = [b.id for b in brokers if b.recovering is True]
    unknown = [b.id for b in brokers if b.id not in down and None in (b.registered, b.reachable, b.recovering)]
    reasons = []
    if down:
        reasons.append(Reason(guard, Verdict.WAIT, f"broker {some(down)} is down"))
    if recovering:
        message = f"broker {some(recovering)} is recovering its log"
        reasons.append(Reason(guard, Verdict.WAIT, message))
    if unknown:
        message = f"whether it is registered, answering and recovered is not known: broker {some(unknown)}"
        reasons.append(Reason(guard, Verdict.UNKNOWN, message))
    return tuple(reasons) or (Reason(guard, Verdict.ALLOW, "every broker is up"),)


def _preconditions_hold(q: _Question, given: int) -> tuple[Reason, ...]:
    """Each partition is as the plan found it, or on its way to where the plan takes it, or there."""
    guard = Guard.PRECONDITIONS_HOLD
    if given != len(q.moves):
        return (Reason(guard, Verdict.DENY, "the plan names a partition twice"),)
    if q.snapshot.partitions is None:
        return (Reason(guard, Verdict.UNKNOWN, "the partitions are not known"),)
    drifted, unknown = [], []
    for tp, (before, after) in q.moves.items():
        if len(set(after)) != len(after) or not set(before) - q.replaced <= set(after) or set(after) & q.replaced:
            drifted.append(f"{tp}: the plan {list(before)} -> {list(after)} does more than add replicas")
            continue
        if len(after) < len(before):
            drifted.append(f"{tp}: the plan {list(before)} -> {list(after)} leaves fewer replicas")
            continue
        row = q.rows.get(tp)
        if row is None:
            drifted.append(f"{tp} no longer exists")
        elif known_ids(row.replicas) is None or row.reassigning is None:
            unknown.append(tp)
        elif message := _drift(q, row, before, after):
            drifted.append(message)
    return tuple(_drift_reasons(drifted, unknown))


def _drift(q: _Question, row: PartitionRow, before: tuple[int, ...], after: tuple[int, ...]) -> str | None:
    replicas = row.replicas or ()
    if row.reassigning:
        return None if _is_ours(q, row) else f"{row.tp} is being reassigned to other replicas"
    if replicas == before or set(replicas) == set(after):
        return None
    return f"{row.tp} has replicas {list(replicas)}, the plan expects {list(before)}"


def _drift_reasons(drifted: list[str], unknown: list[TopicPartition]) -> Iterator[Reason]:
    guard = Guard.PRECONDITIONS_HOLD
    if drifted:
        yield Reason(guard, Verdict.DENY, f"drift since the plan: {some(drifted)}; plan again")
    if unknown:
        yield Reason(guard, Verdict.UNKNOWN, f"the replicas are not known: {some(unknown)}")
    if not drifted and not unknown:
        yield Reason(guard, Verdict.ALLOW, "every partition is as planned: unchanged, in progress or done")
