"""One element of a source that fails is that element's unknown, with its reason. All of them are the source's."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kafka_medic.clients.answers import Groups, LogDir, LogDirs
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import Reassignment
from kafka_medic.cluster.elements import (
    group_unread,
    groups_unread,
    log_dirs_unread,
    on_failed_directory,
    settings_unread,
)
from kafka_medic.cluster.groups import Committed, GroupOffsets
from kafka_medic.cluster.partition_rows import Rows
from kafka_medic.cluster.snapshot import STATES_SCHEMA, STORAGE_ERROR, Element, Snapshot, TopicPartition
from kafka_medic.observe import contents, tables
from kafka_medic.observe.directories import offline_replicas
from tests.simulation.kafka import SimKafka
from tests.simulation.log_bounds import bounds_of, bounds_table
from tests.unit.observe.test_snapshot import Watched, rows, seen

ORDERS = [TopicPartition("orders", n) for n in range(2)]
GONE = TopicPartition("tmp-123", 0)
REFUSED = ReadFailed(FailureKind.OTHER, "not this one")


@pytest.fixture
def kafka() -> SimKafka:
    kafka = SimKafka()
    kafka.topic("orders", [1, 0, 2], [2, 1, 0])
    kafka.topic("tmp-123", [0, 1])
    kafka.committed = {"billing": {ORDERS[0]: 10}}
    return kafka


def source(snapshot: Snapshot, name: str) -> str | None:
    """What a source that is known could not report."""
    found = snapshot.source(name)
    assert found is not None
    assert found.known, found.error
    return found.error


def test_a_topic_that_goes_between_two_requests_is_its_own_unknown(kafka):
    """Deleted after the views were read; a ghost that only a stale view names looks the same."""

    def settings(topics, *rest):
        assert "tmp-123" in topics
        kafka.delete("tmp-123")
        return kafka.topic_configs(topics, *rest)

    snapshot = seen(Watched(kafka, {"topic_configs": settings}))
    found = rows(snapshot)
    assert {tp: row.min_isr for tp, row in found.items()} == {ORDERS[0]: 2, ORDERS[1]: 2, GONE: None}
    assert "UnknownTopicOrPartition" in (settings_unread(snapshot, "TOPIC", "tmp-123") or "")
    assert settings_unread(snapshot, "TOPIC", "orders") is None
    assert settings_unread(snapshot, "BROKER", "1") is None
    assert "topic tmp-123: " in (source(snapshot, "configs") or "")
    assert snapshot.config("BROKER", "1", "default.replication.factor") is not None


@pytest.mark.parametrize(
    ("method", "unread"),
    [
        ("broker_configs", [("BROKER", str(b)) for b in range(3)]),
        ("cluster_configs", [("BROKER", "")]),
        ("topic_configs", [("TOPIC", t) for t in ("orders", "tmp-123")]),
    ],
)
def test_settings_of_one_kind_that_are_not_told_leave_the_others(kafka, method, unread):
    def refused(*_):
        raise REFUSED

    snapshot = seen(Watched(kafka, {method: refused}))
    assert snapshot.configs is not None
    assert source(snapshot, "configs")
    assert set(snapshot.unread) == {Element("configs", kind, name) for kind, name in unread}
    # A topic without a value of its own has that of its brokers.
    assert (rows(snapshot)[ORDERS[0]].min_isr is None) == (method in ("topic_configs", "broker_configs"))


def test_one_broker_that_does_not_tell_its_settings_is_no_broker_without_settings(kafka):
    told = {**kafka.broker_configs([0, 2]), 1: REFUSED}
    snapshot = seen(Watched(kafka, {"broker_configs": lambda *_: told}))
    assert settings_unread(snapshot, "BROKER", "1") == str(REFUSED)
    assert [settings_unread(snapshot, "BROKER", b) for b in ("0", "2")] == [None, None]
    assert source(snapshot, "configs") == f"broker 1: {REFUSED}"


def test_one_broker_that_does_not_tell_its_directories(kafka):
    told = {**kafka.log_dirs([0, 2]), 1: REFUSED}
    snapshot = seen(Watched(kafka, {"log_dirs": lambda _: told}))
    assert source(snapshot, "log-dirs") == f"broker 1: {REFUSED}"
    assert [b.disk_free for b in snapshot.brokers or ()] == [1 << 50, None, 1 << 50]
    assert [log_dirs_unread(snapshot, b) for b in range(3)] == [None, str(REFUSED), None]
    assert rows(snapshot)[ORDERS[0]].size_bytes == 1000, "another replica of it is known"


@pytest.mark.parametrize("answers", [{}, {1: REFUSED}, dict.fromkeys(range(3), REFUSED)])
def test_no_broker_that_tells_its_directories_is_a_source_that_failed(kafka, answers):
    snapshot = seen(Watched(kafka, {"log_dirs": lambda _: answers}))
    found = snapshot.source("log-dirs")
    assert found is not None
    assert not found.known
    assert snapshot.unread == {}
    assert {b.directories for b in snapshot.brokers or ()} == {None}


def test_a_group_whose_coordinator_fails_is_that_groups_unknown(kafka):
    billing = GroupOffsets("billing", "Empty", {ORDERS[0]: Committed(10), ORDERS[1]: None})
    answer = Groups([billing], {"audit": REFUSED}, {2: REFUSED})
    snapshot = seen(Watched(kafka, {"groups": lambda *_: answer}))
    assert [(r["partition"], r["committed"]) for r in snapshot.groups.to_pylist()] == [(0, 10), (1, None)]
    assert group_unread(snapshot, "billing") is None
    assert group_unread(snapshot, "audit") == str(REFUSED)
    assert group_unread(snapshot, "nobody-knows") == f"broker 2 did not list its groups: {REFUSED}"
    assert groups_unread(snapshot) == (f"broker 2: {REFUSED}", f"group audit: {REFUSED}")
    assert source(snapshot, "groups") == f"groups of broker 2: {REFUSED}; group audit: {REFUSED}"


def test_no_group_that_could_be_read_is_a_source_that_failed(kafka):
    snapshot = seen(Watched(kafka, {"groups": lambda *_: Groups([], {"audit": REFUSED})}))
    assert snapshot.groups is None
    assert group_unread(snapshot, "audit") == str(REFUSED)
    assert group_unread(seen(kafka), "no-such-group") is None, "every broker has listed its groups"


def test_the_log_end_of_one_partition_with_an_error(kafka):
    def bounds(led):
        told = kafka.log_bounds(led)
        return {**told, 1: bounds_table(dict.fromkeys(bounds_of(told[1]), "KafkaStorageError"))}

    snapshot = seen(Watched(kafka, {"log_bounds": bounds}))
    assert {tp: row.log_end for tp, row in rows(snapshot).items()} == {ORDERS[0]: None, ORDERS[1]: 21, GONE: 21}
    assert "1 partition with an error: orders-0: KafkaStorageError" in (source(snapshot, "log-ends") or "")


# Directories that fail one by one


def test_a_failed_directory_and_what_was_on_it_are_named(kafka):
    kafka.disk_fails(1, {ORDERS[0], GONE})
    snapshot = seen(kafka)
    broker = snapshot.broker(1)
    assert broker is not None
    assert [(d.path, d.error) for d in broker.directories or ()] == [("/data/0", None), ("/data/1", STORAGE_ERROR)]
    assert broker.offline_replicas == (ORDERS[0], GONE)
    assert on_failed_directory(broker) == {ORDERS[0], GONE}
    assert broker.disk_free == 1 << 50, "of the directory that answers"
    assert source(snapshot, "log-dirs") == f"broker 1, /data/1: {STORAGE_ERROR}"
    assert log_dirs_unread(snapshot, 1) is None, "the broker has told them"
    others = [b for b in snapshot.brokers or () if b.id != 1]
    assert [(b.offline_replicas, on_failed_directory(b)) for b in others] == [((), frozenset())] * 2


def test_a_partition_that_nobody_leads_is_on_the_failed_directory_though_it_is_in_the_isr(kafka):
    kafka.partitions[GONE].isr, kafka.partitions[GONE].leader = [1], 1
    kafka.disk_fails(1, {GONE})
    assert kafka.partitions[GONE].isr == [1]
    assert on_failed_directory(seen(kafka).broker(1)) == {GONE}


def failing(kafka: SimKafka, *directories: LogDir, **instead: Any) -> Any:
    """Broker 1 with these directories."""
    told = {**kafka.log_dirs([0, 2]), 1: LogDirs(directories)}
    return seen(Watched(kafka, {"log_dirs": lambda _: told, **instead})).broker(1)


FAILED = LogDir.of("/data/1", None, error=STORAGE_ERROR)
GOOD = LogDir.of("/data/0", {ORDERS[0]: 1000, GONE: 1000}, 100, 40)


def test_a_replica_that_is_in_sync_has_just_not_been_created_yet(kafka):
    """A new topic has all its replicas in the ISR before any of them exists."""
    assert failing(kafka, GOOD, FAILED).offline_replicas == ()
    kafka.partitions[ORDERS[1]].isr = [2, 0]
    assert failing(kafka, GOOD, FAILED).offline_replicas == (ORDERS[1],)


def test_a_replica_that_a_reassignment_adds_or_removes_is_not_on_it(kafka):
    kafka.partitions[ORDERS[1]].isr = [2, 0]
    for flying in (Reassignment((2, 0, 1), (1,), ()), Reassignment((2, 0, 1), (), (1,))):
        moving = {"reassignments": lambda told=flying: {ORDERS[1]: told}}
        assert failing(kafka, GOOD, FAILED, **moving).offline_replicas == ()


def test_a_replica_that_moves_between_disks_is_where_it_was(kafka):
    """KIP-113: the adapter leaves the future replica out, so that the one on the failed disk is missed."""
    kafka.partitions[ORDERS[1]].isr = [2, 0]
    assert failing(kafka, GOOD, LogDir.of("/data/2", {}), FAILED).offline_replicas == (ORDERS[1],)


def test_what_was_on_it_is_not_known_while_another_directory_cannot_be_read(kafka):
    kafka.partitions[ORDERS[1]].isr = [2, 0]
    broker = failing(kafka, GOOD, FAILED, LogDir.of("/data/2", None, error="UNKNOWN"))
    assert broker.offline_replicas is None
    assert on_failed_directory(broker) == frozenset()


def test_what_was_on_it_is_not_known_while_reassignments_are_not(kafka):
    kafka.partitions[ORDERS[1]].isr = [2, 0]
    kafka.unreadable = {"reassignments"}
    assert failing(kafka, GOOD, FAILED).offline_replicas is None


def test_what_was_on_it_is_not_known_while_nothing_decides_its_isr():
    undecided = {"topic": "orders", "partition": 1, "replicas": [1, 0, 2]}
    states = pa.Table.from_pylist([undecided], schema=STATES_SCHEMA)
    told = LogDirs((GOOD, FAILED))
    assert offline_replicas(states, Rows.of(states), {}, 1, told) is None


def test_a_partition_that_nothing_decides_has_no_size():
    undecided = pa.Table.from_pylist([{"topic": "orders", "partition": 0}], schema=STATES_SCHEMA)
    found = tables.columns_at_rest(undecided, Rows.of(undecided), {}, {1: LogDirs((GOOD,))}, None)
    assert found["sizeBytes"].to_pylist() == [None]


def test_an_error_that_is_not_the_disks_makes_no_failed_directory(kafka):
    kafka.partitions[ORDERS[1]].isr = [2, 0]
    broker = failing(kafka, GOOD, LogDir.of("/data/1", None, error="UNKNOWN_SERVER_ERROR"))
    assert broker.offline_replicas == ()
    assert on_failed_directory(broker) == frozenset()


def test_only_the_settings_that_decisions_rest_on_are_asked_for(kafka):
    """Of 10,000 topics, all of them would be the largest answer of an observation."""
    asked: dict[str, Any] = {}

    def topics(wanted, among, names):
        asked["TOPIC"] = names
        return kafka.topic_configs(wanted, among, names)

    def brokers(wanted, names):
        asked["BROKER"] = names
        return kafka.broker_configs(wanted, names)

    snapshot = seen(Watched(kafka, {"topic_configs": topics, "broker_configs": brokers}))
    assert asked == {"TOPIC": tables.TOPIC_CONFIGS, "BROKER": tables.BROKER_CONFIGS}
    assert snapshot.config("BROKER", "1", "default.replication.factor") is not None


def test_of_a_large_cluster_log_starts_are_read_where_groups_have_committed(kafka, monkeypatch):
    kafka.committed = {"billing": {ORDERS[1]: 10}}
    assert {row.log_start for row in rows(seen(kafka)).values()} == {0}
    monkeypatch.setattr(contents, "EVERY_START", 2)
    found = {tp: (row.log_start, row.log_end) for tp, row in rows(seen(kafka)).items()}
    assert found == {ORDERS[0]: (None, 21), ORDERS[1]: (0, 21), GONE: (None, 21)}
    kafka.unreadable = {"groups"}
    assert {row.log_start for row in rows(seen(kafka)).values()} == {0}, "who needs them is not known"
