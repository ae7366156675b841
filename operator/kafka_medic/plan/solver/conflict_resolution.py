"""No broker twice in a partition, and no rack where that can be helped.

A conflict is a replica dealt to a place (rack or broker) that its partition uses already. Two partitions swap what
they were dealt, within a rack, so that every quota stands. The rounds are vectorised and arithmetic picks the partners,
so the outcome does not depend on chance. Where no swap helps (tiny racks, whose quotas ignored who stands where
already) a replica moves to a free broker, and the loads are made even again.
"""

from __future__ import annotations

import numpy as np

from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.solver.rebalance import even_out
from kafka_medic.plan.solver.sites import Sites

__all__ = ["conflicts", "resolve_conflicts", "swap_conflicts"]

ROUNDS = 96
LARGEST_SEARCH = 4_000_000
"""Items compared, all together, when each remaining conflict is compared with all it could swap with."""


def conflicts(table: Ints, fixed: int) -> Bools:
    """bool[N, M]: which free items repeat a place of their row.

    table: int32[N, fixed + M], the first `fixed` columns given, the others free to change, -1 padded.
    Of two free items on one place only the later is a conflict.
    """
    free = table.shape[1] - fixed
    bad = np.zeros((len(table), free), dtype=bool)
    for slot in range(free):
        mine = table[:, fixed + slot]
        for other in range(fixed + slot):
            bad[:, slot] |= (mine == table[:, other]) & (mine >= 0)
    return bad


def swap_conflicts(table: Ints, fixed: int, group: Ints) -> list[tuple[int, int]]:
    """Swap in place until no swap helps; the (row, slot) of what still conflicts, in order.

    group: int32[places]; items are swapped only within the group of their place.
    """
    bad = conflicts(table, fixed)
    if not bad.any():
        return []
    partners = _Partners(table, fixed, group)
    open_items = np.flatnonzero(bad.ravel())
    owner = np.full(len(table), np.iinfo(np.int64).max)
    for turn in range(ROUNDS):
        if not len(open_items):
            return []
        partner = partners.in_turn(open_items, turn)
        good = _may_swap(table, fixed, open_items, partner)
        mine, theirs = open_items[good], partner[good]
        alone = _one_swap_a_row(owner, mine // partners.free, theirs // partners.free)
        _swap(table, fixed, mine[alone], theirs[alone])
        open_items = _still_open(table, fixed, open_items)
    return _search_all(table, fixed, open_items, partners)


class _Partners:
    """With which items (flat over the free slots) an item could swap: those in the group of its place."""

    def __init__(self, table: Ints, fixed: int, group: Ints) -> None:
        self.table, self.fixed, self.group = table, fixed, group
        self.free = table.shape[1] - fixed
        flat = table[:, fixed:].ravel()
        items = np.flatnonzero(flat >= 0)
        kind = group[flat[items]]
        self.order = items[np.argsort(kind, kind="stable")]
        self.length = np.bincount(kind, minlength=int(group.max()) + 1)
        self.start = np.cumsum(self.length) - self.length
        self.place = np.empty(len(flat), dtype=np.int64)
        self.place[self.order] = np.arange(len(self.order))

    def in_turn(self, items: Ints, turn: int) -> Ints:
        """One partner for each item, in each turn another."""
        of = self.group[self.table[items // self.free, self.fixed + items % self.free]]
        start, length = self.start[of], self.length[of]
        step = 1 + (turn * 2654435761 + np.arange(len(items)) * 40503) % np.maximum(length - 1, 1)
        partner: Ints = self.order[start + (self.place[items] - start + step) % length]
        return partner

    def all_of(self, item: int) -> Ints:
        """Every partner of an item, itself too."""
        of = int(self.group[self.table[item // self.free, self.fixed + item % self.free]])
        return self.order[self.start[of] : self.start[of] + self.length[of]]


def _one_swap_a_row(owner: Ints, mine: Ints, theirs: Ints) -> Bools:
    """bool[n]: swaps (of these rows) to carry out; with two in one row, the two checks could contradict each other.
    owner: int64[N], left as it was found, all at the largest number."""
    number = np.arange(len(mine))
    np.minimum.at(owner, mine, number)
    np.minimum.at(owner, theirs, number)
    alone: Bools = (owner[mine] == number) & (owner[theirs] == number)
    owner[mine] = owner[theirs] = np.iinfo(np.int64).max
    return alone


def _search_all(table: Ints, fixed: int, open_items: Ints, partners: _Partners) -> list[tuple[int, int]]:
    """Swap each remaining item with the first partner that fits; those that found none, as (row, slot)."""
    left: list[tuple[int, int]] = []
    work = 0
    for item in open_items.tolist():
        if not _still_open(table, fixed, np.array([item])).size:
            continue
        others = partners.all_of(item)
        work += len(others)
        if work <= LARGEST_SEARCH:
            good = np.flatnonzero(_may_swap(table, fixed, np.full(len(others), item), others))
            if len(good):
                _swap(table, fixed, np.array([item]), others[good[:1]])
                continue
        left.append(divmod(item, partners.free))
    return left


def _may_swap(table: Ints, fixed: int, mine: Ints, theirs: Ints) -> Bools:
    free = table.shape[1] - fixed
    my_row, their_row = mine // free, theirs // free
    my_place = table[my_row, fixed + mine % free]
    their_place = table[their_row, fixed + theirs % free]
    may: Bools = (
        (my_row != their_row)
        & ~(table[my_row] == their_place[:, None]).any(axis=1)
        & ~(table[their_row] == my_place[:, None]).any(axis=1)
    )
    return may


def _swap(table: Ints, fixed: int, mine: Ints, theirs: Ints) -> None:
    free = table.shape[1] - fixed
    a, b = (mine // free, fixed + mine % free), (theirs // free, fixed + theirs % free)
    table[a], table[b] = table[b], table[a]


def _still_open(table: Ints, fixed: int, items: Ints) -> Ints:
    """Those of the items (flat over the free slots) that conflict now."""
    free = table.shape[1] - fixed
    rows, at = items // free, fixed + items % free
    same = (table[rows] == table[rows, at][:, None]) & (np.arange(table.shape[1]) < at[:, None])
    still: Ints = items[same.any(axis=1)]
    return still


def resolve_conflicts(held: Ints, added: Ints, sites: Sites, bound: int, *, even: bool = True) -> tuple[Ints, int]:
    """(int32[N, M] mended additions, bound on the fullest broker that they prove).

    held: int32[N, H], added: int32[N, M], broker indexes, -1 padded; bound: what the quotas prove;
    even: whether the additions keep to the quotas that it was proved with.
    """
    fixed = held.shape[1]
    table = np.concatenate([held, added], axis=1)
    left = swap_conflicts(table, fixed, sites.rack)
    if even and not left:
        return table[:, fixed:], bound
    load = sites.load.copy()
    np.add.at(load, table[:, fixed:][table[:, fixed:] >= 0], 1)
    for row, slot in left:
        at = fixed + slot
        if (table[row, :at] == table[row, at]).any():  # else a swap or move after it has mended this one too
            _move_to_free(table[row], at, sites, load)
    proven = even_out(table, fixed, sites, load)
    return table[:, fixed:], bound if proven is None else max(bound, proven)


def _move_to_free(row: Ints, at: int, sites: Sites, load: Ints) -> None:
    """Move one replica within its rack; the rack has a free broker, or it would not have been chosen."""
    old = int(row[at])
    free = np.setdiff1d(sites.members(int(sites.rack[old])), row)
    new = int(free[np.argmin(load[free])])
    row[at] = new
    load[old] -= 1
    load[new] += 1
