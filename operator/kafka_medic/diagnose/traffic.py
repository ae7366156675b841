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

__all__ = ["GROWTH_SCHEMA", "WINDOW", "Growth", "follow_growth"]

WINDOW = 600.0
"""Seconds. Producers write in bursts, and a plan moves leaders for hours."""

_OF = [
    column("topic", pa.string(), nullable=False),
    column("partition", pa.int32(), nullable=False),
    column("topicId", pa.string()),
]
GROWTH_SCHEMA: pa.Schema = pa.schema(
    [
        *_OF,
        column("offsets", pa.float64(), nullable=False),
        column("bytes", pa.float64()),
        column("cleaned", pa.bool_()),
    ]
)
"""Per second: offsets, and the bytes that the log became larger by; null where its start moved, since then retention
deleted some, or where its size was not known. `cleaned`: it got offsets and no bytes, as a compacted log may."""
_SINCE: pa.Schema = pa.schema(
    [
        *_OF,
        column("logEnd", pa.int64(), nullable=False),
        column("logStart", pa.int64()),
        column("sizeBytes", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """`found`: GROWTH_SCHEMA, of the last whole WINDOW; None until there was one. `since`: the logs where the present
    window began `seconds` ago. `silent`: seconds since any broker reported traffic."""

    found: pa.Table | None = None
    since: pa.Table | None = None
    seconds: float = 0.0
    silent: float = 0.0


def follow_growth(growth: Growth, p: Partitions, snapshot: Snapshot, passed: float) -> Growth:
    """After one more observation; passed: seconds since the one before. Nothing is kept of a cluster whose brokers
    report no traffic. A log that became shorter, or whose topic has another id, has no rate."""
    told = any(b.bytes_in_rate is not None for b in snapshot.brokers or ())
    silent = 0.0 if told else growth.silent + passed
    if silent >= WINDOW or (growth.since is None and not told):
        return Growth()
    seconds = growth.seconds + passed
    if growth.since is None:
        return Growth(since=_logs(p, snapshot))
    if seconds >= WINDOW:
        return Growth(_between(growth.since, p, snapshot, seconds), _logs(p, snapshot), silent=silent)
    return replace(growth, seconds=seconds, silent=silent)


def _logs(p: Partitions, snapshot: Snapshot) -> pa.Table:
    assert snapshot.partitions is not None  # `p` was read from them
    known = np.flatnonzero(p.log_end.known & (p.log_end.values >= 0))
    return snapshot.partitions.select(_SINCE.names).take(known).cast(_SINCE)


def _between(since: pa.Table, p: Partitions, snapshot: Snapshot, seconds: float) -> pa.Table:
    table = snapshot.partitions
    assert table is not None
    if not len(p):
        return GROWTH_SCHEMA.empty_table()
    row = p.rows_of(since["topic"], numbers(since["partition"]).values)
    there, row = row >= 0, np.maximum(row, 0)
    grown = p.log_end.values[row] - numbers(since["logEnd"]).values
    equal: Any = pc.equal(table["topicId"].take(row), since["topicId"])
    same: Any = pc.fill_null(equal, True)
    kept = np.flatnonzero(there & p.log_end.known[row] & (grown >= 0) & np.asarray(same))
    size, size_then, start_then = numbers(table["sizeBytes"]), numbers(since["sizeBytes"]), numbers(since["logStart"])
    row, grown = row[kept], grown[kept]
    added = size.values[row] - size_then.values[kept]
    whole = p.log_start.known[row] & start_then.known[kept] & (p.log_start.values[row] == start_then.values[kept])
    whole &= size.known[row] & size_then.known[kept]
    cleaned = whole & (grown > 0) & (added <= 0)
    columns: Any = [
        *(since[name].take(kept) for name in ("topic", "partition", "topicId")),
        pa.array(grown / seconds, pa.float64()),
        pa.array(added / seconds, pa.float64(), mask=~whole | cleaned),
        pa.array(cleaned),
    ]
    return pa.table(columns, schema=GROWTH_SCHEMA)
