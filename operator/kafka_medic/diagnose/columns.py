"""A snapshot's partitions as numpy columns, so that detectors cost passes over arrays and not objects a row.

Unknown stays visible: every column has a mask of the rows where it is known, and a list that contains a null
is not known as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import NO_LEADER, Snapshot, TopicPartition

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

FEW = 8
"""So many comparisons of a whole column take less time than numpy's isin."""
PARTITIONS = "partitions"
"""Where a Snapshot keeps its columns (`Snapshot.worked_out`)."""


@dataclass(frozen=True, slots=True, eq=False)
class IdLists:
    """A column of broker id lists, flattened: `ids[i]` belongs to row `rows[i]`, in the order of the list."""

    rows: Ints
    ids: Ints
    known: Mask
    counts: Ints

    def keys(self) -> Ints:
        """One number for each (row, id), for set operations over the whole column."""
        return (self.rows << 32) | (self.ids & 0xFFFFFFFF)

    def within(self, other: IdLists) -> Mask:
        """For each flattened entry: does the same row of `other` hold the id as well?"""
        if not len(other.rows):
            return np.zeros(len(self.rows), dtype=np.bool_)
        if np.array_equal(self.rows, other.rows) and np.array_equal(self.ids, other.ids):
            return np.ones(len(self.rows), dtype=np.bool_)  # a cluster at rest, and by far the usual case
        # Arrow looks up in a hash table; numpy's isin would sort both columns.
        found: Any = pc.is_in(pa.array(self.keys()), value_set=pa.array(other.keys()))
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)

    def per_row(self, chosen: Mask) -> Ints:
        """How many of each row's entries are chosen."""
        return np.bincount(self.rows[chosen], minlength=len(self.known)).astype(np.int64)

    def first(self) -> Ints:
        """Each row's first id (for `replicas`: the preferred leader); NO_LEADER where there is none."""
        heads = np.full(len(self.known), NO_LEADER, dtype=np.int64)
        if len(self.rows):
            starts = np.flatnonzero(np.r_[True, self.rows[1:] != self.rows[:-1]])
            heads[self.rows[starts]] = self.ids[starts]
        return heads


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """A column of integers; where `known` is false the value means nothing."""

    values: Ints
    known: Mask


@dataclass(frozen=True, slots=True, eq=False)
class Partitions:
    """The partitions of one snapshot, column by column."""

    topics: tuple[str, ...]
    topic: Ints
    partition: Ints
    leader: Numbers
    leader_epoch: Numbers
    replicas: IdLists
    isr: IdLists
    adding: IdLists
    removing: IdLists
    log_start: Numbers
    log_end: Numbers
    min_isr: Numbers

    def __len__(self) -> int:
        return len(self.partition)

    @property
    def moving(self) -> Mask:
        """Rows with a reassignment in flight, as far as that is known."""
        return (self.adding.counts > 0) | (self.removing.counts > 0)

    def name(self, row: int) -> TopicPartition:
        return TopicPartition(self.topics[self.topic[row]], int(self.partition[row]))

    def names(self, rows: Mask | Ints) -> tuple[str, ...]:
        """`topic-partition` of the chosen rows, in their order."""
        chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        topics, partitions = self.topic[chosen].tolist(), self.partition[chosen].tolist()
        return tuple(f"{self.topics[t]}-{p}" for t, p in zip(topics, partitions, strict=True))

    def topic_names(self, rows: Mask) -> tuple[str, ...]:
        """The topics that own any of the chosen rows, sorted."""
        return tuple(sorted(self.topics[t] for t in np.unique(self.topic[rows]).tolist()))

    def rows_of(self, topics: pa.ChunkedArray[Any], partitions: Ints) -> Ints:
        """The row of each (topic, partition) of another table; -1 where this one has no such partition."""
        codes = _known_ints(pc.index_in(topics, value_set=pa.array(self.topics, pa.string())), absent=-1)
        mine = (self.topic << 32) | self.partition
        wanted = (codes << 32) | partitions
        if np.array_equal(mine, wanted):  # nothing came or went: by far the usual case
            return np.arange(len(mine), dtype=np.int64)
        order = np.argsort(mine, kind="stable")
        if not len(mine):
            return np.full(len(wanted), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(mine[order], wanted), len(mine) - 1)
        found = order[at]
        return np.where((codes >= 0) & (mine[found] == wanted), found, -1)


def partitions_of(snapshot: Snapshot) -> Partitions | None:
    """The columns of a snapshot, read once for all who look at it; None when its partitions are not known."""
    if snapshot.partitions is None:
        return None
    if PARTITIONS not in snapshot.worked_out:
        snapshot.worked_out[PARTITIONS] = read_partitions(snapshot.partitions)
    found: Partitions = snapshot.worked_out[PARTITIONS]
    return found


def read_partitions(table: pa.Table) -> Partitions:
    """The columns that detectors use, from a table with PARTITIONS_SCHEMA."""
    coded: Any = pc.dictionary_encode(table["topic"])
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    if isinstance(coded, pa.ChunkedArray):  # an empty table stays chunked in some versions of Arrow
        coded = pa.array([], pa.string()).dictionary_encode()
    return Partitions(
        topics=tuple(coded.dictionary.to_pylist()),
        topic=_known_ints(coded.indices, absent=-1),
        partition=numbers(table["partition"]).values,
        leader=numbers(table["leader"]),
        leader_epoch=numbers(table["leaderEpoch"]),
        replicas=id_lists(table["replicas"]),
        isr=id_lists(table["isr"]),
        adding=id_lists(table["adding"]),
        removing=id_lists(table["removing"]),
        log_start=numbers(table["logStart"]),
        log_end=numbers(table["logEnd"]),
        min_isr=numbers(table["minIsr"]),
    )


def column(name: str, kind: pa.DataType, nullable: bool = True) -> pa.Field[pa.DataType]:
    """A column of a table's schema."""
    return pa.field(name, kind, nullable=nullable)


def numbers(column: pa.ChunkedArray[Any]) -> Numbers:
    """An integer column and where it is known."""
    if not column.null_count:  # by far the usual case, and then nothing has to be looked at twice
        return Numbers(np.asarray(column.to_numpy(), dtype=np.int64), np.ones(len(column), dtype=np.bool_))
    known = np.asarray(pc.is_valid(column).to_numpy(), dtype=np.bool_)
    return Numbers(_known_ints(column, absent=0), known)


def strings(column: pa.ChunkedArray[Any]) -> list[str]:
    """A column of strings that the schema says are never null."""
    values: list[Any] = column.to_pylist()
    return values


def id_lists(column: pa.ChunkedArray[Any]) -> IdLists:
    """A column of lists of broker ids, flattened."""
    if not column.null_count and column.num_chunks == 1:
        lists: Any = column.chunk(0)
        values = lists.flatten()
        if not values.null_count:
            counts = np.diff(lists.offsets.to_numpy()).astype(np.int64)
            rows = np.repeat(np.arange(len(lists), dtype=np.int64), counts)
            whole = np.ones(len(lists), dtype=np.bool_)
            return IdLists(rows, np.asarray(values.to_numpy(), dtype=np.int64), whole, counts)
    rows = np.asarray(pc.list_parent_indices(column).to_numpy(), dtype=np.int64)
    flat: Any = pc.list_flatten(column)
    known = np.array(pc.is_valid(column).to_numpy(), dtype=np.bool_)
    if flat.null_count:
        whole = np.asarray(pc.is_valid(flat).to_numpy(zero_copy_only=False), dtype=np.bool_)
        known[rows[~whole]] = False
    ids = _known_ints(flat, absent=NO_LEADER)
    keep = known[rows]
    rows, ids = rows[keep], ids[keep]
    return IdLists(rows, ids, known, np.bincount(rows, minlength=len(known)).astype(np.int64))


def is_any(values: Ints, wanted: Iterable[int]) -> Mask:
    """Membership in a small set of broker ids."""
    ids = list(wanted)
    if len(ids) > FEW:
        return np.isin(values, np.array(ids, dtype=np.int64))
    found = np.zeros(len(values), dtype=np.bool_)
    for broker in ids:
        found |= values == broker
    return found


def some(names: Sequence[str], limit: int = 10) -> str:
    """`a, b, c and 4 more`: enough to recognise the trouble by, never a page of names."""
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown


def _known_ints(column: Any, *, absent: int) -> Ints:
    filled: Any = pc.fill_null(column, pa.scalar(absent, column.type)) if column.null_count else column
    values = filled.to_numpy() if isinstance(filled, pa.ChunkedArray) else filled.to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.int64)
