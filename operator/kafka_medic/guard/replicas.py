"""Would the partitions survive it? ISR against min.insync.replicas, and reassignments."""

from __future__ import annotations

from kafka_medic.cluster.elements import TOPIC, settings_unread
from kafka_medic.cluster.min_isr import least_to_keep
from kafka_medic.cluster.snapshot import PartitionRow, Snapshot
from kafka_medic.guard.context import RestartQuestion
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.rows import known_ids, target_of
from kafka_medic.guard.stuck import undeclared
from kafka_medic.guard.unserved import cannot_catch_up, unserved
from kafka_medic.guard.verdict import Reason, Verdict
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
    guard, rows, broker = ISR_STAYS_ABOVE_MIN, question.rows, question.broker
    away = question.context.together | {broker}
    gone = undeclared(snapshot, question)
    if rows is None:
        return (Reason(guard, Verdict.UNKNOWN, "the partitions are not known"),)
    waiting, apart = unserved(snapshot, question), cannot_catch_up(snapshot, question).get(broker, ())
    unknown: list[str] = []
    thin: dict[str, str] = {}
    below: list[str] = []
    concerned = 0
    for row in rows:
        if not _concerns(row, broker):
            continue
        concerned += 1
        target, isr, least = target_of(row), known_ids(row.isr), least_to_keep(snapshot, row, away)
        if target is None or isr is None or least is None:
            unknown.append(f"{row.tp} ({_missing(snapshot, row, least)})")
            continue
        least = max(least, 1)
        left = len((isr & target) - away)
        if len(target) <= least:
            thin.setdefault(row.topic, f"{row.topic} ({len(target)} replicas, min.insync.replicas {least})")
        elif gone and not (isr & target) - away - gone:
            below.append(f"{row.tp} would have nobody live in sync")
        elif left < least and row.tp not in waiting and not (left and row.tp in apart and not isr & away):
            below.append(f"{row.tp} would have {left} in sync and needs {least}")
    reasons = []
    if thin:
        told = f"topics with no replica to spare: {some(list(thin.values()))}"
        way_out = "run raise-replication-factor on them first"
        reasons.append(Reason(guard, Verdict.DENY, f"{told}; {way_out}"))
    if below:
        reasons.append(Reason(guard, Verdict.DENY, f"without broker {some(sorted(away))}, {some(below)}"))
    if unknown:
        reasons.append(Reason(guard, Verdict.UNKNOWN, f"not known: {some(unknown)}"))
    if reasons:
        return tuple(reasons)
    told = f"{concerned - len(waiting)} partitions on broker {broker} keep min.insync.replicas without it"
    if waiting:
        told += f"; no broker serves {some(sorted(waiting))} before it restarts"
    return (Reason(guard, Verdict.ALLOW, told if concerned else f"broker {broker} holds no replica"),)


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
        reasons.append(Reason(guard, Verdict.WAIT, message, retry_after=30))
    if elsewhere:
        message = f"being reassigned elsewhere on the cluster: {some(elsewhere)}"
        reasons.append(Reason(guard, Verdict.WAIT, message, retry_after=30))
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
