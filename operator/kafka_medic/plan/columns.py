"""The partition table as numpy columns, in one canonical order, checked on the way in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_medic.plan.arrow import Column, flat_values, integers, is_valid, list_lengths, names

__all__ = ["BadRowError", "Bools", "Columns", "Ints", "read_columns"]

Ints = npt.NDArray[np.signedinteger[Any]]
Bools = npt.NDArray[np.bool_]

INT32 = (1 << 31) - 1
LARGEST_SIZE = 1 << 56
"""64 PiB; sums over the replicas of one broker stay within 64 bits."""
DENSE_IDS = 1 << 20
"""Below this, a table of all ids is quicker than a search."""
NOT_A_BROKER = -1
"""Fills the end of a short row in a matrix of broker indexes."""


class BadRowError(Exception):
    """Row (from 0, None if none in particular) and reason; `problem` turns it into a ProblemError."""

    def __init__(self, row: int | None, reason: str) -> None:
        self.row = row
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True, eq=False)
class Columns:
    """N partitions sorted by (topic, partition), so that equal content in any row order plans alike.

    topics: distinct names, sorted. topic: int32[N] into it. partition: int32[N].
    held: int32[N, H] broker *indexes* (into the brokers sorted by id), in replica order, -1 padded.
    held_count: int32[N]. leader: int32[N] broker index, -1 unknown or none.
    isr_count: int32[N], -1 unknown. size: int64[N] bytes, -1 unknown. source_row: int64[N].
    """

    topics: tuple[str, ...]
    topic: Ints
    partition: Ints
    held: Ints
    held_count: Ints
    leader: Ints
    isr_count: Ints
    size: Ints
    source_row: Ints

    def senders(self) -> Ints:
        """int32[N] who sends a partition's data: its leader, or its first replica where that is not known."""
        return np.where(self.leader >= 0, self.leader, self.held[:, 0])

    def name(self, at: Any) -> str:
        """The partition at an index, as people write it: topic-3."""
        return f"{self.topics[int(self.topic[at])]}-{int(self.partition[at])}"


def read_columns(table: pa.Table, broker_ids: Ints, *, whole: bool = True) -> Columns:
    """Check and convert; `broker_ids` int64[B] ascending. Raises BadRowError.

    whole: whether the table holds all partitions of its topics, so that a gap in their numbers is an error.
    """
    try:
        return _read(table, broker_ids, whole=whole)
    except pa.ArrowException as error:
        raise BadRowError(None, f"a value does not fit its column: {str(error).splitlines()[0]}") from None


def _read(table: pa.Table, broker_ids: Ints, *, whole: bool) -> Columns:
    for name in ("topic", "partition", "replicas"):
        if name not in table.column_names:
            raise BadRowError(None, f"the column {name!r} is missing")
    topics, topic = _topics(table)
    partition = _integers(table, "partition", required=True)
    _refuse(partition < 0, lambda row: f"partition number {partition[row]} is negative")
    _refuse(partition > INT32, lambda row: f"partition number {partition[row]} is above {INT32}")
    held, held_count = _brokers(table, "replicas", broker_ids)
    _refuse(held_count <= 0, lambda _: "the replica list is empty")
    _refuse_repeated(held, broker_ids, "replicas")
    leader = _leader(table, held, broker_ids)
    isr_count = _isr(table, held, broker_ids)
    size = _integers(table, "sizeBytes", required=False)
    negative = size < 0 if "sizeBytes" in table.column_names else np.zeros(len(size), bool)
    negative &= _valid(table, "sizeBytes")
    _refuse(negative, lambda row: f"sizeBytes {size[row]} is negative")
    _refuse(size > LARGEST_SIZE, lambda row: f"sizeBytes {size[row]} is larger than any disk")

    key = topic.astype(np.int64) << 32 | partition
    already = bool((key[1:] > key[:-1]).all())
    order = np.arange(len(key)) if already else np.argsort(key, kind="stable")
    at = slice(None) if already else order  # in order already: nothing is copied
    columns = Columns(
        topics, topic[at], partition[at].astype(np.int32), held[at], held_count[at], leader[at], isr_count[at],
        size[at], order,
    )  # fmt: skip
    if whole:
        _check_numbering(columns)
    return columns


def _pad(column: Column) -> tuple[Ints, Ints]:
    """list<int> -> (int64[N, H] padded with -1, int32[N] lengths, -1 for null); null items become -2."""
    lengths = list_lengths(column).astype(np.int32)
    width = max(int(lengths.max(initial=0)), 1)
    padded = np.full((len(lengths), width), NOT_A_BROKER, dtype=np.int64)
    padded[np.arange(width) < lengths[:, None]] = flat_values(column)
    return padded, lengths


def _refuse(bad: Bools, reason: Any) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        raise BadRowError(int(rows[0]), reason(int(rows[0])))


def _whole(table: pa.Table, name: str) -> Column:
    column: Column = table.column(name).combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _valid(table: pa.Table, name: str) -> Bools:
    if name not in table.column_names:
        return np.zeros(table.num_rows, dtype=bool)
    return is_valid(_whole(table, name))


def _topics(table: pa.Table) -> tuple[tuple[str, ...], Ints]:
    column = _whole(table, "topic")
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise BadRowError(None, f"the column 'topic' holds {kind}, not strings")
    _refuse(~_valid(table, "topic"), lambda _: "the topic is missing")
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    try:
        listed = names(encoded.dictionary)
    except UnicodeDecodeError:
        raise BadRowError(None, "the column 'topic' holds text that is not UTF-8") from None
    codes = integers(encoded.indices)
    if not all(listed):
        _refuse(np.array([not name for name in listed], dtype=bool)[codes], lambda _: "the topic is empty")
    # A dictionary from a file may hold unused or repeated names: number what is used, in sorted order.
    used = sorted({listed[code] for code in np.flatnonzero(np.bincount(codes, minlength=1))})
    place = {name: number for number, name in enumerate(used)}
    renumber = np.array([place.get(name, -1) for name in listed], dtype=np.int32)
    return tuple(used), renumber[codes]


def _integers(table: pa.Table, name: str, *, required: bool) -> Ints:
    """int64[N]; null or an absent column gives -1. Raises BadRowError for null where required."""
    if name not in table.column_names:
        return np.full(table.num_rows, -1, dtype=np.int64)
    column = _whole(table, name)
    if not (pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        raise BadRowError(None, f"the column {name!r} holds {column.type}, not integers")
    if required:
        _refuse(~_valid(table, name), lambda _: f"the {name} is missing")
    return integers(column)


def _brokers(table: pa.Table, name: str, ids: Ints) -> tuple[Ints, Ints]:
    """List column -> (int32[N, H] broker indexes, int32[N] lengths, -1 where null)."""
    column = _whole(table, name)
    if pa.types.is_null(column.type):
        column = column.cast(pa.list_(pa.int32()))
    listed = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if not listed or not (pa.types.is_integer(column.type.value_type) or pa.types.is_null(column.type.value_type)):
        raise BadRowError(None, f"the column {name!r} holds {column.type}, not lists of integers")
    padded, lengths = _pad(column)
    inside = np.arange(padded.shape[1]) < lengths[:, None]
    place = _places(ids, padded)
    unknown = inside & (ids[place] != padded)
    _refuse(unknown.any(axis=1), lambda row: _unknown_broker(name, padded[row][unknown[row]][0]))
    return np.where(inside, place, NOT_A_BROKER).astype(np.int32), lengths


def _places(ids: Ints, values: Ints) -> Ints:
    """Index of each value among the ids; any index for a value that is none of them."""
    if ids[-1] >= DENSE_IDS:
        return np.searchsorted(ids, values).clip(max=len(ids) - 1)
    table = np.zeros(int(ids[-1]) + 1, dtype=np.int64)
    table[ids] = np.arange(len(ids))
    found: Ints = table[values.clip(0, ids[-1])]
    return found


def _unknown_broker(name: str, broker: int) -> str:
    return f"{name} holds a null" if broker == -2 else f"{name} name broker {broker}, which is not listed"


def _refuse_repeated(held: Ints, ids: Ints, name: str) -> None:
    if held.shape[1] < 2:
        return
    ordered = np.sort(held, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    _refuse(
        twice.any(axis=1),
        lambda row: f"broker {ids[ordered[row, 1:][twice[row]][0]]} is listed twice in {name}",
    )


def _leader(table: pa.Table, held: Ints, ids: Ints) -> Ints:
    leader = _integers(table, "leader", required=False)
    # Kafka itself writes -1 for "no leader"; it means the same as null here.
    place = _places(ids, leader)
    index = np.where((leader >= 0) & (ids[place] == leader), place, NOT_A_BROKER).astype(np.int32)
    outside = (leader >= 0) & ~((held == index[:, None]) & (held >= 0)).any(axis=1)
    _refuse(outside, lambda row: f"leader {leader[row]} is not one of the replicas")
    return index


def _isr(table: pa.Table, held: Ints, ids: Ints) -> Ints:
    if "isr" not in table.column_names:
        return np.full(len(held), -1, dtype=np.int32)
    isr, lengths = _brokers(table, "isr", ids)
    _refuse_repeated(isr, ids, "isr")
    replica = (isr[:, :, None] == held[:, None, :]).any(axis=2) | (isr < 0)
    _refuse(~replica.all(axis=1), lambda row: f"isr names broker {ids[isr[row][~replica[row]][0]]}, not a replica")
    return lengths


def _check_numbering(columns: Columns) -> None:
    """Every topic's partitions must be 0, 1, 2, ... without a repeat or a gap."""
    if not len(columns.topic):
        return
    first = np.searchsorted(columns.topic, np.arange(len(columns.topics)))
    expected = np.arange(len(columns.topic)) - first[columns.topic]
    wrong = np.flatnonzero(columns.partition != expected)
    if not len(wrong):
        return
    at = int(wrong[0])
    topic, found = columns.topics[int(columns.topic[at])], int(columns.partition[at])
    if found < expected[at]:
        before = int(columns.source_row[at - 1]) + 1
        raise BadRowError(int(columns.source_row[at]), f"{topic}-{found} is listed twice (also in row {before})")
    raise BadRowError(
        int(columns.source_row[at]), f"{topic}-{int(expected[at])} is missing, though {topic}-{found} is here"
    )
