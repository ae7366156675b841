"""kafka-python: reading one named broker's own log, past the high watermark and whoever leads.

Under the replica id -3, by which Kafka's own code means a replica that moves between two disks of one broker: it is no
consumer, so the high watermark is no bound, and no follower, so nobody's fetch state is touched and the right to read
the topic is enough (FetchRequest.isConsumer and FetchIsolation in Kafka's source). Of a stale leader that nobody
follows everything past the high watermark is what it alone has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka import errors
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.record.memory_records import MemoryRecords

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import LogRecord
from kafka_medic.cluster.snapshot import TopicPartition

FUTURE_LOCAL_REPLICA = -3
CHUNK_BYTES = 1024 * 1024
NAMES_UNTIL = 12
"""The last version of Fetch that names topics; later ones want ids, which a stale broker may not know (KIP-516)."""


def fetch_request(tp: TopicPartition, start: int) -> Any:
    topic = FetchRequest.FetchTopic
    part = topic.FetchPartition(
        partition=tp.partition,
        current_leader_epoch=-1,
        fetch_offset=start,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=CHUNK_BYTES,
    )
    return FetchRequest(
        replica_id=FUTURE_LOCAL_REPLICA,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=CHUNK_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[topic(topic=tp.topic, partitions=[part])],
        forgotten_topics_data=[],
        rack_id="",
        max_version=NAMES_UNTIL,
    )


def fetched(answer: Any, tp: TopicPartition, start: int, end: int) -> tuple[list[LogRecord], int]:
    """Records from `start` (inclusive) to `end` (exclusive) and the offset to go on from. Markers that Kafka writes for
    itself (transactions) are left out. Raises ReadFailed, also when no step ahead was made."""
    if answer.error_code:
        raise ReadFailed(FailureKind.OTHER, f"log of {tp}: {errors.for_code(answer.error_code).__name__}")
    (partition,) = (p for t in answer.responses for p in t.partitions)
    if partition.error_code:
        raise ReadFailed(FailureKind.OTHER, f"log of {tp}: {errors.for_code(partition.error_code).__name__}")
    found: list[LogRecord] = []
    after = start
    for batch in _batches(MemoryRecords(partition.records or b"")):
        for record in batch:
            after = max(after, record.offset + 1)
            if start <= record.offset < end and not getattr(batch, "is_control_batch", False):
                headers = tuple((key, value) for key, value in record.headers or ())
                found.append(LogRecord(tp, record.offset, record.timestamp, record.key, record.value, headers))
        # A compacted batch ends past its last record.
        base, delta = getattr(batch, "base_offset", None), getattr(batch, "last_offset_delta", None)
        if base is not None and delta is not None:
            after = max(after, base + delta + 1)
    if after == start:
        raise ReadFailed(FailureKind.OTHER, f"log of {tp}: nothing to read at offset {start}, though it ends at {end}")
    return found, after


def _batches(records: MemoryRecords) -> Iterator[Any]:
    while records.has_next():
        yield records.next_batch()
