"""How fast the log of each partition grows, for whoever has to know which partitions make a broker busy.

Brokers report what clients send them as one number, and no partition's share of it. What each log grew by in WINDOW
seconds tells the shares. Both are kept apart: `playbook.leadership.traffic_plan` puts them together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.columns import Partitions, column, numbers
from kafka_medic.diagnose.log_ends import ENDS_SCHEMA

__all__ = ["GROWTH_SCHEMA", "WINDOW", "Growth", "follow_growth"]

WINDOW = 600.0
"""Seconds. Producers write in bursts, and a plan moves leaders for hours."""

GROWTH_SCHEMA: pa.Schema = pa.schema(
    [
        column("topic", pa.string(), nullable=False),
        column("partition", pa.int32(), nullable=False),
        column("topicId", pa.string()),
        column("perSecond", pa.float64(), nullable=False),
    ]
)
"""Offsets per second."""


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """`found`: GROWTH_SCHEMA, of the last whole WINDOW; None until there was one. `since`: log ends where the present
    window began `seconds` ago."""

    found: pa.Table | None = None
    since: pa.Table | None = None
    seconds: float = 0.0


def follow_growth(growth: Growth, p: Partitions, snapshot: Snapshot, passed: float) -> Growth:
    """After one more observation; passed: seconds since the one before. Nothing is kept of a cluster whose brokers
    report no traffic. A log that became shorter, or whose topic has another id, has no rate."""
    if all(b.bytes_in_rate is None for b in snapshot.brokers or ()):
        return Growth()
    seconds = growth.seconds + passed
    if growth.since is None or seconds >= WINDOW:
        ends = _ends(p, snapshot)
        if growth.since is None:
            return Growth(growth.found, ends)
        return Growth(_between(growth.since, p, snapshot, seconds), ends)
    return replace(growth, seconds=seconds)


def _ends(p: Partitions, snapshot: Snapshot) -> pa.Table:
    assert snapshot.partitions is not None  # `p` was read from them
    known = np.flatnonzero(p.log_end.known & (p.log_end.values >= 0))
    return snapshot.partitions.select(ENDS_SCHEMA.names).take(known).cast(ENDS_SCHEMA)


def _between(since: pa.Table, p: Partitions, snapshot: Snapshot, seconds: float) -> pa.Table:
    assert snapshot.partitions is not None
    if not len(p):
        return GROWTH_SCHEMA.empty_table()
    row = p.rows_of(since["topic"], numbers(since["partition"]).values)
    there, row = row >= 0, np.maximum(row, 0)
    grown = p.log_end.values[row] - numbers(since["logEnd"]).values
    equal: Any = pc.equal(snapshot.partitions["topicId"].take(row), since["topicId"])
    same: Any = pc.fill_null(equal, True)
    kept = np.flatnonzero(there & p.log_end.known[row] & (grown >= 0) & np.asarray(same))
    told = since.select(["topic", "partition", "topicId"]).take(kept)
    return told.append_column("perSecond", pa.array(grown[kept] / seconds, pa.float64())).cast(GROWTH_SCHEMA)
