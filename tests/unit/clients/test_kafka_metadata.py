"""A whole view comes to columns without kafka-python's decoder, in whatever version the broker knows."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataResponse

from kafka_medic.clients import kafka_discovery
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import BrokerView, PartitionState
from tests.unit.clients.wire_brokers import Make, two_brokers

TOPIC = MetadataResponse.MetadataResponseTopic
PARTITION = TOPIC.MetadataResponsePartition
ID = uuid.UUID(int=7)
REBOOTSTRAP_REQUIRED = 129


def topic(name: str, *leaders: int) -> Any:
    parts = [
        PARTITION(
            error_code=0 if leader >= 0 else 5,
            partition_index=number,
            leader_id=leader,
            leader_epoch=3,
            replica_nodes=[1, 2],
            isr_nodes=[2],
            offline_replicas=[],
        )
        for number, leader in enumerate(leaders)
    ]
    return TOPIC(error_code=0, name=name, topic_id=ID, is_internal=False, partitions=parts, authorized_operations=None)


@pytest.fixture
def make() -> Iterator[Make]:
    with two_brokers("127.0.0.5", topics=[topic("orders", 2, -1)]) as make:
        yield make


def view(answer: BrokerView | ReadFailed) -> BrokerView:
    assert isinstance(answer, BrokerView), answer
    return answer


def failure(answer: BrokerView | ReadFailed) -> ReadFailed:
    assert isinstance(answer, ReadFailed), answer
    return answer


@pytest.mark.parametrize("version", [*range(1, 14), 99])
def test_a_whole_view_is_read_in_each_version(make: Make, version: int) -> None:
    admin, _ = make(metadata_version=version)
    found = view(admin.views([1])[1])
    assert (found.broker, found.members, found.controller) == (1, (1, 2), 1)
    epoch, topic_id = (3 if version >= 7 else -1), (str(ID) if version >= 10 else None)
    expected = [PartitionState("orders", n, leader, epoch, (1, 2), (2,), topic_id) for n, leader in ((0, 2), (1, -1))]
    assert list(found.partitions) == expected


def test_kafka_python_decodes_no_partition(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    admin, _ = make(metadata_version=12)
    decoded = []
    usual = MetadataResponse.decode.__func__

    def decode(cls: Any, *given: Any, **more: Any) -> Any:
        decoded.append(usual(cls, *given, **more))
        return decoded[-1]

    monkeypatch.setattr(MetadataResponse, "decode", classmethod(decode))
    assert view(admin.views([1])[1]).states.num_rows == 2
    assert view(admin.memberships([1])[1]).states is None
    assert decoded, "the members"
    assert [answer.topics for answer in decoded] == [[]] * len(decoded)


def test_equal_views_are_one_table_for_as_long_as_it_is_used(make: Make) -> None:
    admin, brokers = make(metadata_version=12)
    first = {broker: view(answer).states for broker, answer in admin.views([1, 2]).items()}
    assert first[1] is first[2]
    brokers[1].topics = [topic("orders", 1, 1)]
    second = {broker: view(answer).states for broker, answer in admin.views([1, 2]).items()}
    assert second[1] is first[1]
    assert second[2]["leader"].to_pylist() == [1, 1]
    assert len(admin._whole_views._tables) == 2
    del first, second
    assert not len(admin._whole_views._tables)


def test_a_malformed_view_is_that_brokers_failure_and_ends_no_connection(make: Make) -> None:
    admin, brokers = make(metadata_version=12)
    admin.views([1, 2])
    opened = [broker.opened for broker in brokers]
    brokers[1].malformed = bytes(7)
    found = admin.views([1, 2])
    assert view(found[1]).states.num_rows == 2
    why = failure(found[2])
    assert why.kind is FailureKind.OTHER
    assert why.message.startswith(
        "metadata of broker 2: malformed Metadata response (version 12) at byte 5: -1 brokers"
    )
    brokers[1].malformed = None
    assert view(admin.views([2])[2]).states.num_rows == 2
    assert [broker.opened for broker in brokers] == opened


@pytest.mark.parametrize("malformed", [b"", bytes(3)])
def test_a_response_too_short_for_its_first_field_is_malformed(make: Make, malformed: bytes) -> None:
    admin, _ = make(metadata_version=12, malformed=malformed)
    assert "end early" in failure(admin.views([1])[1]).message


def test_a_response_that_is_an_error_is_no_view(make: Make) -> None:
    admin, _ = make(metadata_version=13, metadata_error=REBOOTSTRAP_REQUIRED)
    assert "Metadata response" in failure(admin.views([1])[1]).message


def test_a_broker_that_the_cluster_does_not_name_is_read_the_same_way(make: Make) -> None:
    admin, brokers = make(metadata_version=12)
    for broker in brokers:
        broker.peers = [(1, brokers[0].ip, brokers[0].port)]
    admin.members()
    found = view(admin.unnamed_views({2: [(brokers[1].ip, brokers[1].port)]})[2])
    assert found.states is view(admin.views([1])[1]).states


def test_a_server_that_does_not_say_who_it_is_is_not_waited_for_at_every_look(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, usual = list[int](), kafka_discovery.find

    async def find(client: Any, broker: int, addresses: Any) -> str | None:
        tried.append(broker)
        return await usual(client, broker, addresses)

    monkeypatch.setattr(kafka_discovery, "find", find)
    admin, brokers = make(metadata_version=12)
    for broker in brokers:
        broker.peers = [(1, brokers[0].ip, brokers[0].port)]
    admin.members()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answers = [admin.unnamed_views({2: [silent.getsockname()]})[2] for _ in range(2)]
        (why,) = {failure(answer).message for answer in answers}
        assert why == "metadata of broker 2, which the cluster does not name: no server answers as that broker"
        assert tried == [2]
        assert view(admin.unnamed_views({2: [(brokers[1].ip, brokers[1].port)]})[2]), "another address is tried at once"
