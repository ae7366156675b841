"""The verifier's rules for plans that move replicas instead of adding them; like `verify`, no planner's code."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from kafka_medic.plan.arrow import integers
from kafka_medic.plan.lists import Array, Lists, member
from kafka_medic.plan.model import Plan, Summary
from kafka_medic.plan.relocation import Leave, LowerImbalance, Relocation
from kafka_medic.plan.verify.rules import Check, judge
from kafka_medic.plan.wave_limits import WaveLimits

__all__ = ["verify_moves"]


def verify_moves(relocation: Relocation, plan: Plan, limits: WaveLimits | None = None) -> list[str]:
    """Every rule that the plan breaks, as sentences; empty if it breaks none."""
    return judge(lambda table: _MovesCheck(relocation, table), plan, limits)


class _MovesCheck(Check):
    def __init__(self, relocation: Relocation, table: pa.Table) -> None:
        super().__init__(relocation, table)
        self.question = relocation.question
        dead = ~np.isin(self.before.values, self.live)
        self.stuck = np.bincount(self.before.row[dead], minlength=len(self.before.length)) > 0
        """bool[N]: partitions with a replica on a broker that takes none."""

    def least_of_topics(self, planned: Array) -> Array:
        if isinstance(self.question, LowerImbalance):  # partitions stay as well spread as they are, not at best
            return np.zeros(len(self.wanted), dtype=np.int64)
        return super().least_of_topics(planned)

    def touching(self) -> list[str]:
        if not isinstance(self.question, Leave):
            return self._broken("has a replica on a broker that is not alive and is touched", self.stuck[self.place])
        there = np.zeros(len(self.before.length), dtype=bool)
        there[self.before.row[self.before.values == self.question.broker]] = True
        problems = self._broken("is not on the broker and is touched", ~there[self.place])
        left = int((there & ~self.touched).sum())
        return [*problems, f"{left} partitions stay on broker {self.question.broker}"] if left else problems

    def keeping(self) -> list[str]:
        problems = self._broken("gets another number of replicas", self.after.length != self.claimed.length)
        if problems:
            return problems
        stays = member(self.claimed, self.after)
        kept = np.bincount(self.claimed.row[stays], minlength=len(self.claimed.length))
        self.staying = Lists(self.claimed.values[stays], kept)
        problems = self._broken("moves nothing", self.staying.length == self.claimed.length)
        if isinstance(self.question, Leave):
            wrong = ~stays & (self.claimed.values != self.question.broker)
            return problems + self._broken_items("leaves a broker that it should stay on", self.claimed, wrong)
        return problems + self._spread_over_racks()

    def _spread_over_racks(self) -> list[str]:
        rack = {b: number for number, b in enumerate(sorted(set(self.rack_of.values())))}
        size = [0] * len(rack)
        for name, count in Counter(self.rack_of.values()).items():
            size[rack[name]] = count
        after = self._profiles(self.after, rack)
        if isinstance(self.question, LowerImbalance):
            before = self._profiles(self.claimed, rack)
            return self._broken("is spread over fewer racks than before", _pairs(after) > _pairs(before))
        needed, pairs = self._needed(rack, size)
        moved = self.claimed.length - self.staying.length
        problems = self._broken("is not spread as well as it could be", _pairs(after) > pairs[self.place])
        problems += self._broken("moves more than it takes", moved != needed[self.place])
        left = int(((needed > 0) & ~self.touched).sum())
        return [*problems, f"{left} partitions that share a rack are not planned"] if left else problems

    def _profiles(self, lists: Lists, rack: dict[str, int]) -> Array:
        """int64[N, R]: replicas on live brokers of each rack."""
        number = np.array([rack[self.rack_of[b]] for b in self.live.tolist()], dtype=np.int64)
        profile = np.zeros((len(lists.length), len(rack)), dtype=np.int64)
        place = self._on(lists.values)
        live = place < len(self.live)
        np.add.at(profile, (lists.row[live], number[place[live]]), 1)
        return profile

    def _needed(self, rack: dict[str, int], size: list[int]) -> tuple[Array, Array]:
        """(moves each partition needs to be spread at best, pairs of replicas in one rack it then has)."""
        profile = self._profiles(self.before, rack)
        kinds, of = np.unique(profile, axis=0, return_inverse=True)
        found = np.array([_even_out(kind, size) for kind in kinds.tolist()], dtype=np.int64).reshape(-1, 2)[of.ravel()]
        return np.where(self.stuck, 0, found[:, 0]), found[:, 1]

    def senders(self) -> Array:
        """Its leader, or its first replica, of those that can send: a broker that is gone cannot, even if it is the
        leader in the table."""
        able = set(self.live.tolist())
        if isinstance(self.question, Leave) and not self.question.gone:
            able.add(self.question.broker)
        can = np.isin(self.claimed.values, list(able))
        sender = np.full(len(self.claimed.length), -1, dtype=np.int64)
        places = np.flatnonzero(can)[::-1]
        sender[self.claimed.row[places]] = self.claimed.values[places]
        if "leader" not in self.raw.column_names:
            return sender
        leader = integers(self.raw.column("leader"))[self.place]
        return np.where(np.isin(leader, list(able)), leader, sender)

    def least_moves(self) -> int:
        if not isinstance(self.question, LowerImbalance):
            return int((self.claimed.length - self.staying.length).sum())
        was = self._tally(self.before_on)
        now = self._tally(self.given()) + self._tally(self.after_on[self.new()])
        return int(np.maximum(was - now, 0).sum())

    def cost(self, summary: Summary) -> list[str]:
        if not isinstance(self.question, LowerImbalance):
            return super().cost(summary)
        if summary.moves > self.question.moves:
            return [f"{summary.moves} moves where {self.question.moves} are allowed"]
        return []

    def fixed(self, given: Array) -> Array:
        # Where everything may move, everything is divided by weight.
        return np.zeros_like(given) if isinstance(self.question, LowerImbalance) else given


def _pairs(profile: Array) -> Array:
    return np.asarray((profile * (profile - 1) // 2).sum(axis=1))


def _even_out(count: list[int], size: list[int]) -> tuple[int, int]:
    """(moves from the fullest rack to the emptiest with room until none helps, pairs in one rack that are left)."""
    moves = 0
    while True:
        fullest = max(range(len(count)), key=lambda rack: count[rack])
        free = [rack for rack in range(len(count)) if count[rack] < size[rack]]
        emptiest = min(free, key=lambda rack: count[rack], default=fullest)
        if count[fullest] - count[emptiest] < 2:
            return moves, sum(n * (n - 1) // 2 for n in count)
        count[fullest] -= 1
        count[emptiest] += 1
        moves += 1
