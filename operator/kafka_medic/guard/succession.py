"""What a restart would leave to a broker whose view is stale.

A broker that goes hands what it leads to the first of the partition's replicas that is in sync and up, in their order
(KRaft: PartitionChangeBuilder.electAnyLeader; ZooKeeper: ControlledShutdownPartitionLeaderElectionStrategy). A stale
broker does not hear of it: nobody serves the partition, and nobody catches up with it, the restarted broker included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafka_medic.cluster.agreement import agreement
from kafka_medic.cluster.snapshot import Mode, PartitionRow, Snapshot, TopicPartition
from kafka_medic.cluster.software_version import parse_version, within
from kafka_medic.guard.rows import known_ids, troubled_rows

KEEPS_EPOCH = parse_version("3.6.0")


def successor(row: PartitionRow, gone: Collection[int]) -> int | None:
    """Who leads the partition once these have gone; None: nobody, or not known."""
    isr = known_ids(row.isr)
    if isr is None or known_ids(row.replicas) is None:
        return None
    return next((b for b in row.replicas or () if b in isr and b not in gone and b is not None), None)


def left_to_stale(
    snapshot: Snapshot,
    broker: int,
    rows: Iterable[PartitionRow] | None,
    stale: Collection[int],
    away: Collection[int] = (),
) -> dict[TopicPartition, int]:
    """The partitions that the restart of `broker` takes from whoever serves them, and which of the `stale` brokers is
    to lead them then. Also what a stale broker leads already, where the end of `broker` raises the leader epoch: it
    does not hear of that either."""
    others = set(stale) - {broker}
    if not others or rows is None:
        return {}
    gone = {broker, *away}
    found, raised = {}, _raises_epoch(snapshot)
    for row in rows:
        next_ = successor(row, gone) if row.leader == broker else None
        if raised and row.leader in others and broker in (known_ids(row.isr) or ()):
            next_ = row.leader
        if next_ is not None and next_ in others:
            found[row.tp] = next_
    return found


def _raises_epoch(snapshot: Snapshot) -> bool:
    """Whether, or possibly, the leader epoch rises when a follower leaves an ISR by its end: with ZooKeeper it does
    (KafkaController.onReplicasBecomeOffline), with KRaft before 3.6 (KAFKA-15021)."""
    if snapshot.cluster.mode is not Mode.KRAFT:
        return True
    named = (b.version or snapshot.cluster.version for b in snapshot.brokers or () if b.registered is not False)
    versions = [parse_version(version) for version in named]
    return any(v is None or within(v, None, KEEPS_EPOCH) is not False for v in versions)


def harmless_first(snapshot: Snapshot, brokers: Iterable[int]) -> list[int]:
    """In the given order, those first whose restart leaves nothing to a stale broker."""
    stale = agreement(snapshot).disagreements
    return sorted(brokers, key=lambda b: bool(stale and left_to_stale(snapshot, b, troubled_rows(snapshot, b), stale)))
