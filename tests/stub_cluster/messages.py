"""Messages by kafka-python's own encoder, and the header with the correlation id of each answer."""

from __future__ import annotations

import io
import struct
from typing import Any, NamedTuple

from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

VERSION = (4, 3)
"""Stub brokers offer the request versions of this Kafka release."""
OFFERED: dict[int, tuple[int, int]] = BROKER_API_VERSIONS[VERSION]
API_VERSIONS = 18
_HEAD = struct.Struct(">hhi")
_FRAME = struct.Struct(">ii")


class BadRequest(Exception):
    """Malformed bytes, or a request that the stub brokers do not answer."""


class Request(NamedTuple):
    """`same`: equal for two requests that differ in nothing but the correlation id."""

    key: int
    version: int
    correlation: int
    data: bytes

    @property
    def same(self) -> bytes:
        return self.data[:4] + self.data[8:]


def parsed(data: bytes) -> Request:
    if len(data) < _HEAD.size:
        raise BadRequest(f"a request of {len(data)} bytes")
    key, version, correlation = _HEAD.unpack_from(data)
    return Request(key, version, correlation, data)


def decoded(request: Request, message: Any) -> Any:
    """`message`: the class of the request."""
    try:
        rest = io.BytesIO(request.data)
        message.parse_header(rest, version=request.version)
        return message.decode(request.data[rest.tell() :], version=request.version)
    except (ValueError, IndexError, struct.error, UnicodeDecodeError) as problem:
        raise BadRequest(f"{message.name} version {request.version}: {problem}") from problem


def body(answer: Any, version: int) -> bytes:
    return bytes(answer.encode(version=version))


def head(request: Request, message: Any, size: int) -> bytes:
    """Frame and header for an answer's body of this size. `message`: the class of the answer."""
    flexible = request.key != API_VERSIONS and message.flexible_version_q(request.version)
    tags = b"\0" if flexible else b""  # the header of ApiVersions' answer never has them (KIP-511)
    return _FRAME.pack(4 + len(tags) + size, request.correlation) + tags


def length(count: int) -> bytes:
    """Of a compact array (KIP-482)."""
    number, found = count + 1, bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
