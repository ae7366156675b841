"""Lay the new replicas of each single topic apart, once all brokers get as many as they should.

Two partitions of different topics swap what they were dealt: one whose topic has too much on the broker, and one whose
topic has room there. What brokers get in all stays as it was, both partitions stay spread over racks as well as they
were, and no topic is brought above what is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kafka_medic.plan.columns import Bools, Columns, Ints
from kafka_medic.plan.solver.sites import Sites, count_per_broker
from kafka_medic.plan.topic_bounds import excess
from kafka_medic.plan.topic_cells import Cells, cell_type, cells_of, members, within

__all__ = ["spread_replicas", "standing"]

SLACKS = (2, 1, 0)
"""How far above its bound a topic may be, from the first round to the last: what is worst is mended first."""
FEW = 1 << 17
"""Replicas up to which the last slack is tried: at random one of many topics is one above its bound."""
ROUNDS = 48
"""Rounds for each slack. Each tries one partner for each replica that is too much."""
SEARCHED = 20_000_000
"""Replicas that are candidates, all together, when each one that is left is compared with all it could swap with."""
FIRST_TRIED = 64
"""Candidates compared at once at first, and eight times as many each time that none of them fits."""


def spread_replicas(held: Ints, added: Ints, topic: Ints, stays: Cells, sites: Sites, least: Ints) -> Ints:
    """int32[n, M] the additions, rearranged.

    held: int32[n, H], added: int32[n, M] brokers of the changed partitions, -1 padded; topic: int[n]; stays: all
    replicas that stay, to which the additions are counted; least: int64[T] as `least_in_racks` has it.
    """
    swaps = _Swaps(held, added, topic, stays, sites)
    bound = swaps.lay(least)
    for slack in SLACKS if int(swaps.added.sum()) <= FEW else SLACKS[:-1]:
        open_items = swaps.in_rounds(swaps.too_much(bound + slack), bound + slack)
        swaps.search(open_items, bound + slack)
    return swaps.table[:, held.shape[1] :]


def standing(columns: Columns, sites: Sites) -> Cells:
    """How many replicas of each topic stand on each live broker."""
    size = np.bincount(columns.topic, minlength=len(columns.topics))
    cells = cells_of(columns.topic, columns.held, sites.stands >= 0, len(size))
    return Cells([cells], len(size), len(sites.rack), int(size.max(initial=0)))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """int[k] each: two replicas that may swap: their rows, columns of the table, topics and brokers."""

    row: Ints
    column: Ints
    topic: Ints
    broker: Ints

    def take(self, at: Ints | Bools) -> _Pairs:
        return _Pairs(self.row[at], self.column[at], self.topic[at], self.broker[at])


class _Swaps:
    """Who gets what, and what that comes to for each topic, while replicas swap."""

    def __init__(self, held: Ints, added: Ints, topic: Ints, stays: Cells, sites: Sites) -> None:
        self.table = np.concatenate([held, added], axis=1)
        self.fixed, self.free = held.shape[1], added.shape[1]
        self.sites, self.brokers, self.takes = sites, len(sites.rack), sites.rack >= 0
        self.kind = cell_type(stays.topics, self.brokers)
        self.topic = topic.astype(self.kind, copy=False)
        self.cells = stays
        self.added = (added >= 0).sum(axis=1)
        self.complete = bool((self.added == self.free).all())
        """Whether every partition gets as many."""

    def lay(self, least: Ints) -> Ints:
        """Count the additions, besides what stays; int64[T] what every topic may have on a broker, so that all of them
        can."""
        stays, partitions = self.cells, np.bincount(self.topic, minlength=len(least))
        replicas = np.bincount(self.topic, weights=self.added, minlength=len(least)).astype(np.int64)
        mean = -(-(replicas + stays.total(self.takes)) // max(int(self.takes.sum()), 1))
        own = np.maximum(np.maximum(stays.most(), least), mean)
        come = count_per_broker(self.table[:, self.fixed :], self.brokers)
        bound: Ints = own + excess(come, own, replicas, stays, self.takes, partitions)
        stays.extend(self._cells_now())
        return bound

    @cached_property
    def items(self) -> Ints:
        """Of all additions the numbers of row and slot."""
        flat = self.table[:, self.fixed :].ravel()
        return np.arange(len(flat)) if self.complete else np.flatnonzero(flat >= 0)

    @cached_property
    def by_rack(self) -> tuple[Ints, Ints, Ints]:
        """(all additions by the racks that they have at first, where those of each rack begin, how many they are)."""
        rack = _narrow(self.sites.rack)[self.table[:, self.fixed :].ravel()]
        rack = rack if self.complete else rack[self.items]
        length = np.bincount(rack, minlength=self.sites.racks)
        return self.items[np.argsort(rack, kind="stable")], np.cumsum(length) - length, length

    def _cells_now(self) -> Ints:
        """int[n]: the cell of each addition, in order of `items`."""
        here = self.table[:, self.fixed :]
        if self.complete:
            return np.asarray(self.topic[:, None] * self.brokers + here).ravel()
        return np.asarray(np.repeat(self.topic, self.added) * self.brokers + here[here >= 0]).astype(
            self.kind, copy=False
        )

    def too_much(self, allowed: Ints) -> Ints:
        """int64[k] additions that would have to leave for no topic to have more than allowed on a broker."""
        heavy = self.cells.above(allowed)
        if not len(heavy):
            return np.zeros(0, dtype=np.int64)
        own = self._cells_now()
        here = np.flatnonzero(members(own, heavy))
        limit = (self.cells.read(heavy) - allowed[heavy // self.brokers])[np.searchsorted(heavy, own[here])]
        return self.items[here[within(own[here], limit)]]

    def in_rounds(self, open_items: Ints, allowed: Ints) -> Ints:
        """Swap with partners chosen by arithmetic; what is still too much."""
        for turn in range(ROUNDS):
            if not len(open_items):
                break
            mine, theirs = self._pairs(open_items), self._pairs(self._partners(open_items, turn))
            may = np.flatnonzero(self._may_swap(mine, theirs, allowed))
            done = may[self._apart(mine.take(may), theirs.take(may), allowed)]
            self._swap(mine.take(done), theirs.take(done))
            open_items = np.delete(open_items, done)
        return open_items

    def search(self, open_items: Ints, allowed: Ints) -> None:
        """Swap each of these with a partner that fits, as far as SEARCHED goes."""
        work = 0
        for item in open_items.tolist():
            one = self._pairs(np.array([item]))
            if self.cells.read(self._cell(one.topic, one.broker))[0] <= allowed[one.topic[0]]:
                continue
            work += len(self.items)
            if work > SEARCHED:
                return
            others = self._able(one, allowed)
            size, done = FIRST_TRIED, 0
            while done < len(others):
                theirs = self._pairs(others[done : done + size])
                good = np.flatnonzero(self._may_swap(one.take(np.zeros(len(theirs.row), int)), theirs, allowed))
                if len(good):
                    self._swap(one, theirs.take(good[:1]))
                    break
                size, done = size * 8, done + size

    def _able(self, one: _Pairs, allowed: Ints) -> Ints:
        """int64[k] the additions on brokers that this one (a single one) could go to."""
        here, brokers = self.table[one.row[0]], np.arange(self.brokers)
        able = self.takes & (self.cells.read(self._cell(one.topic, brokers)) < allowed[one.topic])
        racks = np.bincount(self.sites.stands[here[here >= 0]] + 1, minlength=self.sites.racks + 1)[1:]
        of = self.sites.rack[one.broker[0]]
        able &= (self.sites.rack == of) | (racks[self.sites.rack] == racks[of] - 1)
        able[here[here >= 0]] = False
        flat = self.table[:, self.fixed :].ravel()
        return np.asarray(self.items[able[flat if self.complete else flat[self.items]]])

    def _cell(self, topic: Ints, broker: Ints) -> Ints:
        return np.asarray(topic.astype(self.kind) * self.brokers + broker).astype(self.kind, copy=False)

    def _pairs(self, items: Ints) -> _Pairs:
        row, slot = divmod(items, self.free)
        return _Pairs(row, self.fixed + slot, self.topic[row], self.table[row, self.fixed + slot].astype(np.int64))

    def _partners(self, items: Ints, turn: int) -> Ints:
        """One partner for each item, in each turn another: of its rack, then of all, and so on."""
        row, slot = divmod(items, self.free)
        of = self.sites.rack[self.table[row, self.fixed + slot]]
        order, starts, lengths = self.by_rack
        start, length = starts[of], lengths[of]
        if turn % 2:
            start, length = np.zeros_like(start), np.full_like(length, len(order))
        step = (turn * 2654435761 + (np.arange(len(items)) + items) * 2246822519) % np.maximum(length, 1)
        return np.asarray(order[start + step])

    def _may_swap(self, mine: _Pairs, theirs: _Pairs, allowed: Ints) -> Bools:
        rack = self.sites.rack
        may: Bools = (mine.topic != theirs.topic) & (mine.broker != theirs.broker)
        at = np.flatnonzero(may)
        mine, theirs = mine.take(at), theirs.take(at)
        here, there = self.table[mine.row], self.table[theirs.row]
        good = ~(here == theirs.broker[:, None]).any(axis=1) & ~(there == mine.broker[:, None]).any(axis=1)
        ours, other = rack[mine.broker], rack[theirs.broker]
        across = np.flatnonzero(good & (ours != other))
        if len(across):
            good[across] = self._as_well(here[across], ours[across], other[across])
            good[across] &= self._as_well(there[across], other[across], ours[across])
        for to, which in ((theirs.broker, mine), (mine.broker, theirs)):
            left = np.flatnonzero(good)
            good[left] = self.cells.read(self._cell(which.topic[left], to[left])) < allowed[which.topic[left]]
        may[at] = good
        return may

    def _as_well(self, held: Ints, of: Ints, to: Ints) -> Bools:
        """bool[k]: whether rows (int32[k, F]) stay spread as well when one replica leaves rack `of` for rack `to`."""
        racks = np.where(held >= 0, self.sites.stands[held], -1)
        return np.asarray((racks == to[:, None]).sum(axis=1) == (racks == of[:, None]).sum(axis=1) - 1)

    def _apart(self, mine: _Pairs, theirs: _Pairs, allowed: Ints) -> Ints:
        """int64[k] of these pairs those that may swap at once: each row once, and no cell past what is allowed."""
        number = np.arange(len(mine.row))
        both = np.concatenate([mine.row, theirs.row])
        _, first = np.unique(both, return_index=True)
        alone = np.zeros(len(both), dtype=bool)
        alone[first] = True
        kept = number[alone[: len(number)] & alone[len(number) :]]
        into = np.concatenate(
            [self._cell(mine.topic[kept], theirs.broker[kept]), self._cell(theirs.topic[kept], mine.broker[kept])]
        )
        room = allowed[into // self.brokers] - self.cells.read(into)
        fits = within(into, room)
        return kept[fits[: len(kept)] & fits[len(kept) :]]

    def _swap(self, mine: _Pairs, theirs: _Pairs) -> None:
        self.table[mine.row, mine.column], self.table[theirs.row, theirs.column] = theirs.broker, mine.broker
        for which, to in ((mine, theirs), (theirs, mine)):
            self.cells.add(self._cell(which.topic, which.broker), -1)
            self.cells.add(self._cell(which.topic, to.broker), 1)


def _narrow(numbers: Ints) -> Ints:
    """16 bits where they suffice: numpy sorts those by radix, in linear time."""
    return numbers.astype(np.int16) if int(numbers.max(initial=0)) < 1 << 15 else numbers
