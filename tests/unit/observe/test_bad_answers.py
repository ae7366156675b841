"""An answer that Kafka would not give is Unknown with its reason: no crash, no finding, nothing raw in a message."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from kafka_medic.clients.answers import Groups, LogDir, LogDirs
from kafka_medic.clients.ports import (
    BrokerView,
    ClusterDescription,
    Node,
    PartitionState,
    Reassignment,
)
from kafka_medic.cluster.elements import group_unread, log_dirs_unread
from kafka_medic.cluster.groups import Committed, GroupOffsets
from kafka_medic.cluster.names import shown
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.memory import DetectorMemory, remember
from kafka_medic.observe.checks import MAX_PARTITION
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from tests.simulation.kafka import SimKafka
from tests.simulation.log_bounds import bounds_table
from tests.unit.observe.test_snapshot import Watched

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ORDERS = TopicPartition("orders", 0)
GOOD = PartitionState("orders", 0, 1, 3, (1, 0, 2), (1, 0, 2), "id-orders")
FACTOR_ONE = Expectations(replication_factor=1, min_in_sync_replicas=1)


@pytest.fixture
def kafka() -> SimKafka:
    kafka = SimKafka()
    kafka.topic("orders", [1, 0, 2])
    kafka.committed = {"billing": {ORDERS: 10}}
    return kafka


def seen(kafka: Any) -> Snapshot:
    snapshot = observe_cluster("c", ClusterReaders(kafka), lambda: NOW)
    memory = remember(DetectorMemory(), snapshot)
    assert diagnose(snapshot, expectations=FACTOR_ONE, memory=memory) == (), "no finding from nonsense"
    return snapshot


def error(snapshot: Snapshot, source: str) -> str:
    found = snapshot.source(source)
    assert found is not None
    assert not found.known
    return found.error or ""


BAD_ROWS = [
    ([replace(GOOD, partition=-1)], "partition -1 of topic orders"),
    ([replace(GOOD, partition=MAX_PARTITION + 1)], f"partition {MAX_PARTITION + 1}"),
    ([GOOD, GOOD], "tells a partition twice: orders-0"),
    ([replace(GOOD, topic="x" * 1_000_000)], "(1000000 characters)"),
    ([replace(GOOD, topic="a\x1b[2Jb")], r"a\x1b[2Jb"),
    ([replace(GOOD, topic="a\x9b2Jb")], r"a\x9b2Jb"),
    ([replace(GOOD, topic="")], "a topic called ''"),
    ([replace(GOOD, topic="x" * 250)], "(250 characters)"),
    ([GOOD, replace(GOOD, topic="orders\n")], r"orders\n"),
    ([replace(GOOD, leader=-7)], "leader -7"),
    ([replace(GOOD, leader_epoch=-2)], "leader epoch -2"),
    ([replace(GOOD, replicas=(1, -4))], "replicas -4"),
    ([replace(GOOD, isr=(1, 1))], "isr name a broker twice"),
]


@pytest.mark.parametrize(("rows", "told"), BAD_ROWS)
def test_one_broker_that_tells_nonsense_is_that_brokers_unknown(kafka, rows, told):
    whole = {b: BrokerView.of(b, (0, 1, 2), None, [GOOD]) for b in (0, 1)}
    answers = {**whole, 2: BrokerView.of(2, (0, 1, 2), None, rows)}
    snapshot = seen(Watched(kafka, {"views": lambda _: answers}))
    why = error(snapshot, "view-2")
    assert told in why
    assert len(why) < 300
    assert why.isprintable()
    assert [r.tp for r in snapshot.rows()] == [ORDERS]
    broker = snapshot.broker(2)
    assert broker is not None
    assert broker.reachable is None, "it has answered, if not as Kafka does"


def test_the_longest_name_that_kafka_takes_is_read(kafka):
    long = replace(GOOD, topic="x" * 249)
    answers = {b: BrokerView.of(b, (0, 1, 2), None, [long]) for b in (0, 1, 2)}
    assert [r.topic for r in seen(Watched(kafka, {"views": lambda _: answers})).rows()] == [long.topic]


def test_all_brokers_telling_nonsense_is_a_cluster_of_which_nothing_is_known(kafka):
    answers = {b: BrokerView.of(b, (0, 1, 2), None, [GOOD, GOOD]) for b in (0, 1, 2)}
    snapshot = seen(Watched(kafka, {"views": lambda _: answers}))
    assert snapshot.partitions is None
    assert "twice" in error(snapshot, "views")


def test_an_epoch_of_minus_one_is_not_known(kafka):
    answers = {b: BrokerView.of(b, (0, 1, 2), None, [replace(GOOD, leader_epoch=-1)]) for b in (0, 1, 2)}
    assert [r.leader_epoch for r in seen(Watched(kafka, {"views": lambda _: answers})).rows()] == [None]


@pytest.mark.parametrize(
    ("method", "answer", "source", "told"),
    [
        ("reassignments", {ORDERS: Reassignment((1, 1), (), ())}, "reassignments", "[1, 1]"),
        ("reassignments", {TopicPartition("o\n", 0): Reassignment((1,), (), ())}, "reassignments", r"o\n"),
        ("groups", Groups([GroupOffsets("g", None, {}), GroupOffsets("g", None, {})]), "groups", "reported twice"),
        (
            "describe_cluster",
            ClusterDescription("x", (Node(1, "a", 1, None), Node(1, "b", 1, None)), None),
            "kafka",
            "[1, 1]",
        ),
    ],
)
def test_a_bad_answer_takes_its_source_along_and_no_other(kafka, method, answer, source, told):
    snapshot = observe_cluster("c", ClusterReaders(Watched(kafka, {method: lambda *_: answer})), lambda: NOW)
    assert told in error(snapshot, source)
    if source != "kafka":
        assert [s.name for s in snapshot.sources if not s.known] == [source]
        assert diagnose(snapshot, expectations=FACTOR_ONE) == ()


FINE = LogDirs((LogDir.of("/data", {}, 100, 50),))


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (LogDirs((LogDir.of("/data", {ORDERS: -1}),)), "-1 bytes"),
        (LogDirs((LogDir.of("/data", {}, None, 1 << 63),)), "bytes free"),
        (LogDirs((LogDir.of("/data", {}, -5),)), "-5 bytes in all"),
        (LogDirs((LogDir.of("/data", {}), LogDir.of("/data", {}))), "a log directory twice"),
        (LogDirs((LogDir("/data", pa.concat_tables([LogDir.of("", {ORDERS: 1}).replicas] * 2)),)), "a replica of one"),
    ],
)
def test_directories_that_cannot_be_are_that_brokers_unknown(kafka, bad, told):
    answers = {0: FINE, 1: bad, 2: FINE}
    snapshot = seen(Watched(kafka, {"log_dirs": lambda _: answers}))
    assert partly(snapshot, "log-dirs").startswith("broker 1: ")
    assert told in (log_dirs_unread(snapshot, 1) or "")
    assert [b.disk_free for b in snapshot.brokers or ()] == [50, None, 50]
    assert [b.directories is None for b in snapshot.brokers or ()] == [False, True, False]


@pytest.mark.parametrize("bounds", [(5, 3), (-4, 3)])
def test_log_ends_that_cannot_be_are_that_leaders_unknown(kafka, bounds):
    kafka.topic("payments", [2, 0])
    payments = TopicPartition("payments", 0)
    answers = {1: bounds_table({ORDERS: bounds}), 2: bounds_table({payments: (0, 21)})}
    snapshot = seen(Watched(kafka, {"log_bounds": lambda *_: answers}))
    assert f"begins at offset {bounds[0]}" in partly(snapshot, "log-ends")
    assert {r.tp: r.log_end for r in snapshot.rows()} == {ORDERS: None, payments: 21}


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (GroupOffsets("g\x07", "Stable", {ORDERS: Committed(-3)}), r"group g\x07 committed -3"),
        (GroupOffsets("g\x07", None, {TopicPartition("orders", -1): Committed(3)}), "partition -1"),
    ],
)
def test_offsets_that_cannot_be_are_that_groups_unknown(kafka, bad, told):
    good = GroupOffsets("billing", "Empty", {ORDERS: Committed(10)})
    snapshot = seen(Watched(kafka, {"groups": lambda *_: Groups([good, bad])}))
    assert told in partly(snapshot, "groups")
    assert told in (group_unread(snapshot, "g\x07") or "")
    assert group_unread(snapshot, "billing") is None
    assert snapshot.groups.to_pylist()[0]["committed"] == 10
    assert snapshot.groups.num_rows == 1


def partly(snapshot: Snapshot, name: str) -> str:
    """What a source that is known could not report."""
    found = snapshot.source(name)
    assert found is not None
    assert found.known
    return found.error or ""


def test_names_are_shown_short_and_without_control_characters():
    assert shown("\x1b]0;evil\x07\u202e") == r"\x1b]0;evil\x07\u202e"
    assert len(shown("x" * 10**6)) < 100
