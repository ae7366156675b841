"""Decide the quotas: kinds x racks, then racks x brokers. The size does not depend on the partitions.

Order of what is wanted: as many racks per partition as its replicas allow, then brokers as even as
that leaves possible. Both come out exact here for everything that racks can see; what only brokers can
see (a partition that already stands on the broker it was dealt) is mended after `expand`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.solver.aggregate import Kinds
from kafka_medic.plan.solver.sites import Sites
from kafka_medic.plan.solver.transport import transport
from kafka_medic.plan.water_filling import Basin, level_with_caps, water_fill

__all__ = [
    "Quotas", "best_spread", "broker_quotas", "held_and_room", "solve_pooled", "solve_quotas", "takers", "too_many",
]  # fmt: skip

LARGEST_TABLE = 200_000
"""Cells of kinds x racks that are solved exactly; a larger table is pooled, see `Quotas.pooled`."""


@dataclass(frozen=True, eq=False)
class Quotas:
    """forced: int64[T, R] replicas every partition of the kind gets in the rack.
    chosen: int64[T, R] partitions of the kind that get one more there. When `pooled`, there are too
    many kinds for a table: chosen is int64[1, R], all kinds together, and conflicts are swapped away.
    bound: no plan has its fullest broker below this.
    """

    forced: Ints
    chosen: Ints
    pooled: bool
    bound: int


def best_spread(held: Ints, missing: Ints, sizes: Ints) -> tuple[Ints, Ints, Bools]:
    """The most even spread over racks that a partition can still reach, as (forced, choose, allowed).

    held: int64[T, R] replicas per rack; missing: int[T]; sizes: int64[R] or int64[T, R] brokers per rack.
    Filling the emptiest racks first is best for every measure of spread, so below the last level all
    is forced [T, R]; on the last level any `choose` [T] of the `allowed` [T, R] racks are as good.
    """
    forced = np.zeros_like(held)
    choose = np.zeros(len(held), dtype=np.int64)
    allowed = np.zeros(held.shape, dtype=bool)
    rest = missing.astype(np.int64).copy()
    while True:
        now = held + forced
        level = np.where(now < sizes, now, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
        lowest = (now == level[:, None]) & (now < sizes)
        width = lowest.sum(axis=1)
        whole = (rest > 0) & (rest >= width)
        if not whole.any():
            break
        forced += lowest & whole[:, None]
        rest -= np.where(whole, width, 0)
    last = rest > 0
    choose[last] = rest[last]
    allowed[last] = lowest[last]
    return forced, choose, allowed


def solve_quotas(kinds: Kinds, sites: Sites) -> Quotas:
    """Quotas per kind and rack, and the bound on the fullest broker that they prove."""
    members = [sites.members(rack) for rack in range(sites.racks)]
    basins = [Basin(sites.load[brokers]) for brokers in members]
    alive = sites.rack >= 0
    held_most = int(sites.load[sites.stands >= 0].max(initial=0))
    total = int((kinds.count * kinds.missing).sum())
    if too_many(kinds, sites.racks):
        return solve_pooled(takers(kinds, sites.racks), total, sites)

    forced, choose, allowed = best_spread(*held_and_room(kinds, sites))
    wish = np.zeros(len(sites.rack), dtype=np.int64)
    wish[alive] = water_fill(sites.load[alive], total)
    wish_rack = np.array([int(wish[brokers].sum()) for brokers in members], dtype=np.int64)
    owed = (forced * kinds.count[:, None]).sum(axis=0)
    cap = np.where(allowed, kinds.count[:, None], 0)
    chosen = transport(kinds.count * choose, cap, basins, owed, wish_rack)
    poured = owed + chosen.sum(axis=0)
    levels = [basins[r].level(int(poured[r])) for r in range(sites.racks) if poured[r]]
    return Quotas(forced, chosen, False, max(held_most, *levels, 0))


def held_and_room(kinds: Kinds, sites: Sites) -> tuple[Ints, Ints, Ints]:
    """(int64[T, R] replicas of each kind per rack, int[T] missing, int64[T, R] brokers per rack that it can stand on),
    for `best_spread`; kinds: as `kinds_of` counts them."""
    held = kinds.held_per_rack(sites.places).reshape(len(kinds.count), -1, sites.racks)
    return held.sum(axis=1), kinds.missing, sites.sizes() + held[:, 1:].sum(axis=1)


def too_many(kinds: Kinds, racks: int) -> bool:
    """Whether the kinds are to be pooled: too many for a table, and a rack there for each replica."""
    factor = int((kinds.missing + (kinds.racks >= 0).sum(axis=1)).max(initial=0))
    return len(kinds.count) * racks > LARGEST_TABLE and factor <= racks


def takers(kinds: Kinds, racks: int) -> Ints:
    """int64[R] partitions that could take a replica in each rack: those that do not stand in it."""
    able = np.full(racks, int(kinds.count.sum()), dtype=np.int64)
    for rack, column in _first_in_rack(np.sort(np.where(kinds.racks >= 0, kinds.racks % racks, -1), axis=1)):
        np.subtract.at(able, rack, kinds.count[column])
    return able


def solve_pooled(able: Ints, total: int, sites: Sites) -> Quotas:
    """Quotas for all kinds together; able: int64[R] as `takers` counts them, total: replicas missing."""
    basins = [Basin(sites.load[sites.members(rack)]) for rack in range(sites.racks)]
    able = np.where(sites.sizes() > 0, able, 0)
    level, poured = level_with_caps(basins, able, total)
    none = np.zeros((1, sites.racks), dtype=np.int64)
    held_most = int(sites.load[sites.stands >= 0].max(initial=0))
    return Quotas(none, poured[None, :], True, max(held_most, level if total else 0))


def broker_quotas(sites: Sites, poured: Ints) -> Ints:
    """int64[B] replicas each broker is to receive when rack r receives poured[r]."""
    quota = np.zeros(len(sites.rack), dtype=np.int64)
    for rack in np.flatnonzero(poured).tolist():
        brokers = sites.members(rack)
        quota[brokers] = water_fill(sites.load[brokers], int(poured[rack]))
    return quota


def _first_in_rack(racks: Ints) -> list[tuple[Ints, Ints]]:
    """(racks, rows) per column of sorted rack lists, each rack of a row once."""
    pairs = []
    for column in range(racks.shape[1]):
        new = racks[:, column] >= 0
        if column:
            new &= racks[:, column] != racks[:, column - 1]
        rows = np.flatnonzero(new)
        pairs.append((racks[rows, column], rows))
    return pairs
