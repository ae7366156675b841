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

from kafka import errors
from kafka.admin import KafkaAdminClient
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.metadata import MetadataRequest
from kafka.structs import TopicPartition as WireTopicPartition

from kafka_medic.clients.kafka_log_ends import epoch_ends, epoch_ends_request, log_ends, log_ends_request
from kafka_medic.clients.oauth import TokenSource
from kafka_medic.clients.ports import (
    BrokerView,
    ClientFailure,
    Connection,
    FailureKind,
    PartitionState,
    ReadFailed,
    Reassignment,
    WriteFailed,
)
from kafka_medic.clients.tls import client_context
from kafka_medic.cluster.snapshot import Quorum, TopicPartition, Voter

T = TypeVar("T")
F = TypeVar("F", bound=ClientFailure)

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

    def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            client.close()

    def racks(self) -> Mapping[int, str | None]:
        """`broker.rack` of each registered broker."""

        async def ask(client: Any) -> Any:
            return await client._manager.send(MetadataRequest(topics=[], allow_auto_topic_creation=False))

        answer = self._call(lambda c: c._manager.run(ask, c), ReadFailed, "racks")
        return {node.node_id: node.rack or None for node in answer.brokers}

    def views(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        async def ask_all(client: Any) -> dict[int, Any]:
            # Request version and shape are negotiated per connection, so the answer can only be that broker's own.
            request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
            answers: dict[int, Any] = {}
            pending: dict[int, Any] = {}
            for broker in brokers:
                try:
                    pending[broker] = client._manager.send(request, broker, self._timeout_ms)
                except Exception as problem:  # noqa: BLE001 - as below: a broker whose address nobody knows
                    answers[broker] = problem
            for broker, future in pending.items():
                try:
                    answers[broker] = await future
                except Exception as problem:  # noqa: BLE001 - any failure of one broker is that broker's Unknown
                    answers[broker] = problem
            return answers

        answers = self._call(lambda c: c._manager.run(ask_all, c), ReadFailed, "metadata of each broker")
        views: dict[int, BrokerView | ReadFailed] = {}
        for broker, answer in answers.items():
            if isinstance(answer, BaseException):
                views[broker] = _failure(ReadFailed, answer, f"metadata of broker {broker}")
            else:
                views[broker] = _view(broker, answer)
        return views

    def own_log_ends(self, broker: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        request = log_ends_request(partitions)
        return log_ends(self._ask(broker, request, f"log ends of broker {broker}"))

    def epoch_ends(self, broker: int, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        request = epoch_ends_request(epochs)
        return epoch_ends(self._ask(broker, request, f"epoch ends of broker {broker}"))

    def _ask(self, broker: int, request: Any, what: str) -> Any:
        """One request to one named broker."""

        async def ask(client: Any) -> Any:
            return await client._manager.send(request, broker, self._timeout_ms)

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


def _view(broker: int, answer: Any) -> BrokerView:
    return BrokerView(
        broker=broker,
        members=tuple(sorted(node.node_id for node in answer.brokers)),
        controller=answer.controller_id if answer.controller_id >= 0 else None,
        partitions=tuple(
            PartitionState(
                topic=topic.name,
                partition=part.partition_index,
                leader=part.leader_id,
                leader_epoch=getattr(part, "leader_epoch", None),
                replicas=tuple(part.replica_nodes),
                isr=tuple(part.isr_nodes),
            )
            for topic in answer.topics
            for part in topic.partitions
        ),
    )


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
        problem, errors.KafkaConnectionError | errors.KafkaTimeoutError | errors.NodeNotReadyError | OSError
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
