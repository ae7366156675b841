"""Bring the leaders of single topics down along augmenting paths, where no two partitions can trade.

The flow: each partition goes to the cell (topic, broker) of the replica that leads it, and from there to the broker. A
cell takes what its topic is allowed, a broker what it leads today. A broker with a cell above that gives one leadership
of the cell away and gets one of another topic back. Between the two every broker on the way hands one on. Where there
is no such path, no order of these replicas brings that cell lower without another topic above what is allowed, or
another number of leaders on a broker (max-flow min-cut).
"""

from __future__ import annotations

import numpy as np

from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.topic_cells import Cells, distinct

__all__ = ["Paths"]

MOST_WORK = 2_000_000
"""Partitions looked at in all searches together; past it the rest is left as it is."""
STEP_WORK = 100
"""What a step of a search costs besides, in partitions."""
UNSEEN, FIRST = -2, -1


class Paths:
    """replicas: int32[n, F], -1 padded; leader: int64[n] brokers, changed in place; topic: int[n]; cells: what topics
    lead where, changed as well; allowed: int64[T] the most of each topic on a broker; live: bool[B]."""

    def __init__(self, replicas: Ints, leader: Ints, topic: Ints, cells: Cells, allowed: Ints, live: Bools) -> None:
        self.replicas, self.leader, self.topic = replicas, leader, topic
        self.cells, self.allowed, self.live, self.brokers = cells, allowed, live, len(live)
        order = np.argsort(leader.astype(np.int16) if self.brokers < 1 << 15 else leader, kind="stable")
        self._led = np.split(order, np.cumsum(np.bincount(leader, minlength=self.brokers))[:-1])
        self._via = np.full(len(leader), UNSEEN, dtype=np.int64)
        self._work = 0

    def relieve(self, heavy: Ints) -> bool:
        """Bring these cells down to what is allowed, as far as paths go; whether all of them came there."""
        whole = True
        for broker in distinct(heavy % self.brokers).tolist():
            topics = heavy[heavy % self.brokers == broker] // self.brokers
            others = np.concatenate([np.flatnonzero(column == broker) for column in self.replicas.T])
            self._work += len(self.topic) // 16
            while len(topics := topics[self.cells.read(topics * self.brokers + broker) > self.allowed[topics]]):
                if self._work > MOST_WORK or not self._augment(broker, topics, others):
                    whole = False
                    break
        return whole

    def _augment(self, home: int, topics: Ints, others: Ints) -> bool:
        """Give one leadership of one of these topics away from a broker and get one of another back; False: no path.
        others: int64[k] all partitions with a replica there."""
        able = others[self.leader[others] != home]
        room = self.cells.read(self._cells(able, home)) < self.allowed[self.topic[able]]
        search = _Search(self, home, able[room])
        start = self._led[home]
        last = search.run(start[np.isin(self.topic[start], topics)])
        self._work += search.work
        if last >= 0:
            self._push(last, home)
        self._via[np.concatenate(search.touched)] = UNSEEN
        return last >= 0

    def _cells(self, rows: Ints, broker: Ints | int) -> Ints:
        return np.asarray(self.topic[rows].astype(np.int64) * self.brokers + broker)

    def _push(self, last: int, home: int) -> None:
        """Let the last partition of a path be led by the first broker, and each before it by the broker it makes room
        on."""
        row, to = last, home
        while row != FIRST:
            of, before = int(self.leader[row]), int(self._via[row])
            cells = self._cells(np.array([row, row]), np.array([of, to]))
            self.cells.add(cells[:1], -1)
            self.cells.add(cells[1:], 1)
            self.leader[row] = to
            self._led[of] = self._led[of][self._led[of] != row]
            self._led[to] = np.append(self._led[to], row)
            row, to = before, of


class _Search:
    """One search from a broker for a way back to it. `paths._via` names for each partition found the one before it,
    which comes to the broker that leads this one."""

    def __init__(self, paths: Paths, home: int, closing: Ints) -> None:
        """closing: int64[k] partitions that could be led at home next."""
        self.paths, self.home = paths, home
        self.closing = closing
        self.closes = np.full(paths.brokers, UNSEEN, dtype=np.int64)
        self.closes[paths.leader[closing[::-1]]] = closing[::-1]
        """Of each broker one partition that it leads and that could be led at home."""
        self.seen = ~paths.live
        self.seen[home] = True
        self.queue: list[Ints] = []
        self.full: list[tuple[Ints, Ints]] = []
        self.touched: list[Ints] = []
        self.work = 0

    def run(self, start: Ints) -> int:
        """The last partition of a path that begins with one of these, or -1."""
        self._note(start, FIRST)
        while self.queue or self.full:
            last = self._enter(self.queue.pop(0)) if self.queue else self._enter_full()
            if last >= 0:
                return last
        return -1

    def _note(self, rows: Ints, by: Ints | int) -> None:
        self.paths._via[rows] = by
        self.touched.append(rows)
        self.queue.append(rows)

    def _enter(self, rows: Ints) -> int:
        """Look where else these could be led."""
        paths = self.paths
        self.work += len(rows) + STEP_WORK
        at, column = np.nonzero(~self.seen[paths.replicas[rows]] & (paths.replicas[rows] >= 0))
        row = rows[at]
        to = paths.replicas[row, column].astype(np.int64)
        room = paths.cells.read(paths._cells(row, to)) < paths.allowed[paths.topic[row]]
        brokers, first = np.unique(to[room], return_index=True)
        for broker, by in zip(brokers.tolist(), row[room][first].tolist(), strict=True):
            if (last := int(self.closes[broker])) != UNSEEN:
                if paths._via[last] == UNSEEN:
                    paths._via[last] = by
                    self.touched.append(np.array([last]))
                return last
            self.seen[broker] = True
            led = paths._led[broker]
            self._note(led[paths._via[led] == UNSEEN], by)
        if not room.all():
            self.full.append((row[~room], to[~room]))
        return -1

    def _enter_full(self) -> int:
        """A full cell can take one only if another of the same topic goes on from there."""
        paths = self.paths
        row, to = (np.concatenate(part) for part in zip(*self.full, strict=True))
        self.full = []
        row, to = row[~self.seen[to]], to[~self.seen[to]]
        cells, first = np.unique(paths._cells(row, to), return_index=True)
        by, broker_of, topic_of = row[first], cells % paths.brokers, cells // paths.brokers
        for broker in distinct(broker_of).tolist():
            here = np.flatnonzero(broker_of == broker)
            led = paths._led[broker]
            led = led[paths._via[led] == UNSEEN]
            self.work += len(led) + STEP_WORK
            place = np.searchsorted(topic_of[here], paths.topic[led]).clip(max=len(here) - 1)
            same = topic_of[here][place] == paths.topic[led]
            found = led[same]
            if not len(found):
                continue
            self._note(found, by[here[place[same]]])
            closing = found[np.isin(found, self.closing)]
            if len(closing):
                return int(closing[0])
        return -1
