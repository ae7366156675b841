"""Columns from the bytes of DescribeLogDirs and ListOffsets responses are those that kafka-python's decoder leads to.

This holds in every version. Bytes that are no such response are one clear failure. Requests have kafka-python's bytes.
"""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer.offsets import ListOffsetsRequest

from kafka_medic.clients.log_columns import (
    LOG_DIRS_VERSIONS,
    OFFSETS_SCHEMA,
    OFFSETS_VERSIONS,
    OffsetsReader,
    decode_log_dirs,
    decode_offsets,
    encode_offsets,
)
from kafka_medic.clients.response_cursor import MalformedResponse
from kafka_medic.clients.tables import SIZES_SCHEMA
from tests.property.clients.log_messages import (
    Directory,
    Response,
    Topic,
    int32,
    int64,
    log_dirs_by_kafka_python,
    log_dirs_encoded,
    log_dirs_read_by_kafka_python,
    log_dirs_responses,
    names,
    offsets_by_kafka_python,
    offsets_encoded,
    offsets_read_by_kafka_python,
    offsets_responses,
    request_by_kafka_python,
    topics_of,
)

log_dirs_versions, offsets_versions = st.integers(*LOG_DIRS_VERSIONS), st.integers(*OFFSETS_VERSIONS)
LOG_DIRS_EACH = range(LOG_DIRS_VERSIONS[0], LOG_DIRS_VERSIONS[1] + 1)
OFFSETS_EACH = range(OFFSETS_VERSIONS[0], OFFSETS_VERSIONS[1] + 1)
PLAIN = [Topic("orders", [((0, 5, 0, False), ()), ((1, 6, 0, True), ())]), Topic("empty", [])]
TAGGED = [Topic("events", [((4, 7, 0, False), ((3, b"new"),)), ((5, 8, 1, False), ())], ((1, b"x"),))]
DIRS = Response((Directory(0, "/data/0", PLAIN), Directory(0, "/data/1", TAGGED), Directory(56, "/data/2", [])))
ENDS = Response(
    topics=(
        Topic("orders", [((0, 0, -1, 5, 3), ()), ((1, 6, -1, -1, -1), ())]),
        Topic("events", [((4, 0, -1, 7, 3), ((3, b"new"),))]),
    )
)


def same_log_dirs(version: int, body: bytes) -> None:
    error_code, directories = log_dirs_read_by_kafka_python(version, body)
    found = decode_log_dirs(version, body)
    assert found.error_code == error_code
    assert len(found.directories) == len(directories)
    for one, expected in zip(found.directories, directories, strict=True):
        assert one.sizes.schema == SIZES_SCHEMA
        one.sizes.validate(full=True)
        assert (one.error_code, one.path, one.sizes, one.total_bytes, one.usable_bytes) == expected


def same_offsets(version: int, body: bytes) -> None:
    found = decode_offsets(version, body)
    assert found.schema == OFFSETS_SCHEMA
    found.validate(full=True)
    assert found.equals(offsets_read_by_kafka_python(version, body))


BOTH = [
    pytest.param(decode_log_dirs, same_log_dirs, log_dirs_encoded, DIRS, LOG_DIRS_EACH, id="log-dirs"),
    pytest.param(decode_offsets, same_offsets, offsets_encoded, ENDS, OFFSETS_EACH, id="offsets"),
]
Decode = Callable[[int, bytes], Any]
Same = Callable[[int, bytes], None]
Encoded = Callable[[Response, int], bytes]


@given(st.data(), log_dirs_versions)
def test_log_dirs_are_those_of_kafka_pythons_decoder(data: Any, version: int) -> None:
    same_log_dirs(version, log_dirs_encoded(data.draw(log_dirs_responses(version)), version))


@given(offsets_responses(), offsets_versions)
def test_offsets_are_those_of_kafka_pythons_decoder(response: Response, version: int) -> None:
    same_offsets(version, offsets_encoded(response, version))


def read_or_why(read: Decode, version: int, body: bytes) -> Any:
    try:
        return read(version, body)
    except MalformedResponse as problem:
        return str(problem)


@given(
    offsets_responses(), offsets_versions, offsets_versions, st.lists(st.tuples(st.integers(0), st.binary(max_size=3)))
)
def test_a_reader_of_many_responses_reads_each_as_if_it_were_the_first(
    response: Response, version: int, other: int, changes: list[tuple[int, bytes]]
) -> None:
    body, reader = offsets_encoded(response, version), OffsetsReader()
    bodies = [body, body]
    for place, data in changes:
        at = place % (len(body) + 1)
        bodies += [body[:at] + data + body[at + len(data) :], body]
    for number, one in [*((version, one) for one in bodies), (other, body), (version, body)]:
        found = read_or_why(reader.read, number, one)
        expected = read_or_why(decode_offsets, number, one)
        assert found == expected if isinstance(expected, str) else found.equals(expected)


@pytest.mark.parametrize("version", OFFSETS_EACH)
def test_a_reader_sees_each_field_that_changed(version: int) -> None:
    """Each byte of a response in turn."""
    body, reader = offsets_encoded(ENDS, version), OffsetsReader()
    before = reader.read(version, body)
    for at in range(len(body)):
        changed_body = body[:at] + bytes((body[at] ^ 1,)) + body[at + 1 :]
        found = read_or_why(reader.read, version, changed_body)
        expected = read_or_why(decode_offsets, version, changed_body)
        assert found == expected if isinstance(expected, str) else found.equals(expected)
    assert reader.read(version, body).equals(before)


@given(st.data(), log_dirs_versions, offsets_versions)
def test_the_bytes_of_these_tests_are_those_of_kafka_pythons_encoder(data: Any, dirs: int, ends: int) -> None:
    response = data.draw(log_dirs_responses(dirs, tagged=False))
    assert log_dirs_encoded(response, dirs) == log_dirs_by_kafka_python(response, dirs)
    response = data.draw(offsets_responses(tagged=False))
    assert offsets_encoded(response, ends) == offsets_by_kafka_python(response, ends)


def test_a_replica_that_is_still_moving_there_has_no_size() -> None:
    found = decode_log_dirs(4, log_dirs_encoded(DIRS, 4))
    told = [(row["topic"], row["partition"], row["bytes"]) for row in found.directories[0].sizes.to_pylist()]
    assert told == [("orders", 0, 5)]


@pytest.mark.parametrize("count", [126, 127, 16_382, 16_383, 20_000])
def test_a_topic_of_many_partitions_is_read_in_full(count: int) -> None:
    """Its compact length has one, two or three bytes."""
    topics = [Topic("before", [((0, 1, 0, False), ())]), Topic("t", [((n, n, 0, False), ()) for n in range(count)])]
    response = Response((Directory(0, "/data", [*topics, topics[0]]),))
    for version in LOG_DIRS_EACH:
        same_log_dirs(version, log_dirs_encoded(response, version))


@pytest.mark.parametrize(("decode", "same", "encoded", "small", "each"), BOTH)
def test_each_version_is_decoded(decode: Decode, same: Same, encoded: Encoded, small: Response, each: range) -> None:
    for version in each:
        same(version, encoded(small, version))
    for version in (each[0] - 1, each[-1] + 1):
        with pytest.raises(MalformedResponse, match=f"version {version} is not supported"):
            decode(version, bytes(8))


@pytest.mark.parametrize(("decode", "same", "encoded", "small", "each"), BOTH)
def test_a_response_that_ends_early_or_late_is_malformed(
    decode: Decode, same: Same, encoded: Encoded, small: Response, each: range
) -> None:
    for version in each:
        body = encoded(small, version)
        for end in range(len(body)):
            with pytest.raises(MalformedResponse):
                decode(version, body[:end])
        with pytest.raises(MalformedResponse, match=f"at byte {len(body)}: 2 bytes follow the response"):
            decode(version, body + b"\0\0")


def changed(data: Any, body: bytes) -> bytes:
    found = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        found[data.draw(st.integers(0, len(found) - 1))] = data.draw(st.integers(0, 255))
    return bytes(found)


@settings(max_examples=200)
@given(st.data(), log_dirs_versions)
def test_changed_bytes_are_malformed_or_the_log_dirs_that_kafka_python_reads(data: Any, version: int) -> None:
    """Not every changed byte can be noticed. What is accepted has to be the columns of those bytes."""
    response = data.draw(log_dirs_responses(version) | st.just(DIRS))
    accepted(decode_log_dirs, same_log_dirs, version, changed(data, log_dirs_encoded(response, version)))


@settings(max_examples=200)
@given(st.data(), offsets_versions)
def test_changed_bytes_are_malformed_or_the_offsets_that_kafka_python_reads(data: Any, version: int) -> None:
    response = data.draw(offsets_responses() | st.just(ENDS))
    accepted(decode_offsets, same_offsets, version, changed(data, offsets_encoded(response, version)))


@given(st.binary(max_size=300), log_dirs_versions, offsets_versions)
def test_any_bytes_are_malformed_or_what_kafka_python_reads(body: bytes, dirs: int, ends: int) -> None:
    accepted(decode_log_dirs, same_log_dirs, dirs, body)
    accepted(decode_offsets, same_offsets, ends, body)


def accepted(decode: Decode, same: Same, version: int, body: bytes) -> None:
    try:
        decode(version, body)
    except MalformedResponse:
        return
    same(version, body)


HUGE = b"\xff\xff\xff\xff\x07"
"""2**31 - 1 as a varint."""


def flexible(topics: bytes) -> bytes:
    """A ListOffsets response of version 6 whose topics part begins so."""
    return bytes(4) + topics


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (flexible(b"\x00"), "at byte 5: -1 topics in 0 bytes"),
        (flexible(HUGE), "at byte 9: 2147483646 topics in 0 bytes"),
        (flexible(b"\xff\xff\xff\xff\xff\x01"), "a variable-length number of more than five bytes"),
        (flexible(b"\x02\x02t" + HUGE + bytes(100)), "2147483646 partitions in 100 bytes"),
        (flexible(b"\x02\x02t\x00" + bytes(100)), "at byte 8: -1 partitions in 100 bytes"),
        (flexible(b"\x02\x01\x01\x00\x00\x00"), "topic name of 0 bytes"),
        (flexible(b"\x02\xfb\x01" + b"t" * 300), "topic name of 250 bytes (limit 249)"),
        (flexible(b"\x02\x00" + bytes(100)), "topic name of -1 bytes (limit 249)"),
        (flexible(b"\x03\x02t\x01\x00\x03t/\x01\x00\x00"), "at byte 10: topic name with the byte 0x2f"),
        (flexible(b"\x02\x03\xc3\xa4\x01\x00\x00"), "at byte 6: topic name with the byte 0xc3"),
        (flexible(b"\x02\x02t\x01\x01\x05" + HUGE), "end early"),
        (flexible(b"\x01" + HUGE), "end early"),
    ],
)
def test_what_is_malformed_is_named_with_its_place(body: bytes, what: str) -> None:
    with pytest.raises(MalformedResponse) as refused:
        decode_offsets(6, body)
    assert refused.value.message.startswith("malformed ListOffsets response (version 6) at byte ")
    assert what in refused.value.message


def test_negative_and_huge_lengths_of_old_versions_are_malformed() -> None:
    for length in (b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0"):
        bodies = [length, b"\0\0\0\1\0\1t" + length + bytes(30), b"\0\0\0\1" + length[:2] + bytes(30)]
        for body in bodies:
            with pytest.raises(MalformedResponse, match="malformed ListOffsets response"):
                decode_offsets(1, body)


def test_a_length_that_no_body_has_takes_no_memory() -> None:
    bodies = [flexible(HUGE), flexible(b"\x02\x02t" + HUGE), flexible(b"\x02" + HUGE), flexible(b"\x01" + HUGE)]
    tracemalloc.start()
    try:
        for body in bodies:
            with pytest.raises(MalformedResponse):
                decode_offsets(6, body + bytes(1000))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_path_that_is_not_text_is_malformed() -> None:
    with pytest.raises(MalformedResponse, match="text that is not UTF-8"):
        decode_log_dirs(2, bytes(4) + b"\x02" + bytes(2) + b"\x02\xff" + b"\x01\x00\x00")


asked = topics_of(st.tuples(int32, int32), tagged=False)


@given(offsets_versions, asked, int32, int64, int32)
def test_requests_are_those_of_kafka_pythons_encoder(
    version: int, topics: list[Topic], replica: int, timestamp: int, timeout_ms: int
) -> None:
    topics = sorted({t.name: t for t in topics if t.partitions}.values(), key=lambda t: t.name)
    how = {"replica": replica, "timestamp": timestamp, "timeout_ms": timeout_ms}
    made, body = request_by_kafka_python(version, topics, **how)
    rows = table([(t.name, *fields) for t in topics for fields, _ in t.partitions])
    assert encode_offsets(version, rows, **how) == body
    read = ListOffsetsRequest.decode(encode_offsets(version, rows, **how), version=version)
    assert read == ListOffsetsRequest.decode(bytes(made.encode(version=version)), version=version)


def table(rows: list[Any]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]
    kinds = (pa.string(), pa.int32(), pa.int32())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.table(arrays, ["topic", "partition", "epoch"])


@given(offsets_versions, st.lists(st.tuples(names, int32, int32), max_size=6), st.data())
def test_a_part_of_a_table_and_one_of_several_chunks_are_encoded_as_any(
    version: int, rows: list[Any], data: Any
) -> None:
    rows = sorted(rows)
    begin = data.draw(st.integers(0, len(rows)))
    how: Any = {"replica": -1, "timestamp": -2, "timeout_ms": 0}
    part = encode_offsets(version, table(rows[begin:]), **how)
    assert encode_offsets(version, table(rows).slice(begin), **how) == part
    chunks = pa.concat_tables([table(rows[:begin]), table(rows[begin:])])
    assert encode_offsets(version, chunks, **how) == encode_offsets(version, table(rows), **how)


def test_an_epoch_that_is_not_known_is_any() -> None:
    rows = table([("t", 0, None), ("t", 1, 3)])
    how: Any = {"replica": -1, "timestamp": -1, "timeout_ms": 0}
    read: Any = ListOffsetsRequest.decode(encode_offsets(6, rows, **how), version=6)
    assert [part.current_leader_epoch for part in read.topics[0].partitions] == [-1, 3]


def test_what_no_broker_would_accept_is_not_encoded() -> None:
    how: Any = {"replica": -1, "timestamp": -1, "timeout_ms": 0}
    with pytest.raises(ValueError, match="version 12 is not supported"):
        encode_offsets(12, table([]), **how)
    with pytest.raises(ValueError, match=r"topic name of 250 bytes \(limit 249\)"):
        encode_offsets(6, table([("t" * 250, 0, 0)]), **how)


def test_more_directories_than_a_broker_has_are_refused() -> None:
    """Five bytes each, and each would become a table."""
    body = struct.pack(">i", 0) + struct.pack(">i", 100_000) + b"\0" * 1_000_000
    with pytest.raises(MalformedResponse, match="100000 directories"):
        decode_log_dirs(1, body)
