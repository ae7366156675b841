"""A second opinion on every plan, from other code and another method than the one that made it.

The planner works on padded matrices, kinds and flows; this works on the raw tables as flat lists of
(row, broker) and looks at each replica once, so an error in one is not repeated in the other. Linear in
replicas, apart from one sort by name. It imports nothing of aggregate, solve, expand, settle or leaders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_medic.plan.arrow import Column, compute, flat_values, integers, list_lengths, names
from kafka_medic.plan.model import PLAN_SCHEMA, Plan, Spread
from kafka_medic.plan.problem import Broker, rack_names
from kafka_medic.plan.waves import WaveLimits
from kafka_medic.plan.weight import handicap

__all__ = ["verify"]

Array = npt.NDArray[Any]
DENSE_IDS = 1 << 20
SHOWN = 3
"""Examples named per violated rule; the count is always given."""


@dataclass(frozen=True, eq=False)
class _Lists:
    """A list column laid flat: values int64[V], the row of each (int64[V]), the length of each row."""

    values: Array
    row: Array
    length: Array

    @property
    def start(self) -> Array:
        return np.cumsum(self.length) - self.length

    @property
    def position(self) -> Array:
        """int64[V]: place of each value in its own list."""
        return np.arange(len(self.values)) - self.start[self.row]


class Asked(Protocol):
    """What the verifier has to know of a problem: nothing that the planner made of it."""

    @property
    def partitions(self) -> pa.Table: ...

    @property
    def brokers(self) -> Sequence[Broker]: ...

    def wanted(self, topic: str) -> int | None: ...


def verify(problem: Asked, plan: Plan, limits: WaveLimits | None = None) -> list[str]:
    """Every rule that the plan breaks, as sentences; empty if it breaks none.

    limits: the bounds the waves were cut with (default: the planner's default).
    """
    table = plan.table.combine_chunks()
    if table.schema.names != PLAN_SCHEMA.names:
        return [f"the plan's columns are {table.schema.names}, not {PLAN_SCHEMA.names}"]
    if plan.table.num_rows != len(plan.sizes):
        return ["the plan has not one size per row"]
    check = Check(problem, table)
    return check.placement() or [
        *check.numbering(),
        *check.waves(plan.sizes, check.senders(), limits or WaveLimits()),
        *check.room(),
        *check.summary(plan),
    ]


class Check:
    """One look at a plan's table (combined chunks), or at a part of it, beside the partitions it is about."""

    def __init__(self, problem: Asked, table: pa.Table) -> None:
        self.raw = problem.partitions.combine_chunks()
        self.table = table
        self.before = _flatten(self.raw.column("replicas"))
        self.claimed = _flatten(table.column("replicasBefore"))
        self.after = _flatten(table.column("replicas"))
        self.order = _flatten(table.column("preferredOrder"))
        self.brokers = sorted(problem.brokers, key=lambda broker: broker.id)
        self.live = np.array(sorted(b.id for b in problem.brokers if b.alive), dtype=np.int64)
        named = bool(rack_names(problem.brokers))
        self.rack_of = {b.id: (b.rack or "") if named else str(b.id) for b in problem.brokers if b.alive}
        self.place = np.zeros(0, dtype=np.int64)
        """Row of the partition table for each row of the plan, once `placement` has found them."""
        self.touched = np.zeros(self.raw.num_rows, dtype=bool)
        topics = names(compute.unique(self.raw.column("topic").cast(pa.string())))
        self.wanted = {topic: problem.wanted(topic) for topic in topics}

    def placement(self) -> list[str]:
        """What Kafka would be told; nothing else is looked at while this is wrong."""
        raw_key, raw_names = self._keys(self.raw)
        key, _ = self._keys(self.table)
        if len(key) and not len(raw_key):
            return ["there are no partitions to plan"]
        sorter = np.argsort(raw_key, kind="stable")
        place = sorter[np.searchsorted(raw_key[sorter], key).clip(max=len(sorter) - 1)]
        problems = self._say("is not among the partitions", raw_key[place] != key)
        if problems:
            return problems
        self.place = place
        self.touched[place] = True
        problems += self._say("is planned twice", _repeats(key))
        factor = np.array([self.wanted[name] or 0 for name in raw_names], dtype=np.int64)
        wanted = factor[(raw_key >> 32).astype(np.int64)] if len(factor) else np.zeros(0, np.int64)
        below = self.before.length < wanted
        problems += self._say("has enough replicas and is touched", ~below[place])
        left_out = np.flatnonzero(below & ~self.touched)
        if len(left_out):
            problems.append(f"{len(left_out)} partitions below their factor are not planned")

        kept = self.claimed.length == self.before.length[place]
        problems += self._say("has other replicas before than the partition table says", ~kept)
        if problems:
            return problems
        held = self.before.values[self.before.start[place][self.claimed.row] + self.claimed.position]
        problems += self._say_items("names other replicas before", self.claimed, held != self.claimed.values)
        problems += self._say("does not get exactly its factor", self.after.length != wanted[place])
        problems += self._say("loses a replica", self.after.length < self.claimed.length)
        if problems:
            return problems
        prefix = self.after.values[self.after.start[self.claimed.row] + self.claimed.position]
        problems += self._say_items("does not keep its replicas first", self.claimed, prefix != self.claimed.values)
        problems += self._say_items("names a broker twice", self.after, _again(self.after))
        dead = self.live[self._number(self.after.values)] != self.after.values
        problems += self._say_items("names a broker that is not alive", self.after, dead)
        same = self.order.length == self.after.length
        problems += self._say("has a preferred order of another length", ~same)
        if same.all():
            strange = ~_member(self.order, self.after) | _again(self.order)
            problems += self._say_items("has a preferred order that is no permutation", self.order, strange)
        return problems

    def numbering(self) -> list[str]:
        wave = integers(self.table.column("wave"))
        if len(wave) and (wave.min() < 0 or (np.bincount(np.maximum(wave, 0)) == 0).any()):
            return ["waves are not numbered from 0 without a gap"]
        return []

    def waves(self, sizes: Column, sender: Array, limits: WaveLimits) -> list[str]:
        """What the waves of these rows break of the limits; sizes, sender: parallel to the table."""
        numbers, wave = np.unique(integers(self.table.column("wave")), return_inverse=True)
        if not len(wave):
            return []
        problems = []
        records = np.bincount(wave)
        if records.max() > limits.records:
            problems.append(f"wave {numbers[records.argmax()]} has {records.max()} records, more than {limits.records}")
        size = integers(sizes, 0)
        new = self.after.position >= self.claimed.length[self.after.row]
        into, row = self.after.values[new], self.after.row[new]
        added = self.after.length - self.claimed.length
        everyone = np.arange(len(wave))
        # A partition larger than a whole allowance is let through alone, so it counts as one allowance.
        measures = (
            ("bytes in", into, row, np.minimum(size, limits.bytes_in)[row], limits.bytes_in),
            ("bytes out", sender, everyone, np.minimum(size * added, limits.bytes_out), limits.bytes_out),
            (
                "partitions",
                np.concatenate([into, sender]),
                np.concatenate([row, everyone]),
                np.ones(len(row) + len(wave), dtype=np.int64),
                limits.partitions_per_broker,
            ),
        )
        for name, broker, of, cost, limit in measures:
            place = self._number(broker) + wave[of] * len(self.live)
            total = np.zeros(len(records) * len(self.live), dtype=np.int64)
            np.add.at(total, place, cost)
            if total.max() > limit:
                at, who = divmod(int(total.argmax()), len(self.live))
                broker_id, most = self.live[who], total.max()
                problems.append(f"wave {numbers[at]}: broker {broker_id} has {most} {name}, more than {limit}")
        return problems

    def arriving(self, sizes: Column) -> Array:
        """int64[B] bytes that come to each broker, by id; sizes: parallel to the table, unknown ones count as 0."""
        ids = np.array([broker.id for broker in self.brokers], dtype=np.int64)
        new = self.after.position >= self.claimed.length[self.after.row]
        total = np.zeros(len(ids), dtype=np.int64)
        np.add.at(total, np.searchsorted(ids, self.after.values[new]), integers(sizes, 0)[self.after.row[new]])
        return total

    def room(self) -> list[str]:
        """Brokers that get more bytes than they have room for, by the sizes in the partition table."""
        if "sizeBytes" not in self.raw.column_names:
            return []
        coming = self.arriving(self.raw.column("sizeBytes").take(pa.array(self.place, pa.int64()))).tolist()
        return [
            f"broker {broker.id} gets {size} bytes and has room for {broker.disk_free}"
            for broker, size in zip(self.brokers, coming, strict=True)
            if broker.disk_free is not None and size > broker.disk_free
        ]

    def summary(self, plan: Plan) -> list[str]:
        summary = plan.summary
        added = self.after.length - self.claimed.length
        wave = self.table.column("wave").to_numpy()
        short = 0
        codes = self._topic_codes(self.raw)
        wanted = np.array([self.wanted[name] or 0 for name in codes[1]], dtype=np.int64)
        if len(wanted):
            short = int(np.maximum(wanted[codes[0]] - self.before.length, 0).sum())
        new = self.after.position >= self.claimed.length[self.after.row]
        everywhere = np.concatenate([self.before.values, self.after.values[new]])
        first = np.concatenate([self._untouched_first(), self.order.values[self.order.position == 0]])
        bad, unavoidable = self.rack_figures()
        figures = {
            "partitions": (summary.partitions, len(added)),
            "moves": (summary.moves, int(added.sum())),
            "lowerBoundMoves": (summary.lower_bound_moves, short),
            "waves": (summary.waves, len(np.unique(wave))),
            "roomUnknown": (
                summary.room_unknown,
                len(
                    {b.id for b in self.brokers if b.disk_free is None}
                    & set(np.unique(self.after.values[new]).tolist())
                ),
            ),
            "rackViolations": (summary.rack_violations, bad),
            "rackViolationsBound": (summary.rack_violations_bound, unavoidable),
        }
        problems = [f"the summary says {name} {a}, counted {b}" for name, (a, b) in figures.items() if a != b]
        untouched = self._untouched_first()
        problems += self._spread("replicasPerBroker", summary.replicas_per_broker, everywhere, self.before.values)
        problems += self._spread("leadersPerBroker", summary.leaders_per_broker, first, untouched)
        if summary.moves != summary.lower_bound_moves:
            problems.append(f"{summary.moves} moves where {summary.lower_bound_moves} would do")
        return problems

    def _spread(self, name: str, spread: Spread, brokers: Array, held: Array) -> list[str]:
        """brokers: who holds or leads in the end; held: those of them that were given."""
        live = [broker for broker in self.brokers if broker.alive]
        fair = handicap(live, self._tally(held), len(brokers) - len(held))
        count = self._tally(brokers) + fair.extra - fair.average
        problems = []
        if len(count) and (spread.min, spread.max) != (count.min(), count.max()):
            problems.append(f"the summary says {name} {spread.min}..{spread.max}, counted {count.min()}..{count.max()}")
        mean = -(-int(count.sum()) // max(len(count), 1))
        if not mean <= spread.bound <= spread.max:
            problems.append(f"{name}: the bound {spread.bound} is outside the mean {mean} and the maximum {spread.max}")
        return problems

    def rack_figures(self) -> tuple[int, int]:
        """(partitions less even over racks than they could be, those that had no choice)."""
        sizes = Counter(self.rack_of.values())
        racks, size = sorted(sizes), [sizes[rack] for rack in sorted(sizes)]
        of_rack = {rack: index for index, rack in enumerate(racks)}
        number = np.array([of_rack[self.rack_of[int(b)]] for b in self.live], dtype=np.int64)
        ideal = {int(f): _fill([0] * len(racks), int(f), size) for f in np.unique(self.after.length)}
        allowed = np.array([ideal.get(f, 0) for f in range(int(self.after.length.max(initial=0)) + 1)])
        best = allowed[self.after.length]
        bad = self._shared(self.after, number) > best
        unavoidable = self._shared(self.claimed, number) > 0
        tight = np.flatnonzero(self.after.length > len(racks))
        if len(tight):
            profile = np.zeros((len(self.after.length), len(racks)), dtype=np.int64)
            np.add.at(profile, (self.claimed.row, number[self._number(self.claimed.values)]), 1)
            seen: dict[bytes, int] = {}
            for row in tight.tolist():
                gain = int(self.after.length[row] - self.claimed.length[row])
                key = profile[row].tobytes() + gain.to_bytes(4, "little")
                if key not in seen:
                    seen[key] = _fill(profile[row].tolist(), gain, size)
                unavoidable[row] = seen[key] > best[row]
        return int(bad.sum()), int(unavoidable.sum())

    def _shared(self, lists: _Lists, number: Array) -> Array:
        """int64[N]: pairs of a list's brokers that share a rack."""
        rack = number[self._number(lists.values)]
        pairs = np.zeros(len(lists.length), dtype=np.int64)
        for lag in range(1, int(lists.length.max(initial=0))):
            same = (rack[lag:] == rack[:-lag]) & (lists.row[lag:] == lists.row[:-lag])
            pairs += np.bincount(lists.row[lag:][same], minlength=len(pairs))
        return pairs

    def senders(self) -> Array:
        """int64[n]: who sends each planned partition: its leader, or its first replica."""
        first = self.claimed.values[self.claimed.start]
        if "leader" not in self.raw.column_names:
            return first
        leader = integers(self.raw.column("leader"))[self.place]
        return np.where(leader >= 0, leader, first)

    def _tally(self, brokers: Array) -> Array:
        """int64[L]: how often each live broker stands there."""
        place = self._number(brokers)
        return np.bincount(place[self.live[place] == brokers], minlength=len(self.live)).astype(np.int64)

    def _untouched_first(self) -> Array:
        return self.before.values[self.before.start][~self.touched]

    def _number(self, brokers: Array) -> Array:
        """Place of each broker among the live ones; that of another where it is not alive."""
        top = int(self.live[-1]) if len(self.live) else 0
        if top >= DENSE_IDS:
            return np.asarray(np.searchsorted(self.live, brokers).clip(max=len(self.live) - 1))
        table = np.zeros(top + 1, dtype=np.int64)
        table[self.live] = np.arange(len(self.live))
        return np.asarray(table[brokers.clip(0, top)])

    def _topic_codes(self, table: pa.Table) -> tuple[Array, list[str]]:
        known = list(self.wanted)
        codes = compute.index_in(table.column("topic").cast(pa.string()), pa.array(known, pa.string()))
        return integers(codes, len(known)), known

    def _keys(self, table: pa.Table) -> tuple[Array, list[str]]:
        codes, known = self._topic_codes(table)
        return codes << 32 | integers(table.column("partition")), known

    def _say(self, rule: str, bad: Array) -> list[str]:
        rows = np.flatnonzero(bad)
        if not len(rows):
            return []
        topic, partition = self.table.column("topic"), self.table.column("partition")
        named = ", ".join(f"{topic[int(r)].as_py()}-{partition[int(r)].as_py()}" for r in rows[:SHOWN])
        more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
        return [f"{named}{more} {rule}"]

    def _say_items(self, rule: str, lists: _Lists, bad: Array) -> list[str]:
        rows = np.zeros(len(lists.length), dtype=bool)
        rows[lists.row[bad]] = True
        return self._say(rule, rows)


def _flatten(column: Column) -> _Lists:
    length = list_lengths(column)
    return _Lists(flat_values(column), np.repeat(np.arange(len(length)), length), length)


def _repeats(key: Array) -> Array:
    order = np.argsort(key, kind="stable")
    again = np.zeros(len(key), dtype=bool)
    again[order[1:]] = key[order[1:]] == key[order[:-1]]
    return again


def _again(lists: _Lists) -> Array:
    """bool[V]: values that stand in their list already, at an earlier place."""
    found = np.zeros(len(lists.values), dtype=bool)
    for lag in range(1, int(lists.length.max(initial=0))):
        same_row = lists.row[lag:] == lists.row[:-lag]
        found[lag:] |= (lists.values[lag:] == lists.values[:-lag]) & same_row
    return found


def _member(lists: _Lists, other: _Lists) -> Array:
    """bool[V]: values that stand anywhere in the same row of other, whose rows are as long."""
    found: Array = lists.values == other.values
    for lag in range(1, int(lists.length.max(initial=0))):
        same_row = lists.row[lag:] == lists.row[:-lag]
        found[lag:] |= (lists.values[lag:] == other.values[:-lag]) & same_row
        found[:-lag] |= (lists.values[:-lag] == other.values[lag:]) & same_row
    return found


def _fill(held: list[int], gain: int, size: list[int]) -> int:
    """Fewest pairs in one rack after `gain` more replicas: one at a time into the emptiest rack with room."""
    count = list(held)
    for _ in range(gain):
        open_racks = [rack for rack in range(len(count)) if count[rack] < size[rack]]
        emptiest = min(open_racks, key=lambda rack: count[rack])
        count[emptiest] += 1
    return sum(n * (n - 1) // 2 for n in count)
