"""Bytes onto brokers: a flow of bytes divides them among racks, and the largest replicas go first to the most room.

Two questions need it: room on disk, where counts made even first leave a broker over its room, and bytes that are to be
even. Worst-fit-decreasing is Graham's longest-processing-time rule (1969) on brokers that hold some bytes already. The
flow, `transport` in units of bytes, is the relaxation in which replicas may be cut.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.solver.aggregate import Kinds
from kafka_medic.plan.solver.quotas import LARGEST_TABLE, best_spread, held_and_room
from kafka_medic.plan.solver.sites import Sites, kinds_of
from kafka_medic.plan.solver.transport import transport
from kafka_medic.plan.water_filling import Basin, water_fill

__all__ = ["bytes_bound", "needs_more_room", "pack"]

NO_PLACE = "the new replicas cannot be placed"
UNITS = 1_000_000
"""Parts of all bytes that the flow works with."""
LARGEST_SUBSETS = 10
"""Racks of which every set is compared with its room; of more, single ones, all but one, and all."""


def pack(held: Ints, missing: Ints, size: Ints, sites: Sites, room: Ints) -> Ints:
    """int32[N, M] brokers to add, -1 padded: each partition spread over racks at best, and what is left of the room as
    even as that leaves possible.

    held: int32[N, H]; missing: int32[N]; size: int64[N] bytes, -1 unknown; room: int64[B] bytes, perhaps less than what
    comes.
    """
    size = np.maximum(size, 0)
    shelves = _Shelves(sites, room)
    added = np.full((len(held), max(int(missing.max(initial=0)), 1)), -1, dtype=np.int32)
    order = np.argsort(-size, kind="stable").tolist()
    kinds, kind = kinds_of(held, missing, sites)
    apart = int((missing + (held >= 0).sum(axis=1)).max(initial=0)) <= int((sites.sizes() > 0).sum())
    if len(kinds.count) * sites.racks > LARGEST_TABLE or (apart and int(sites.live_sizes().max(initial=0)) == 1):
        for row in order:
            _anywhere(shelves, added[row], held[row].tolist(), int(missing[row]), int(size[row]))
        return added
    forced, choose, allowed, due = _flow(kinds, kind, size, sites, room)
    always = [np.repeat(np.arange(sites.racks), racks).tolist() for racks in forced]
    may = [np.flatnonzero(racks).tolist() for racks in allowed]
    due_of, choose_of = due.tolist(), choose.tolist()
    for row in order:
        number, bytes_here = int(kind[row]), int(size[row])
        left = due_of[number]
        racks = heapq.nlargest(choose_of[number], may[number], key=left.__getitem__)
        taken = set(held[row].tolist())
        for slot, rack in enumerate(always[number] + racks):
            taken.add(shelves.take(rack, taken, bytes_here))
            added[row, slot] = shelves.last
        for rack in racks:
            left[rack] -= bytes_here
    return added


class _Shelves:
    """The brokers of each rack, the one with most room first."""

    def __init__(self, sites: Sites, room: Ints) -> None:
        self.rack, self.stands = sites.rack, sites.stands
        self.heaps = [[(-int(room[b]), b) for b in sites.members(rack).tolist()] for rack in range(sites.racks)]
        self.all = [(-int(room[b]), b) for b in np.flatnonzero(sites.rack >= 0).tolist()]
        for heap in (*self.heaps, self.all):
            heapq.heapify(heap)
        self.last = -1

    def take(self, rack: int, taken: set[int], size: int) -> int:
        """The broker of a rack with most room that is not taken; it has less room now."""
        self.last = _pop(self.heaps[rack], lambda broker: broker not in taken, size)
        return self.last

    def take_apart(self, taken: set[int], racks: set[int], size: int) -> int:
        """The broker with most room that is not taken, and in none of the racks."""
        return _pop(self.all, lambda broker: broker not in taken and int(self.rack[broker]) not in racks, size)


def _pop(heap: list[tuple[int, int]], good: Callable[[int], bool], size: int) -> int:
    aside = []
    room, broker = heapq.heappop(heap)
    while not good(broker):
        aside.append((room, broker))
        room, broker = heapq.heappop(heap)
    for other in aside:
        heapq.heappush(heap, other)
    heapq.heappush(heap, (room + size, broker))
    return broker


def _anywhere(shelves: _Shelves, added: Ints, held: list[int], missing: int, size: int) -> None:
    """Where there is a rack for each replica, each may take any other one."""
    taken = {broker for broker in held if broker >= 0}
    racks = {int(shelves.stands[broker]) for broker in taken}
    for slot in range(missing):
        broker = shelves.take_apart(taken, racks, size)
        taken.add(broker)
        racks.add(int(shelves.rack[broker]))
        added[slot] = broker


def _flow(kinds: Kinds, kind: Ints, size: Ints, sites: Sites, room: Ints) -> tuple[Ints, Ints, Bools, Ints]:
    """(forced, choose, allowed, as in `best_spread`; int64[T, R] bytes of each kind for the racks that it chooses)."""
    forced, choose, allowed = best_spread(*held_and_room(kinds, sites))
    whole = np.zeros(len(kinds.count), dtype=np.int64)
    np.add.at(whole, kind, size)
    unit = max(int(whole.sum()) // UNITS, 1)
    parts = -(-whole // unit)
    open_brokers = sites.rack >= 0
    top = int(room[open_brokers].max(initial=0))
    filled = np.where(open_brokers, (top - np.minimum(room, top)) // unit, 0)
    basins = [Basin(filled[sites.members(rack)]) for rack in range(sites.racks)]
    owed = (forced * parts[:, None]).sum(axis=0)
    wish = np.zeros(len(room), dtype=np.int64)
    wish[open_brokers] = water_fill(filled[open_brokers], int((parts * (choose + forced.sum(axis=1))).sum()))
    of_rack = np.array([int(wish[sites.members(rack)].sum()) for rack in range(sites.racks)], dtype=np.int64)
    chosen = transport(parts * choose, np.where(allowed, parts[:, None], 0), basins, owed, of_rack)
    return forced, choose, allowed, chosen * unit


def needs_more_room(
    held: Ints, missing: Ints, size: Ints, sites: Sites, room: Ints, names: Sequence[str]
) -> str | None:
    """Why new replicas cannot be placed in the room (int64[B], below 0: any), or not with the best possible racks; None
    where that is not proven. names: of the racks; the rest as in `pack`."""
    size, takes = np.maximum(size, 0), sites.rack >= 0
    free = np.where(room < 0, int((size * missing).sum()), room)
    able = np.where(takes, free, -1)
    # A replica of each partition has to fit somewhere, apart from those that the partition has.
    for row in np.argsort(-size, kind="stable")[:1_000].tolist():
        here = able.copy()
        here[held[row][held[row] >= 0]] = -1
        fits = int((here >= size[row]).sum())
        if fits < missing[row]:
            return (
                f"{NO_PLACE}: {missing[row]:,} replicas of {size[row]:,} bytes need a broker each, but {fits:,} others "
                "have room for it"
            )
    smallest = int(size[size > 0].min(initial=0))
    free = np.where(free < smallest, 0, free)
    kinds, kind = kinds_of(held, missing, sites)
    of_rack = np.array([int(free[sites.members(rack)].sum()) for rack in range(sites.racks)], dtype=np.int64)
    for racks, least in _least_bytes(kinds, kind, size, sites):
        have = int(of_rack[racks].sum())
        if least > have:
            if len(racks) == sites.racks:
                return f"{NO_PLACE}: {least:,} bytes of new replicas have room of {have:,} on all brokers together"
            where = ", ".join(names[rack] for rack in racks)
            # Where each broker is a rack of its own, no plan is better spread than another.
            best = " with the best possible racks" if int(sites.live_sizes().max()) > 1 else ""
            return f"{NO_PLACE}{best}: {least:,} bytes come to {where} with room for {have:,}"
    return None


def bytes_bound(held: Ints, missing: Ints, size: Ints, sites: Sites, base: Ints) -> int:
    """No plan that spreads partitions over racks at best has the fullest broker below this many bytes. base: int64[B]
    bytes of each broker before; the rest as in `pack`."""
    size, takes = np.maximum(size, 0), sites.rack >= 0
    bound = int(base[sites.stands >= 0].max(initial=0))
    if not len(held):
        return bound
    ascending = np.sort(base[takes])
    bound = max(bound, int((ascending[np.minimum(missing, len(ascending)) - 1] + size).max()))
    largest = np.sort(np.repeat(size, missing))[::-1]
    if len(largest) > len(ascending):
        # Two of so many replicas share a broker.
        bound = max(bound, int(ascending[0] + largest[len(ascending) - 1] + largest[len(ascending)]))
    kinds, kind = kinds_of(held, missing, sites)
    for racks, least in _least_bytes(kinds, kind, size, sites):
        brokers = takes & np.isin(sites.rack, racks)
        if least and brokers.any():
            bound = max(bound, Basin(base[brokers]).level(least))
    return bound


def _least_bytes(kinds: Kinds, kind: Ints, size: Ints, sites: Sites) -> list[tuple[list[int], int]]:
    """(racks, bytes that come to them in any plan that spreads partitions at best), of sets of racks (Gale, 1957)."""
    every = list(range(sites.racks))
    whole = np.zeros(len(kinds.count), dtype=np.int64)
    np.add.at(whole, kind, size)
    sets = [every]
    if len(kinds.count) * sites.racks > LARGEST_TABLE:
        return [(every, int((whole * kinds.missing).sum()))]
    forced, choose, allowed = best_spread(*held_and_room(kinds, sites))
    if sites.racks <= LARGEST_SUBSETS:
        sets += [list(some) for count in range(1, sites.racks) for some in combinations(every, count)]
    else:
        sets += [[rack] for rack in every] + [[rack for rack in every if rack != one] for one in every]
    found = []
    for racks in sets:
        inside = np.zeros(sites.racks, dtype=bool)
        inside[racks] = True
        least = forced[:, inside].sum(axis=1) + np.maximum(choose - (allowed & ~inside).sum(axis=1), 0)
        found.append((racks, int((least * whole).sum())))
    return found
