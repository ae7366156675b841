"""The bodies of DescribeLogDirs and ListOffsets messages: from bytes to columns, and from columns to bytes.

A broker's response names each of its replicas, with a topic entry for almost each of them in a cluster of many topics.
This module makes no Python object for a partition, and one number for a topic entry. The layouts are those of
DescribeLogDirsResponse.json, ListOffsetsRequest.json and ListOffsetsResponse.json in Kafka's protocol guide
(https://kafka.apache.org/protocol).
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.clients.response_cursor import MAX_TOPIC_NAME, Cursor, at_each_byte
from kafka_medic.clients.tables import SIZES_SCHEMA, schema_of

LOG_DIRS_VERSIONS = (0, 5)
"""Version 1 is as 0, 2 has compact lengths and tagged fields, 3 an error code of the whole response, 4 the bytes of
each volume (KIP-827), 5 whether a directory is cordoned (KIP-1066)."""
OFFSETS_VERSIONS = (1, 11)
"""Version 2 has the throttle time and in requests the isolation level, 4 leader epochs (KIP-320), 6 compact lengths and
tagged fields, 10 in requests a timeout (KIP-1075)."""
LOG_DIRS_FLEXIBLE_FROM = 2
OFFSETS_FLEXIBLE_FROM = 6
OFFSETS_SCHEMA = schema_of(
    ("topic", pa.string(), False),
    ("partition", pa.int32(), False),
    ("error", pa.int16(), False),
    ("offset", pa.int64(), False),
)
"""`error`: Kafka's code, 0 for none. `offset`: -1 where the broker has none."""
LEGAL = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
"""The bytes that the name of a topic may have (org.apache.kafka.common.internals.Topic)."""
ANY_EPOCH = -1
NO_SIZES = SIZES_SCHEMA.empty_table()
MAX_NAMES_BYTES = 32 << 20
"""Of a column of topic names. A name may have 249 bytes, and a partition 21 in a response."""
MAX_DIRECTORIES = 1_000
"""Of a broker. Each becomes a table of its own, and 5 bytes could ask for one."""
MAX_KEPT_BYTES = 1 << 16
"""Of a response whose places are kept, about 2,000 partitions: an operator watches many small clusters or few large
ones."""
_LONG = 0x80
"""From here on a varint has several bytes."""
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class DecodedLogDir:
    """A directory of the response. `error_code`: 0 for none. `sizes` has SIZES_SCHEMA, in the response's order and
    without replicas that are still moving there (KIP-113), which `future` has. `total_bytes`, `usable_bytes`: of its
    volume, -1 where the broker does not report them."""

    error_code: int
    path: str
    sizes: pa.Table
    future: pa.Table
    total_bytes: int
    usable_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class DecodedLogDirs:
    """A decoded response. `error_code`: of the whole response, 0 before version 3."""

    error_code: int
    directories: tuple[DecodedLogDir, ...]


def decode_log_dirs(version: int, body: bytes) -> DecodedLogDirs:
    """The DescribeLogDirs response in `body`, which begins behind the response header. Raises MalformedResponse, also
    for names that no topic may have."""
    cursor = Cursor(body, "DescribeLogDirs", version, LOG_DIRS_FLEXIBLE_FROM)
    with cursor.whole_response(*LOG_DIRS_VERSIONS):
        cursor.int32()  # throttle time, in milliseconds
        error_code = cursor.int16() if version >= 3 else 0
        count = cursor.length("directories", least=5)
        if count > MAX_DIRECTORIES:
            raise cursor.malformed(f"{count} directories (limit {MAX_DIRECTORIES})")
        found = tuple(_directory(cursor) for _ in range(count))
        cursor.tags()
        cursor.end()
        return DecodedLogDirs(error_code, found)


def _directory(cursor: Cursor) -> DecodedLogDir:
    body = cursor.body
    error_code = cursor.int16()
    path = cursor.text("path of a directory") or ""
    topics = _topics(cursor, 21)  # number, bytes, lag, whether it is moving there
    places = topics.partitions
    sizes = pa.table(
        [
            topics.names_of_partitions(cursor),
            _native(at_each_byte(body, ">i4")[places]),
            _native(at_each_byte(body, ">i8")[places + 4]),
        ],
        schema=SIZES_SCHEMA,
    )
    moving = np.frombuffer(body, np.uint8)[places + 20] != 0
    future = sizes.filter(pa.array(moving)) if moving.any() else NO_SIZES
    if moving.any():
        sizes = sizes.filter(pa.array(~moving))
    total, usable = (cursor.int64(), cursor.int64()) if cursor.version >= 4 else (-1, -1)
    if cursor.version >= 5:
        cursor.at += 1  # is cordoned
    cursor.tags()
    return DecodedLogDir(error_code, path, sizes, future, total, usable)


def decode_offsets(version: int, body: bytes) -> pa.Table:
    """The ListOffsets response in `body`, which begins behind the response header: OFFSETS_SCHEMA, in the response's
    order. Raises MalformedResponse, also for names that no topic may have."""
    return OffsetsReader().read(version, body)


class OffsetsReader:
    """Decodes the responses of one broker. A response to the same request has the same partitions in the same places,
    so that most often only offsets and errors are read."""

    def __init__(self) -> None:
        self._known: tuple[_Offsets, _Fixed] | None = None

    def read(self, version: int, body: bytes) -> pa.Table:
        """As `decode_offsets`."""
        if self._known is not None and self._known[1].fits(version, body):
            return self._known[0].table(body)
        found = _offsets(version, body)
        self._known = (found, _Fixed.of(version, body, found.places)) if len(body) <= MAX_KEPT_BYTES else None
        return found.table(body)


@dataclass(frozen=True, slots=True, eq=False)
class _Offsets:
    """The partitions of a ListOffsets response, and where each begins."""

    names: Any
    numbers: Any
    places: Ints

    def table(self, body: bytes) -> pa.Table:
        columns: list[Any] = [
            self.names,
            self.numbers,
            _native(at_each_byte(body, ">i2")[self.places + 4]),
            _native(at_each_byte(body, ">i8")[self.places + 14]),
        ]
        return pa.table(columns, schema=OFFSETS_SCHEMA)


def _offsets(version: int, body: bytes) -> _Offsets:
    cursor = Cursor(body, "ListOffsets", version, OFFSETS_FLEXIBLE_FROM)
    with cursor.whole_response(*OFFSETS_VERSIONS):
        if version >= 2:
            cursor.int32()  # throttle time, in milliseconds
        topics = _topics(cursor, _offsets_bytes(version))
        cursor.tags()
        cursor.end()
        places = topics.partitions
        return _Offsets(topics.names_of_partitions(cursor), _native(at_each_byte(body, ">i4")[places]), places)


def _offsets_bytes(version: int) -> int:
    """Of a partition: number, error code, timestamp, offset, leader epoch."""
    return 26 if version >= 4 else 22


@dataclass(frozen=True, slots=True, eq=False)
class _Fixed:
    """The bytes of a ListOffsets response that decide which partitions there are and where. `value`: the response with
    zeros where it is `free`, in the throttle time and behind each partition's number."""

    version: int
    free: npt.NDArray[np.bool_]
    value: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, version: int, body: bytes, places: Ints) -> _Fixed:
        free = np.zeros(len(body), np.bool_)
        free[: 4 if version >= 2 else 0] = True
        free[(places[:, None] + np.arange(4, _offsets_bytes(version))).ravel()] = True
        return cls(version, free, np.where(free, 0, np.frombuffer(body, np.uint8)))

    def fits(self, version: int, body: bytes) -> bool:
        if version != self.version or len(body) != len(self.value):
            return False
        return np.array_equal(np.where(self.free, 0, np.frombuffer(body, np.uint8)), self.value)


def encode_offsets(version: int, rows: pa.Table, *, replica: int, timestamp: int, timeout_ms: int) -> bytes:
    """The body of a ListOffsets request. `rows` has topic, partition and epoch (the leader's; null or -1 for any), with
    the rows of a topic together. `timestamp`: milliseconds since 1970, or one of Kafka's negative values for the start
    and end of a log. `timeout_ms`: for tiered storage, from version 10 on. Raises ValueError for a version that it does
    not know, and for a name longer than any topic's."""
    earliest, latest = OFFSETS_VERSIONS
    if not earliest <= version <= latest:
        raise ValueError(f"ListOffsets version {version} is not supported ({earliest} to {latest} are)")
    flexible = version >= OFFSETS_FLEXIBLE_FROM
    topics: Any = rows["topic"].combine_chunks()
    count = len(topics)
    fields = [("partition", ">i4")]
    fields += [("epoch", ">i4")] if version >= 4 else []
    fields += [("timestamp", ">i8"), ("tags", "u1")] if flexible else [("timestamp", ">i8")]
    partitions: Any = np.zeros(count, fields)
    partitions["partition"] = rows["partition"].to_numpy()
    partitions["timestamp"] = timestamp
    if version >= 4:
        epochs: Any = rows["epoch"]
        partitions["epoch"] = epochs.fill_null(ANY_EPOCH).to_numpy()
    stride, data = partitions.dtype.itemsize, partitions.tobytes()
    begins = np.ones(count, np.bool_)
    if count > 1:
        differs: Any = pc.not_equal(topics[1:], topics[:-1])
        begins[1:] = differs.to_numpy(zero_copy_only=False)
    firsts = np.flatnonzero(begins)
    names: list[bytes] = topics.take(pa.array(firsts)).cast(pa.binary()).to_pylist()
    longest = max(map(len, names), default=0)
    if longest > MAX_TOPIC_NAME:
        raise ValueError(f"topic name of {longest} bytes (limit {MAX_TOPIC_NAME})")
    text: Any
    array_of: Any
    text, array_of = (_compact, _compact) if flexible else (struct.Struct(">h").pack, struct.Struct(">i").pack)
    tags = b"\0" if flexible else b""
    parts = [struct.pack(">i", replica), b"\0" if version >= 2 else b"", array_of(len(names))]  # READ_UNCOMMITTED
    bounds = [*firsts.tolist(), count]
    for name, first, end in zip(names, bounds, bounds[1:], strict=False):
        parts += text(len(name)), name, array_of(end - first), data[first * stride : end * stride], tags
    if version >= 10:
        parts.append(struct.pack(">i", timeout_ms))
    parts.append(tags)
    return b"".join(parts)


@lru_cache(maxsize=1024)
def _compact(length: int) -> bytes:
    """A compact length: an unsigned varint of one more."""
    left, found = length + 1, bytearray()
    while left >= _LONG:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


@dataclass(slots=True)
class _Topics:
    """Where the parts of an array of topics are in a body: where names begin and how many bytes each has, how many
    partitions each topic has, and where each partition begins."""

    names: Ints
    name_sizes: Ints
    counts: Ints
    partitions: Ints

    def names_of_partitions(self, cursor: Cursor) -> Any:
        """A column of text, a name for each partition."""
        count = len(self.names)
        # The bytes between two names are entries too, so that one gather leaves the names alone.
        edges: Any = np.zeros(2 * count + 1, np.int32)
        edges[:-1:2], edges[1::2] = self.names, self.names + self.name_sizes
        edges[-1] = edges[-2] if count else 0
        between: Any = pa.StringArray.from_buffers(2 * count, pa.py_buffer(edges), pa.py_buffer(cursor.body))
        names: Any = between.take(pa.array(np.arange(0, 2 * count, 2)))
        self._legal(cursor, names)
        size = int((self.name_sizes * self.counts).sum())
        if size > MAX_NAMES_BYTES:
            raise cursor.malformed(f"partitions whose topic names have {size} bytes (limit {MAX_NAMES_BYTES})")
        if len(self.partitions) == count and self.counts.all():
            return names
        return names.take(pa.array(np.repeat(np.arange(count), self.counts)))

    def _legal(self, cursor: Cursor, names: Any) -> None:
        """Raises MalformedResponse for names that no topic may have."""
        data = names.buffers()[2]
        if data is None or not data.to_pybytes().translate(None, LEGAL):
            return
        for begin, size in zip(self.names.tolist(), self.name_sizes.tolist(), strict=True):
            if other := cursor.body[begin : begin + size].translate(None, LEGAL):
                cursor.at = begin
                raise cursor.malformed(f"topic name with the byte 0x{other[0]:02x}")


def _topics(cursor: Cursor, size: int) -> _Topics:
    """Reads an array of topics whose partitions have `size` bytes each, tagged fields apart."""
    # A name, an array and tagged fields; a name of one byte at least.
    count = cursor.length("topics", least=4 if cursor.flexible else 7)
    return _plain_topics(cursor, count, size) or _any_topics(cursor, count, size)


def _plain_topics(cursor: Cursor, count: int, size: int) -> _Topics | None:
    """Reads topics that have no tagged fields and no compact length of more than two bytes. Assumes these and checks
    them all at once. None, with the cursor where it was, for any others and for what is malformed."""
    body, stride = cursor.body, size + cursor.flexible
    walk, lengths_at = (_compact_begins, _compact_lengths) if cursor.flexible else (_fixed_begins, _fixed_lengths)
    try:
        begins, at = walk(body, cursor.at, count, stride)
    except (IndexError, struct.error):
        return None
    if at > len(body) or (count and begins.min() < cursor.at):
        return None
    names, name_sizes = lengths_at(body, begins, ">i2")
    if count and not 0 < name_sizes.min() <= name_sizes.max() <= MAX_TOPIC_NAME:
        return None
    firsts, counts = lengths_at(body, names + name_sizes, ">i4")
    if count and counts.min() < 0:
        return None
    partitions = _in_rows(firsts, counts, stride)
    if cursor.flexible:
        octets = np.frombuffer(body, np.uint8)
        if octets[partitions + size].any() or octets[firsts + stride * counts].any():
            return None
    cursor.at = at
    return _Topics(names, name_sizes, counts, partitions)


def _compact_begins(body: bytes, at: int, count: int, stride: int) -> tuple[Ints, int]:
    """Where each of `count` topics begins by its compact lengths, and where the last one ends."""
    begins: list[int] = []
    begin = begins.append
    for _ in repeat(None, count):
        begin(at)
        length = body[at]
        if length >= _LONG:
            at += 1
            length += (body[at] - 1) << 7
        at += length
        length = body[at]
        if length >= _LONG:
            at += 1
            length += (body[at] - 1) << 7
        at += 2 + stride * (length - 1)
    return np.array(begins, np.int64), at


def _compact_lengths(body: bytes, places: Ints, _: str) -> tuple[Ints, Ints]:
    """Of the compact lengths that begin there: where each ends, and its length. -1 for one of more than two bytes."""
    octets = np.frombuffer(body, np.uint8)
    lengths = octets[places].astype(np.int64)
    long = lengths >= _LONG
    if not long.any():
        return places + 1, lengths - 1
    second = octets[places[long] + 1].astype(np.int64)
    lengths[long] = np.where(second < _LONG, lengths[long] + ((second - 1) << 7), 0)
    return places + 1 + long, lengths - 1


def _fixed_begins(body: bytes, at: int, count: int, stride: int) -> tuple[Ints, int]:
    """The same before compact lengths."""
    begins: list[int] = []
    begin, length_at = begins.append, struct.Struct(">i").unpack_from
    for _ in repeat(None, count):
        begin(at)
        at += 2 + body[at + 1]  # no name has 256 bytes
        at += 4 + stride * length_at(body, at)[0]
    return np.array(begins, np.int64), at


def _fixed_lengths(body: bytes, places: Ints, kind: str) -> tuple[Ints, Ints]:
    return places + np.dtype(kind).itemsize, at_each_byte(body, kind)[places].astype(np.int64)


def _any_topics(cursor: Cursor, count: int, size: int) -> _Topics:
    """Reads topics field by field."""
    stride = size + cursor.flexible
    names, name_sizes, counts = (np.empty(count, np.int64) for _ in range(3))
    rows = array("q")  # of partitions without tagged fields: where each row begins, and how many it has
    for n in range(count):
        name_sizes[n] = name_size = cursor.skip_text("topic name", limit=MAX_TOPIC_NAME)
        if not name_size:
            raise cursor.malformed("topic name of 0 bytes")
        names[n] = cursor.at - name_size
        counts[n] = inside = cursor.length("partitions", least=stride)
        end = cursor.at + stride * inside
        if not cursor.flexible or not any(cursor.body[cursor.at + size : end : stride]):
            rows.extend((cursor.at, inside))
            cursor.at = end
        else:
            for _ in range(inside):
                rows.extend((cursor.at, 1))
                cursor.at += size
                cursor.tags()
        cursor.tags()
    firsts, lengths = np.frombuffer(rows, np.int64).reshape(-1, 2).T
    return _Topics(names, name_sizes, counts, _in_rows(firsts, lengths, stride))


def _in_rows(firsts: Ints, counts: Ints, stride: int) -> Ints:
    """The positions of rows of entries: of each row where it begins and how many entries it has."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(firsts - stride * (ends - counts), counts) + stride * np.arange(total)


def _native(values: npt.NDArray[Any]) -> Any:
    return pa.array(values.astype(values.dtype.newbyteorder("=")))
