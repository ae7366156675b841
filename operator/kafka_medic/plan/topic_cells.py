"""How many replicas, or preferred leaders, of each topic stand on each broker, while some of them change places.

A cell is a topic and a broker, as one number: topic * brokers + broker.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kafka_medic.plan.columns import Bools, Ints

__all__ = ["Cells", "cell_type", "distinct", "members", "within"]

DENSE = 1 << 22
"""Up to so many cells have a table with a place for each."""
MARKS = 1 << 22
"""Size of the table that most numbers are recognised by; a quarter of it fits the cache of a processor."""


def cell_type(topics: int, brokers: int) -> type[np.signedinteger]:
    """32 bits where they suffice, which are sorted twice as fast."""
    return np.int32 if topics * brokers < 1 << 31 else np.int64


class Cells:
    """Counts of cells. A cell that is in none of the parts counts 0."""

    def __init__(self, parts: Sequence[Ints], size: int) -> None:
        """parts: the cell of each replica or leader, all of one integer type; size: how many cells there may be."""
        self._table: Ints | None = None
        joined = np.concatenate(parts)
        self._known, self._count = joined[:0], np.zeros(0, dtype=np.int64)
        if size <= DENSE:
            self._table = np.bincount(joined, minlength=size)
        else:
            joined.sort()
            last = np.flatnonzero(np.append(joined[1:] != joined[:-1], True)[: len(joined)])
            self._known, self._count = joined[last], np.diff(last, prepend=-1)
        self._changed, self._more = self._known[:0], self._count[:0]

    def read(self, cells: Ints) -> Ints:
        """int64[k]: the count of each of these cells."""
        if self._table is not None:
            return np.asarray(self._table[cells])
        return _at(self._known, self._count, cells) + _at(self._changed, self._more, cells)

    def add(self, cells: Ints, step: int) -> None:
        """Count `step` more for each of these cells; a cell may stand there several times."""
        if self._table is not None:
            np.add.at(self._table, cells, step)
            return
        both = np.concatenate([self._changed, cells.astype(self._known.dtype)])
        more = np.concatenate([self._more, np.full(len(cells), step)])
        order = np.argsort(both, kind="stable")
        both = both[order]
        first = np.flatnonzero(np.append(True, both[1:] != both[:-1])[: len(both)])
        self._changed, self._more = both[first], np.add.reduceat(more[order], first) if len(first) else more

    def now(self) -> tuple[Ints, Ints]:
        """(the cells that have a count, ascending; int64[k] the counts)."""
        if self._table is not None:
            there = np.flatnonzero(self._table)
            return there, self._table[there]
        if not len(self._changed):
            return self._known, self._count
        fresh = self._changed[~members(self._changed, self._known)]
        cells = np.sort(np.concatenate([self._known, fresh]))
        return cells, self.read(cells)


def _at(known: Ints, count: Ints, cells: Ints) -> Ints:
    if not len(known):
        return np.zeros(len(cells), dtype=np.int64)
    # A search in numbers of another type would copy all of them.
    wanted = cells.astype(known.dtype, copy=False)
    place = np.searchsorted(known, wanted).clip(max=len(known) - 1)
    return np.where(known[place] == wanted, count[place], 0)


def distinct(numbers: Ints) -> Ints:
    """Each of these numbers once, ascending. numpy's own unique hashes, which takes ten times as long here."""
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]


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
