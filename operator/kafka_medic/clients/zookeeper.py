"""kazoo: what ZooKeeper says of the brokers, the controller and itself."""

from __future__ import annotations

import base64
import json
import logging
import re
import socket
import ssl
import struct
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.hosts import collect_hosts

from kafka_medic.clients.destinations import Destinations
from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.kazoo_bounds import BoundedConnection
from kafka_medic.clients.ports import LONGEST_TIMEOUT, EnsembleConnection
from kafka_medic.clients.tls import client_context, handshake_failure
from kafka_medic.cluster.accounts import TopicRecord
from kafka_medic.cluster.snapshot import Controller, Quorum, Voter

logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # every failed attempt also reaches us as an exception

_LOG = logging.getLogger(__name__)
_FAILURES = (
    KazooException,
    KazooTimeoutError,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,  # JSON within JSON, a hundred thousand deep
    RuntimeError,  # kazoo's word for an answer to another request
    struct.error,
)
"""What a server can bring about. kazoo raises what its decoders raise."""
MAX_PARTITIONS = 50_000
"""Of one topic's node. Each is a request of its own."""
STATES_AT_ONCE = 1_000
_MODE = re.compile(rb"^Mode: (\w+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Registrations:
    """What the ensemble holds: live registrations and the active controller."""

    brokers: tuple[int, ...]
    controller: Controller


Partition = tuple[int | None, int | None, tuple[int, ...] | None, tuple[int, ...]]


def _topic_id(text: str | None) -> str | None:
    """From Kafka's own notation (org.apache.kafka.common.Uuid: base64 for URLs, unpadded) to that of RFC 9562."""
    return str(uuid.UUID(bytes=base64.urlsafe_b64decode(f"{text}=="))) if text else None


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo wants certificates as files; ours are in memory alone. And it connects to what names resolve to."""

    def __init__(self, context: ssl.SSLContext | None, destinations: Destinations | None) -> None:
        super().__init__()
        self._context, self._destinations = context, destinations

    def create_connection(
        self, address: Any, hostname: str | None = None, timeout: float | None = None, **_: Any
    ) -> Any:
        if self._destinations is not None:
            try:
                self._destinations.address(str(address[0]))
            except ReadFailed as problem:
                raise OSError(problem.message) from None
        link = super().create_connection(address, timeout=timeout)
        if self._context is None:
            return link
        try:
            link.settimeout(timeout)
            return self._context.wrap_socket(link, server_hostname=hostname or address[0])
        except BaseException:
            link.close()
            raise


class ZooKeeper:
    """An ensemble. All that is ever written is that a stuck controller gives way."""

    def __init__(self, ensemble: EnsembleConnection) -> None:
        self._hosts, slash, chroot = ensemble.connect.partition("/")
        self._chroot = f"{slash}{chroot}".rstrip("/")
        self._timeout = min(ensemble.timeout_seconds, LONGEST_TIMEOUT)
        self._tls = ensemble.tls
        self._destinations = ensemble.destinations
        self._context: ssl.SSLContext | None = None
        self._client: KazooClient | None = None

    def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            try:
                client.stop()
                client.close()
            except Exception as problem:  # noqa: BLE001 - a connection that does not end well is not used again
                _LOG.info("ZooKeeper: the connection did not close: %s", problem)

    def registrations(self) -> Registrations:
        """Raises ReadFailed when no majority answers within the timeout."""

        end = time.monotonic() + self._timeout

        def read(pending: Any) -> Any:
            return pending.get(timeout=max(0.0, end - time.monotonic()))

        try:
            client = self._connected()
            ids = tuple(sorted(int(i) for i in read(client.get_children_async(f"{self._chroot}/brokers/ids"))))
            try:
                holder = json.loads(read(client.get_async(f"{self._chroot}/controller"))[0])["brokerid"]
                epoch = int(read(client.get_async(f"{self._chroot}/controller_epoch"))[0])
            except NoNodeError:
                return Registrations(ids, Controller(None, None))
            return Registrations(ids, Controller(int(holder), epoch))
        except NoNodeError as problem:
            self.close()
            where = f"{self._chroot}/brokers/ids"
            raise ReadFailed(
                FailureKind.OTHER, f"ZooKeeper has no {where}: check the chroot in metadata.zookeeper"
            ) from problem
        except _FAILURES as problem:
            self.close()
            raise self._explained(f"{type(problem).__name__}: {problem}") from None

    def topics(self, names: Sequence[str]) -> Mapping[str, TopicRecord | None]:
        """The records of these topics, at least as new as all that was committed before this call: `sync` makes the
        server that is asked catch up with the ensemble's leader. None for a topic that does not exist, or is marked for
        deletion: its node goes last, once every replica is deleted (`TopicDeletionManager`), and a broker that the
        controller cannot reach holds that up for ever. Raises ReadFailed."""
        end = time.monotonic() + self._timeout

        def read(pending: Any) -> Any:
            return pending.get(timeout=max(0.0, end - time.monotonic()))

        try:
            client = self._connected()
            read(client.sync_async(f"{self._chroot}/brokers/topics"))
            try:
                marked = set(read(client.get_children_async(f"{self._chroot}/admin/delete_topics")))
            except NoNodeError:
                marked = set()
            requests = {name: client.get_async(f"{self._chroot}/brokers/topics/{name}") for name in names}
            found: dict[str, TopicRecord | None] = dict.fromkeys(marked & set(names))
            for name, pending in requests.items():
                if name in marked:
                    continue
                try:
                    found[name] = self._record(client, name, json.loads(read(pending)[0]), read)
                except NoNodeError:
                    found[name] = None
        except _FAILURES as problem:
            self.close()
            raise ReadFailed(FailureKind.OTHER, f"ZooKeeper: topics: {type(problem).__name__}: {problem}") from None
        return found

    def _record(self, client: KazooClient, name: str, topic: Any, read: Callable[[Any], Any]) -> TopicRecord:
        """Formats: Kafka's TopicZNode and TopicPartitionStateZNode (kafka.zk.ZkData)."""
        base = f"{self._chroot}/brokers/topics/{name}/partitions"
        assigned = {int(number): tuple(map(int, ids)) for number, ids in topic["partitions"].items()}
        if len(assigned) > MAX_PARTITIONS:
            raise ValueError(f"topic {name} has {len(assigned)} partitions (limit {MAX_PARTITIONS})")
        partitions: dict[int, Partition] = {}
        numbers = list(assigned)
        for first in range(0, len(numbers), STATES_AT_ONCE):
            part = numbers[first : first + STATES_AT_ONCE]
            requests = {number: client.get_async(f"{base}/{number}/state") for number in part}
            for number, pending in requests.items():
                try:
                    state = json.loads(read(pending)[0])
                except NoNodeError:  # the controller writes it after the assignment
                    partitions[number] = (None, None, None, assigned[number])
                    continue
                isr = tuple(map(int, state["isr"]))
                partitions[number] = (int(state["leader"]), int(state["leader_epoch"]), isr, assigned[number])
        if all(leader is None for leader, *_ in partitions.values()):
            read(client.get_async(f"{self._chroot}/brokers/topics/{name}"))  # NoNodeError: deleted meanwhile
        return TopicRecord(_topic_id(topic.get("topic_id")), partitions)

    def resign_controller(self, broker: int, epoch: int) -> None:
        """Delete `/controller` while it is that broker's and the controller epoch is `epoch`, in one transaction with a
        check of the epoch's node, as Kafka's own KafkaZkClient.deleteController does. Nothing where another one, or the
        same anew, is controller by now. Raises WriteFailed."""
        end = time.monotonic() + self._timeout

        def done(pending: Any) -> Any:
            return pending.get(timeout=max(0.0, end - time.monotonic()))

        try:
            client = self._connected()
            try:
                found, state = done(client.get_async(f"{self._chroot}/controller_epoch"))
                holder = json.loads(done(client.get_async(f"{self._chroot}/controller"))[0])["brokerid"]
            except NoNodeError:
                return
            if (int(holder), int(found)) != (broker, epoch):
                return
            both = client.transaction()
            both.check(f"{self._chroot}/controller_epoch", state.version)
            both.delete(f"{self._chroot}/controller")
            refused = [type(a).__name__ for a in done(both.commit_async()) if isinstance(a, Exception)]
        except _FAILURES as problem:
            self.close()
            raise WriteFailed(FailureKind.UNREACHABLE, f"ZooKeeper: {type(problem).__name__}: {problem}") from None
        if "NoAuthError" in refused:
            message = (
                "ZooKeeper refuses to delete /controller: its ACL (zookeeper.set.acl) lets only the brokers; delete it "
                "as one of them"
            )
            raise WriteFailed(FailureKind.REFUSED, message)
        if refused:
            raise WriteFailed(FailureKind.REFUSED, f"ZooKeeper did not delete /controller: {', '.join(refused)}")

    def _explained(self, message: str) -> ReadFailed:
        """kazoo goes on trying after a failed handshake and says that time ran out: one of our own says why."""
        context = self._secured()
        if context is not None:
            for host, port in collect_hosts(self._hosts)[0][:3]:
                reason = handshake_failure(context, host, port, min(2.0, self._timeout))
                if reason is not None:
                    return ReadFailed(reason.kind, f"ZooKeeper {reason.message}")
        return ReadFailed(FailureKind.UNREACHABLE, f"ZooKeeper: {message}")

    def _secured(self) -> ssl.SSLContext | None:
        if self._context is None and self._tls is not None:
            self._context = client_context(self._tls)
        return self._context

    def ensemble(self) -> Quorum:
        """Each server asked alone (`srvr`, the one four-letter word that is enabled by default), all at the same time
        and for the timeout at most. Servers are numbered from 1 in the order of the connect string; one that does not
        serve has lag None. Raises ReadFailed when none of them answers."""
        try:
            servers = collect_hosts(self._hosts)[0]
        except ValueError as problem:
            raise ReadFailed(FailureKind.OTHER, f"metadata.zookeeper.connect: {problem}") from None
        answers: dict[int, str] = {}
        context = self._secured()

        def ask(number: int, host: str, port: int) -> None:
            mode = self._mode(context, host, port)
            if mode is not None:
                answers[number] = mode

        # Threads of our own: looking a name up has no timeout, and nobody waits for one that hangs in it.
        threads = [
            threading.Thread(target=ask, args=(number, *server), daemon=True)
            for number, server in enumerate(servers, start=1)
        ]
        end = time.monotonic() + self._timeout
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        modes = {number: answers.get(number) for number in range(1, len(servers) + 1)}
        if all(mode is None for mode in modes.values()):
            raise self._explained(f"none of {len(servers)} servers answered `srvr`")
        voters = tuple(Voter(number, 0 if mode else None, 0 if mode else None) for number, mode in modes.items())
        return Quorum(next((n for n, mode in modes.items() if mode in ("leader", "standalone")), None), voters)

    def _mode(self, context: ssl.SSLContext | None, host: str, port: int) -> str | None:
        """What the server is; empty when it answers and does not serve; None when it does not answer that."""
        try:
            with ExitStack() as open_links:
                self._permit([(host, port)])
                link = open_links.enter_context(socket.create_connection((host, port), timeout=min(2.0, self._timeout)))
                if context is not None:
                    link = open_links.enter_context(context.wrap_socket(link, server_hostname=host))
                link.sendall(b"srvr")
                answer, end = b"", time.monotonic() + self._timeout
                while len(answer) < 65536 and time.monotonic() < end and (chunk := link.recv(4096)):
                    answer += chunk
        except (OSError, ValueError, ReadFailed):
            return None
        found = _MODE.search(answer)
        if found:
            return found.group(1).decode()
        return "" if b"not currently serving" in answer else None

    def _permit(self, addresses: Sequence[tuple[str, int]]) -> None:
        """Raises ReadFailed for what is no permitted destination."""
        if self._destinations is None:
            return
        for host, port in addresses:
            try:
                self._destinations.server(host, port)
            except ReadFailed as problem:
                if problem.kind is FailureKind.DESTINATION:
                    raise

    def _connected(self) -> KazooClient:
        if self._client is not None and self._client.connected:
            return self._client
        self.close()
        context = self._secured()
        self._permit(collect_hosts(self._hosts)[0])
        handler = _Handler(context, self._destinations)
        client = KazooClient(hosts=self._hosts, timeout=self._timeout, read_only=False, handler=handler)
        client._connection = BoundedConnection.of(client)
        self._client = client
        client.start(timeout=self._timeout)
        return client
