"""Lay the preferred leaders of each single topic apart, once all brokers lead as many as they should.

First two partitions trade places: one that is led where its topic leads too much gives its leadership to another of its
replicas, and one of another topic that is led there gives its own back; as many at once as fit. What is left goes along
augmenting paths of the flow partition -> (topic, broker) -> broker, in which a topic has no more on a broker than what
is allowed. What brokers lead in all stays as it was, and no topic is brought above what is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.leaders.topic_paths import Paths
from kafka_medic.plan.topic_bounds import excess, leading_excess
from kafka_medic.plan.topic_cells import Cells, cell_type, cells_of, members, within

__all__ = ["spread_leaders"]

SLACKS = (2, 1, 0)
"""How far above its bound a topic may be, from the first trades to the last: what is worst is mended first."""
FEW = 1 << 17
"""Partitions up to which the last slack is tried: at random one of many topics is one above its bound."""
MANY = 256
"""Of so many partitions one that is led where its topic leads too much, after all trades, is a sign that it has to."""
PASSES, ROUNDS = 6, 24
"""A pass lists anew who could trade; in its rounds a partition trades once at most."""


def spread_leaders(
    replicas: Ints, lead: Ints, topic: Ints, untouched: tuple[Ints, Ints], live: Bools, elsewhere: Bools | None = None
) -> Ints:
    """int32[n] the column of the replica that should lead, after trades.

    replicas: int32[n, F] broker indexes, -1 padded; lead: int32[n] the columns chosen for even brokers; topic: int[n];
    untouched: int[k] topics and int[k] leaders of the partitions outside the plan; live: bool[B]; elsewhere: bool[T]
    topics that have partitions in other blocks too, where one more is allowed them as well: here none is.
    """
    trades = _Trades(replicas, lead, topic, untouched, live)
    bound = trades.lay()
    if elsewhere is not None:
        bound = np.where(elsewhere[: len(bound)], bound - 1, bound)
    slacks = SLACKS if len(replicas) <= FEW else SLACKS[:-1]
    if trades.bring_down(bound, slacks[:1], patient=False):
        trades.bring_down(bound, slacks[1:], patient=True)
    else:
        trades.bring_down(bound + trades.excess(bound), slacks, patient=True)
    return trades.columns(lead)


@dataclass(frozen=True, eq=False)
class _Offers:
    """int[K] each: the partition of row is led by `of` and could be led by `to`, its replica in another column."""

    row: Ints
    of: Ints
    to: Ints

    def take(self, at: Ints | Bools) -> _Offers:
        return _Offers(self.row[at], self.of[at], self.to[at])


class _Trades:
    """Who leads what, and what that comes to for each topic, while leaderships change hands."""

    def __init__(self, replicas: Ints, lead: Ints, topic: Ints, untouched: tuple[Ints, Ints], live: Bools) -> None:
        self.replicas, self.live, self.brokers = replicas, live, len(live)
        topics = int(max(topic.max(initial=-1), untouched[0].max(initial=-1))) + 1
        self.kind = cell_type(topics, self.brokers)
        self.topic, self.topics = topic.astype(self.kind), topics
        self.leader = replicas[np.arange(len(replicas)), lead].astype(np.int64)
        self.given = cells_of(*untouched, live, topics)
        self.size = np.bincount(topic, minlength=topics) + np.bincount(untouched[0], minlength=topics)
        self.cells = Cells([self.given], topics, self.brokers, int(self.size.max(initial=0)))

    def bring_down(self, bound: Ints, slacks: tuple[int, ...], *, patient: bool) -> bool:
        """Bring every topic down to the last of these above its bound (int64[T]), as far as a way is found; whether it
        was. Without patience paths are not tried where many would be needed."""
        for slack in slacks:
            allowed = bound + slack
            heavy = self.cells.above(allowed)
            for _ in range(PASSES):
                if not len(heavy) or not self.trade(heavy, allowed):
                    break
                heavy = heavy[self.cells.read(heavy) > allowed[heavy // self.brokers]]
            if not len(heavy):
                continue
            too_much = int((self.cells.read(heavy) - allowed[heavy // self.brokers]).sum())
            if not patient and too_much > len(self.leader) // MANY:
                return False
            if not Paths(self.replicas, self.leader, self.topic, self.cells, allowed, self.live).relieve(heavy):
                return False
        return True

    def lay(self) -> Ints:
        """Count the leaders, besides those of other partitions; int64[T] what every topic may lead on a broker, so that
        all of them can."""
        given, changed = self.cells, np.bincount(self.topic, minlength=self.topics)
        own = np.maximum(given.most(), -(-(changed + given.total()) // max(int(self.live.sum()), 1)))
        come = np.bincount(self.leader, minlength=self.brokers)
        come[~self.live] = 0
        bound: Ints = own + excess(come, own, changed, given, self.live)
        given.extend(cells_of(self.topic, self.leader, self.live, self.topics))
        return bound

    def excess(self, bound: Ints) -> int:
        """How far above these bounds some topic is, as brokers lead what they have replicas of."""
        # Replicas of the partitions that change, and what is led by others, as if a broker could lead either.
        able = cells_of(self.topic, self.replicas, self.live, self.topics)
        return leading_excess(
            self.cells.on_brokers(), bound, Cells([self.given, able], self.topics, self.brokers, int(self.size.max()))
        )

    def trade(self, heavy: Ints, allowed: Ints) -> int:
        """Trade in rounds until none is found; how many trades. heavy: ascending."""
        rows = np.flatnonzero(members(self._cell(self.topic, self.leader), heavy))
        wanting = self._offers(rows)
        # Who is led by the one and has a replica on the other, for one that wants it the other way round.
        wanted = np.zeros(self.brokers * self.brokers, dtype=bool)
        wanted[wanting.to * self.brokers + wanting.of] = True
        willing = self._offers(np.arange(len(self.replicas)), wanted)
        done = 0
        traded = np.zeros(len(self.replicas), dtype=bool)
        for turn in range(ROUNDS):
            wanting, willing = wanting.take(~traded[wanting.row]), willing.take(~traded[willing.row])
            wanting = wanting.take(self._count(wanting.row, wanting.of) > allowed[self.topic[wanting.row]])
            one = wanting.take(self._has_room(wanting, allowed))
            two = willing.take(self._has_room(willing, allowed))
            found = self._round(one, two, turn, allowed)
            if not len(found):
                break
            traded[found] = True
            done += len(found) // 2
        return done

    def _round(self, wanting: _Offers, willing: _Offers, turn: int, allowed: Ints) -> Ints:
        """Trade once; the rows that did."""
        ways = wanting.of * self.brokers + wanting.to, willing.to * self.brokers + willing.of
        by_way = [np.argsort(way, kind="stable") for way in ways]
        wanting, willing = wanting.take(by_way[0]), willing.take(by_way[1])
        a, b = _matched(ways[0][by_way[0]], ways[1][by_way[1]], turn)
        other = self.topic[wanting.row[a]] != self.topic[willing.row[b]]
        one, two = wanting.take(a[other]), willing.take(b[other])
        alone = _once(np.concatenate([one.row, two.row]))
        one, two = one.take(alone), two.take(alone)
        leaving = self._cell(self.topic[one.row], one.of)
        fits = within(leaving, self.cells.read(leaving) - allowed[self.topic[one.row]])
        one, two = one.take(fits), two.take(fits)
        into = np.concatenate([self._cell(self.topic[side.row], side.to) for side in (one, two)])
        fits = within(into, allowed[into // self.brokers] - self.cells.read(into))
        both = fits[: len(one.row)] & fits[len(one.row) :]
        for side in (one.take(both), two.take(both)):
            self.cells.add(self._cell(self.topic[side.row], side.of), -1)
            self.cells.add(self._cell(self.topic[side.row], side.to), 1)
            self.leader[side.row] = side.to
        return np.concatenate([one.row[both], two.row[both]])

    def columns(self, lead: Ints) -> Ints:
        """int32[n] the columns of the leaders; `lead` itself where none has changed."""
        moved = np.flatnonzero(self.replicas[np.arange(len(lead)), lead] != self.leader)
        if not len(moved):
            return lead
        column = lead.copy()
        column[moved] = (self.replicas[moved] == self.leader[moved, None]).argmax(axis=1)
        return column

    def _offers(self, rows: Ints, ways: Bools | None = None) -> _Offers:
        """All of these rows, to live brokers; ways: bool[B * B] only those whose of * B + to is marked."""
        found = []
        of = self.leader[rows]
        for replica in self.replicas.T:
            to = replica[rows].astype(np.int64)
            able = (to >= 0) & (to != of) & self.live[to]
            if ways is not None:
                able &= ways[of * self.brokers + to]
            at = np.flatnonzero(able)
            found.append(_Offers(rows[at], of[at], to[at]))
        return _Offers(*(np.concatenate([getattr(part, name) for part in found]) for name in ("row", "of", "to")))

    def _has_room(self, offers: _Offers, allowed: Ints) -> Bools:
        return np.asarray(self._count(offers.row, offers.to) < allowed[self.topic[offers.row]])

    def _count(self, rows: Ints, broker: Ints) -> Ints:
        return self.cells.read(self._cell(self.topic[rows], broker))

    def _cell(self, topic: Ints, broker: Ints) -> Ints:
        return np.asarray(topic * self.brokers + broker).astype(self.kind, copy=False)


def _matched(wants: Ints, gives: Ints, turn: int) -> tuple[Ints, Ints]:
    """Places in both (int64, ascending) of those that are alike, each once; in each turn others of those that are."""
    first, last = (np.searchsorted(gives, wants, side=side) for side in ("left", "right"))
    rank = np.arange(len(wants)) - np.searchsorted(wants, wants)
    found = np.flatnonzero(rank < last - first)
    return found, first[found] + (rank[found] + turn) % (last - first)[found]


def _once(rows: Ints) -> Bools:
    """bool[k] of int64[2 * k] rows, k of each side: pairs whose rows no pair before them has."""
    order = np.argsort(rows, kind="stable")
    first = np.empty(len(rows), dtype=bool)
    ordered = rows[order]
    first[order] = np.append(True, ordered[1:] != ordered[:-1])[: len(rows)]
    half = len(rows) // 2
    return np.asarray(first[:half] & first[half:])
