"""How evenly the replicas and the preferred leaders of each single topic lie on the brokers, before and after a plan:
the worst of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kafka_medic.plan.lists import Array
from kafka_medic.plan.model import Fullest, TopicSpread
from kafka_medic.plan.topic_bounds import excess, leading_excess
from kafka_medic.plan.topic_cells import Cells, cells_of

__all__ = ["REPORTED_TOPICS", "Planned", "after_plan", "fullest", "widest", "worst"]

REPORTED_TOPICS = 20


@dataclass(frozen=True, eq=False)
class Planned:
    """What a plan comes to. topics: bool[T] those that are meant. int64[T] each: total replicas; most of them, and most
    preferred leaders, on one live broker; bound, led_bound: what some broker has of each topic in any case. shared: how
    far above its own bound of replicas, and of leaders, some topic is in every plan with as many on each broker."""

    topics: Array
    total: Array
    most: Array
    led: Array
    bound: Array
    led_bound: Array
    shared: tuple[int, int]

    def among(self, topics: Array) -> Planned:
        """That of the topics that bool[T] names."""
        return replace(self, topics=self.topics & topics)


def after_plan(
    topic: Array, kept: Array, rows: Array, order: Array, live: Array, least: Array, takes: Array | None = None
) -> Planned:
    """topic: int[N]; kept: int[N, H] what each partition keeps; rows: int64[n] those that the plan changes; order:
    int[n, F] what they come to, the preferred leader first; least: int64[T] as `least_in_racks` has it; takes: bool[B]
    brokers that take replicas, None: all live ones."""
    takes = live if takes is None else takes
    topics, of = len(least), topic[rows]
    size, changed = np.bincount(topic, minlength=topics), np.bincount(of, minlength=topics)
    untouched = np.ones(len(topic), dtype=bool)
    untouched[rows] = False
    rest, rest_on = topic[untouched], kept[untouched]

    def counted(*parts: tuple[Array, Array]) -> Cells:
        cells = [cells_of(names, on, live, topics) for names, on in parts]
        return Cells(cells, topics, len(live), int(size.max(initial=0)))

    replicas = counted((of, order), (rest, rest_on))
    load, total, most = replicas.on_brokers(), replicas.total(), replicas.most()
    stays = counted((topic, kept))
    mean = -(-(total if takes.all() else replicas.total(takes)) // max(int(takes.sum()), 1))
    bound = np.maximum(np.maximum(mean, stays.most()), least)
    come = load - stays.on_brokers()
    shared = excess(come, bound, total - stays.total(), stays, takes, changed)
    del stays

    leaders = counted((of, order[:, 0]), (rest, rest_on[:, 0]))
    led, led_total = leaders.on_brokers(), leaders.total()
    left = counted((rest, rest_on[:, 0]))
    led_bound = np.maximum(-(-led_total // max(int(live.sum()), 1)), left.most())
    led_shared = excess(led - left.on_brokers(), led_bound, changed, left, live)
    led_shared = max(led_shared, leading_excess(led, led_bound, replicas))
    return Planned(total > 0, total, most, leaders.most(), bound, led_bound, (shared, led_shared))


def worst(
    planned: Planned, topic: Array, held: Array, listed: Sequence[str], live: Array, count: int
) -> tuple[TopicSpread, ...]:
    """The worst of the topics in `planned`, as `widest` has them.

    topic, held: int[N] topics and int[N, H] brokers of all partitions before; listed: names, by number."""
    topics = len(listed)
    bound, led_bound, total, most, led = planned.bound, planned.led_bound, planned.total, planned.most, planned.led
    able = np.flatnonzero(planned.topics)
    by_replicas = able[np.lexsort((able, -total[able], (bound - most)[able]))][: -(-count // 2)]
    others = np.setdiff1d(able, by_replicas)
    by_leaders = others[np.lexsort((others, -total[others], (led_bound - led)[others]))][: count - len(by_replicas)]
    chosen = np.sort(np.concatenate([by_replicas, by_leaders]))
    place = np.full(topics, -1)
    place[chosen] = np.arange(len(chosen))
    here = place[topic] >= 0
    number = place[topic[here]]
    before, led_before = (
        Cells([cells_of(number, on, live, len(chosen))], len(chosen), len(live), len(number))
        for on in (held[here], held[here][:, 0])
    )
    size = np.bincount(number, minlength=len(chosen))
    counts = (size, total[chosen], before.most(), most[chosen], bound[chosen])
    leading = (led_before.most(), led[chosen], led_bound[chosen])
    rows = np.stack([*counts, *leading], axis=1).tolist()
    return widest((TopicSpread(listed[t], *row) for t, row in zip(chosen.tolist(), rows, strict=True)), count)


def widest(found: Iterable[TopicSpread], count: int) -> tuple[TopicSpread, ...]:
    """Of what was found apart first those whose fullest broker has most replicas above the bound, then, of the others,
    those with most preferred leaders above it: half of `count` each."""
    left = sorted(found, key=_by(lambda t: t.after - t.bound))
    first = left[: -(-count // 2)]
    return (*first, *sorted(left[len(first) :], key=_by(lambda t: t.led_after - t.led_bound))[: count - len(first)])


def fullest(found: Sequence[TopicSpread], shared: tuple[int, int] = (0, 0)) -> tuple[Fullest | None, Fullest | None]:
    """Of the worst topics the one whose replicas, and the one whose preferred leaders lie least evenly; shared: as
    of `Planned`."""
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
