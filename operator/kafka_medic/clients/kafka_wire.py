"""kafka-python: what librdkafka cannot do.

Reassignments (KIP-455), log directories (KIP-113), the KRaft quorum (KIP-595), leader epochs, and a metadata request
sent to one named broker. The last needs the client's connection layer (`_manager`), which is not public API; the
contract tests hold it to the real thing and the dependency is pinned below its next major version.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from kafka import errors
from kafka.admin import KafkaAdminClient
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.metadata import MetadataRequest
from kafka.structs import TopicPartition as WireTopicPartition

from kafka_medic.clients import kafka_groups, kafka_whereabouts
from kafka_medic.clients.kafka_log_ends import (
    CONSUMER,
    EARLIEST,
    LATEST,
    epoch_ends,
    epoch_ends_request,
    log_ends,
    log_ends_request,
)
from kafka_medic.clients.kafka_log_read import fetch_request, fetched
from kafka_medic.clients.oauth import TokenSource
from kafka_medic.clients.ports import (
    STATES_SCHEMA,
    Address,
    BrokerView,
    ClientFailure,
    Connection,
    FailureKind,
    LogRecord,
    ReadFailed,
    Reassignment,
    WriteFailed,
)
from kafka_medic.clients.tls import client_context
from kafka_medic.cluster.snapshot import Quorum, TopicPartition, Voter

VIEWS_AT_ONCE = 4
T = TypeVar("T")
F = TypeVar("F", bound=ClientFailure)

PREFERRED = 0
"""KIP-460's election type: each partition's first replica, if it is in sync."""

# kafka-python logs each failed connection attempt as an error with a traceback; the failure reaches us as an
# exception anyway and is reported once.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


class WireAdmin:
    """One kafka-python admin client for one cluster, connected when first needed."""

    def __init__(self, connection: Connection, tokens: TokenSource | None = None) -> None:
        """Raises ReadFailed for certificates and keys that cannot be used."""
        self._connection = connection
        self._tokens = tokens
        self._context = client_context(connection.tls) if connection.uses_tls else None
        self._timeout_ms = int(connection.timeout_seconds * 1000)
        self._client: Any = None
        self._unnamed: dict[int, str] = {}

    def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            self._unnamed.clear()
            client.close()

    def racks(self) -> Mapping[int, str | None]:
        """`broker.rack` of each registered broker, each of which can be asked from then on."""

        async def ask(client: Any) -> Any:
            answer = await client._manager.send(MetadataRequest(topics=[], allow_auto_topic_creation=False))
            # The client reads metadata anew only every so often, and until then knows no broker that came back.
            # `_coordinator_brokers` is where it looks for those that its own metadata does not name.
            client._manager.cluster._coordinator_brokers.update({node.node_id: node for node in answer.brokers})
            return answer

        answer = self._call(lambda c: c._manager.run(ask, c), ReadFailed, "racks")
        return {node.node_id: node.rack or None for node in answer.brokers}

    def views(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        # An answer of a large cluster is large, and decoded it is larger: a few at a time.
        found: dict[int, BrokerView | ReadFailed] = {}
        for start in range(0, len(brokers), VIEWS_AT_ONCE):
            found |= self._metadata(brokers[start : start + VIEWS_AT_ONCE], None)
        return found

    def memberships(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        return self._metadata(brokers, [])

    def unnamed_views(self, brokers: Mapping[int, Sequence[Address]]) -> Mapping[int, BrokerView | ReadFailed]:
        bootstrap = [_address(server) for server in self._connection.bootstrap_servers.split(",")]

        async def ask_all(client: Any) -> dict[int, BrokerView | ReadFailed]:
            named = {(node.host, node.port) for node in client._manager.cluster.brokers()}
            others = [address for address in bootstrap if address not in named]
            answers: dict[int, BrokerView | ReadFailed] = {}
            for broker, given in brokers.items():
                what = f"metadata of broker {broker}, which the cluster does not name"
                node = await kafka_whereabouts.find(client, broker, list(dict.fromkeys([*given, *others])))
                if node is None:
                    self._unnamed.pop(broker, None)
                    answers[broker] = ReadFailed(FailureKind.UNREACHABLE, f"{what}: nobody answers as that broker")
                    continue
                self._unnamed[broker] = node
                try:
                    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
                    answer = await client._manager.send(request, node, self._timeout_ms)
                    answers[broker] = _view(broker, answer, with_partitions=True)
                except Exception as problem:  # noqa: BLE001 - any failure of one broker is that broker's Unknown
                    answers[broker] = _failure(ReadFailed, problem, what)
            return answers

        return self._call(lambda c: c._manager.run(ask_all, c), ReadFailed, "metadata of brokers that are not named")

    def _metadata(self, brokers: Sequence[int], topics: list[str] | None) -> dict[int, BrokerView | ReadFailed]:
        """Each broker's own answer about these topics: None is all of them."""

        async def ask_all(client: Any) -> dict[int, BrokerView | ReadFailed]:
            # Request version and shape are negotiated per connection, so the answer can only be that broker's own.
            request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
            answers: dict[int, BrokerView | ReadFailed] = {}
            pending: dict[int, Any] = {}
            for broker in brokers:
                try:
                    pending[broker] = client._manager.send(request, broker, self._timeout_ms)
                except Exception as problem:  # noqa: BLE001 - as below: a broker whose address nobody knows
                    answers[broker] = _failure(ReadFailed, problem, f"metadata of broker {broker}")
            for broker in list(pending):
                try:
                    answers[broker] = _view(broker, await pending.pop(broker), with_partitions=topics is None)
                except Exception as problem:  # noqa: BLE001 - any failure of one broker is that broker's Unknown
                    answers[broker] = _failure(ReadFailed, problem, f"metadata of broker {broker}")
            return answers

        return self._call(lambda c: c._manager.run(ask_all, c), ReadFailed, "metadata of each broker")

    def own_log_ends(self, broker: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        request = log_ends_request(partitions)
        return log_ends(self._ask(broker, request, f"log ends of broker {broker}"))

    def log_bounds_at(self, leaders: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, tuple[int, int]]:
        found: dict[TopicPartition, tuple[int, int]] = {}
        for broker in sorted(set(leaders.values())):
            led = [tp for tp, leader in leaders.items() if leader == broker]
            what = f"log bounds of broker {broker}"
            starts, ends = (
                log_ends(self._ask(broker, log_ends_request(led, replica=CONSUMER, timestamp=when), what))
                for when in (EARLIEST, LATEST)
            )
            found |= {tp: (starts[tp], ends[tp]) for tp in led if tp in starts and tp in ends}
        return found

    def epoch_ends(self, broker: int, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        request = epoch_ends_request(epochs)
        return epoch_ends(self._ask(broker, request, f"epoch ends of broker {broker}"))

    def read_log(self, broker: int, tp: TopicPartition, start: int, end: int) -> tuple[Sequence[LogRecord], int]:
        answer = self._ask(broker, fetch_request(tp, start), f"log of {tp} on broker {broker}")
        return fetched(answer, tp, start, end)

    def _ask(self, broker: int, request: Any, what: str) -> Any:
        """One request to one named broker."""

        async def ask(client: Any) -> Any:
            # A broker that the cluster does not name is known by the connection at which it said who it is.
            named = any(node.node_id == broker for node in client._manager.cluster.brokers())
            node = broker if named else self._unnamed.get(broker, broker)
            return await client._manager.send(request, node, self._timeout_ms)

        return self._call(lambda c: c._manager.run(ask, c), ReadFailed, what)

    def reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        listed = self._call(
            lambda c: c.list_partition_reassignments(timeout_ms=self._timeout_ms),
            ReadFailed,
            "list reassignments",
        )
        return {
            TopicPartition(tp.topic, tp.partition): Reassignment(
                tuple(r["replicas"]), tuple(r["adding_replicas"]), tuple(r["removing_replicas"])
            )
            for tp, r in listed.items()
        }

    def log_sizes(self, brokers: Sequence[int]) -> Mapping[int, Mapping[TopicPartition, int]]:
        listed = self._call(lambda c: c.describe_log_dirs(brokers=list(brokers)), ReadFailed, "log directories")
        sizes: dict[int, dict[TopicPartition, int]] = {}
        for answer in listed:
            mine = sizes.setdefault(answer["broker"], {})
            for directory in answer["log_dirs"]:
                if directory.get("error_code"):
                    kind = errors.for_code(directory["error_code"]).__name__
                    raise ReadFailed(FailureKind.OTHER, f"log directory of broker {answer['broker']}: {kind}")
                for topic in directory["topics"]:
                    for part in topic["partitions"]:
                        if not part.get("is_future_key"):
                            mine[TopicPartition(topic["name"], part["partition_index"])] = part["partition_size"]
        return sizes

    def committed(self, groups: Sequence[str]) -> Mapping[str, Mapping[TopicPartition, int]]:
        def ask(wanted: Mapping[str, None], what: str) -> Any:
            return self._call(lambda c: c.list_group_offsets(dict(wanted)), ReadFailed, what)

        return kafka_groups.committed(ask, groups, self._timeout_ms / 1000)

    def quorum(self) -> Quorum:
        answer = self._call(lambda c: c.describe_metadata_quorum(), ReadFailed, "quorum")
        part = answer["topics"][0]["partitions"][0]
        if part["error"]:
            raise ReadFailed(FailureKind.OTHER, f"quorum: {part['error']}")
        leader = part["leader_id"]
        end = max((v["log_end_offset"] for v in part["current_voters"]), default=-1)
        now_ms = time.time() * 1000
        return Quorum(
            leader=leader if leader >= 0 else None,
            voters=tuple(
                Voter(
                    id=v["replica_id"],
                    lag=end - v["log_end_offset"] if v["log_end_offset"] >= 0 else None,
                    last_caught_up_ms=_age(v.get("last_caught_up_timestamp", -1), now_ms),
                )
                for v in part["current_voters"]
            ),
        )

    def version(self) -> str | None:
        found = self._call(lambda c: c._manager.broker_version, ReadFailed, "broker version")
        return ".".join(str(n) for n in found) if found else None

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, str]:
        request = {
            WireTopicPartition(tp.topic, tp.partition): None if replicas is None else list(replicas)
            for tp, replicas in targets.items()
        }
        answers = self._call(
            lambda c: c.alter_partition_reassignments(request, timeout_ms=self._timeout_ms),
            WriteFailed,
            "alter partition reassignments",
        )
        refused = {}
        for tp, error in answers.items():
            # Cancelling what already ended is the state that was asked for.
            over = (
                targets.get(TopicPartition(tp.topic, tp.partition)) is None
                and error is errors.NoReassignmentInProgressError
            )
            if error is not None and not over:
                refused[TopicPartition(tp.topic, tp.partition)] = error.__name__
        return refused

    def elect_preferred(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, str]:
        # confluent-kafka 2.16 cannot: its elect_leaders ends in a SystemError, whatever it is given.
        topics: dict[str, list[int]] = {}
        for tp in partitions:
            topics.setdefault(tp.topic, []).append(tp.partition)
        answer = self._call(
            lambda c: c.elect_leaders(PREFERRED, topics, timeout_ms=self._timeout_ms, raise_errors=False),
            WriteFailed,
            "elect preferred leaders",
        )
        if getattr(answer, "error_code", 0):
            raise _failure(WriteFailed, errors.for_code(answer.error_code)(), "elect preferred leaders")
        return {
            TopicPartition(result.topic, part.partition_id): errors.for_code(part.error_code).__name__
            for result in answer.replica_election_results
            for part in result.partition_result
            if part.error_code not in (0, errors.ElectionNotNeededError.errno)
        }

    def _call(self, call: Callable[[Any], T], as_type: type[ClientFailure], what: str) -> T:
        end = time.monotonic() + self._timeout_ms / 1000
        while True:
            try:
                if self._client is None:
                    self._client = KafkaAdminClient(**_settings(self._connection, self._context, self._tokens))
                return call(self._client)
            except ClientFailure:
                raise
            except Exception as problem:  # noqa: BLE001
                # The library raises its own errors, OSError, struct.error from garbage on the wire, and more: all of
                # them mean that this call has no answer. A fresh connection next time.
                self.close()
                failure = _failure(as_type, problem, what)
            # It may have asked a broker that is down; another one may answer. What changes something is sent once.
            if failure.kind is not FailureKind.UNREACHABLE or as_type is WriteFailed or time.monotonic() >= end:
                raise failure


def _age(stamp_ms: int, now_ms: float) -> int | None:
    return max(0, int(now_ms - stamp_ms)) if stamp_ms > 0 else None


def _view(broker: int, answer: Any, *, with_partitions: bool) -> BrokerView:
    """Columns straight from the decoded answer. Raises pyarrow's errors for numbers that are none of Kafka's."""
    members = tuple(sorted(node.node_id for node in answer.brokers))
    controller = answer.controller_id if answer.controller_id >= 0 else None
    if not with_partitions:
        return BrokerView(broker, members, controller)
    rows = [(topic, part) for topic in answer.topics for part in topic.partitions]
    ids = {id(topic): _topic_id(topic) for topic in answer.topics}
    columns = [
        pa.array([topic.name for topic, _ in rows], pa.string()),
        pa.array([part.partition_index for _, part in rows], pa.int32()),
        pa.array([part.leader_id for _, part in rows], pa.int32()),
        pa.array([getattr(part, "leader_epoch", None) for _, part in rows], pa.int32()),
        pa.array([part.replica_nodes for _, part in rows], pa.list_(pa.int32())),
        pa.array([part.isr_nodes for _, part in rows], pa.list_(pa.int32())),
        pa.array([ids[id(topic)] for topic, _ in rows], pa.string()),
    ]
    return BrokerView(broker, members, controller, pa.table(columns, schema=STATES_SCHEMA))


def _address(server: str) -> Address:
    host, _, port = server.strip().rpartition(":")
    return host.strip("[]"), int(port)


def _topic_id(topic: Any) -> str | None:
    """All zero from a broker that knows no topic ids (KIP-516)."""
    found = getattr(topic, "topic_id", None)
    return str(found) if found is not None and found.int else None


def _failure(as_type: type[F], problem: BaseException, what: str) -> F:
    if isinstance(problem, ClientFailure):
        return as_type(problem.kind, f"{what}: {problem.message}")
    if isinstance(problem, errors.SaslAuthenticationFailedError | errors.UnsupportedSaslMechanismError):
        kind = FailureKind.AUTHENTICATION
    elif isinstance(problem, errors.IllegalSaslStateError):
        kind = FailureKind.WRONG_PROTOCOL
    elif isinstance(problem, ssl.SSLError):
        kind = FailureKind.TLS
    elif isinstance(problem, errors.ClusterAuthorizationFailedError | errors.TopicAuthorizationFailedError):
        kind = FailureKind.AUTHORIZATION
    elif isinstance(problem, errors.UnsupportedVersionError):
        kind = FailureKind.UNSUPPORTED
    elif isinstance(
        problem,
        errors.KafkaConnectionError
        | errors.KafkaTimeoutError
        | errors.NodeNotReadyError
        | errors.NotCoordinatorError  # of a group, any more: the next connection finds out who is
        | OSError,
    ):
        kind = FailureKind.UNREACHABLE
    else:
        kind = FailureKind.OTHER
    return as_type(kind, f"{what}: {type(problem).__name__}: {problem}"[:500])


class _Provider(AbstractTokenProvider):  # type: ignore[misc]
    """kafka-python asks for a token whenever it authenticates."""

    def __init__(self, tokens: TokenSource) -> None:
        super().__init__()
        self._tokens = tokens

    def token(self) -> str:
        return self._tokens.token().text


def _settings(connection: Connection, context: ssl.SSLContext | None, tokens: TokenSource | None) -> dict[str, Any]:
    timeout_ms = int(connection.timeout_seconds * 1000)
    settings: dict[str, Any] = {
        "bootstrap_servers": connection.bootstrap_servers.split(","),
        "client_id": "kafka-medic",
        "security_protocol": connection.protocol,
        "request_timeout_ms": timeout_ms,
        "bootstrap_timeout_ms": timeout_ms,
        "reconnect_backoff_max_ms": 2000,
        "metadata_max_age_ms": 30000,
    }
    if connection.protocol.startswith("SASL"):
        settings["sasl_mechanism"] = connection.sasl_mechanism
        if tokens is not None:
            settings["sasl_oauth_token_provider"] = _Provider(tokens)
        else:
            settings["sasl_plain_username"] = connection.sasl_username
            settings["sasl_plain_password"] = connection.sasl_password
    if context is not None:
        settings["ssl_context"] = context
    return settings
