"""The verifier's rules for plans that move replicas instead of adding them; like `verify`, no planner's code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from kafka_medic.plan.allowed import LeftOut
from kafka_medic.plan.arrow import integers, is_valid
from kafka_medic.plan.broker import Broker
from kafka_medic.plan.lists import Array, Lists, flatten, member
from kafka_medic.plan.model import Plan, Spread, Summary
from kafka_medic.plan.relocation import Leave, LowerImbalance, Relieve, Relocation
from kafka_medic.plan.verify.rules import Check, judge
from kafka_medic.plan.wave_limits import WaveLimits
from kafka_medic.plan.weight import handicap

__all__ = ["MovesCheck", "less_even", "verify_moves"]


def verify_moves(relocation: Relocation, plan: Plan, limits: WaveLimits | None = None) -> list[str]:
    """Every rule that the plan breaks, as sentences; empty if it breaks none."""
    return judge(lambda table: MovesCheck(relocation, table), plan, limits)


def less_even(live: Sequence[Broker], before: Array, after: Array) -> list[str]:
    """Whether replicas per live broker (int64[L], twice) became less even."""
    was = before + handicap(live, np.zeros_like(before), int(before.sum())).extra
    now = was - before + after
    if not len(was) or (now.max() <= was.max() and now.min() >= was.min()):
        return []
    return [f"replicas per broker were {was.min()}..{was.max()} and become {now.min()}..{now.max()}"]


class MovesCheck(Check):
    """One check of a plan that moves replicas, as `Check`."""

    def __init__(self, relocation: Relocation, table: pa.Table) -> None:
        super().__init__(relocation, table)
        self.question = relocation.question
        left = self.question.brokers if isinstance(self.question, Leave) else ()
        self.leaving = np.array(left, dtype=np.int64)
        self.need = dict(self.question.bytes_to_free) if isinstance(self.question, Relieve) else {}
        self.relieved = np.array(sorted(self.need), dtype=np.int64)

    @cached_property
    def stuck(self) -> Array:
        dead = np.setdiff1d(np.setdiff1d(self.ids, self.live), self.leaving)
        return self._standing(dead)

    def least_of_topics(self, planned: Array) -> Array:
        if isinstance(self.question, LowerImbalance):  # partitions stay as well spread as they are, not at best
            return np.zeros(len(self.wanted), dtype=np.int64)
        return super().least_of_topics(planned)

    def left(self, preferred: Array) -> Array:
        return ~np.logical_or.reduceat(self.after.values == np.repeat(preferred, self.after.length), self.after.start)

    def touching(self) -> list[str]:
        if isinstance(self.question, Relieve):
            return self._touching_relieved()
        if not isinstance(self.question, Leave):
            return self._untouched(self.stuck, "")
        there = self._asked()
        problems = self._broken("is not on the broker and is touched", ~there[self.place])
        lost = self._lost(there) if self.question.gone else np.zeros_like(there)
        problems += self._broken("is lost and is touched", lost[self.place])
        due = there & ~self.excluded & ~lost
        problems += self._untouched(due, f"partitions stay on broker {', '.join(map(str, self.leaving))}")
        self.left_out[LeftOut.EXCLUDED_TOPIC] = int((there & self.excluded).sum())
        self.left_out[LeftOut.LOST] = int((lost & ~self.excluded).sum())
        if self.left_out[LeftOut.LOST] and not self.question.skip_lost:
            problems.append(f"{self.left_out[LeftOut.LOST]} partitions are lost, and that was not accepted")
        return problems

    def _asked(self) -> Array:
        """bool[N]: partitions that have to leave."""
        there = self._standing(self.leaving)
        if not isinstance(self.question, Leave) or self.question.only is None:
            return there
        topics, numbers = zip(*sorted(self.question.only), strict=True) if self.question.only else ((), ())
        only = pa.table({"topic": pa.array(topics, pa.string()), "partition": pa.array(numbers, pa.int32())})
        return np.asarray(there & np.isin(self._keys(self.raw), self._keys(only)))

    def _touching_relieved(self) -> list[str]:
        there, unknown = self._standing(self.relieved), self._sizes() < 0
        problems = self._broken("is not on a broker that is relieved and is touched", ~there[self.place])
        problems += self._untouched(np.zeros_like(there), "")
        problems += self._broken("has no known size and is touched", unknown[self.place])
        problems += self._broken("is not known to be in sync everywhere and is touched", ~self._in_sync()[self.place])
        asked = there & ~self.excluded
        self.left_out[LeftOut.DEAD_REPLICA] = int((asked & self.stuck).sum())
        self.left_out[LeftOut.UNKNOWN_SIZE] = int((asked & ~self.stuck & unknown).sum())
        return problems

    def _in_sync(self) -> Array:
        """bool[N]: partitions of which every replica is known to be in the ISR."""
        if "isr" not in self.raw.column_names or pa.types.is_null(self.raw.column("isr").type):
            return np.zeros(self.raw.num_rows, dtype=bool)
        isr = flatten(self.raw.column("isr"))
        length = np.maximum(isr.length, 0)
        top = max(int(self.ids.max(initial=0)), int(isr.values.max(initial=0))) + 1
        in_sync = np.repeat(np.arange(len(length)), length) * top + isr.values
        held = self.before.row.astype(np.int64) * top + self.before.values
        out = np.zeros(len(length), dtype=bool)
        out[self.before.row[~np.isin(held, in_sync)]] = True
        return ~out

    def _held_back(self) -> Array:
        """bool[V]: of the replicas before, those that have to stay on a broker that others may leave."""
        assert isinstance(self.question, Relieve)
        back = np.zeros(len(self.claimed.values), dtype=bool)
        names = list(zip(self.table["topic"].to_pylist(), self.table["partition"].to_pylist(), strict=True))
        for broker, only in self.question.only:
            here = np.flatnonzero(self.claimed.values == broker)
            back[here] = [names[row] not in only for row in self.claimed.row[here].tolist()]
        return back

    def _enough_leaves(self, gone: Array) -> list[str]:
        """Whether each broker loses the bytes that it has to, and none that it need not. gone: bool[V], which of the
        replicas before leave."""
        problems, size = [], self.claimed.each(self._sizes()[self.place])
        assert isinstance(self.question, Relieve)
        own = dict(self.question.sizes)
        names = (
            list(zip(self.table["topic"].to_pylist(), self.table["partition"].to_pylist(), strict=True)) if own else []
        )
        for broker, need in sorted(self.need.items()):
            here = gone & (self.claimed.values == broker)
            left = size[here].tolist()
            if broker in own:
                left = [own[broker].get(names[row], 0) for row in self.claimed.row[here].tolist()]
            if sum(left) < need:
                problems.append(f"replicas of {sum(left)} bytes leave broker {broker}, where {need} have to")
            elif sum(left) - min(left) >= need and not self.later:
                problems.append(f"replicas of {sum(left)} bytes leave broker {broker}, one more than {need} bytes take")
        return problems

    def _lost(self, there: Array) -> Array:
        """bool[N]: those of these partitions that have no replica, or none in sync, on a broker that stays."""
        others = np.zeros(len(there), dtype=bool)
        others[self.before.row[~np.isin(self.before.values, self.leaving)]] = True
        lost = there & ~others
        if "isr" not in self.raw.column_names or pa.types.is_null(self.raw.column("isr").type):
            return lost
        isr = self.raw.column("isr")
        known = is_valid(isr) & there
        lists = flatten(isr.filter(pa.array(known)))
        outside = np.bincount(lists.row[~np.isin(lists.values, self.leaving)], minlength=len(lists.length))
        none_left = np.zeros(len(known), dtype=bool)
        none_left[known] = outside == 0
        return np.asarray(lost | none_left)

    def keeping(self) -> list[str]:
        problems = self._broken("gets another number of replicas", self.after.length != self.claimed.length)
        if problems:
            return problems
        stays = member(self.claimed, self.after)
        kept = np.bincount(self.claimed.row[stays], minlength=len(self.claimed.length))
        self.staying = Lists(self.claimed.values[stays], kept)
        problems = self._broken("moves nothing", self.staying.length == self.claimed.length)
        gives_none = np.array(sorted(self.allowed.exclude_brokers), dtype=np.int64)
        wrong = ~stays & np.isin(self.claimed.values, gives_none)
        problems += self._broken_items("leaves a broker that is excluded", self.claimed, wrong)
        if isinstance(self.question, Leave):
            wrong = ~stays & ~np.isin(self.claimed.values, self.leaving)
            return problems + self._broken_items("leaves a broker that it should stay on", self.claimed, wrong)
        if isinstance(self.question, Relieve):
            wrong = ~stays & ~np.isin(self.claimed.values, self.relieved)
            problems += self._broken_items("leaves a broker that it should stay on", self.claimed, wrong)
            problems += self._broken_items("may not leave its broker", self.claimed, ~stays & self._held_back())
            problems += self._enough_leaves(~stays)
        return problems + self._spread_over_racks()

    def _spread_over_racks(self) -> list[str]:
        rack = {b: number for number, b in enumerate(sorted(set(self.rack_of.values())))}
        after = self._profiles(self.after, rack)
        if isinstance(self.question, LowerImbalance | Relieve):
            before = self._profiles(self.claimed, rack)
            return self._broken("is spread over fewer racks than before", _pairs(after) > _pairs(before))
        needed, pairs = self._needed(rack)
        moved = self.claimed.length - self.staying.length
        problems = self._broken("is not spread as well as it could be", _pairs(after) > pairs[self.place])
        problems += self._broken("moves more than it takes", moved != needed[self.place])
        left = (needed > 0) & ~self.touched
        if self.allowed.by_bytes:
            self.left_out[LeftOut.UNKNOWN_SIZE] = int((left & (self._sizes() < 0)).sum())
            left &= self._sizes() >= 0
        count = int(left.sum())
        self.left_out[LeftOut.OVER_LIMIT] = count
        if not count or self.allowed.limited:
            return problems
        return [*problems, f"{count} partitions that share a rack are not planned"]

    def _profiles(self, lists: Lists, rack: dict[str, int], among: Array | None = None) -> Array:
        """int64[N, R]: replicas on live brokers of each rack. among: only on these."""
        number = np.array([rack[self.rack_of[b]] for b in self.live.tolist()], dtype=np.int64)
        profile = np.zeros((len(lists.length), len(rack)), dtype=np.int64)
        place = self._on(lists.values)
        live = place < len(self.live)
        if among is not None:
            live &= np.isin(lists.values, among)
        np.add.at(profile, (lists.row[live], number[place[live]]), 1)
        return profile

    def _needed(self, rack: dict[str, int]) -> tuple[Array, Array]:
        """(moves each partition needs to be spread at best, pairs of replicas in one rack it then has)."""
        taking = Counter(rack[self.rack_of[b]] for b in np.setdiff1d(self.live, self.closed).tolist())
        free = np.array([taking[number] for number in range(len(rack))], dtype=np.int64)
        excluded = np.array(sorted(self.allowed.exclude_brokers), dtype=np.int64)
        # Each partition has its racks, what of them it may not leave, and the brokers there that it may stand on.
        profile = np.stack(
            [
                self._profiles(self.before, rack),
                self._profiles(self.before, rack, excluded),
                free + self._profiles(self.before, rack, self.closed),
            ],
            axis=1,
        )
        kinds, of = np.unique(profile, axis=0, return_inverse=True)
        found = np.array([_even_out(*kind) for kind in kinds.tolist()], dtype=np.int64).reshape(-1, 2)[of.ravel()]
        return np.where(self.stuck | self.excluded, 0, found[:, 0]), found[:, 1]

    def senders(self) -> Array:
        """Its leader, or its first replica, of those that can send: a broker that is gone cannot, even if it is the
        leader in the table."""
        able = set(self.live.tolist())
        if isinstance(self.question, Leave) and not self.question.gone:
            able.update(self.question.brokers)
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
        lacks = self.question.by_bytes and summary.bytes_per_broker is None
        return [*(["the summary has no bytesPerBroker"] if lacks else []), *self.owed()]

    def owed(self) -> list[str]:
        if isinstance(self.question, Leave):
            return super().owed()
        if not isinstance(self.question, LowerImbalance):
            return []  # each row was held to its racks
        moves, problems = int(self.come().sum()), []
        if moves > self.question.moves:
            problems.append(f"{moves} moves where {self.question.moves} are allowed")
        return [*problems, *self._no_less_even(), *(self._no_fuller() if self.question.by_bytes else [])]

    def _no_fuller(self) -> list[str]:
        """Of a plan for bytes: the fullest broker is not fuller than before."""
        live = [broker for broker in self.brokers if broker.alive]
        was = self._tally(self.before_on, np.maximum(self._sizes(), 0)[self.before.row])
        held, come = self._bytes_after()
        extra = handicap(live, np.zeros_like(was), int(was.sum())).extra
        before, after = int((was + extra).max(initial=0)), int((held + come + extra).max(initial=0))
        return [f"the fullest broker held {before} bytes and becomes {after}"] if after > before else []

    def _no_less_even(self) -> list[str]:
        """Numbers of replicas are at least as even as before."""
        live = [broker for broker in self.brokers if broker.alive]
        after = self._tally(self.given()) + self._tally(self.after_on[self.new()])
        return less_even(live, self._tally(self.before_on), after)

    def _bytes(self, spread: Spread) -> list[str]:
        held, come = self._bytes_after()
        return self._compare("bytesPerBroker", spread, held + come, self.fixed(held))

    def _bytes_after(self) -> tuple[Array, Array]:
        """int64[L], twice: the bytes that stay on each live broker, and those that come to it."""
        size, rest = np.maximum(self._sizes(), 0), ~self.touched[self.before.row]
        held = self._tally(self.before_on[rest], size[self.before.row[rest]])
        held = held + self._tally(self.staying_on, size[self.place][self.staying.row])
        new = self.new()
        return held, self._tally(self.after_on[new], size[self.place][self.after.row[new]])

    def fixed(self, given: Array) -> Array:
        # Where everything may move, everything is divided by weight.
        return np.zeros_like(given) if isinstance(self.question, LowerImbalance) else given


def _pairs(profile: Array) -> Array:
    return np.asarray((profile * (profile - 1) // 2).sum(axis=1))


def _even_out(count: list[int], pinned: list[int], size: list[int]) -> tuple[int, int]:
    """(moves from the fullest rack to the emptiest with room until none helps, pairs in one rack that are left)."""
    moves = 0
    while True:
        leave = [rack for rack in range(len(count)) if count[rack] > pinned[rack]]
        fullest = max(leave, key=lambda rack: count[rack], default=-1)
        free = [rack for rack in range(len(count)) if count[rack] < size[rack]]
        emptiest = min(free, key=lambda rack: count[rack], default=fullest)
        if fullest < 0 or count[fullest] - count[emptiest] < 2:
            return moves, sum(n * (n - 1) // 2 for n in count)
        count[fullest] -= 1
        count[emptiest] += 1
        moves += 1
