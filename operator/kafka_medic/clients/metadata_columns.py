"""The body of a Metadata response, from bytes to columns.

A response names every partition of a cluster. This module makes Python objects for brokers and topics, and none for
partitions. The layout is that of MetadataResponse.json in Kafka's protocol guide (https://kafka.apache.org/protocol):
version 1 adds rack and controller id, 2 cluster id, 3 throttle time, 5 offline replicas, 7 leader epoch (KIP-320),
8 authorized operations (KIP-430), 9 compact lengths and tagged fields (KIP-482), 10 topic ids (KIP-516), 13 an error
code of the whole response (KIP-1102).
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.clients.ports import ClusterDescription, Node
from kafka_medic.clients.response_cursor import MAX_TOPIC_NAME, Cursor, at_each_byte
from kafka_medic.cluster.snapshot import STATES_SCHEMA

LATEST_VERSION = 13
FLEXIBLE_FROM = 9
MAX_PARTITIONS = 250_000
"""Of one view, unless the operator is told otherwise (`kafka_bounds.views_of`)."""
MAX_NAMES_BYTES = 32 << 20
"""Of the names in the table, where each partition has that of its topic. A name may have 249 bytes, and a partition 18
in a response."""
FIRST_GUESS = 64
"""Partitions of one topic that are compared at once. Doubles with each success."""
_HEX = np.frombuffer("".join(f"{n:02x}" for n in range(256)).encode(), np.uint8).reshape(256, 2)
_DASHES = (8, 13, 18, 23)
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Metadata:
    """A decoded response. `error_code`: of the whole response, 0 before version 13. `states` has STATES_SCHEMA, in the
    response's order. Errors of topics and partitions are not kept: Kafka reports a leader of -1 beside them."""

    cluster: ClusterDescription
    error_code: int
    states: pa.Table


def decode(version: int, body: bytes, known: MutableMapping[bytes, pa.Table] | None = None) -> Metadata:
    """The response in `body`, which begins behind the response header. Raises MalformedResponse.

    `known` has tables by a digest of their bytes. A response that repeats such bytes gets that same table, and a new
    table is added.
    """
    cursor = Cursor(body, "Metadata", version, FLEXIBLE_FROM)
    with cursor.whole_response(0, LATEST_VERSION):
        return _metadata(cursor, {} if known is None else known)


def _metadata(cursor: Cursor, known: MutableMapping[bytes, pa.Table]) -> Metadata:
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
    cursor.end()
    states = topics.table(cursor.body, version)
    if not error_code:
        known[digest.digest()] = states
    return Metadata(cluster, error_code, states)


def _node(cursor: Cursor) -> Node:
    broker = cursor.int32()
    host, port = cursor.text("host"), cursor.int32()
    rack = cursor.text("rack", nullable=True) if cursor.version >= 1 else None
    cursor.tags()
    return Node(broker, host or "", port, rack or None)


def _topics(cursor: Cursor) -> _Topics:
    version = cursor.version
    behind_name = (16 if version >= 10 else 0) + (1 if version >= 1 else 0)  # topic id, is internal
    found = _Topics()
    partitions = names = 0
    for _ in range(cursor.length("topics", least=8)):
        cursor.at += 2  # error code
        name = cursor.text("topic name", nullable=version >= 12, limit=MAX_TOPIC_NAME)
        found.name_ends.append(cursor.at)
        cursor.at += behind_name
        count = cursor.length("partitions", least=18)
        partitions, names = partitions + count, names + count * len(name or "")
        if partitions > MAX_PARTITIONS or names > MAX_NAMES_BYTES:
            raise cursor.malformed(
                f"{partitions} partitions or more (limit {MAX_PARTITIONS}: the chart's limits.partitions), whose names "
                f"have {names} bytes (limit {MAX_NAMES_BYTES})"
            )
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


def _run(cursor: Cursor, guess: int, runs: array[int]) -> int:
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


def _partition(cursor: Cursor, runs: array[int]) -> int:
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


def _ids(cursor: Cursor, what: str) -> tuple[int, int]:
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
        ints = at_each_byte(body, ">i4")
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
