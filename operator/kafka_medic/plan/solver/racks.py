"""How even the racks of a partition are, and how even they could be at best."""

from __future__ import annotations

import numpy as np

from kafka_medic.plan.columns import Ints
from kafka_medic.plan.solver.quotas import best_spread, held_and_room
from kafka_medic.plan.solver.sites import Sites, kinds_of, racks_of

__all__ = ["rack_violations"]


def rack_violations(held: Ints, final: Ints, sites: Sites) -> tuple[int, int]:
    """(partitions less even than factor and racks allow, those for which the held replicas force it, or the brokers
    that take none).

    held: int32[N, H], final: int32[N, F] broker indexes, -1 padded.
    Evenness is the number of pairs of replicas that share a rack; one spread is best for it and for
    every other convex measure.
    """
    sizes = sites.live_sizes()
    factor = (final >= 0).sum(axis=1)
    ideal = np.zeros(int(factor.max(initial=0)) + 1, dtype=np.int64)
    for wanted in np.flatnonzero(np.bincount(factor)).tolist():
        ideal[wanted] = _best_pairs(np.zeros((1, len(sizes)), np.int64), np.array([wanted]), sizes)[0]
    bad = int((_pairs(racks_of(final, sites)) > ideal[factor]).sum())

    # With a rack for each replica, only racks that are shared already can be shared at the end.
    roomy = factor <= int((sites.sizes() > 0).sum())
    unavoidable = int((_pairs(racks_of(held[roomy], sites)) > 0).sum())
    crowded = np.flatnonzero(~roomy)
    if len(crowded):
        missing = factor[crowded] - (held[crowded] >= 0).sum(axis=1)
        kinds, _ = kinds_of(held[crowded], missing.astype(np.int32), sites)
        best = _best_pairs(*held_and_room(kinds, sites))
        wanted = kinds.missing + (kinds.racks >= 0).sum(axis=1)
        unavoidable += int(kinds.count[best > ideal[wanted]].sum())
    return bad, unavoidable


def _pairs(racks: Ints) -> Ints:
    """int64[N]: pairs of replicas in one rack."""
    pairs = np.zeros(len(racks), dtype=np.int64)
    for column in range(racks.shape[1]):
        for other in range(column):
            pairs += (racks[:, column] == racks[:, other]) & (racks[:, column] >= 0)
    return pairs


def _best_pairs(held: Ints, missing: Ints, sizes: Ints) -> Ints:
    """int64[T]: fewest pairs that share a rack once `missing` replicas are added."""
    forced, choose, allowed = best_spread(held, missing, sizes)
    count = held + forced
    pairs: Ints = (count * (count - 1) // 2).sum(axis=1)
    # All allowed racks stand at one level, and joining a rack of that level makes `level` pairs.
    level = np.where(allowed, count, 0).max(axis=1, initial=0)
    best: Ints = pairs + choose * level
    return best
