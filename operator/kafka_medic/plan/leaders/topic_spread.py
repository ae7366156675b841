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

__all__ = ["REPORTED_TOPICS", "Planned", "after_plan", "fullest", "shared_excess", "widest", "worst"]

REPORTED_TOPICS = 20


@dataclass(frozen=True, eq=False)
class Planned:
    """What a plan comes to. topics: bool[T] those that are meant; total, led: int64[T] replicas and partitions of each;
    replicas, leaders: where they are; given: where what of it is the same in every plan, the replicas that stay and the
    leaders of partitions that are not touched. bound, led_bound: int64[T] what some broker has of each topic in any
    case; changed: int64[T] its partitions that the plan changes."""

    topics: Array
    replicas: Cells
    leaders: Cells
    given: tuple[Cells, Cells]
    total: Array
    led: Array
    bound: Array
    led_bound: Array
    changed: Array

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
    topics, brokers = len(least), max(int(live.sum()), 1)
    untouched = np.ones(len(topic), dtype=bool)
    untouched[rows] = False
    of, rest = topic[rows], (topic[untouched], kept[untouched])

    def counted(*parts: tuple[Array, Array]) -> Cells:
        return Cells([cells_of(names, on, live, topics) for names, on in parts], topics, len(live))

    replicas, stays = counted((of, order), rest), counted((topic, kept))
    leaders, left = counted((of, order[:, 0]), (rest[0], rest[1][:, 0])), counted((rest[0], rest[1][:, 0]))
    total, led = replicas.total(), leaders.total()
    mean = -(-(total if takes.all() else replicas.total(takes)) // max(int(takes.sum()), 1))
    bound = np.maximum(np.maximum(mean, stays.most()), least)
    led_bound = np.maximum(-(-led // brokers), left.most())
    changed = np.bincount(of, minlength=topics)
    return Planned(total > 0, replicas, leaders, (stays, left), total, led, bound, led_bound, changed)


def shared_excess(planned: Planned, live: Array) -> tuple[int, int]:
    """How far above their own bounds the replicas, and the preferred leaders, of some topic are in every plan with as
    many of both on each broker (bool[B] live)."""
    stays, left = planned.given
    come = planned.replicas.on_brokers() - stays.on_brokers()
    replicas = excess(come, planned.bound, planned.total - stays.total(), stays, live, planned.changed)
    led = planned.leaders.on_brokers()
    leaders = excess(led - left.on_brokers(), planned.led_bound, planned.changed, left, live)
    return replicas, max(leaders, leading_excess(led, planned.led_bound, planned.replicas))


def worst(
    planned: Planned, topic: Array, held: Array, listed: Sequence[str], live: Array, count: int
) -> tuple[TopicSpread, ...]:
    """The worst of the topics in `planned`, as `widest` has them.

    topic, held: int[N] topics and int[N, H] brokers of all partitions before; listed: names, by number."""
    topics = len(listed)
    bound, led_bound, total = planned.bound, planned.led_bound, planned.total
    most, led = planned.replicas.most(), planned.leaders.most()
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
        Cells([cells_of(number, on, live, len(chosen))], len(chosen), len(live))
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
