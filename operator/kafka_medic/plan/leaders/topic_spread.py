"""How evenly the replicas and the preferred leaders of each single topic lie on the brokers, before and after a plan:
the worst of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kafka_medic.plan.lists import Array
from kafka_medic.plan.model import Fullest, TopicSpread
from kafka_medic.plan.topic_bounds import excess, leading_excess

__all__ = [
    "REPORTED_TOPICS", "Loads", "Planned", "Standing", "after_plan", "fullest", "loads", "pairs", "shared_excess",
    "standing", "widest", "worst",
]  # fmt: skip

REPORTED_TOPICS = 20


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
class Planned:
    """after: where all stands after a plan; given: what of it is the same in every plan, the replicas that stay and the
    leaders of partitions that are not touched. bound, led_bound: int64[T] what some broker has of each topic in any
    case."""

    after: Standing
    given: Standing
    bound: Array
    led_bound: Array

    def among(self, topics: Array) -> Planned:
        """That of the topics that bool[T] names."""
        return replace(self, after=self.after.among(topics), given=self.given.among(topics))


def after_plan(topic: Array, kept: Array, rows: Array, order: Array, live: Array, least: Array) -> Planned:
    """topic: int[N]; kept: int[N, H] what each partition keeps; rows: int64[n] those that the plan changes; order:
    int[n, F] what they come to, the preferred leader first; least: int64[T] as `least_in_racks` has it."""
    untouched = np.ones(len(topic), dtype=bool)
    untouched[rows] = False
    rest = topic[untouched], kept[untouched]
    given = Standing(loads([pairs(topic, kept)], live), loads([(rest[0], rest[1][:, 0])], live))
    after = standing([(topic[rows], order), rest], live)
    topics, brokers = len(least), max(int(live.sum()), 1)
    own, led = (
        np.maximum(-(-found.total(topics) // brokers), stays.most(topics))
        for found, stays in ((after.replicas, given.replicas), (after.leaders, given.leaders))
    )
    return Planned(after, given, np.maximum(own, least), led)


def shared_excess(planned: Planned, topic: Array, kept: Array, rows: Array, order: Array, live: Array) -> tuple[int, int]:
    """How far above their own bounds the replicas, and the preferred leaders, of some topic are in every plan with as
    many of both on each broker. Arguments as of `after_plan`."""
    topics, of = len(planned.bound), topic[rows]
    come = on_brokers(planned.after.replicas, len(live)) - on_brokers(planned.given.replicas, len(live))
    changed = np.bincount(of, minlength=topics)
    added = planned.after.replicas.total(topics) - planned.given.replicas.total(topics)
    stays = pairs(topic, kept)
    replicas = excess(come, planned.bound, added, stays, live, changed)
    led = on_brokers(planned.after.leaders, len(live))
    given = planned.given.leaders
    untouched = np.repeat(given.topic, given.count), np.repeat(given.broker, given.count)
    leaders = excess(led - on_brokers(given, len(live)), planned.led_bound, changed, untouched, live)
    there = planned.after.replicas
    return replicas, max(leaders, leading_excess(led, planned.led_bound, there.topic, there.broker, there.count))


def on_brokers(found: Loads, brokers: int) -> Array:
    """int64[B]: of all topics together."""
    return np.bincount(found.broker, weights=found.count, minlength=brokers).astype(np.int64)


def worst(
    planned: Planned, topic: Array, held: Array, listed: Sequence[str], live: Array, count: int
) -> tuple[TopicSpread, ...]:
    """The worst of the topics in `planned`, as `widest` has them.

    topic, held: int[N] topics and int[N, H] brokers of all partitions before; listed: names, by number."""
    topics = len(listed)
    after, bound, led_bound = planned.after, planned.bound, planned.led_bound
    total = after.replicas.total(topics)
    most, led = after.replicas.most(topics), after.leaders.most(topics)
    able = np.flatnonzero(total)
    by_replicas = able[np.lexsort((able, -total[able], (bound - most)[able]))][: -(-count // 2)]
    others = np.setdiff1d(able, by_replicas)
    by_leaders = others[np.lexsort((others, -total[others], (led_bound - led)[others]))][: count - len(by_replicas)]
    chosen = np.concatenate([by_replicas, by_leaders])
    among = np.zeros(topics, dtype=bool)
    among[chosen] = True
    here = among[topic]
    before = standing([(topic[here], held[here])], live)
    was, led_before = before.replicas.most(topics), before.leaders.most(topics)
    size = np.bincount(topic[here], minlength=topics)
    figures = (size, total, was, most, bound, led_before, led, led_bound)
    return widest((TopicSpread(listed[t], *(int(figure[t]) for figure in figures)) for t in chosen), count)


def widest(found: Iterable[TopicSpread], count: int) -> tuple[TopicSpread, ...]:
    """Of what was found apart first those whose fullest broker has most replicas above the bound, then, of the others,
    those with most preferred leaders above it: half of `count` each."""
    left = sorted(found, key=_by(lambda t: t.after - t.bound))
    first = left[: -(-count // 2)]
    return (*first, *sorted(left[len(first) :], key=_by(lambda t: t.led_after - t.led_bound))[: count - len(first)])


def fullest(found: Sequence[TopicSpread], shared: tuple[int, int] = (0, 0)) -> tuple[Fullest | None, Fullest | None]:
    """Of the worst topics the one whose replicas, and the one whose preferred leaders lie least evenly; shared: as of
    `shared_excess`."""
    if not found:
        return None, None
    first = min(found, key=_by(lambda t: t.after - t.bound))
    led = min(found, key=_by(lambda t: t.led_after - t.led_bound))
    return (
        Fullest(first.topic, first.after, first.bound + shared[0], first.bound),
        Fullest(led.topic, led.led_after, led.led_bound + shared[1], led.led_bound),
    )


def _by(above: Callable[[TopicSpread], int]) -> Callable[[TopicSpread], tuple[int, int, str]]:
    return lambda t: (-above(t), -t.replicas, t.topic)


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
