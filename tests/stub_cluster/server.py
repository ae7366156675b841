"""The stub brokers. Each listens at a loopback address of its own; all share one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.stub_cluster.answers import Answer, Answers
from tests.stub_cluster.description import Address, Described, Sight
from tests.stub_cluster.messages import BadRequest, parsed
from tests.stub_cluster.traffic import Traffic, name_of

NETWORK = "127.77"
"""The first half of every broker's address."""
PORTS = 20
"""Attempts to find a port that is free at every address."""
CHUNK, SMALL = 1 << 20, 1 << 14
LARGEST_REQUEST = 100 << 20


class Conduct(StrEnum):
    """How a broker behaves. `SILENT`: nobody listens, connections are refused. `HANGS`: it takes connections and
    requests, and answers none."""

    ANSWERS = "answers"
    SILENT = "silent"
    HANGS = "hangs"


def address_of(broker: int) -> str:
    return f"{NETWORK}.{broker // 250}.{broker % 250 + 1}"


@dataclass
class _Broker:
    id: int
    sight: Sight
    conduct: Conduct = Conduct.ANSWERS
    listener: asyncio.Task[None] | None = None
    links: set[asyncio.Task[None]] = field(default_factory=set)


class StubCluster:
    """Runs in the event loop that calls `start`; `running` gives it a thread. Everything but `start`, `stop` and
    `conduct_now` may be called from any thread while nothing is in flight."""

    def __init__(self, described: Described, stale_topics: int = 0) -> None:
        """`stale_topics`: of how many topics a stale broker has an earlier epoch."""
        self.described = described
        self.traffic = Traffic()
        self._brokers = {b: _Broker(b, described.fresh) for b in sorted(described.racks)}
        self._sockets = _listening(list(self._brokers))
        self.addresses: Mapping[int, Address] = {
            b: (address_of(b), link.getsockname()[1]) for b, link in self._sockets.items()
        }
        self._answers = Answers(described, self.addresses)
        self._state, self._physics = self._answers.state, self._answers.physics
        self._fresh, self._stale = self._state.fresh, self._state.stale(stale_topics)
        for broker in self._brokers.values():
            broker.sight = self._fresh

    @property
    def bootstrap(self) -> str:
        """The first few brokers."""
        return ",".join(f"{host}:{port}" for host, port in list(self.addresses.values())[:3])

    def warm(self, versions: tuple[int, ...]) -> int:
        """Encode the metadata of all topics ahead of requests. Returns its size in the last of these versions."""
        seen = {id(b.sight): b.sight for b in self._brokers.values()}
        return [self._answers.warm(sight, versions) for sight in seen.values()][-1]

    def make_stale(self, broker: int, *, stale: bool = True) -> None:
        self._brokers[broker].sight = self._stale if stale else self._fresh

    def make_deaf(self, broker: int) -> None:
        """From now on the broker hears of no change of any topic."""
        self._brokers[broker].sight = Sight(f"deaf {broker}", dict(self._fresh.topics))

    @property
    def orders(self) -> list[dict[str, Any]]:
        """Every order so far, for JSON."""
        return [order._asdict() for order in self._answers.orders.taken]

    def pace(self, copying: float | None, returning: float | None) -> None:
        """Seconds until an added replica, and until one of a broker that came back, is in sync. None: never."""
        self._physics.pace(copying, returning)

    def fill(self, topic: str, size: int) -> None:
        """So many bytes in each partition of a topic."""
        partitions = self._fresh.topics[topic].partitions
        self._state.put(
            topic, {n: p._replace(end=max(p.end, p.start + 1), size=size) for n, p in enumerate(partitions)}
        )

    async def go(self, broker: int) -> None:
        """The broker hands over what it leads, leaves the members and ends."""
        self._physics.go(broker)
        await self.conduct_now(broker, Conduct.SILENT)

    async def come(self, broker: int) -> None:
        """The broker answers again, is a member, and catches up."""
        await self.conduct_now(broker, Conduct.ANSWERS)
        self._physics.come(broker)

    async def start(self) -> None:
        for broker in self._brokers.values():
            self._listen(broker)

    async def stop(self) -> None:
        tasks = [t for b in self._brokers.values() for t in (b.listener, *b.links) if t is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for link in self._sockets.values():
            link.close()

    async def conduct_now(self, broker: int, conduct: Conduct) -> None:
        """Takes effect at once. Open connections end, unless the broker begins to hang."""
        it = self._brokers[broker]
        it.conduct = conduct
        if conduct is not Conduct.HANGS:
            for task in list(it.links):
                task.cancel()
        if conduct is Conduct.SILENT and it.listener is not None:
            it.listener.cancel()
            await asyncio.gather(it.listener, return_exceptions=True)
            it.listener = None
            self._sockets[broker].close()
        elif conduct is not Conduct.SILENT and it.listener is None:
            self._sockets[broker] = _listener(*self.addresses[broker])
            self._listen(it)

    def _listen(self, broker: _Broker) -> None:
        broker.listener = asyncio.create_task(self._accept(broker, self._sockets[broker.id]))

    async def _accept(self, broker: _Broker, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            link, _ = await loop.sock_accept(listener)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.traffic.connections += 1
            task = asyncio.create_task(self._serve(broker, link))
            broker.links.add(task)
            task.add_done_callback(broker.links.discard)

    async def _serve(self, broker: _Broker, link: socket.socket) -> None:
        """Serves one connection and answers its requests in order."""
        loop, buffer = asyncio.get_running_loop(), bytearray()
        try:
            while data := await loop.sock_recv(link, 1 << 16):
                buffer += data
                while (frame := _frame(buffer)) is not None:
                    request = parsed(frame)
                    self.traffic.asked(broker.id, request.key, 4 + len(frame))
                    if broker.conduct is Conduct.HANGS:
                        continue
                    try:
                        answer = self._answers.answer(broker.id, broker.sight, request)
                    except Exception as problem:  # noqa: BLE001 - a fault of the stub is reported where it is counted
                        why = str(problem) if isinstance(problem, BadRequest) else repr(problem)
                        self.traffic.refused[f"{name_of(request.key)} version {request.version}: {why}"] += 1
                        return
                    await self._send(broker.id, request.key, link, answer)
        except (OSError, BadRequest):
            pass  # the client closed the connection, or does not speak Kafka's protocol
        finally:
            link.close()

    async def _send(self, broker: int, key: int, link: socket.socket, answer: Answer) -> None:
        loop = asyncio.get_running_loop()
        if len(answer.body) <= SMALL:
            await loop.sock_sendall(link, answer.head + answer.body)
            self.traffic.answered(broker, key, len(answer.head) + len(answer.body))
            return
        await loop.sock_sendall(link, answer.head)
        self.traffic.answered(broker, key, len(answer.head))
        rest = memoryview(answer.body)
        for start in range(0, len(rest), CHUNK):
            part = rest[start : start + CHUNK]
            await loop.sock_sendall(link, part)
            self.traffic.answered(broker, key, len(part))


@dataclass
class Running:
    """A cluster in a thread of this process."""

    cluster: StubCluster
    loop: asyncio.AbstractEventLoop

    def conduct(self, broker: int, conduct: Conduct) -> None:
        self._wait(self.cluster.conduct_now(broker, conduct))

    def make_stale(self, broker: int, *, stale: bool = True) -> None:
        async def change() -> None:
            self.cluster.make_stale(broker, stale=stale)

        self._wait(change())

    def go(self, broker: int) -> None:
        self._wait(self.cluster.go(broker))

    def come(self, broker: int) -> None:
        self._wait(self.cluster.come(broker))

    def pace(self, copying: float | None, returning: float | None) -> None:
        async def change() -> None:
            self.cluster.pace(copying, returning)

        self._wait(change())

    def orders(self) -> list[dict[str, Any]]:
        async def read() -> list[dict[str, Any]]:
            return self.cluster.orders

        found: list[dict[str, Any]] = self._wait(read())
        return found

    def counts(self) -> dict[str, Any]:
        async def read() -> dict[str, Any]:
            return self.cluster.traffic.document()

        found: dict[str, Any] = self._wait(read())
        return found

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)


@contextlib.contextmanager
def running(described: Described, stale_topics: int = 0) -> Iterator[Running]:
    """The cluster in a thread of its own, until the end of the block."""
    cluster = StubCluster(described, stale_topics)
    up: Future[asyncio.AbstractEventLoop] = Future()
    over = asyncio.Event()

    async def serve() -> None:
        await cluster.start()
        up.set_result(asyncio.get_running_loop())
        await over.wait()
        await cluster.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="stub-cluster", daemon=True)
    thread.start()
    loop = up.result(30)
    try:
        yield Running(cluster, loop)
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(30)


def _frame(buffer: bytearray) -> bytes | None:
    """Removes the first whole request from the buffer."""
    if len(buffer) < 4:
        return None
    (size,) = struct.unpack_from(">i", buffer)
    if not 0 < size <= LARGEST_REQUEST:
        raise BadRequest(f"a request of {size} bytes")
    if len(buffer) < 4 + size:
        return None
    frame = bytes(buffer[4 : 4 + size])
    del buffer[: 4 + size]
    return frame


def _listener(host: str, port: int) -> socket.socket:
    link = socket.create_server((host, port), backlog=128)
    link.setblocking(False)
    return link


def _listening(brokers: list[int]) -> dict[int, socket.socket]:
    """A socket for each broker, all at one port that the kernel chooses."""
    for attempt in range(PORTS):
        links = [_listener(address_of(brokers[0]), 0)]
        port = links[0].getsockname()[1]
        try:
            links += [_listener(address_of(broker), port) for broker in brokers[1:]]
        except OSError as problem:
            for link in links:
                link.close()
            if problem.errno != errno.EADDRINUSE or attempt == PORTS - 1:
                raise
        else:
            return dict(zip(brokers, links, strict=True))
    raise AssertionError("not reached")
