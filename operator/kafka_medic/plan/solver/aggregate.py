"""First pass: count the partitions that must grow by the little that matters for where they may grow.

Two partitions whose replicas stand in the same racks and that miss as many are interchangeable to
the solver, so a million partitions become a table of a few dozen kinds. Kinds of several parts of a
large data set are merged by adding their counts, which is all that a distributed engine has to ship.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kafka_medic.plan.columns import Ints

__all__ = ["Kinds", "classify", "merge"]

DENSE_KEYS = 1 << 22
"""Below this many possible keys a lookup table beats sorting."""


@dataclass(frozen=True, eq=False)
class Kinds:
    """T kinds in a canonical order.

    racks: int32[T, H] rack indexes of the replicas held, ascending, -1 padded in front.
    missing: int32[T] replicas to add. count: int64[T] partitions of the kind.
    """

    racks: Ints
    missing: Ints
    count: Ints

    def held_per_rack(self, racks: int) -> Ints:
        """int64[T, racks]: how many replicas a partition of the kind has in each rack."""
        held = np.zeros((len(self.count), racks), dtype=np.int64)
        for column in self.racks.T:
            rows = np.flatnonzero(column >= 0)
            held[rows, column[rows]] += 1
        return held


def classify(held_racks: Ints, missing: Ints, racks: int) -> tuple[Kinds, Ints]:
    """(kinds, int32[N] the kind of each partition) from held_racks int32[N, H] and missing int32[N]."""
    ordered = np.sort(held_racks, axis=1)
    key: Ints = missing.astype(np.int64)
    size = int(missing.max(initial=0)) + 1
    for column in ordered.T:
        if size > (1 << 62) // (racks + 1):
            # Renumber before the key outgrows 64 bits; np.unique keeps the order.
            distinct, key = np.unique(key, return_inverse=True)
            size = len(distinct)
        key = key * (racks + 1) + (column + 1)
        size *= racks + 1
    if size <= DENSE_KEYS:
        counts = np.bincount(key, minlength=size)
        present = np.flatnonzero(counts)
        number = np.cumsum(counts > 0) - 1
        kind: Ints = number[key].astype(np.int32)
        first = np.zeros(len(present), dtype=np.int64)
        first[kind[::-1]] = np.arange(len(key))[::-1]
        count = counts[present].astype(np.int64)
    else:
        _, first, place, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        kind = place.astype(np.int32)
    return Kinds(ordered[first], missing[first], count.astype(np.int64)), kind


def merge(parts: Sequence[Kinds], racks: int) -> tuple[Kinds, list[Ints]]:
    """(the kinds of several disjoint sets of partitions as one, whatever the order of the parts; for each
    part int32[T] which of them its kinds are)."""
    width = max((part.racks.shape[1] for part in parts), default=1)
    rows = [np.pad(part.racks, ((0, 0), (width - part.racks.shape[1], 0)), constant_values=-1) for part in parts]
    stacked = np.concatenate([*rows, np.empty((0, width), np.int32)])
    missing = np.concatenate([*(part.missing for part in parts), np.empty(0, np.int32)]).astype(np.int32)
    kinds, place = classify(stacked, missing, racks)
    counts = np.concatenate([*(part.count for part in parts), np.empty(0, np.int64)])
    total = np.zeros(len(kinds.count), dtype=np.int64)
    np.add.at(total, place, counts)
    ends = np.cumsum([len(part.count) for part in parts], dtype=np.int64)
    return Kinds(kinds.racks, kinds.missing, total), np.split(place, ends[:-1]) if parts else []
