"""How evenly the replicas of each single topic lie on the brokers, before and after a plan: the worst of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kafka_medic.plan.arrow import Column, compute, flat_values, integers, list_lengths, names
from kafka_medic.plan.lists import Array, place_among
from kafka_medic.plan.problem import Broker

__all__ = ["SHOWN_TOPICS", "Loads", "TopicSpread", "loads", "widest", "worst", "worst_topics"]

SHOWN_TOPICS = 20


@dataclass(frozen=True)
class TopicSpread:
    """before, after: the most replicas of the topic on one broker; even: what the fullest would have if they were
    spread over all live brokers alike."""

    topic: str
    partitions: int
    replicas: int
    before: int
    after: int
    even: int


@dataclass(frozen=True, eq=False)
class Loads:
    """int64[K] each: so many replicas of a topic (its number) stand on a broker (its place); by topic, then broker."""

    topic: Array
    broker: Array
    count: Array

    def most(self, topics: int) -> Array:
        """int64[topics]: the most on one broker."""
        found = np.zeros(topics, dtype=np.int64)
        np.maximum.at(found, self.topic, self.count)
        return found


def loads(topic: Array, broker: Array, live: Array, gone: tuple[Array, Array] | None = None) -> Loads:
    """Count replicas on live brokers (bool[B]), each given as its topic and its broker, without those gone."""
    # Whether it counts for or against is the lowest bit, so one sort does; hashes of millions are far slower.
    code = _cells(topic, broker, live) * 2
    if gone is not None:
        code = np.concatenate([code, _cells(*gone, live) * 2 + 1])
    code = np.sort(code)
    cell: Array = code >> 1
    last = np.flatnonzero(np.append(cell[1:] != cell[:-1], True)[: len(cell)])
    if gone is None:
        count = np.diff(last, prepend=-1)
    else:
        count = np.diff(np.cumsum(1 - 2 * (code & 1), dtype=np.int64)[last], prepend=0)
    cell = cell[last]
    topics = int(cell[-1]) // len(live) + 1 if len(cell) else 0
    of: Array = np.repeat(np.arange(topics), np.diff(np.searchsorted(cell, np.arange(topics + 1) * len(live))))
    return Loads(of, cell - of * len(live), count)


def _cells(topic: Array, broker: Array, live: Array) -> Array:
    """A number for each topic and live broker, in 32 bits where they suffice: sorted twice as fast."""
    small = (int(topic.max(initial=0)) + 1) * len(live) < 1 << 30
    cell: Array = topic.astype(np.int32 if small else np.int64) * len(live) + broker
    return cell if live.all() else cell[live[broker]]


def worst(
    after: Loads, held: tuple[Array, Array], listed: Sequence[str], size: Array, live: Array, count: int
) -> tuple[TopicSpread, ...]:
    """Of the topics with replicas in `after` those whose fullest broker is furthest above even, at most `count`.

    held: topic and broker of each replica before; listed: names, by number; size: int64[T] partitions."""
    total = np.bincount(after.topic, weights=after.count, minlength=len(listed)).astype(np.int64)
    most = after.most(len(listed))
    even = -(-total // max(int(live.sum()), 1))
    able = np.flatnonzero(total)
    chosen = able[np.lexsort((able, -total[able], (even - most)[able]))[:count]]
    of, broker = held
    here = np.isin(of, chosen)
    before = loads(of[here], broker[here], live).most(len(listed))
    return widest(
        (
            TopicSpread(listed[t], int(size[t]), int(total[t]), int(before[t]), int(most[t]), int(even[t]))
            for t in chosen
        ),
        count,
    )


def widest(found: Iterable[TopicSpread], count: int) -> tuple[TopicSpread, ...]:
    """The worst of what was found apart."""
    return tuple(sorted(found, key=lambda t: (t.even - t.after, -t.replicas, t.topic))[:count])


def worst_topics(
    partitions: pa.Table, plan: pa.Table, brokers: Sequence[Broker], count: int
) -> tuple[TopicSpread, ...]:
    """The worst of the topics that a plan changes. brokers: by id."""
    ids = np.array([broker.id for broker in brokers], dtype=np.int64)
    live = np.array([broker.alive for broker in brokers], dtype=bool)
    listed = compute.unique(plan.column("topic"))
    topics = names(listed)
    of, planned = _codes(partitions, listed), _codes(plan, listed)
    held = _replicas(partitions, "replicas", of, ids)
    come, gone = (_replicas(plan, name, planned, ids) for name in ("replicas", "replicasBefore"))
    topic, broker = (np.concatenate([held[at], come[at]]) for at in (0, 1))
    size = np.bincount(of + 1, minlength=len(topics) + 1)[1:]
    return worst(loads(topic, broker, live, gone), held, topics, size, live, count)


def _codes(table: pa.Table, listed: Column) -> Array:
    """int64[N] place of each row's topic in the list, -1 if it is none of it."""
    return integers(compute.index_in(table.column("topic").cast(pa.string()), listed))


def _replicas(table: pa.Table, column: str, codes: Array, ids: Array) -> tuple[Array, Array]:
    """(topic, broker index) of each replica of the listed topics; codes: of the rows."""
    lists = table.column(column)
    topic, broker = np.repeat(codes, list_lengths(lists)), flat_values(lists)
    if len(codes) and codes.min() < 0:
        known = topic >= 0
        topic, broker = topic[known], broker[known]
    return topic, place_among(ids, broker)
