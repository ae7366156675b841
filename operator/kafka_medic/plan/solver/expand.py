"""Second pass: turn quotas into replicas, partition by partition, whatever its neighbours get.

Racks are dealt by McNaughton's wrap-around rule (1959): lay the quotas of a kind out on a strip, rack
after rack, and cut it into `choose` rows of `count` columns; as no quota is longer than a row, no
column meets a rack twice. A partition's column and a replica's place in its rack are strides of about
the golden ratio, so that neighbours, which are the partitions of one topic, land far from each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from kafka_medic.plan.columns import Ints
from kafka_medic.plan.solver.conflict_resolution import swap_conflicts
from kafka_medic.plan.solver.quotas import Quotas, broker_quotas
from kafka_medic.plan.solver.sites import Sites

__all__ = ["expand", "stride"]

GOLDEN = (math.sqrt(5) - 1) / 2


def stride(length: int) -> int:
    """A step near length / golden ratio that visits all of 0..length-1 before it returns."""
    step = max(round(length * GOLDEN), 1)
    while math.gcd(step, length) != 1:
        step += 1
    return step % length if length > 1 else 0


def expand(kind: Ints, missing: Ints, held_racks: Ints, quotas: Quotas, sites: Sites) -> tuple[Ints, bool]:
    """Broker indexes to add, int32[N, M] padded with -1, and whether every rack got just its quota.

    kind, missing: int32[N]; held_racks: int32[N, H] (-1 padded), used only when quotas are pooled.
    """
    width = max(int(missing.max(initial=0)), 1)
    kept = True
    if quotas.pooled:
        racks = _deal_pooled(missing, width, quotas.chosen[0])
        kept = _mend_pooled(racks, held_racks, sites, quotas.chosen[0])
    else:
        racks = _deal_racks(kind, width, quotas)
    poured = np.bincount(racks[racks >= 0], minlength=sites.racks)
    quota = broker_quotas(sites, poured)
    return _deal_brokers(racks, sites, quota, poured), kept


def _deal_racks(kind: Ints, width: int, quotas: Quotas) -> Ints:
    """int32[N, M] racks by kind: first what is forced, then the strip."""
    count = np.bincount(kind, minlength=len(quotas.chosen))
    order = np.argsort(_narrow(kind), kind="stable")

    def each(of_kinds: Ints) -> Ints:
        """For every partition, in order of kinds, what its kind has; in one pass, unlike a look-up."""
        return np.repeat(of_kinds, count)

    steps = np.array([stride(int(n)) if n else 0 for n in count], dtype=np.int64)
    # Kinds begin at different places: else partitions of a topic that are of different kinds get the same racks.
    begin = (np.arange(len(count)) * GOLDEN % 1 * count).astype(np.int64)
    column = (np.arange(len(kind)) - each(np.cumsum(count) - count)) * each(steps) + each(begin)
    column %= each(count)

    dealt = np.full((len(kind), width), -1, dtype=np.int32)
    used = quotas.forced.sum(axis=1)
    for slot in range(int(used.max(initial=0))):
        # The slot-th forced rack of each kind: the first whose running total passes slot.
        which = (np.cumsum(quotas.forced, axis=1) <= slot).sum(axis=1)
        dealt[:, slot] = each(np.where(used > slot, which, -1).astype(np.int32))

    total = quotas.chosen.sum(axis=1)
    racks_of_strip = np.tile(np.arange(quotas.chosen.shape[1], dtype=np.int32), len(quotas.chosen))
    strip = np.repeat(racks_of_strip, quotas.chosen.ravel())
    choose = total // np.maximum(count, 1)
    column += each(np.cumsum(total) - total)
    for slot in range(int(choose.max(initial=0))):
        for first in np.unique(used[choose > slot]).tolist():
            rows = np.flatnonzero(each((choose > slot) & (used == first)))
            dealt[rows, first + slot] = strip[(column + each(slot * count))[rows]]
    racks = np.empty_like(dealt)
    racks[order] = dealt
    return racks


def _deal_pooled(missing: Ints, width: int, poured: Ints) -> Ints:
    """int32[N, M] racks from one strip for all kinds; may meet a rack that is already used."""
    racks = np.full((len(missing), width), -1, dtype=np.int32)
    strip = np.repeat(np.arange(len(poured), dtype=np.int32), poured)
    done = 0
    for slot in range(width):
        rows = np.flatnonzero(missing > slot)
        count = len(rows)
        if count:
            racks[rows, slot] = strip[done + np.arange(count) * stride(count) % count]
        done += count
    return racks


def _mend_pooled(racks: Ints, held_racks: Ints, sites: Sites, poured: Ints) -> bool:
    """Swap racks until none is used twice; where no swap helps, take a free one, and answer False."""
    table = np.concatenate([held_racks, racks], axis=1)
    left = swap_conflicts(table, held_racks.shape[1], np.zeros(sites.racks, dtype=np.int32))
    racks[:] = table[:, held_racks.shape[1] :]
    fullness = poured / np.maximum(sites.sizes(), 1)
    for row, slot in left:
        racks[row, slot] = -1
        free = np.setdiff1d(np.arange(sites.racks), np.concatenate([held_racks[row], racks[row]]))
        racks[row, slot] = free[np.argmin(fullness[free])]
    return not left


def _deal_brokers(racks: Ints, sites: Sites, quota: Ints, poured: Ints) -> Ints:
    """int32[N, M] brokers: within a rack the replicas, in order of partition, stride over the quotas."""
    flat = racks.ravel()
    items = np.flatnonzero(flat >= 0)
    order = items[np.argsort(_narrow(flat[items]), kind="stable")]
    start = np.cumsum(poured) - poured
    in_rack = np.argsort(sites.rack, kind="stable")
    strip = np.repeat(in_rack.astype(np.int32), quota[in_rack])
    brokers = np.full(len(flat), -1, dtype=np.int32)
    for begin, length in _runs(start, poured):
        place = np.arange(length) * stride(length) % length
        brokers[order[begin : begin + length]] = strip[begin + place]
    return brokers.reshape(racks.shape)


def _runs(start: Ints, length: Ints) -> Iterator[tuple[int, int]]:
    return ((int(s), int(n)) for s, n in zip(start, length, strict=True) if n)


def _narrow(numbers: Ints) -> Ints:
    """16 bits where they suffice: numpy sorts those by radix, in linear time."""
    return numbers.astype(np.int16) if int(numbers.max(initial=0)) < 1 << 15 else numbers
