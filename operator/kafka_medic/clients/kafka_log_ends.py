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

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.cluster.snapshot import TopicPartition

DEBUGGING_REPLICA = -2
LATEST = -1
ABSENT = (
    errors.UnknownTopicOrPartitionError,
    errors.ReplicaNotAvailableError,
    errors.NotLeaderForPartitionError,
    # Of one that leads only now: until its followers have fetched from it, it cannot tell consumers an end (KIP-207).
    errors.OffsetNotAvailableError,
    errors.LeaderNotAvailableError,
    # It leads, under another epoch than the one that was asked about (KIP-320).
    errors.FencedLeaderEpochError,
    errors.UnknownLeaderEpochError,
)
"""Errors of a partition that the broker does not hold, or does not serve."""


def log_ends_request(partitions: Iterable[TopicPartition]) -> Any:
    """ListOffsets for the log end offset."""
    topic, part = ListOffsetsRequest.ListOffsetsTopic, ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
    topics = [
        topic(name=name, partitions=[part(partition_index=tp.partition, timestamp=LATEST) for tp in group])
        for name, group in groupby(sorted(partitions), key=lambda tp: tp.topic)
    ]
    return ListOffsetsRequest(replica_id=DEBUGGING_REPLICA, isolation_level=0, topics=topics)


def log_ends(answer: Any) -> dict[TopicPartition, int | ReadFailed]:
    """Nothing for a partition that the broker does not hold, or not serve; ReadFailed for any other error."""
    return _ends((t.name, p.partition_index, p.error_code, p.offset) for t in answer.topics for p in t.partitions)


def epoch_ends_request(epochs: Mapping[TopicPartition, int]) -> Any:
    """OffsetsForLeaderEpoch."""
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    part = topic.OffsetForLeaderPartition
    topics = [
        topic(topic=name, partitions=[part(partition=tp.partition, leader_epoch=epochs[tp]) for tp in group])
        for name, group in groupby(sorted(epochs), key=lambda tp: tp.topic)
    ]
    return OffsetForLeaderEpochRequest(replica_id=DEBUGGING_REPLICA, topics=topics)


def epoch_ends(answer: Any) -> dict[TopicPartition, int | ReadFailed]:
    """As `log_ends`; an epoch that the broker never had is left out."""
    return _ends((t.topic, p.partition, p.error_code, p.end_offset) for t in answer.topics for p in t.partitions)


def known(found: Mapping[TopicPartition, int | ReadFailed]) -> dict[TopicPartition, int]:
    """Those that could be read. Raises the first failure when there is nothing else."""
    ends = {tp: end for tp, end in found.items() if not isinstance(end, ReadFailed)}
    failed = next((end for end in found.values() if isinstance(end, ReadFailed)), None)
    if failed is not None and not ends:
        raise failed
    return ends


def _ends(rows: Iterable[tuple[str, int, int, int]]) -> dict[TopicPartition, int | ReadFailed]:
    found: dict[TopicPartition, int | ReadFailed] = {}
    for topic, partition, code, offset in rows:
        error = errors.for_code(code)
        if code and not issubclass(error, ABSENT):
            message = f"log end of {topic}-{partition}: {error.__name__}"
            found[TopicPartition(topic, partition)] = ReadFailed(FailureKind.OTHER, message)
        elif not code and offset >= 0:
            found[TopicPartition(topic, partition)] = offset
    return found
