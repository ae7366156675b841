"""Columns from the bytes of a Metadata response are those that kafka-python's decoder leads to, in every version. Bytes
that are no such response are one clear failure."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_medic.clients.metadata_columns import FIRST_GUESS, LATEST_VERSION, decode
from kafka_medic.clients.response_cursor import MalformedResponse
from tests.property.clients.metadata_responses import (
    Broker,
    Partition,
    Response,
    Topic,
    by_kafka_python,
    encoded,
    read_by_kafka_python,
    responses,
)

versions = st.integers(0, LATEST_VERSION)
SMALL = Response(
    [Broker(1, "kafka-1", 9092, "a"), Broker(2, "kafka-2", 9092, None)],
    [
        Topic(0, "orders", uuid.UUID(int=7), False, [Partition(0, n, 1, 4, [1, 2], [1, 2], []) for n in (0, 1, 2)]),
        Topic(3, "gone", uuid.UUID(int=0), False, []),
        Topic(0, "events", uuid.UUID(int=8), False, [Partition(5, 0, -1, 4, [1, 2], [2], [1], ((3, b"new"),))]),
    ],
    tags=((1, b"x"),),
)


def same(version: int, body: bytes) -> None:
    cluster, error_code, states = read_by_kafka_python(version, body)
    found = decode(version, body)
    assert found.cluster == cluster
    assert found.error_code == error_code
    assert found.states.schema == states.schema
    found.states.validate(full=True)
    assert found.states.equals(states)


@given(st.data(), versions)
def test_the_columns_are_those_of_kafka_pythons_decoder(data: Any, version: int) -> None:
    same(version, encoded(data.draw(responses(version)), version))


@given(st.data(), versions)
def test_the_bytes_of_these_tests_are_those_of_kafka_pythons_encoder(data: Any, version: int) -> None:
    response = data.draw(responses(version, tagged=False))
    assert encoded(response, version) == by_kafka_python(response, version)


@given(st.lists(st.sampled_from([0, 1, 2, 3, 3]), min_size=1, max_size=5), st.integers(1, 2 * FIRST_GUESS), versions)
def test_a_topic_of_many_partitions_of_some_shapes_is_read_in_full(shapes: list[int], run: int, version: int) -> None:
    lengths = [length for length in shapes for _ in range(run)]
    parts = [Partition(0, n, n, 1, list(range(length)), [n] * (length // 2), []) for n, length in enumerate(lengths)]
    same(version, encoded(Response([], [Topic(0, "t", uuid.UUID(int=1), False, parts)]), version))


def test_each_version_up_to_the_latest_is_decoded() -> None:
    for version in range(LATEST_VERSION + 1):
        same(version, encoded(SMALL, version))
    with pytest.raises(MalformedResponse, match="version 14 is not supported"):
        decode(LATEST_VERSION + 1, b"")


@pytest.mark.parametrize("version", range(LATEST_VERSION + 1))
def test_an_answer_that_ends_early_or_late_is_malformed(version: int) -> None:
    body = encoded(SMALL, version)
    for end in range(len(body)):
        with pytest.raises(MalformedResponse):
            decode(version, body[:end])
    with pytest.raises(MalformedResponse, match=f"at byte {len(body)}: 2 bytes follow the response"):
        decode(version, body + b"\0\0")


@settings(max_examples=100)
@given(st.data(), versions)
def test_changed_bytes_are_malformed_or_what_kafka_python_reads(data: Any, version: int) -> None:
    """Not every changed byte can be noticed. What is accepted has to be the columns of those bytes."""
    body = bytearray(encoded(data.draw(responses(version) | st.just(SMALL)), version))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(version, bytes(body))
    except MalformedResponse:
        return
    same(version, bytes(body))


@given(st.binary(max_size=300), versions)
def test_any_bytes_are_malformed_or_what_kafka_python_reads(body: bytes, version: int) -> None:
    try:
        decode(version, body)
    except MalformedResponse:
        return
    same(version, body)


def flexible(topics: bytes) -> bytes:
    """A response of version 12 without brokers, whose topics part begins so."""
    return bytes(4) + b"\x01" + b"\x00" + bytes(4) + topics


HUGE = b"\xff\xff\xff\xff\x07"
"""2**31 - 1 as a varint."""
NAMED = b"\x02" + bytes(2) + b"\x02t" + bytes(17)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (flexible(b"\x00"), "-1 topics in 0 bytes"),
        (flexible(HUGE), "2147483646 topics in 0 bytes"),
        (flexible(b"\xff\xff\xff\xff\xff\x01"), "a variable-length number of more than five bytes"),
        (flexible(NAMED + HUGE + bytes(100)), "2147483646 partitions in 100 bytes"),
        (flexible(NAMED + b"\x00" + bytes(100)), "-1 partitions in 100 bytes"),
        (flexible(NAMED + b"\x02" + bytes(14) + b"\x00" + bytes(9)), "-1 replicas in 9 bytes"),
        (flexible(NAMED + b"\x02" + bytes(14) + b"\x01" + HUGE), "2147483646 in-sync replicas in 0 bytes"),
        (flexible(b"\x02" + bytes(2) + b"\xfb\x01" + bytes(300)), "topic name of 250 bytes (limit 249)"),
        (flexible(b"\x02" + bytes(2) + b"\x02\xff" + bytes(100)), "text that is not UTF-8 (invalid start byte)"),
        (flexible(b"\x01" + b"\x01" + b"\x05" + HUGE), "end early"),
        (flexible(b"\x01" + HUGE), "end early"),
    ],
)
def test_what_is_malformed_is_named_with_its_place(body: bytes, what: str) -> None:
    with pytest.raises(MalformedResponse) as refused:
        decode(12, body)
    assert refused.value.message.startswith("malformed Metadata response (version 12) at byte ")
    assert what in refused.value.message


def test_negative_lengths_of_old_versions_are_malformed() -> None:
    for at, what in ((0, "-1 brokers"), (4, "-1 topics")):
        body = bytearray(8)
        body[at : at + 4] = b"\xff" * 4
        with pytest.raises(MalformedResponse, match=what):
            decode(0, bytes(body))


def test_equal_bytes_are_one_table() -> None:
    known: dict[bytes, pa.Table] = {}
    body = encoded(SMALL, 12)
    one, other = (decode(12, body, known) for _ in range(2))
    assert one.states is other.states
    elsewhere = Response([Broker(3, "kafka-3", 9092, "b")], SMALL.topics, "c", 2, tags=SMALL.tags)
    third = decode(12, encoded(elsewhere, 12), known)
    assert third.states is one.states, "brokers and controller may differ"
    assert third.cluster.controller == 2
    fourth = decode(12, encoded(Response(SMALL.brokers, SMALL.topics[:1]), 12), known)
    assert not fourth.states.equals(one.states)


def test_a_response_that_is_an_error_is_decoded_anew() -> None:
    known: dict[bytes, pa.Table] = {}
    refused = encoded(Response([], [], error=129), 13)
    assert [decode(13, refused, known).error_code for _ in range(2)] == [129, 129]
