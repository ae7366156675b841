"""Sizes and bytes per second of topics, from condensed partitions and offsets.

Measured are a leader's log on disk and its log end, in each Snapshot. Derived are bytes per second: offsets between two
Snapshots of one writer, divided by its seconds, times the bytes that one offset holds on disk. Those are compressed
bytes, as on the wire. A compacted topic has fewer records than offsets, so its rates are too low.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from kafka_medic.fleet.condense import GROUP_SUMS, TOPIC_SUMS
from kafka_medic.fleet.whole import Whole, moment

__all__ = ["Topics", "Traffic", "Usage", "complete", "read_topics", "read_usage", "rates"]

compute: Any = pyarrow.compute
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SHORTEST = 60.0
"""Seconds between two Snapshots, below which their difference shows no rate."""
NO_TOPIC = -1


@dataclass(frozen=True, eq=False)
class Topics:
    """K topics as they are in the last of S Snapshots, each by its id. bytes, end, record: float64[K, S] the size of
    one copy, the sum of log ends (0 before the topic was made) and bytes per offset, NaN where not known. partitions:
    int64[K] now."""

    names: tuple[str, ...]
    ids: tuple[str | None, ...]
    bytes: Floats
    end: Floats
    record: Floats
    partitions: Ints


@dataclass(frozen=True, eq=False)
class Usage:
    """G pairs of a group and a topic. topic: int64[G] into the topics. committed, lag: float64[G, S], NaN unknown."""

    groups: tuple[str, ...]
    topic: Ints
    committed: Floats
    lag: Floats


@dataclass(frozen=True, eq=False)
class Traffic:
    """Over I intervals. seconds: float64[I]. bytes_in, bytes_out: float64[K, I] per second, NaN where not known; out is
    what groups read by their commits. notes: for people."""

    seconds: Floats
    bytes_in: Floats
    bytes_out: Floats
    notes: tuple[str, ...]


def complete(condensed: pa.Table, kept: Whole) -> tuple[Whole, tuple[str, ...]]:
    """(the Snapshots of which every row is there, what is to be said of the others). condensed: as of
    `condense_partitions`."""
    place = _places(condensed["snapshot"], kept.ids)
    seen = _rows_seen(condensed, place, kept)
    lacking = seen != kept.partitions * _times(seen, kept)
    notes = []
    if lacking.any():
        at = int(np.flatnonzero(lacking)[-1])
        notes.append(
            f"{int(lacking.sum())} snapshots lack rows, the last one of {moment(int(kept.time[at]))}: "
            f"{seen[at]:,.0f} partitions of {kept.partitions[at]:,}"
        )
    if (place < 0).any():
        notes.append("rows of snapshots that were not finished, or do not count, are left out")
    return kept.without(lacking), tuple(notes)


def read_topics(condensed: pa.Table, kept: Whole) -> Topics:
    """The topics of the last of the Snapshots, which are complete."""
    count = len(kept.ids)
    place = _places(condensed["snapshot"], kept.ids)
    times = _times(_rows_seen(condensed, place, kept), kept)
    names, ids = _last_topics(condensed, place == count - 1)
    topic = _topic_of(condensed, names, ids)
    use = np.flatnonzero((place >= 0) & (topic >= 0))
    total = {name: np.zeros((len(names), count)) for name in TOPIC_SUMS}
    for name, sums in total.items():
        values = np.asarray(condensed[name].to_numpy(), dtype=np.float64)
        np.add.at(sums, (topic[use], place[use]), values[use] / times[place[use]])
    rows = total["rows"]
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.where(total["sizes"] == rows, total["bytes"], np.nan)
        end = np.where(total["ends"] == rows, total["end"], np.nan)
        usable = (total["kept"] == rows) & (total["sizes"] == rows) & (total["records"] > 0)
        record = np.where(usable, total["bytes"] / total["records"], np.nan)
    size[rows == 0] = np.nan  # a topic that is not there yet has no size that could grow
    return Topics(names, ids, size, end, record, rows[:, -1].astype(np.int64))


def read_usage(condensed: pa.Table, topics: Topics, kept: Whole) -> Usage:
    """What groups have committed to the topics; of a topic's earlier incarnation nothing."""
    place = _places(condensed["snapshot"], kept.ids)
    topic = _topic_of(condensed, topics.names, topics.ids)
    use = np.flatnonzero((place >= 0) & (topic >= 0))
    groups: Any = compute.unique(condensed["group"])
    group = np.asarray(compute.index_in(condensed["group"], value_set=groups.cast(pa.string())).to_numpy())
    key = group.astype(np.int64)[use] << 32 | topic[use]
    pairs, pair = np.unique(key, return_inverse=True)
    shape = len(pairs), len(kept.ids)
    total = {name: np.zeros(shape) for name in GROUP_SUMS}
    for name in GROUP_SUMS:
        np.add.at(total[name], (pair, place[use]), np.asarray(condensed[name].to_numpy(), dtype=np.float64)[use])
    there = total["rows"] > 0
    committed = np.where(there & (total["commits"] == total["rows"]), total["committed"], np.nan)
    lag = np.where(there & (total["lags"] == total["rows"]), total["lag"], np.nan)
    names = groups.to_pylist()
    return Usage(tuple(names[at] for at in (pairs >> 32).tolist()), pairs & 0xFFFFFFFF, committed, lag)


def rates(topics: Topics, usage: Usage, kept: Whole) -> Traffic:
    """Bytes per second of each topic between neighbouring Snapshots of one writer."""
    found = [(a, b) for a, b in kept.intervals() if kept.time[b] - kept.time[a] >= SHORTEST * 1_000_000]
    if not found:
        nothing = np.zeros((len(topics.names), 0))
        return Traffic(np.zeros(0), nothing, nothing, ())
    a, b = (np.array(side, dtype=np.int64) for side in zip(*found, strict=True))
    seconds = (kept.time[b] - kept.time[a]) / 1_000_000
    grown = topics.end[:, b] - topics.end[:, a]
    with np.errstate(invalid="ignore"):
        fell, rose = grown < 0, grown > 0
    back = fell.sum(axis=0) > rose.sum(axis=0)
    notes = tuple(
        f"log ends go back between {moment(int(kept.time[x]))} and {moment(int(kept.time[y]))}: a clock went back, or "
        "logs were lost; no rate is taken from there"
        for x, y in zip(a[back].tolist(), b[back].tolist(), strict=True)
    )
    grown = np.where(fell | back, np.nan, grown)
    record = np.where(np.isnan(topics.record[:, b]), _last_known(topics.record), topics.record[:, b])
    bytes_in = np.where(grown == 0, 0.0, grown * record / seconds)
    read = _read_by_groups(usage, topics, kept, (a, b), back)
    bytes_out = np.where(read == 0, 0.0, read * record / seconds)
    return Traffic(seconds, bytes_in, bytes_out, notes[:3])


def _read_by_groups(
    usage: Usage, topics: Topics, kept: Whole, ends: tuple[Ints, Ints], back: npt.NDArray[np.bool_]
) -> Floats:
    """float64[K, I] offsets that groups read; NaN where a group's commits are not known, or went back."""
    a, b = ends
    read = usage.committed[:, b] - usage.committed[:, a]
    with np.errstate(invalid="ignore"):
        read = np.where(read < 0, np.nan, read)
    absent = np.isnan(usage.committed[:, a]) & np.isnan(usage.committed[:, b])
    total = np.zeros((len(topics.names), len(a)))
    np.add.at(total, usage.topic, np.where(absent, 0.0, read))
    known = np.array(kept.offsets, dtype=bool)
    total[:, ~(known[a] & known[b]) | back] = np.nan
    return total


def _rows_seen(condensed: pa.Table, place: Ints, kept: Whole) -> Floats:
    rows = np.asarray(condensed["rows"].to_numpy(), dtype=np.float64)
    return np.bincount(place[place >= 0], weights=rows[place >= 0], minlength=len(kept.ids)).astype(np.float64)


def _times(seen: Floats, kept: Whole) -> Floats:
    """float64[S]: how often each Snapshot is there. Where its file was copied, every sum is a multiple."""
    return np.asarray(np.maximum(np.round(seen / np.maximum(kept.partitions, 1)), 1))


def _last_topics(condensed: pa.Table, last: npt.NDArray[np.bool_]) -> tuple[tuple[str, ...], tuple[str | None, ...]]:
    table = condensed.filter(pa.array(last))
    pairs = sorted(set(zip(table["topic"].to_pylist(), table["topicId"].to_pylist(), strict=True)), key=str)
    return tuple(str(name) for name, _ in pairs), tuple(identity for _, identity in pairs)


def _topic_of(table: pa.Table, names: tuple[str, ...], ids: tuple[str | None, ...]) -> Ints:
    """int64[n]: which of the topics a row is of; NO_TOPIC for a topic that is gone, or an earlier one of the name. An
    unknown id, of the row or now, is taken for the same."""
    at = _places(table["topic"], names)
    known = [identity or "" for identity in ids]
    own = compute.fill_null(compute.index_in(table["topicId"], value_set=pa.array(known, pa.string())), NO_TOPIC)
    unknown = ~np.asarray(table["topicId"].is_valid())
    unknown |= np.array([not identity for identity in known] or [False])[np.maximum(at, 0)]
    return np.where((at >= 0) & (unknown | (np.asarray(own.to_numpy()) == at)), at, NO_TOPIC)


def _places(column: Any, values: tuple[str, ...]) -> Ints:
    found = compute.fill_null(compute.index_in(column, value_set=pa.array(values, pa.string())), -1)
    return np.asarray(found.to_numpy(), dtype=np.int64)


def _last_known(values: Floats) -> Floats:
    """float64[K, 1]: the last value of each row that is known."""
    known = ~np.isnan(values)
    at = values.shape[1] - 1 - known[:, ::-1].argmax(axis=1)
    return np.take_along_axis(values, at[:, None], axis=1)
