"""Of the second opinion on a plan: which topic lies least evenly on the brokers."""

from __future__ import annotations

import numpy as np

from kafka_medic.plan.lists import Array
from kafka_medic.plan.model import Fullest

Standing = tuple[Array, Array]
"""Topics and brokers, each by its place: one of both for each replica, or leader. A place beyond the live brokers is
one that is not alive."""


def untrue(
    claimed: Fullest | None, after: Standing, given: Standing, planned: Array, names: list[str], live: int
) -> str | None:
    """What is wrong with it; None if it is so, and no topic that the plan changes is worse. given: what stays; planned:
    topics of the partitions that the plan changes; live: how many brokers are."""
    if claimed is None:
        return "the summary does not say it" if len(planned) else None
    if claimed.topic not in names:
        return f"there is no topic {claimed.topic}"
    (most, total), (least, _) = (_fullest(stands, len(names), live) for stands in (after, given))
    bound = np.maximum(-(-total // max(live, 1)), least)
    at, worst = names.index(claimed.topic), int((most - bound)[planned].max(initial=0))
    if (claimed.max, claimed.bound) != (most[at], bound[at]):
        return f"the summary says {claimed.max} of {claimed.bound}, counted {most[at]} of {bound[at]}"
    return f"another topic is {worst} above its bound" if worst > claimed.max - claimed.bound else None


def _fullest(stands: Standing, topics: int, live: int) -> tuple[Array, Array]:
    """int64[T] each: the most that a broker has of each topic, and all have."""
    topic, on = stands
    alive = on < live
    if not alive.all():
        topic, on = topic[alive], on[alive]
    kind = np.int32 if topics * live < 1 << 31 else np.int64  # a sort of the narrow ones takes half the time
    ordered = np.sort(topic.astype(kind) * live + on)
    edges = np.arange(topics + 1, dtype=kind) * live
    total = np.diff(np.searchsorted(ordered, edges))
    begin = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    # Those that share a cell, and the first of them of each topic.
    count, first = np.diff(begin, append=len(ordered)), np.searchsorted(ordered[begin], edges[:-1])
    most = np.zeros(topics, dtype=np.int64)
    there = total > 0
    if there.any():
        most[there] = np.maximum.reduceat(count, first[there])
    return most, total
