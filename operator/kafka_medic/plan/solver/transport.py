"""How many partitions of each kind go to each rack: a transportation problem with a most even answer.

Kind t has count[t] partitions; each takes choose[t] *different* racks out of those it may use. An integer
matrix y is realisable by such choices if and only if 0 <= y[t, r] <= count[t] (0 where it may not) and its
rows sum to count[t] * choose[t]; McNaughton's wrap-around rule (1959) then deals it out. The column sums that are
possible form an integral base polytope, on which one vector is best for every separable convex cost at
once, the decreasingly minimal one (Frank and Murota, 2018), and it is reached by pushing along residual
paths from a fuller rack to an emptier one until none is left (max-flow min-cut). So the highest level at
the end is not only low, it is the lowest there is: the racks that the fullest one reaches form a cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.water_filling import Basin

__all__ = ["transport"]

Floats = npt.NDArray[np.float64]

FITTING_ROUNDS = 40
"""Rounds of proportional fitting for the first guess; the pushes afterwards make it exact anyway."""


def transport(need: Ints, cap: Ints, basins: Sequence[Basin], forced: Ints, wish: Ints, *, alike: bool = False) -> Ints:
    """int64[T, R] partitions of kind t that take rack r, most even in the loads of all brokers.

    need: int64[T] the sum of each row; cap: int64[T, R] the most of each cell, in each row at least the
    need together; basins: R racks; forced: int64[R] replicas each rack gets whatever is decided here;
    wish: int64[R] replicas each rack would get if every partition could go anywhere (only the first
    guess depends on it). alike: each kind is to divide itself among racks as all kinds together do, as far as the
    cells allow; else in proportion to what cells take at most.
    """
    guess = _fit(need, cap, np.maximum(wish - forced, 0), alike=alike)
    chosen = _round(guess, need, cap)
    _push_until_even(chosen, cap, basins, forced)
    return chosen


def _fit(whole_need: Ints, whole_cap: Ints, wish: Ints, *, alike: bool) -> Floats:
    """Iterative proportional fitting with caps: rows exact, columns near the wish."""
    need, cap = whole_need.astype(np.float64), whole_cap.astype(np.float64)
    goal = np.maximum(wish.astype(np.float64), 1e-3)
    start = np.minimum(need[:, None] * (goal / goal.sum()), cap) + cap * 1e-6 if alike else cap
    fit: Floats = start * (need / np.maximum(start.sum(axis=1), 1.0))[:, None]
    for _ in range(FITTING_ROUNDS):
        columns = fit.sum(axis=0)
        if np.abs(columns - goal).max(initial=0.0) < 0.5:
            break
        fit = fit * (goal / np.maximum(columns, 1e-9))
        for _ in range(4):
            fit = np.minimum(fit * (need / np.maximum(fit.sum(axis=1), 1e-9))[:, None], cap)
    short = need - fit.sum(axis=1)
    spare = cap - fit
    fill: Floats = fit + spare * (short / np.maximum(spare.sum(axis=1), 1e-9))[:, None]
    return np.clip(fill, 0.0, cap)


def _round(guess: Floats, need: Ints, cap: Ints) -> Ints:
    """Whole numbers with exact rows; what a column is owed is carried from kind to kind."""
    whole = np.floor(guess + 1e-9).astype(np.int64)
    part = guess - whole
    owed = np.zeros(guess.shape[1])
    for row in range(len(need)):
        owed += part[row]
        rest = int(need[row] - whole[row].sum())
        while rest > 0:
            open_racks = np.flatnonzero(whole[row] < cap[row])
            best = open_racks[np.argsort(-owed[open_racks], kind="stable")][:rest]
            whole[row, best] += 1
            owed[best] -= 1
            rest -= len(best)
        while rest < 0:
            worst = int(np.argmin(np.where(whole[row] > 0, owed, np.inf)))
            whole[row, worst] -= 1
            owed[worst] += 1
            rest += 1
    return whole


def _push_until_even(chosen: Ints, cap: Ints, basins: Sequence[Basin], forced: Ints) -> None:
    racks = chosen.shape[1]
    poured = forced + chosen.sum(axis=0)
    last = np.array([basins[r].level(int(poured[r])) if poured[r] else -1 for r in range(racks)])
    coming = np.array([basins[r].level(int(poured[r]) + 1) for r in range(racks)])
    moved = True
    while moved:
        moved = False
        for source in np.argsort(-last, kind="stable").tolist():
            while poured[source] > forced[source]:
                path = _path(chosen, cap, source, coming < last[source], coming)
                if not path:
                    break
                target = path[-1]
                most = min(_capacity(chosen, cap, a, b) for a, b in pairwise(path))
                step = _worth(basins[source], int(poured[source]), basins[target], int(poured[target]), most)
                for a, b in pairwise(path):
                    _shift(chosen, cap, a, b, step)
                poured[source] -= step
                poured[target] += step
                for r in (source, target):
                    last[r] = basins[r].level(int(poured[r])) if poured[r] else -1
                    coming[r] = basins[r].level(int(poured[r]) + 1)
                moved = True


def _residual(chosen: Ints, cap: Ints, source: int) -> Ints:
    """int64[T, R]: partitions of each kind that could give up `source` for each other rack."""
    able: Ints = np.minimum(chosen[:, source][:, None], cap - chosen)
    return able


def _path(chosen: Ints, cap: Ints, source: int, wanted: Bools, level: Ints) -> list[int]:
    """Shortest residual path from source to a wanted rack (the lowest such); empty if there is none."""
    if not wanted.any():
        return []
    parent = np.full(chosen.shape[1], -1)
    parent[source] = source
    frontier = [source]
    while frontier:
        following: list[int] = []
        for rack in frontier:
            reach = np.flatnonzero(_residual(chosen, cap, rack).any(axis=0) & (parent < 0))
            parent[reach] = rack
            following.extend(reach.tolist())
        found = [rack for rack in following if wanted[rack]]
        if found:
            path = [min(found, key=lambda rack: (level[rack], rack))]
            while path[-1] != source:
                path.append(int(parent[path[-1]]))
            return path[::-1]
        frontier = following
    return []


def _capacity(chosen: Ints, cap: Ints, source: int, target: int) -> int:
    return int(np.minimum(chosen[:, source], cap[:, target] - chosen[:, target]).sum())


def _shift(chosen: Ints, cap: Ints, source: int, target: int, amount: int) -> None:
    """Move `amount` from one rack to another, taken evenly from the kinds that can."""
    able = np.minimum(chosen[:, source], cap[:, target] - chosen[:, target])
    total = np.cumsum(able)
    share = total * amount // max(int(total[-1]), 1)
    step = np.diff(share, prepend=0)
    chosen[:, source] -= step
    chosen[:, target] += step


def _worth(source: Basin, full: int, target: Basin, empty: int, most: int) -> int:
    """Largest step <= most of which even the last replica still lowers the level it leaves."""
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        better = source.level(full - middle + 1) > target.level(empty + middle)
        low, high = (middle, high) if better else (low, middle - 1)
    return low
