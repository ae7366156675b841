"""kafka-python: the connection to a cluster, and which of its brokers a question goes to.

The admin client's loop has a thread of its own and takes work from any other thread (`NetworkSelector.run`), so one
client serves all that is asked at the same time. What is used of it beyond its public methods is its connection layer
(`_manager`); the contract tests hold that to the real thing and the dependency is pinned below its next major version.
"""

from __future__ import annotations

import logging
import math
import queue
import random
import re
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kafka import errors
from kafka.admin import KafkaAdminClient
from kafka.future import Future
from kafka.net.sasl.oauth import AbstractTokenProvider

from kafka_medic.clients import kafka_bounds, kafka_inflate
from kafka_medic.clients.failures import ClientFailure, FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.kafka_destinations import Bounds
from kafka_medic.clients.kafka_transport import Selector, read_in_pieces, unmetered
from kafka_medic.clients.oauth import TokenSource
from kafka_medic.clients.ports import Address, Connection
from kafka_medic.clients.tls import client_context

AT_ONCE = 10
"""Bootstrap servers that are tried, and brokers that are asked who is there, at the same time."""
OBSERVATION_SECONDS = math.inf
"""For the reads of one observation that go to many brokers. The operator sets it (`observations_of`)."""
IN_FLIGHT = 64
"""Requests to one broker before kafka-python refuses the next one."""
PAUSE_SECONDS = 0.1
_LATE = re.compile(r"\b[Tt]imed out\b|RequestTimedOut")
T = TypeVar("T")
F = TypeVar("F", bound=ClientFailure)

# kafka-python logs each failed connection attempt as an error with a traceback; the failure reaches us as an
# exception anyway and is reported once.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


class KafkaLink:
    """One kafka-python admin client for one cluster, connected when first needed. May be used by several threads at
    the same time."""

    def __init__(
        self, connection: Connection, tokens: TokenSource | None = None, beside: KafkaLink | None = None
    ) -> None:
        """`beside`: the link that finds out who is there, for one that is for something else. Raises ReadFailed for
        certificates and keys that cannot be used."""
        self.connection = connection
        self.seconds = connection.timeout_seconds
        self._until = math.inf
        self._tokens = tokens
        self.bounds = Bounds(connection.destinations) if connection.destinations is not None else None
        self._context = client_context(connection.tls) if connection.uses_tls else None
        self._beside = beside
        self._lock = threading.Lock()
        self._client: Any = None
        self._users = 0
        self._spoilt = False
        self.unnamed: dict[int, str] = {}
        """Brokers that the cluster does not name, and the connection at which each said who it is."""
        self._answered: list[int] = []
        """Brokers that answered when last it was asked who is there, the quickest first."""
        self._deaf: dict[int, float] = {}
        """Brokers that said who is there and nothing more, and until when others are asked rather than they."""
        self._controller = -1
        """The controller as they had it; with KRaft any live broker (KIP-590)."""
        self._nodes: dict[int, Any] = {}
        """Where each broker is, as they had it."""

    def begin(self) -> None:
        """An observation begins. Its reads may take OBSERVATION_SECONDS in all, however many brokers a cluster claims
        to have, and however slowly each answers."""
        self._until = time.monotonic() + OBSERVATION_SECONDS

    def _left(self, what: str) -> float:
        """Seconds for the next reads of many brokers. Raises ReadFailed when the observation has taken too long."""
        left = self._until - time.monotonic()
        if left <= 0:
            over = f"the reads of one observation took {OBSERVATION_SECONDS:g} s (limit); the rest was not tried"
            raise ReadFailed(FailureKind.UNREACHABLE, f"{what}: {over}")
        return min(self.seconds, left)

    def advertised(self) -> list[Address]:
        client = self._client
        return [] if client is None else [(node.host, node.port) for node in client._manager.cluster.brokers()]

    def close(self) -> None:
        with self._lock:
            self._drop()
        if self.bounds is not None:
            self.bounds.close()

    def _drop(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            self.unnamed.clear()
            self._answered = []
            client.close()
        self._spoilt = False

    def call(self, call: Callable[[Any], T], as_type: type[ClientFailure], what: str, *, anew: bool = False) -> T:
        """What `call` makes of the client. With `anew` the client is not used again after a failure."""
        end = time.monotonic() + self.seconds
        while True:
            client, began = None, time.monotonic()
            try:
                client = self._enter()
                return call(client)
            except ClientFailure:
                raise
            except Exception as problem:  # noqa: BLE001
                # The library raises its own errors, OSError, struct.error from garbage on the wire, and more: all of
                # them mean that this call has no answer.
                failure = failure_of(as_type, problem, what)
            finally:
                if client is not None:
                    self._leave()
            if anew or as_type is WriteFailed or failure.kind not in _LASTING:
                self._spoilt = True
            # It may have asked a broker that is down; another one may answer, if there is time for as long an attempt.
            # What changes something is sent once.
            now = time.monotonic()
            if failure.kind is not FailureKind.UNREACHABLE or as_type is WriteFailed or 2 * now - began >= end:
                raise failure
            time.sleep(PAUSE_SECONDS)

    def _enter(self) -> Any:
        """The client; a spoilt one is replaced as soon as nobody else uses it."""
        with self._lock:
            if self._spoilt and not self._users:
                self._drop()
            if self._client is None:
                self._client = _connect(_settings(self.connection, self._context, self._tokens, self.bounds))
            self._users += 1
            return self._client

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1

    def members(self, request: Callable[[], Any]) -> Any:
        """The first answer to a small request that goes to many brokers at once, so that one that hangs delays
        nobody."""

        async def ask(client: Any) -> Any:
            manager = client._manager
            known = [node.node_id for node in manager.cluster.brokers()]
            chosen = random.sample(known, min(AT_ONCE, len(known)))
            self._answered = answered = []
            first, left = Future(), [len(chosen)]

            def on_answer(broker: int, answer: Any) -> None:
                answered.append(broker)
                if not first.is_done:
                    first.success(answer)

            def failed(problem: BaseException) -> None:
                left[0] -= 1
                if not left[0] and not first.is_done:
                    first.failure(problem)

            for broker in chosen:
                sent = _sent(client, broker, request(), self.seconds)
                sent.add_callback(lambda answer, broker=broker: on_answer(broker, answer))
                sent.add_errback(failed)
            if not chosen:
                raise errors.NodeNotReadyError("no broker is known")
            answer = await manager.wait_for(first, self.seconds * 1000)
            # The client reads metadata anew only every so often, and until then knows no broker that came back, nor
            # its new address. `_coordinator_brokers` is where it looks for those that its own metadata does not name.
            self._nodes = {node.node_id: node for node in answer.brokers}
            know(client, self._nodes)
            self._controller = answer.controller_id
            return answer

        return self.call(lambda c: c._manager.run(ask, c), ReadFailed, "metadata", anew=True)

    def ask(self, broker: int, request: Any, what: str, as_type: type[ClientFailure] = ReadFailed) -> Any:
        """One request to one named broker."""

        async def send(client: Any) -> Any:
            return await answer_of(client, self._node(client, broker), request, self.seconds)

        return self.call(lambda c: c._manager.run(send, c), as_type, what)

    def _node(self, client: Any, broker: int) -> Any:
        """A broker that the cluster does not name is known by the connection at which it said who it is."""
        named = any(node.node_id == broker for node in client._manager.cluster.brokers())
        return broker if named else self.unnamed.get(broker, broker)

    def ask_anyone(
        self,
        request: Callable[[], Any],
        what: str,
        *,
        at_once: int = 1,
        as_type: type[ClientFailure] = ReadFailed,
        among: Sequence[int] | None = None,
    ) -> tuple[int, Any]:
        """One request to a broker that answered when last it was asked who is there: which one, and its answer. The
        controller if it did: with ZooKeeper another one may have lost what it would have to look up there. What a
        broker passes on to the controller may go to several, of whom the first answer counts: one that is cut off from
        the controller answers everything else. `among`: the brokers that it may be, where not any will do."""

        async def send(client: Any) -> tuple[int, Any]:
            able = self.in_turn(client)
            nodes = (able if among is None else [n for n in able if n in among] or list(among))[:at_once]
            first, left = Future(), list(nodes)

            def failed(node: int, problem: BaseException) -> None:
                left.remove(node)
                if not left and not first.is_done:
                    first.failure(problem)

            def on_answer(node: int, answer: Any) -> None:
                if not first.is_done:
                    first.success((node, answer))

            for node in nodes:
                sent = _sent(client, node, request(), self.seconds)
                sent.add_callback(lambda answer, node=node: on_answer(node, answer))
                sent.add_errback(lambda problem, node=node: failed(node, problem))
            try:
                answer: tuple[int, Any] = await client._manager.wait_for(first, self.seconds * 1000)
            except Exception:
                if self._beside is None:  # else it may be well, and somebody else too slow
                    self.spare(nodes)
                raise
            return answer

        anew = self._beside is not None
        answer: tuple[int, Any] = self.call(lambda c: c._manager.run(send, c), as_type, what, anew=anew)
        return answer

    def in_turn(self, client: Any) -> list[Any]:
        """Who answered when last it was asked who is there, the controller first; the client learns where they are.
        Before those that are spared come the others that were named."""
        known = self if self._beside is None else self._beside
        know(client, known._nodes)

        def spared(broker: int) -> bool:
            return self._spared(broker) or known._spared(broker)

        answered = sorted(known._answered, key=lambda b: (spared(b), b != known._controller))
        if answered and spared(answered[0]):
            answered = [b for b in known._nodes if b not in answered and not spared(b)] + answered
        return answered or [client._manager.least_loaded_node()]

    def spare(self, brokers: Collection[int]) -> None:
        """These have not answered: others are asked rather than they, for a while."""
        self._answered = [node for node in self._answered if node not in brokers]
        self._deaf |= dict.fromkeys(brokers, time.monotonic() + SPARED_SECONDS)

    def _spared(self, broker: int) -> bool:
        return self._deaf.get(broker, 0.0) > time.monotonic()

    def ask_each(
        self, brokers: Iterable[int], request: Callable[[int], Any], read: Callable[[int, Any], T], what: str
    ) -> dict[int, T | ReadFailed]:
        """A request of its own to each of these brokers, all at the same time: what `read` makes of its answer, or why
        there is none. For one timeout at most, however many of them hang."""
        try:
            seconds = self._left(what)
        except ReadFailed as problem:
            return dict.fromkeys(brokers, problem)

        async def send(client: Any) -> dict[int, T | ReadFailed]:
            end = time.monotonic() + seconds
            pending = {b: _sent(client, self._node(client, b), request(b), seconds) for b in brokers}
            answers: dict[int, T | ReadFailed] = {}
            for broker in list(pending):
                left = max(0.0, end - time.monotonic())
                try:
                    answers[broker] = read(broker, await client._manager.wait_for(pending.pop(broker), left * 1000))
                except Exception as problem:  # noqa: BLE001 - any failure of one broker is that broker's Unknown
                    answers[broker] = failure_of(ReadFailed, problem, f"{what} of broker {broker}")
            return answers

        return self.call(lambda c: c._manager.run(send, c), ReadFailed, f"{what} of each broker")


SPARED_SECONDS = 600.0
"""A broker on ZooKeeper that is cut off from it keeps one of its few request threads (`num.io.threads`, 8) for each
question that it would have to look up there, until it is through again: one at every look would hang it for all."""
_LASTING = (FailureKind.UNREACHABLE, FailureKind.AUTHORIZATION, FailureKind.UNSUPPORTED)
"""Failures after which the client is as good as before: one broker did not answer, or answered no."""


def observations_of(seconds: float) -> None:
    """From now on, the reads of one observation take so long at most in this process."""
    global OBSERVATION_SECONDS  # noqa: PLW0603 - a limit of the process, set as it begins
    OBSERVATION_SECONDS = seconds


def know(client: Any, nodes: Mapping[int, Any]) -> None:
    client._manager.cluster._brokers.update(nodes)
    client._manager.cluster._coordinator_brokers.update(nodes)


def _sent(client: Any, node: Any, request: Any, seconds: float) -> Any:
    """The future answer; a broker whose address nobody knows fails it rather than the caller."""
    try:
        client._manager.reset_backoff(node)  # however often it failed before: whoever asks has a reason to
        return client._manager.send(request, node, int(seconds * 1000))
    except Exception as problem:  # noqa: BLE001
        return Future().failure(problem)


async def answer_of(client: Any, node: Any, request: Any, seconds: float) -> Any:
    """kafka-python's own limit begins only once there is a connection: this one counts from now on."""
    return await client._manager.wait_for(_sent(client, node, request, seconds), seconds * 1000)


def _connect(settings: Mapping[str, Any]) -> Any:
    """A client by whichever bootstrap server lets it in first: given all of them, kafka-python picks one at random and
    stays with it until time is up, also when it hangs."""
    servers = list(settings["bootstrap_servers"])
    tried = random.sample(servers, min(AT_ONCE, len(servers)))
    if len(tried) == 1:
        return _opened(settings)
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()
    over = threading.Event()
    lock = threading.Lock()

    def attempt(server: str) -> None:
        try:
            client = _opened({**settings, "bootstrap_servers": [server]})
        except Exception as problem:  # noqa: BLE001 - told by who waits for it
            results.put(problem)
            return
        with lock:
            late = over.is_set()
            over.set()
        if late:
            client.close()
        else:
            results.put(client)

    for server in tried:
        threading.Thread(target=attempt, args=(server,), name="kafka-bootstrap", daemon=True).start()
    failures: list[Exception] = []
    while len(failures) < len(tried):
        result = results.get()
        if not isinstance(result, Exception):
            return result
        failures.append(result)
    raise next((f for f in failures if not isinstance(f, errors.KafkaTimeoutError)), failures[0])


def _opened(settings: Mapping[str, Any]) -> Any:
    """A connected client. One that does not come about is closed: it has a thread by then."""
    kafka_bounds.bound()
    kafka_inflate.bound()
    read_in_pieces()
    client = KafkaAdminClient.__new__(KafkaAdminClient)
    try:
        client.__init__(**settings)
    except BaseException:
        if hasattr(client, "_net"):
            client._closed = False
            client.close()
        raise
    limit = settings["request_timeout_ms"]
    client._manager.config.update(
        socket_connection_setup_timeout_ms=limit, socket_connection_setup_timeout_max_ms=limit
    )
    return client


def failure_of(as_type: type[F], problem: BaseException, what: str) -> F:
    """A failure of any library below in our words."""
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
        | errors.RequestTimedOutError
        | errors.NotCoordinatorError  # of a group, any more: the next connection finds out who is
        | OSError,
    ):
        kind = FailureKind.UNREACHABLE
    else:
        kind = FailureKind.OTHER
    detail = f"{type(problem).__name__}: {problem}"
    # The same failure has the same words in every look, whichever limit was reached first and after how long.
    return as_type(kind, f"{what}: {'no answer in time' if _LATE.search(detail) else detail}"[:500])


class _Provider(AbstractTokenProvider):  # type: ignore[misc]
    """kafka-python asks for a token whenever it authenticates."""

    def __init__(self, tokens: TokenSource) -> None:
        super().__init__()
        self._tokens = tokens

    def token(self) -> str:
        return self._tokens.token().text


def _settings(
    connection: Connection, context: ssl.SSLContext | None, tokens: TokenSource | None, bounds: Bounds | None = None
) -> dict[str, Any]:
    timeout_ms = int(connection.timeout_seconds * 1000)
    settings: dict[str, Any] = {
        "bootstrap_servers": connection.bootstrap_servers.split(","),
        "client_id": "kafka-medic",
        "security_protocol": connection.protocol,
        "request_timeout_ms": timeout_ms,
        "bootstrap_timeout_ms": timeout_ms,
        "reconnect_backoff_max_ms": 2000,
        "metadata_max_age_ms": 30000,
        "max_in_flight_requests_per_connection": IN_FLIGHT,
        "selector": Selector,
        "kafka_client": unmetered,
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
    if bounds is not None:
        settings["proxy_url"] = bounds.url
    return settings
