"""Bytes per broker are made even: replicas leave the fullest broker, alone or in exchange for smaller ones.

One broker at a time, from the fullest, gives to one of the emptiest. A replica moves alone only to a broker that holds
fewer replicas, so that brokers never hold less even numbers of them than before. Otherwise it is exchanged for a
smaller one. A step gains what it takes off the fuller of the two. Steps come first that leave the fuller one as full as
the other, or fuller. Of steps that gain nearly as much as the best one, the step with the fewest bytes is taken. No
partition is spread over fewer racks afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.relocation import Relocation
from kafka_medic.plan.solver.limits import Room
from kafka_medic.plan.solver.sites import Sites, count_per_broker, racks_of, sites_of

__all__ = ["bytes_evened"]

LEAST_GAIN = 0.01
"""Share of the mean: what a step has to take off the fuller of two brokers."""
WORTH = 8
"""A step copies at most so many times the bytes that it gains."""
TAKERS = 16
"""Brokers, the emptiest first, among which each step chooses, and as many of the giver's own rack."""
NEARLY = 0.9
"""Share of the best gain that a step with fewer bytes has to reach."""


@dataclass(frozen=True, slots=True)
class _Step:
    """`leaves` goes from the fullest broker to `taker`, and `comes` the other way, -1: nothing. Both are rows. gain,
    copied: bytes. over: the taker is then the fuller one."""

    taker: int
    leaves: int
    comes: int
    gain: int
    copied: int
    over: bool


@dataclass(eq=False)
class _Evening:
    """Where replicas are by now. table: int32[n, H] broker indexes; size: int64[n]. load, count: int64[B] bytes and
    replicas. came, bytes_came: int64[B] what was copied to each broker."""

    table: Ints
    size: Ints
    sites: Sites
    load: Ints
    count: Ints
    room: Room
    came: Ints = field(init=False)
    bytes_came: Ints = field(init=False)
    rows_on: list[Ints] = field(init=False)
    """Of each broker the rows with a replica there, by size, the smallest first."""

    def __post_init__(self) -> None:
        self.came, self.bytes_came = np.zeros_like(self.load), np.zeros_like(self.load)
        row, slot = np.nonzero(self.table >= 0)
        on = self.table[row, slot]
        order = np.lexsort((self.size[row], on))
        starts = np.searchsorted(on[order], np.arange(1, len(self.load)))
        self.rows_on = np.split(row[order], starts)

    def able(self, giver: int, taker: int) -> Ints:
        """Rows of `giver`, by size, of which `taker` may have the replica."""
        rows = self.rows_on[giver]
        limit = min(int(self.room.bytes[taker] - self.bytes_came[taker]), self.room.total - int(self.bytes_came.sum()))
        rows = rows[: np.searchsorted(self.size[rows], limit, side="right")]
        if self.came[taker] >= self.room.moves[taker]:
            return rows[:0]
        held = self.table[rows].T  # a pass for each of the few replicas costs less than one along each row
        racks, own, rack = racks_of(held, self.sites), int(self.sites.stands[giver]), int(self.sites.rack[taker])
        there: Bools = np.logical_or.reduce(held == taker)
        may = ~there
        if rack != own:
            may &= np.add.reduce(racks == rack, dtype=np.int64) < np.add.reduce(racks == own, dtype=np.int64)
        return rows[may]

    def best(self, giver: int, moves: int, least: int) -> _Step | None:
        """The step off this broker that gains most, or nearly as much with fewer bytes; None: none gains `least`."""
        low = np.flatnonzero((self.sites.rack >= 0) & (self.load < self.load[giver]))
        low = low[np.argsort(self.load[low], kind="stable")]
        beside = low[self.sites.rack[low] == self.sites.stands[giver]]
        takers = dict.fromkeys([*low[:TAKERS].tolist(), *beside[:TAKERS].tolist()])
        steps = [step for taker in takers for step in self._steps(giver, taker, moves) if step.gain >= least]
        steps = [step for step in steps if not step.over] or steps
        top = max((step.gain for step in steps), default=0)
        if not top:
            return None
        return min((s for s in steps if s.gain >= top * NEARLY), key=lambda s: (s.copied, -s.gain, s.taker))

    def _steps(self, giver: int, taker: int, moves: int) -> list[_Step]:
        """The best step with this taker, and the one with the fewest bytes that is nearly as good.

        The same of steps that leave the taker the fuller one."""
        gap = int(self.load[giver] - self.load[taker])
        leave = self.able(giver, taker)
        if gap < 2 or not len(leave):
            return []
        sizes = self.size[leave]
        come, back = np.full(1, -1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        if self.count[giver] <= self.count[taker]:
            come, back = come[:0], back[:0]
        if moves > 1 and self.sites.rack[giver] >= 0:
            rows = self.able(taker, giver)
            come, back = np.concatenate([come, rows]), np.concatenate([back, self.size[rows]])
        if not len(come):
            return []
        # Beside each that comes: the two whose size is next to what would bring both to one level.
        at = np.searchsorted(sizes, back + gap // 2)
        near = np.stack([(at - 1).clip(min=0), at.clip(max=len(sizes) - 1)])
        difference = sizes[near] - back
        gain = np.minimum(difference, gap - difference)
        copied = sizes[near] + back
        fits = (copied + int(self.bytes_came.sum()) <= self.room.total) & (copied <= gain * WORTH)
        over = difference * 2 > gap
        chosen = [at for side in (over, ~over) for at in _two(np.where(fits & side, gain, 0), copied)]
        return [
            _Step(taker, int(leave[near[at]]), int(come[at[1]]), int(gain[at]), int(copied[at]), bool(over[at]))
            for at in chosen
        ]

    def take(self, giver: int, step: _Step) -> None:
        self._move(step.leaves, giver, step.taker)
        if step.comes >= 0:
            self._move(step.comes, step.taker, giver)

    def _move(self, row: int, giver: int, taker: int) -> None:
        self.table[row, self.table[row] == giver] = taker
        size, rows = int(self.size[row]), self.rows_on[taker]
        self.rows_on[giver] = self.rows_on[giver][self.rows_on[giver] != row]
        self.rows_on[taker] = np.insert(rows, np.searchsorted(self.size[rows], size), row)
        for total, amount in ((self.load, size), (self.count, 1)):
            total[giver] -= amount
            total[taker] += amount
        self.came[taker] += 1
        self.bytes_came[taker] += size


def _two(gain: Ints, copied: Ints) -> Iterator[tuple[int, int]]:
    """Where the gain is best, and where fewest bytes are copied for nearly as much."""
    top = int(gain.max())
    if top > 0:
        nearly = np.where(gain >= top * NEARLY, copied, np.iinfo(np.int64).max)
        for flat in {int(gain.argmax()), int(nearly.argmin())}:
            side, place = divmod(flat, gain.shape[1])
            yield side, place


def bytes_evened(relocation: Relocation, load: Ints, count: Ints, moves: int, room: Room) -> Ints:
    """int32[N, H]: who holds what once at most `moves` replicas were moved. load, count: int64[B] bytes and replicas.
    A broker of small weight counts as holding more (`weight`). room: what may come."""
    columns, brokers = relocation.columns, relocation.brokers
    rows = np.flatnonzero(relocation.may_change() & (columns.size > 0))
    sites = sites_of(brokers, count_per_broker(columns.held, len(brokers)))
    now = _Evening(columns.held[rows], columns.size[rows], sites, load.copy(), count.copy(), room)
    excluded = np.array([b.id in relocation.allowed.exclude_brokers for b in brokers], dtype=bool)
    closed = (sites.stands < 0) | excluded
    least = max(int(load[~closed].mean() * LEAST_GAIN), 1) if not closed.all() else 1
    ended = closed.copy()
    while moves > 0 and not ended.all():
        giver = int(np.argmax(np.where(ended, np.iinfo(np.int64).min, now.load)))
        step = now.best(giver, moves, least)
        if step is None:
            ended[giver] = True
            continue
        now.take(giver, step)
        ended[step.taker] = closed[step.taker]
        moves -= 1 if step.comes < 0 else 2
    after = columns.held.copy()
    after[rows] = now.table
    return after
