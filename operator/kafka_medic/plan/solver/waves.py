"""In which order, and how much at once: the most exposed data first, no broker overwhelmed.

A broker receives each replica added to it; the partition's leader (its first replica where the leader
is not known) sends all of them. Sizes that are not known count as 0 bytes and are bounded by number.
"""

from __future__ import annotations

import numpy as np

from kafka_medic.plan.columns import Bools, Columns, Ints
from kafka_medic.plan.wave_limits import WaveLimits

__all__ = ["INTERNAL_TOPICS", "assign_waves", "exposure", "exposure_order"]

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
MOST_CELLS = 8_000_000
"""Waves x brokers that are counted at once."""
EXACT = 1 << 53
"""Below this, sums of whole numbers are exact as floats."""


def exposure_order(columns: Columns, rows: Ints) -> Ints:
    """The rows, most exposed first: fewest replicas, internal topics, fewest in sync, then by name."""
    ordered: Ints = rows[np.argsort(exposure(columns, rows), kind="stable")]
    return ordered


def exposure(columns: Columns, rows: Ints) -> Ints:
    """int64[n], smaller is more exposed: replicas, then internal topics first, then those in sync."""
    internal = np.array([topic in INTERNAL_TOPICS for topic in columns.topics], dtype=bool)
    held = columns.held_count[rows].astype(np.int64)
    in_sync = columns.isr_count[rows]
    in_sync = np.where(in_sync < 0, held, in_sync)
    outside = (~internal)[columns.topic[rows]] if len(internal) else np.zeros(0, dtype=bool)
    key: Ints = (held * 2 + outside) << 32 | in_sync
    return key


def assign_waves(added: Ints, source: Ints, size: Ints, brokers: int, limits: WaveLimits) -> Ints:
    """int32[N] wave of each partition, from 0, for partitions given most exposed first.

    added: int32[N, M] broker indexes, -1 padded; source: int32[N] sender; size: int64[N] bytes, -1 unknown.
    Each wave takes, in order, all that fits; what does not fit waits at the front of the next one.
    """
    load = _Load(added, source, size, brokers, limits)
    wave: Ints = (np.arange(len(added)) // limits.records).astype(np.int32)
    if load.fits(wave):
        return wave  # nothing ever has to wait
    waiting, following, number = np.zeros(0, dtype=np.int64), 0, 0
    while len(waiting) or following < len(added):
        taken, waiting, following = _fill(load, waiting, following, limits.records)
        wave[taken] = number
        number += 1
    return wave


def _fill(load: _Load, waiting: Ints, following: int, records: int) -> tuple[Ints, Ints, int]:
    """One wave: (partitions that it takes, those that wait for the next, the first that was not offered yet).

    Those that wait are offered first, then those that follow, until the wave is full or little of what is offered fits.
    """
    used = load.empty()
    taken: list[Ints] = [waiting[:0]]
    left: list[Ints] = []
    position, free = 0, records
    while free > 0:
        offered = waiting[position : position + records]
        position += len(offered)
        if not len(offered):
            offered = np.arange(following, min(following + records, len(load.added)))
            following += len(offered)
        if not len(offered):
            break
        fits = load.take(offered, used, free)
        taken.append(offered[fits])
        left.append(offered[~fits])
        free -= len(taken[-1])
        if len(taken[-1]) * 8 < len(offered):
            break
    return np.concatenate(taken), np.concatenate([*left, waiting[position:]]), following


class _Load:
    """Per partition what it costs which broker, in three measures, capped so that each fits alone."""

    def __init__(self, added: Ints, source: Ints, size: Ints, brokers: int, limits: WaveLimits) -> None:
        self.added, self.source, self.brokers = added, source, brokers
        known = np.maximum(size, 0)
        self.bytes_in = np.minimum(known, limits.bytes_in)
        self.bytes_out = np.minimum(known * (added >= 0).sum(axis=1), limits.bytes_out)
        self.limits = limits

    def fits(self, wave: Ints) -> bool:
        """Whether these waves (int32[N]) keep to the limits; False also where that is too much to count."""
        cells = (int(wave.max(initial=0)) + 1) * self.brokers
        if cells > MOST_CELLS or max(self.limits.bytes_in, self.limits.bytes_out) >= EXACT:
            return False
        row = wave.astype(np.int64) * self.brokers
        out = row + self.source
        partitions = np.bincount(out, minlength=cells)
        bytes_in = np.zeros(cells)
        for column in self.added.T:
            there = column >= 0
            whole = bool(there.all())
            into, cost = (row + column, self.bytes_in) if whole else ((row + column)[there], self.bytes_in[there])
            partitions += np.bincount(into, minlength=cells)
            bytes_in += np.bincount(into, weights=cost, minlength=cells)
        bytes_out = np.bincount(out, weights=self.bytes_out, minlength=cells)
        limits = self.limits
        return bool(
            partitions.max(initial=0) <= limits.partitions_per_broker
            and bytes_in.max(initial=0) <= limits.bytes_in
            and bytes_out.max(initial=0) <= limits.bytes_out
        )

    def empty(self) -> Ints:
        """int64[3, B]: bytes in, bytes out, partitions used so far."""
        return np.zeros((3, self.brokers), dtype=np.int64)

    def take(self, rows: Ints, used: Ints, most: int) -> Bools:
        """bool[n]: which rows fit, in order, on top of `used`, which grows by them."""
        fits = np.ones(len(rows), dtype=bool)
        position = np.arange(len(rows))
        receivers = self.added[rows]
        at, slot = np.nonzero(receivers >= 0)
        into = receivers[at, slot]
        both = np.column_stack([receivers, self.source[rows]])
        who, end = np.nonzero(both >= 0)
        ends = both[who, end]
        one = np.ones(len(ends), dtype=np.int64)
        measures = (
            (0, into, at, self.bytes_in[rows][at], self.limits.bytes_in),
            (1, self.source[rows], position, self.bytes_out[rows], self.limits.bytes_out),
            (2, ends, who, one, self.limits.partitions_per_broker),
        )
        for measure, broker, row, cost, limit in measures:
            over = _running(broker, cost, self.brokers) + used[measure][broker] > limit
            fits[row[over]] = False
        fits[np.flatnonzero(fits)[most:]] = False
        for measure, broker, row, cost, _ in measures:
            kept = fits[row]
            np.add.at(used[measure], broker[kept], cost[kept])
        return fits


def _running(broker: Ints, cost: Ints, brokers: int) -> Ints:
    """Cost on the broker of each entry up to and with it, entries in order of row (int64[n])."""
    order = np.argsort(broker.astype(np.int16) if brokers < 1 << 15 else broker, kind="stable")
    total = np.cumsum(cost[order])
    count = np.bincount(broker, minlength=brokers)
    first = np.cumsum(count) - count
    before = np.concatenate(([0], total))[first]
    running = np.empty(len(cost), dtype=np.int64)
    running[order] = total - before[broker[order]]
    return running
