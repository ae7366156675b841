"""How far consumer groups have read, observation by observation: whether their committed offsets move, and how fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.elements import group_unread
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.columns import Ints, Mask, Partitions, column, numbers, strings

STALLED_FOR = 120.0
"""Seconds: eight probes at the default interval, twenty-four times the default `auto.commit.interval.ms`."""
STABLE = "Stable"
"""The state of a group whose members are all there and know what they read (KIP-848: the same word)."""

PROGRESS_SCHEMA: pa.Schema = pa.schema(
    [
        column("group", pa.string(), nullable=False),
        column("topic", pa.string(), nullable=False),
        column("partition", pa.int32(), nullable=False),
        column("committed", pa.int64(), nullable=False),
        column("firstEnd", pa.int64(), nullable=False),
        column("logEnd", pa.int64(), nullable=False),
        column("seconds", pa.float64(), nullable=False),
        column("observations", pa.int32(), nullable=False),
        column("moved", pa.bool_(), nullable=False),
    ]
)
"""One row a committed offset of a Stable group on a partition that has a leader: for how many seconds and further
observations it has not changed, the log end when that began and now, and whether it moved within the last STALLED_FOR
seconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """The groups' progress after one more observation, and in offsets a second how fast those read that have moved."""

    progress: pa.Table
    paces: dict[str, float]


def follow(progress: pa.Table, p: Partitions, snapshot: Snapshot, passed: float) -> Followed:
    """A group that is not Stable (empty, rebalancing) and a partition without a leader, or with a log end that is not
    known, begin anew once they are. A group that was not read stays as it was."""
    if snapshot.groups is None:
        return Followed(progress, {})
    found = _followed(progress, p, snapshot.groups, passed)
    groups = strings(pc.unique(progress["group"])) if snapshot.unread else ()
    unread = [group for group in groups if _unread(snapshot, group)]
    if not unread:
        return found
    kept = progress.filter(pc.is_in(progress["group"], value_set=pa.array(unread, pa.string())))
    return Followed(pa.concat_tables([found.progress, kept]).combine_chunks(), found.paces)


def _unread(snapshot: Snapshot, group: str) -> bool:
    return group_unread(snapshot, group) is not None


def _followed(progress: pa.Table, p: Partitions, groups: pa.Table, passed: float) -> Followed:
    if not len(p) or not groups.num_rows:
        return Followed(PROGRESS_SCHEMA.empty_table(), {})
    row_of = p.rows_of(groups["topic"], numbers(groups["partition"]).values)
    committed = numbers(groups["committed"])
    in_state: Any = pc.fill_null(pc.equal(groups["state"], pa.scalar(STABLE)), pa.scalar(False))
    stable = np.asarray(in_state.to_numpy(), dtype=np.bool_)
    led = p.leader.known & (p.leader.values >= 0) & p.log_end.known
    use = np.flatnonzero((row_of >= 0) & committed.known & (committed.values >= 0) & stable)
    use = use[led[row_of[use]]]
    rows, offsets = row_of[use], committed.values[use]
    ends = p.log_end.values[rows]
    names = groups["group"].take(use)
    found, before = _match(progress, p, names, rows)
    same = found & (before["committed"] == offsets)
    moved = found & (before["committed"] < offsets)
    seconds = np.where(same, before["seconds"] + passed, 0.0)
    columns = [
        names,
        groups["topic"].take(use),
        groups["partition"].take(use),
        pa.array(offsets),
        pa.array(np.where(same, before["firstEnd"], ends)),
        pa.array(ends),
        pa.array(seconds),
        pa.array(np.where(same, before["observations"] + 1, 0).astype(np.int32)),
        pa.array(moved | (same & before["moved"] & (seconds < STALLED_FOR))),
    ]
    start = p.log_start
    # A group below the log start went on from there without having read what lay between.
    read = moved & start.known[rows] & (before["committed"] >= start.values[rows])
    # Commits may be rarer than observations. A group that was at the log end in between had nothing to read.
    took = passed + np.where(before["committed"] < before["firstEnd"], before["seconds"], 0.0)
    return Followed(
        pa.table(columns, schema=PROGRESS_SCHEMA), _paces(names, read & (took > 0), offsets - before["committed"], took)
    )


def _paces(names: pa.ChunkedArray[Any], read: Mask, offsets: Ints, seconds: np.ndarray[Any, Any]) -> dict[str, float]:
    code, known = codes_of(names.filter(pa.array(read)))
    sums = np.bincount(code, weights=offsets[read] / seconds[read], minlength=len(known))
    return dict(zip(known, sums.tolist(), strict=True))


def fastest(paces: Mapping[str, float], now: Mapping[str, float], snapshot: Snapshot) -> dict[str, float]:
    """The fastest at which each group that there is, or that was not read, was seen reading."""
    found = dict(paces) | {group: max(pace, paces.get(group, 0.0)) for group, pace in now.items()}
    if snapshot.groups is None or not found:
        return found
    there: Any = pc.unique(snapshot.groups["group"])
    present = frozenset(there.to_pylist())
    return {group: pace for group, pace in found.items() if group in present or _unread(snapshot, group)}


def _match(
    progress: pa.Table, p: Partitions, names: pa.ChunkedArray[Any], rows: Ints
) -> tuple[Mask, dict[str, np.ndarray[Any, Any]]]:
    """For each (group, partition row) of now: whether there is a row of before, and that row's numbers."""
    wanted = ("committed", "firstEnd", "seconds", "observations", "moved")
    if not progress.num_rows or not len(rows):
        nothing = {name: np.zeros(len(rows), dtype=np.float64 if name == "seconds" else np.int64) for name in wanted}
        return np.zeros(len(rows), dtype=np.bool_), nothing | {"moved": np.zeros(len(rows), dtype=np.bool_)}
    code, known = codes_of(names)
    looked_up: Any = pc.index_in(progress["group"], value_set=pa.array(known, pa.string()))
    old_code: Any = pc.fill_null(looked_up, pa.scalar(-1, pa.int32()))
    old_row = p.rows_of(progress["topic"], numbers(progress["partition"]).values)
    old_key = (np.asarray(old_code.to_numpy(), dtype=np.int64) << 32) | old_row
    old_key[old_row < 0] = -1
    order = np.argsort(old_key, kind="stable")
    key = (code << 32) | rows
    at = order[np.minimum(np.searchsorted(old_key[order], key), len(order) - 1)]
    return old_key[at] == key, {name: progress[name].to_numpy()[at] for name in wanted}


def codes_of(names_column: pa.ChunkedArray[Any]) -> tuple[Ints, list[str]]:
    distinct: Any = pc.unique(names_column)
    names: list[str] = distinct.to_pylist()
    found: Any = pc.index_in(names_column, value_set=pa.array(names, pa.string()))
    return np.asarray(found.to_numpy(), dtype=np.int64), names
