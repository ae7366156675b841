"""confluent-kafka (librdkafka): the canary's producer and reader.

Written as librdkafka wants to be used: one producer, kept; a bounded queue, and what does not fit is refused instead
of waited for; a delivery report for each record; retries left to the library, within `delivery.timeout.ms`, and none
beside it; acks=all and idempotence; a fatal error ends the client. Reading is by assignment, so no group is joined and
no offset committed. librdkafka wants a group id nevertheless and looks for its coordinator, which reading does not
depend on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as RdTopicPartition

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.librdkafka import client_settings
from kafka_medic.clients.ports import Broken, CanaryEvent, Connection, Delivered, Returned, Undelivered, Unread

GROUP = "kafka-medic-canary"
QUEUE_RECORDS = 1000
"""More than one record for each broker of any cluster that we know of; never more than one a partition is waiting."""
QUEUE_KBYTES = 1024
FETCH_BYTES = 16384
RECEIVE_BYTES = 1 << 20
"""Of one answer. The longest is the metadata of all brokers and the canary's partitions."""
MOST_AT_ONCE = 1000
"""Records taken from the reader's queue in one poll."""

REFUSALS = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)

# What fails reaches us through delivery reports, messages and the error callback.
_LOG = logging.getLogger(f"{__name__}.own")
_LOG.setLevel(logging.CRITICAL)


class LibrdkafkaCanary:
    """Implements `ports.CanaryClient` for one topic. `delivery_seconds` is the time from send to report at most."""

    def __init__(self, connection: Connection, topic: str, delivery_seconds: float) -> None:
        self._topic = topic
        self._events: list[CanaryEvent] = []
        milliseconds = max(1, int(delivery_seconds * 1000))
        common = client_settings(connection) | {
            "client.id": "kafka-medic-canary",
            "error_cb": self._on_error,
            "message.max.bytes": FETCH_BYTES,  # else fetch.max.bytes is raised to it
            "receive.message.max.bytes": RECEIVE_BYTES,
        }
        try:
            self._producer = Producer(
                common
                | {
                    "acks": "all",
                    "enable.idempotence": True,
                    "delivery.timeout.ms": milliseconds,
                    "request.timeout.ms": milliseconds,
                    "linger.ms": 0,
                    "queue.buffering.max.messages": QUEUE_RECORDS,
                    "queue.buffering.max.kbytes": QUEUE_KBYTES,
                    # A topic that was deleted must not come back with the broker's defaults.
                    "allow.auto.create.topics": False,
                },
                logger=_LOG,
            )
            self._consumer = Consumer(
                common
                | {
                    "group.id": GROUP,
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "error",
                    "isolation.level": "read_committed",
                    "allow.auto.create.topics": False,
                    "fetch.message.max.bytes": FETCH_BYTES,
                    "fetch.max.bytes": FETCH_BYTES,
                    "queued.max.messages.kbytes": QUEUE_KBYTES,
                },
                logger=_LOG,
            )
        except KafkaException:
            raise ReadFailed(FailureKind.OTHER, "the canary's client refused a setting of spec.security") from None
        self._followed: set[int] = set()
        self._outstanding = 0

    def send(self, partition: int, value: bytes) -> bool:
        try:
            self._producer.produce(self._topic, value, partition=partition, on_delivery=self._on_delivery)
        except BufferError:
            return False
        except KafkaException as problem:
            error = problem.args[0]
            if error.fatal() or error.code() == KafkaError._FATAL:
                self._events.append(Broken(error.str()))
                return False
            # Refused at once (an unknown partition): as a report, so that each record has exactly one.
            self._events.append(Undelivered(partition, value, error.str()))
            return True
        self._outstanding += 1
        return True

    def follow(self, partition: int, offset: int) -> None:
        self.forget(partition)
        self._consumer.incremental_assign([RdTopicPartition(self._topic, partition, offset)])
        self._followed.add(partition)

    def forget(self, partition: int) -> None:
        if partition in self._followed:
            self._followed.remove(partition)
            self._consumer.incremental_unassign([RdTopicPartition(self._topic, partition)])

    def poll(self, seconds: float) -> Sequence[CanaryEvent]:
        # librdkafka takes a record's latency when its report is served, so reports are what is waited for first.
        self._producer.poll(seconds if self._outstanding and not self._events else 0)
        message = self._consumer.poll(0 if self._outstanding or self._events else seconds)
        for _ in range(MOST_AT_ONCE):
            if message is None:
                break
            self._on_message(message)
            message = self._consumer.poll(0)
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        self._producer.purge()
        self._producer.poll(0)
        self._producer.close()
        self._consumer.close()
        self._events.clear()

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        self._outstanding -= 1
        partition, value = int(message.partition() or 0), bytes(message.value() or b"")
        if error is None:
            self._events.append(Delivered(partition, value, int(message.offset() or 0), float(message.latency() or 0)))
            return
        self._events.append(Undelivered(partition, value, error.str(), error.code() in REFUSALS))
        if error.fatal():
            self._events.append(Broken(error.str()))

    def _on_message(self, message: Message) -> None:
        error: Any = message.error()
        partition = message.partition()
        if error is None:
            self._events.append(Returned(int(partition or 0), int(message.offset() or 0), message.value()))
        elif partition is not None and partition in self._followed:
            self.forget(partition)
            self._events.append(Unread(partition, error.str(), error.code() in REFUSALS))

    def _on_error(self, error: KafkaError) -> None:
        """Everything else is for librdkafka to cure, and shows in the reports of the records it delays."""
        if error.fatal():
            self._events.append(Broken(error.str()))
