"""kafka-python: where logs end, asked of one named broker as a replica would see it.

Both requests go out with the replica id -2, Kafka's "debugging consumer": it may see past the high watermark, which on
a leader that nobody follows stands still (KIP-101, and the comment on ReplicaId in Kafka's own message definitions).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from kafka import errors
from kafka.protocol.consumer.offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest

from kafka_medic.clients.ports import FailureKind, ReadFailed
from kafka_medic.cluster.snapshot import TopicPartition

DEBUGGING_REPLICA = -2
CONSUMER = -1
LATEST, EARLIEST = -1, -2
_ABSENT = (
    errors.UnknownTopicOrPartitionError,
    errors.ReplicaNotAvailableError,
    errors.NotLeaderForPartitionError,
    # Of one that leads only now: until its followers have fetched from it, it cannot tell consumers an end (KIP-207).
    errors.OffsetNotAvailableError,
    errors.LeaderNotAvailableError,
)


def log_ends_request(
    partitions: Iterable[TopicPartition], *, replica: int = DEBUGGING_REPLICA, timestamp: int = LATEST
) -> Any:
    """ListOffsets for the log end offset; as a CONSUMER for the high watermark; for EARLIEST the log start."""
    topic, part = ListOffsetsRequest.ListOffsetsTopic, ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
    topics = [
        topic(name=name, partitions=[part(partition_index=tp.partition, timestamp=timestamp) for tp in group])
        for name, group in groupby(sorted(partitions), key=lambda tp: tp.topic)
    ]
    return ListOffsetsRequest(replica_id=replica, isolation_level=0, topics=topics)


def log_ends(answer: Any) -> dict[TopicPartition, int]:
    """Raises ReadFailed for an error other than that the broker does not hold, or not serve, the partition."""
    return _told((t.name, p.partition_index, p.error_code, p.offset) for t in answer.topics for p in t.partitions)


def epoch_ends_request(epochs: Mapping[TopicPartition, int]) -> Any:
    """OffsetsForLeaderEpoch."""
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    part = topic.OffsetForLeaderPartition
    topics = [
        topic(topic=name, partitions=[part(partition=tp.partition, leader_epoch=epochs[tp]) for tp in group])
        for name, group in groupby(sorted(epochs), key=lambda tp: tp.topic)
    ]
    return OffsetForLeaderEpochRequest(replica_id=DEBUGGING_REPLICA, topics=topics)


def epoch_ends(answer: Any) -> dict[TopicPartition, int]:
    """As `log_ends`; an epoch that the broker never had is left out."""
    return _told((t.topic, p.partition, p.error_code, p.end_offset) for t in answer.topics for p in t.partitions)


def _told(rows: Iterable[tuple[str, int, int, int]]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, partition, code, offset in rows:
        error = errors.for_code(code)
        if code and not issubclass(error, _ABSENT):
            raise ReadFailed(FailureKind.OTHER, f"log end of {topic}-{partition}: {error.__name__}")
        if not code and offset >= 0:
            found[TopicPartition(topic, partition)] = offset
    return found
