"""The report's data beyond the summary: bytes of each wave and the topics that are spread worst, counted block by block
and put together. What tasks send is bounded: a few numbers a wave, and the worst topics of each block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kafka_medic.plan.columns import Ints
from kafka_medic.plan.leaders.topic_spread import REPORTED_TOPICS, widest
from kafka_medic.plan.model import TopicSpread

__all__ = ["ReportDetails", "WaveBytes", "together", "wave_bytes"]


@dataclass(frozen=True, eq=False)
class WaveBytes:
    """Known bytes. wave: int64[W] the waves of a block; moved: in all; busiest: of the broker that sends or receives
    most, int64[W] each. received: int64[B] over all of them."""

    wave: Ints
    moved: Ints
    busiest: Ints
    received: Ints


@dataclass(frozen=True, eq=False)
class ReportDetails:
    """waves: WaveBytes of the whole plan, its waves 0, 1, 2, ...; topics: the worst ones, of all but `uncounted`."""

    waves: WaveBytes
    topics: tuple[TopicSpread, ...]
    uncounted: int


def wave_bytes(wave: Ints, added: Ints, sender: Ints, size: Ints, brokers: int) -> WaveBytes:
    """Of n partitions: int32[n] wave, int32[n, M] added, int32[n] sender, int64[n] bytes, -1 unknown."""
    numbers, place = _numbered(wave)
    row, known = place * brokers, np.maximum(size, 0)
    cells = len(numbers) * brokers
    come, copies = np.zeros(cells), np.zeros(len(wave), dtype=np.int64)
    for column in added.T:
        there = column >= 0
        copies += there
        come += np.bincount((row + column)[there], weights=known[there], minlength=cells)
    copied = known * copies
    go = np.bincount(row + sender, weights=copied, minlength=cells)
    shape = (len(numbers), brokers)
    come, go = come.reshape(shape), go.reshape(shape)
    return WaveBytes(
        numbers,
        np.bincount(place, weights=copied, minlength=len(numbers)).astype(np.int64),
        np.maximum(come, go).max(axis=1, initial=0).astype(np.int64),
        come.sum(axis=0).astype(np.int64),
    )


def together(waves: Sequence[WaveBytes], topics: Sequence[TopicSpread], brokers: int, uncounted: int) -> ReportDetails:
    """The report's figures from those of the blocks; each wave is of one block."""
    count = max((int(found.wave.max(initial=-1)) for found in waves), default=-1) + 1
    moved, busiest = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    received = np.zeros(brokers, dtype=np.int64)
    for found in waves:
        moved[found.wave], busiest[found.wave] = found.moved, found.busiest
        received += found.received
    return ReportDetails(
        WaveBytes(np.arange(count), moved, busiest, received), widest(topics, REPORTED_TOPICS), uncounted
    )


def _numbered(wave: Ints) -> tuple[Ints, Ints]:
    """(the distinct numbers, ascending; the place of each of the waves among them)."""
    if not len(wave):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    first = int(wave.min())
    there = np.bincount(wave - first) > 0
    return np.flatnonzero(there) + first, (np.cumsum(there) - 1)[wave - first]
