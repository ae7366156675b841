"""The report's data beyond the summary: bytes of each wave and the topics that are spread worst, counted block by block
and put together. What tasks send is bounded: a few numbers a wave, and the worst topics of each block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kafka_medic.plan.columns import Bools, Columns, Ints
from kafka_medic.plan.leaders.topic_spread import REPORTED_TOPICS, after_plan, widest, worst
from kafka_medic.plan.lists import Array
from kafka_medic.plan.model import TopicSpread
from kafka_medic.plan.spark.question import Question

__all__ = ["Part", "ReportDetails", "WaveBytes", "scattered", "spread_of_topics", "together", "wave_bytes"]

REPLICAS = 5
"""Of a partition, at a guess."""
MOST_LOADS = 1_000_000
"""Loads of topics that lie in several blocks, all together: past it those topics are not counted."""


@dataclass(frozen=True, eq=False)
class Loads:
    """int[K] each: so many of a topic (its number) stand on a broker (its place); by topic, then broker."""

    topic: Array
    broker: Array
    count: Array

    def most(self, topics: int) -> Array:
        """int64[topics]: the most on one broker."""
        return self._of_each(np.maximum, topics)

    def total(self, topics: int) -> Array:
        """int64[topics]: on all brokers together."""
        return self._of_each(np.add, topics)

    def _of_each(self, gather: np.ufunc, topics: int) -> Array:
        found = np.zeros(topics, dtype=np.int64)
        first = np.flatnonzero(np.diff(self.topic, prepend=-1))
        if len(first):
            found[self.topic[first]] = gather.reduceat(self.count, first)
        return found

    def among(self, topics: Array) -> Loads:
        """Those of the topics that bool[T] names."""
        kept = topics[self.topic]
        return self if kept.all() else Loads(self.topic[kept], self.broker[kept], self.count[kept])


@dataclass(frozen=True, eq=False)
class Standing:
    """Where the replicas of topics are, and where their preferred leaders."""

    replicas: Loads
    leaders: Loads

    def among(self, topics: Array) -> Standing:
        """That of the topics that bool[T] names."""
        return Standing(self.replicas.among(topics), self.leaders.among(topics))


def standing(parts: Sequence[tuple[Array, Array]], live: Array) -> Standing:
    """Count what is on live brokers (bool[B]). parts: int[n] topics and int[n, F] brokers by place, the preferred
    leader first, -1 padded."""
    replicas = [pairs(topic, brokers) for topic, brokers in parts]
    leaders = [(topic, brokers[:, 0]) for topic, brokers in parts]
    return Standing(loads(replicas, live), loads(leaders, live))


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
    partitions: how many. before, after: int64[2, K] brokers, by place, and how many replicas stand there; led_before,
    led_after: the same of its preferred leaders; led_given: of those that the plan does not touch."""

    topic: str
    changed: bool
    partitions: int
    before: Ints
    after: Ints
    led_before: Ints
    led_after: Ints
    led_given: Ints


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


def spread_of_topics(
    columns: Columns, rows: Ints, order: Ints, marks: Ints, question: Question, least: Ints
) -> tuple[tuple[TopicSpread, ...], tuple[Part, ...]]:
    """(the worst of the topics that lie in this block alone, what it holds of others).

    rows, order: int32[n, F], of the changed partitions; marks: int8[T] 0 where this block alone has the topic, 1
    where others have it too, 2 where those are too many to count; least: int64[T] as `least_in_racks` has it."""
    live = np.array([broker.alive for broker in question.brokers], dtype=bool)
    changed = np.zeros(len(columns.topics), dtype=bool)
    changed[columns.topic[rows]] = True
    size = np.bincount(columns.topic, minlength=len(changed))
    planned = after_plan(columns.topic, columns.held, rows, order, live, least)
    untouched = np.ones(len(columns.topic), dtype=bool)
    untouched[rows] = False
    rest = columns.topic[untouched], columns.held[untouched]
    after = standing([(columns.topic[rows], order), rest], live)
    led_given = loads([(rest[0], rest[1][:, 0])], live)
    shared = marks == 1
    mine = shared[columns.topic]
    before = standing([(columns.topic[mine], columns.held[mine])], live)
    parts = tuple(
        Part(
            columns.topics[number], bool(changed[number]), int(size[number]),
            _of(before.replicas, number), _of(after.replicas, number),
            _of(before.leaders, number), _of(after.leaders, number), _of(led_given, number),
        )
        for number in np.flatnonzero(shared).tolist()
    )  # fmt: skip
    alone = planned.among(changed & (marks == 0))
    return worst(alone, columns.topic, columns.held, columns.topics, live, REPORTED_TOPICS), parts


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
) -> ReportDetails:
    """The report's figures from those of the blocks; each wave is of one block."""
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
    worst_of_all = widest([*topics, *joined], REPORTED_TOPICS)
    return ReportDetails(WaveBytes(np.arange(count), moved, busiest, received), worst_of_all, uncounted)


def _joined(parts: Sequence[Part], live: Bools) -> TopicSpread:
    brokers = max(int(live.sum()), 1)

    def total(found: Iterable[Ints]) -> Ints:
        counted = np.zeros(len(live), dtype=np.int64)
        for broker, count in found:
            np.add.at(counted, broker, count)
        return counted

    before, after = total(part.before for part in parts), total(part.after for part in parts)
    led, given = total(part.led_after for part in parts), total(part.led_given for part in parts)
    return TopicSpread(
        topic=parts[0].topic,
        partitions=sum(part.partitions for part in parts),
        replicas=int(after.sum()),
        before=int(before.max()),
        after=int(after.max()),
        bound=max(-(-int(after.sum()) // brokers), int(before.max())),  # all replicas stay
        led_before=int(total(part.led_before for part in parts).max()),
        led_after=int(led.max()),
        led_bound=max(-(-int(led.sum()) // brokers), int(given.max())),
    )


def _numbered(wave: Ints) -> tuple[Ints, Ints]:
    """(the distinct numbers, ascending; the place of each of the waves among them)."""
    if not len(wave):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    first = int(wave.min())
    there = np.bincount(wave - first) > 0
    return np.flatnonzero(there) + first, (np.cumsum(there) - 1)[wave - first]


def _of(found: Loads, topic: int) -> Ints:
    """int64[2, K]: brokers and counts of one topic."""
    here = slice(*np.searchsorted(found.topic, (topic, topic + 1)))
    return np.array([found.broker[here], found.count[here]], dtype=np.int64)


def loads(parts: Sequence[tuple[Array, Array]], live: Array) -> Loads:
    """Of parts of int[n] topics and int[n] brokers by place, one of both for each replica or leader: what is on live
    brokers (bool[B])."""
    # Sorting is one pass over what is there; hashes of millions are far slower, and a table has a cell for what is not.
    cell = np.sort(np.concatenate([_cells(topic, broker, live) for topic, broker in parts]))
    last = np.flatnonzero(np.append(cell[1:] != cell[:-1], True)[: len(cell)])
    count = np.diff(last, prepend=-1)
    cell = cell[last]
    topic = cell // len(live)
    return Loads(topic, cell - topic * len(live), count)


def _cells(topic: Array, broker: Array, live: Array) -> Array:
    """A number for each topic and live broker, in 32 bits where they suffice: sorted twice as fast."""
    small = (int(topic.max(initial=0)) + 1) * len(live) < 1 << 31
    cell: Array = topic.astype(np.int32 if small else np.int64) * len(live) + broker
    return cell if live.all() else cell[live[broker]]


def pairs(topic: Array, brokers: Array) -> tuple[Array, Array]:
    """(topic, broker) of each replica of a matrix of them, -1 padded."""
    there = brokers >= 0
    if there.all():
        return np.repeat(topic, brokers.shape[1]), brokers.ravel()
    return np.repeat(topic, there.sum(axis=1)), brokers[there]
