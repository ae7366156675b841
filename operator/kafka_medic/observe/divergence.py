"""What only a stale leader holds: records that it accepted and that the cluster's own log does not have.

A broker that still thinks that it leads a partition takes writes (with acks=1 all of them) that are thrown away when it
comes back to the cluster and truncates to the leader's log. How many they are is measured before anything restarts it:
its own log end, beyond its high watermark, against the end of that leader epoch in the log of whoever leads by the
authority (KIP-101: where the epochs part, the logs part).
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_medic.clients.ports import BrokerView, FailureKind, KafkaReads, PartitionState, ReadFailed
from kafka_medic.cluster.snapshot import NO_LEADER, DivergedLog, TopicPartition

MAX_PARTITIONS = 5000
"""Of one broker, as many as are measured at once; more is a failed read, not a smaller number."""


def stale_leaderships(
    view: BrokerView, authority: Mapping[TopicPartition, PartitionState]
) -> dict[TopicPartition, int]:
    """Partitions that the broker believes it leads, though the authority has another leader of a newer epoch: with the
    epoch of its belief."""
    found = {}
    for mine in view.partitions:
        tp = TopicPartition(mine.topic, mine.partition)
        newest = authority.get(tp)
        if mine.leader != view.broker or mine.leader_epoch is None or newest is None or newest.leader_epoch is None:
            continue
        if newest.leader_epoch > mine.leader_epoch and newest.leader != view.broker:
            found[tp] = mine.leader_epoch
    return found


def diverged_logs(
    kafka: KafkaReads, view: BrokerView, authority: Mapping[TopicPartition, PartitionState]
) -> tuple[DivergedLog, ...]:
    """Each partition that the broker leads by its own stale view, with where its log parts from the cluster's. Where
    nobody leads by the authority the end of the common part is not known. Raises ReadFailed."""
    stale = stale_leaderships(view, authority)
    if not stale:
        return ()
    if len(stale) > MAX_PARTITIONS:
        raise ReadFailed(
            FailureKind.OTHER, f"broker {view.broker} is stale on {len(stale)} partitions; at most {MAX_PARTITIONS}"
        )
    own_ends = kafka.own_log_ends(view.broker, sorted(stale))
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    for tp, epoch in stale.items():
        if authority[tp].leader != NO_LEADER:
            by_leader.setdefault(authority[tp].leader, {})[tp] = epoch
    shared: dict[TopicPartition, int] = {}
    for leader, asked in sorted(by_leader.items()):
        shared |= kafka.epoch_ends(leader, asked)
    return tuple(
        DivergedLog(tp.topic, tp.partition, epoch, own_ends.get(tp), shared.get(tp))
        for tp, epoch in sorted(stale.items())
    )
