"""Of the second opinion on a plan: which topic lies least evenly on the brokers, and how evenly it could lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kafka_medic.plan.lists import Array
from kafka_medic.plan.model import Fullest

__all__ = ["Held", "Standing", "counted", "could_lead", "could_take", "rack_floor", "untrue"]

Standing = tuple[Array, Array]
"""Topics and brokers, each by its place: one of both for each replica, or leader. A place beyond the live brokers is
one that is not alive."""
TRIED_GROUPS = 3
DENSE_CELLS = 1 << 24
PIECE = 1 << 18


@dataclass(frozen=True, eq=False)
class Held:
    """int[K] topic, broker and how many of it are there, of those that are. int64[T] total and most of each topic."""

    topic: Array
    broker: Array
    count: Array
    total: Array
    most: Array

    def on_brokers(self, live: int) -> Array:
        """int64[L]: of all topics."""
        return _added(self.broker, self.count, live)

    def on(self, brokers: Array) -> Array:
        """int64[T]: on these brokers together."""
        there = np.isin(self.broker, brokers)
        return _added(self.topic[there], self.count[there], len(self.total))


def counted(stands: Standing, topics: int, live: int) -> Held:
    """What is on live brokers."""
    topic, on = stands
    alive = on < live
    if not alive.all():
        topic, on = topic[alive], on[alive]
    width = max(live, 1)
    cells, count = _tally(topic, on, topics, width)
    of = cells // width
    edges = np.searchsorted(of, np.arange(topics + 1, dtype=of.dtype))
    there = edges[1:] > edges[:-1]
    total, most = np.zeros(topics, dtype=np.int64), np.zeros(topics, dtype=np.int64)
    if there.any():
        first = edges[:-1][there]
        total[there], most[there] = np.add.reduceat(count, first), np.maximum.reduceat(count, first)
    return Held(of, cells - of * width, count, total, most)


def _added(to: Array, count: Array, length: int) -> Array:
    """int64[length]: the counts added up, a piece at a time, as numbers of two types take numpy ten times as long and a
    copy of all in 64 bits takes memory."""
    total = np.zeros(length, dtype=np.int64)
    for begin in range(0, len(to), PIECE):
        end = begin + PIECE
        np.add.at(total, to[begin:end], count[begin:end].astype(np.int64))
    return total


def _tally(topic: Array, on: Array, topics: int, width: int) -> tuple[Array, Array]:
    """(topic * width + broker of those that are, ascending; how many). In 32 bits where they suffice."""
    kind = np.int32 if topics * width < 1 << 31 else np.int64
    cells: Array = topic.astype(kind)
    cells *= kind(width)
    cells += on
    if topics * width <= DENSE_CELLS:  # as a table, a tenth of the time that sorting takes
        table = np.zeros(topics * width, dtype=np.int32)
        np.add.at(table, cells, np.int32(1))
        del cells
        found = np.flatnonzero(table != 0)  # of booleans, a third of the time
        return found.astype(kind), table[found]
    cells.sort()
    begin = np.flatnonzero(np.append(True, cells[1:] != cells[:-1])[: len(cells)])
    return cells[begin], np.diff(begin, append=len(cells))


def untrue(
    claimed: Fullest | None, most: Array, plain: Array, own: Array, excess: int, planned: Array, names: list[str]
) -> str | None:
    """What is wrong with it; None if it is so, and no topic that the plan changes is worse. int64[T] each: most, on the
    fullest broker; plain, the least that can be, of how many there are and of what stays; own, the same with racks.
    excess: what some topic is above its own in any case; planned: topics of the partitions that the plan changes."""
    if claimed is None:
        return "the summary does not say it" if len(planned) else None
    if claimed.topic not in names:
        return f"there is no topic {claimed.topic}"
    at = names.index(claimed.topic)
    if claimed.max != most[at]:
        return f"the summary says {claimed.max} on one broker, counted {most[at]}"
    # A plan made in blocks may say less than could be proven of the whole.
    if not plain[at] <= claimed.bound <= own[at] + excess:
        return f"the bound {claimed.bound} is not from {plain[at]} to {own[at] + excess}"
    if not plain[at] <= claimed.own <= min(own[at], claimed.bound):
        return f"the topic's own bound {claimed.own} is not from {plain[at]} to {min(own[at], claimed.bound)}"
    worst = int((most - own)[planned].max(initial=0))
    return f"another topic is {worst} above its bound" if worst > claimed.max - claimed.own else None


def could_take(load: Array, own: Array, stays: Held, new: Array, rows: Array, takers: Array) -> int:
    """How far above its own least some topic is, if brokers (int64[L] load) get as much besides what stays.

    new, rows: int64[T] what comes to each topic, and in how many partitions. takers: the places of brokers that may get
    any. Some of these together hold of a topic at most what stays there and comes, and at most what one may have, times
    their number.
    """
    by_load = takers[np.argsort(-load[takers], kind="stable")]
    falls = (-np.diff(load[by_load])).tolist()
    tried = sorted(range(len(falls)), key=lambda place: (-falls[place], place))[:TRIED_GROUPS]
    excess = 0
    for last in sorted(place for place in tried if falls[place] > 1):
        group = by_load[: last + 1]
        inside = np.isin(stays.broker, group)
        there = _added(stays.topic[inside], stays.count[inside], len(own))
        most = there + np.minimum(new, rows * len(group))
        held = int(there.sum() + load[group].sum())

        def enough(more: int, most: Array = most, held: int = held, size: int = len(group)) -> bool:
            return int(np.minimum(most, np.maximum(size * (own + more), 0)).sum()) >= held

        excess = _first(enough, excess, int(most.max(initial=0)) + excess)
    return excess


def could_lead(led: Array, own: Array, replicas: Held) -> int:
    """The same of preferred leaders (int64[L] led): a broker leads of a topic at most what it has replicas of."""

    most, has = own.astype(replicas.topic.dtype)[replicas.topic], replicas.on_brokers(len(led))

    def enough(more: int) -> bool:
        short = np.flatnonzero(replicas.count > most + more)
        beyond = replicas.count[short] - most[short] - more
        lost = _added(replicas.broker[short], beyond, len(led))
        return bool((has - lost >= led).all())

    return _first(enough, 0, int(replicas.count.max(initial=0)))


def _first(enough: Callable[[int], bool], low: int, high: int) -> int:
    while low < high and not enough(low):
        step = 1
        while low + step < high and not enough(low + step):
            low, step = low + step, step * 2
        if step == 1:
            return low + 1
        high = min(high, low + step)
    return low


def rack_floor(staying: Standing, comes: Array, topic: Array, topics: int, size: Sequence[int]) -> Array:
    """int64[topics]: the least on some broker, since partitions have to use racks with few brokers as well.

    staying: rows and racks of the replicas that stay, of partitions that the plan changes; comes, topic: int[n] what
    each of these gets, and its topic; size: live brokers of each rack. Each partition is spread as well as it can be,
    its replicas one by one to the racks with fewest of it, where there is a choice to the large racks.
    """
    least = np.zeros(topics, dtype=np.int64)
    if len(set(size)) < 2:
        return least
    there, comes, alike = _alike(*staying, comes, len(size))
    cells, count = _tally(topic, alike, topics, len(comes))
    of, kind = np.divmod(cells, cells.dtype.type(len(comes)))
    small = np.zeros(len(size), dtype=bool)
    for taken in np.argsort(size, kind="stable")[:-1].tolist():
        small[taken] = True
        inside = _added(of, _inside(there, comes, np.array(size), small)[kind] * count, topics)
        least = np.maximum(least, -(-inside // int(np.array(size)[small].sum())))
    return least


def _alike(row: Array, rack: Array, comes: Array, racks: int) -> tuple[Array, Array, Array]:
    """(int64[P, R] replicas in each rack, int64[P] what comes, of the partitions that differ in these;
    int64[n] which of them each partition is)."""
    rows, most = len(comes), int(comes.max(initial=0)) + 1
    width = int(np.bincount(row, minlength=rows).max(initial=0)) + 1
    key = np.zeros(rows, dtype=np.int64)
    if most * width**racks < 1 << 62:
        np.add.at(key, row, width ** rack.astype(np.int64))
    else:
        profile = np.zeros((rows, racks), dtype=np.int16)
        np.add.at(profile, (row, rack), 1)
        _, key = np.unique(profile, axis=0, return_inverse=True)
    example, alike = _of_a_kind(key.ravel() * most + comes)
    place = np.full(rows, -1)
    place[example] = np.arange(len(example))
    there = np.zeros((len(example), racks), dtype=np.int64)
    chosen = place[row] >= 0
    np.add.at(there, (place[row][chosen], rack[chosen]), 1)
    return there, comes[example].astype(np.int64), alike


def _of_a_kind(key: Array) -> tuple[Array, Array]:
    """(an index of each value that there is; of each index which of them it has)."""
    span = int(key.max(initial=0)) + 1
    if span > DENSE_CELLS:
        _, example, alike = np.unique(key, return_index=True, return_inverse=True)
        return example, alike
    example = np.full(span, -1)
    example[key] = np.arange(len(key))
    there = np.flatnonzero(example >= 0)
    place = np.zeros(span, dtype=np.int64)
    place[there] = np.arange(len(there))
    return example[there], place[key]


def _inside(there: Array, comes: Array, size: Array, small: Array) -> Array:
    """int64[P] replicas that partitions with so many in each rack have in the small racks at least, in the end."""
    there, line = there.copy(), np.arange(len(there))
    for turn in range(int(comes.max(initial=0))):
        full = there >= size
        to = np.where(full, np.iinfo(np.int64).max, 2 * there + small).argmin(axis=1)
        there[line, to] += turn < comes
    return np.asarray(there[:, small].sum(axis=1))
