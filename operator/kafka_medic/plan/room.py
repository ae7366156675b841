"""Room on disk (KIP-827): no broker gets more bytes than it has room for.

Counts are made even first, and bytes follow them closely enough, so this mends what is left: a broker over its room
swaps large replicas for smaller ones within its rack, which leaves every count as it was; only where that does not
do, replicas move to brokers with room, as few as possible. A partition of unknown size counts as 0 bytes, a broker of
unknown room (-1) takes anything: both are said in the summary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.problem import Broker, ProblemError
from kafka_medic.plan.solve import Sites

__all__ = ["arriving", "fit", "refuse_overfull", "room_of"]

ROUNDS = 8
ENDLESS = np.iinfo(np.int64).max


def room_of(brokers: Sequence[Broker]) -> Ints:
    """int64[B] bytes, -1 where it is not known."""
    return np.array([-1 if b.disk_free is None else b.disk_free for b in brokers], dtype=np.int64)


def arriving(added: Ints, size: Ints, brokers: int) -> Ints:
    """int64[B] bytes that each broker gets; added: int32[N, M] indexes, -1 padded; size: int64[N], -1 unknown"""
    total = np.zeros(brokers, dtype=np.int64)
    row, slot = np.nonzero(added >= 0)
    np.add.at(total, added[row, slot], np.maximum(size, 0)[row])
    return total


def refuse_overfull(coming: Ints, brokers: Sequence[Broker]) -> None:
    """Raise ProblemError if more bytes (int64[B]) come to a broker than it has room for."""
    room = room_of(brokers)
    over = np.flatnonzero((room >= 0) & (coming > room))
    if not len(over):
        return
    at = int(over[np.argmax(coming[over] - room[over])])
    more = f", and {len(over) - 1} more brokers have too little as well" if len(over) > 1 else ""
    reason = (
        f"broker {brokers[at].id} would get {coming[at]:,} bytes of new replicas and has room for {room[at]:,}{more}: "
        "no plan was found that fits; make room on disk, add brokers, or exempt topics"
    )
    raise ProblemError(None, reason, "brokers")


def fit(held: Ints, added: Ints, sites: Sites, size: Ints, room: Ints) -> Ints:
    """int32[N, M] the additions, rearranged to keep to the room (int64[B]) as far as a way was found; the racks of each
    partition stay as evenly used as they were. held: int32[N, H]; size: int64[N]."""
    coming = arriving(added, size, len(room))
    if not ((room >= 0) & (coming > room)).any():
        return added
    disks = _Disks(held, added, sites, size, room, coming)
    for _ in range(ROUNDS):
        before = disks.coming.copy()
        for broker in disks.over():
            disks.relieve(int(broker))
        if not len(disks.over()) or (disks.coming == before).all():
            break
    return disks.table[:, disks.fixed :]


class _Disks:
    """Who gets which bytes, while that is rearranged."""

    def __init__(self, held: Ints, added: Ints, sites: Sites, size: Ints, room: Ints, coming: Ints) -> None:
        self.table = np.concatenate([held, added], axis=1)
        self.fixed = held.shape[1]
        self.sites = sites
        self.size = np.maximum(size, 0)
        self.room = np.where(room < 0, ENDLESS, room)
        self.coming = coming
        self.load = sites.load + np.bincount(added[added >= 0], minlength=len(room))

    def over(self) -> Ints:
        """The brokers with too little room, the fullest first."""
        excess = self.coming - self.room
        over = np.flatnonzero(excess > 0)
        ordered: Ints = over[np.argsort(-excess[over], kind="stable")]
        return ordered

    def relieve(self, broker: int) -> None:
        """Swap, then move, until the broker has room or nothing more can be done."""
        mates = self.sites.members(int(self.sites.rack[broker]))
        slack = self.room[mates] - self.coming[mates]
        for mate in mates[np.argsort(-slack, kind="stable")].tolist():
            if self.coming[broker] <= self.room[broker]:
                return
            if mate != broker and self.coming[mate] < self.room[mate]:
                self._swap(broker, mate)
        self._move_away(broker)

    def _items(self, broker: int) -> tuple[Ints, Ints]:
        """(rows, columns) of the additions on a broker, largest first."""
        row, slot = np.nonzero(self.table[:, self.fixed :] == broker)
        order = np.argsort(-self.size[row], kind="stable")
        return row[order], slot[order] + self.fixed

    def _swap(self, broker: int, mate: int) -> None:
        """The largest here for the smallest there, and so on, as many as it takes and the mate has room for."""
        row, column = self._items(broker)
        other, place = (found[::-1] for found in self._items(mate))
        count = min(len(row), len(other))
        row, column, other, place = row[:count], column[:count], other[:count], place[:count]
        gain = self.size[row] - self.size[other]
        fits: Bools = (gain > 0) & ~(self.table[row] == mate).any(axis=1) & ~(self.table[other] == broker).any(axis=1)
        fits &= gain <= self.room[mate] - self.coming[mate]
        kept = np.flatnonzero(fits)
        total = np.cumsum(gain[kept])
        kept = kept[(total <= self.room[mate] - self.coming[mate]) & (total - gain[kept] < self._excess(broker))]
        self.table[row[kept], column[kept]] = mate
        self.table[other[kept], place[kept]] = broker
        moved = int(gain[kept].sum())
        self.coming[broker] -= moved
        self.coming[mate] += moved

    def _move_away(self, broker: int) -> None:
        """To brokers with room, the largest first, each to the one with the fewest replicas."""
        rack = self.sites.rack
        for row, column in zip(*self._items(broker), strict=True):
            size = int(self.size[row])
            if self._excess(broker) <= 0 or not size:
                return
            here = self.table[row]
            here = here[here >= 0]
            spread = np.bincount(rack[here] + 1, minlength=self.sites.racks + 1)[1:]
            # Another rack that has one fewer leaves the spread as good; the same rack never changes it.
            good = spread == spread[rack[broker]] - 1
            good[rack[broker]] = True
            able = (rack >= 0) & good[rack] & (self.room - self.coming >= size)
            able[here] = False
            targets = np.flatnonzero(able)
            if not len(targets):
                continue
            target = int(targets[np.argmin(self.load[targets])])
            self.table[row, column] = target
            for at, sign in ((broker, -1), (target, 1)):
                self.coming[at] += sign * size
                self.load[at] += sign

    def _excess(self, broker: int) -> int:
        return int(self.coming[broker] - self.room[broker])
