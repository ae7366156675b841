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

__all__ = ["Holders", "even_out", "exchange", "exchange_path", "exchange_quotas", "hand_over"]

MOST_PATHS = 20_000
"""Exchange paths tried; past it the plan is valid but reports a load above its bound."""
ROUNDS, PATIENCE = 400, 24
"""Rounds of moves over all replicas, and how many in a row may move nothing."""
SLOTS = 64
"""How much more often a replica is offered to one broker than to another."""


class Holders:
    """Which free replicas stand on each broker, kept true while they move.

    table: int32[N, fixed + M] broker indexes, -1 padded; the first `fixed` columns stay as they are.
    """

    def __init__(self, table: Ints, fixed: int, brokers: int) -> None:
        self.table, self.fixed = table, fixed
        self.free = table.shape[1] - fixed
        self._brokers = brokers
        self._items: list[Ints] = []
        """Per broker its replicas as places in a matrix of the free columns; made when it is first needed."""

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

    def move(self, rows: Ints, columns: Ints, target: int) -> None:
        """Put these replicas of one broker on another."""
        if not len(rows):
            return
        source = int(self.table[rows[0], columns[0]])
        self.table[rows, columns] = target
        if self._items:
            items = rows * self.free + columns - self.fixed
            self._items[source] = np.setdiff1d(self._items[source], items, assume_unique=True)
            self._items[target] = np.sort(np.concatenate([self._items[target], items]))


def even_out(table: Ints, fixed: int, sites: Sites, load: Ints) -> int | None:
    """Exchange until decreasingly minimal; the proven bound, or None if it was not reached."""
    final = sites.rack < 0
    proven: int | None = None
    holders = Holders(table, fixed, len(load))
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
    return rows, columns, target_rack[:, sites.rack] & ~taken & (sites.rack >= 0)


def exchange_path(holders: Holders, sites: Sites, source: Bools, wanted: Bools, load: Ints) -> tuple[list[int], Bools]:
    """(shortest exchange path to the emptiest wanted broker, brokers reached)."""
    parent = np.full(len(load), -1)
    frontier = np.flatnonzero(source).tolist()
    parent[frontier] = frontier
    while frontier:
        following: list[int] = []
        for broker in frontier:
            _, _, free = _options(holders, sites, broker)
            reach = np.flatnonzero(free.any(axis=0) & (parent < 0))
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

    Nothing is moved past the loads that so many moves could reach at best, if every replica might go anywhere. gives:
    bool[B] brokers that may give; load: int64[B], changed with the table. At most one replica of a partition moves.
    """
    takes = sites.rack >= 0
    give, take = exchange_quotas(load, gives, takes, moves)
    moved = np.zeros(len(table), dtype=bool)
    done = 0
    for first in (1, 0):  # followers before preferred leaders
        empty = 0
        for turn in range(ROUNDS):
            if not give.any() or empty >= PATIENCE:
                break
            row, column, target = _offers(table, sites, give, take, moved, first, turn)
            table[row, column], source = target, table[row, column]
            moved[row] = True
            gone, come = (np.bincount(broker, minlength=len(load)) for broker in (source, target))
            give -= gone
            take -= come
            load += come - gone
            done += len(row)
            empty = 0 if len(row) else empty + 1
    return done


def exchange_quotas(load: Ints, gives: Bools, takes: Bools, moves: int) -> tuple[Ints, Ints]:
    """(int64[B] replicas that each broker gives, int64[B] that each takes), as many as still make loads more even."""
    top, bottom = Basin(-load[gives]), Basin(load[takes])
    low, high = 0, min(moves, int(load[gives].sum())) if gives.any() and takes.any() else 0
    while low < high:
        middle = (low + high + 1) // 2
        # The last one leaves a broker that has at least two more than the one that it comes to.
        low, high = (middle, high) if top.level(middle) + bottom.level(middle) <= 0 else (low, middle - 1)
    give, take = np.zeros(len(load), dtype=np.int64), np.zeros(len(load), dtype=np.int64)
    give[gives], take[takes] = water_fill(-load[gives], low), water_fill(load[takes], low)
    return give, take


def _offers(
    table: Ints, sites: Sites, give: Ints, take: Ints, moved: Bools, first: int, turn: int
) -> tuple[Ints, Ints, Ints]:
    """(rows, columns, targets): replicas that can move this turn, none past a quota, of each partition one; from
    column `first` on."""
    able = (give > 0)[table[:, first:]] & (table[:, first:] >= 0) & ~moved[:, None]
    row, column = np.nonzero(able)
    column += first
    source = table[row, column]
    # Each is offered to one of the takers, in each turn to another; more often to those that take more.
    slots = np.repeat(np.arange(len(take)), np.minimum(take, SLOTS))
    if not len(slots) or not len(row):
        none = np.zeros(0, dtype=np.int64)
        return none, none, none
    target = slots[(np.arange(len(row)) * 40503 + turn * 2654435761) % len(slots)]
    here = table[row]
    free = ~(here == target[:, None]).any(axis=1)
    rack = np.where(here >= 0, sites.stands[here], -2)
    leaves, comes = sites.stands[source], sites.stands[target]
    fewer = (rack == comes[:, None]).sum(axis=1) == (rack == leaves[:, None]).sum(axis=1) - 1
    good = np.flatnonzero(free & ((leaves == comes) | fewer))
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
