"""The canary's own topic: what it looks like, and the next small change that makes each broker lead a part of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import Broker, ConfigValue, PartitionRow, Snapshot, TopicPartition

MARKER: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "3600000",
    "retention.bytes": "1048576",
    "segment.bytes": "1048576",
    "segment.ms": "3600000",
    "max.message.bytes": "1613",
}
"""Set on the topic itself when it is made. Records are a hundred bytes, and nobody reads them later than an hour.
Together they are also how the topic is known again as ours: Kafka keeps no labels on topics, and nobody has 1613 bytes
as the largest record by chance."""

SOURCES = ("kafka", "views", "reassignments")


@dataclass(frozen=True, slots=True)
class Create:
    """Make the topic: the replicas of each partition, preferred leader first."""

    assignment: tuple[tuple[int, ...], ...]
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Add:
    """Raise the number of partitions; `assignment` are the new ones' replicas."""

    total: int
    assignment: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Reassign partitions of the canary to these replicas."""

    targets: tuple[tuple[TopicPartition, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Elect:
    """Make the first replica of each the leader."""

    partitions: tuple[TopicPartition, ...]


Change = Create | Add | Place | Elect


def receivers(change: Change, snapshot: Snapshot, topic: str) -> frozenset[int]:
    """The brokers that hold a replica of what changes: each receives one, may come to lead, or has to hear of a new
    leader epoch."""
    rows = {TopicPartition(r.topic, r.partition): r.replicas or () for r in rows_of(snapshot, topic)}
    match change:
        case Create(assignment, _) | Add(_, assignment):
            return frozenset(b for ids in assignment for b in ids)
        case Place(targets):
            return frozenset(b for _, ids in targets for b in ids)
        case Elect(partitions):
            return frozenset(b for tp in partitions for b in rows.get(tp, ()))


def recognised(configs: Mapping[str, ConfigValue]) -> bool:
    """Whether a topic with these settings was made by us."""
    return all((v := configs.get(name)) is not None and v.dynamic and v.value == want for name, want in MARKER.items())


def rows_of(snapshot: Snapshot, topic: str) -> tuple[PartitionRow, ...]:
    """The topic's partitions in order; none when it is not there, and when partitions are not known."""
    if snapshot.partitions is None:
        return ()
    wanted = pa.array([topic], pa.string())
    mine: Any = snapshot.partitions.filter(pc.is_in(snapshot.partitions["topic"], value_set=wanted))
    rows = snapshot.rows({TopicPartition(topic, p) for p in mine["partition"].to_pylist()})
    return tuple(sorted(rows, key=lambda r: r.partition))


def hindrances(snapshot: Snapshot, topic: str) -> tuple[str, ...]:
    """Why the topic must not be touched now, in sentences; none: it may. A cluster in which something moves or is
    missing has other worries, and a broker that is away for a restart must not lose its partition over it."""
    unknown = _unknown_sources(snapshot)
    if snapshot.brokers is None or snapshot.partitions is None:
        return (*unknown, "brokers or partitions are not known")
    removed = _removed(snapshot, topic)
    brokers = [b for b in snapshot.brokers if b.id not in removed]
    found = [*unknown, *_broker_hindrances(brokers)]
    if silent := [b.id for b in brokers if snapshot.unplaced and b.pod is None]:
        found.append(f"not yet known in which Pods: brokers {', '.join(map(str, silent))}")
    found += map(str, snapshot.rollouts or ())
    live = {b.id for b in brokers if b.live}
    if any(v.members is None or set(v.members) != live for v in snapshot.views or () if v.broker in live):
        found.append("the brokers disagree on the members")
    if _moving(snapshot.partitions):
        found.append("a reassignment is in flight")
    return tuple(found)


def _unknown_sources(snapshot: Snapshot) -> list[str]:
    needed = SOURCES + (("zookeeper",) if snapshot.source("zookeeper") else ())
    return [f"{name} is not known" for name in needed if (source := snapshot.source(name)) is None or not source.known]


def _broker_hindrances(brokers: Sequence[Broker]) -> list[str]:
    down = [b.id for b in brokers if not b.live]
    starting = [b.id for b in brokers if b.pod is not None and b.pod.ready is not True]
    leaving = [b.id for b in brokers if b.pod and (b.pod.cordoned or b.pod.deleting or b.pod.maintenance)]
    return [
        f"{state}: brokers {', '.join(map(str, ids))}"
        for state, ids in (
            ("not registered and answering", down),
            ("without a Ready Pod", starting),
            ("about to go", leaving),
        )
        if ids
    ]


def next_change(snapshot: Snapshot, topic: str, factor: int, min_isr: int) -> Change | None:
    """The next step towards each live broker leading at least one partition of `topic`; None if nothing is left to do.
    To be called only without hindrances. One kind of change at a time, the cheapest that helps: an election before a
    new partition, a new partition before a move."""
    live = {b.id: b for b in snapshot.brokers or () if b.live}
    if not live:
        return None
    rows = rows_of(snapshot, topic)
    placing = _Placing(live, min(factor, len(live)), Counter(b for r in rows for b in r.replicas or ()))
    if not rows:
        return _create(placing, min_isr)
    lacking = sorted(set(live) - {r.leader for r in rows if r.leader is not None})
    return (
        _off_removed(rows, _removed(snapshot, topic), placing)
        or _elect(rows, lacking)
        or _give_partitions(rows, lacking, placing)
    )


@dataclass(slots=True)
class _Placing:
    """Live brokers by id, replicas for each partition, and how many replicas of the topic each broker holds."""

    live: Mapping[int, Broker]
    factor: int
    load: Counter[int]

    def replicas(self, leader: int) -> tuple[int, ...]:
        """`leader` first, then the broker on an unused rack that holds least. `load` grows by them."""
        chosen = [leader]
        while len(chosen) < self.factor:
            racks = {self.live[b].rack for b in chosen if b in self.live}
            rest = [b for b in self.live if b not in chosen]
            chosen.append(min(rest, key=lambda b: (self.live[b].rack in racks, self.load[b], b)))
        self.load.update(chosen)
        return tuple(chosen)

    def preferred_leader(self, row: PartitionRow) -> int:
        """The first replica that is live; else the live broker that holds least."""
        kept = [b for b in row.replicas or () if b in self.live]
        return kept[0] if kept else min(self.live, key=lambda b: (self.load[b], b))


def _create(placing: _Placing, min_isr: int) -> Create:
    """A partition for each live broker."""
    assignment = tuple(placing.replicas(b) for b in sorted(placing.live))
    # With as many in sync as there are replicas, one broker down would stop every write.
    in_sync = max(1, min(min_isr, placing.factor - 1))
    return Create(assignment, {**MARKER, "min.insync.replicas": str(in_sync)})


def _off_removed(rows: Sequence[PartitionRow], removed: set[int], placing: _Placing) -> Place | None:
    """Move partitions off brokers that have left for good."""
    stale = [r for r in rows if set(r.replicas or ()) & removed]
    targets = tuple((r.tp, placing.replicas(placing.preferred_leader(r))) for r in stale)
    return Place(targets) if targets else None


def _elect(rows: Sequence[PartitionRow], lacking: Sequence[int]) -> Elect | None:
    """Brokers without a leadership become leader where they are the preferred replica and in sync."""
    ready = {
        r.replicas[0]: r.tp for r in rows if r.replicas and r.replicas[0] in lacking and r.replicas[0] in (r.isr or ())
    }
    return Elect(tuple(ready.values())) if ready else None


def _give_partitions(rows: Sequence[PartitionRow], lacking: Sequence[int], placing: _Placing) -> Add | Place | None:
    """Brokers that no partition prefers get one: a new partition while there are fewer than live brokers, else a spare
    one. A broker that a partition prefers already is still catching up."""
    preferred = {r.replicas[0] for r in rows if r.replicas}
    unplaced = [b for b in lacking if b not in preferred]
    if unplaced and len(rows) < len(placing.live):
        new = tuple(placing.replicas(b) for b in unplaced[: len(placing.live) - len(rows)])
        return Add(len(rows) + len(new), new)
    targets = tuple((r.tp, placing.replicas(b)) for b, r in zip(unplaced, _spare(rows), strict=False))
    return Place(targets) if targets else None


def _spare(rows: Sequence[PartitionRow]) -> list[PartitionRow]:
    """Partitions whose preferred leader is another partition's as well."""
    seen: set[int] = set()
    spare = []
    for row in rows:
        if row.replicas and row.replicas[0] not in seen:
            seen.add(row.replicas[0])
        else:
            spare.append(row)
    return spare


def _removed(snapshot: Snapshot, topic: str) -> set[int]:
    """Brokers that have left for good: not registered, without a Pod, and named by no partition but the canary's own.
    Only where Pods are known and there are other partitions to tell by: else a broker may merely be down."""
    kubernetes = snapshot.source("kubernetes")
    if kubernetes is None or not kubernetes.known or snapshot.partitions is None:
        return set()
    brokers = [b for b in snapshot.brokers or () if b.registered is False and b.reachable is not True]
    gone = {b.id for b in brokers if snapshot.without_pod(b.id)}
    if not gone:
        return set()
    others = [r for r in snapshot.rows() if r.topic != topic]
    named = {b for r in others for b in r.replicas or ()}
    return gone - named if others and all(r.replicas is not None for r in others) else set()


def _moving(table: pa.Table) -> bool:
    """Whether a reassignment is in flight, or for some partition may be."""
    for name in ("adding", "removing"):
        lengths: Any = pc.list_value_length(table[name])
        if lengths.null_count or (pc.sum(lengths).as_py() or 0) > 0:
            return True
    return False
