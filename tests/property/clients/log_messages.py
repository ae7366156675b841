"""DescribeLogDirs and ListOffsets responses of every version, and their bytes. kafka-python's encoder writes no unknown
tagged fields."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from kafka.protocol.admin import DescribeLogDirsResponse
from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse

from kafka_medic.clients.log_columns import LOG_DIRS_FLEXIBLE_FROM, OFFSETS_FLEXIBLE_FROM, OFFSETS_SCHEMA
from kafka_medic.clients.tables import SIZES_SCHEMA
from tests.property.clients.metadata_responses import Bytes, Tags, int16, int32, tags

DIRECTORY = DescribeLogDirsResponse.DescribeLogDirsResult
SIZED_TOPIC = DIRECTORY.DescribeLogDirsTopic
SIZED = SIZED_TOPIC.DescribeLogDirsPartition
ENDED_TOPIC = ListOffsetsResponse.ListOffsetsTopicResponse
ENDED = ENDED_TOPIC.ListOffsetsPartitionResponse
ASKED_TOPIC = ListOffsetsRequest.ListOffsetsTopic
ASKED = ASKED_TOPIC.ListOffsetsPartition


@dataclass(frozen=True)
class Topic:
    """`partitions`: the fields of each, and its tagged fields."""

    name: str
    partitions: list[tuple[tuple[int, ...], Tags]]
    tags: Tags = ()


@dataclass(frozen=True)
class Directory:
    error: int
    path: str
    topics: list[Topic]
    total: int = 100
    usable: int = 40
    cordoned: bool = False
    tags: Tags = ()


@dataclass(frozen=True)
class Response:
    """`directories` of DescribeLogDirs, or `topics` of ListOffsets."""

    directories: tuple[Directory, ...] = ()
    topics: tuple[Topic, ...] = ()
    error: int = 0
    tags: Tags = ()


def _topics(out: Bytes, topics: Any, forms: str) -> None:
    out.length(len(topics))
    for topic in topics:
        out.text(topic.name)
        out.length(len(topic.partitions))
        for fields, its_tags in topic.partitions:
            for form, value in zip(forms, fields, strict=False):
                out.number(form, value)
            out.tags(its_tags)
        out.tags(topic.tags)


def log_dirs_encoded(response: Response, version: int) -> bytes:
    """The bytes behind the header, by the schema in DescribeLogDirsResponse.json."""
    out = Bytes(version, LOG_DIRS_FLEXIBLE_FROM)
    out.number("i", 7)
    out.number("h", response.error, since=3)
    out.length(len(response.directories))
    for one in response.directories:
        out.number("h", one.error)
        out.text(one.path)
        _topics(out, one.topics, "iqq?")
        out.number("q", one.total, since=4)
        out.number("q", one.usable, since=4)
        out.number("?", one.cordoned, since=5)
        out.tags(one.tags)
    out.tags(response.tags)
    return bytes(out.written)


def offsets_encoded(response: Response, version: int) -> bytes:
    """The same by ListOffsetsResponse.json."""
    out = Bytes(version, OFFSETS_FLEXIBLE_FROM)
    out.number("i", 7, since=2)
    _topics(out, response.topics, "ihqqi" if version >= 4 else "ihqq")
    out.tags(response.tags)
    return bytes(out.written)


def log_dirs_by_kafka_python(response: Response, version: int) -> bytes:
    """The same as `log_dirs_encoded`, of a response without tagged fields."""

    def topic(one: Topic) -> Any:
        names = ("partition_index", "partition_size", "offset_lag", "is_future_key")
        parts = [SIZED(**dict(zip(names, fields, strict=True))) for fields, _ in one.partitions]
        return SIZED_TOPIC(name=one.name, partitions=parts)

    results = [
        DIRECTORY(
            error_code=one.error,
            log_dir=one.path,
            topics=[topic(t) for t in one.topics],
            total_bytes=one.total,
            usable_bytes=one.usable,
            is_cordoned=one.cordoned,
        )
        for one in response.directories
    ]
    made = DescribeLogDirsResponse(throttle_time_ms=7, error_code=response.error, results=results)
    return bytes(made.encode(version=version))


def offsets_by_kafka_python(response: Response, version: int) -> bytes:
    names = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch")
    topics = [
        ENDED_TOPIC(
            name=one.name,
            partitions=[
                ENDED(old_style_offsets=[], **dict(zip(names, fields, strict=True))) for fields, _ in one.partitions
            ],
        )
        for one in response.topics
    ]
    return bytes(ListOffsetsResponse(throttle_time_ms=7, topics=topics).encode(version=version))


def log_dirs_read_by_kafka_python(version: int, body: bytes) -> tuple[int, list[Any]]:
    """What kafka-python's decoder makes of the bytes, in the form of the columns. An object a partition."""
    answer: Any = DescribeLogDirsResponse.decode(body, version=version)
    found = []
    for one in answer.results:
        rows = [(t.name, p.partition_index, p.partition_size) for t in one.topics for p in t.partitions if not p[3]]
        found.append((one.error_code, one.log_dir, _table(rows, SIZES_SCHEMA), one.total_bytes, one.usable_bytes))
    return answer.error_code or 0, found


def offsets_read_by_kafka_python(version: int, body: bytes) -> pa.Table:
    answer: Any = ListOffsetsResponse.decode(body, version=version)
    rows = [(t.name, p.partition_index, p.error_code, p.offset) for t in answer.topics for p in t.partitions]
    return _table(rows, OFFSETS_SCHEMA)


def _table(rows: list[Any], schema: pa.Schema) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * len(schema)
    return pa.table(columns, schema=schema)


def request_by_kafka_python(
    version: int, topics: list[Topic], *, replica: int, timestamp: int, timeout_ms: int
) -> tuple[Any, bytes]:
    """A ListOffsets request of partitions with a number and an epoch, and its bytes."""
    made = ListOffsetsRequest(
        replica_id=replica,
        isolation_level=0,
        topics=[
            ASKED_TOPIC(
                name=one.name,
                partitions=[
                    ASKED(partition_index=number, current_leader_epoch=epoch, timestamp=timestamp)
                    for (number, epoch), _ in one.partitions
                ],
            )
            for one in topics
        ],
        timeout_ms=timeout_ms,
    )
    return made, bytes(made.encode(version=version))


int64 = st.integers(-(2**63), 2**63 - 1)
letters = string.ascii_letters + string.digits + "._-"
names = st.text(letters, min_size=1, max_size=12) | st.sampled_from(
    ["a" * 125, "b" * 126, "c" * 127, "d" * 128, "e" * 249]
)
"""Legal ones. A compact length has two bytes from 127 bytes of text on."""
how_many = st.sampled_from([0, 1, 1, 1, 1, 2, 3, 126, 127, 128, 300])


@st.composite
def topics_of(draw: st.DrawFn, fields: st.SearchStrategy[tuple[int, ...]], tagged: bool = True) -> list[Topic]:
    """Most with one partition, as of one broker of a large cluster."""
    tagged = tagged and draw(st.booleans())  # one tagged field makes all of a body unusual
    found = []
    for _ in range(draw(st.integers(0, 5))):
        drawn = draw(st.lists(fields, min_size=1, max_size=3))
        parts = [(drawn[n % len(drawn)], tags(draw, tagged)) for n in range(draw(how_many))]
        found.append(Topic(draw(names), parts, tags(draw, tagged)))
    return found


sized = st.tuples(int32, int64, int64, st.booleans())
ended = st.tuples(int32, int16, int64, int64, int32)


@st.composite
def log_dirs_responses(draw: st.DrawFn, version: int, tagged: bool = True) -> Response:
    directories = tuple(
        Directory(
            draw(int16),
            draw(st.text(max_size=40)),
            draw(topics_of(sized, tagged)),
            draw(int64),
            draw(int64),
            draw(st.booleans()),
            tags(draw, tagged),
        )
        for _ in range(draw(st.integers(0, 3)))
    )
    return Response(directories, error=draw(int16) if version >= 3 else 0, tags=tags(draw, tagged))


@st.composite
def offsets_responses(draw: st.DrawFn, tagged: bool = True) -> Response:
    return Response(topics=tuple(draw(topics_of(ended, tagged))), tags=tags(draw, tagged))
