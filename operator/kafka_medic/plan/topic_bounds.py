"""How many replicas, or preferred leaders, of one topic some broker has in every plan.

A topic's own bound holds for every plan that adds as many replicas and spreads every partition over racks as well:
some broker has at least the mean, at least what stays there, and at least the mean of the small racks where these
cannot get less (`solver.racks`). It is relaxed, since each topic is looked at alone. What all topics together are
forced to is the excess, here: brokers that get many replicas, as new ones do, get them of some topic. The excess holds
for all plans that bring each broker as many as this one. It is relaxed as well, since not all groups are tried.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.topic_cells import Cells

__all__ = ["excess", "leading_excess"]

DROPS = 3
"""Groups of brokers that are tried because the next broker gets fewer."""


def excess(load: Ints, bound: Ints, able: Ints, stays: Cells, live: Bools, apart: Ints | None = None) -> int:
    """How far above its own bound some topic is in every plan that brings each broker so many.

    load: int64[B] what brokers get, besides what stays; bound: int64[T]; able: int64[T] of each topic what changes;
    apart: int64[T] how much of it one broker can get at most. A group of brokers gets of a topic no more than there is,
    and no more than the group's size times what one broker may have (Gale, 1957). The groups tried are those of the
    brokers that get most, so the answer is relaxed.
    """
    order = np.flatnonzero(live)[np.argsort(-load[live], kind="stable")]
    most = 0
    for size in _sizes(load[order]):
        group = np.zeros(len(load), dtype=bool)
        group[order[:size]] = True
        there = stays.total(group)
        come = able if apart is None else np.minimum(able, apart * size)

        def fits(more: int, size: int = size, there: Ints = there, come: Ints = come, group: Bools = group) -> bool:
            return int(np.clip((bound + more) * size - there, 0, come).sum()) >= int(load[group].sum())

        most = _least(fits, most, int((come + there).max(initial=0)) + most)
    return most


def leading_excess(led: Ints, bound: Ints, replicas: Cells) -> int:
    """The same of preferred leaders, over all orders of these replicas: a broker leads no more of a topic than it has.

    led: int64[B]; bound: int64[T].
    """
    return _least(
        lambda more: bool((replicas.capped(bound + more) >= led).all()), 0, int(replicas.most().max(initial=0))
    )


def _least(fits: Callable[[int], bool], low: int, high: int) -> int:
    """The least number from low to high that fits; most often the first one does."""
    if fits(low):
        return low
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low


def _sizes(load: Ints) -> list[int]:
    """Sizes of groups to try: where the next broker (int64[B], falling) gets fewest of what the last one gets."""
    drop = load[:-1] - load[1:]
    large = np.flatnonzero(drop > 1)
    largest = large[np.argsort(-drop[large], kind="stable")[:DROPS]]
    return [int(size) + 1 for size in np.sort(largest)]
