"""librdkafka: a topic of our own, written and read record by record."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Assignment

from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.librdkafka import client_settings
from kafka_medic.clients.ports import Connection, LogRecord, OwnRecord
from kafka_medic.cluster.snapshot import TopicPartition

WRITE_SECONDS = 60.0
READ_SECONDS = 60.0
KNOWN_SECONDS = 15.0
"""Until a topic that was just made has to be known."""


class OwnTopics:
    """Writes and reads topics that are this project's. Connects for each call: calls are rare."""

    def __init__(self, connection: Connection) -> None:
        self._settings = client_settings(connection)
        self._seconds = connection.timeout_seconds

    def append(self, topic: str, partition: int, records: Iterable[OwnRecord]) -> int:
        """Written with acks=all by an idempotent producer; answers how many were acknowledged. Raises WriteFailed when
        one was not: those before it may have been."""
        failures: list[str] = []
        acked = 0

        def delivered(error: Any, _: Any) -> None:
            nonlocal acked
            if error is None:
                acked += 1
            else:
                failures.append(str(error))

        producer = Producer(
            {
                **self._settings,
                "acks": "all",
                "enable.idempotence": True,
                "queue.buffering.max.messages": 10000,
                "delivery.timeout.ms": int(WRITE_SECONDS * 1000),
            }
        )
        for record in records:
            while not failures:
                try:
                    producer.produce(
                        topic,
                        record.value,
                        record.key,
                        partition,
                        on_delivery=delivered,
                        timestamp=max(0, record.timestamp_ms),
                        headers=list(record.headers),
                    )
                    break
                except BufferError:
                    producer.poll(0.1)  # the queue is bounded: wait for room
            producer.poll(0)
        left = producer.flush(WRITE_SECONDS)
        if failures or left:
            reason = failures[0] if failures else f"{left} records not acknowledged in {WRITE_SECONDS:.0f} s"
            raise WriteFailed(FailureKind.UNREACHABLE, f"write to {topic}-{partition}: {reason}")
        return acked

    def read_topic(self, topic: str, partition: int) -> Iterator[LogRecord]:
        """Every record from the beginning to the end as it is now. Raises ReadFailed."""
        tp = TopicPartition(topic, partition)
        consumer, begin, end = self._consumer(tp)
        try:
            consumer.assign([Assignment(topic, partition, begin)])
            deadline = time.monotonic() + READ_SECONDS
            at = begin
            while at < end:
                if time.monotonic() > deadline:
                    raise ReadFailed(FailureKind.UNREACHABLE, f"read {tp}: not read through in {READ_SECONDS:.0f} s")
                message = consumer.poll(0.5)
                if message is None:
                    continue
                if (error := message.error()) is not None:
                    raise ReadFailed(FailureKind.OTHER, f"read {tp}: {error.str()}")
                at = (message.offset() or 0) + 1
                raw: Any = message.headers() or ()
                headers = tuple((str(k), v if isinstance(v, bytes) else None) for k, v in raw)
                yield LogRecord(tp, at - 1, message.timestamp()[1], message.key(), message.value(), headers)
        finally:
            consumer.close()

    def _consumer(self, tp: TopicPartition) -> tuple[Consumer, int, int]:
        """A consumer that knows the partition, and its bounds. A topic that was just made is not known to every broker
        yet, and to a stale one not at all: then another consumer, which may come to another broker."""
        deadline = time.monotonic() + KNOWN_SECONDS
        while True:
            consumer = Consumer(
                {
                    **self._settings,
                    "group.id": "kafka-medic-reads-without-a-group",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "allow.auto.create.topics": False,
                }
            )
            try:
                begin, end = consumer.get_watermark_offsets(Assignment(tp.topic, tp.partition), timeout=self._seconds)
            except KafkaException as problem:
                consumer.close()
                error: Any = problem.args[0]
                unknown = error.code() in (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)
                if not unknown or time.monotonic() > deadline:
                    raise ReadFailed(FailureKind.UNREACHABLE, f"read {tp}: {error.str()}") from None
                time.sleep(0.2)
            else:
                return consumer, begin, end
