"""What the page about a plan shows beyond its summary: bytes of each wave and the topics that are spread worst, counted
block by block and put together. What is sent is bounded: a few numbers a wave, and the worst topics of each block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kafka_medic.plan.columns import Bools, Columns, Ints
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.topic_spread import SHOWN_TOPICS, Loads, TopicSpread, loads, widest, worst

__all__ = ["Part", "Shown", "WaveBytes", "scattered", "spread_of_topics", "together", "wave_bytes"]

REPLICAS = 5
"""Of a partition, at a guess."""
MOST_LOADS = 1_000_000
"""Loads of topics that lie in several blocks, all together: past it those topics are not counted."""


@dataclass(frozen=True, eq=False)
class WaveBytes:
    """Known bytes. wave: int64[W] the waves of a block; moved: in all; busiest: of the broker that sends or receives
    most, int64[W] each. received: int64[B] over all of them."""

    wave: Ints
    moved: Ints
    busiest: Ints
    received: Ints


@dataclass(frozen=True, eq=False)
class Part:
    """Of a topic that lies in several blocks what one of them holds. changed: whether the plan changes any of it;
    partitions: how many. before, after: int64[2, K] brokers, by place, and how many replicas stand there."""

    topic: str
    changed: bool
    partitions: int
    before: Ints
    after: Ints


@dataclass(frozen=True, eq=False)
class Shown:
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


def spread_of_topics(
    columns: Columns, rows: Ints, replicas: Ints, marks: Ints, question: Question
) -> tuple[tuple[TopicSpread, ...], tuple[Part, ...]]:
    """(the worst of the topics that lie in this block alone, what it holds of others).

    rows, replicas: int32[n, F], of the changed partitions; marks: int8[T] 0 where this block alone has the topic, 1
    where others have it too, 2 where those are too many to count."""
    live = np.array([broker.alive for broker in question.brokers], dtype=bool)
    topics = len(columns.topics)
    changed = np.zeros(topics, dtype=bool)
    changed[columns.topic[rows]] = True
    untouched = np.ones(len(columns.topic), dtype=bool)
    untouched[rows] = False
    size = np.bincount(columns.topic, minlength=topics)
    held = _pairs(columns.topic, columns.held)
    topic, broker = _pairs(columns.topic[rows], replicas)
    if untouched.any():
        more = _pairs(columns.topic[untouched], columns.held[untouched])
        topic, broker = np.concatenate([topic, more[0]]), np.concatenate([broker, more[1]])
    after = loads(topic, broker, live)
    shared = marks == 1
    mine = shared[held[0]]
    before = loads(held[0][mine], held[1][mine], live)
    parts = tuple(
        Part(columns.topics[number], bool(changed[number]), int(size[number]), _of(before, number), _of(after, number))
        for number in np.flatnonzero(shared).tolist()
    )
    alone = (changed & (marks == 0))[after.topic]
    if not alone.all():
        after = Loads(after.topic[alone], after.broker[alone], after.count[alone])
    return worst(after, held, columns.topics, size, live, SHOWN_TOPICS), parts


def scattered(topics: Sequence[Sequence[str]], rows: Sequence[Ints], brokers: int) -> tuple[list[Ints], int]:
    """(for the topics of each block int8[T] as in `spread_of_topics`, how many topics are not counted); rows: int64[T]
    partitions of each."""
    places = Counter(topic for of in topics for topic in of)
    cells = sum(
        min(brokers, count * REPLICAS)
        for of, counts in zip(topics, rows, strict=True)
        for topic, count in zip(of, counts.tolist(), strict=True)
        if places[topic] > 1
    )
    mark = 1 if cells <= MOST_LOADS else 2
    left = sum(count > 1 for count in places.values()) if mark == 2 else 0
    return [np.array([mark * (places[topic] > 1) for topic in of], dtype=np.int8) for of in topics], left


def together(
    waves: Sequence[WaveBytes], topics: Sequence[TopicSpread], parts: Sequence[Part], live: Bools, uncounted: int
) -> Shown:
    """The page's figures from those of the blocks; each wave is of one block."""
    count = max((int(found.wave.max(initial=-1)) for found in waves), default=-1) + 1
    moved, busiest = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    received = np.zeros(len(live), dtype=np.int64)
    for found in waves:
        kept = found.wave >= 0
        moved[found.wave[kept]], busiest[found.wave[kept]] = found.moved[kept], found.busiest[kept]
        received += found.received
    by_name: dict[str, list[Part]] = {}
    for part in parts:
        by_name.setdefault(part.topic, []).append(part)
    joined = [_joined(of, live) for of in by_name.values() if any(part.changed for part in of)]
    worst_of_all = widest([*topics, *joined], SHOWN_TOPICS)
    return Shown(WaveBytes(np.arange(count), moved, busiest, received), worst_of_all, uncounted)


def _joined(parts: Sequence[Part], live: Bools) -> TopicSpread:
    before, after = np.zeros(len(live), dtype=np.int64), np.zeros(len(live), dtype=np.int64)
    for part in parts:
        for total, (broker, count) in ((before, part.before), (after, part.after)):
            np.add.at(total, broker, count)
    replicas = int(after.sum())
    even = -(-replicas // max(int(live.sum()), 1))
    partitions = sum(part.partitions for part in parts)
    return TopicSpread(parts[0].topic, partitions, replicas, int(before.max()), int(after.max()), even)


def _numbered(wave: Ints) -> tuple[Ints, Ints]:
    """(the distinct numbers, ascending; the place of each of the waves among them)."""
    if not len(wave):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    first = int(wave.min())
    there = np.bincount(wave - first) > 0
    return np.flatnonzero(there) + first, (np.cumsum(there) - 1)[wave - first]


def _pairs(topic: Ints, brokers: Ints) -> tuple[Ints, Ints]:
    """(topic, broker) of each replica of a matrix of them, -1 padded."""
    there = brokers >= 0
    if there.all():
        return np.repeat(topic, brokers.shape[1]), brokers.ravel()
    return np.repeat(topic, there.sum(axis=1)), brokers[there]


def _of(found: Loads, topic: int) -> Ints:
    """int64[2, K]: brokers and counts of one topic."""
    here = slice(*np.searchsorted(found.topic, (topic, topic + 1)))
    return np.array([found.broker[here], found.count[here]], dtype=np.int64)
