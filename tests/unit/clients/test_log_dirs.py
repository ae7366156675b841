"""Log directories as Kafka's message has them: each with its own error, and each broker by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors
from kafka.protocol.admin import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, DescribeLogDirsResponse

from kafka_medic.clients.answers import LogDir, LogDirs
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kafka_admin import KafkaAdmin, _log_dirs
from kafka_medic.clients.kafka_changes import log_dirs_change, log_dirs_refused
from kafka_medic.clients.kafka_link import failure_of
from kafka_medic.clients.ports import Connection
from kafka_medic.clients.undecoded import ResponseBytes
from kafka_medic.cluster.snapshot import STORAGE_ERROR, TopicPartition

ORDERS, MOVING = TopicPartition("orders", 0), TopicPartition("orders", 1)
OTHER = TopicPartition("payments", 3)


def directory(path: str, *held: tuple[TopicPartition, int, bool], error: int = 0, total: int = -1, usable: int = -1):
    topic_of = DescribeLogDirsResponse.DescribeLogDirsResult.DescribeLogDirsTopic
    part_of = topic_of.DescribeLogDirsPartition
    topics = [
        topic_of(
            name=tp.topic,
            partitions=[part_of(partition_index=tp.partition, partition_size=size, offset_lag=0, is_future_key=future)],
        )
        for tp, size, future in held
    ]
    return DescribeLogDirsResponse.DescribeLogDirsResult(
        error_code=error, log_dir=path, topics=topics, total_bytes=total, usable_bytes=usable
    )


def answer(*directories: Any, error: int = 0, version: int = 4) -> Any:
    """As it comes from the wire."""
    message = DescribeLogDirsResponse(throttle_time_ms=0, error_code=error, results=list(directories))
    return ResponseBytes(version, bytes(message.encode(version=version)), 0)


def test_a_directory_that_failed_is_named_and_the_others_are_read():
    """KIP-112: with several, a broker goes on when one fails. KIP-113: a replica that moves is not there yet."""
    good = directory("/data/0", (ORDERS, 5, False), (MOVING, 3, True), total=100, usable=40)
    found = _log_dirs(1, answer(good, directory("/data/1", error=errors.KafkaStorageError.errno)))
    assert found.directories == (
        LogDir.of("/data/0", {ORDERS: 5}, 100, 40, future={MOVING: 3}),
        LogDir("/data/1", None, error=STORAGE_ERROR),
    )
    assert found.sizes == {ORDERS: 5}
    assert [d.sizes for d in found.directories] == [{ORDERS: 5}, None]
    assert found.usable == 40


def test_bytes_that_are_not_reported_are_not_known():
    """KIP-827 begins with version 4."""
    found = _log_dirs(1, answer(directory("/data/0", (ORDERS, 5, False)), version=3))
    assert found.directories == (LogDir.of("/data/0", {ORDERS: 5}),)
    assert found.usable is None


def test_the_least_that_is_free_is_that_of_the_directories_that_answer():
    failed = LogDir("/data/2", None, error=STORAGE_ERROR)
    assert LogDirs((LogDir.of("/data/0", {}, 100, 40), LogDir.of("/data/1", {}, 100, 30), failed)).usable == 30
    assert LogDirs((failed,)).usable is None
    assert LogDirs(()).usable is None


def test_directories_are_equal_by_what_they_hold():
    assert LogDirs((LogDir.of("/data/0", {ORDERS: 5}, 100, 40),)) == LogDirs(
        (LogDir.of("/data/0", {ORDERS: 5}, 100, 40),)
    )
    one = LogDir.of("/data/0", {ORDERS: 5})
    for other in ({ORDERS: 6}, {MOVING: 5}, {}, None):
        assert one != LogDir.of("/data/0", other)


def test_a_move_names_each_directory_once_and_tells_what_the_broker_refused():
    """AlterReplicaLogDirs, API key 34, in both versions that Kafka 4 and Kafka 2 know."""
    request = log_dirs_change({ORDERS: "/data/1", MOVING: "/data/1", OTHER: "/data/2"})
    assert request.API_KEY == 34
    for version in (1, 2):
        read = AlterReplicaLogDirsRequest.decode(bytes(request.encode(version=version)), version=version)
        told = {d.path: {t.name: t.partitions for t in d.topics} for d in read.dirs}
        assert told == {"/data/1": {"orders": [0, 1]}, "/data/2": {"payments": [3]}}
    topic = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
    part = topic.AlterReplicaLogDirPartitionResult
    parts = [part(partition_index=0, error_code=0), part(partition_index=1, error_code=56)]
    response = AlterReplicaLogDirsResponse(throttle_time_ms=0, results=[topic(topic_name="orders", partitions=parts)])
    assert log_dirs_refused(response) == {MOVING: "KafkaStorageError"}


class Link:
    """Brokers that answer, and some that do not."""

    def __init__(self, answers: dict[int, Any]) -> None:
        self.answers = answers

    def ask_each(self, brokers: Any, _: Any, read: Any, what: str) -> Any:
        found: dict[int, Any] = {}
        for broker in brokers:
            try:
                if isinstance(self.answers[broker], Exception):
                    raise self.answers[broker]
                found[broker] = read(broker, self.answers[broker])
            except Exception as problem:  # noqa: BLE001 - as the real one does
                found[broker] = failure_of(ReadFailed, problem, f"{what} of broker {broker}")
        return found


@pytest.mark.parametrize(
    ("sick", "kind"),
    [
        (ResponseBytes(4, bytes(7), 0), FailureKind.OTHER),
        (errors.KafkaTimeoutError("late"), FailureKind.UNREACHABLE),
        (answer(error=errors.ClusterAuthorizationFailedError.errno), FailureKind.AUTHORIZATION),
    ],
)
def test_one_broker_that_does_not_tell_them_is_that_brokers_failure_and_no_empty_list(sick, kind):
    admin: Any = KafkaAdmin(Connection("127.0.0.1:1"))
    admin._link = Link({1: sick, 2: answer(directory("/data/0", (ORDERS, 5, False)))})
    found = admin.log_dirs([1, 2])
    assert isinstance(found[1], ReadFailed)
    assert found[1].kind is kind
    assert found[2].sizes == {ORDERS: 5}


def test_one_broker_whose_settings_are_not_told_fails_alone():
    def told(broker: int, code: int = 0) -> Any:
        entry = SimpleNamespace(name="n", value="1", config_source=4)
        one = SimpleNamespace(
            resource_type=4, resource_name=str(broker), configs=[entry], error_code=code, error_message=None
        )
        return SimpleNamespace(results=[one])

    admin: Any = KafkaAdmin(Connection("127.0.0.1:1"))
    admin._link = Link({1: told(1), 2: told(2, code=31), 3: errors.KafkaTimeoutError("late")})
    found = admin.broker_configs([1, 2, 3])
    assert found[1]["n"].value == "1"
    assert [found[b].kind for b in (2, 3)] == [FailureKind.AUTHORIZATION, FailureKind.UNREACHABLE]
