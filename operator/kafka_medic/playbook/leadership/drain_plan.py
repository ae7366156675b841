"""The plan of a playbook that moves leaderships off brokers whose machine is about to go, or back afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kafka_medic.cluster.snapshot import Broker, PartitionRow, Snapshot
from kafka_medic.guard.elect import able_to_lead
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.other_runs import OtherRun, standing_drains
from kafka_medic.guard.rows import known_ids
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.leadership.parameters import AWAY, BACK, drain_parameters
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.report.units import many
from kafka_medic.resources.playbook import Step
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import (
    MAX_INLINE_CHANGES,
    Elections,
    PartitionChange,
    Plan,
    PreferredElection,
    Reorders,
)
from kafka_medic.resources.vocabulary import ActionName, Guard

Order = tuple[PartitionRow, tuple[int, ...]]
"""A partition, and its replicas in the order that is wanted."""


def drain_plan(request: PlanRequest, step: Step) -> Plan | Refusal:
    """The whole plan, its digest included, or why not."""
    run, snapshot, others = request.run, request.snapshot, request.others
    able = able_to_lead(snapshot)
    if snapshot.partitions is None or snapshot.brokers is None or able is None:
        return unread(snapshot)
    settings = drain_parameters(request.playbook, step, run.spec.parameters)
    brokers = _named(run, settings.brokers, snapshot)
    if isinstance(brokers, Refusal):
        return brokers
    if settings.leaders == AWAY:
        able -= brokers | {b.id for b in snapshot.brokers if leaving(b) is not False}
        orders, stuck = _away(snapshot, brokers, able)
        if not orders:
            message = f"broker {some(sorted(brokers))} leads no partition that another replica could lead now"
            if stuck:
                message = (
                    f"{message}; leaders that stay on it: {len(stuck)}, for example {some([r.tp for r in stuck], 3)}"
                )
            return Refusal(message, nothing_to_do=not stuck, reasons=_waits(message) if stuck else ())
    else:
        if others is None:
            return Refusal("the changes of earlier drains could not be read", _waits("", Verdict.UNKNOWN))
        unfit = sorted(b for b in brokers if b not in able or leaving(snapshot.broker(b)) is not False)
        if unfit:
            message = f"broker {some(unfit)} cannot lead yet: it is down, catching up, or its node is going"
            return Refusal(message, _waits(message))
        orders, stuck = _back(snapshot, brokers, others), []
        if not orders:
            message = f"no order that a drain of broker {some(sorted(brokers))} changed is as the drain left it"
            return Refusal(message, nothing_to_do=True)
    return _plan(request, orders, stuck, settings.leaders, brokers)


def leaving(broker: Broker | None) -> bool | None:
    """Whether its node or Pod is about to be taken away; None when that is not known, or another broker runs there."""
    pod = None if broker is None else broker.own_pod
    if pod is None or pod.cordoned is None or pod.maintenance is None:
        return None
    return pod.cordoned or bool(pod.maintenance)


def _named(run: Remediation, text: str, snapshot: Snapshot) -> frozenset[int] | Refusal:
    """The brokers that the parameter `brokers` stands for."""
    if text == "cause":
        text = run.spec.cause.finding_id.rpartition("/broker-")[2] if run.spec.cause else ""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() for part in parts):
        return Refusal("set the parameter brokers to broker ids such as 1,3", permanent=True)
    wanted = frozenset(map(int, parts))
    if strangers := sorted(wanted - {b.id for b in snapshot.brokers or ()}):
        return Refusal(f"broker {some(strangers)} does not exist", permanent=True)
    return wanted


def _away(snapshot: Snapshot, brokers: frozenset[int], able: frozenset[int]) -> tuple[list[Order], list[PartitionRow]]:
    """What these brokers lead or are preferred for, with whoever leads least of those that could take over first."""
    rows = list(snapshot.rows())
    load = Counter(row.leader for row in rows if row.leader is not None and row.leader >= 0)
    orders: list[Order] = []
    stuck: list[PartitionRow] = []
    for row in rows:
        if not row.replicas or (row.leader not in brokers and row.replicas[0] not in brokers):
            continue
        isr = known_ids(row.isr)
        could = [r for r in row.replicas if r in able and isr is not None and r in isr]
        if not could or row.reassigning is not False:
            stuck.append(row)
            continue
        first = row.leader if row.leader in could else min(could, key=lambda b: (load[b], b))
        load[first] += row.leader != first
        rest = [r for r in row.replicas if r != first and r not in brokers]
        last = [r for r in row.replicas if r != first and r in brokers]
        orders.append((row, (first, *rest, *last)))
    return orders, stuck


def _back(snapshot: Snapshot, brokers: frozenset[int], others: Sequence[OtherRun]) -> list[Order]:
    """Where the order is still the one that a drain of these brokers left: the order before it."""
    left = standing_drains(others)
    found: list[Order] = []
    for row in snapshot.rows():
        change = left.get((row.topic, row.partition))
        if change is None or tuple(change.replicas) != row.replicas or row.reassigning is not False:
            continue
        if change.replicas_before[0] in brokers:
            found.append((row, tuple(change.replicas_before)))
    return found


def _plan(
    request: PlanRequest, orders: list[Order], stuck: list[PartitionRow], leaders: str, brokers: frozenset[int]
) -> Plan:
    here = orders[:MAX_INLINE_CHANGES]
    reorders = tuple(
        PartitionChange(topic=row.topic, partition=row.partition, replicas_before=row.replicas, replicas=order)
        for row, order in here
        if row.replicas is not None and row.replicas != order
    )
    by_place: dict[tuple[int, str], list[int]] = {}
    for row, order in here:
        if row.leader != order[0]:
            by_place.setdefault((order[0], row.topic), []).append(row.partition)
    elections = tuple(
        PreferredElection(broker=broker, topic=topic, partitions=tuple(sorted(numbers)))
        for (broker, topic), numbers in sorted(by_place.items())
    )
    moved = sum(len(e.partitions) for e in elections)
    where = "off" if leaders == AWAY else "back to"
    lines = [
        f"move {many(moved, 'leadership')} {where} broker {some(sorted(brokers))}; no data moves",
        f"the replica order of {many(len(reorders), 'partition')} changes, so that Kafka does not move the leaders "
        "back",
    ]
    takers = Counter({b: sum(len(e.partitions) for e in elections if e.broker == b) for b, _ in by_place})
    lines += [f"  broker {broker} leads {count} more" for broker, count in sorted(takers.items())]
    if stuck:
        lines.append(
            f"leaders that stay, because no other replica can take over: {len(stuck)}: {some([r.tp for r in stuck], 5)}"
        )
    if len(orders) > len(here):
        lines.append(
            f"{len(orders) - len(here)} more need a further run with its own approval, because one plan "
            f"holds {MAX_INLINE_CHANGES} partitions; keep the Pod until then"
        )
    words = {
        ActionName.REORDER_REPLICAS: f"change the order of the replicas of {many(len(reorders), 'partition')}",
        ActionName.ELECT_PREFERRED_LEADERS: (
            f"elect the leaders of {many(moved, 'partition')}, in batches, each of which must serve"
        ),
    }
    plan = request.draft(
        Reorders(reorders=reorders, reordered_for_good=True if leaders == BACK else None),
        Elections(elections=elections),
        words=words,
        summary="\n".join(lines)[:8000],
        partitions=len(here),
        moves=0,
    )
    return request.sealed(plan)


def _waits(message: str, verdict: Verdict = Verdict.WAIT) -> tuple[Reason, ...]:
    return (Reason(Guard.PRECONDITIONS_HOLD, verdict, message),)
