"""How many replicas, or preferred leaders, of each topic stand on each broker, while some of them change places.

A cell is a topic and a broker, as one number: topic * brokers + broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kafka_medic.plan.columns import Bools, Ints

__all__ = ["Cells", "cell_type", "cells_of", "distinct", "members", "within"]

DENSE = 1 << 24
"""Up to so many cells have a table with a place for each, which takes a tenth of the time that sorting takes."""
MARKS = 1 << 22
"""Size of the table that most numbers are recognised by; a quarter of it fits the cache of a processor."""


def cell_type(topics: int, brokers: int) -> type[np.signedinteger]:
    """32 bits where they suffice, which are sorted twice as fast."""
    return np.int32 if topics * brokers < 1 << 31 else np.int64


class Cells:
    """Counts of T topics on B brokers, T * B cells. A cell that is in none of the parts counts 0."""

    def __init__(self, parts: Sequence[Ints], topics: int, brokers: int, largest: int) -> None:
        """parts: the cell of each replica or leader, all of one integer type; largest: partitions of the largest topic,
        which no count is above."""
        self.topics, self.brokers = topics, brokers
        self._table: Ints | None = None
        self._known = np.zeros(0, dtype=cell_type(topics, brokers))
        self._count = np.zeros(0, dtype=np.int64)
        self._changed, self._more = self._known, self._count
        if topics * brokers <= DENSE:
            self._table = np.zeros(topics * brokers, dtype=np.int16 if largest < 1 << 15 else np.int32)
            for part in parts:
                self.extend(part)
        else:
            self.extend(np.concatenate(parts))

    def extend(self, part: Ints) -> None:
        """Count these as well, as if they had been among the parts."""
        if self._table is not None:
            np.add.at(self._table, part, self._table.dtype.type(1))
            return
        joined = np.concatenate([np.repeat(self._known, self._count), part])
        joined.sort()
        last = np.flatnonzero(np.append(joined[1:] != joined[:-1], True)[: len(joined)])
        self._known, self._count = joined[last], np.diff(last, prepend=-1)
        self._changed, self._more = self._known[:0], self._count[:0]

    def read(self, cells: Ints) -> Ints:
        """int[k]: the count of each of these cells."""
        if self._table is not None:
            return np.asarray(self._table[cells])
        return _at(self._known, self._count, cells) + _at(self._changed, self._more, cells)

    def add(self, cells: Ints, step: int) -> None:
        """Count `step` more for each of these cells; a cell may stand there several times."""
        if self._table is not None:
            np.add.at(self._table, cells, self._table.dtype.type(step))
            return
        both = np.concatenate([self._changed, cells.astype(self._known.dtype)])
        more = np.concatenate([self._more, np.full(len(cells), step)])
        order = np.argsort(both, kind="stable")
        both = both[order]
        first = np.flatnonzero(np.append(True, both[1:] != both[:-1])[: len(both)])
        self._changed, self._more = both[first], np.add.reduceat(more[order], first) if len(first) else more

    def above(self, limit: Ints) -> Ints:
        """The cells with more than their topic's limit (int64[T]), ascending."""
        if self._table is not None:
            return np.flatnonzero(self._by_topic() > self._capped(limit))
        over = self._known[self._count > np.repeat(limit, np.diff(self._edges()))]
        if len(self._changed):
            over = distinct(np.concatenate([over, self._changed]))
            over = over[self.read(over) > limit[over // self.brokers]]
        return over

    def most(self) -> Ints:
        """int64[T]: the most on one broker before any change."""
        if self._table is not None:
            return np.asarray(self._by_topic().max(axis=1, initial=0)).astype(np.int64)
        edges = self._edges()
        found, there = np.zeros(self.topics, dtype=np.int64), edges[1:] > edges[:-1]
        found[there] = np.maximum.reduceat(self._count, edges[:-1][there]) if there.any() else 0
        return found

    def capped(self, limit: Ints) -> Ints:
        """int64[B]: what brokers had before any change, of each topic at most its limit (int64[T])."""
        if self._table is not None:
            least = np.minimum(self._by_topic(), self._capped(limit))
            return np.asarray(least.sum(axis=0, dtype=np.int64))
        least = np.minimum(self._count, np.repeat(limit, np.diff(self._edges())))
        return np.bincount(self._known % self.brokers, weights=least, minlength=self.brokers).astype(np.int64)

    def total(self, group: Bools | None = None) -> Ints:
        """int64[T]: on all brokers before any change, or on those of the group (bool[B])."""
        if self._table is not None:
            if group is not None:
                wide: Any = np.int32
                found: Ints = np.einsum("ij,j->i", self._by_topic(), group.astype(wide), dtype=wide, casting="unsafe")
                return found
            return np.asarray(self._by_topic().sum(axis=1, dtype=np.int64))
        if group is None:
            return np.diff(np.append(0, np.cumsum(self._count))[self._edges()])
        there = np.flatnonzero(group[self._known % self.brokers])
        topic = self._known[there] // self.brokers
        return np.bincount(topic, weights=self._count[there], minlength=self.topics).astype(np.int64)

    def on_brokers(self) -> Ints:
        """int64[B]: of all topics before any change."""
        if self._table is not None:
            return np.asarray(self._by_topic().sum(axis=0, dtype=np.int64))
        return np.bincount(self._known % self.brokers, weights=self._count, minlength=self.brokers).astype(np.int64)

    def _by_topic(self) -> Ints:
        assert self._table is not None
        return self._table.reshape(self.topics, self.brokers)

    def _capped(self, limit: Ints) -> Ints:
        """[T, 1] limits in the type of the table; one that no count reaches stays so."""
        assert self._table is not None
        kind = self._table.dtype
        return np.minimum(limit, np.iinfo(kind).max)[:, None].astype(kind)

    def _edges(self) -> Ints:
        return np.searchsorted(self._known, (np.arange(self.topics + 1) * self.brokers).astype(self._known.dtype))


def _at(known: Ints, count: Ints, cells: Ints) -> Ints:
    if not len(known):
        return np.zeros(len(cells), dtype=np.int64)
    # A search in numbers of another type would copy all of them.
    wanted = cells.astype(known.dtype, copy=False)
    place = np.searchsorted(known, wanted).clip(max=len(known) - 1)
    return np.where(known[place] == wanted, count[place], 0)


def cells_of(topic: Ints, brokers: Ints, live: Bools, topics: int) -> Ints:
    """The cells of what stands on live brokers (bool[B]). topic: int[n]; brokers: int[n], or int[n, F], -1 padded."""
    kind = cell_type(topics, len(live))
    if brokers.ndim == 1:
        found = topic.astype(kind, copy=False) * len(live) + brokers
        kept = None if live.all() else live[brokers]
    else:
        found = (topic.astype(kind, copy=False)[:, None] * len(live) + brokers).ravel()
        kept = None if live.all() and brokers.min(initial=0) >= 0 else ((brokers >= 0) & live[brokers]).ravel()
    return np.asarray(found if kept is None else found[kept]).astype(kind, copy=False)


def distinct(numbers: Ints) -> Ints:
    """Each of these numbers once, ascending. numpy's own unique hashes, which takes ten times as long here."""
    ordered = np.sort(numbers)
    return np.asarray(ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]])


def members(numbers: Ints, wanted: Ints) -> Bools:
    """bool[n]: which of these numbers are among the wanted ones (ascending). One pass where few are."""
    found = np.zeros(len(numbers), dtype=bool)
    if not len(wanted) or not len(numbers):
        return found
    marks = np.zeros(MARKS, dtype=bool)
    marks[wanted & (MARKS - 1)] = True
    maybe = np.flatnonzero(marks[numbers & (MARKS - 1)])
    candidate = numbers[maybe]
    found[maybe] = wanted[np.searchsorted(wanted, candidate).clip(max=len(wanted) - 1)] == candidate
    return found


def within(group: Ints, limit: Ints) -> Bools:
    """bool[n]: the first `limit` members of each group; group, limit: int[n], all members of one have its limit."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    begin = np.flatnonzero(first)
    rank = np.arange(len(group)) - begin[np.cumsum(first) - 1]
    kept = np.empty(len(group), dtype=bool)
    kept[order] = rank < limit[order]
    return kept
