"""Make brokers even by exchanges: a replica goes where its partition may have it, along a path of brokers.

Why the paths prove the bound: the sets of brokers that give one partition its best rack spread are the
bases of a matroid (bounds on the count in each rack). A sum of such families is M-convex, and there a
set X of brokers that no single exchange leaves holds as little as it ever can (Murota, Discrete Convex
Analysis, 2003). So when the fullest brokers reach no broker that is two below them, their load is the bound.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.solver.sites import Sites
from kafka_medic.plan.water_filling import Basin, water_fill

__all__ = ["Holders", "change_kept", "even_out", "exchange", "exchange_path", "exchange_quotas", "hand_over"]

MOST_PATHS = 20_000
"""Exchange paths tried; past it the plan is valid but reports a load above its bound."""
CHANGES = 64
"""Rounds in which partitions keep other replicas."""
ROUNDS, PATIENCE = 400, 24
"""Rounds of moves over all replicas, and how many in a row may move nothing."""


class Holders:
    """Which free replicas stand on each broker, kept true while they move.

    table: int32[N, fixed + M] broker indexes, -1 padded; the first `fixed` columns stay as they are.
    before: int32[N, H] what each partition had, if a replica that it keeps may only give way to one that it had as
    well. So the number of moves stays as it is.
    """

    def __init__(self, table: Ints, fixed: int, brokers: int, before: Ints | None = None) -> None:
        self.table, self.fixed, self.before = table, fixed, before
        self.free = table.shape[1] - fixed
        self._brokers = brokers
        self._items: list[Ints] = []
        """Per broker its replicas as places in a matrix of the free columns; made when it is first needed."""
        self._reach: dict[int, Bools] = {}

    def on(self, broker: int) -> tuple[Ints, Ints]:
        """(rows int64[n], columns int64[n]) of the free replicas on a broker, in order."""
        if not self._items:
            flat = self.table[:, self.fixed :].ravel()
            narrow = flat.astype(np.int16) if self._brokers < 1 << 15 else flat
            order = np.argsort(narrow, kind="stable")
            ends = np.cumsum(np.bincount(flat + 1, minlength=self._brokers + 1))
            self._items = np.split(order, ends[:-1])[1:]
        items = self._items[broker]
        return items // self.free, items % self.free + self.fixed

    def reach(self, sites: Sites, broker: int) -> Bools:
        """bool[B]: brokers to which some replica of this one could go."""
        if broker not in self._reach:
            self._reach[broker] = np.asarray(_options(self, sites, broker)[2].any(axis=0))
        return self._reach[broker]

    def move(self, rows: Ints, columns: Ints, target: int) -> None:
        """Put these replicas of one broker on another."""
        if not len(rows):
            return
        source = int(self.table[rows[0], columns[0]])
        for broker in {target, *np.unique(self.table[rows]).tolist()}:
            self._reach.pop(broker, None)
        self.table[rows, columns] = target
        if self._items:
            items = rows * self.free + columns - self.fixed
            self._items[source] = np.setdiff1d(self._items[source], items, assume_unique=True)
            self._items[target] = np.sort(np.concatenate([self._items[target], items]))


def even_out(table: Ints, fixed: int, sites: Sites, load: Ints, before: Ints | None = None) -> int | None:
    """Exchange until decreasingly minimal; the proven bound, or None if it was not reached. before: as in Holders."""
    final = sites.rack < 0
    proven: int | None = None
    holders = Holders(table, fixed, len(load), before)
    for _ in range(MOST_PATHS):
        if final.all():
            return proven
        top = int(load[~final].max())
        low = ~final & (load <= top - 2)
        if not low.any():
            return top if proven is None else proven
        path, reached = exchange_path(holders, sites, ~final & (load == top), low, load)
        if not path:
            proven = top if proven is None else proven
            final |= reached
        elif not exchange(holders, sites, path, load, max(int(load[path[0]] - load[path[-1]]) // 2, 1)):
            return proven
    return proven


def _options(holders: Holders, sites: Sites, broker: int) -> tuple[Ints, Ints, Bools]:
    """(rows int[n], columns int[n], bool[n, B]): the free replicas on a broker and where each could go instead."""
    rows, columns = holders.on(broker)
    here = holders.table[rows]
    spread = np.zeros((len(rows), sites.racks + 1), dtype=np.int16)
    taken = np.zeros((len(rows), len(sites.rack)), dtype=bool)
    for column in here.T:
        present = np.flatnonzero(column >= 0)
        spread[present, sites.stands[column[present]]] += 1
        taken[present, column[present]] = True
    rack = int(sites.stands[broker])
    # Leaving for a rack with one fewer keeps the spread as good; the same rack never changes it.
    target_rack = spread == (spread[:, [rack]] - 1)
    target_rack[:, rack] = True
    free = target_rack[:, sites.rack] & ~taken & (sites.rack >= 0)
    if holders.before is not None:
        had = np.zeros(free.shape, dtype=bool)
        for column in holders.before[rows].T:
            present = np.flatnonzero(column >= 0)
            had[present, column[present]] = True
        free &= had == had[:, [broker]]
    return rows, columns, free


def exchange_path(holders: Holders, sites: Sites, source: Bools, wanted: Bools, load: Ints) -> tuple[list[int], Bools]:
    """(shortest exchange path to the emptiest wanted broker, brokers reached)."""
    parent = np.full(len(load), -1)
    frontier = np.flatnonzero(source).tolist()
    parent[frontier] = frontier
    while frontier:
        following: list[int] = []
        for broker in frontier:
            reach = np.flatnonzero(holders.reach(sites, broker) & (parent < 0))
            parent[reach] = broker
            following.extend(reach.tolist())
        found = [broker for broker in following if wanted[broker]]
        if found:
            path = [min(found, key=lambda broker: (load[broker], broker))]
            while parent[path[-1]] != path[-1]:
                path.append(int(parent[path[-1]]))
            return path[::-1], parent >= 0
        frontier = following
    return [], parent >= 0


def exchange(holders: Holders, sites: Sites, path: list[int], load: Ints, most: int) -> int:
    """Move at most `most` replicas along the path; how many it was, 0 if no consistent set of moves was found. A
    replica in the first column, which is the preferred leader, is moved last."""
    hops = []
    used: set[int] = set()
    for source, target in pairwise(path):
        rows, columns, free = _options(holders, sites, source)
        places = np.flatnonzero(free[:, target])
        places = places[np.argsort(columns[places] == 0, kind="stable")]
        able = [i for i in places.tolist() if int(rows[i]) not in used][:most]
        most = min(most, len(able))
        used.update(int(rows[i]) for i in able)
        hops.append((rows[able], columns[able], target))
    if most == 0:
        return 0
    for rows, columns, target in hops:
        holders.move(rows[:most], columns[:most], target)
    load[path[0]] -= most
    load[path[-1]] += most
    return most


def hand_over(table: Ints, sites: Sites, gives: Bools, load: Ints, moves: int) -> int:
    """Move replicas straight from the fullest brokers to the emptiest, in rounds over all of them; how many moved.

    Nothing is moved past the loads that so many moves could reach at best: first if every replica might go anywhere,
    then if each stays in its rack. gives: bool[B] brokers that may give; load: int64[B], changed with the table. At
    most one replica of a partition moves.
    """
    takes = sites.rack >= 0
    moved = np.zeros(len(table), dtype=bool)
    done = _rounds(table, sites, exchange_quotas(load, gives, takes, moves), load, moved, racks=(True, False))
    quotas = _quotas_of_racks(load, gives, sites, moves - done)
    return done + _rounds(table, sites, quotas, load, moved, racks=(True,))


def _rounds(
    table: Ints, sites: Sites, quotas: tuple[Ints, Ints], load: Ints, moved: Bools, racks: tuple[bool, ...]
) -> int:
    """Move until the quotas are used up, or as far as rounds find moves; how many moved. racks: whether replicas stay
    in their racks, tried in this order."""
    (give, take), done = quotas, 0
    for first in (1, 0):  # followers before preferred leaders
        for near in racks:
            empty = 0
            for turn in range(ROUNDS):
                if not give.any() or empty >= PATIENCE:
                    break
                row, column, target = _offers(table, sites, give, take, moved, first, turn, near=near)
                source = table[row, column]
                table[row, column] = target
                moved[row] = True
                gone, come = (np.bincount(broker, minlength=len(load)) for broker in (source, target))
                give -= gone
                take -= come
                load += come - gone
                done += len(row)
                empty = 0 if len(row) else empty + 1
    return done


def change_kept(table: Ints, before: Ints, sites: Sites, load: Ints) -> None:
    """Keep replicas on emptier brokers in place of those on fuller ones of the same rack, in rounds over all
    partitions, as long as that makes loads more even. It is most of what `even_out` would do one path after another.

    table: int32[N, H], before: int32[N, H] brokers that each partition ends with and had; load: int64[B]. The table and
    the load change.
    """
    for _ in range(CHANGES):
        gain, column = np.ones(len(table), dtype=np.int64), np.zeros(len(table), dtype=np.int64)
        target = table[:, 0].copy()
        for other in before.T:
            gone = (other >= 0) & (sites.rack[other] >= 0) & ~(table == other[:, None]).any(axis=1)
            for place, source in enumerate(table.T):
                more = load[source] - load[other]
                same = (source >= 0) & (sites.rack[source] == sites.rack[other])
                good = np.flatnonzero(gone & same & (more > gain))
                good = good[(before[good] == source[good, None]).any(axis=1)]
                gain[good], column[good], target[good] = more[good], place, other[good]
        able = np.flatnonzero(gain >= 2)
        able = able[np.argsort(-gain[able], kind="stable")]
        gives, takes = np.zeros_like(load), np.zeros_like(load)
        np.maximum.at(gives, table[able, column[able]], gain[able] // 2)
        np.maximum.at(takes, target[able], gain[able] // 2)
        able = able[_within(table[able, column[able]], gives)]
        able = able[_within(target[able], takes)]
        source = table[able, column[able]]
        after = load + np.bincount(target[able], minlength=len(load)) - np.bincount(source, minlength=len(load))
        if not len(able) or int(after @ after) >= int(load @ load):
            return
        table[able, column[able]] = target[able]
        load[:] = after


def _most(gives: Ints, takes: Ints, most: int) -> int:
    """How many moves from brokers with loads `gives` to brokers with loads `takes` make them more even, `most` or less:
    each leaves a broker that has at least two more than the one that it comes to."""
    top, bottom = Basin(-gives), Basin(takes)
    low, high = 0, min(most, int(gives.sum())) if len(gives) and len(takes) else 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if top.level(middle) + bottom.level(middle) <= 0 else (low, middle - 1)
    return low


def exchange_quotas(load: Ints, gives: Bools, takes: Bools, moves: int) -> tuple[Ints, Ints]:
    """(int64[B] replicas that each broker gives, int64[B] that each takes), as many as still make loads more even."""
    amount = _most(load[gives], load[takes], moves)
    give, take = np.zeros(len(load), dtype=np.int64), np.zeros(len(load), dtype=np.int64)
    give[gives], take[takes] = water_fill(-load[gives], amount), water_fill(load[takes], amount)
    return give, take


def _quotas_of_racks(load: Ints, gives: Bools, sites: Sites, moves: int) -> tuple[Ints, Ints]:
    """The same if each replica stays in its rack: the moves go where the fullest brokers are, whichever rack it is."""
    give, take = np.zeros(len(load), dtype=np.int64), np.zeros(len(load), dtype=np.int64)
    both = [(gives & (sites.stands == rack), sites.rack == rack) for rack in range(sites.racks)]
    both = [(of, to) for of, to in both if of.any() and to.any()] if moves else []
    most = [_most(load[of], load[to], moves) for of, to in both]

    def above(level: int) -> list[int]:
        excess = [int(np.maximum(load[of] - level, 0).sum()) for of, _ in both]
        return [min(pair) for pair in zip(excess, most, strict=True)]

    low, high = 0, int(load.max(initial=0))
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if sum(above(middle)) <= moves else (middle + 1, high)
    left = moves - sum(above(low))
    for (of, to), amount, more in zip(both, above(low), above(low - 1), strict=True):
        extra = min(more - amount, left)
        left -= extra
        give[of], take[to] = water_fill(-load[of], amount + extra), water_fill(load[to], amount + extra)
    return give, take


def _offers(
    table: Ints, sites: Sites, give: Ints, take: Ints, moved: Bools, first: int, turn: int, *, near: bool
) -> tuple[Ints, Ints, Ints]:
    """(rows, columns, targets): replicas that can move this turn, none past a quota, of each partition one; from
    column `first` on. near: only to brokers of the same rack."""
    able = (give > 0)[table[:, first:]] & (table[:, first:] >= 0) & ~moved[:, None]
    row, column = np.nonzero(able)
    column += first
    # Each is offered to one of the takers, in each turn to another; more often to those that take more.
    slots = np.repeat(np.arange(len(take)), take)
    of = sites.rack[slots] if near else np.zeros(len(slots), dtype=np.int32)
    slots = slots[np.argsort(of, kind="stable")]
    count = np.bincount(of, minlength=sites.racks)
    group = sites.stands[table[row, column]] if near else np.zeros(len(row), dtype=np.int32)
    some = np.flatnonzero(count[group] > 0)
    row, column, group = row[some], column[some], group[some]
    number = np.arange(len(row)) * 40503 + turn * 2654435761
    target = slots[(np.cumsum(count) - count)[group] + number % count[group]] if len(row) else row
    source, here = table[row, column], table[row]
    free = ~(here == target[:, None]).any(axis=1)
    if not near:
        rack = np.where(here >= 0, sites.stands[here], -2)
        leaves, comes = sites.stands[source], sites.stands[target]
        fewer = (rack == comes[:, None]).sum(axis=1) == (rack == leaves[:, None]).sum(axis=1) - 1
        free &= (leaves == comes) | fewer
    good = np.flatnonzero(free)
    good = good[np.concatenate(([True], row[good][1:] != row[good][:-1]))] if len(good) else good
    good = good[_within(target[good], take)]
    good = good[_within(source[good], give)]
    return row[good], column[good], target[good]


def _within(group: Ints, limit: Ints) -> Ints:
    """Positions that keep, in order, at most limit[g] members of each group g."""
    order = np.argsort(group.astype(np.int16) if len(limit) < 1 << 15 else group, kind="stable")
    ordered = group[order]
    count = np.bincount(ordered, minlength=len(limit))
    rank = np.arange(len(group)) - (np.cumsum(count) - count)[ordered]
    return np.sort(order[rank < limit[ordered]])
