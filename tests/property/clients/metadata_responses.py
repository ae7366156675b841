"""Metadata responses of every version, and their bytes. kafka-python's encoder writes no unknown tagged fields."""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from kafka.protocol.metadata import MetadataResponse

from kafka_medic.clients.metadata_columns import FLEXIBLE_FROM
from kafka_medic.clients.ports import ClusterDescription, Node
from kafka_medic.cluster.snapshot import STATES_SCHEMA

BROKER = MetadataResponse.MetadataResponseBroker
TOPIC = MetadataResponse.MetadataResponseTopic
PARTITION = TOPIC.MetadataResponsePartition
Tags = tuple[tuple[int, bytes], ...]
Ids = list[int]


@dataclass(frozen=True)
class Partition:
    error: int
    number: int
    leader: int
    epoch: int
    replicas: Ids
    isr: Ids
    offline: Ids
    tags: Tags = ()


@dataclass(frozen=True)
class Topic:
    error: int
    name: str | None
    id: uuid.UUID
    internal: bool
    partitions: list[Partition]
    operations: int = -(2**31)
    tags: Tags = ()


@dataclass(frozen=True)
class Broker:
    id: int
    host: str
    port: int
    rack: str | None
    tags: Tags = ()


@dataclass(frozen=True)
class Response:
    brokers: list[Broker]
    topics: list[Topic]
    cluster_id: str | None = "c"
    controller: int = 1
    error: int = 0
    tags: Tags = ()


class Bytes:
    """The bytes of a message, field by field."""

    def __init__(self, version: int, flexible_from: int) -> None:
        self.version, self.flexible, self.written = version, version >= flexible_from, bytearray()

    def number(self, form: str, value: int, since: int = 0) -> None:
        if self.version >= since:
            self.written += struct.pack(">" + form, value)

    def varint(self, value: int) -> None:
        while value >= 0x80:
            self.written.append(value & 0x7F | 0x80)
            value >>= 7
        self.written.append(value)

    def text(self, value: str | None) -> None:
        data = None if value is None else value.encode()
        if self.flexible:
            self.varint(0 if data is None else len(data) + 1)
        else:
            self.number("h", -1 if data is None else len(data))
        self.written += data or b""

    def length(self, count: int) -> None:
        if self.flexible:
            self.varint(count + 1)
        else:
            self.number("i", count)

    def ids(self, values: Ids) -> None:
        self.length(len(values))
        self.written += struct.pack(f">{len(values)}i", *values)

    def tags(self, tags: Tags) -> None:
        if self.flexible:
            self.varint(len(tags))
            for tag, value in tags:
                self.varint(tag)
                self.varint(len(value))
                self.written += value


def encoded(response: Response, version: int) -> bytes:
    """The bytes behind the header, by the schema in MetadataResponse.json."""
    out = Bytes(version, FLEXIBLE_FROM)
    out.number("i", 0, since=3)
    out.length(len(response.brokers))
    for broker in response.brokers:
        out.number("i", broker.id)
        out.text(broker.host)
        out.number("i", broker.port)
        if version >= 1:
            out.text(broker.rack)
        out.tags(broker.tags)
    if version >= 2:
        out.text(response.cluster_id)
    out.number("i", response.controller, since=1)
    out.length(len(response.topics))
    for topic in response.topics:
        out.number("h", topic.error)
        out.text(topic.name)
        if version >= 10:
            out.written += topic.id.bytes
        out.number("?", topic.internal, since=1)
        out.length(len(topic.partitions))
        for one in topic.partitions:
            out.number("h", one.error)
            out.number("i", one.number)
            out.number("i", one.leader)
            out.number("i", one.epoch, since=7)
            out.ids(one.replicas)
            out.ids(one.isr)
            if version >= 5:
                out.ids(one.offline)
            out.tags(one.tags)
        out.number("i", topic.operations, since=8)
        out.tags(topic.tags)
    if 8 <= version <= 10:
        out.number("i", -(2**31))
    out.number("h", response.error, since=13)
    out.tags(response.tags)
    return bytes(out.written)


def by_kafka_python(response: Response, version: int) -> bytes:
    """The same, of a response without tagged fields."""
    topics = []
    for topic in response.topics:
        parts = [
            PARTITION(
                error_code=one.error,
                partition_index=one.number,
                leader_id=one.leader,
                leader_epoch=one.epoch,
                replica_nodes=one.replicas,
                isr_nodes=one.isr,
                offline_replicas=one.offline,
            )
            for one in topic.partitions
        ]
        topics.append(
            TOPIC(
                error_code=topic.error,
                name=topic.name,
                topic_id=topic.id,
                is_internal=topic.internal,
                partitions=parts,
                authorized_operations={n for n in range(32) if topic.operations >> n & 1},
            )
        )
    brokers = [BROKER(node_id=one.id, host=one.host, port=one.port, rack=one.rack) for one in response.brokers]
    made = MetadataResponse(
        throttle_time_ms=0,
        brokers=brokers,
        cluster_id=response.cluster_id,
        controller_id=response.controller,
        topics=topics,
        authorized_operations=None,
        error_code=response.error,
    )
    return bytes(made.encode(version=version))


def read_by_kafka_python(version: int, body: bytes) -> tuple[ClusterDescription, int, pa.Table]:
    """What kafka-python's decoder makes of the bytes, in the same form. An object a partition, unlike the columns."""
    answer: Any = MetadataResponse.decode(body, version=version)
    rows = [(topic, part) for topic in answer.topics for part in topic.partitions]
    columns = [
        [topic.name for topic, _ in rows],
        [part.partition_index for _, part in rows],
        [part.leader_id for _, part in rows],
        [part.leader_epoch for _, part in rows],
        [part.replica_nodes for _, part in rows],
        [part.isr_nodes for _, part in rows],
        [str(topic.topic_id) if topic.topic_id is not None and topic.topic_id.int else None for topic, _ in rows],
    ]
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, STATES_SCHEMA, strict=True)]
    nodes = tuple(Node(node.node_id, node.host, node.port, node.rack or None) for node in answer.brokers)
    controller = answer.controller_id if answer.controller_id >= 0 else None
    cluster = ClusterDescription(answer.cluster_id, nodes, controller)
    return cluster, answer.error_code, pa.table(arrays, schema=STATES_SCHEMA)


int16, int32 = st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1)
words = st.text(max_size=40)
sizes = st.sampled_from([0, 1, 2, 3, 3, 3, 126, 127])
"""Of an array, whose compact length has one byte up to 126 entries."""
some_tags = st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=200)), max_size=2).map(tuple)


def tags(draw: st.DrawFn, tagged: bool) -> Any:
    return draw(some_tags) if tagged and draw(st.integers(0, 5)) == 0 else ()


@st.composite
def partitions(draw: st.DrawFn, tagged: bool) -> list[Partition]:
    """Most of one shape, as in a cluster, and some of another."""
    usual = draw(st.tuples(sizes, sizes, sizes))
    found = []
    for number in range(draw(st.integers(0, 6))):
        lengths = draw(st.tuples(sizes, sizes, sizes)) if draw(st.integers(0, 4)) == 0 else usual
        first = draw(int32)
        replicas, isr, offline = ([(first + n) % 2**31 for n in range(length)] for length in lengths)
        error, leader, epoch = draw(int16), draw(int32), draw(int32)
        found.append(Partition(error, number, leader, epoch, replicas, isr, offline, tags(draw, tagged)))
    return found


@st.composite
def responses(draw: st.DrawFn, version: int, tagged: bool = True) -> Response:
    names = words | st.none() if version >= 12 else words
    ids = st.sampled_from([uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)]) | st.uuids()
    topics = [
        Topic(
            draw(int16),
            draw(names),
            draw(ids),
            draw(st.booleans()),
            draw(partitions(tagged)),
            draw(st.sampled_from([-(2**31), 0, 0x5F8])),
            tags(draw, tagged),
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    brokers = [
        Broker(draw(int32), draw(words), draw(int32), draw(words | st.none()), tags(draw, tagged))
        for _ in range(draw(st.integers(0, 3)))
    ]
    error = draw(int16) if version >= 13 else 0
    return Response(brokers, topics, draw(words | st.none()), draw(int32), error, tags(draw, tagged))
