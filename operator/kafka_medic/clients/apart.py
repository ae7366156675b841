"""librdkafka in processes of their own.

librdkafka is C. Fourteen bytes of a Metadata response end its process by a segmentation fault (2.16.0: an array of
brokers that is null), and it decompresses whatever a broker sends. In the operator's process that would end the watch
of every cluster. Each client therefore lives in a small process, forked off one that has everything imported, with a
bound on its memory. What dies there is a failed call here.

A child's words are data: they are read by an unpickler that makes this project's records and nothing else.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from multiprocessing.connection import Connection as Pipe
from operator import attrgetter
from pathlib import Path
from typing import Any

from kafka_medic.clients.failures import ClientFailure, FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.oauth import TokenSource
from kafka_medic.clients.ports import (
    Broken,
    CanaryEvent,
    ClusterDescription,
    ConfigChange,
    Connection,
    LogRecord,
    MaySend,
    NewTopic,
    OwnRecord,
)
from kafka_medic.cluster.snapshot import TopicPartition

_LOG = logging.getLogger(__name__)

MEMORY_BYTES = 320 << 20
"""What one client may allocate beyond what it begins with, for 30 seconds at most (`IDLE_SECONDS`) unless it is a
canary's. An allocation beyond that ends its process. 500 brokers take 260 MB, most of it never touched."""
STACK_BYTES = 256 << 10
"""Of each thread of librdkafka, which has one for each broker. Of Linux's default, 8 MB, 40 were too many."""
IDLE_SECONDS = 30.0
"""Of an admin client, after which its process ends."""
REUSED_SECONDS = 20.0
"""So long after its last use a process is used again: well before it ends by itself."""
CALL_SECONDS = 900.0
"""The longest call there is (thousands of topics altered, a topic read through) is well within this."""
RECORDS_AT_ONCE = 500
MAKERS = {
    "admin": ("kafka_medic.clients.librdkafka", "LibrdkafkaAdmin.with_token"),
    "canary": ("kafka_medic.clients.librdkafka_canary", "LibrdkafkaCanary"),
    "records": ("kafka_medic.clients.librdkafka_records", "OwnTopics"),
}
_WORDS = frozenset(
    {
        *(("kafka_medic.clients.ports", name) for name in ("Node", "ClusterDescription", "LogRecord", "FailureKind")),
        *(("kafka_medic.clients.ports", name) for name in ("Delivered", "Undelivered", "Returned", "Unread", "Broken")),
        ("kafka_medic.cluster.snapshot", "TopicPartition"),
    }
)
MAX_ANSWER = 64 << 20
LINE_BYTES = 500


class _Records(pickle.Unpickler):
    """Makes no other object than a client's answers consist of."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _WORDS:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return super().find_class(module, name)


class _Nursery:
    """The process that all others are forked off. Started when first needed, and anew when it is gone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._link: socket.socket | None = None

    def child(self) -> Pipe:
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            for last in (False, True):
                try:
                    if self._link is None:
                        self._link = _started()
                    socket.send_fds(self._link, [b"+"], [theirs.fileno()])
                    break
                except OSError as problem:
                    if self._link is not None:
                        self._link.close()
                        self._link = None
                    if last:
                        ours.close()
                        raise ReadFailed(FailureKind.OTHER, f"no process for librdkafka: {problem}") from None
        return Pipe(ours.detach())


# glibc takes the size of all stacks from this limit, when a program begins.
_SMALL_STACKS = f"""
import os, resource, sys
_, most = resource.getrlimit(resource.RLIMIT_STACK)
resource.setrlimit(resource.RLIMIT_STACK, ({STACK_BYTES}, most))
os.execv(sys.argv[1], sys.argv[1:])
"""


def _started() -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        line = [sys.executable, "-m", __spec__.name if __spec__ else __name__, str(theirs.fileno())]
        line = [sys.executable, "-I", "-S", "-c", _SMALL_STACKS, *line]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
        process = subprocess.Popen(  # noqa: S603  # nosec B603
            line,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
        )
    threading.Thread(target=_log, args=(process,), name="librdkafka-words", daemon=True).start()
    return ours


def _log(process: subprocess.Popen[bytes]) -> None:
    """What librdkafka says last of all, and what servers have it say, are lines of our log and no others."""
    assert process.stderr is not None
    with process.stderr as words:
        while line := words.readline(LINE_BYTES):
            _LOG.info("librdkafka's process: %s", line.decode("utf-8", "replace").rstrip("\n"))
    process.wait()


_NURSERY = _Nursery()


class _Process:
    """One client in its process. Not shared between threads."""

    def __init__(self, maker: str, *args: Any) -> None:
        """Raises what the client's constructor raises."""
        self._pipe = _NURSERY.child()
        self._held: int | None = None
        """A file descriptor of the process: its number may be another one's by the time it is ended."""
        self.used = time.monotonic()
        try:
            self.pid: int = self._exchange(("make", maker, args), ReadFailed, {})
            self._held = _descriptor(self.pid)
        except ClientFailure:
            self.end()
            raise

    def call(
        self,
        name: str,
        *args: Any,
        as_type: type[ClientFailure] = ReadFailed,
        callbacks: dict[str, Callable[[], Any]] | None = None,
    ) -> Any:
        """What the client's method answers. `callbacks`: what it may call back while it works."""
        return self._exchange(("call", name, args), as_type, callbacks or {})

    def _exchange(self, words: Any, as_type: type[ClientFailure], callbacks: dict[str, Callable[[], Any]]) -> Any:
        end = time.monotonic() + CALL_SECONDS
        try:
            self._pipe.send(words)
            while True:
                if not self._pipe.poll(max(0.0, end - time.monotonic())):
                    raise EOFError
                kind, answer = _Records(io.BytesIO(self._pipe.recv_bytes(MAX_ANSWER))).load()
                self.used = time.monotonic()
                if kind == "ask":
                    self._pipe.send(callbacks[str(answer)]())
                elif kind == "failed":
                    failure, reason, message = answer
                    raise (WriteFailed if failure == "WriteFailed" else ReadFailed)(FailureKind(reason), str(message))
                else:
                    return answer
        except (OSError, EOFError, pickle.UnpicklingError, KeyError, TypeError, ValueError) as problem:
            self.end()
            what = "its process ended, or did not answer" if isinstance(problem, OSError | EOFError) else "garbage"
            message = f"librdkafka, reading what the server sent: {what}"
            raise as_type(FailureKind.OTHER, message) from None

    def end(self) -> None:
        self._pipe.close()
        if self._held is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._held, signal.SIGKILL)
            os.close(self._held)
            self._held = None


def _descriptor(pid: int) -> int | None:
    """None where the system has none: then the process ends by the end of its pipe, once it is back from its call."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None


class AdminApart:
    """`LibrdkafkaAdmin` in a process that ends when it is idle. May be used by several threads."""

    def __init__(self, connection: Connection, tokens: TokenSource | None = None) -> None:
        """`tokens`: what its process is given the first token of."""
        self._connection = connection
        self._tokens = tokens
        self._lock = threading.Lock()
        self._process: _Process | None = None

    def close(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    def members(self) -> ClusterDescription:
        """By a new client, which does not know a controller or a leader of before."""
        self.close()
        described: ClusterDescription = self._call("members")
        return described

    def offsets_at(self, partitions: Sequence[TopicPartition], ms: int) -> dict[TopicPartition, int | None]:
        offsets: dict[TopicPartition, int | None] = self._call("offsets_at", list(partitions), ms)
        return offsets

    def alter_configs(self, changes: Sequence[ConfigChange], may_send: MaySend) -> None:
        self._call("alter_configs", list(changes), as_type=WriteFailed, callbacks={"may_send": may_send})

    def create_topic(self, topic: NewTopic) -> None:
        self._call("create_topic", topic, as_type=WriteFailed)

    def add_partitions(self, topic: str, total: int, assignment: Sequence[Sequence[int]]) -> None:
        self._call("add_partitions", topic, total, [list(ids) for ids in assignment], as_type=WriteFailed)

    def _call(
        self,
        name: str,
        *args: Any,
        as_type: type[ClientFailure] = ReadFailed,
        callbacks: dict[str, Callable[[], Any]] | None = None,
    ) -> Any:
        with self._lock:
            if self._process is not None and time.monotonic() - self._process.used > REUSED_SECONDS:
                self._end()
            try:
                if self._process is None:
                    token = None if self._tokens is None else self._tokens.token()
                    self._process = _Process("admin", self._connection, token)
                return self._process.call(name, *args, as_type=as_type, callbacks=callbacks)
            except ClientFailure as problem:
                if problem.kind is FailureKind.OTHER:
                    self._end()
                raise as_type(problem.kind, problem.message) from None


class RecordsApart:
    """`OwnTopics`, in a process for each call."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, topic: str, partition: int, records: Iterable[OwnRecord]) -> int:
        rest = iter(records)
        try:
            process = _Process("records", self._connection)
        except ReadFailed as problem:
            raise WriteFailed(problem.kind, problem.message) from None
        try:
            more = {"records": lambda: list(islice(rest, RECORDS_AT_ONCE))}
            return int(process.call("append", topic, partition, as_type=WriteFailed, callbacks=more))
        finally:
            process.end()

    def read_topic(self, topic: str, partition: int) -> Iterator[LogRecord]:
        process = _Process("records", self._connection)
        try:
            process.call("begin", topic, partition)
            while part := process.call("more"):
                yield from part
        finally:
            process.end()


class CanaryApart:
    """`LibrdkafkaCanary` in a process of its own. Implements `ports.CanaryClient`."""

    def __init__(self, connection: Connection, topic: str, delivery_seconds: float) -> None:
        self._process = _Process("canary", connection, topic, delivery_seconds)
        self._broken: list[CanaryEvent] = []
        self._dead = False

    def send(self, partition: int, value: bytes) -> bool:
        return bool(self._call("send", partition, value))

    def follow(self, partition: int, offset: int) -> None:
        self._call("follow", partition, offset)

    def forget(self, partition: int) -> None:
        self._call("forget", partition)

    def poll(self, seconds: float) -> Sequence[CanaryEvent]:
        polled = [] if self._dead else self._call("poll", seconds)
        events, self._broken = [*(polled or ()), *self._broken], []
        return events

    def close(self) -> None:
        if not self._dead:
            self._call("close")
        self._process.end()

    def _call(self, name: str, *args: Any) -> Any:
        """None from a process that is dead, which the next poll reports."""
        if self._dead:
            return None
        try:
            return self._process.call(name, *args)
        except ReadFailed as problem:
            self._dead = True
            self._broken.append(Broken(problem.message))
            return None


class _Client:
    """In the child: what calls are answered by."""

    def __init__(self, pipe: Pipe, maker: str, args: Sequence[Any]) -> None:
        module, name = MAKERS[maker]
        self._made: Any = attrgetter(name)(sys.modules[module])(*args)
        self._pipe = pipe
        self._reading: Iterator[LogRecord] | None = None

    def call(self, name: str, args: Sequence[Any]) -> Any:
        match name:
            case "alter_configs":
                return self._made.alter_configs(*args, lambda: bool(self._ask("may_send")))
            case "append":
                return self._made.append(*args, self._records())
            case "begin":
                self._reading = iter(self._made.read_topic(*args))
                return None
            case "more":
                assert self._reading is not None
                return list(islice(self._reading, RECORDS_AT_ONCE))
        return getattr(self._made, name)(*args)

    def _records(self) -> Iterator[OwnRecord]:
        while part := self._ask("records"):
            yield from part

    def _ask(self, what: str) -> Any:
        self._pipe.send_bytes(pickle.dumps(("ask", what)))
        return self._pipe.recv()


def _serve(pipe: Pipe) -> None:
    """One client, until nobody wants it any more. Of what the operator sends, everything is believed."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # the command also runs where there is no /proc
        used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY_BYTES, used + MEMORY_BYTES))
        # Where the Pod's memory runs out, this process ends and not the operator's.
        Path("/proc/self/oom_score_adj").write_text("1000")
    client: _Client | None = None
    idle = None
    while pipe.poll(idle):
        kind, name, args = pipe.recv()
        try:
            if client is None:
                client, idle = _Client(pipe, name, args), IDLE_SECONDS if name == "admin" else None
            result = os.getpid() if kind == "make" else client.call(name, args)
            answer: Any = ("answer", result)
        except ClientFailure as problem:
            answer = ("failed", (type(problem).__name__, problem.kind.value, problem.message))
        pipe.send_bytes(pickle.dumps(answer))


def main() -> None:
    """Forks a child for each socket that comes over the one in the arguments, until that one ends."""
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (most, most))  # of this thread alone, from now on
    from kafka_medic.clients import librdkafka, librdkafka_canary, librdkafka_records  # noqa: F401, PLC0415

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    link = socket.socket(fileno=int(sys.argv[1]))
    while True:
        data, fds, _, _ = socket.recv_fds(link, 1, 1)
        if not data:
            return
        if os.fork() == 0:
            link.close()
            with contextlib.suppress(EOFError, OSError):
                _serve(Pipe(fds[0]))
            os._exit(0)
        os.close(fds[0])


if __name__ == "__main__":
    main()
