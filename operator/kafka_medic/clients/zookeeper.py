"""kazoo: what ZooKeeper says of the brokers, the controller and itself."""

from __future__ import annotations

import json
import logging
import re
import socket
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from kafka_medic.clients.ports import FailureKind, ReadFailed
from kafka_medic.cluster.snapshot import Controller, Quorum, Voter

logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # every failed attempt also reaches us as an exception

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
            client.stop()
            client.close()

    def registrations(self) -> Registrations:
        """Raises ReadFailed when no majority answers within the timeout."""
        try:
            client = self._connected()
            ids = tuple(sorted(int(i) for i in client.get_children(f"{self._chroot}/brokers/ids")))
            try:
                holder = json.loads(client.get(f"{self._chroot}/controller")[0])["brokerid"]
                epoch = int(client.get(f"{self._chroot}/controller_epoch")[0])
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
        """Each server asked alone (`srvr`, the one four-letter word that is enabled by default). Servers are numbered
        from 1 in the order of the connect string; one that does not serve has lag None."""
        voters, leader = [], None
        for number, server in enumerate(self._hosts.split(","), start=1):
            mode = self._mode(server)
            voters.append(Voter(number, 0 if mode else None, 0 if mode else None))
            if mode in ("leader", "standalone"):
                leader = number
        return Quorum(leader, tuple(voters))

    def _mode(self, server: str) -> str | None:
        host, _, port = server.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=min(2.0, self._timeout)) as link:
                link.sendall(b"srvr")
                answer = b""
                while len(answer) < 65536 and (chunk := link.recv(4096)):
                    answer += chunk
        except (OSError, ValueError):
            return None
        found = _MODE.search(answer)
        return found.group(1).decode() if found else None

    def _connected(self) -> KazooClient:
        if self._client is not None and self._client.connected:
            return self._client
        self.close()
        client = KazooClient(hosts=self._hosts, timeout=self._timeout, read_only=False)
        self._client = client
        client.start(timeout=self._timeout)
        return client
