"""Disk capacity (KIP-827): no broker gets more bytes than its disks have free.

Counts are made even first, and bytes follow them closely enough, so this mends what is left. A broker over its
capacity swaps large replicas for smaller ones, in its rack first, which leaves every count as it was. Only where that
does not do, replicas move to brokers with free capacity, as few as possible. A partition of unknown size counts as 0
bytes, a broker of unknown capacity (-1) takes anything: the summary reports both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kafka_medic.plan.broker import Broker, Disk, NoRoomError
from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.solver.packing import bytes_bound, pack
from kafka_medic.plan.solver.sites import Sites
from kafka_medic.plan.water_filling import Basin

__all__ = [
    "arriving", "capacity_of", "even_bytes", "evened", "excess_in_directories", "fit", "fit_directories", "fit_or_pack",
    "overfull", "refuse_full_directories", "refuse_overfull", "room_of",
]  # fmt: skip

ROUNDS = 8
FAR = 16
"""Brokers in other racks that are tried for swaps, those with most capacity."""
CLOSE = 1.01
"""How far above its bound the fullest broker is left without packing anew, which takes some time for each replica."""
ENDLESS = np.iinfo(np.int64).max
UNPROVEN = "no plan was found that fits, and it is not known whether there is one"


def capacity_of(brokers: Sequence[Broker]) -> Ints:
    """int64[B] bytes that fit wherever Kafka puts them: of several log directories the least; -1 where not known."""
    return _capacity(brokers, min)


def room_of(brokers: Sequence[Broker]) -> Ints:
    """int64[B] bytes that fit in all log directories together, -1 where not known."""
    return _capacity(brokers, sum)


def _capacity(brokers: Sequence[Broker], of: Callable[[list[int]], int]) -> Ints:
    found = [[] if b.disk_free is None else [b.disk_free] for b in brokers]
    disks = [[of([disk.free for disk in b.disks])] if b.disks else [] for b in brokers]
    return np.array([min([*one, *other], default=-1) for one, other in zip(found, disks, strict=True)], dtype=np.int64)


def arriving(added: Ints, size: Ints, brokers: int) -> Ints:
    """int64[B] bytes that each broker gets; added: int32[N, M] indexes, -1 padded; size: int64[N], -1 unknown"""
    total = np.zeros(brokers, dtype=np.int64)
    row, slot = np.nonzero(added >= 0)
    np.add.at(total, added[row, slot], np.maximum(size, 0)[row])
    return total


def overfull(coming: Ints, brokers: Sequence[Broker]) -> bool:
    """Whether more bytes (int64[B]) come to a broker than it has free capacity."""
    capacity = room_of(brokers)
    return bool(((capacity >= 0) & (coming > capacity)).any())


def excess_in_directories(added: Ints, size: Ints, brokers: Sequence[Broker]) -> list[tuple[int, int, Disk]]:
    """(broker, bytes, log directory) where the directory may get that many bytes and has room for fewer; of each broker
    the worst. added: int32[N, M] indexes, -1 padded; size: int64[N].

    Each new replica goes to the directory with the fewest partitions, so how many each gets is known, and which ones it
    gets is not: the largest of them have to fit.
    """
    found = []
    for at, broker in enumerate(brokers):
        if not broker.disks:
            continue
        coming = np.sort(np.maximum(size, 0)[np.nonzero(added == at)[0]])[::-1]
        if not len(coming):
            continue
        total = np.concatenate(([0], np.cumsum(coming)))
        count = np.array([disk.partitions or 0 for disk in broker.disks], dtype=np.int64)
        if any(disk.partitions is None for disk in broker.disks):
            count[:] = 0
        most = total[np.clip(Basin(count).level(len(coming)) - count, 0, len(coming))]
        free = np.array([disk.free for disk in broker.disks], dtype=np.int64)
        worst = int(np.argmax(most - free))
        if most[worst] > free[worst]:
            found.append((at, int(most[worst]), broker.disks[worst]))
    return found


def refuse_full_directories(added: Ints, size: Ints, brokers: Sequence[Broker]) -> None:
    """Raise NoRoomError if a log directory may get more bytes than it has free."""
    for at, coming, disk in excess_in_directories(added, size, brokers):
        reason = (
            f"{disk.dir} of broker {brokers[at].id} may get {coming:,} bytes of new replicas and has room for "
            f"{disk.free:,}, as Kafka chooses the directory with the fewest partitions; {UNPROVEN}"
        )
        raise NoRoomError(reason)


def fit_directories(
    held: Ints, added: Ints, sites: Sites, size: Ints, capacity: Ints, brokers: Sequence[Broker]
) -> Ints:
    """As `fit_or_pack`, and as far as a way was found no log directory gets more than it has free."""
    capacity = capacity.copy()
    for _ in range(ROUNDS * 2):
        added = fit_or_pack(held, added, sites, size, capacity)
        full = excess_in_directories(added, size, brokers)
        if not full:
            break
        coming = arriving(added, size, len(brokers))
        for at, most, disk in full:
            capacity[at] = max(int(coming[at]) - (most - disk.free), 0)
    return added


def refuse_overfull(coming: Ints, brokers: Sequence[Broker], proof: str | None = None) -> None:
    """Raise NoRoomError if more bytes (int64[B]) come to a broker than it has free capacity. proof: why the new
    replicas cannot be placed, None where that is not known."""
    capacity = room_of(brokers)
    over = np.flatnonzero((capacity >= 0) & (coming > capacity))
    if not len(over):
        return
    at = int(over[np.argmax(coming[over] - capacity[over])])
    more = f", and {len(over) - 1} more brokers have too little as well" if len(over) > 1 else ""
    reason = (
        f"broker {brokers[at].id} would get {coming[at]:,} bytes of new replicas and has room for {capacity[at]:,}"
        f"{more}; {proof or UNPROVEN}"
    )
    raise NoRoomError(reason)


def fit(held: Ints, added: Ints, sites: Sites, size: Ints, capacity: Ints) -> Ints:
    """int32[N, M] the additions, rearranged to keep to the capacity (int64[B]) as far as a way was found; the racks of
    each partition stay as evenly used as they were. held: int32[N, H]; size: int64[N]."""
    if (capacity < 0).all():
        return added
    coming = arriving(added, size, len(capacity))
    if not ((capacity >= 0) & (coming > capacity)).any():
        return added
    disks = _Disks(held, added, sites, size, capacity, coming)
    for _ in range(ROUNDS):
        before = disks.coming.copy()
        for broker in disks.over():
            disks.relieve(int(broker))
        if not len(disks.over()) or (disks.coming == before).all():
            break
    return disks.table[:, disks.fixed :]


def fit_or_pack(held: Ints, added: Ints, sites: Sites, size: Ints, capacity: Ints) -> Ints:
    """As `fit`; where that finds no room, replicas are packed anew, the largest first."""
    if (capacity < 0).all():
        return added
    missing = (added >= 0).sum(axis=1).astype(np.int32)
    added = fit(held, added, sites, size, capacity)
    if _excess(added, size, capacity) == 0:
        return added
    room = np.where(capacity < 0, int((np.maximum(size, 0) * missing).sum()), capacity)
    packed = fit(held, pack(held, missing, size, sites, room), sites, size, capacity)
    return packed if _excess(packed, size, capacity) < _excess(added, size, capacity) else added


def _excess(added: Ints, size: Ints, capacity: Ints) -> int:
    """Bytes that come to brokers above their capacity."""
    coming = arriving(added, size, len(capacity))
    return int(np.where(capacity < 0, 0, np.maximum(coming - capacity, 0)).sum())


def even_bytes(held: Ints, added: Ints, sites: Sites, size: Ints, capacity: Ints, base: Ints) -> Ints:
    """As `fit`, and as even in bytes as swaps and moves make it; base: int64[B] bytes of each broker before."""
    total = int(arriving(added, size, len(capacity)).sum())
    if not total:
        return added
    goal = np.full(len(capacity), Basin(base[sites.rack >= 0]).level(total))
    added = fit(held, added, sites, size, _least(capacity, goal - base))
    # What racks cannot give each other is evened out within each of them.
    coming = arriving(added, size, len(capacity))
    for rack in range(sites.racks):
        members = sites.members(rack)
        if here := int(coming[members].sum()):
            goal[members] = np.maximum(goal[members], Basin(base[members]).level(here))
    return fit(held, added, sites, size, _least(capacity, goal - base))


def evened(held: Ints, added: Ints, sites: Sites, size: Ints, capacity: Ints, base: Ints) -> Ints:
    """As `even_bytes`; where the fullest broker is not close to its bound, replicas are packed anew, the largest first,
    and the better of both is taken."""
    missing = (added >= 0).sum(axis=1).astype(np.int32)
    added = even_bytes(held, added, sites, size, capacity, base)
    live = sites.stands >= 0
    if _top(added, size, base, live) <= bytes_bound(held, missing, size, sites, base) * CLOSE:
        return added
    most = int(base[live].max(initial=0) + (np.maximum(size, 0) * missing).sum())
    room = (
        most - base if (capacity < 0).all() else np.where(capacity < 0, most - base, np.minimum(most - base, capacity))
    )
    packed = pack(held, missing, size, sites, room)
    worse = _excess(packed, size, capacity) > _excess(added, size, capacity)
    return added if worse or _top(packed, size, base, live) >= _top(added, size, base, live) else packed


def _top(added: Ints, size: Ints, base: Ints, live: Bools) -> int:
    """Bytes on the fullest live broker in the end."""
    return int((base + arriving(added, size, len(base)))[live].max(initial=0))


def _least(capacity: Ints, goal: Ints) -> Ints:
    return np.where(capacity < 0, np.maximum(goal, 0), np.minimum(capacity, np.maximum(goal, 0)))


class _Disks:
    """Who gets which bytes, while that is rearranged."""

    def __init__(self, held: Ints, added: Ints, sites: Sites, size: Ints, capacity: Ints, coming: Ints) -> None:
        self.table = np.concatenate([held, added], axis=1)
        self.fixed = held.shape[1]
        self.sites = sites
        self.size = np.maximum(size, 0)
        self.capacity = np.where(capacity < 0, ENDLESS, capacity)
        self.coming = coming
        self.load = sites.load + np.bincount(added[added >= 0], minlength=len(capacity))
        self.slots = added.shape[1]
        flat = added.ravel()
        item = np.flatnonzero(flat >= 0)
        item = item[np.lexsort((-self.size[item // self.slots], flat[item]))]
        # Per broker its additions as places in a matrix of the additions alone, the largest first.
        self.items = np.split(item, np.cumsum(np.bincount(flat[item], minlength=len(capacity)))[:-1])

    def over(self) -> Ints:
        """The brokers with too little capacity, the fullest first."""
        excess = self.coming - self.capacity
        over = np.flatnonzero(excess > 0)
        ordered: Ints = over[np.argsort(-excess[over], kind="stable")]
        return ordered

    def relieve(self, broker: int) -> None:
        """Swap, then move, until the broker is within its capacity or nothing more can be done."""
        slack = self.capacity - self.coming
        near = self.sites.rack == self.sites.rack[broker]
        for mates, most in ((np.flatnonzero(near), len(near)), (np.flatnonzero(~near & (self.sites.rack >= 0)), FAR)):
            for mate in mates[np.argsort(-slack[mates], kind="stable")][:most].tolist():
                if self.coming[broker] <= self.capacity[broker]:
                    return
                if mate != broker and self.coming[mate] < self.capacity[mate]:
                    self._swap(broker, mate)
        self._move_away(broker)

    def _take(self, source: int, target: int, item: Ints) -> None:
        """The target gets these of the source's additions."""
        self.table[item // self.slots, self.fixed + item % self.slots] = target
        left = self.items[source]
        self.items[source] = left[~np.isin(left, item)]
        both = np.concatenate([self.items[target], item])
        self.items[target] = both[np.argsort(-self.size[both // self.slots], kind="stable")]
        size = int(self.size[item // self.slots].sum())
        for broker, sign in ((source, -1), (target, 1)):
            self.coming[broker] += sign * size
            self.load[broker] += sign * len(item)

    def _swap(self, broker: int, mate: int) -> None:
        """The largest here for the smallest there, and so on, as many as it takes and fit the mate's capacity."""
        count = min(len(self.items[broker]), len(self.items[mate]))
        mine, theirs = self.items[broker][:count], self.items[mate][::-1][:count]
        row, other = mine // self.slots, theirs // self.slots
        gain = self.size[row] - self.size[other]
        fits: Bools = (gain > 0) & ~(self.table[row] == mate).any(axis=1) & ~(self.table[other] == broker).any(axis=1)
        here, there = self.sites.rack[broker], self.sites.rack[mate]
        if here != there:  # both partitions stay as well spread
            fits &= self._in_rack(row, there) == self._in_rack(row, here) - 1
            fits &= self._in_rack(other, here) == self._in_rack(other, there) - 1
        fits &= gain <= self.capacity[mate] - self.coming[mate]
        kept = np.flatnonzero(fits)
        total = np.cumsum(gain[kept])
        kept = kept[(total <= self.capacity[mate] - self.coming[mate]) & (total - gain[kept] < self._excess(broker))]
        self._take(broker, mate, mine[kept])
        self._take(mate, broker, theirs[kept])

    def _in_rack(self, rows: Ints, rack: int) -> Ints:
        """int64[n] replicas of each of these partitions in a rack."""
        table = self.table[rows]
        return np.asarray(((self.sites.stands[table] == rack) & (table >= 0)).sum(axis=1))

    def _move_away(self, broker: int) -> None:
        """To brokers with capacity, the largest first, each to the one with the fewest replicas."""
        rack = self.sites.rack
        for item in self.items[broker].tolist():
            row = item // self.slots
            size = int(self.size[row])
            if self._excess(broker) <= 0 or not size:
                return
            here = self.table[row]
            here = here[here >= 0]
            spread = np.bincount(self.sites.stands[here] + 1, minlength=self.sites.racks + 1)[1:]
            # Another rack that has one fewer leaves the spread as good; the same rack never changes it.
            good = spread == spread[rack[broker]] - 1
            good[rack[broker]] = True
            able = (rack >= 0) & good[rack] & (self.capacity - self.coming >= size)
            able[here] = False
            targets = np.flatnonzero(able)
            if not len(targets):
                continue
            self._take(broker, int(targets[np.argmin(self.load[targets])]), np.array([item]))

    def _excess(self, broker: int) -> int:
        return int(self.coming[broker] - self.capacity[broker])
