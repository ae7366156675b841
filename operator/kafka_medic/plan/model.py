"""What the planner hands on: the plan, its single moves, and the summary with a bound beside each figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_medic.plan.allowed import LeftOut
from kafka_medic.plan.arrow import Column, Int64s, flat_values, list_lengths
from kafka_medic.plan.bounds import RAISE, Bounds

__all__ = [
    "LEFT_OUT_SCHEMA",
    "PLAN_SCHEMA",
    "PREFERRED_ORDER",
    "Fullest",
    "Move",
    "Plan",
    "Spread",
    "Summary",
    "TopicSpread",
]

PREFERRED_ORDER = "preferred-order.json"
"""The file that people carry out after reassignment.json, so that preferred leaders come to the summary's figures."""

_FIELDS: Any = [
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("replicasBefore", pa.list_(pa.int32())),
    pa.field("replicas", pa.list_(pa.int32())),
    pa.field("preferredOrder", pa.list_(pa.int32())),
    pa.field("wave", pa.int32()),
]
PLAN_SCHEMA: pa.Schema = pa.schema(_FIELDS)
_LEFT_OUT_FIELDS: Any = [
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("reason", pa.string()),
]
LEFT_OUT_SCHEMA: pa.Schema = pa.schema(_LEFT_OUT_FIELDS)


@dataclass(frozen=True)
class Spread:
    """Fewest and most per live broker after the plan.

    min: 0 also where a broker has so much less than its share that one of average share would hold less than nothing.
    bound: the smallest maximum of the plans that `plan.bounds` names for this figure. any_plan: of all plans that there
    are, also those that move more, or have others lead: the mean, rounded up.
    """

    min: int
    max: int
    bound: int
    any_plan: int = 0

    def to_json(self) -> dict[str, int]:
        return {"min": self.min, "max": self.max, "bound": self.bound, "anyPlan": self.any_plan}


@dataclass(frozen=True)
class TopicSpread:
    """before, after: the most replicas of the topic on one live broker. bound: what some broker has at least, as there
    are so many, or as that many stay where they are. led_before, led_after, led_bound: the same of its preferred
    leaders.
    """

    topic: str
    partitions: int
    replicas: int
    before: int
    after: int
    bound: int
    led_before: int
    led_after: int
    led_bound: int


@dataclass(frozen=True)
class Fullest:
    """The topic whose fullest broker is furthest above its bound: how many of it that broker has, and the bound.

    own: the bound of this topic alone. bound: the same and what some topic is above its own in every plan that brings
    each broker as many as this one.
    """

    topic: str
    max: int
    bound: int
    own: int

    def to_json(self) -> dict[str, object]:
        return {"topic": self.topic, "max": self.max, "bound": self.bound, "ownBound": self.own}


@dataclass(frozen=True)
class Summary:
    """The plan in figures.

    partitions: those the plan changes. moves: replicas added. lower_bound_moves: replicas missing.
    replicas_per_broker: over the whole cluster. leaders_per_broker: preferred leaders over the whole
    cluster; its bound is over all orders of the replica sets chosen. Both are, where brokers have different
    weights, what a broker of average share would hold: see `weight`.
    rack_violations: changed partitions whose racks are less even than their factor and the live racks
    allow; rack_violations_bound: those of them for which the replicas held already make it unavoidable.
    bytes_per_broker: where bytes were to be even.
    topic_replicas, topic_leaders: of the topics that the plan changes the one whose replicas, or preferred leaders, lie
    least evenly on the brokers; None if it changes none, or none was counted.
    capacity_unknown: brokers that get replicas and whose disk capacity is not known, so that it was not checked.
    leaders_reassigned: preferred leaders over the whole cluster after reassignment.json alone, which keeps the old
    order of the replicas; None where not counted. reordered: changed partitions whose preferred order is another one,
    which preferred-order.json holds; order_file: False where that file is not written, but the plan's column alone.
    left_out: how many partitions stay as they are though the question concerns them, by the reason.
    bounds: among which plans each bound is one.
    engine: "local" or "spark". seconds: taken to plan; 0.0 until the command fills it in.
    """

    partitions: int
    moves: int
    lower_bound_moves: int
    replicas_per_broker: Spread
    leaders_per_broker: Spread
    rack_violations: int
    rack_violations_bound: int
    waves: int
    capacity_unknown: int = 0
    bytes_per_broker: Spread | None = None
    topic_replicas: Fullest | None = None
    topic_leaders: Fullest | None = None
    leaders_reassigned: Spread | None = None
    reordered: int = 0
    order_file: bool = True
    left_out: Mapping[LeftOut, int] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=lambda: RAISE)
    engine: str = "local"
    seconds: float = 0.0

    @property
    def order_name(self) -> str:
        """Where the preferred order stands: a file, or a column of the plan."""
        return PREFERRED_ORDER if self.order_file else "preferredOrder"

    def _order_to_json(self, reassigned: Spread) -> dict[str, object]:
        return {
            "leadersAfterReassignment": {"min": reassigned.min, "max": reassigned.max},
            "preferredOrder": {
                "partitions": self.reordered,
                **({"file" if self.order_file else "column": self.order_name} if self.reordered else {}),
            },
        }

    def to_json(self) -> dict[str, object]:
        """The stable form that other tools read."""
        figures: dict[str, object] = {
            "partitions": self.partitions,
            "moves": self.moves,
            "lowerBoundMoves": self.lower_bound_moves,
            "replicasPerBroker": self.replicas_per_broker.to_json(),
            "leadersPerBroker": self.leaders_per_broker.to_json(),
            "rackViolations": self.rack_violations,
            "rackViolationsBound": self.rack_violations_bound,
            "waves": self.waves,
            "roomUnknown": self.capacity_unknown,
            **({} if self.leaders_reassigned is None else self._order_to_json(self.leaders_reassigned)),
            "leftOut": {why.key: self.left_out.get(why, 0) for why in LeftOut if why},
            **({} if self.bytes_per_broker is None else {"bytesPerBroker": self.bytes_per_broker.to_json()}),
            **({} if self.topic_replicas is None else {"replicasOfOneTopic": self.topic_replicas.to_json()}),
            **({} if self.topic_leaders is None else {"leadersOfOneTopic": self.topic_leaders.to_json()}),
        }
        return {
            **figures,
            "bounds": {name: bound.to_json() for name, bound in self.bounds.items() if name in figures},
            "engine": self.engine,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Move:
    """One partition of a plan. `replicas` is what the reassignment names: the old ones first, in order."""

    topic: str
    partition: int
    replicas_before: tuple[int, ...]
    replicas: tuple[int, ...]
    preferred_order: tuple[int, ...]
    wave: int
    size_bytes: int | None


@dataclass(frozen=True, eq=False)
class Plan:
    """table: PLAN_SCHEMA, changed partitions only, by topic and partition.

    sizes: int64 array parallel to it, null where the size is not known.
    topics: the worst spread ones of those that it changes.
    left_out: LEFT_OUT_SCHEMA, the partitions that `summary.left_out` counts.
    """

    table: pa.Table
    sizes: Column
    summary: Summary
    topics: tuple[TopicSpread, ...] = ()
    left_out: pa.Table = field(default_factory=LEFT_OUT_SCHEMA.empty_table)

    def kept(self) -> Int64s:
        """int64[n] replicas of each partition that stay: the first ones of `replicas`."""
        before, after = self.table.column("replicasBefore"), self.table.column("replicas")
        held, wanted = list_lengths(before), list_lengths(after)
        same = np.flatnonzero(held >= wanted)  # where a list grows, all of it stays
        if not len(same):
            return held
        left, right = (column.combine_chunks().take(pa.array(same, pa.int64())) for column in (before, after))
        was, is_now = (np.repeat(np.arange(len(same)), list_lengths(c)) << 32 | flat_values(c) for c in (left, right))
        kept = held.copy()
        kept[same] = np.bincount(np.repeat(np.arange(len(same)), held[same])[np.isin(was, is_now)], minlength=len(same))
        return kept

    def moves(self) -> Iterator[Move]:
        """Each changed partition as an object; for plans small enough to be written into a resource."""
        columns = (self.table.column(name).to_pylist() for name in PLAN_SCHEMA.names)
        for topic, partition, before, after, order, wave, size in zip(*columns, self.sizes.to_pylist(), strict=True):
            yield Move(topic, partition, tuple(before), tuple(after), tuple(order), wave, size)
