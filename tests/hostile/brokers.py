"""Brokers that answer some requests as the stub brokers do, and others to harm the client."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import uuid
from collections.abc import Callable
from enum import StrEnum

from kafka.protocol.admin import DescribeConfigsRequest, ListGroupsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from tests.stub_cluster.answers import Answer
from tests.stub_cluster.description import Size, made_up
from tests.stub_cluster.messages import length
from tests.stub_cluster.server import StubCluster

VERSIONS, METADATA = ApiVersionsRequest.API_KEY, MetadataRequest.API_KEY
CONFIGS, GROUPS = DescribeConfigsRequest.API_KEY, ListGroupsRequest.API_KEY
LARGE = 100_000_000
ZEROS = bytes(1 << 20)
THROTTLE, NO_ERROR, NO_TAGS = struct.pack(">i", 0), struct.pack(">h", 0), b"\0"
MOST = b"\xff\xff\xff\xff\x0f"
"""2^32 - 1 as an unsigned varint: one more than the length of the longest compact array."""
FOREVER = b"\x80" * (900_000)
"""A varint without an end."""


class Attack(StrEnum):
    """What the broker does. Where nothing else is said, to Metadata requests."""

    LARGE_FRAMES = "large-frames"  # 100 MB of zeros, to everything but ApiVersions
    ENDLESS_FRAME = "endless-frame"  # 2^31 - 1 bytes, to everything
    NEGATIVE_LENGTH = "negative-length"  # a frame of -5 bytes, to everything
    SLOW_BYTES = "slow-bytes"  # the true answer, one byte a second
    WRONG_ID = "wrong-id"  # the true answer to another request
    UNASKED = "always"  # answers without end to one request
    MANY_VERSIONS = "many-versions"  # ApiVersions with millions of entries
    ENDLESS_VERSIONS = "endless-versions"  # ApiVersions that is never the right version
    NULL_BROKERS = "null-brokers"  # an array that may not be null: librdkafka's process ends by SIGSEGV
    ABSURD_COUNTS = "absurd-counts"  # arrays of 2^31 entries
    ENDLESS_VARINTS = "endless-varints"  # lengths of a million bytes
    MANY_BROKERS = "many-brokers"  # some 40 million of them
    MANY_TAGS = "many-tags"  # tagged fields in each of many entries
    MANY_GROUPS = "many-groups"  # ListGroups with millions of entries
    LONG_NAMES = "long-names"  # few bytes, much text: partitions of one topic whose name is long
    WIDE_VIEWS = "wide-views"  # a well-formed view of millions of partitions
    FITTING_VIEW = "fitting-view"  # as large as a view may be: 240,000 partitions whose names have 60 bytes
    FITTING_GROUPS = "fitting-groups"  # as many groups as fit: 340,000


class HostileBroker(StubCluster):
    """A cluster of one broker."""

    def __init__(self, attack: Attack) -> None:
        self.attack = attack
        super().__init__(made_up(Size(1, 30), 3))

    async def _send(self, broker: int, key: int, link: socket.socket, answer: Answer) -> None:
        loop = asyncio.get_running_loop()
        attack = self.attack
        correlation = answer.head[4:8]
        if attack is Attack.LARGE_FRAMES and key != VERSIONS:
            await self._zeros(link, correlation, LARGE - 8)
        elif attack is Attack.ENDLESS_FRAME:
            await self._zeros(link, correlation, 2**31 - 1)
        elif attack is Attack.NEGATIVE_LENGTH:
            await loop.sock_sendall(link, struct.pack(">i", -5) + ZEROS)
        elif attack is Attack.SLOW_BYTES:
            for byte in answer.head + answer.body:
                await loop.sock_sendall(link, bytes((byte,)))
                await asyncio.sleep(1)
        elif attack is Attack.WRONG_ID and key != VERSIONS:
            await loop.sock_sendall(link, answer.head[:4] + b"\x7f\0\0\1" + answer.head[8:] + answer.body)
        elif attack is Attack.UNASKED and key != VERSIONS:
            while True:
                await loop.sock_sendall(link, (answer.head + answer.body) * 50)
        elif attack is Attack.ENDLESS_VERSIONS:
            await self._frame(link, correlation, struct.pack(">hi", 35, 0) if key == VERSIONS else answer.body)
        elif attack is Attack.MANY_VERSIONS and key == VERSIONS:
            count = 12_000_000
            body = NO_ERROR + length(count) + struct.pack(">hhhB", 3, 0, 12, 0) * count + THROTTLE + NO_TAGS
            await self._frame(link, correlation, body)
        elif key == METADATA and attack in _METADATA and (len(answer.body) > 400 or attack is not Attack.FITTING_VIEW):
            await self._frame(link, correlation, NO_TAGS + _METADATA[attack]())
        elif key == GROUPS and attack in (Attack.MANY_GROUPS, Attack.FITTING_GROUPS):
            count = 9_000_000 if attack is Attack.MANY_GROUPS else 340_000
            group = b"\x02a\x01\x01\x01\x00"  # id, protocol type, state, type, tagged fields
            body = NO_TAGS + THROTTLE + NO_ERROR + length(count) + group * count + NO_TAGS
            await self._frame(link, correlation, body)
        else:
            await super()._send(broker, key, link, answer)

    async def _frame(self, link: socket.socket, correlation: bytes, body: bytes) -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(link, struct.pack(">i", 4 + len(body)) + correlation)
        view = memoryview(body)
        for start in range(0, len(view), 1 << 20):
            await loop.sock_sendall(link, view[start : start + (1 << 20)])

    async def _zeros(self, link: socket.socket, correlation: bytes, size: int) -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(link, struct.pack(">i", size) + correlation)
        for _ in range(size >> 20):
            await loop.sock_sendall(link, ZEROS)


def _cluster(topics: bytes) -> bytes:
    """Of a Metadata response from version 9 on, with no broker."""
    return THROTTLE + length(0) + b"\x02c" + struct.pack(">i", 1) + topics


def _topic(name: bytes, partitions: bytes) -> bytes:
    return NO_ERROR + length(len(name)) + name + uuid.uuid4().bytes + b"\0" + partitions


def _partitions(count: int) -> bytes:
    one = NO_ERROR + struct.pack(">iii", 0, 1, 1) + b"\1\1\1\0"
    return length(count) + one * count + struct.pack(">i", 0) + NO_TAGS


def _absurd() -> bytes:
    return random.Random().choice((THROTTLE + MOST, _cluster(MOST), _cluster(length(1) + _topic(b"a", MOST))))


_METADATA: dict[Attack, Callable[[], bytes]] = {
    Attack.NULL_BROKERS: lambda: THROTTLE + b"\0\x02c" + struct.pack(">i", 1) + b"\0" + NO_TAGS,
    Attack.ABSURD_COUNTS: _absurd,
    Attack.ENDLESS_VARINTS: lambda: THROTTLE + FOREVER,
    Attack.MANY_BROKERS: lambda: THROTTLE + length(9_000_000) + (struct.pack(">i", 1) + b"\2a\0\0\0\1\0\0") * 8_000_000,
    Attack.MANY_TAGS: lambda: (
        THROTTLE + length(70_000) + (struct.pack(">i", 1) + b"\2a\0\0\0\1\0" + b"\1\x63\0") * 70_000
    ),
    Attack.LONG_NAMES: lambda: _cluster(length(1) + _topic(b"n" * 249, _partitions(1_000_000))) + b"\0\0\0",
    Attack.FITTING_VIEW: lambda: _cluster(length(1) + _topic(b"f" * 60, _partitions(240_000))) + b"\0\0\0",
    Attack.WIDE_VIEWS: lambda: _cluster(length(1) + _topic(b"n", _partitions(5_000_000))) + b"\0\0\0",
}
