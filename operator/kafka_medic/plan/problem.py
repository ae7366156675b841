"""The planner's input: the partitions as they are, the brokers, and the factor that is wanted.

Pure. A `Problem` that exists is a problem that can be planned: everything that would make a plan
wrong is refused when it is built, with the row and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from kafka_medic.plan.allowed import Allowed, LeftOut
from kafka_medic.plan.arrow import Column, integers
from kafka_medic.plan.broker import Broker, ProblemError, check_brokers, rack_names, refuse_overflow
from kafka_medic.plan.columns import BadRowError, Bools, Columns, Ints, read_columns
from kafka_medic.plan.lists import codes_among
from kafka_medic.plan.model import Plan

__all__ = [
    "Broker", "Problem", "ProblemError", "check_reachable", "dead_replicas", "ids_of", "rack_names", "rows_of",
]  # fmt: skip

MOST_REPLICAS = 32_767
"""An int16 in Kafka's requests."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Raise every partition to its wanted factor by adding replicas only.

    partitions: Arrow table with topic (string or dictionary), partition (int32), replicas
        (list<int32>, in order) and, where known, leader (int32), isr (list<int32>) and sizeBytes
        (int64); null means unknown. Any row order.
    brokers: every broker named by a replica, dead ones too.
    factor: wanted replicas per partition; topic_factors overrides it by exact topic name; topics in
        `exempt` are left as they are. A partition that has enough replicas is never touched.
    by_bytes: whether bytes per broker are to be even, not replicas; needs the size of every partition.
    whole: False for one part of a larger table: the numbers of its partitions may have gaps.
    allowed: the limits that hold for every question; its excluded topics become exempt. Brokers that take no replica
        are marked in `brokers`.
    A partition that holds a replica on a dead broker is left out: its reassignment would never end.

    Raises ProblemError, see the checks below.
    """

    partitions: pa.Table
    brokers: tuple[Broker, ...]
    factor: int
    topic_factors: Mapping[str, int] = field(default_factory=dict)
    exempt: frozenset[str] = frozenset()
    whole: bool = True
    by_bytes: bool = False
    allowed: Allowed = field(default_factory=Allowed)
    columns: Columns = field(init=False, repr=False)
    missing: Ints = field(init=False, repr=False)
    """int32 per row of `columns`: replicas to add, 0 for a partition that is left alone."""
    left_out: Ints = field(init=False, repr=False)
    """int8 per row of `columns`: why a partition that lacks replicas gets none, as in `LeftOut`."""

    def __post_init__(self) -> None:
        ordered = self.allowed.closing(sorted(self.brokers, key=lambda broker: broker.id))
        check_brokers(self.brokers)
        _check_factors(self.factor, self.topic_factors)
        object.__setattr__(self, "brokers", ordered)
        object.__setattr__(self, "exempt", frozenset(self.exempt))
        ids = np.array([broker.id for broker in ordered], dtype=np.int64)
        try:
            columns = read_columns(self.partitions, ids, whole=self.whole)
        except BadRowError as bad:
            raise ProblemError(None if bad.row is None else bad.row + 1, bad.reason) from None
        object.__setattr__(self, "columns", columns)
        unknown = np.flatnonzero(columns.size < 0)
        if self.by_bytes and len(unknown):
            at = unknown[np.argmin(columns.source_row[unknown])]
            reason = f"the size of {columns.name(at)} is not known, which a balance by bytes needs"
            raise ProblemError(int(columns.source_row[at]) + 1, reason)
        if self.allowed.exclude_topics:
            stays = {topic for topic in columns.topics if self.allowed.topic_stays(topic)}
            object.__setattr__(self, "exempt", self.exempt | stays)
        missing = self._missing(columns)
        stuck = dead_replicas(columns, ordered) & (missing > 0)
        missing[stuck] = 0
        check_reachable(columns, missing, ordered)
        if self.by_bytes:
            refuse_overflow(ordered, int(columns.size.astype(np.float64) @ (columns.held_count + missing)))
        object.__setattr__(self, "missing", missing)
        object.__setattr__(self, "left_out", np.where(stuck, LeftOut.DEAD_REPLICA, LeftOut.NOT).astype(np.int8))

    @property
    def racks(self) -> tuple[str, ...]:
        """Names of the racks with a live broker, sorted; empty if the cluster declares none."""
        return rack_names(self.brokers)

    def wanted(self, topic: str) -> int | None:
        """Wanted factor of a topic, None if it is exempt."""
        return None if topic in self.exempt else self.topic_factors.get(topic, self.factor)

    def leaders_of_changed(self, plan: Plan) -> Column:
        """int32 array: leader of each partition of the plan; null if not known."""
        leader = self.columns.leader[rows_of(plan, self.columns)]
        return ids_of(leader, self.brokers)

    def _missing(self, columns: Columns) -> Ints:
        per_topic = np.array([self.wanted(topic) or 0 for topic in columns.topics], dtype=np.int32)
        wanted = per_topic[columns.topic] if len(per_topic) else np.zeros(0, np.int32)
        missing: Ints = np.maximum(wanted - columns.held_count, 0).astype(np.int32)
        return missing


def _check_factors(factor: int, topic_factors: Mapping[str, int]) -> None:
    topics = {f" for topic {topic!r}": wanted for topic, wanted in sorted(topic_factors.items())}
    for whose, wanted in ({"": factor} | topics).items():
        if wanted < 1:
            raise ProblemError(None, f"replication factor {wanted}{whose} is below 1")
        if wanted > MOST_REPLICAS:
            raise ProblemError(None, f"replication factor {wanted}{whose} is above {MOST_REPLICAS}, Kafka's own limit")


def dead_replicas(columns: Columns, brokers: Sequence[Broker]) -> Bools:
    """bool[N]: partitions with a replica on a broker that is not alive."""
    dead = np.array([not broker.alive for broker in brokers], dtype=bool)
    if not dead.any():
        return np.zeros(len(columns.held), dtype=bool)
    return np.asarray((dead[columns.held] & (columns.held >= 0)).any(axis=1))


def check_reachable(columns: Columns, missing: Ints, brokers: Sequence[Broker]) -> None:
    """Refuse a partition that has fewer brokers to stand on than it needs. missing: int32[N] replicas to add."""
    alive, takes = (np.array([getattr(b, name) for b in brokers], dtype=bool) for name in ("alive", "takes"))
    live, able = int(alive.sum()), alive & takes
    # Replicas that stay on brokers that take none leave the others free.
    free = able.sum() - (able[columns.held] & (columns.held >= 0)).sum(axis=1)
    above = np.flatnonzero((missing > 0) & (missing > free))
    if not len(above):
        return
    at = above[np.argmin(columns.source_row[above])]
    factor = int(columns.held_count[at] + missing[at])
    reason = f"{columns.name(at)} wants replication factor {factor}, but only {live} brokers are alive"
    if factor <= live:
        reason = (
            f"{columns.name(at)} wants {missing[at]} more replicas, but only {free[at]} of the brokers that may take "
            "one have none of it: exclude fewer brokers, or exclude the topic"
        )
    raise ProblemError(int(columns.source_row[at]) + 1, reason)


def rows_of(plan: Plan, columns: Columns) -> Ints:
    """int64[n]: the row of `columns` for each row of the plan."""
    topic = codes_among(plan.table.column("topic"), list(columns.topics))
    key = columns.topic.astype(np.int64) << 32 | columns.partition
    return np.searchsorted(key, topic << 32 | integers(plan.table.column("partition")))


def ids_of(broker: Ints, brokers: Sequence[Broker]) -> Column:
    """int32 array of broker ids from indexes, null for -1."""
    ids = np.array([b.id for b in brokers], dtype=np.int32)
    return pa.array(ids[broker], pa.int32(), mask=broker < 0)
