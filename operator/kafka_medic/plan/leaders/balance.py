"""Choose who should lead, by reordering replica lists only.

Every partition gives its leadership to one of its replicas: a flow from partitions to brokers. The
start is the order as it is, so leadership moves only away from brokers that have too much. Almost all
of it moves in vectorised rounds straight from a fuller broker to an emptier one, or by way of one more; the
rest goes along shortest augmenting paths over the broker graph (Edmonds and Karp, 1972). When the brokers above the
level reach no broker below it, all that the reached set leads must stay inside it, so its mean is a bound.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.water_filling import Basin

__all__ = ["balance_leaders"]

DIRECT_ROUNDS = 60
MOST_PATHS = 50_000
ENOUGH, FEW = 32, 1 << 15
"""Partitions tried for each leadership that has to go, and at least, before all are."""


def balance_leaders(replicas: Ints, fixed: Ints, alive: Bools) -> tuple[Ints, int]:
    """(int32[N] column of the replica that should lead, smallest reachable maximum per broker).

    replicas: int32[N, F] broker indexes, -1 padded, the first being preferred today.
    fixed: int64[B] preferred leaderships of partitions outside the plan. alive: bool[B].
    """
    bound = int(fixed[alive].max(initial=0))
    if not len(replicas):
        return np.zeros(0, dtype=np.int32), bound
    state = _State(replicas, fixed, alive)
    level = max(Basin(fixed[alive]).level(len(replicas)), bound)
    reached = state.drain(level)
    while reached is not None:
        # Nothing leaves the reached brokers, so one of them must lead at least their mean.
        level = max(level + 1, int(-(-state.load[reached].sum() // reached.sum())))
        reached = state.drain(level)
    if (state.load[alive] < level - 1).any():
        state.drain(level - 1)
    state.polish()
    return state.column, level


class _State:
    """Who leads what, while it is being evened out."""

    def __init__(self, replicas: Ints, fixed: Ints, alive: Bools) -> None:
        self.replicas = replicas
        self.lead = replicas[:, 0].copy()
        self.column = np.zeros(len(replicas), dtype=np.int32)
        self.fixed = fixed
        self.alive = alive
        self.brokers = len(fixed)
        self.load = fixed + np.bincount(self.lead, minlength=self.brokers)
        self._led: list[Ints] = []
        """Per broker the partitions it leads, and perhaps some it led once; only for the search of paths."""

    def drain(self, level: int) -> Bools | None:
        """Bring every broker to `level` or below, filling others up to it at most.

        None if that was reached; otherwise the brokers that the too full ones reach, themselves too.
        """
        for _ in range(DIRECT_ROUNDS):
            if not self._direct_round(level) and not self._relay_round(level):
                break
        arcs = np.zeros((0, 0), dtype=np.int64)
        for _ in range(MOST_PATHS):
            above = self._above(level)
            if not (above > 0).any():
                return None
            arcs = arcs if len(arcs) else self._arcs()
            paths, reached = _shortest(arcs, above > 0, self.alive & (self.load < level), self.load)
            if not paths:
                return reached
            for path in paths:
                source, target = path[0], path[-1]
                self._push(arcs, path, min(int(self.load[source]) - level, level - int(self.load[target])))
        return None

    def polish(self) -> None:
        """Even out what is left below the maximum, until no broker can give to one two below it."""
        final = ~self.alive
        arcs = np.zeros((0, 0), dtype=np.int64)
        for _ in range(MOST_PATHS):
            if final.all():
                return
            top = int(self.load[~final].max())
            low = ~final & (self.load <= top - 2)
            if not low.any():
                return
            arcs = arcs if len(arcs) else self._arcs()
            paths, reached = _shortest(arcs, ~final & (self.load == top), low, self.load)
            for path in paths:
                self._push(arcs, path, int(self.load[path[0]] - self.load[path[-1]]) // 2)
            if not paths:
                final |= reached

    def _above(self, level: int) -> Ints:
        """int64[B] leaderships to give away; what is fixed cannot be."""
        movable = self.load - self.fixed
        above: Ints = np.where(self.alive, np.clip(self.load - level, 0, movable), 0)
        return above

    def _direct_round(self, level: int) -> int:
        """Move leaders from above the level to replicas below it, none past it; how many moved."""
        return self._give(level, np.where(self.alive, np.maximum(level - self.load, 0), 0))

    def _relay_round(self, level: int) -> int:
        """Move leaders from above the level to brokers at it that can hand on as many to one below; how many moved."""
        below = self.alive & (self.load < level)
        near = np.zeros(len(self.lead), dtype=bool)
        for column in self.replicas.T:
            near |= below[column] & (column >= 0)
        hands_on = np.bincount(self.lead[near], minlength=self.brokers)
        return self._give(level, np.where(self.alive & (self.load == level), hands_on, 0))

    def _give(self, level: int, space: Ints) -> int:
        """Move leaders from above the level to replicas on brokers with most space, none past it; how many moved."""
        above = self._above(level)
        rows: Ints = np.flatnonzero((above > 0)[self.lead])
        if not len(rows) or not space.any():
            return 0
        # Where many could go and few have to, some of them are enough to find those.
        step = len(rows) // max(ENOUGH * int(above.sum()), FEW)
        return (step > 1 and self._hand(rows[::step], above, space)) or self._hand(rows, above, space)

    def _hand(self, rows: Ints, above: Ints, space: Ints) -> int:
        """The same, of these partitions alone."""
        best, most = np.zeros(len(rows), dtype=np.int32), np.zeros(len(rows), dtype=np.int64)
        for place, column in enumerate(self.replicas[rows].T):
            free = np.where(column >= 0, space[column], 0)
            better = free > most
            best[better] = place
            np.maximum(most, free, out=most)
        some = most > 0
        rows, best = rows[some], best[some]
        target = self.replicas[rows, best]
        kept = _within(target, space)
        rows, best, target = rows[kept], best[kept], target[kept]
        kept = _within(self.lead[rows], above)
        rows, best, target = rows[kept], best[kept], target[kept]
        self._move(rows, best, target)
        return len(rows)

    def _move(self, rows: Ints, columns: Ints, target: Ints) -> None:
        self.load += np.bincount(target, minlength=self.brokers) - np.bincount(self.lead[rows], minlength=self.brokers)
        self.lead[rows] = target
        self.column[rows] = columns

    def _arcs(self) -> Ints:
        """int64[B, B]: partitions led by a that have a replica on b. Also lists them anew by leader."""
        order = np.argsort(self.lead.astype(np.int16) if self.brokers < 1 << 15 else self.lead, kind="stable")
        self._led = np.split(order, np.cumsum(np.bincount(self.lead, minlength=self.brokers))[:-1])
        key = self.lead.astype(np.int64)[:, None] * self.brokers + self.replicas
        if self.replicas.min() < 0:
            key = key[self.replicas >= 0]
        arcs = np.bincount(key.ravel(), minlength=self.brokers * self.brokers)
        return arcs.reshape(self.brokers, self.brokers)

    def _led_by(self, broker: int) -> Ints:
        """Partitions that the broker leads now."""
        rows = self._led[broker]
        rows = np.sort(rows[self.lead[rows] == broker])
        twice = rows[1:] == rows[:-1]
        if twice.any():  # one that left and came back
            rows = np.delete(rows, np.flatnonzero(twice))
        self._led[broker] = rows
        return rows

    def _push(self, arcs: Ints, path: list[int], most: int) -> None:
        """Hand on along the path at most `most` and what the arcs allow, and keep `arcs` true."""
        hops = list(pairwise(path))
        movable = int(self.load[path[0]] - self.fixed[path[0]])
        amount = min(most, movable, *(int(arcs[a, b]) for a, b in hops))
        if amount <= 0:
            return  # an earlier path of the same search has used it up
        # Leaders differ from hop to hop, so no partition is picked twice.
        picks: list[tuple[Ints, Ints, int]] = []
        for source, target in hops:
            led = self._led_by(source)
            rows, columns = np.nonzero(self.replicas[led] == target)
            picks.append((led[rows[:amount]], columns[:amount].astype(np.int32), target))
        for moving, places, broker in picks:
            there = self.replicas[moving]
            row, column = np.nonzero(there >= 0)
            replica = there[row, column]
            flat = arcs.reshape(-1)
            np.subtract.at(flat, self.lead[moving][row].astype(np.int64) * self.brokers + replica, 1)
            np.add.at(flat, broker * self.brokers + replica.astype(np.int64), 1)
            self._move(moving, places, np.full(len(moving), broker, dtype=self.lead.dtype))
            self._led[broker] = np.concatenate([self._led[broker], moving])


def _within(group: Ints, limit: Ints) -> Ints:
    """Positions that keep, in order, at most limit[g] members of each group g."""
    order = np.argsort(group.astype(np.int16) if len(limit) < 1 << 15 else group, kind="stable")
    ordered = group[order]
    count = np.bincount(ordered, minlength=len(limit))
    rank = np.arange(len(group)) - (np.cumsum(count) - count)[ordered]
    return np.sort(order[rank < limit[ordered]])


def _shortest(arcs: Ints, source: Bools, wanted: Bools, load: Ints) -> tuple[list[list[int]], Bools]:
    """(shortest paths of arcs from a source, to each nearest wanted broker one; brokers reached)."""
    parent = np.full(len(source), -1)
    frontier = np.flatnonzero(source)
    parent[frontier] = frontier
    while len(frontier):
        unseen = np.flatnonzero(parent < 0)
        open_arcs = arcs[np.ix_(frontier, unseen)] > 0
        reached = open_arcs.any(axis=0)
        fresh = unseen[reached]
        parent[fresh] = frontier[open_arcs[:, reached].argmax(axis=0)]
        found = fresh[wanted[fresh]]
        if len(found):
            paths = []
            for broker in found[np.argsort(load[found], kind="stable")].tolist():
                path = [broker]
                while parent[path[-1]] != path[-1]:
                    path.append(int(parent[path[-1]]))
                paths.append(path[::-1])
            return paths, parent >= 0
        frontier = fresh
    return [], parent >= 0
