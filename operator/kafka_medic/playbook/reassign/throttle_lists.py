"""The lists of throttled replicas of a topic: those of the wave in flight and no others, and never long ones.

What is listed counts as copying whether it is in sync or not, so a replica that has caught up would take of the rate
what is left to copy needs; and it would be held back if it fell behind later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from kafka_medic.plan.model import Plan as Placement
from kafka_medic.resources.remediation_plan import PartitionChange

LEADER_LIST = "leader.replication.throttled.replicas"
FOLLOWER_LIST = "follower.replication.throttled.replicas"
MAX_LIST_CHARACTERS = 4000
"""Kafka overflows on very long ones (KAFKA-17993). A longer one becomes `*`, the whole topic."""
ROOM = 500
"""Of these, for what somebody else has in the list."""


def listed(changes: Iterable[PartitionChange], name: str, existing: str | None) -> str:
    """`partition:broker,...` as Kafka's own tool writes it, with what somebody else had there kept."""
    if existing == "*":
        return "*"
    pairs = [f"{c.partition}:{b}" for c in changes for b in _throttled(name, c.replicas_before, c.replicas)]
    text = ",".join(([existing] if existing else []) + pairs)
    return text if len(text) <= MAX_LIST_CHARACTERS else "*"


def cut(placement: Placement) -> Placement:
    """The same plan in waves of which no list of a topic becomes too long: of a large topic so many partitions go at a
    time."""
    columns = ("wave", "topic", "partition", "replicasBefore", "replicas")
    full: dict[tuple[int, str], tuple[int, int, int]] = {}
    parts: list[int] = []
    for wave, topic, partition, before, after in zip(
        *(placement.table.column(name).to_pylist() for name in columns), strict=True
    ):
        part, leaders, followers = full.get((wave, topic), (0, 0, 0))
        leads, follows = (
            sum(len(f"{partition}:{b},") for b in _throttled(name, before, after))
            for name in (LEADER_LIST, FOLLOWER_LIST)
        )
        if max(leaders + leads, followers + follows) > MAX_LIST_CHARACTERS - ROOM and leaders + followers:
            part, leaders, followers = part + 1, 0, 0
        full[wave, topic] = part, leaders + leads, followers + follows
        parts.append(part)
    if not any(parts):
        return placement
    waves = placement.table.column("wave").to_numpy().astype(np.int64)
    keys = waves * (max(parts) + 1) + np.array(parts)
    _, numbered = np.unique(keys, return_inverse=True)
    where = placement.table.schema.get_field_index("wave")
    field = placement.table.schema.field(where)
    table = placement.table.set_column(where, field, pa.array(numbered.astype(np.int32)))
    return replace(placement, table=table, summary=replace(placement.summary, waves=int(numbered.max()) + 1))


def _throttled(name: str, before: Sequence[int], after: Sequence[int]) -> Sequence[int]:
    """Who sends, or who receives."""
    return before if name == LEADER_LIST else [b for b in after if b not in before]
