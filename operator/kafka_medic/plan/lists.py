"""List columns laid flat, for code that reads each replica once instead of padded matrices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_medic.plan.arrow import Column, compute, flat_values, integers, list_lengths, names

__all__ = ["Array", "Lists", "again", "codes_among", "distinct", "flatten", "member", "place_among", "repeats"]

Array = npt.NDArray[Any]
DENSE_IDS = 1 << 20
"""Below this, a table of all ids is quicker than a search."""


@dataclass(frozen=True, eq=False)
class Lists:
    """A list column laid flat: values int32[V] or int64[V], the length of each row (int64[N])."""

    values: Array
    length: Array

    @cached_property
    def width(self) -> int | None:
        """The length that all rows have; None where they differ. Most tables have one, which saves much counting."""
        first = int(self.length[0]) if len(self.length) else 0
        return first if len(self.length) * first == len(self.values) and bool((self.length == first).all()) else None

    @property
    def row(self) -> Array:
        """int32[V], int64[V] where that is too little: the row of each value."""
        return self.each(np.arange(len(self.length), dtype=self._index))

    @cached_property
    def start(self) -> Array:
        """int64[N]: where each row begins."""
        return np.cumsum(self.length) - self.length

    @property
    def position(self) -> Array:
        """int32[V], int64[V] where that is too little: place of each value in its own list."""
        if self.width is not None:
            return np.tile(np.arange(self.width, dtype=self._index), len(self.length))
        return np.arange(len(self.values), dtype=self._index) - self.each(self.start.astype(self._index))

    @property
    def _index(self) -> type[np.signedinteger[Any]]:
        # Millions of them stand in memory at once, and what is half as wide is read in half the time.
        return np.int32 if len(self.values) < 1 << 31 else np.int64

    def each(self, of_rows: Array) -> Array:
        """[V]: for each value what its row has."""
        return np.repeat(of_rows, self.length if self.width is None else self.width)


def place_among(ids: Array, brokers: Array) -> Array:
    """int32[V]: place of each broker among the ascending ids; any place for one that is not among them."""
    top = int(ids[-1]) if len(ids) else 0
    if top >= DENSE_IDS:
        return np.searchsorted(ids, brokers).clip(max=len(ids) - 1).astype(np.int32)
    table = np.zeros(top + 1, dtype=np.int32)
    table[ids] = np.arange(len(ids))
    within = not len(brokers) or (brokers.min() >= 0 and brokers.max() <= top)
    return np.asarray(table[brokers if within else brokers.clip(0, top)])


def flatten(column: Column) -> Lists:
    """A list column; where it holds numbers of 32 bits and no nulls, as they stand there."""
    values = compute.list_flatten(column)
    narrow = pa.types.is_int32(values.type) and not values.null_count
    return Lists(np.asarray(values) if narrow else flat_values(column), list_lengths(column))


def distinct(column: Column) -> list[str]:
    """The names in a column of strings or of a dictionary of them, which may have others too."""
    if pa.types.is_dictionary(column.type):
        return names(_whole(column).dictionary)
    return names(compute.unique(column.cast(pa.string())))


def codes_among(column: Column, known: list[str]) -> Array:
    """int64[N] place of each name of such a column among the known ones, their number for one that is not."""
    listed = pa.array(known, pa.string())
    if not pa.types.is_dictionary(column.type):
        return integers(compute.index_in(column.cast(pa.string()), listed), len(known))
    encoded = _whole(column)
    codes = integers(compute.index_in(encoded.dictionary.cast(pa.string()), listed), len(known))
    return np.asarray(np.append(codes, len(known))[integers(encoded.indices)])


def _whole(column: Column) -> Column:
    whole = column.combine_chunks()
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole


def repeats(key: Array) -> Array:
    """bool[N]: keys that stand earlier already."""
    order = np.argsort(key, kind="stable")
    again = np.zeros(len(key), dtype=bool)
    again[order[1:]] = key[order[1:]] == key[order[:-1]]
    return again


def again(lists: Lists) -> Array:
    """bool[V]: values that stand in their list already, at an earlier place."""
    found = np.zeros(len(lists.values), dtype=bool)
    row = lists.row
    for lag in range(1, int(lists.length.max(initial=0))):
        same_row = row[lag:] == row[:-lag]
        found[lag:] |= (lists.values[lag:] == lists.values[:-lag]) & same_row
    return found


def member(lists: Lists, other: Lists) -> Array:
    """bool[V]: values that stand anywhere in the same row of other, whose rows are as long."""
    found: Array = lists.values == other.values
    row = lists.row
    for lag in range(1, int(lists.length.max(initial=0))):
        same_row = row[lag:] == row[:-lag]
        found[lag:] |= (lists.values[lag:] == other.values[:-lag]) & same_row
        found[:-lag] |= (lists.values[:-lag] == other.values[lag:]) & same_row
    return found
