"""Log bounds and log directories become columns without kafka-python's decoder, in each version of a broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from kafka.protocol.admin import DescribeLogDirsResponse
from kafka.protocol.consumer.offsets import ListOffsetsResponse

from kafka_medic.clients.answers import LogDir, LogDirs
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kafka_log_bounds import Led, by_leader
from kafka_medic.clients.tables import BOUNDS_SCHEMA, LED_SCHEMA
from kafka_medic.cluster.snapshot import TopicPartition
from tests.simulation.log_bounds import led_table, log_bounds
from tests.unit.clients.wire_brokers import Make, two_brokers

ORDERS = [TopicPartition("orders", n) for n in range(3)]
EVENTS = TopicPartition("events", 0)
LOGS = {ORDERS[0]: (0, 7, 100), ORDERS[1]: (3, 9, 200), EVENTS: (1, 2, 300)}


@pytest.fixture
def make() -> Iterator[Make]:
    with two_brokers("127.0.0.6", logs=LOGS) as make:
        yield make


def fails(*_: Any, **__: Any) -> Any:
    raise AssertionError("kafka-python decodes a response")


@pytest.mark.parametrize("version", range(1, 12))
def test_log_bounds_are_read_in_each_version(make: Make, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ListOffsetsResponse, "decode", fails)
    admin, brokers = make(logs_version=version)
    leaders = {EVENTS: 1, ORDERS[0]: 2, ORDERS[1]: 1, ORDERS[2]: 1}
    found = log_bounds(admin, leaders, {ORDERS[0]: 5})
    assert found == {1: {EVENTS: (1, 2), ORDERS[1]: (3, 9)}, 2: {ORDERS[0]: (0, 7)}}
    assert brokers[0].epochs == [-1] * 6
    assert brokers[1].epochs == [5 if version >= 4 else -1] * 2


@pytest.mark.parametrize("version", range(6))
def test_log_directories_are_read_in_each_version(make: Make, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DescribeLogDirsResponse, "decode", fails)
    admin, _ = make(logs_version=version)
    room = (9, 4) if version >= 4 else (None, None)
    sizes = {tp: log[2] for tp, log in LOGS.items()}
    assert admin.log_dirs([1])[1] == LogDirs((LogDir.of("/data", sizes, *room),))


def test_a_broker_with_no_version_in_common_fails_alone(make: Make) -> None:
    admin, _ = make(logs_version=0)
    (found,) = log_bounds(admin, {EVENTS: 1}).values()
    assert isinstance(found, ReadFailed)
    assert found.kind is FailureKind.UNSUPPORTED
    assert "No version of the" in found.message


def test_a_malformed_response_is_that_brokers_failure_and_ends_no_connection(make: Make) -> None:
    admin, brokers = make(logs_version=6)
    leaders = {EVENTS: 1, ORDERS[0]: 2}
    log_bounds(admin, leaders)
    opened = [broker.opened for broker in brokers]
    brokers[1].malformed = bytes(7)
    found, dirs = log_bounds(admin, leaders), admin.log_dirs([1, 2])
    assert found[1] == {EVENTS: (1, 2)}
    assert isinstance(dirs[1], LogDirs)
    for failure, told in (
        (found[2], "log bounds of broker 2: malformed ListOffsets response (version 6) at byte 5: -1 topics"),
        (dirs[2], "log directories of broker 2: malformed DescribeLogDirs response (version 5) at byte 7: "),
    ):
        assert isinstance(failure, ReadFailed)
        assert failure.kind is FailureKind.OTHER
        assert failure.message.startswith(told)
    brokers[1].malformed = None
    assert log_bounds(admin, leaders)[2] == {ORDERS[0]: (0, 7)}
    assert [broker.opened for broker in brokers] == opened


def test_what_is_kept_from_the_last_observation_is_of_the_same_partitions_alone(make: Make) -> None:
    admin, brokers = make(logs_version=6)
    assert log_bounds(admin, {EVENTS: 1, ORDERS[0]: 2}) == {1: {EVENTS: (1, 2)}, 2: {ORDERS[0]: (0, 7)}}
    for broker in brokers:
        broker.logs = {**LOGS, EVENTS: (4, 50, 300), ORDERS[0]: (0, 70, 100)}
    assert log_bounds(admin, {EVENTS: 1, ORDERS[0]: 2}) == {1: {EVENTS: (4, 50)}, 2: {ORDERS[0]: (0, 70)}}
    assert log_bounds(admin, {EVENTS: 2, ORDERS[0]: 2}) == {2: {EVENTS: (4, 50), ORDERS[0]: (0, 70)}}
    assert log_bounds(admin, {ORDERS[1]: 1, ORDERS[0]: 2}) == {1: {ORDERS[1]: (3, 9)}, 2: {ORDERS[0]: (0, 70)}}
    for broker in brokers:
        broker.epochs.clear()
    log_bounds(admin, {ORDERS[1]: 1, ORDERS[0]: 2}, {ORDERS[0]: 5})
    assert brokers[1].epochs == [5, 5]


def test_the_same_rows_are_put_into_requests_once() -> None:
    leaders = {EVENTS: 1, ORDERS[0]: 2}
    first = Led.of(led_table(leaders, {EVENTS: 4}), None)
    assert Led.of(led_table(leaders, {EVENTS: 4}), first) is first
    for other in (led_table(leaders, {EVENTS: 5}), led_table({EVENTS: 1}), led_table({EVENTS: 2, ORDERS[0]: 2})):
        assert Led.of(other, first).table is other
    later = led_table(leaders, {EVENTS: 4})
    unstarted = later.set_column(4, "start", pa.array([True, False]))
    assert {b: t.num_rows for b, t in Led.of(unstarted, first).started.items()} != {1: 1, 2: 1}


def test_who_leads_nothing_is_not_asked(make: Make) -> None:
    admin, brokers = make()
    assert admin.log_bounds(led_table({})) == {}
    assert log_bounds(admin, {EVENTS: 1}) == {1: {EVENTS: (1, 2)}}
    assert not brokers[1].epochs
    assert admin.log_bounds(led_table({EVENTS: 1}))[1].schema == BOUNDS_SCHEMA


def test_each_leader_has_its_rows_with_those_of_a_topic_together() -> None:
    led = led_table({ORDERS[1]: 2, EVENTS: 1, ORDERS[0]: 1, ORDERS[2]: 2}, {EVENTS: 4})
    found = by_leader(led)
    assert list(found) == [1, 2]
    assert found[1].schema == LED_SCHEMA
    assert sorted(map(tuple, (row.values() for row in found[1].to_pylist())), key=str) == [
        ("events", 0, 1, 4, True),
        ("orders", 0, 1, None, True),
    ]
    assert found[2]["partition"].to_pylist() == [1, 2]
