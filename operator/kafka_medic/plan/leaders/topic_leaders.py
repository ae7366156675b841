"""Lay the preferred leaders of each single topic apart, once all brokers lead as many as they should.

Two partitions trade places: one that is led where its topic leads too much gives its leadership to another of its
replicas, and one of another topic that is led there gives its own back. Where no two fit, three do it in a ring. What
brokers lead in all stays as it was, and no topic is brought above what is allowed: one more than no plan could do
without.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.leaders.topic_rings import Ledger, trade_in_rings
from kafka_medic.plan.leaders.topic_spread import Loads, loads

__all__ = ["spread_leaders"]

ROUNDS = 40
"""A round trades one leadership of a topic and a broker at most, and stops earlier where nothing is left to trade."""


def spread_leaders(
    replicas: Ints, lead: Ints, topic: Ints, untouched: tuple[Ints, Ints], live: Bools, elsewhere: Bools | None = None
) -> Ints:
    """int32[n] the column of the replica that should lead, after trades.

    replicas: int32[n, F] broker indexes, -1 padded; lead: int32[n] the columns chosen for even brokers; topic: int[n];
    untouched: int[k] topics and int[k] leaders of the partitions outside the plan; live: bool[B]; elsewhere: bool[T]
    topics that have partitions in other blocks too, where one more is allowed them as well: here none is.
    """
    leader = replicas[np.arange(len(replicas)), lead]
    after, given = loads([(topic, leader), untouched], live), loads([untouched], live)
    topics = max(int(topic.max(initial=-1)), int(untouched[0].max(initial=-1))) + 1
    allowed = _allowed(after, given, topics, live)
    if elsewhere is not None:
        allowed -= elsewhere[:topics]
    heavy = after.count > allowed[after.topic]
    if not heavy.any():
        return lead
    known = after.topic.astype(np.int64) * len(live) + after.broker
    ledger = Ledger(topic, live, known, after.count, allowed)
    wanting = _offers(replicas, leader, _led_too_much(ledger, leader, heavy), live)
    # Who is led by the one and has a replica on the other, for one that wants it the other way round.
    wanted = _distinct(wanting.to * len(live) + wanting.of)
    willing = _offers(replicas, leader, np.arange(len(replicas)), live, wanted)
    trades = _Trades(ledger, wanting, willing)
    column = lead.copy()
    for turn in range(ROUNDS):
        if not trades.round(turn, column):
            break
    if len(left := trades.left()):
        trade_in_rings(replicas, lead, column, left, ledger)
    return column


def _allowed(after: Loads, given: Loads, topics: int, live: Bools) -> Ints:
    """int64[topics] leaders of each topic on one broker at most: one more than some broker has in every plan."""
    share = -(-after.total(topics) // max(int(live.sum()), 1))
    allowed: Ints = np.maximum(share, given.most(topics)) + 1
    return allowed


def _led_too_much(ledger: Ledger, leader: Ints, heavy: Bools) -> Ints:
    """int64[k] partitions that are led where their topic leads too much; heavy: bool[K] of the ledger's counts."""
    too_much = np.zeros(len(ledger.allowed), dtype=bool)
    too_much[ledger.known[heavy] // ledger.brokers] = True
    rows = np.flatnonzero(too_much[ledger.topic])
    return rows[np.isin(ledger.cell(rows, leader[rows]), ledger.known[heavy])]


@dataclass(frozen=True, eq=False)
class _Offers:
    """int[K] each: the partition of row could be led by `to`, its replica in `column`, and not by `of`."""

    row: Ints
    column: Ints
    of: Ints
    to: Ints

    def take(self, at: Ints | Bools) -> _Offers:
        return _Offers(self.row[at], self.column[at], self.of[at], self.to[at])


def _offers(replicas: Ints, leader: Ints, rows: Ints, live: Bools, pairs: Ints | None = None) -> _Offers:
    """All of these rows, to live brokers; pairs: only those whose of * B + to is among them (int64, ascending)."""
    found = []
    for column in range(replicas.shape[1]):
        to, of = replicas[rows, column].astype(np.int64), leader[rows].astype(np.int64)
        able = (to >= 0) & (to != of) & live[to]
        if pairs is not None:
            able &= np.isin(of * len(live) + to, pairs)
        at = np.flatnonzero(able)
        found.append(_Offers(rows[at], np.full(len(at), column, dtype=np.int32), of[at], to[at]))
    return _Offers(*(np.concatenate([getattr(part, name) for part in found]) for name in ("row", "column", "of", "to")))


@dataclass(frozen=True, eq=False)
class _Side:
    """Offers, and for each of them int64[K]: the place of its row, and of what its topic leads on both brokers, among
    those that occur; and the pair of brokers it fits."""

    offers: _Offers
    row: Ints
    of: Ints
    to: Ints
    pair: Ints

    def take(self, at: Ints | Bools) -> _Side:
        return _Side(self.offers.take(at), self.row[at], self.of[at], self.to[at], self.pair[at])


class _Trades:
    """Offers of both kinds, and what the topics they are of lead where."""

    def __init__(self, ledger: Ledger, wanting: _Offers, willing: _Offers) -> None:
        both = [
            (offers, [ledger.cell(offers.row, at) for at in (offers.of, offers.to)]) for offers in (wanting, willing)
        ]
        cells = _distinct(np.concatenate([cell for _, pair in both for cell in pair]))
        rows = _distinct(np.concatenate([wanting.row, willing.row]))
        place = np.searchsorted(ledger.known, cells).clip(max=len(ledger.known) - 1)
        self.count = np.where(ledger.known[place] == cells, ledger.count[place], 0)
        self.allowed = ledger.allowed[cells // ledger.brokers]
        self.topic = ledger.topic
        self.traded = np.zeros(len(rows), dtype=bool)
        pairs = wanting.to * ledger.brokers + wanting.of, willing.of * ledger.brokers + willing.to
        self.wanting, self.willing = (
            _Side(
                offers, np.searchsorted(rows, offers.row), np.searchsorted(cells, of), np.searchsorted(cells, to), pair
            ).take(np.argsort(pair, kind="stable"))
            for (offers, (of, to)), pair in zip(both, pairs, strict=True)
        )

    def left(self) -> Ints:
        """int64[k] the partitions that are still led where their topic leads too much."""
        heavy = (self.count > self.allowed)[self.wanting.of] & ~self.traded[self.wanting.row]
        return _distinct(self.wanting.offers.row[heavy])

    def round(self, turn: int, column: Ints) -> int:
        """Trade once more, into `column`; how many trades."""
        # What is too much never grows, and who has traded is out for good; what has room may have none a round later.
        self.wanting = self.wanting.take(~self.traded[self.wanting.row] & (self.count > self.allowed)[self.wanting.of])
        self.willing = self.willing.take(~self.traded[self.willing.row])
        below = self.count < self.allowed
        wanting, willing = (side.take(below[side.to]) for side in (self.wanting, self.willing))
        a, b = _matched(wanting.pair, willing.pair, turn)
        other = self.topic[wanting.offers.row[a]] != self.topic[willing.offers.row[b]]
        one, two = wanting.take(a[other]), willing.take(b[other])
        # Each cell and each partition once, so that every trade finds what it was judged by.
        alone = _first(np.stack([one.of, one.to, two.of, two.to]), len(self.count))
        alone &= _first(np.stack([one.row, two.row]), len(self.traded))
        for side in (one.take(alone), two.take(alone)):
            column[side.offers.row] = side.offers.column
            self.traded[side.row] = True
            self.count[side.of] -= 1
            self.count[side.to] += 1
        return int(alone.sum())


def _distinct(numbers: Ints) -> Ints:
    """Each of them once, ascending. numpy's own unique hashes, which is ten times slower with numbers like these."""
    ordered = np.sort(numbers)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]


def _matched(wants: Ints, gives: Ints, turn: int) -> tuple[Ints, Ints]:
    """Places in both (int64, ascending) of those that are alike, each once; in each turn others of those that are."""
    first, last = (np.searchsorted(gives, wants, side=side) for side in ("left", "right"))
    rank = np.arange(len(wants)) - np.searchsorted(wants, wants)
    found = np.flatnonzero(rank < last - first)
    return found, first[found] + (rank[found] + turn) % (last - first)[found]


def _first(things: Ints, length: int) -> Bools:
    """bool[k]: columns of int[m, k] that are the first to name each of their things."""
    names = np.arange(things.shape[1])
    first = np.full(length, things.shape[1])
    np.minimum.at(first, things.ravel(), np.tile(names, len(things)))
    alone: Bools = (first[things] == names).all(axis=0)
    return alone
