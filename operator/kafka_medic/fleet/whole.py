"""Which Snapshots of a cluster count, and what was wrong with the others.

A Snapshot counts where its writer finished it, its partitions are known, and its time is not ahead of the reader's
clock. Times are the writers' own. Two writers may differ, so differences are only taken between Snapshots of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

__all__ = ["CHOSEN", "Chosen", "Whole", "choose", "micros", "moment", "remarked", "time_of", "whole"]

compute: Any = pyarrow.compute
SILENT = timedelta(days=2)
"""Without a Snapshot, after which a cluster is called silent."""
AHEAD = timedelta(minutes=5)
"""What a writer's clock may be ahead of the reader's without a remark."""

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("clusterId", pa.string()),
    ("cluster", pa.string()),
    ("first", pa.int64()),
    ("last", pa.int64()),
    ("firstWhole", pa.string()),
    ("firstWholeTime", pa.int64()),
    ("lastWhole", pa.string()),
    ("lastWholeTime", pa.int64()),
    ("partitions", pa.int64()),
    ("rows", pa.int64()),
]
CHOSEN: pa.Schema = pa.schema(_FIELDS)
"""What the driver has to know of a cluster, one row. Times in microseconds since 1970; `firstWhole`, `lastWhole`: null
where no Snapshot counts. `rows`: partitions of all Snapshots."""


@dataclass(frozen=True)
class Chosen:
    """A row of CHOSEN. notes: what the other clusters and the reader's clock say of it. replaced: another cluster has
    its name now."""

    cluster_id: str
    cluster: str
    first: int
    last: int
    first_whole: str | None
    first_whole_time: int | None
    last_whole: str | None
    last_whole_time: int | None
    partitions: int
    rows: int
    notes: tuple[str, ...] = ()
    replaced: bool = False

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Chosen:
        return cls(*(row[name] for name in CHOSEN.names))


@dataclass(frozen=True, eq=False)
class Whole:
    """The S Snapshots of a cluster that count, by time. ids, writers: str[S]. time: int64[S] microseconds. partitions:
    int64[S]. offsets: whether groups were read. notes: why others do not count, for people."""

    ids: tuple[str, ...]
    writers: tuple[str, ...]
    time: np.ndarray[Any, np.dtype[np.int64]]
    partitions: np.ndarray[Any, np.dtype[np.int64]]
    offsets: tuple[bool, ...]
    notes: tuple[str, ...]

    def without(self, dropped: np.ndarray[Any, np.dtype[np.bool_]]) -> Whole:
        """Only those that are not dropped: bool[S]."""
        at = np.flatnonzero(~dropped).tolist()
        ids, writers = (tuple(names[n] for n in at) for names in (self.ids, self.writers))
        offsets = tuple(self.offsets[n] for n in at)
        return Whole(ids, writers, self.time[at], self.partitions[at], offsets, self.notes)

    def intervals(self) -> list[tuple[int, int]]:
        """Neighbours by the same writer's clock: (earlier, later) places."""
        found = []
        for writer in dict.fromkeys(self.writers):
            own = [at for at, name in enumerate(self.writers) if name == writer]
            found += [(a, b) for a, b in pairwise(own) if self.time[b] > self.time[a]]
        return sorted(found)


def whole(snapshots: pa.Table, now: datetime) -> Whole:
    """What counts of the rows of `snapshots` (SNAPSHOTS) of one cluster; now: the reader's clock."""
    rows = sorted(_distinct(snapshots), key=lambda row: (row["time"], row["snapshot"]))
    limit = micros(now + AHEAD)
    notes = []
    future = [row for row in rows if row["time"] > limit]
    if future:
        ahead = moment(max(row["time"] for row in future))
        notes.append(f"{len(future)} snapshots are dated after now, up to {ahead}: set the clock of their writer")
    past = [row for row in rows if row["time"] <= limit]
    unread = [row for row in past if row["partitions"] is None]
    if unread:
        why = (unread[-1]["unknownSources"] or ["no reason given"])[0]
        last = moment(unread[-1]["time"])
        notes.append(f"{len(unread)} of {len(past)} snapshots have no partitions, last at {last}: {why}")
    kept = [row for row in past if row["partitions"] is not None]
    notes += _went_back(kept)
    writers = {row["writer"] for row in kept}
    if len(writers) > 1:
        notes.append(f"{len(writers)} writers append this cluster: {', '.join(sorted(writers)[:5])}")
    return Whole(
        tuple(row["snapshot"] for row in kept),
        tuple(row["writer"] for row in kept),
        np.array([row["time"] for row in kept], dtype=np.int64),
        np.array([row["partitions"] for row in kept], dtype=np.int64),
        tuple(row["offsets"] is not None for row in kept),
        tuple(notes),
    )


def choose(snapshots: pa.Table, now: datetime) -> pa.Table:
    """CHOSEN, one row, of the rows of `snapshots` of one cluster."""
    kept = whole(snapshots, now)
    rows = sorted(_distinct(snapshots), key=lambda row: (row["time"], row["snapshot"]))
    usable = [row for row in rows if row["time"] <= micros(now + AHEAD)] or rows
    count = len(kept.ids)
    found = {
        "clusterId": rows[-1]["clusterId"],
        "cluster": usable[-1]["cluster"],
        "first": usable[0]["time"],
        "last": usable[-1]["time"],
        "firstWhole": kept.ids[0] if count else None,
        "firstWholeTime": int(kept.time[0]) if count else None,
        "lastWhole": kept.ids[-1] if count else None,
        "lastWholeTime": int(kept.time[-1]) if count else None,
        "partitions": int(kept.partitions[-1]) if count else 0,
        "rows": int(kept.partitions.sum()),
    }
    return pa.Table.from_pylist([found], CHOSEN)


def remarked(clusters: Iterable[Chosen], now: datetime) -> list[Chosen]:
    """The clusters, by name, each with what is to be said of its name and of its silence. now: the reader's clock, or
    the end of the days that are read, whichever is first."""
    by_name: dict[str, list[Chosen]] = {}
    for cluster in sorted(clusters, key=lambda c: (c.cluster, c.first, c.cluster_id)):
        by_name.setdefault(cluster.cluster, []).append(cluster)
    return [_remarked(cluster, same, now) for same in by_name.values() for cluster in same]


def micros(time: datetime) -> int:
    """Microseconds since 1970."""
    return round(time.timestamp() * 1_000_000)


def time_of(time: int) -> datetime:
    """The time of so many microseconds since 1970, which may be far ahead."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)


def moment(time: int) -> str:
    """Microseconds since 1970, as people read them: 2026-01-31 12:00 UTC."""
    return f"{time_of(time):%Y-%m-%d %H:%M} UTC"


def _remarked(cluster: Chosen, same: list[Chosen], now: datetime) -> Chosen:
    after = [other for other in same if other.first > cluster.last]
    before = [other for other in same if other.last < cluster.first]
    beside = [o for o in same if o is not cluster and o not in after and o not in before]
    notes = []
    if beside:
        notes.append(f"another cluster has the name too (id {beside[0].cluster_id}): give each its own with --name")
    if after:
        notes.append(f"replaced by a cluster of the same name (id {after[0].cluster_id}) on {moment(after[0].first)}")
    elif cluster.last < micros(now - SILENT):
        notes.append(f"no snapshot since {moment(cluster.last)}")
    if before:
        told = f"made anew: until {moment(before[-1].last)} the name was another cluster's (id {before[-1].cluster_id})"
        notes.append(told)
    return replace(cluster, notes=tuple(notes), replaced=bool(after))


def _distinct(snapshots: pa.Table) -> list[dict[str, Any]]:
    """Each Snapshot once; times as microseconds."""
    named = {name: snapshots[name] for name in snapshots.column_names}
    table = pa.table(named | {"time": snapshots["time"].cast(pa.int64())})
    return list({row["snapshot"]: row for row in table.to_pylist()}.values())


def _went_back(rows: list[dict[str, Any]]) -> list[str]:
    """A controller's epoch only grows. Where it falls from one Snapshot to the next, their order is not that of what
    happened."""
    known = [row for row in rows if row["controllerEpoch"] is not None]
    for a, b in pairwise(known):
        if b["controllerEpoch"] < a["controllerEpoch"]:
            return [
                f"the controller's epoch falls from {a['controllerEpoch']} at {moment(a['time'])} to "
                f"{b['controllerEpoch']} at {moment(b['time'])}: the clock of {b['writer']} went back, or that of "
                f"{a['writer']} was ahead"
            ]
    return []
