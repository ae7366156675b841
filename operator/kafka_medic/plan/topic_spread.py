"""How evenly the replicas of each single topic lie on the brokers, before and after a plan: the worst of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_medic.plan.arrow import Column, compute, flat_values, integers, list_lengths, names
from kafka_medic.plan.lists import Array, place_among
from kafka_medic.plan.problem import Broker

__all__ = ["TopicSpread", "worst_topics"]

CELLS = 4_000_000
"""Topics x brokers that are counted at a time."""
MOST_PASSES = 50


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


def worst_topics(
    partitions: pa.Table, plan: pa.Table, brokers: Sequence[Broker], count: int
) -> tuple[TopicSpread, ...] | None:
    """Of the topics that the plan changes those whose fullest broker is furthest above even, at most `count`; None if
    there are too many to count. brokers: by id."""
    ids = np.array([broker.id for broker in brokers], dtype=np.int64)
    live = np.array([broker.alive for broker in brokers], dtype=bool)
    listed = compute.unique(plan.column("topic"))
    topics = names(listed)
    if not topics or not live.any():
        return ()
    each = max(CELLS // len(ids), 1)
    if len(topics) > each * MOST_PASSES:
        return None
    of, planned = _codes(partitions, listed), _codes(plan, listed)
    rows = [_replicas(partitions, "replicas", of, ids)]
    rows += [_replicas(plan, column, planned, ids) for column in ("replicasBefore", "replicas")]
    found: list[TopicSpread] = []
    size = np.bincount(of + 1, minlength=len(topics) + 1)[1:]
    for first in range(0, len(topics), each):
        many = min(each, len(topics) - first)
        held, gone, come = (_count(topic, broker, first, many, len(ids)) for topic, broker in rows)
        after = held - gone + come
        if not live.all():
            held, after = np.where(live, held, 0), np.where(live, after, 0)
        total, most = after.sum(axis=1), after.max(axis=1)
        even = -(-total // int(live.sum()))
        worst = np.lexsort((np.arange(many), -total, even - most))[:count]
        found += [
            TopicSpread(
                topics[first + at], int(size[first + at]), int(total[at]),
                int(held[at].max()), int(most[at]), int(even[at]),
            )
            for at in worst.tolist()
        ]  # fmt: skip
    return tuple(sorted(found, key=lambda t: (t.even - t.after, -t.replicas, t.topic))[:count])


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


def _count(topic: Array, broker: Array, first: int, many: int, brokers: int) -> Array:
    """int64[many, B] replicas of each topic from `first` on each broker."""
    if (topic[1:] >= topic[:-1]).all():
        here: Any = slice(*np.searchsorted(topic, (first, first + many)))
    else:
        here = (topic >= first) & (topic < first + many)
    cell = (topic[here] - first) * brokers + broker[here]
    return np.bincount(cell, minlength=many * brokers).reshape(many, brokers)
