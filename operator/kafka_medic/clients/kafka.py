"""The real Kafka behind the port: librdkafka where it can, kafka-python where it has a gap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from kafka_medic.clients.kafka_wire import WireAdmin
from kafka_medic.clients.librdkafka import LibrdkafkaAdmin
from kafka_medic.clients.librdkafka_records import OwnTopics
from kafka_medic.clients.ports import (
    Address,
    BrokerView,
    ClusterDescription,
    ConfigChange,
    Connection,
    GroupOffsets,
    LogRecord,
    MaySend,
    NewTopic,
    OwnRecord,
    ReadFailed,
    Reassignment,
    unasked,
)
from kafka_medic.cluster.snapshot import ConfigValue, Quorum, TopicPartition


class RealKafka:
    """Implements `ports.Kafka`. One per cluster; not shared between threads."""

    def __init__(self, connection: Connection) -> None:
        self._rd = LibrdkafkaAdmin(connection)
        self._wire = WireAdmin(connection)
        self._own = OwnTopics(connection)

    def describe_cluster(self) -> ClusterDescription:
        heard = self._rd.members()
        racks = self._wire.racks()
        return replace(heard, nodes=tuple(replace(node, rack=racks.get(node.id)) for node in heard.nodes))

    def views(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        return self._wire.views(brokers)

    def memberships(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        return self._wire.memberships(brokers)

    def unnamed_views(self, brokers: Mapping[int, Sequence[Address]]) -> Mapping[int, BrokerView | ReadFailed]:
        return self._wire.unnamed_views(brokers)

    def reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        return self._wire.reassignments()

    def topic_configs(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, ConfigValue]]:
        return self._rd.topic_configs(topics)

    def broker_configs(self, brokers: Sequence[int]) -> Mapping[int, Mapping[str, ConfigValue]]:
        return self._rd.broker_configs(brokers)

    def log_sizes(self, brokers: Sequence[int]) -> Mapping[int, Mapping[TopicPartition, int]]:
        return self._wire.log_sizes(brokers)

    def log_bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        return self._rd.log_bounds(partitions)

    def own_log_ends(self, broker: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._wire.own_log_ends(broker, partitions)

    def epoch_ends(self, broker: int, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return self._wire.epoch_ends(broker, epochs)

    def read_log(self, broker: int, tp: TopicPartition, start: int, end: int) -> tuple[Sequence[LogRecord], int]:
        return self._wire.read_log(broker, tp, start, end)

    def read_topic(self, topic: str, partition: int) -> Iterable[LogRecord]:
        return self._own.read_topic(topic, partition)

    def append(self, topic: str, partition: int, records: Iterable[OwnRecord]) -> int:
        return self._own.append(topic, partition, records)

    def groups(self, wanted: Callable[[str], bool]) -> Sequence[GroupOffsets]:
        return self._rd.groups(wanted)

    def quorum(self) -> Quorum:
        return self._wire.quorum()

    def version(self) -> str | None:
        return self._wire.version()

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, str]:
        return self._wire.alter_reassignments(targets)

    def alter_configs(self, changes: Sequence[ConfigChange], may_send: MaySend = unasked) -> None:
        self._rd.alter_configs(changes, may_send)

    def create_topic(self, topic: NewTopic) -> None:
        self._rd.create_topic(topic)

    def add_partitions(self, topic: str, total: int, assignment: Sequence[Sequence[int]]) -> None:
        self._rd.add_partitions(topic, total, assignment)

    def elect_preferred(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, str]:
        return self._wire.elect_preferred(partitions)

    def close(self) -> None:
        self._wire.close()
