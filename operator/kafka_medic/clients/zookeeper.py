"""kazoo: what ZooKeeper says of the brokers, the controller and itself."""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.hosts import collect_hosts

from kafka_medic.clients.ports import FailureKind, ReadFailed
from kafka_medic.cluster.snapshot import Controller, Quorum, Voter

logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # every failed attempt also reaches us as an exception

_LOG = logging.getLogger(__name__)
_MODE = re.compile(rb"^Mode: (\w+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Registrations:
    """What the ensemble holds: live registrations and the active controller."""

    brokers: tuple[int, ...]
    controller: Controller


class ZooKeeper:
    """Read-only access to an ensemble. `connect` is Kafka's own form: host:port,host:port[/chroot]."""

    def __init__(self, connect: str, timeout_seconds: float = 5.0) -> None:
        self._hosts, slash, chroot = connect.partition("/")
        self._chroot = f"{slash}{chroot}".rstrip("/")
        self._timeout = timeout_seconds
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

        def read(pending: Any) -> Any:
            return pending.get(timeout=self._timeout)

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
        except (KazooException, KazooTimeoutError, OSError, ValueError, KeyError) as problem:
            self.close()
            raise ReadFailed(FailureKind.UNREACHABLE, f"ZooKeeper: {type(problem).__name__}: {problem}") from None

    def ensemble(self) -> Quorum:
        """Each server asked alone (`srvr`, the one four-letter word that is enabled by default), all at the same time
        and for the timeout at most. Servers are numbered from 1 in the order of the connect string; one that does not
        serve has lag None. Raises ReadFailed when none of them answers."""
        try:
            servers = collect_hosts(self._hosts)[0]
        except ValueError as problem:
            raise ReadFailed(FailureKind.OTHER, f"metadata.zookeeper.connect: {problem}") from None
        answers: dict[int, str] = {}

        def ask(number: int, host: str, port: int) -> None:
            mode = self._mode(host, port)
            if mode is not None:
                answers[number] = mode

        # Threads of our own: looking a name up has no timeout, and nobody waits for one that hangs in it.
        asking = [
            threading.Thread(target=ask, args=(number, *server), daemon=True)
            for number, server in enumerate(servers, start=1)
        ]
        end = time.monotonic() + self._timeout
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join(max(0.0, end - time.monotonic()))
        modes = {number: answers.get(number) for number in range(1, len(servers) + 1)}
        if all(mode is None for mode in modes.values()):
            raise ReadFailed(FailureKind.UNREACHABLE, f"none of {len(servers)} ZooKeeper servers answered `srvr`")
        voters = tuple(Voter(number, 0 if mode else None, 0 if mode else None) for number, mode in modes.items())
        return Quorum(next((n for n, mode in modes.items() if mode in ("leader", "standalone")), None), voters)

    def _mode(self, host: str, port: int) -> str | None:
        """What the server is; empty when it answers and does not serve; None when it does not answer that."""
        try:
            with socket.create_connection((host, port), timeout=min(2.0, self._timeout)) as link:
                link.sendall(b"srvr")
                answer = b""
                while len(answer) < 65536 and (chunk := link.recv(4096)):
                    answer += chunk
        except (OSError, ValueError):
            return None
        found = _MODE.search(answer)
        if found:
            return found.group(1).decode()
        return "" if b"not currently serving" in answer else None

    def _connected(self) -> KazooClient:
        if self._client is not None and self._client.connected:
            return self._client
        self.close()
        client = KazooClient(hosts=self._hosts, timeout=self._timeout, read_only=False)
        self._client = client
        client.start(timeout=self._timeout)
        return client
