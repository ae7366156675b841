"""confluent-kafka (librdkafka): cluster description, configs and offsets by time."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as RdTopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.admin import NewTopic as RdNewTopic

from kafka_medic.clients.failures import ClientFailure, FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.oauth import Token, TokenSource
from kafka_medic.clients.ports import ClusterDescription, ConfigChange, Connection, MaySend, NewTopic, Node
from kafka_medic.clients.timeouts import change_timeout
from kafka_medic.cluster.snapshot import TopicPartition

T = TypeVar("T")

_AFTER = re.compile(r" \(after [0-9]+ms in state (\w+)[^)]*\)")

_KINDS = {
    KafkaError._AUTHENTICATION: FailureKind.AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED: FailureKind.AUTHENTICATION,
    KafkaError.UNSUPPORTED_SASL_MECHANISM: FailureKind.AUTHENTICATION,
    KafkaError.ILLEGAL_SASL_STATE: FailureKind.WRONG_PROTOCOL,
    KafkaError._SSL: FailureKind.TLS,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: FailureKind.AUTHORIZATION,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: FailureKind.AUTHORIZATION,
    KafkaError.GROUP_AUTHORIZATION_FAILED: FailureKind.AUTHORIZATION,
    KafkaError._TRANSPORT: FailureKind.UNREACHABLE,
    KafkaError._ALL_BROKERS_DOWN: FailureKind.UNREACHABLE,
    KafkaError._RESOLVE: FailureKind.UNREACHABLE,
    KafkaError._TIMED_OUT: FailureKind.UNREACHABLE,
    KafkaError.REQUEST_TIMED_OUT: FailureKind.UNREACHABLE,
    KafkaError.UNSUPPORTED_VERSION: FailureKind.UNSUPPORTED,
    KafkaError._UNSUPPORTED_FEATURE: FailureKind.UNSUPPORTED,
}
OFFSETS_AT_ONCE = 5_000
RECEIVE_BYTES = 4 << 20
"""Of one answer. librdkafka's own limit is 100 MB."""
BLIND_SECONDS = 1.0
"""How long a client may know no broker that could be asked. After a Metadata response that names none, as a ZooKeeper
broker gives until the controller has told it of the others, it reads again in 10 s (rd_kafka_metadata_refresh_cb),
and until then each of its calls ends by its timeout."""
_RESOURCE = {"TOPIC": ResourceType.TOPIC, "BROKER": ResourceType.BROKER}


class LibrdkafkaAdmin:
    """One admin client for one cluster. Calls block, each for the connection's timeout at most; one that changes the
    settings of many topics for longer."""

    def __init__(self, connection: Connection, tokens: TokenSource | None = None) -> None:
        """Raises ReadFailed for what librdkafka does not take."""
        self._timeout = connection.timeout_seconds
        self._sasl = connection.sasl_mechanism is not None
        self._last_error: KafkaError | None = None
        self._last_words = _LastWords()
        log = logging.Logger("librdkafka")
        log.addHandler(self._last_words)
        settings = client_settings(connection, tokens) | {
            "error_cb": self._note_error,
            "receive.message.max.bytes": RECEIVE_BYTES,
        }
        self._new = partial(AdminClient, settings, logger=log)
        try:
            self._client = self._new()
        except KafkaException:
            # librdkafka's text may quote what is in a setting.
            what = "a certificate, a key or another setting"
            raise ReadFailed(
                FailureKind.CREDENTIALS, f"the client refused {what} of spec.security: check the Secrets it names"
            ) from None

    @classmethod
    def with_token(cls, connection: Connection, held: Token | None) -> LibrdkafkaAdmin:
        """With a token that somebody else fetched."""
        oauth = connection.oauth
        return cls(connection, TokenSource(oauth, connection.timeout_seconds, held) if oauth is not None else None)

    def close(self) -> None:
        """End its threads and connections now: the callbacks make a cycle, and until that is collected a client with a
        wrong password would go on trying it."""
        self._client.__exit__(None, None, None)

    def members(self) -> ClusterDescription:
        """Who is registered, by whichever broker answers first. Its requests to the controller go to the one that it
        heard of when it began (any live broker with KRaft), so a client is not to be used for long."""
        self._forget()
        asked = self._start(self._described)
        wait([asked], BLIND_SECONDS)
        self._client.poll(0)
        if not asked.done() and self._last_error is None and self._last_words.text is None:
            self.close()
            self._client = self._new()
            asked = self._start(self._described)
        described = self._read(lambda: asked, "metadata")
        nodes = sorted((Node(int(n.id), str(n.host), int(n.port), None) for n in described.nodes), key=lambda n: n.id)
        controller = described.controller.id if described.controller else None
        return ClusterDescription(described.cluster_id, tuple(nodes), controller)

    def offsets_at(self, partitions: Sequence[TopicPartition], ms: int) -> Mapping[TopicPartition, int | None]:
        """Of those that could be read. Raises the first failure when there are none."""
        found = self._offsets(partitions, OffsetSpec.for_timestamp(ms))
        return {tp: offset if offset >= 0 else None for tp, offset in found.items()}

    def _offsets(self, partitions: Sequence[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        """A part at a time: each partition costs a future and a copy on either side of the library. What could not be
        read is left out."""
        found: dict[TopicPartition, int] = {}
        failed: ReadFailed | None = None
        for start in range(0, len(partitions), OFFSETS_AT_ONCE):
            request = {
                RdTopicPartition(tp.topic, tp.partition): spec for tp in partitions[start : start + OFFSETS_AT_ONCE]
            }
            futures = self._start(
                lambda wanted=request: self._client.list_offsets(  # type: ignore[misc]
                    wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=self._timeout
                )
            )
            for tp, future in futures.items():
                try:
                    answer = self._read(lambda f=future: f, f"offsets of {tp.topic}-{tp.partition}")  # type: ignore[misc]
                except ReadFailed as problem:
                    failed = failed or problem
                    continue
                found[TopicPartition(tp.topic, tp.partition)] = answer.offset
            if failed is not None:
                break  # each further part might wait for the same broker
        if failed is not None and not found:
            raise failed
        return found

    def alter_configs(self, changes: Sequence[ConfigChange], may_send: MaySend) -> None:
        by_resource: dict[tuple[str, str], list[ConfigEntry]] = {}
        for change in changes:
            by_resource.setdefault((change.resource_type, change.resource), []).append(
                ConfigEntry(
                    change.name,
                    change.value,
                    incremental_operation=AlterConfigOpType.DELETE if change.value is None else AlterConfigOpType.SET,
                )
            )
        resources = [
            ConfigResource(_RESOURCE[kind], name, incremental_configs=entries)
            for (kind, name), entries in by_resource.items()
        ]
        topics = [r for r in resources if r.restype is ResourceType.TOPIC]
        brokers = [[r] for r in resources if r.restype is ResourceType.BROKER]
        requests = [topics, *brokers] if topics else brokers
        for sent, request in enumerate(requests):
            if not may_send():
                raise WriteFailed(FailureKind.REFUSED, f"stopped after {sent} of {len(requests)} requests")
            self._alter(request)

    def _alter(self, resources: list[ConfigResource]) -> None:
        seconds = change_timeout(self._timeout, len(resources))
        for resource, future in self._client.incremental_alter_configs(resources, request_timeout=seconds).items():
            try:
                future.result(timeout=seconds + 1)
            except (KafkaException, TimeoutError) as problem:
                raise self._translate(WriteFailed, problem, f"alter configs of {resource.name}") from None

    def create_topic(self, topic: NewTopic) -> None:
        wanted = RdNewTopic(
            topic.name,
            num_partitions=len(topic.assignment),
            replica_assignment=[list(ids) for ids in topic.assignment],
            config=dict(topic.configs),
        )
        self._change(
            lambda: self._client.create_topics([wanted], request_timeout=self._timeout)[topic.name],
            f"create topic {topic.name}",
            KafkaError.TOPIC_ALREADY_EXISTS,
        )

    def add_partitions(self, topic: str, total: int, assignment: Sequence[Sequence[int]]) -> None:
        wanted = NewPartitions(topic, total, replica_assignment=[list(ids) for ids in assignment])
        self._change(
            lambda: self._client.create_partitions([wanted], request_timeout=self._timeout)[topic],
            f"add partitions to {topic}",
            KafkaError.INVALID_PARTITIONS,
        )

    def _change(self, call: Callable[[], Future[Any]], what: str, done_already: int) -> None:
        try:
            call().result(timeout=self._timeout + 1)
        except (KafkaException, TimeoutError) as problem:
            if isinstance(problem, KafkaException) and problem.args[0].code() == done_already:
                return
            raise self._translate(WriteFailed, problem, what) from None

    def _described(self) -> Future[Any]:
        described: Future[Any] = self._client.describe_cluster(request_timeout=self._timeout)
        return described

    def _start(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except KafkaException as problem:
            raise self._translate(ReadFailed, problem, "request") from None

    def _read(self, call: Callable[[], Future[Any]], what: str) -> Any:
        try:
            return call().result(timeout=self._timeout + 1)
        except (KafkaException, TimeoutError) as problem:
            raise self._translate(ReadFailed, problem, what) from None

    def _note_error(self, error: KafkaError) -> None:
        # "All brokers down" follows every other error and says less than it.
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self._last_error is None:
            self._last_error = error

    def _forget(self) -> None:
        """What was reported so far belongs to earlier calls."""
        self._client.poll(0)
        self._last_error, self._last_words.text = None, None

    def _translate(self, as_type: type[ClientFailure], problem: Exception, what: str) -> ClientFailure:
        """librdkafka reports a wrong password or certificate through its error callback and the call itself merely
        times out: prefer what the callback said. Why it was cut off it tells its log alone."""
        self._client.poll(0)
        if self._last_error is None and self._last_words.text is None:
            self._client.poll(0.2)  # the call may end before the reason arrives
        error = problem.args[0] if isinstance(problem, KafkaException) and problem.args else None
        noted, words = self._last_error, self._last_words.text
        if error is None or _KINDS.get(error.code()) is FailureKind.UNREACHABLE:
            error = noted or error
            if words is not None and (noted is None or noted.code() == KafkaError._ALL_BROKERS_DOWN):
                hint = "" if self._sasl or "in state UP" not in words else "; a listener that wants SASL ends them so"
                return as_type(FailureKind.UNREACHABLE, f"{what}: {_lasting(words)}{hint}")
        if error is None:
            return as_type(FailureKind.UNREACHABLE, f"{what}: no answer within {self._timeout:g} s")
        return _failure(as_type, error, what)


class _LastWords(logging.Handler):
    """In place of a log: librdkafka logs every failed attempt, and each failure is reported once, by its call."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.text: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        # Facility, client, and "[thread]: broker: what happened (when)".
        if isinstance(record.args, tuple) and record.args[:1] == ("FAIL",):
            self.text = str(record.args[-1]).partition("]: ")[2][:500]


def _failure(as_type: type[ClientFailure], error: Any, what: str) -> ClientFailure:
    if isinstance(error, KafkaException):
        error = error.args[0]
    kind = _KINDS.get(error.code(), FailureKind.OTHER)
    if kind is FailureKind.AUTHENTICATION and "current SASL state" in error.str():
        kind = FailureKind.WRONG_PROTOCOL  # a listener without SASL, whose own error code librdkafka does not pass on
    return as_type(kind, f"{what}: {_lasting(error.str())}")


def _lasting(text: str) -> str:
    """Without how long this attempt took, so that the same failure has the same words in every reconcile."""
    return _AFTER.sub("", text)


def client_settings(connection: Connection, tokens: TokenSource | None = None) -> dict[str, Any]:
    """What every librdkafka client of a cluster has in common. Without `tokens`, a client has its own, if any."""
    settings: dict[str, Any] = {
        "bootstrap.servers": connection.bootstrap_servers,
        "client.id": "kafka-medic",
        "security.protocol": connection.protocol,
        "socket.timeout.ms": max(1000, int(connection.timeout_seconds * 1000)),
        "socket.connection.setup.timeout.ms": max(1000, int(connection.timeout_seconds * 1000)),
        "reconnect.backoff.ms": 500,
        "reconnect.backoff.max.ms": 2000,
    }
    optional = {
        "sasl.mechanism": connection.sasl_mechanism,
        "sasl.username": connection.sasl_username,
        "sasl.password": connection.sasl_password,
    }
    if connection.oauth is not None:
        source = tokens or TokenSource(connection.oauth, connection.timeout_seconds)

        def access_token(_: str) -> tuple[str, float]:
            token = source.token()
            return token.text, token.expires

        settings["oauth_cb"] = access_token
    if connection.uses_tls:
        optional |= {
            "ssl.ca.pem": connection.tls.ca,
            "ssl.certificate.pem": connection.tls.certificate,
            "ssl.key.pem": connection.tls.key,
        }
    return settings | {k: v for k, v in optional.items() if v is not None}
