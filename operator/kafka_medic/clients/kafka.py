"""The real Kafka behind the port: librdkafka where it can, kafka-python where it has a gap or one broker is meant."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from kafka_medic.clients.answers import Groups, LogDirs
from kafka_medic.clients.apart import AdminApart, RecordsApart
from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.kafka_admin import KafkaAdmin
from kafka_medic.clients.oauth import TokenSource
from kafka_medic.clients.ports import (
    LONGEST_TIMEOUT,
    Address,
    BrokerView,
    ClusterDescription,
    ConfigChange,
    Connection,
    LogRecord,
    MaySend,
    NewTopic,
    OwnRecord,
    PodAddress,
    Reassignment,
    always,
)
from kafka_medic.clients.tls import explained, split_address
from kafka_medic.cluster.groups import Committed, GroupMember
from kafka_medic.cluster.snapshot import ConfigValue, Quorum, TopicPartition

RENEWED_SECONDS = 300.0
"""As long as this, librdkafka is not asked again whether it is let in. It says why it is not, kafka-python does not."""
LIBRDKAFKA_TIMEOUT = 0.5
"""Seconds for which librdkafka is waited for once kafka-python has its answer. If it takes longer it has come upon a
broker that hangs, and goes on beside the look."""


class RealKafka:
    """Implements `ports.Kafka`. One per cluster. Its reads may go side by side, from several threads."""

    def __init__(self, connection: Connection) -> None:
        """Raises ReadFailed for servers that are no permitted destination, for credentials that cannot be used, or for
        which no token is given out."""
        connection = replace(connection, timeout_seconds=min(connection.timeout_seconds, LONGEST_TIMEOUT))
        self._connection = connection
        self._permit(self._bootstrap)
        self._tokens = TokenSource(connection.oauth, connection.timeout_seconds) if connection.oauth else None
        self._admin = KafkaAdmin(connection, self._tokens)
        if self._tokens is not None:
            self._tokens.token()
        self._librdkafka = AdminApart(connection, self._tokens)
        self._own = RecordsApart(connection)
        self._beside = ThreadPoolExecutor(1, "librdkafka-metadata")
        self._renewed: Future[ClusterDescription] | None = None
        self._fresh_until = 0.0

    def describe_cluster(self) -> ClusterDescription:
        """Whatever is named, in the KafkaCluster or by a broker, is a permitted destination before librdkafka connects
        to it: that library resolves names and follows brokers by itself. Raises ReadFailed."""
        if self._connection.destinations is None:
            return self._described()
        if time.monotonic() >= self._fresh_until:
            self._permit(self._bootstrap)
            with suppress(ReadFailed):  # the look itself finds out why
                self._admin.members()
            self._permit(self._admin.advertised())
        described = self._described()
        self._connection.destinations.check_servers(n.host for n in described.nodes)
        return described

    @property
    def _bootstrap(self) -> list[Address]:
        return [split_address(server) for server in self._connection.bootstrap_servers.split(",")]

    def _permit(self, addresses: Sequence[Address]) -> None:
        """A name that does not resolve leads nowhere: what it is needed for tells."""
        destinations = self._connection.destinations
        for host, port in addresses if destinations is not None else ():
            assert destinations is not None
            try:
                destinations.server(host, port)
            except ReadFailed as problem:
                if problem.kind is FailureKind.DESTINATION:
                    raise

    def _described(self) -> ClusterDescription:
        """Every observation begins here, so this is where it is found out why a secured connection fails. Both
        libraries read at the same time. librdkafka delays the answer by LIBRDKAFKA_TIMEOUT at most, where it waits for
        a hung broker. While its last answer is fresh, kafka-python reads alone."""
        self._admin.begin()
        if self._tokens is not None:
            self._tokens.token()
        renewed = None if time.monotonic() < self._fresh_until else self._renew()
        try:
            described: ClusterDescription | ReadFailed = self._admin.members()
        except ReadFailed as problem:
            described, self._fresh_until = problem, 0.0
            if renewed is None:
                raise explained(self._connection, [], problem) from None
        if renewed is None:
            assert not isinstance(described, ReadFailed)
            return described
        try:
            confirmed = renewed.result(None if isinstance(described, ReadFailed) else LIBRDKAFKA_TIMEOUT)
        except TimeoutError:
            assert not isinstance(described, ReadFailed)
            return described
        except ReadFailed as problem:
            if isinstance(described, ReadFailed) or problem.kind is not FailureKind.UNREACHABLE:
                raise explained(self._connection, [], problem) from None
            return described
        finally:
            if renewed.done():
                self._librdkafka.close()  # its process: nothing is asked of it until something is to be changed
        if isinstance(described, ReadFailed):
            raise self._refusal(explained(self._connection, [(n.host, n.port) for n in confirmed.nodes], described))
        return described

    def _renew(self) -> Future[ClusterDescription]:
        """librdkafka asks the controller and the leaders that it last heard of, which may be down by now."""
        if self._renewed is None or self._renewed.done():
            self._renewed = self._beside.submit(self._librdkafka.members)
            self._renewed.add_done_callback(self._note)
        return self._renewed

    def _note(self, renewed: Future[ClusterDescription]) -> None:
        if not renewed.cancelled() and renewed.exception() is None:
            self._fresh_until = time.monotonic() + RENEWED_SECONDS

    def _up_to_date(self) -> AdminApart:
        """librdkafka, which has just read who the controller and the leaders are, if that did not take long."""
        with suppress(ReadFailed, TimeoutError):  # what it is needed for tells what is wrong
            self._renew().result(LIBRDKAFKA_TIMEOUT)
        return self._librdkafka

    def _refusal(self, problem: ReadFailed) -> ReadFailed:
        """kafka-python tries again until time is up and does not tell that it was refused: librdkafka, which goes on
        with the connections that it has, does when it has to connect anew."""
        if problem.kind is not FailureKind.UNREACHABLE or not self._connection.sasl_mechanism:
            return problem
        anew = AdminApart(self._connection, self._tokens)
        try:
            anew.members()
        except ReadFailed as refusal:
            return refusal
        finally:
            anew.close()
        return problem

    def views(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        return self._admin.views(brokers)

    def memberships(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        return self._admin.memberships(brokers)

    def slices(self, topics: Mapping[int, Sequence[str]]) -> Mapping[int, BrokerView | ReadFailed]:
        return self._admin.slices(topics)

    def unnamed_views(self, brokers: Mapping[int, Sequence[Address]]) -> Mapping[int, BrokerView | ReadFailed]:
        return self._admin.unnamed_views(brokers)

    def identities(self, pods: Mapping[int, PodAddress], ids: Sequence[int]) -> Mapping[int, int | ReadFailed]:
        return self._admin.identities(pods, ids)

    def reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        return self._admin.reassignments()

    def topic_configs(
        self, topics: Sequence[str], among: Sequence[int] | None = None, names: Sequence[str] | None = None
    ) -> Mapping[str, Mapping[str, ConfigValue] | ReadFailed]:
        return self._admin.topic_configs(topics, among, names)

    def broker_configs(
        self, brokers: Sequence[int], names: Sequence[str] | None = None
    ) -> Mapping[int, Mapping[str, ConfigValue] | ReadFailed]:
        return self._admin.broker_configs(brokers, names)

    def cluster_configs(self, among: Sequence[int] | None = None) -> Mapping[str, ConfigValue]:
        return self._admin.cluster_configs(among)

    def log_dirs(self, brokers: Sequence[int]) -> Mapping[int, LogDirs | ReadFailed]:
        return self._admin.log_dirs(brokers)

    def log_bounds(self, led: pa.Table) -> Mapping[int, pa.Table | ReadFailed]:
        return self._admin.log_bounds(led)

    def own_log_ends(self, broker: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._admin.own_log_ends(broker, partitions)

    def epoch_ends(self, broker: int, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return self._admin.epoch_ends(broker, epochs)

    def read_log(self, broker: int, tp: TopicPartition, start: int, end: int) -> tuple[Sequence[LogRecord], int]:
        return self._admin.read_log(broker, tp, start, end)

    def read_topic(self, topic: str, partition: int) -> Iterable[LogRecord]:
        return self._own.read_topic(topic, partition)

    def append(self, topic: str, partition: int, records: Iterable[OwnRecord]) -> int:
        return self._own.append(topic, partition, records)

    def groups(self, wanted: Callable[[str], bool], brokers: Sequence[int] | None = None) -> Groups:
        named = [node.id for node in self._admin.members().nodes] if brokers is None else brokers
        return self._admin.groups.read(wanted, named)

    def group_members(self, groups: Sequence[str]) -> Mapping[str, Sequence[GroupMember]]:
        return self._admin.groups.members(groups)

    def unsettled(self, group: str) -> Sequence[TopicPartition]:
        return self._admin.groups.unsettled(group)

    def offsets_at(self, partitions: Sequence[TopicPartition], ms: int) -> Mapping[TopicPartition, int | None]:
        return self._up_to_date().offsets_at(partitions, ms)

    def quorum(self) -> Quorum:
        return self._admin.quorum()

    def version(self) -> str | None:
        return self._admin.version()

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, str]:
        return self._admin.changes.alter_reassignments(targets)

    def alter_log_dirs(self, broker: int, targets: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, str]:
        return self._admin.alter_log_dirs(broker, targets)

    def alter_configs(self, changes: Sequence[ConfigChange], may_send: MaySend = always) -> None:
        # librdkafka sends what concerns a broker to that broker, and refuses a resource without a name.
        named = [c for c in changes if c.resource]
        if named:
            self._up_to_date().alter_configs(named, may_send)
        if shared := [c for c in changes if not c.resource]:
            if not may_send():
                raise WriteFailed(FailureKind.REFUSED, "stopped before the request for all brokers")
            self._admin.alter_cluster_configs(shared)

    def create_topic(self, topic: NewTopic) -> None:
        self._up_to_date().create_topic(topic)

    def add_partitions(self, topic: str, total: int, assignment: Sequence[Sequence[int]]) -> None:
        self._up_to_date().add_partitions(topic, total, assignment)

    def elect_preferred(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, str]:
        return self._admin.changes.elect_preferred(partitions)

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> Mapping[TopicPartition, str]:
        return self._admin.groups.commit(group, offsets)

    def close(self) -> None:
        self._beside.shutdown()
        self._admin.close()
        self._librdkafka.close()
