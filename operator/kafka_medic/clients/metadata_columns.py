"""The body of a Metadata response, from bytes to columns.

A response names every partition of a cluster. This module makes Python objects for brokers and topics, and none for
partitions. The layout is that of MetadataResponse.json in Kafka's protocol guide (https://kafka.apache.org/protocol):
version 1 adds rack and controller id, 2 cluster id, 3 throttle time, 5 offline replicas, 7 leader epoch (KIP-320),
8 authorized operations (KIP-430), 9 compact lengths and tagged fields (KIP-482), 10 topic ids (KIP-516), 13 an error
code of the whole response (KIP-1102).
"""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.clients.ports import ClusterDescription, FailureKind, Node, ReadFailed
from kafka_medic.cluster.snapshot import STATES_SCHEMA

LATEST_VERSION = 13
MAX_TOPIC_NAME = 249
"""Bytes; org.apache.kafka.common.internals.Topic."""
MAX_STRING = 2**15 - 1
"""Bytes of any other string, also with a compact length, as Kafka's own reader has it."""
FIRST_GUESS = 64
"""Partitions of one topic that are compared at once. Doubles with each success."""
_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")
_HEX = np.frombuffer("".join(f"{n:02x}" for n in range(256)).encode(), np.uint8).reshape(256, 2)
_DASHES = (8, 13, 18, 23)
Ints = npt.NDArray[np.int64]


class MalformedMetadata(ReadFailed):
    """The bytes are no Metadata response of the version that they were requested in."""

    def __init__(self, version: int, at: int, what: str) -> None:
        super().__init__(FailureKind.OTHER, f"malformed Metadata response (version {version}) at byte {at}: {what}")


@dataclass(frozen=True, slots=True, eq=False)
class Metadata:
    """A decoded response. `error_code`: of the whole response, 0 before version 13. `states` has STATES_SCHEMA, in the
    response's order. Errors of topics and partitions are not kept: Kafka reports a leader of -1 beside them."""

    cluster: ClusterDescription
    error_code: int
    states: pa.Table


def decode(version: int, body: bytes, known: MutableMapping[bytes, pa.Table] | None = None) -> Metadata:
    """The response in `body`, which begins behind the response header. Raises MalformedMetadata.

    `known` has tables by a digest of their bytes. A response that repeats such bytes gets that same table, and a new
    table is added.
    """
    cursor = _Cursor(body, version)
    if not 0 <= version <= LATEST_VERSION:
        raise cursor.malformed(f"version {version} is not supported (latest: {LATEST_VERSION})")
    try:
        return _metadata(cursor, {} if known is None else known)
    except (IndexError, struct.error):
        raise cursor.malformed(f"the {len(body)} bytes end early") from None
    except UnicodeDecodeError as problem:
        raise cursor.malformed(f"text that is not UTF-8 ({problem.reason})") from None


def _metadata(cursor: _Cursor, known: MutableMapping[bytes, pa.Table]) -> Metadata:
    version = cursor.version
    if version >= 3:
        cursor.int32()  # throttle time, in milliseconds
    nodes = tuple(_node(cursor) for _ in range(cursor.length("brokers", least=10)))
    cluster_id = cursor.text("cluster id", nullable=True) if version >= 2 else None
    controller = cursor.int32() if version >= 1 else -1
    cluster = ClusterDescription(cluster_id, nodes, controller if controller >= 0 else None)
    digest = hashlib.sha256(bytes((version,)))
    digest.update(memoryview(cursor.body)[cursor.at :])
    states = known.get(digest.digest())
    if states is not None:
        return Metadata(cluster, 0, states)
    topics = _topics(cursor)
    if 8 <= version <= 10:
        cursor.int32()  # authorized operations on the cluster
    error_code = cursor.int16() if version >= 13 else 0
    cursor.tags()
    if cursor.at != len(cursor.body):
        raise cursor.malformed(f"{len(cursor.body) - cursor.at} bytes follow the response")
    states = topics.table(cursor.body, version)
    if not error_code:
        known[digest.digest()] = states
    return Metadata(cluster, error_code, states)


def _node(cursor: _Cursor) -> Node:
    broker = cursor.int32()
    host, port = cursor.text("host"), cursor.int32()
    rack = cursor.text("rack", nullable=True) if cursor.version >= 1 else None
    cursor.tags()
    return Node(broker, host or "", port, rack or None)


@dataclass(slots=True)
class _Cursor:
    """Reads fields one after the other. Beyond the end of `body` it raises IndexError or struct.error."""

    body: bytes
    version: int
    at: int = 0
    flexible: bool = field(init=False)

    def __post_init__(self) -> None:
        self.flexible = self.version >= 9

    def malformed(self, what: str) -> MalformedMetadata:
        return MalformedMetadata(self.version, min(self.at, len(self.body)), what)

    def int32(self) -> int:
        found: int = _INT32.unpack_from(self.body, self.at)[0]
        self.at += 4
        return found

    def int16(self) -> int:
        found: int = _INT16.unpack_from(self.body, self.at)[0]
        self.at += 2
        return found

    def varint(self) -> int:
        """An unsigned varint (KIP-482), which has five bytes at most."""
        found = self.body[self.at]
        if found < 0x80:
            self.at += 1
            return found
        found = 0
        for shift in (0, 7, 14, 21, 28):
            byte = self.body[self.at]
            self.at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
        raise self.malformed("a variable-length number of more than five bytes")

    def length(self, what: str, least: int) -> int:
        """Of an array whose entries have `least` bytes or more."""
        found = self.varint() - 1 if self.flexible else self.int32()
        if not 0 <= found <= (len(self.body) - self.at) // least:
            raise self.malformed(f"{found} {what} in {len(self.body) - self.at} bytes")
        return found

    def text(self, what: str, *, nullable: bool = False, limit: int = MAX_STRING) -> str | None:
        size = self.varint() - 1 if self.flexible else self.int16()
        if size == -1 and nullable:
            return None
        if not 0 <= size <= limit:
            raise self.malformed(f"{what} of {size} bytes (limit {limit})")
        start = self.at
        end = start + size
        if end > len(self.body):
            raise IndexError
        self.at = end
        return self.body[start:end].decode()

    def tags(self) -> None:
        """Skips tagged fields: no version up to the latest has one in this response."""
        if not self.flexible:
            return
        if not self.body[self.at]:
            self.at += 1
            return
        for _ in range(self.varint()):
            self.varint()
            size = self.varint()
            self.at += size
            if self.at > len(self.body):
                raise IndexError


def _topics(cursor: _Cursor) -> _Topics:
    version = cursor.version
    behind_name = (16 if version >= 10 else 0) + (1 if version >= 1 else 0)  # topic id, is internal
    found = _Topics()
    for _ in range(cursor.length("topics", least=8)):
        cursor.at += 2  # error code
        name = cursor.text("topic name", nullable=version >= 12, limit=MAX_TOPIC_NAME)
        found.name_ends.append(cursor.at)
        cursor.at += behind_name
        count = cursor.length("partitions", least=18)
        found.names.append(name)
        found.counts.append(count)
        guess = min(count, FIRST_GUESS)
        while count:
            run = _run(cursor, guess, found.runs) or _partition(cursor, found.runs)
            count -= run
            guess = min(count, 2 * run if run == guess else run)
        if version >= 8:
            cursor.at += 4  # authorized operations on the topic
        cursor.tags()
    return found


def _run(cursor: _Cursor, guess: int, runs: array[int]) -> int:
    """Adds the next partition, and those of the next `guess` that follow in the same shape: arrays of its lengths, no
    tagged fields. Returns how many. Every byte that decides the shape is compared, in order, so that the cursor ends
    right behind the last one added. Returns 0, adding none, before version 9 and for a length of several bytes."""
    if not cursor.flexible:
        return 0
    body, start = cursor.body, cursor.at
    replicas_at = start + 14
    replicas = body[replicas_at]
    if not 0 < replicas < 0x80:  # 0 is null
        return 0
    isr_at = replicas_at + 4 * replicas - 3
    isr = body[isr_at]
    if not 0 < isr < 0x80:
        return 0
    offline_at = isr_at + 4 * isr - 3
    offline = body[offline_at]
    if not 0 < offline < 0x80:
        return 0
    tags_at = offline_at + 4 * offline - 3
    if body[tags_at]:
        return 0
    stride = tags_at + 1 - start
    if guess > 1:
        for at, byte in ((replicas_at, replicas), (isr_at, isr), (offline_at, offline), (tags_at, 0)):
            seen, shape = body[at : start + guess * stride : stride], bytes((byte,))
            if seen != shape * guess:
                guess = len(seen) - len(seen.lstrip(shape))
    runs.extend((start, guess, stride, replicas_at + 1 - start, replicas - 1, isr_at + 1 - start, isr - 1))
    cursor.at = start + guess * stride
    return guess


def _partition(cursor: _Cursor, runs: array[int]) -> int:
    """Adds the next partition, field by field, as a run of its own. Returns 1."""
    start = cursor.at
    cursor.at += 14 if cursor.version >= 7 else 10  # error code, number, leader, leader epoch
    replicas, replicas_at = _ids(cursor, "replicas")
    isr, isr_at = _ids(cursor, "in-sync replicas")
    if cursor.version >= 5:
        _ids(cursor, "offline replicas")
    cursor.tags()
    runs.extend((start, 1, cursor.at - start, replicas_at - start, replicas, isr_at - start, isr))
    return 1


def _ids(cursor: _Cursor, what: str) -> tuple[int, int]:
    """How many, and where they begin."""
    count = cursor.length(what, least=4)
    begin = cursor.at
    cursor.at += 4 * count
    return count, begin


@dataclass(slots=True)
class _Topics:
    """Where the parts of a response are. `names`, `name_ends` (position behind the name) and `counts` (of partitions)
    have an entry for each topic. `runs` has seven numbers for each run of partitions of one shape: position of the
    first, how many, bytes of each, and of its replicas and of its in-sync replicas where they begin in it and how many
    there are."""

    names: list[str | None] = field(default_factory=list)
    name_ends: array[int] = field(default_factory=lambda: array("q"))
    counts: array[int] = field(default_factory=lambda: array("q"))
    runs: array[int] = field(default_factory=lambda: array("q"))

    def table(self, body: bytes, version: int) -> pa.Table:
        """STATES_SCHEMA, of positions that are all within `body`."""
        counts = np.frombuffer(self.counts, np.int64)
        topic = np.repeat(np.arange(len(counts)), counts)
        runs = np.frombuffer(self.runs, np.int64).reshape(-1, 7)
        run = np.repeat(np.arange(len(runs)), runs[:, 1])
        firsts = np.cumsum(runs[:, 1]) - runs[:, 1]
        start, _, stride, replicas_at, replicas, isr_at, isr = (runs[:, n][run] for n in range(7))
        start += (np.arange(len(run)) - firsts[run]) * stride
        # Each position of the body is the start of an int32: most of these overlap and few are looked up.
        ints: npt.NDArray[Any] = np.ndarray((max(0, len(body) - 3),), ">i4", body, strides=(1,))
        epochs = ints[start + 10] if version >= 7 else np.full(len(start), -1)
        of_topic: Any = pa.array(topic)
        columns: list[Any] = [
            pa.array(self.names, pa.string()).take(of_topic),
            _int32(ints[start + 2]),
            _int32(ints[start + 6]),
            _int32(epochs),
            _lists(ints, start + replicas_at, replicas),
            _lists(ints, start + isr_at, isr),
            _ids_of_topics(body, self.name_ends, version).take(of_topic),
        ]
        return pa.table(columns, schema=STATES_SCHEMA)


def _int32(values: npt.NDArray[Any]) -> Any:
    return pa.array(values.astype(np.int32))


def _lists(ints: npt.NDArray[Any], begin: Ints, sizes: Ints) -> Any:
    """A column of lists of int32, by the position of each list's first number and how many it has."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    places = np.repeat(begin - 4 * (ends - sizes), sizes) + 4 * np.arange(total)
    return pa.ListArray.from_arrays(_int32(np.concatenate(([0], ends))), _int32(ints[places]))


def _ids_of_topics(body: bytes, name_ends: array[int], version: int) -> Any:
    """Each topic's id as text. Null where the broker knows none: before version 10, or all zero (KIP-516)."""
    if version < 10:
        return pa.nulls(len(name_ends), pa.string())
    places = np.frombuffer(name_ends, np.int64)[:, None] + np.arange(16)
    ids = np.frombuffer(body, np.uint8)[places]
    text: Any = np.full((len(ids), 36), ord("-"), np.uint8)
    text[:, [n for n in range(36) if n not in _DASHES]] = _HEX[ids].reshape(len(ids), 32)
    offsets: Any = np.arange(len(ids) + 1, dtype=np.int32) * 36
    found = pa.StringArray.from_buffers(len(ids), pa.py_buffer(offsets), pa.py_buffer(text))
    return pc.if_else(pa.array(ids.any(axis=1)), found, None)
