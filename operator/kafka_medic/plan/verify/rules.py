"""A second opinion on every plan, from other code and another method than the one that made it.

The planner works on padded matrices, kinds and flows; this works on the raw tables as flat lists of
(row, broker) and reads each replica once, so an error in one is not repeated in the other. Linear in
replicas, apart from sorts by name and by topic. It imports nothing of `solver` and `leaders`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from kafka_medic.plan.allowed import Allowed, LeftOut
from kafka_medic.plan.arrow import Column, integers
from kafka_medic.plan.lists import Array, Lists, again, codes_among, distinct, flatten, member, place_among, repeats
from kafka_medic.plan.model import PLAN_SCHEMA, Plan, Spread, Summary
from kafka_medic.plan.problem import Broker, rack_names
from kafka_medic.plan.verify.racks import uneven
from kafka_medic.plan.verify.topics import Held, could_lead, could_take, counted, rack_floor, untrue
from kafka_medic.plan.wave_limits import WaveLimits
from kafka_medic.plan.weight import handicap

__all__ = ["PlanInput", "Check", "judge", "over_allowed", "shared_racks", "verify"]

EXAMPLES = 3
"""Examples named per violated rule; the count is always given."""


class PlanInput(Protocol):
    """What the verifier has to know of a problem: nothing that the planner made of it."""

    @property
    def partitions(self) -> pa.Table: ...

    @property
    def brokers(self) -> Sequence[Broker]: ...

    @property
    def allowed(self) -> Allowed: ...

    def wanted(self, topic: str) -> int | None: ...


def verify(problem: PlanInput, plan: Plan, limits: WaveLimits | None = None) -> list[str]:
    """Every rule that the plan breaks, as sentences; empty if it breaks none.

    limits: the bounds the waves were cut with (default: the planner's default).
    """
    return judge(lambda table: Check(problem, table), plan, limits)


def judge(checking: Callable[[pa.Table], Check], plan: Plan, limits: WaveLimits | None = None) -> list[str]:
    """The same with any rules."""
    table = plan.table.combine_chunks()
    if table.schema.names != PLAN_SCHEMA.names:
        return [f"the plan's columns are {table.schema.names}, not {PLAN_SCHEMA.names}"]
    if plan.table.num_rows != len(plan.sizes):
        return ["the plan has not one size per row"]
    check = checking(table)
    return (
        check.placement()
        or check.numbering()
        or [
            *check.waves(plan.sizes, check.senders(), limits or WaveLimits()),
            *check.disk_capacity(),
            *check.limits(),
            *check.summary(plan),
        ]
    )


def over_allowed(come: Array, arriving: Array, allowed: Allowed) -> list[str]:
    """What is above the limits that hold for every question; come, arriving: int64[B] replicas and bytes that come to
    each broker."""
    return [
        f"{name} {most}, more than {limit}"
        for name, most, limit in (
            ("moves", int(come.sum()), allowed.moves),
            ("bytes", int(arriving.sum()), allowed.bytes),
            ("moves to one broker", int(come.max(initial=0)), allowed.moves_per_broker),
            ("bytes to one broker", int(arriving.max(initial=0)), allowed.bytes_per_broker),
        )
        if limit is not None and most > limit
    ]


def shared_racks(bad: int, unavoidable: int) -> list[str]:
    """Partitions that share racks though they need not, of what `Check.rack_figures` counts."""
    if bad <= unavoidable:
        return []
    return [f"{bad} partitions are spread over fewer racks than they could be, {unavoidable} of them with no choice"]


class Check:
    """One check of a plan's table (combined chunks), or at a part of it, beside the partitions it is about."""

    def __init__(self, problem: PlanInput, table: pa.Table) -> None:
        self.raw = problem.partitions.combine_chunks()
        self.table = table
        self.claimed = flatten(table.column("replicasBefore"))
        self.staying = self.claimed
        """The replicas that each partition of the plan keeps."""
        self.after = flatten(table.column("replicas"))
        self.brokers = sorted(problem.brokers, key=lambda broker: broker.id)
        self.ids = np.array([broker.id for broker in self.brokers], dtype=np.int64)
        self.live = np.array([broker.id for broker in self.brokers if broker.alive], dtype=np.int64)
        named = bool(rack_names(problem.brokers))
        self.rack_of = {b.id: (b.rack or "") if named else str(b.id) for b in problem.brokers if b.alive}
        self.place = np.zeros(0, dtype=np.int64)
        """Row of the partition table for each row of the plan, once `placement` has found them; `due`: its factor."""
        self.due = self.place
        self.touched = np.zeros(self.raw.num_rows, dtype=bool)
        self.allowed = problem.allowed
        closed = self.allowed.exclude_brokers | self.allowed.only_give
        self.closed = np.array([b.id for b in self.brokers if not b.takes or b.id in closed], dtype=np.int64)
        self.left_out: dict[LeftOut, int] = {}
        """Partitions that should change and do not, once `placement` has counted them."""
        self.wish = problem.wanted
        self.later = False
        """Whether the plan is checked some time after it was made, when logs have grown."""

    @cached_property
    def before(self) -> Lists:
        return flatten(self.raw.column("replicas"))

    @cached_property
    def order(self) -> Lists:
        return flatten(self.table.column("preferredOrder"))

    @cached_property
    def after_on(self) -> Array:
        return self._on(self.after.values)

    @cached_property
    def before_on(self) -> Array:
        return self._on(self.before.values)

    @cached_property
    def staying_on(self) -> Array:
        """Once `placement` has claimed what stays."""
        return self._on(self.staying.values)

    @cached_property
    def stuck(self) -> Array:
        """bool[N]: partitions with a replica on a broker that is not alive, so that their reassignment never ends."""
        return self._standing(np.setdiff1d(self.ids, self.live))

    @cached_property
    def excluded(self) -> Array:
        """bool[N]: partitions of excluded topics."""
        stays = np.array([*(self.allowed.topic_stays(name) for name in self.wanted), False], dtype=bool)
        return np.asarray(stays[self._raw_codes])

    @cached_property
    def wanted(self) -> dict[str, int | None]:
        """The factor of each topic."""
        return {name: self.wish(name) for name in distinct(self.raw.column("topic"))}

    def _placed(self) -> list[str]:
        """Find the partitions that the plan is about."""
        raw_key, key = self._keys(self.raw), self._keys(self.table)
        if len(key) and not len(raw_key):
            return ["there are no partitions to plan"]
        sorter = np.argsort(raw_key, kind="stable")
        place = sorter[np.searchsorted(raw_key[sorter], key).clip(max=len(sorter) - 1)]
        problems = self._broken("is not among the partitions", raw_key[place] != key)
        if problems:
            return problems
        self.place = place
        self.touched[place] = True
        return self._broken("is planned twice", repeats(key))

    def reordering(self) -> list[str]:
        """Whether a file of preferred orders names the replicas that there are, a live one first."""
        problems = self._placed()
        if problems:
            return problems
        problems = self._broken("is of an excluded topic and is touched", self.excluded[self.place])
        same = np.ones(len(self.after.length), dtype=bool)
        same[self.after.row[self.after.values != self.claimed.values]] = False
        problems += self._broken("has that order already", same)
        strange = ~member(self.after, self.claimed) | again(self.after)
        problems += self._broken_items("names other replicas than there are", self.after, strange)
        dead = self.after_on[self.after.start] == len(self.live)
        return [*problems, *self._broken("is led by a broker that is not alive", dead), *self._closed_take()]

    def placement(self) -> list[str]:
        """What Kafka would be sent; no other rule is checked while this is wrong."""
        problems = self._placed()
        if len(self.place) != self.table.num_rows:
            return problems
        place = self.place
        problems += self.touching()
        kept = self.claimed.length == self.before.length[place]
        problems += self._broken("has other replicas before than the partition table says", ~kept)
        if problems:
            return problems
        held = self.before.values[self.claimed.each(self.before.start[place]) + self.claimed.position]
        problems += self._broken_items("names other replicas before", self.claimed, held != self.claimed.values)
        problems += self.keeping()
        if problems:
            return problems
        prefix = self.after.values[self.staying.each(self.after.start) + self.staying.position]
        problems += self._broken_items("does not keep its replicas first", self.staying, prefix != self.staying.values)
        problems += self._broken_items("names a broker twice", self.after, again(self.after))
        problems += self._broken_items("names a broker that is not alive", self.after, self.after_on == len(self.live))
        problems += self._closed_take()
        same = self.order.length == self.after.length
        problems += self._broken("has a preferred order of another length", ~same)
        if same.all():
            strange = ~member(self.order, self.after) | again(self.order)
            problems += self._broken_items("has a preferred order that is no permutation", self.order, strange)
        return problems

    def _closed_take(self) -> list[str]:
        """Brokers that take nothing get neither a replica nor a leadership, unless whoever was preferred has left."""
        if not len(self.closed):
            return []
        wrong = np.isin(self.after.values, self.closed) & self.new()
        problems = self._broken_items("goes to a broker that may take no replica", self.after, wrong)
        if len(self.order.values) == len(self.after.values):
            first = self.order.values[self.order.start]
            preferred = self.claimed.values[self.claimed.start]
            led = np.isin(first, self.closed) & (first != preferred) & ~self.left(preferred)
            problems += self._broken("is led by a broker that may take no leadership", led)
        return problems

    def left(self, preferred: Array) -> Array:
        """bool[n]: which of these, one of each planned partition, have no replica of it any more. A raise keeps all."""
        return np.zeros(len(preferred), dtype=bool)

    def touching(self) -> list[str]:
        """Whether the plan is about the partitions that it should be about, and no others."""
        wanted = self._wanted()
        below = self.before.length < wanted
        self.due = wanted[self.place]
        problems = self._broken("has enough replicas and is touched", ~below[self.place])
        return problems + self._untouched(below & ~self.excluded, "partitions below their factor are not planned")

    def _untouched(self, due: Array, rule: str) -> list[str]:
        """Count why partitions stay that should change (due: bool[N]); those without a reason break the rule."""
        problems = self._broken("has a replica on a broker that is not alive and is touched", self.stuck[self.place])
        problems += self._broken("is of an excluded topic and is touched", self.excluded[self.place])
        self.left_out[LeftOut.DEAD_REPLICA] = int((due & self.stuck).sum())
        rest = due & ~self.stuck & ~self.touched
        if self.allowed.by_bytes:
            unknown = self._sizes() < 0
            self.left_out[LeftOut.UNKNOWN_SIZE] = int((rest & unknown).sum())
            rest &= ~unknown
        count = int(rest.sum())
        self.left_out[LeftOut.OVER_LIMIT] = count
        return [*problems, f"{count} {rule}"] if count and not self.allowed.limited else problems

    def _sizes(self) -> Array:
        """int64[N] bytes of each partition, -1 unknown."""
        if "sizeBytes" not in self.raw.column_names:
            return np.full(self.raw.num_rows, -1, dtype=np.int64)
        return integers(self.raw.column("sizeBytes"))

    def _standing(self, brokers: Array) -> Array:
        """bool[N]: partitions with a replica on one of these brokers."""
        there = np.zeros(len(self.before.length), dtype=bool)
        if len(brokers):
            there[self.before.row[np.isin(self.before.values, brokers)]] = True
        return there

    def limits(self) -> list[str]:
        """What is copied beyond the limits that hold for every question."""
        if not self.allowed.limited:
            return []
        new = self.new()
        into, size = place_among(self.ids, self.after.values[new]), self._sizes()[self.place][self.after.row[new]]
        arriving = np.zeros(len(self.ids), dtype=np.int64)
        np.add.at(arriving, into, np.maximum(size, 0))
        problems = over_allowed(self.come(), arriving, self.allowed)
        unknown = self.allowed.by_bytes and (size < 0).any()
        return [*problems, "a partition of unknown size is moved"] if unknown else problems

    def come(self) -> Array:
        """int64[B] replicas that come to each broker."""
        into = place_among(self.ids, self.after.values[self.new()])
        return np.bincount(into, minlength=len(self.ids)).astype(np.int64)

    def keeping(self) -> list[str]:
        """Whether each partition gets as many replicas as it should and loses none that it should keep."""
        problems = self._broken("does not get exactly its factor", self.after.length != self.due)
        return problems + self._broken("loses a replica", self.after.length < self.claimed.length)

    def numbering(self) -> list[str]:
        wave = integers(self.table.column("wave"))
        # A table of them is made only where none is beyond what the rows can fill.
        if len(wave) and (wave.min() < 0 or wave.max() >= len(wave) or (np.bincount(wave) == 0).any()):
            return ["waves are not numbered from 0 without a gap"]
        return []

    def waves(self, sizes: Column, sender: Array, limits: WaveLimits) -> list[str]:
        """What the waves of these rows break of the limits; sizes, sender: parallel to the table."""
        wave = integers(self.table.column("wave"))
        if not len(wave):
            return []
        # A part of a plan has only some of them, and a table has a row for each.
        first = int(wave.min())
        there = np.bincount(wave - first) > 0
        numbers = np.flatnonzero(there) + first
        wave = (np.cumsum(there) - 1)[wave - first]
        problems = []
        records = np.bincount(wave)
        if records.max() > limits.records:
            problems.append(f"wave {numbers[records.argmax()]} has {records.max()} records, more than {limits.records}")
        brokers = len(self.ids)
        for name, total, limit in self._per_wave(wave, len(records), integers(sizes, 0), sender, limits):
            if total.max() > limit:
                at, who = divmod(int(total.argmax()), brokers)
                problems.append(
                    f"wave {numbers[at]}: broker {self.ids[who]} has {total.max()} {name}, more than {limit}"
                )
        return problems

    def _per_wave(
        self, wave: Array, waves: int, size: Array, sender: Array, limits: WaveLimits
    ) -> tuple[tuple[str, Array, int], ...]:
        """(what is limited, int64[waves x brokers] how much of it there is, the limit)."""
        added = self.after.length - self.staying.length
        into, row = self.after.values[self.new()], np.repeat(np.arange(len(added)), added)
        cells, brokers = waves * len(self.ids), len(self.ids)
        comes = place_among(self.ids, into) + wave[row] * brokers
        goes = place_among(self.ids, sender) + wave * brokers
        bytes_in, bytes_out = np.zeros(cells, dtype=np.int64), np.zeros(cells, dtype=np.int64)
        # A partition larger than a whole allowance is let through alone, so it counts as one allowance.
        np.add.at(bytes_in, comes, np.minimum(size, limits.bytes_in)[row])
        np.add.at(bytes_out, goes, np.minimum(size * added, limits.bytes_out))
        partitions = np.bincount(comes, minlength=cells) + np.bincount(goes, minlength=cells)
        return (
            ("bytes in", bytes_in, limits.bytes_in),
            ("bytes out", bytes_out, limits.bytes_out),
            ("partitions", partitions, limits.partitions_per_broker),
        )

    def arriving(self, sizes: Column) -> Array:
        """int64[B] bytes that come to each broker, by id; sizes: parallel to the table, unknown ones count as 0."""
        new = self.new()
        total = np.zeros(len(self.ids), dtype=np.int64)
        np.add.at(total, place_among(self.ids, self.after.values[new]), integers(sizes, 0)[self.after.row[new]])
        return total

    def new(self) -> Array:
        """bool[V]: which of the replicas after the plan are new ones."""
        return np.asarray(self.after.position >= self.after.each(self.staying.length))

    def least_moves(self) -> int:
        """Moves that no plan can do without."""
        return int((self.due - self.claimed.length).sum())

    def disk_capacity(self) -> list[str]:
        """Brokers that get more bytes than their disks have free, by the sizes in the partition table."""
        limited = [broker for broker in self.brokers if broker.disk_free is not None or broker.disks]
        if "sizeBytes" not in self.raw.column_names or not limited:
            return []
        problems = [line for broker in limited if broker.disks for line in self._directories(broker)]
        coming = self.arriving(self.raw.column("sizeBytes").take(pa.array(self.place, pa.int64()))).tolist()
        return problems + [
            f"broker {broker.id} gets {size} bytes and has room for {broker.disk_free}"
            for broker, size in zip(self.brokers, coming, strict=True)
            if broker.disk_free is not None and size > broker.disk_free
        ]

    def _directories(self, broker: Broker) -> list[str]:
        """Log directories of a broker that may get more than they have free, one replica after another to that with the
        fewest partitions, the largest of them perhaps to the same."""
        here = self.new() & (self.after.values == broker.id)
        sizes = sorted(np.maximum(self._sizes()[self.place][self.after.row[here]], 0).tolist(), reverse=True)
        known = all(disk.partitions is not None for disk in broker.disks)
        first = [(disk.partitions or 0) if known else 0 for disk in broker.disks]
        count = list(first)
        for _ in sizes:
            count[count.index(min(count))] += 1
        level = max((now for now, was in zip(count, first, strict=True) if now > was), default=0)
        return [
            f"{disk.dir} of broker {broker.id} may get {most} bytes and has room for {disk.free}"
            for disk, was in zip(broker.disks, first, strict=True)
            if (most := sum(sizes[: max(level - was, 0)])) > disk.free
        ]

    def summary(self, plan: Plan) -> list[str]:
        summary = plan.summary
        given, come = self._tally(self.given()), self._tally(self.after_on[self.new()])
        untouched = self._on(self.before.values[self.before.start][~self.touched])
        first = np.concatenate([untouched, self._on(self.order.values[self.order.start])])
        led, left = self._tally(first), self._tally(untouched)
        problems = [
            *self._counts(summary, come),
            *self._compare("replicasPerBroker", summary.replicas_per_broker, given + come, self.fixed(given)),
            *self._compare("leadersPerBroker", summary.leaders_per_broker, led, left),
        ]
        if summary.bytes_per_broker is not None:
            problems += self._bytes(summary.bytes_per_broker)
        if summary.leaders_reassigned is not None:
            problems += self._orders(summary, summary.leaders_reassigned, untouched)
        return [*problems, *self._of_topics(summary, first, untouched), *self.cost(summary)]

    def _counts(self, summary: Summary, come: Array) -> list[str]:
        """The single numbers of the summary; come: int64[L] replicas added to each live broker."""
        added = self.after.length - self.staying.length
        bad, unavoidable = self.rack_figures()
        unknown = {broker.id for broker in self.brokers if broker.disk_free is None and not broker.disks}
        figures = {
            "partitions": (summary.partitions, len(added)),
            "moves": (summary.moves, int(added.sum())),
            "lowerBoundMoves": (summary.lower_bound_moves, self.least_moves()),
            "waves": (summary.waves, int(integers(self.table.column("wave")).max(initial=-1)) + 1),
            "roomUnknown": (summary.capacity_unknown, len(unknown & set(self.live[come > 0].tolist()))),
            "rackViolations": (summary.rack_violations, bad),
            "rackViolationsBound": (summary.rack_violations_bound, unavoidable),
        }
        for why in LeftOut:
            figures[f"leftOut {why.key}"] = (summary.left_out.get(why, 0), self.left_out.get(why, 0))
        return [f"the summary says {name} {a}, counted {b}" for name, (a, b) in figures.items() if a != b]

    def cost(self, summary: Summary) -> list[str]:
        """Whether the plan moves as little as it can."""
        if summary.moves == summary.lower_bound_moves:
            return []
        return [f"{summary.moves} moves where {summary.lower_bound_moves} would do"]

    def owed(self) -> list[str]:
        """What the question asks of all rows together, besides that each is right."""
        return shared_racks(*self.rack_figures())

    def given(self) -> Array:
        """int32[V]: places of the brokers of the replicas that stay where they are, of all partitions."""
        if self.staying is self.claimed:
            return self.before_on
        return np.concatenate([self.before_on[~self.touched[self.before.row]], self.staying_on])

    def fixed(self, given: Array) -> Array:
        """Of int64[L] given replicas those on top of which the rest is divided by weight."""
        return given

    def _orders(self, summary: Summary, reassigned: Spread, untouched: Array) -> list[str]:
        """What reassignment.json alone comes to, and how many partitions are reordered after it."""
        kept = self._tally(np.concatenate([untouched, self._on(self.after.values[self.after.start])]))
        problems = self._compare(
            "leadersAfterReassignment", replace(reassigned, bound=-1), kept, self._tally(untouched)
        )
        count = int((self.order.values[self.order.start] != self.after.values[self.after.start]).sum())
        if count != summary.reordered:
            problems.append(f"the summary says {summary.reordered} preferred orders, counted {count}")
        return [line for line in problems if "bound" not in line]

    def _bytes(self, spread: Spread) -> list[str]:
        size = integers(self.raw.column("sizeBytes"), 0)
        held = self._tally(self.before_on, size[self.before.row])
        new = self.new()
        come = self._tally(self.after_on[new], size[self.place][self.after.row[new]])
        return self._compare("bytesPerBroker", spread, held + come, held)

    def _of_topics(self, summary: Summary, first: Array, untouched: Array) -> list[str]:
        """first: places of preferred leaders, as `summary` puts them together, untouched: those that the plan leaves
        alone."""
        codes = self._raw_codes.astype(np.int32)
        planned, rest = codes[self.place], ~self.touched
        names, live = list(self.wanted), len(self.live)
        of_rest, rest_on = codes[:0], self.before_on[:0]
        if rest.any():
            stays = self.before.each(rest)
            of_rest, rest_on = self.before.each(codes)[stays], self.before_on[stays]

        def stood(lists: Lists, on: Array) -> Held:
            of = lists.each(planned)
            if len(of_rest):
                of, on = np.concatenate([of_rest, of]), np.concatenate([rest_on, on])
            return counted((of, on), len(names), live)

        given, there = stood(self.staying, self.staying_on), stood(self.after, self.after_on)
        leads = counted((np.concatenate([codes[rest], planned]), first), len(names), live)
        left_alone = counted((codes[rest], untouched), len(names), live)
        takers = np.flatnonzero(~np.isin(self.live, self.closed))
        plain = np.maximum(-(-there.on(takers) // max(len(takers), 1)), given.most)
        own = np.maximum(plain, self.least_of_topics(planned))
        own_led = np.maximum(-(-leads.total // max(live, 1)), left_alone.most)
        rows, leading = np.bincount(planned, minlength=len(names)), leads.on_brokers(live)
        come = there.on_brokers(live) - given.on_brokers(live)
        shared = could_take(come, own, given, there.total - given.total, rows, takers)
        shared_led = max(
            could_take(leading - left_alone.on_brokers(live), own_led, left_alone, rows, rows, np.arange(live)),
            could_lead(leading, own_led, there),
        )
        return [
            f"{name}: {wrong}"
            for name, claimed, most, least, bound, excess in (
                ("replicasOfOneTopic", summary.topic_replicas, there.most, plain, own, shared),
                ("leadersOfOneTopic", summary.topic_leaders, leads.most, own_led, own_led, shared_led),
            )
            if (wrong := untrue(claimed, most, least, bound, excess, planned, names))
        ]

    def least_of_topics(self, planned: Array) -> Array:
        """int64[T] what some broker has at least of each topic, as racks differ in size; planned: int64[n] topics of
        the partitions that the plan changes."""
        if len(self.closed):
            return np.zeros(len(self.wanted), dtype=np.int64)
        sizes = Counter(self.rack_of.values())
        racks = sorted(sizes)
        number = {rack: place for place, rack in enumerate(racks)}
        of = np.array([*(number[self.rack_of[int(b)]] for b in self.live), -1], dtype=np.int64)[self.staying_on]
        comes = self.after.length - self.staying.length
        alive = of >= 0
        staying = self.staying.row[alive], of[alive]
        return rack_floor(staying, comes, planned, len(self.wanted), [sizes[rack] for rack in racks])

    def _compare(self, name: str, spread: Spread, total: Array, held: Array) -> list[str]:
        live = [broker for broker in self.brokers if broker.alive]
        fair = handicap(live, held, int(total.sum() - held.sum()))
        count = total + fair.extra - fair.average
        problems = []
        least = max(int(min(count, default=0)), 0)
        if len(count) and (spread.min, spread.max) != (least, count.max()):
            problems.append(f"the summary says {name} {spread.min}..{spread.max}, counted {least}..{count.max()}")
        mean = -(-int(count.sum()) // max(len(count), 1))
        if spread.any_plan != mean:
            problems.append(f"{name}: no plan is below {mean}, where the summary says {spread.any_plan}")
        if not mean <= spread.bound <= spread.max:
            problems.append(f"{name}: the bound {spread.bound} is outside the mean {mean} and the maximum {spread.max}")
        return problems

    def rack_figures(self) -> tuple[int, int]:
        """(partitions less even over racks than they could be, those that had no choice)."""
        sizes = Counter(self.rack_of.values())
        racks, size = sorted(sizes), [sizes[rack] for rack in sorted(sizes)]
        of_rack = {rack: index for index, rack in enumerate(racks)}
        number = np.array([of_rack[self.rack_of[int(b)]] for b in self.live], dtype=np.int64)
        shut = np.isin(self.staying.values, self.closed)
        taking = [n - int((number[np.isin(self.live, self.closed)] == rack).sum()) for rack, n in enumerate(size)]
        return uneven(self.after, number[self.after_on], self.staying, number[self.staying_on], size, shut, taking)

    def senders(self) -> Array:
        """int64[n]: who sends each planned partition: its leader, or its first replica."""
        first = self.claimed.values[self.claimed.start]
        if "leader" not in self.raw.column_names:
            return first
        leader = integers(self.raw.column("leader"))[self.place]
        return np.where(leader >= 0, leader, first)

    def _tally(self, on: Array, cost: Array | None = None) -> Array:
        """int64[L]: how often each live broker stands there, or the sum of what it costs; on: places, as of `_on`."""
        if cost is None:
            return np.bincount(on, minlength=len(self.live) + 1)[:-1]
        total = np.zeros(len(self.live) + 1, dtype=np.int64)
        np.add.at(total, on, cost)
        return total[:-1]

    def _on(self, brokers: Array) -> Array:
        """int32[V]: place of each broker among the live ones, their number for one that is not alive."""
        if not len(self.live):
            return np.zeros(len(brokers), dtype=np.int32)
        place = place_among(self.live, brokers)
        alive = self.live[place] == brokers
        return place if alive.all() else np.where(alive, place, np.int32(len(self.live)))

    def _wanted(self) -> Array:
        """int64[N]: factor of each partition, 0 for those of exempt topics."""
        factor = np.array([*(number or 0 for number in self.wanted.values()), 0], dtype=np.int64)
        return np.asarray(factor[self._raw_codes])

    @cached_property
    def _raw_codes(self) -> Array:
        """int64[N]: the place of each partition's topic in `wanted`."""
        return self._topic_codes(self.raw)

    def _topic_codes(self, table: pa.Table) -> Array:
        return codes_among(table.column("topic"), list(self.wanted))

    def _keys(self, table: pa.Table) -> Array:
        codes = self._raw_codes if table is self.raw else self._topic_codes(table)
        return np.asarray(codes << 32 | integers(table.column("partition")))

    def _broken(self, rule: str, bad: Array) -> list[str]:
        rows = np.flatnonzero(bad)
        if not len(rows):
            return []
        topic, partition = self.table.column("topic"), self.table.column("partition")
        named = ", ".join(f"{topic[int(r)].as_py()}-{partition[int(r)].as_py()}" for r in rows[:EXAMPLES])
        more = f" and {len(rows) - EXAMPLES} more" if len(rows) > EXAMPLES else ""
        return [f"{named}{more} {rule}"]

    def _broken_items(self, rule: str, lists: Lists, bad: Array) -> list[str]:
        rows = np.zeros(len(lists.length), dtype=bool)
        rows[lists.row[bad]] = True
        return self._broken(rule, rows)
