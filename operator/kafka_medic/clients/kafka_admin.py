"""kafka-python: what librdkafka cannot do, or not of a broker that we choose.

Reassignments (KIP-455), log directories (KIP-113), the KRaft quorum (KIP-595), leader epochs, settings, and a metadata
request sent to one named broker. Whatever any broker can answer is asked of one that has just answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
from kafka import errors
from kafka.protocol.admin import (
    DescribeLogDirsRequest,
    DescribeQuorumRequest,
    ListPartitionReassignmentsRequest,
)

from kafka_medic.clients import kafka_discovery, kafka_identity
from kafka_medic.clients.answers import LogDir, LogDirs
from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.kafka_changes import KafkaChanges, log_dirs_change, log_dirs_refused
from kafka_medic.clients.kafka_configs import (
    BROKER,
    EVERY_BROKER,
    TOPIC,
    alter_request,
    altered,
    configs,
    configs_request,
    refuse,
)
from kafka_medic.clients.kafka_groups import KafkaGroups
from kafka_medic.clients.kafka_link import KafkaLink, answer_of, failure_of
from kafka_medic.clients.kafka_log_bounds import EARLIEST, LATEST, Led, OffsetsRequest, bounds
from kafka_medic.clients.kafka_log_ends import epoch_ends, epoch_ends_request, known, log_ends, log_ends_request
from kafka_medic.clients.kafka_log_read import fetch_request, fetched
from kafka_medic.clients.kafka_metadata import WholeViews, members_request, membership, slice_request, whole_request
from kafka_medic.clients.log_columns import (
    LOG_DIRS_VERSIONS,
    OFFSETS_SCHEMA,
    DecodedLogDir,
    decode_log_dirs,
)
from kafka_medic.clients.oauth import TokenSource
from kafka_medic.clients.ports import (
    Address,
    BrokerView,
    ClusterDescription,
    ConfigChange,
    Connection,
    LogRecord,
    Node,
    PodAddress,
    Reassignment,
)
from kafka_medic.clients.undecoded import ResponseBytes, undecoded
from kafka_medic.cluster.snapshot import ConfigValue, Quorum, TopicPartition, Voter

VIEWS_AT_ONCE = 5
BROKERS_AT_ONCE = 50
TOPICS_AT_ONCE = 200
PASSED_ON = 2
PORTS, HOSTS = 8, 8
"""Answers of large clusters are large, and decoded larger: so many at the same time, or in one request. PASSED_ON: how
many brokers are asked the same that they only pass on to the controller. PORTS, HOSTS: of a Pod, when it is asked which
broker it runs."""
MAX_KEPT = 10_000
"""Partitions up to which requests for log bounds are kept for the next observation: an operator watches many small
clusters or few large ones."""
NO_OFFSETS = OFFSETS_SCHEMA.empty_table()
T = TypeVar("T")


class KafkaAdmin:
    """What is asked of one cluster by kafka-python. May be used by several threads at the same time."""

    def __init__(self, connection: Connection, tokens: TokenSource | None = None) -> None:
        """Raises ReadFailed for certificates and keys that cannot be used."""
        self._link = KafkaLink(connection, tokens)
        # A broker answers the requests of one connection in their order: whatever it passes on to a controller that
        # hangs would hold up all that comes after it.
        self._passed_on = KafkaLink(connection, tokens, beside=self._link)
        self._connection = connection
        self._timeout_ms = int(connection.timeout_seconds * 1000)
        self._whole_views = WholeViews()
        self._in_vain = kafka_discovery.InVain()
        self._led: Led | None = None
        self.groups = KafkaGroups(self._link)
        self.changes = KafkaChanges(self._passed_on, members_request)

    def close(self) -> None:
        self._link.close()
        self._passed_on.close()

    def begin(self) -> None:
        """An observation begins."""
        self._link.begin()
        self._passed_on.begin()

    def members(self) -> ClusterDescription:
        """Who is registered, as whoever answers first has it. Each of them can be asked from then on."""
        answer = self._link.members(members_request)
        nodes = (Node(n.node_id, n.host, n.port, n.rack or None) for n in answer.brokers)
        controller = answer.controller_id if answer.controller_id >= 0 else None
        return ClusterDescription(answer.cluster_id, tuple(sorted(nodes, key=lambda n: n.id)), controller)

    def views(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        """Each broker's own response. Its version is negotiated with each connection, so only that broker sent it."""
        found: dict[int, BrokerView | ReadFailed] = {}
        for part in _parts(brokers, VIEWS_AT_ONCE):
            found |= self._link.ask_each(part, lambda _: whole_request(), self._whole_views.view, "metadata")
        return found

    def memberships(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        return self._link.ask_each(brokers, lambda _: members_request(), membership, "metadata")

    def slices(self, topics: Mapping[int, Sequence[str]]) -> Mapping[int, BrokerView | ReadFailed]:
        def read(broker: int, answer: Any) -> BrokerView:
            return self._whole_views.slice(broker, answer, topics[broker])

        found: dict[int, BrokerView | ReadFailed] = {}
        for part in _parts(sorted(topics), BROKERS_AT_ONCE):
            found |= self._link.ask_each(part, lambda b: slice_request(topics[b]), read, "metadata")
        return found

    def advertised(self) -> list[Address]:
        """Where brokers say that they are, by the metadata that this client holds."""
        return self._link.advertised()

    def unnamed_views(self, brokers: Mapping[int, Sequence[Address]]) -> Mapping[int, BrokerView | ReadFailed]:
        bootstrap = [_address(server) for server in self._connection.bootstrap_servers.split(",")]
        link = self._link
        if link.bounds is not None:
            # Addresses that were permitted before, and those of Pods. A name is bounded when it is resolved.
            link.bounds.permit(host for given in brokers.values() for host, _ in given)

        async def look_for(client: Any, broker: int, addresses: Sequence[Address]) -> BrokerView:
            began = time.monotonic()
            node = None
            if not self._in_vain.was(broker, addresses, began):
                node = await kafka_discovery.find(client, broker, addresses)
                self._in_vain.note(broker, addresses, node is not None, began, time.monotonic())
            if node is None:
                link.unnamed.pop(broker, None)
                raise ReadFailed(FailureKind.UNREACHABLE, "no server answers as that broker")
            link.unnamed[broker] = node
            return self._whole_views.view(broker, await answer_of(client, node, whole_request(), link.seconds))

        async def ask_all(client: Any) -> dict[int, BrokerView | ReadFailed]:
            named = {(node.host, node.port) for node in client._manager.cluster.brokers()}
            others = [address for address in bootstrap if address not in named]
            looking = {
                broker: client._manager.call_soon(look_for, client, broker, list(dict.fromkeys([*given, *others])))
                for broker, given in brokers.items()
            }
            answers: dict[int, BrokerView | ReadFailed] = {}
            for broker, found in looking.items():
                try:
                    answers[broker] = await found
                except Exception as problem:  # noqa: BLE001 - any failure of one broker is that broker's Unknown
                    what = f"metadata of broker {broker}, which the cluster does not name"
                    answers[broker] = failure_of(ReadFailed, problem, what)
            return answers

        return link.call(lambda c: c._manager.run(ask_all, c), ReadFailed, "metadata of brokers that are not named")

    def identities(self, pods: Mapping[int, PodAddress], ids: Sequence[int]) -> Mapping[int, int | ReadFailed]:
        usual = [_address(server)[1] for server in self._connection.bootstrap_servers.split(",")]
        found: dict[int, int | ReadFailed] = {}
        if self._connection.destinations is not None:
            for pod in pods.values():
                self._connection.destinations.address(pod.ip)

        async def ask_all(client: Any, part: Sequence[int]) -> None:
            pending = {}
            for claimed in part:
                ports = tuple(dict.fromkeys((*pods[claimed].ports, *usual)))[:PORTS]
                pod = replace(pods[claimed], ports=ports, hosts=pods[claimed].hosts[:HOSTS])
                known = (client, claimed, pod, ids, self._link.seconds)
                pending[claimed] = client._manager.call_soon(kafka_identity.identify, *known)
            for claimed, answer in pending.items():
                try:
                    found[claimed] = await answer
                except Exception as problem:  # noqa: BLE001 - any failure of one Pod is that Pod's Unknown
                    found[claimed] = failure_of(ReadFailed, problem, f"at {pods[claimed].ip}")

        for part in _parts(sorted(pods), BROKERS_AT_ONCE):
            what = "which broker each Pod runs"
            self._link.call(lambda c, part=part: c._manager.run(ask_all, c, part), ReadFailed, what)  # type: ignore[misc]
        return found

    def own_log_ends(self, broker: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        request = log_ends_request(partitions)
        return known(log_ends(self._link.ask(broker, request, f"log ends of broker {broker}")))

    def log_bounds(self, led: pa.Table) -> Mapping[int, pa.Table | ReadFailed]:
        kept = Led.of(led, self._led)
        self._led = kept if led.num_rows <= MAX_KEPT else None
        wanted, started = kept.wanted, kept.started

        def ask(when: int, of: Mapping[int, pa.Table], brokers: Sequence[int]) -> dict[int, pa.Table | ReadFailed]:
            return self._link.ask_each(
                brokers,
                lambda broker: OffsetsRequest(of[broker], when, self._timeout_ms, kept.encoded[when, broker]),
                lambda broker, answer: kept.readers[broker].read(answer.version, answer.body),
                "log bounds",
            )

        found: dict[int, pa.Table | ReadFailed] = {}
        for part in _parts(list(wanted), BROKERS_AT_ONCE):
            starts = ask(EARLIEST, started, [broker for broker in part if broker in started])
            failed = {broker: answer for broker, answer in starts.items() if isinstance(answer, ReadFailed)}
            ends = ask(LATEST, wanted, [broker for broker in part if broker not in failed])
            found |= failed
            for broker, end in ends.items():
                start = starts.get(broker, NO_OFFSETS)
                whole = isinstance(end, pa.Table) and isinstance(start, pa.Table)
                found[broker] = bounds(wanted[broker], start, end) if whole else end  # type: ignore[arg-type]
        return found

    def epoch_ends(self, broker: int, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        request = epoch_ends_request(epochs)
        return known(epoch_ends(self._link.ask(broker, request, f"epoch ends of broker {broker}")))

    def read_log(self, broker: int, tp: TopicPartition, start: int, end: int) -> tuple[Sequence[LogRecord], int]:
        what = f"log of {tp} on broker {broker}"
        answer = self._link.ask(broker, fetch_request(tp, start), what)
        try:
            return fetched(answer, tp, start, end)
        except Exception as problem:  # noqa: BLE001 - the records are what the broker says they are
            raise failure_of(ReadFailed, problem, what) from None

    def reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        """A KRaft broker passes the question on to the controller; one of a ZooKeeper cluster that is not the
        controller says so."""
        what = "list reassignments"
        _, answer = self._passed_on.ask_anyone(self._reassignments_request, what, at_once=PASSED_ON)
        if answer.error_code == errors.NotControllerError.errno:
            _, members = self._link.ask_anyone(members_request, what)
            answer = self._passed_on.ask(members.controller_id, self._reassignments_request(), what)
        refuse(ReadFailed, answer.error_code, what)
        return {
            TopicPartition(topic.name, part.partition_index): Reassignment(
                tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
            )
            for topic in answer.topics
            for part in topic.partitions
        }

    def _reassignments_request(self) -> Any:
        return ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=None)

    def topic_configs(
        self, topics: Sequence[str], among: Sequence[int] | None = None, names: Sequence[str] | None = None
    ) -> Mapping[str, Mapping[str, ConfigValue] | ReadFailed]:
        found: dict[str, Mapping[str, ConfigValue] | ReadFailed] = {}
        for part in _parts(topics, TOPICS_AT_ONCE):
            try:
                _, answer = self._link.ask_anyone(
                    lambda part=part: configs_request(TOPIC, part, names),  # type: ignore[misc]
                    "settings of topics",
                    among=among,
                )
            except ReadFailed as problem:
                if not found:
                    raise
                return found | {topic: problem for topic in topics if topic not in found}
            found |= {t: ReadFailed(FailureKind.OTHER, f"settings of topic {t}: not in the answer") for t in part}
            found |= configs(answer)
        return found

    def broker_configs(
        self, brokers: Sequence[int], names: Sequence[str] | None = None
    ) -> Mapping[int, Mapping[str, ConfigValue] | ReadFailed]:
        return self._each(
            brokers,
            lambda broker: configs_request(BROKER, [str(broker)], names),
            lambda broker, answer: _or_raise(configs(answer)[str(broker)]),
            "settings",
        )

    def cluster_configs(self, among: Sequence[int] | None = None) -> Mapping[str, ConfigValue]:
        what = "settings of all brokers"
        _, answer = self._link.ask_anyone(lambda: configs_request(BROKER, [EVERY_BROKER]), what, among=among)
        return _or_raise(configs(answer)[EVERY_BROKER])

    def alter_cluster_configs(self, changes: Sequence[ConfigChange]) -> None:
        """Any broker takes it; one of a KRaft cluster passes it on to the controller."""
        what = "settings of all brokers"
        _, answer = self._passed_on.ask_anyone(lambda: alter_request(changes), what, as_type=WriteFailed)
        altered(answer)

    def log_dirs(self, brokers: Sequence[int]) -> Mapping[int, LogDirs | ReadFailed]:
        return self._each(brokers, lambda _: _log_dirs_request(), _log_dirs, "log directories")

    def alter_log_dirs(self, broker: int, targets: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, str]:
        what = f"move replicas between the log directories of broker {broker}"
        return log_dirs_refused(self._link.ask(broker, log_dirs_change(targets), what, WriteFailed))

    def _each(
        self, brokers: Sequence[int], request: Callable[[int], Any], read: Callable[[int, Any], T], what: str
    ) -> dict[int, T | ReadFailed]:
        found: dict[int, T | ReadFailed] = {}
        for part in _parts(brokers, BROKERS_AT_ONCE):
            found |= self._link.ask_each(part, request, read, what)
        return found

    def quorum(self) -> Quorum:
        topic, part = DescribeQuorumRequest.TopicData, DescribeQuorumRequest.TopicData.PartitionData

        def request() -> Any:
            return DescribeQuorumRequest(
                topics=[topic(topic_name="__cluster_metadata", partitions=[part(partition_index=0)])]
            )

        _, answer = self._passed_on.ask_anyone(request, "quorum", at_once=PASSED_ON)
        refuse(ReadFailed, answer.error_code, "quorum")
        metadata_log = next((part for topic in answer.topics for part in topic.partitions), None)
        if metadata_log is None:
            raise ReadFailed(FailureKind.OTHER, "quorum: the answer names no partition")
        refuse(ReadFailed, metadata_log.error_code, "quorum")
        return quorum(metadata_log)

    def version(self) -> str | None:
        found = self._link.call(lambda c: c._manager.broker_version, ReadFailed, "broker version")
        return ".".join(str(n) for n in found) if found else None


def quorum(partition: Any) -> Quorum:
    """Of the answer for the one partition of the metadata log (KIP-595)."""
    end = max((v.log_end_offset for v in partition.current_voters), default=-1)
    ages = _ages(partition)
    return Quorum(
        leader=partition.leader_id if partition.leader_id >= 0 else None,
        voters=tuple(
            Voter(
                id=v.replica_id,
                lag=end - v.log_end_offset if v.log_end_offset >= 0 else None,
                last_caught_up_ms=ages.get(v.replica_id),
            )
            for v in partition.current_voters
        ),
    )


def _ages(partition: Any) -> dict[int, int]:
    """The milliseconds since each voter was caught up, by the leader's clock alone: of itself the leader reports its
    present time (KIP-836, `RaftUtil.toReplicaState`). Empty where the leader reports none, or where another voter's
    time is later than that: then the leader's clock was set back."""
    stamps = {v.replica_id: getattr(v, "last_caught_up_timestamp", None) or -1 for v in partition.current_voters}
    now = stamps.get(partition.leader_id, -1)
    if now <= 0 or max(stamps.values()) > now:
        return {}
    return {voter: now - stamp for voter, stamp in stamps.items() if stamp > 0}


def _address(server: str) -> Address:
    host, _, port = server.strip().rpartition(":")
    return host.strip("[]"), int(port)


def _or_raise(found: T | ReadFailed) -> T:
    if isinstance(found, ReadFailed):
        raise found
    return found


_WholeLogDirsRequest = undecoded(DescribeLogDirsRequest)


def _log_dirs_request() -> Any:
    """Of all replicas. The response is a ResponseBytes."""
    earliest, latest = LOG_DIRS_VERSIONS
    return _WholeLogDirsRequest(topics=None, min_version=earliest, max_version=latest)


def _log_dirs(broker: int, answer: ResponseBytes) -> LogDirs:
    """Each directory with its own error: with several, a broker goes on when one fails (KIP-112)."""
    decoded = decode_log_dirs(answer.version, answer.body)
    refuse(ReadFailed, decoded.error_code, f"log directories of broker {broker}")  # from version 3 on
    return LogDirs(tuple(_log_dir(directory) for directory in decoded.directories))


def _log_dir(decoded: DecodedLogDir) -> LogDir:
    if decoded.error_code:
        return LogDir(decoded.path, None, error=errors.for_code(decoded.error_code).message)
    # -1 before version 4.
    total, usable = (n if n >= 0 else None for n in (decoded.total_bytes, decoded.usable_bytes))
    return LogDir(decoded.path, decoded.sizes, total, usable, future=decoded.future)


def _parts(listed: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(listed), size):
        yield listed[start : start + size]
