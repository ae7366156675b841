"""Would the partitions survive it? ISR against min.insync.replicas, and reassignments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_medic.cluster.elements import TOPIC, settings_unread
from kafka_medic.cluster.min_isr import least_to_keep
from kafka_medic.cluster.snapshot import PartitionRow, Snapshot, TopicPartition
from kafka_medic.guard.context import RestartQuestion
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.rows import known_ids, target_of
from kafka_medic.guard.stuck import undeclared
from kafka_medic.guard.unserved import NONE, cannot_catch_up, unserved
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Guard

ISR_STAYS_ABOVE_MIN = Guard.ISR_STAYS_ABOVE_MIN
NO_REASSIGNMENT = Guard.NO_REASSIGNMENT


def isr_stays_above_min(snapshot: Snapshot, question: RestartQuestion) -> tuple[Reason, ...]:
    """For every partition with a replica on the broker: |ISR without it, and without those that the run has away
    already| >= max(min.isr, 1), counted on the target set of a reassignment. No more replicas than min.isr is refused
    even while the partition could spare the broker at this moment, since it never has one to spare. Where brokers are
    down that a stuck controller has left in the ISR, somebody live has to remain in it as well. For a partition that
    the target leads and does not serve, it is enough that a fit broker leads next (`unserved`). One that is below its
    minimum already loses nothing by the restart of a target that cannot catch up before (`cannot_catch_up`)."""
    guard, broker = ISR_STAYS_ABOVE_MIN, question.broker
    if question.rows is None:
        return (Reason(guard, Verdict.UNKNOWN, "the partitions are not known"),)
    loss = _Loss(
        question.context.together | {broker},
        undeclared(snapshot, question),
        unserved(snapshot, question),
        cannot_catch_up(snapshot, question).get(broker, NONE),
    )
    rows = [row for row in question.rows if _concerns(row, broker)]
    unknown: list[str] = []
    thin: dict[str, str] = {}
    below: list[str] = []
    for row in rows:
        target, isr, least = target_of(row), known_ids(row.isr), least_to_keep(snapshot, row, loss.away)
        if target is None or isr is None or least is None:
            unknown.append(f"{row.tp} ({_missing(snapshot, row, least)})")
            continue
        least = max(least, 1)
        if len(target) <= least:
            thin.setdefault(row.topic, f"{row.topic} ({many(len(target), 'replica')}, min.insync.replicas {least})")
        elif short := loss.shortfall(row.tp, target, isr, least):
            below.append(f"{row.tp} would have {short}")
    if reasons := tuple(_refusals(list(thin.values()), below, unknown, loss.away)):
        return reasons
    if not rows:
        return (Reason(guard, Verdict.ALLOW, f"broker {broker} holds no replica"),)
    message = (
        f"{many(len(rows) - len(loss.unserved), 'partition')} on broker {broker} keep min.insync.replicas without it"
    )
    if loss.unserved:
        message += f"; no broker serves {some(sorted(loss.unserved))} before it restarts"
    return (Reason(guard, Verdict.ALLOW, message),)


@dataclass(frozen=True, slots=True)
class _Loss:
    """What a restart takes from the ISRs. `away`: the target, and brokers that the run has away already. `gone`: down,
    and in the ISR all the same. `unserved`: partitions that the target leads and does not serve. `behind`: partitions
    of which the target is out of the ISR until its restart."""

    away: frozenset[int]
    gone: frozenset[int]
    unserved: frozenset[TopicPartition]
    behind: frozenset[TopicPartition]

    def shortfall(self, tp: TopicPartition, target: frozenset[int], isr: frozenset[int], least: int) -> str | None:
        """What the partition would have in sync, where that is too little; None where it is enough."""
        staying = (isr & target) - self.away
        if self.gone and not staying - self.gone:
            return "no live replica in sync"
        if len(staying) >= least or tp in self.unserved:
            return None
        # Below its minimum already, and the restart takes nobody from the ISR.
        if staying and tp in self.behind and not isr & self.away:
            return None
        return f"{len(staying)} in sync (required: {least})"


def _refusals(thin: list[str], below: list[str], unknown: list[str], away: frozenset[int]) -> Iterator[Reason]:
    guard = ISR_STAYS_ABOVE_MIN
    if thin:
        way_out = "first run raise-replication-factor"
        yield Reason(guard, Verdict.DENY, f"topics without a spare replica: {some(thin)}; {way_out}")
    if below:
        yield Reason(guard, Verdict.DENY, f"without broker {some(sorted(away))}, {some(below)}")
    if unknown:
        yield Reason(guard, Verdict.UNKNOWN, f"not known: {some(unknown)}")


def no_reassignment(_: Snapshot, question: RestartQuestion) -> tuple[Reason, ...]:
    """No reassignment anywhere on the cluster: one on this broker's partitions needs it, and one elsewhere is
    somebody at work."""
    guard, rows, broker = NO_REASSIGNMENT, question.rows, question.broker
    if rows is None:
        return (Reason(guard, Verdict.UNKNOWN, "the partitions are not known"),)
    unknown = [row.tp for row in rows if target_of(row) is None]
    moving = [row for row in rows if row.adding or row.removing]
    here = [row.tp for row in moving if _concerns(row, broker)]
    elsewhere = [row.tp for row in moving if not _concerns(row, broker)]
    reasons = []
    if here:
        message = f"being reassigned with broker {broker} in it: {some(here)}"
        reasons.append(Reason(guard, Verdict.WAIT, message))
    if elsewhere:
        message = f"being reassigned elsewhere on the cluster: {some(elsewhere)}"
        reasons.append(Reason(guard, Verdict.WAIT, message))
    if unknown:
        message = f"whether a reassignment is in flight is not known for {some(unknown)}"
        reasons.append(Reason(guard, Verdict.UNKNOWN, message))
    return tuple(reasons) or (Reason(guard, Verdict.ALLOW, "no reassignment is in flight"),)


def _concerns(row: PartitionRow, broker: int) -> bool:
    """The broker holds a replica, or may: a replica list that is not known may name anybody."""
    if known_ids(row.replicas) is None:
        return True
    return any(broker in (ids or ()) for ids in (row.replicas, row.isr, row.adding, row.removing))


def _missing(snapshot: Snapshot, row: PartitionRow, least: int | None) -> str:
    named = {"replicas": row.replicas, "isr": row.isr, "adding": row.adding, "removing": row.removing}
    missing = [name for name, ids in named.items() if known_ids(ids) is None]
    if least is None:
        why = settings_unread(snapshot, TOPIC, row.topic)
        missing.append(f"minIsr: {why}" if why else "minIsr")
    return ", ".join(missing)
