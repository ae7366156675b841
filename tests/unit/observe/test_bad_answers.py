"""An answer that Kafka would not give is Unknown with its reason: no crash, no finding, nothing raw in a message."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kafka_medic.clients.ports import (
    BrokerView,
    ClusterDescription,
    LogDirs,
    Node,
    PartitionState,
    Reassignment,
)
from kafka_medic.cluster.groups import Committed, GroupOffsets
from kafka_medic.cluster.names import shown
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.memory import Memory, remember
from kafka_medic.observe.checks import MAX_PARTITION
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from tests.simulation.kafka import SimKafka
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
    memory = remember(Memory(), snapshot)
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
        ("log_bounds", {1: {ORDERS: (5, 3)}}, "log-ends", "begins at offset 5 and ends at 3"),
        ("log_bounds", {1: {ORDERS: (-4, 3)}}, "log-ends", "begins at offset -4"),
        ("log_dirs", {1: LogDirs({ORDERS: -1})}, "log-dirs", "-1 bytes"),
        ("log_dirs", {1: LogDirs({}, 1 << 63)}, "log-dirs", "bytes are free"),
        ("reassignments", {ORDERS: Reassignment((1, 1), (), ())}, "reassignments", "[1, 1]"),
        ("reassignments", {TopicPartition("o\n", 0): Reassignment((1,), (), ())}, "reassignments", r"o\n"),
        ("groups", [GroupOffsets("g\x07", "Stable", {ORDERS: Committed(-3)})], "groups", r"group g\x07 committed -3"),
        ("groups", [GroupOffsets("g", None, {}), GroupOffsets("g", None, {})], "groups", "told twice"),
        ("groups", [GroupOffsets("g", None, {TopicPartition("orders", -1): Committed(3)})], "groups", "partition -1"),
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


def test_names_are_shown_short_and_without_control_characters():
    assert shown("\x1b]0;evil\x07\u202e") == r"\x1b]0;evil\x07\u202e"
    assert len(shown("x" * 10**6)) < 100
