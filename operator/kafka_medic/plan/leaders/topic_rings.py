"""Trades of leaderships between three partitions, for the few that found no single one to trade with.

Of n partitions with F replicas on B brokers, n (F - 1) / B² are led by the one and have a replica on the other: on a
thousand brokers often none. In a ring any of the n / B that are led by the one may be the second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_medic.plan.columns import Bools, Ints

__all__ = ["Ledger", "trade_in_rings"]

MOST = 128
IN_VAIN = 16
"""Partitions that are tried, and partitions in a row without a ring, before the rest is left as it is. Each try reads
all partitions."""
TRIED = 16
"""Rings that are tried for one partition and one of its replicas: the topics in it may have no room by now."""


@dataclass(frozen=True, eq=False)
class Ledger:
    """What topics lead where, before any trade. topic: int[n] of each partition; known: int64[K] topic * brokers +
    broker, ascending; count: int[K]; allowed: int[T] the most on one broker; live: bool[B], others get nothing."""

    topic: Ints
    live: Bools
    known: Ints
    count: Ints
    allowed: Ints

    @property
    def brokers(self) -> int:
        return len(self.live)

    def cell(self, rows: Ints, broker: Ints) -> Ints:
        """int64[k] the number of the topic of each of these partitions, and broker."""
        return self.topic[rows].astype(np.int64) * self.brokers + broker


def trade_in_rings(replicas: Ints, lead: Ints, column: Ints, rows: Ints, ledger: Ledger) -> None:
    """Trade on, into `column`.

    replicas: int32[n, F] broker indexes, -1 padded; lead, column: int32[n] the replica that led before any trade, and
    the one that leads by now; rows: int64[k] partitions that are led where their topic leads too much.
    """
    rings = _Rings(replicas, lead, column, ledger)
    in_vain = tried = 0
    for row in rows.tolist():
        if not rings.too_much(row):
            continue
        in_vain, tried = 0 if rings.relieve(row) else in_vain + 1, tried + 1
        if in_vain == IN_VAIN or tried == MOST:
            break


class _Rings:
    def __init__(self, replicas: Ints, lead: Ints, column: Ints, ledger: Ledger) -> None:
        self.replicas, self.column, self.ledger = replicas, column, ledger
        self.topic, self.allowed = ledger.topic, ledger.allowed
        self.leader = replicas[np.arange(len(replicas)), column]
        self.since: dict[int, int] = {}
        for row in np.flatnonzero(lead != column).tolist():
            self._note(row, int(replicas[row, lead[row]]), int(self.leader[row]))

    def too_much(self, row: int) -> bool:
        return self._leads(row, int(self.leader[row])) > int(self.allowed[self.topic[row]])

    def relieve(self, row: int) -> bool:
        """Give this one's leadership to another of its replicas, if two others close the ring; whether they did."""
        home = int(self.leader[row])
        last = np.flatnonzero(self.replicas.ravel() == home) // self.replicas.shape[1]  # a partition has it once
        last = last[self.leader[last] != home]
        last = last[np.argsort(self.leader[last], kind="stable")]
        for column, to in enumerate(self.replicas[row].tolist()):
            if to < 0 or to == home or not self._may_lead(row, to):
                continue
            for second, over, third in self._closing(to, last):
                if len({int(self.topic[r]) for r in (row, second, third)}) < 3 or not self._may_lead(second, over):
                    continue
                if self._may_lead(third, home):
                    self._move(row, column)
                    self._move(second, self._column(second, over))
                    self._move(third, self._column(third, home))
                    return True
        return False

    def _closing(self, to: int, last: Ints) -> list[tuple[int, int, int]]:
        """(a partition led by `to`, another of its replicas, one of `last` that is led there)."""
        second, leaders = np.flatnonzero(self.leader == to), self.leader[last]
        offers = self.replicas[second]
        first, after = (np.searchsorted(leaders, offers, side=side) for side in ("left", "right"))
        rows, columns = np.nonzero((after > first) & (offers != to) & (offers >= 0))
        found = []
        for turn, (row, column) in enumerate(zip(rows[:TRIED], columns[:TRIED], strict=True)):
            # Each time another one of those that are led there, half of them away: topics may come in the same order.
            size = int(after[row, column] - first[row, column])
            number = int(first[row, column]) + (turn + turn // size + size // 2) % size
            found.append((int(second[row]), int(offers[row, column]), int(last[number])))
        return found

    def _may_lead(self, row: int, broker: int) -> bool:
        return bool(self.ledger.live[broker]) and self._leads(row, broker) < int(self.allowed[self.topic[row]])

    def _leads(self, row: int, broker: int) -> int:
        """How many its topic leads there."""
        known, cell = self.ledger.known, int(self.topic[row]) * self.ledger.brokers + broker
        place = int(np.searchsorted(known, cell))
        at_first = int(self.ledger.count[place]) if place < len(known) and known[place] == cell else 0
        return at_first + self.since.get(cell, 0)

    def _column(self, row: int, broker: int) -> int:
        return int(np.flatnonzero(self.replicas[row] == broker)[0])

    def _move(self, row: int, column: int) -> None:
        to = int(self.replicas[row, column])
        self._note(row, int(self.leader[row]), to)
        self.column[row], self.leader[row] = column, to

    def _note(self, row: int, of: int, to: int) -> None:
        for broker, more in ((of, -1), (to, 1)):
            cell = int(self.topic[row]) * self.ledger.brokers + broker
            self.since[cell] = self.since.get(cell, 0) + more
