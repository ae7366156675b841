"""The planner's input: the partitions as they are, the brokers, and the factor that is wanted.

Pure. A `Problem` that exists is a problem that can be planned: everything that would make a plan
wrong is refused when it is built, with the row and the reason.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from kafka_medic.plan.arrow import Column
from kafka_medic.plan.columns import BadRowError, Columns, Ints, read_columns

__all__ = ["Broker", "Problem", "ProblemError", "rack_names"]


LARGEST_DISK = 1 << 60
"""1 EiB."""
HEAVIEST = 1000.0
"""How many times an ordinary broker one may count; and as small a part of it."""


class ProblemError(ValueError):
    """Input that cannot be planned.

    row: which record, counted from 1 in the order given; None where no single record is at fault.
    table: "partitions" or "brokers".
    """

    def __init__(self, row: int | None, reason: str, table: str = "partitions") -> None:
        self.row = row
        self.reason = reason
        self.table = table
        super().__init__(reason if row is None else f"row {row}: {reason}")


@dataclass(frozen=True)
class Broker:
    """One broker; `rack` is its failure domain, `alive` whether it can take a replica now, `disk_free` the bytes that
    new replicas may take on its disks, None where that is not known, `weight` how much it is to hold beside others."""

    id: int
    rack: str | None = None
    alive: bool = True
    disk_free: int | None = None
    weight: float = 1.0


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

    Raises ProblemError, see the checks below.
    """

    partitions: pa.Table
    brokers: tuple[Broker, ...]
    factor: int
    topic_factors: Mapping[str, int] = field(default_factory=dict)
    exempt: frozenset[str] = frozenset()
    whole: bool = True
    by_bytes: bool = False
    columns: Columns = field(init=False, repr=False)
    missing: Ints = field(init=False, repr=False)
    """int32 per row of `columns`: replicas to add, 0 for a partition that is left alone."""

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.brokers, key=lambda broker: broker.id))
        _check_brokers(self.brokers)
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
        missing = self._missing(columns)
        check_reachable(columns, missing, ordered)
        object.__setattr__(self, "missing", missing)

    @property
    def racks(self) -> tuple[str, ...]:
        """Names of the racks with a live broker, sorted; empty if the cluster declares none."""
        return rack_names(self.brokers)

    def wanted(self, topic: str) -> int | None:
        """Wanted factor of a topic, None if it is exempt."""
        return None if topic in self.exempt else self.topic_factors.get(topic, self.factor)

    def leaders_of_changed(self) -> Column:
        """int32 array: leader of each partition that must grow, by topic and partition; null if not known.

        Parallel to the rows of any plan for this problem.
        """
        leader = self.columns.leader[self.missing > 0]
        ids = np.array([broker.id for broker in self.brokers], dtype=np.int32)
        return pa.array(ids[leader], pa.int32(), mask=leader < 0)

    def _missing(self, columns: Columns) -> Ints:
        per_topic = np.array([self.wanted(topic) or 0 for topic in columns.topics], dtype=np.int32)
        wanted = per_topic[columns.topic] if len(per_topic) else np.zeros(0, np.int32)
        missing: Ints = np.maximum(wanted - columns.held_count, 0).astype(np.int32)
        return missing


def rack_names(brokers: Iterable[Broker]) -> tuple[str, ...]:
    """Names of the racks with a live broker, sorted; empty if none is declared."""
    return tuple(sorted({b.rack for b in brokers if b.alive and b.rack}))


def _check_brokers(brokers: Iterable[Broker]) -> None:
    listed = list(enumerate(brokers, start=1))
    seen: set[int] = set()
    for row, broker in listed:
        if fault := _fault(broker, seen):
            raise ProblemError(row, fault, "brokers")
        seen.add(broker.id)
    if not seen:
        raise ProblemError(None, "no broker is listed", "brokers")
    # A dead broker registers no rack; that is not a fault in the input.
    named = next((broker for _, broker in listed if broker.alive and broker.rack), None)
    row, rackless = next(((row, broker) for row, broker in listed if broker.alive and not broker.rack), (0, None))
    if rackless is not None and named is not None:
        reason = f"broker {rackless.id} has no rack while broker {named.id} has one: give all of them a rack, or none"
        raise ProblemError(row, reason, "brokers")


def _fault(broker: Broker, seen: Container[int]) -> str | None:
    """What is wrong with this broker alone; seen: ids of those before it."""
    number, free, weight = broker.id, broker.disk_free, broker.weight
    if not 0 <= number < 1 << 31:
        return f"broker id {number} is not between 0 and 2147483647"
    if number in seen:
        return f"broker {number} is listed twice"
    if free is not None and not 0 <= free <= LARGEST_DISK:
        return f"diskFree {free} of broker {number} is {'negative' if free < 0 else 'larger than any disk'}"
    if not 1 / HEAVIEST <= weight <= HEAVIEST:
        return f"weight {weight} of broker {number} is not between {1 / HEAVIEST} and {HEAVIEST:.0f}"
    return None


def _check_factors(factor: int, topic_factors: Mapping[str, int]) -> None:
    if factor < 1:
        raise ProblemError(None, f"replication factor {factor} is below 1")
    for topic, wanted in sorted(topic_factors.items()):
        if wanted < 1:
            raise ProblemError(None, f"replication factor {wanted} for topic {topic!r} is below 1")


def check_reachable(columns: Columns, missing: Ints, brokers: tuple[Broker, ...]) -> None:
    """Refuse what a reassignment could not finish: too few live brokers, or a dead one in the set."""
    alive = np.array([broker.alive for broker in brokers], dtype=bool)
    live = int(alive.sum())
    grows = missing > 0
    above = np.flatnonzero(grows & (columns.held_count + missing > live))
    if len(above):
        at = above[np.argmin(columns.source_row[above])]
        factor = int(columns.held_count[at] + missing[at])
        reason = f"{columns.name(at)} wants replication factor {factor}, but only {live} brokers are alive"
        raise ProblemError(int(columns.source_row[at]) + 1, reason)
    dead = (columns.held >= 0) & ~alive[columns.held]
    stuck = np.flatnonzero(grows & dead.any(axis=1))
    if len(stuck):
        at = stuck[np.argmin(columns.source_row[stuck])]
        broker = brokers[int(columns.held[at][dead[at]][0])].id
        reason = (
            f"{columns.name(at)} needs a replica but holds one on broker {broker}, which is not alive: "
            "bring the broker back or replace that replica first"
        )
        raise ProblemError(int(columns.source_row[at]) + 1, reason)
