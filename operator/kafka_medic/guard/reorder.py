"""May the replicas of these partitions be put into another order now, so that another of them is preferred?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.guard.elect import judge_elect
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.freshness import MAX_AGE
from kafka_medic.guard.verdict import Judgement, Reason, Verdict, judge
from kafka_medic.resources.vocabulary import Guard

Orders = Mapping[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]]
"""By partition: its replicas as the plan saw them, and as it wants them."""


def judge_reorder(snapshot: Snapshot, orders: Orders, now: datetime, *, max_age: float = MAX_AGE) -> Judgement:
    """Every guard on electing whoever would come first, asked as if the new order were there already, and that each
    partition is as the plan saw it or wants it. Nothing but the order may change."""
    elected = judge_elect(_as_wanted(snapshot, orders), now, set(orders), max_age=max_age)
    return judge([*elected.reasons, *_preconditions_hold(snapshot, orders)])


def _preconditions_hold(snapshot: Snapshot, orders: Orders) -> tuple[Reason, ...]:
    guard = Guard.PRECONDITIONS_HOLD
    if snapshot.partitions is None:
        return (Reason(guard, Verdict.UNKNOWN, "the partitions are not known"),)
    if wrong := [tp for tp, (before, after) in orders.items() if sorted(before) != sorted(after)]:
        return (Reason(guard, Verdict.DENY, f"the plan changes more than the order of {some(wrong)}"),)
    rows = {row.tp: row for row in snapshot.rows(set(orders))}
    drifted, unknown = [], []
    for tp, wanted in orders.items():
        row = rows.get(tp)
        if row is None or (row.replicas is not None and row.replicas not in wanted):
            drifted.append(tp)
        elif row.replicas is None:
            unknown.append(tp)
    if drifted:
        return (Reason(guard, Verdict.DENY, f"drift since the plan: {some(drifted)}"),)
    if unknown:
        return (Reason(guard, Verdict.UNKNOWN, f"the replicas are not known: {some(unknown)}"),)
    return (Reason(guard, Verdict.ALLOW, "no partition changed since the plan"),)


def _as_wanted(snapshot: Snapshot, orders: Orders) -> Snapshot:
    table = snapshot.partitions
    if table is None:
        return snapshot
    keys = zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True)
    wanted = {tuple(tp): list(after) for tp, (_, after) in orders.items()}
    column = [wanted.get(key, now) for key, now in zip(keys, table["replicas"].to_pylist(), strict=True)]
    index = table.schema.get_field_index("replicas")
    field = table.schema.field(index)
    return replace(snapshot, partitions=table.set_column(index, field, pa.array(column, field.type)))
