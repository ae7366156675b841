"""kafka-python: what one answer of a broker may cost.

Whoever may create a KafkaCluster chooses the server that the operator reads from, and all clusters share one process.
kafka-python takes any answer of up to 100 MB and makes Python objects of 30 times its size. Its varints have no end,
and for each entry with tagged fields it copies the rest of the answer. `bound` sets limits for each connection of
kafka-python in this process.
"""

from __future__ import annotations

import io
import struct
from typing import Any

from kafka import errors
from kafka.net import connection
from kafka.protocol.admin import (
    DescribeConfigsRequest,
    ListGroupsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kafka.protocol.schemas.fields.codecs import TaggedFields, UnsignedVarInt32
from kafka.protocol.schemas.fields.struct import StructField

from kafka_medic.clients import metadata_columns
from kafka_medic.clients.undecoded import goes_to_columns

KIB, MIB = 1 << 10, 1 << 20
BYTES_A_PARTITION = 64
"""In a view, of three replicas, with its share of the topic and the brokers: 45."""
COLUMNS_BYTES = BYTES_A_PARTITION * metadata_columns.MAX_PARTITIONS
"""Of an answer that goes to columns."""
OBJECTS_BYTES = 2 * MIB
"""Of any other answer, of which kafka-python makes Python objects."""
LIMITS = {
    ApiVersionsRequest.API_KEY: 64 * KIB,
    SaslHandshakeRequest.API_KEY: 64 * KIB,
    SaslAuthenticateRequest.API_KEY: 64 * KIB,
    MetadataRequest.API_KEY: 512 * KIB,  # without topics: up to 60 bytes for each broker, and its host name
    DescribeConfigsRequest.API_KEY: 1 * MIB,  # a broker's, or 200 topics'
    ListGroupsRequest.API_KEY: 2 * MIB,
    ListPartitionReassignmentsRequest.API_KEY: 4 * MIB,
    OffsetFetchRequest.API_KEY: 4 * MIB,  # of 250 groups
    FetchRequest.API_KEY: 16 * MIB,  # 1 MiB is requested; a single record may be as long as message.max.bytes
}
"""Bytes, by API key, where another limit than OBJECTS_BYTES holds."""
TAGS_BYTES = 8 * KIB
"""Of the tagged fields of one entry."""
TAGS = 64
"""Of one entry, or of a header."""
LAST_SHIFT = 28
"""An unsigned varint has five bytes at most (KIP-482)."""
_UNREADABLE = (
    struct.error,
    ValueError,
    IndexError,
    KeyError,
    AttributeError,
    TypeError,
    AssertionError,
    OverflowError,
    MemoryError,
)


def limit_of(header: Any) -> int:
    """Bytes that the answer to a request may have, by the header of the request."""
    if goes_to_columns(header):
        return COLUMNS_BYTES
    return LIMITS.get(header.request_api_key, OBJECTS_BYTES)


class _Bounded(KafkaProtocol):  # type: ignore[misc]
    """In place of kafka-python's own. Whatever it raises but KafkaProtocolError would leave the connection open."""

    def _validate_frame_size(self, nbytes: int) -> None:
        if not self.in_flight_requests:
            raise errors.CorrelationIdError("an answer that nothing was asked for")
        header = self.in_flight_requests[0]
        limit = limit_of(header)
        if not 0 <= nbytes <= limit:
            raise errors.InvalidReceiveError(
                f"an answer of {nbytes} bytes to API {header.request_api_key} (limit {limit})"
            )

    def _process_response(self, read_buffer: Any) -> Any:
        try:
            return super()._process_response(read_buffer)
        except _UNREADABLE as problem:
            raise errors.KafkaProtocolError(f"an answer that cannot be read: {type(problem).__name__}") from None


def _varint(_: type, ctx: Any, var_name: str, indent: str) -> None:
    """As `UnsignedVarInt32.emit_decode_from`, and ends."""
    byte, shift = ctx.next_var("b"), ctx.next_var("sh")
    for line in (
        f"{var_name} = 0",
        f"{shift} = 0",
        "while True:",
        f"    {byte} = data[pos]",
        "    pos += 1",
        f"    {var_name} |= ({byte} & 0x7f) << {shift}",
        f"    if not ({byte} & 0x80): break",
        f"    {shift} += 7",
        f"    if {shift} > {LAST_SHIFT}: raise ValueError('a variable-length number of more than five bytes')",
    ):
        ctx.emit(indent, line)


def _tagged(field: Any, ctx: Any, var_name: str, indent: str, version: int) -> None:
    """As `StructField._emit_tagged_decode`, without a copy of all that follows."""
    fields, values = ctx.next_var("tf"), ctx.next_var("tfd")
    ctx.globs[fields] = field.tagged_fields(version)
    ctx.globs["_taken"] = _taken
    ctx.emit(indent, f"{values}, pos = _taken({fields}, data, pos, {version})")
    ctx.emit(indent, f"for _tk, _tv in {values}.items():")
    ctx.emit(indent, f"    if {var_name}.tags is None: {var_name}.tags = set()")
    ctx.emit(indent, f"    {var_name}.tags.add(_tk)")
    ctx.emit(indent, f"    setattr({var_name}, _tk, _tv)")


def _taken(fields: Any, data: Any, pos: int, version: int) -> tuple[dict[str, Any], int]:
    """The tagged fields that are known, and where they end."""
    rest = io.BytesIO(bytes(data[pos : pos + TAGS_BYTES]))
    return fields.decode(rest, version=version), pos + rest.tell()


def _known(fields: Any, data: Any, version: int | None = None) -> dict[str, Any]:
    """As `TaggedFields.decode`, without those that are not known."""
    count = UnsignedVarInt32.decode(data)
    if count > TAGS:
        raise ValueError(f"{count} tagged fields of one entry (limit {TAGS})")
    found: dict[str, Any] = {}
    for _ in range(count):
        tag, size = UnsignedVarInt32.decode(data), UnsignedVarInt32.decode(data)
        if tag in fields._tags:
            # A tagged entry has no tagged fields of its own.
            field = fields._tags[tag]
            found[field.name] = field.decode(data, version=version, compact=True, tagged=None)
        else:
            data.read(max(0, size))
    return found


def views_of(partitions: int) -> None:
    """From now on, views of at most so many partitions are read in this process."""
    global COLUMNS_BYTES  # noqa: PLW0603 - a limit of the process, set as it begins
    metadata_columns.MAX_PARTITIONS = partitions
    COLUMNS_BYTES = max(MIB, BYTES_A_PARTITION * partitions)


def bound() -> None:
    """From now on, all connections of kafka-python in this process."""
    connection.KafkaProtocol = _Bounded
    UnsignedVarInt32.emit_decode_from = classmethod(_varint)
    StructField._emit_tagged_decode = _tagged
    TaggedFields.decode = _known
