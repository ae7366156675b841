"""Trades of leaderships between three partitions, for the few that found no single one to trade with.

Of n partitions with F replicas on B brokers, n (F - 1) / B² are led by the one and have a replica on the other: on a
thousand brokers often none. In a ring any of the n / B that are led by the one may be the second.
"""

from __future__ import annotations

import numpy as np

from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.topic_spread import loads

__all__ = ["trade_in_rings"]

MOST = 128
IN_VAIN = 16
"""So many partitions, or so many without a ring one after the other, and the rest is let be: each looks at all of
them."""
LOOKED_AT = 64
"""Rings that are tried for one partition and one of its replicas: the topics in it may have no room by now."""


def trade_in_rings(
    replicas: Ints, column: Ints, topic: Ints, untouched: tuple[Ints, Ints], live: Bools, allowed: Ints
) -> Ints:
    """int32[n] the column of the replica that should lead; the arguments as in `spread_leaders`, allowed: int[T] the
    most that a topic may lead on one broker."""
    rings = _Rings(replicas, column.copy(), topic, untouched, live, allowed)
    in_vain = 0
    for row in rings.heavy()[:MOST]:
        if rings.too_much(row):
            in_vain = 0 if rings.relieve(row) else in_vain + 1
        if in_vain == IN_VAIN:
            break
    return rings.column


class _Rings:
    def __init__(
        self, replicas: Ints, column: Ints, topic: Ints, untouched: tuple[Ints, Ints], live: Bools, allowed: Ints
    ) -> None:
        self.replicas, self.column, self.topic, self.allowed = replicas, column, topic, allowed
        self.brokers = len(live)
        self.leader = replicas[np.arange(len(replicas)), column].astype(np.int64)
        led = loads([(topic, self.leader), untouched], live)
        self.known = led.topic.astype(np.int64) * self.brokers + led.broker
        self.count = led.count
        self.since: dict[int, int] = {}

    def heavy(self) -> list[int]:
        """The partitions that are led where their topic leads too much."""
        over = self.known[self.count > self.allowed[self.known // self.brokers]]
        if not len(over):
            return []
        found: list[int] = np.flatnonzero(np.isin(self.topic * np.int64(self.brokers) + self.leader, over)).tolist()
        return found

    def too_much(self, row: int) -> bool:
        return self._leads(row, int(self.leader[row])) > int(self.allowed[self.topic[row]])

    def relieve(self, row: int) -> bool:
        """Give this one's leadership to another of its replicas, if two others close the ring; whether they did."""
        home = int(self.leader[row])
        last = np.flatnonzero(self.replicas.ravel() == home) // self.replicas.shape[1]  # a partition has it once
        last = last[self.leader[last] != home]
        last = last[np.argsort(self.leader[last], kind="stable")]
        for column, to in enumerate(self.replicas[row].tolist()):
            if to < 0 or to == home or not self._room(row, to):
                continue
            for second, over, third in self._closing(to, last):
                if len({int(self.topic[r]) for r in (row, second, third)}) < 3 or not self._room(second, over):
                    continue
                if self._room(third, home):
                    self._move(row, column)
                    self._move(second, self._column(second, over))
                    self._move(third, self._column(third, home))
                    return True
        return False

    def _closing(self, to: int, last: Ints) -> list[tuple[int, int, int]]:
        """(a partition led by `to`, another of its replicas, one of `last` that is led there)."""
        second, leaders = np.flatnonzero(self.leader == to), self.leader[last]
        offers = self.replicas[second].astype(np.int64)
        first, after = (np.searchsorted(leaders, offers, side=side) for side in ("left", "right"))
        rows, columns = np.nonzero((after > first) & (offers != to) & (offers >= 0))
        found = []
        for turn, (row, column) in enumerate(zip(rows[:LOOKED_AT], columns[:LOOKED_AT], strict=True)):
            # Each time another one of those that are led there, half of them away: topics may come in the same order.
            size = int(after[row, column] - first[row, column])
            number = int(first[row, column]) + (turn + turn // size + size // 2) % size
            found.append((int(second[row]), int(offers[row, column]), int(last[number])))
        return found

    def _room(self, row: int, broker: int) -> bool:
        return self._leads(row, broker) < int(self.allowed[self.topic[row]])

    def _leads(self, row: int, broker: int) -> int:
        """How many its topic leads there."""
        cell = int(self.topic[row]) * self.brokers + broker
        place = int(np.searchsorted(self.known, cell))
        at_first = int(self.count[place]) if place < len(self.known) and self.known[place] == cell else 0
        return at_first + self.since.get(cell, 0)

    def _column(self, row: int, broker: int) -> int:
        return int(np.flatnonzero(self.replicas[row] == broker)[0])

    def _move(self, row: int, column: int) -> None:
        of, to = int(self.leader[row]), int(self.replicas[row, column])
        for broker, more in ((of, -1), (to, 1)):
            cell = int(self.topic[row]) * self.brokers + broker
            self.since[cell] = self.since.get(cell, 0) + more
        self.column[row], self.leader[row] = column, to
