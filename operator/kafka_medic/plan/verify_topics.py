"""Of the second opinion on a plan: which topic lies least evenly on the brokers."""

from __future__ import annotations

import numpy as np

from kafka_medic.plan.lists import Array
from kafka_medic.plan.model import Fullest

Standing = tuple[Array, Array]
"""Topics and brokers, each by its place: one of both for each replica, or leader, on a live broker."""


def untrue(
    said: Fullest | None, after: Standing, given: Standing, planned: Array, names: list[str], live: int
) -> str | None:
    """What is wrong with it; None if it is so, and no topic that the plan changes is worse. given: what stays; planned:
    topics of the partitions that the plan changes; live: how many brokers are."""
    if said is None:
        return "the summary does not say it" if len(planned) else None
    if said.topic not in names:
        return f"there is no topic {said.topic}"
    (most, total), (least, _) = (_fullest(stands, len(names), max(live, 1)) for stands in (after, given))
    bound = np.maximum(-(-total // max(live, 1)), least)
    at, worst = names.index(said.topic), int((most - bound)[planned].max(initial=0))
    if (said.max, said.bound) != (most[at], bound[at]):
        return f"the summary says {said.max} of {said.bound}, counted {most[at]} of {bound[at]}"
    return f"another topic is {worst} above its bound" if worst > said.max - said.bound else None


def _fullest(stands: Standing, topics: int, live: int) -> tuple[Array, Array]:
    """int64[T] each: the most that a broker has of each topic, and all have."""
    cells = stands[0] * live + stands[1]
    ordered = np.sort(cells.astype(np.int32) if topics * live < 1 << 31 else cells)
    begin = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    topic, count = ordered[begin].astype(np.int64) // live, np.diff(begin, append=len(ordered))
    most, total = np.zeros(topics, dtype=np.int64), np.zeros(topics, dtype=np.int64)
    np.maximum.at(most, topic, count)
    np.add.at(total, topic, count)
    return most, total
