"""May these partitions lose replicas now that others hold what they hold?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from kafka_medic.cluster.snapshot import PartitionRow, Snapshot, TopicPartition
from kafka_medic.guard import fit
from kafka_medic.guard.evaluate import evaluate, some
from kafka_medic.guard.freshness import MAX_AGE, sources_fresh
from kafka_medic.guard.reassign import NEEDED, brokers_stable, cluster_reachable
from kafka_medic.guard.rows import known_ids, troubled_rows
from kafka_medic.guard.verdict import Judgement, Reason, Verdict
from kafka_medic.resources.vocabulary import Guard

Removals = Mapping[TopicPartition, tuple[frozenset[int], frozenset[int]]]
"""By partition: its replicas before, and those of them that remain."""


def judge_removal(snapshot: Snapshot, removals: Removals, now: datetime, *, max_age: float = MAX_AGE) -> Judgement:
    """All guards on removing replicas. A partition that has lost them already is not asked about."""
    rows = {row.tp: row for row in snapshot.rows(set(removals))}
    left = {tp: both for tp, both in removals.items() if (r := rows.get(tp)) is None or not _done(r, both[1])}
    return evaluate(
        [
            (Guard.SOURCES_FRESH, lambda: sources_fresh(snapshot, now, NEEDED, max_age=max_age)),
            (Guard.CLUSTER_REACHABLE, lambda: cluster_reachable(snapshot)),
            (Guard.BROKERS_STABLE, lambda: brokers_stable(snapshot)),
            (Guard.NO_FOREIGN_REASSIGNMENT, lambda: _no_foreign_reassignment(snapshot, removals)),
            (Guard.REPLACEMENTS_IN_SYNC, lambda: _replacements_in_sync(snapshot, left, rows)),
            (Guard.FIT_TO_RECEIVE, lambda: _fit(snapshot, left, rows)),
            (Guard.PRECONDITIONS_HOLD, lambda: tuple(_preconditions_hold(snapshot, left, rows))),
        ]
    )


def _done(row: PartitionRow, remain: frozenset[int]) -> bool:
    return known_ids(row.replicas) == remain and not row.adding and not row.removing


def _replacements_in_sync(
    snapshot: Snapshot, left: Removals, rows: Mapping[TopicPartition, PartitionRow]
) -> tuple[Reason, ...]:
    """Every replica that remains is in the ISR, they are enough for min.insync.replicas, and the leader whose word this
    is has current metadata. So have the followers that remain: with a removal the leader's epoch changes, and who does
    not hear of that falls out of the ISR. One that is about to go does not count for min.insync.replicas."""
    guard = Guard.REPLACEMENTS_IN_SYNC
    if snapshot.partitions is None:
        return (Reason(guard, Verdict.UNKNOWN, "the partitions are not known"),)
    behind, few, unknown, leaders = [], [], [], set()
    followers: set[int] = set()
    for tp, (_, remain) in left.items():
        row = rows.get(tp)
        isr = None if row is None else known_ids(row.isr)
        if row is None or isr is None or row.leader is None or row.leader < 0 or row.min_isr is None:
            unknown.append(tp)
            continue
        leaders.add(row.leader)
        followers |= remain
        if not remain <= isr:
            behind.append(tp)
        if len(remain) < row.min_isr:
            few.append(tp)
    reasons = list(_too_few_that_stay(snapshot, left, rows))
    if few:
        message = f"fewer replicas than min.insync.replicas would remain: {some(few)}"
        reasons.append(Reason(guard, Verdict.DENY, message))
    if behind:
        reasons.append(Reason(guard, Verdict.WAIT, f"not every replica that remains is in sync: {some(behind)}"))
    if unknown:
        message = f"leader, ISR or min.insync.replicas not known: {some(unknown)}"
        reasons.append(Reason(guard, Verdict.UNKNOWN, message))
    for broker in sorted(leaders | followers):
        why = "so its ISR may not be the true one" if broker in leaders else "so it would fall out of the ISR"
        reasons += fit.own_view(snapshot, broker, guard, why)
    return tuple(reasons) or (Reason(guard, Verdict.ALLOW, "every replica that remains is in sync"),)


def _too_few_that_stay(
    snapshot: Snapshot, left: Removals, rows: Mapping[TopicPartition, PartitionRow]
) -> Iterator[Reason]:
    """Of the brokers that are about to go, where too few others of a partition would remain."""
    going = {b.id: why for b in snapshot.brokers or () if (why := tuple(fit.about_to_go(snapshot, b)))}
    needed: set[int] = set()
    for tp, (_, remain) in left.items():
        row = rows.get(tp)
        if row is not None and row.min_isr is not None and len(remain - going.keys()) < row.min_isr <= len(remain):
            needed |= remain & going.keys()
    for broker in sorted(needed):
        for r in going[broker]:
            yield Reason(Guard.REPLACEMENTS_IN_SYNC, r.verdict, f"{r.message}, and too few other replicas would remain")


def _fit(snapshot: Snapshot, left: Removals, rows: Mapping[TopicPartition, PartitionRow]) -> tuple[Reason, ...]:
    """Of the brokers that may lead where the leader goes."""
    heirs = {b for tp, (_, remain) in left.items() if tp in rows and rows[tp].leader not in remain for b in remain}
    return fit.fit_to_receive(snapshot, heirs, list(left))


def _no_foreign_reassignment(snapshot: Snapshot, removals: Removals) -> tuple[Reason, ...]:
    """Any reassignment in flight is exactly one of these removals."""
    guard, troubled = Guard.NO_FOREIGN_REASSIGNMENT, troubled_rows(snapshot)
    if troubled is None:
        return (Reason(guard, Verdict.UNKNOWN, "the partitions are not known"),)
    foreign, unknown = [], []
    for row in troubled:
        if row.reassigning is None:
            unknown.append(row.tp)
        elif row.reassigning and not _ours(row, removals):
            foreign.append(row.tp)
    reasons = []
    if foreign:
        reasons.append(Reason(guard, Verdict.WAIT, f"another client is reassigning {some(foreign)}"))
    if unknown:
        message = f"whether a reassignment is in flight is not known for {some(unknown)}"
        reasons.append(Reason(guard, Verdict.UNKNOWN, message))
    return tuple(reasons) or (Reason(guard, Verdict.ALLOW, "no other client is reassigning partitions"),)


def _ours(row: PartitionRow, removals: Removals) -> bool:
    before, remain = removals.get(row.tp, (frozenset(), frozenset()))
    return not row.adding and set(row.removing or ()) <= before - remain and remain <= set(row.replicas or ())


def _preconditions_hold(
    snapshot: Snapshot, left: Removals, rows: Mapping[TopicPartition, PartitionRow]
) -> Iterator[Reason]:
    """Each partition is as the plan expects it, or on its way to what remains."""
    guard = Guard.PRECONDITIONS_HOLD
    if snapshot.partitions is None:
        yield Reason(guard, Verdict.UNKNOWN, "the partitions are not known")
        return
    drifted, unknown = [], []
    for tp in left:
        row = rows.get(tp)
        if row is not None and (known_ids(row.replicas) is None or row.reassigning is None):
            unknown.append(tp)
        elif why := _drift(tp, row, left):
            drifted.append(why)
    if drifted:
        yield Reason(guard, Verdict.DENY, f"drift since the plan: {some(drifted)}; plan again")
    if unknown:
        yield Reason(guard, Verdict.UNKNOWN, f"the replicas are not known: {some(unknown)}")
    if not drifted and not unknown:
        yield Reason(guard, Verdict.ALLOW, "every partition is as planned: unchanged, in progress or done")


def _drift(tp: TopicPartition, row: PartitionRow | None, left: Removals) -> str | None:
    before, remain = left[tp]
    if not remain or not remain < before:
        return f"{tp}: the plan leaves {sorted(remain)} of {sorted(before)}"
    if row is None:
        return f"{tp} no longer exists"
    if row.reassigning:
        return None if _ours(row, left) else f"{tp} is being reassigned to other replicas"
    if set(row.replicas or ()) != before:
        return f"{tp} has replicas {list(row.replicas or ())}, the plan expects {sorted(before)}"
    return None
