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

__all__ = ["exchange", "exchange_path", "even_out"]

MOST_PATHS = 20_000
"""Exchange paths tried; past it the plan is valid but reports a load above its bound."""


def even_out(table: Ints, fixed: int, sites: Sites, load: Ints) -> int | None:
    """Exchange until decreasingly minimal; the proven bound, or None if it was not reached."""
    final = sites.rack < 0
    proven: int | None = None
    for _ in range(MOST_PATHS):
        if final.all():
            return proven
        top = int(load[~final].max())
        low = ~final & (load <= top - 2)
        if not low.any():
            return top if proven is None else proven
        path, reached = exchange_path(table, fixed, sites, ~final & (load == top), low, load)
        if not path:
            proven = top if proven is None else proven
            final |= reached
        elif not exchange(table, fixed, sites, path, load, max(int(load[path[0]] - load[path[-1]]) // 2, 1)):
            return proven
    return proven


def _options(table: Ints, fixed: int, sites: Sites, broker: int) -> tuple[Ints, Ints, Bools]:
    """(rows int[n], columns int[n], bool[n, B]): the additions on a broker and where each could go instead."""
    rows, slots = np.nonzero(table[:, fixed:] == broker)
    here = table[rows]
    spread = np.zeros((len(rows), sites.racks + 1), dtype=np.int16)
    taken = np.zeros((len(rows), len(sites.rack)), dtype=bool)
    for column in here.T:
        present = np.flatnonzero(column >= 0)
        spread[present, sites.rack[column[present]]] += 1
        taken[present, column[present]] = True
    rack = int(sites.rack[broker])
    # Leaving for a rack with one fewer keeps the spread as good; the same rack never changes it.
    target_rack = spread == (spread[:, [rack]] - 1)
    target_rack[:, rack] = True
    return rows, slots + fixed, target_rack[:, sites.rack] & ~taken & (sites.rack >= 0)


def exchange_path(
    table: Ints, fixed: int, sites: Sites, source: Bools, wanted: Bools, load: Ints
) -> tuple[list[int], Bools]:
    """(shortest exchange path to the emptiest wanted broker, brokers reached)."""
    parent = np.full(len(load), -1)
    frontier = np.flatnonzero(source).tolist()
    parent[frontier] = frontier
    while frontier:
        following: list[int] = []
        for broker in frontier:
            _, _, free = _options(table, fixed, sites, broker)
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


def exchange(table: Ints, fixed: int, sites: Sites, path: list[int], load: Ints, most: int) -> int:
    """Move at most `most` replicas along the path; how many it was, 0 if no consistent set of moves was found. A
    replica in the first column, which is the preferred leader, is moved last."""
    hops = []
    used: set[int] = set()
    for source, target in pairwise(path):
        rows, columns, free = _options(table, fixed, sites, source)
        places = np.flatnonzero(free[:, target])
        places = places[np.argsort(columns[places] == 0, kind="stable")]
        able = [i for i in places.tolist() if int(rows[i]) not in used][:most]
        most = min(most, len(able))
        used.update(int(rows[i]) for i in able)
        hops.append((rows[able], columns[able], target))
    if most == 0:
        return 0
    for rows, columns, target in hops:
        table[rows[:most], columns[:most]] = target
    load[path[0]] -= most
    load[path[-1]] += most
    return most
