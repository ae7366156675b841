"""What an answer of a broker may cost kafka-python: bytes before they are read, and work while they are."""

from __future__ import annotations

import struct
import time

import pytest
from kafka import errors
from kafka.protocol.admin import ListGroupsResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

from kafka_medic.clients import kafka_bounds, metadata_columns
from kafka_medic.clients.kafka_bounds import LIMITS, MIB, _Bounded, bound, views_of
from kafka_medic.clients.kafka_metadata import members_request, whole_request
from kafka_medic.clients.metadata_columns import decode
from kafka_medic.clients.response_cursor import MalformedResponse
from tests.hostile.brokers import FOREVER, MOST, NO_TAGS, THROTTLE, _cluster, _partitions, _topic
from tests.stub_cluster.messages import length

SECONDS = 2.0
"""What takes longer had no bound: some of these took hours."""


@pytest.fixture(autouse=True)
def bounded():
    bound()


def parser(request, version) -> _Bounded:
    found = _Bounded(client_id="c", receive_message_max_bytes=100_000_000)
    request.API_VERSION = version
    found.send_request(request)
    return found


def frame(body: bytes, correlation: int = 1) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation) + body


@pytest.mark.parametrize("size", [-5, 2**31 - 1, 100_000_000, LIMITS[MetadataRequest.API_KEY] + 1])
def test_a_length_beyond_the_limit_is_refused_before_anything_is_read(size):
    with pytest.raises(errors.KafkaProtocolError, match=rf"{size} bytes to API 3 \(limit {LIMITS[3]}\)"):
        parser(members_request(), 12).receive_bytes(struct.pack(">i", size))


def test_a_view_may_be_as_long_as_the_largest_cluster_needs():
    whole = parser(whole_request(), 12)
    whole.receive_bytes(struct.pack(">i", kafka_bounds.COLUMNS_BYTES))
    with pytest.raises(errors.KafkaProtocolError):
        parser(whole_request(), 12).receive_bytes(struct.pack(">i", kafka_bounds.COLUMNS_BYTES + 1))


def test_the_largest_cluster_can_be_set(monkeypatch):
    monkeypatch.setattr(kafka_bounds, "COLUMNS_BYTES", kafka_bounds.COLUMNS_BYTES)
    monkeypatch.setattr(metadata_columns, "MAX_PARTITIONS", metadata_columns.MAX_PARTITIONS)
    body = _cluster(length(1) + _topic(b"a", _partitions(1001))) + NO_TAGS
    assert decode(12, body).states.num_rows == 1001
    views_of(1000)
    assert kafka_bounds.COLUMNS_BYTES == MIB
    with pytest.raises(MalformedResponse, match=r"limit 1000: the chart's limits\.partitions"):
        decode(12, body)


def test_few_bytes_with_much_text_are_refused():
    """A million partitions of one topic: 18 MB on the wire, 249 MB of names in the table."""
    body = _cluster(length(1) + _topic(b"n" * 249, _partitions(200_000))) + NO_TAGS
    with pytest.raises(MalformedResponse, match="names have 49800000 bytes"):
        decode(12, body)


def test_an_answer_that_nothing_was_asked_for_is_refused():
    asked = parser(ApiVersionsRequest(), 0)
    answer = frame(struct.pack(">hi", 0, 0))
    assert len(asked.receive_bytes(answer)) == 1
    with pytest.raises(errors.KafkaProtocolError, match="nothing was asked for"):
        asked.receive_bytes(answer)


@pytest.mark.parametrize(
    "body",
    [
        THROTTLE + FOREVER,
        THROTTLE + MOST,
        THROTTLE + length(400_000) + b"\0" * 400,
        _cluster(MOST),
        # a brokers' entry with its own tagged fields, 40,000 times
        THROTTLE + length(40_000) + (struct.pack(">i", 1) + b"\2a\0\0\0\1\0" + b"\1\x63\0") * 40_000,
        THROTTLE + length(1) + struct.pack(">i", 1) + b"\2a\0\0\0\1\0" + b"\x7f" + b"\x63\0" * 200_000,
        b"",
        b"\xff" * 100_000,
    ],
    ids=["endless-varint", "most", "short", "most-topics", "tags-of-many", "tags-of-one", "empty", "ones"],
)
def test_what_cannot_be_read_is_found_out_soon(body):
    began = time.monotonic()
    with pytest.raises(errors.KafkaProtocolError):
        parser(members_request(), 12).receive_bytes(frame(NO_TAGS + body))
    assert time.monotonic() - began < SECONDS


def test_tagged_fields_of_the_header_are_bounded():
    body = b"\xff\xff\x03" + b"\x05\0" * 65_535
    with pytest.raises(errors.KafkaProtocolError):
        parser(members_request(), 12).receive_bytes(frame(body))


def test_what_is_well_formed_is_read_as_before():
    """Encoded by kafka-python itself, tagged fields too."""
    feature = ApiVersionsResponse.SupportedFeatureKey
    told = ApiVersionsResponse(
        error_code=0,
        api_keys=[ApiVersionsResponse.ApiVersion(api_key=3, min_version=0, max_version=12)],
        throttle_time_ms=0,
        supported_features=[feature(name="kraft.version", min_version=0, max_version=1)],
        finalized_features_epoch=7,
    )
    read = ApiVersionsResponse.decode(told.encode(version=4), version=4)
    assert [(f.name, f.max_version) for f in read.supported_features] == [("kraft.version", 1)]
    assert read.finalized_features_epoch == 7
    node = MetadataResponse.MetadataResponseBroker(node_id=300, host="h" * 200, port=9092, rack="r")
    members = MetadataResponse(
        throttle_time_ms=0, brokers=[node] * 300, cluster_id="c", controller_id=1, topics=[], error_code=0
    )
    read = MetadataResponse.decode(members.encode(version=12), version=12)
    assert [(b.node_id, b.host) for b in read.brokers] == [(300, "h" * 200)] * 300
    listed = ListGroupsResponse.ListedGroup(group_id="g", protocol_type="consumer", group_state="Empty", group_type="")
    groups = ListGroupsResponse(throttle_time_ms=0, error_code=0, groups=[listed] * 500)
    assert len(ListGroupsResponse.decode(groups.encode(version=5), version=5).groups) == 500
