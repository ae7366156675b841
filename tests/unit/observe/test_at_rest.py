"""At rest, what was worked out from the same answers is kept. Whatever changes is seen in the next observation."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kafka_medic.clients.answers import LogDir, LogDirs
from kafka_medic.clients.ports import Reassignment
from kafka_medic.cluster.min_isr import MIN_ISR
from kafka_medic.cluster.snapshot import ConfigValue, Snapshot, TopicPartition
from kafka_medic.observe.at_rest import KEPT_SECONDS, AtRest, Same
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from kafka_medic.observe.view_reads import ViewRotation
from tests.simulation.kafka import SimKafka
from tests.unit.observe.test_snapshot import Watched

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TP = TopicPartition("orders", 0)


@pytest.fixture
def kafka() -> SimKafka:
    kafka = SimKafka(racks=dict.fromkeys(range(3)))
    kafka.topic("orders", [1, 0, 2], [2, 1, 0])
    return kafka


class Observer:
    """Observes one cluster again and again, and keeps what an operator keeps."""

    def __init__(self, kafka: SimKafka) -> None:
        self.kafka = Watched(kafka)
        self.kept, self.rotation = AtRest(resting=True), ViewRotation()

    def look(self, seconds: float = 1.0) -> Snapshot:
        self.kept.now += seconds
        readers: Any = ClusterReaders(self.kafka)  # type: ignore[arg-type]
        return observe_cluster("c", readers, lambda: NOW, self.rotation, at_rest=self.kept)

    def fresh(self) -> Snapshot:
        return observe_cluster("c", ClusterReaders(self.kafka), lambda: NOW)  # type: ignore[arg-type]


def same(one: Snapshot, other: Snapshot) -> bool:
    return one.partitions.equals(other.partitions) and one.configs.equals(other.configs)


def test_the_same_answers_are_worked_out_once(kafka):
    observer = Observer(kafka)
    first, second = observer.look(), observer.look()
    assert second.configs is first.configs
    assert second.partitions["sizeBytes"].chunk(0).buffers()[1].address == (
        first.partitions["sizeBytes"].chunk(0).buffers()[1].address
    )
    assert same(second, observer.fresh())


def test_log_ends_are_of_this_observation(kafka):
    observer = Observer(kafka)
    observer.look()
    kafka.partitions[TP].end += 5
    assert same(observer.look(), observer.fresh())


def test_a_reassignment_that_begins_and_ends_is_seen(kafka):
    observer = Observer(kafka)
    observer.look()
    observer.kafka.instead["reassignments"] = lambda: {TP: Reassignment((1, 0, 2), (2,), (0,))}
    moving = observer.look()
    assert moving.partitions["adding"].to_pylist()[0] == [2]
    assert same(moving, observer.fresh())
    del observer.kafka.instead["reassignments"]
    at_rest = observer.look()
    assert at_rest.partitions["adding"].to_pylist()[0] == []
    assert same(at_rest, observer.fresh())


def test_reassignments_that_cannot_be_read_are_not_those_of_before(kafka):
    observer = Observer(kafka)
    observer.look()
    kafka.unreadable = {"reassignments"}
    assert observer.look().partitions["adding"].null_count == 2


def test_a_leader_that_changed_is_seen(kafka):
    observer = Observer(kafka)
    observer.look()
    part = kafka.partitions[TP]
    part.leader, part.epoch = 0, part.epoch + 1
    found = observer.look()
    assert found.partitions["leader"].to_pylist()[0] == 0
    assert same(found, observer.fresh())


def test_what_was_read_again_is_worked_out_again(kafka):
    observer = Observer(kafka)
    before = observer.look()
    settings = {"orders": {MIN_ISR: ConfigValue("3", dynamic=True)}}
    observer.kafka.instead["topic_configs"] = lambda *_: settings
    told = {b: LogDirs((LogDir.of("/data", {TP: 77 + b}),)) for b in range(3)}
    observer.kafka.instead["log_dirs"] = lambda _: told
    assert observer.look().configs is before.configs, "within the time for which settings count"
    after = observer.look(KEPT_SECONDS)
    assert after.partitions["minIsr"].to_pylist() == [3, 3]
    assert after.partitions["sizeBytes"].to_pylist()[0] == 77 + 1
    assert same(after, observer.fresh())


def test_while_something_acts_nothing_is_kept(kafka):
    observer = Observer(kafka)
    first = observer.look()
    observer.kept.resting = False
    assert observer.look().configs is not first.configs


def test_only_the_very_same_inputs_have_the_same_result():
    kept, one, equal = Same[int](), [1], [1]
    results = iter(range(10))
    assert kept.of(lambda: next(results), one, None) == 0
    assert kept.of(lambda: next(results), one, None) == 0
    assert kept.of(lambda: next(results), equal, None) == 1, "equal, but another object"
    assert kept.of(lambda: next(results), one, None) == 2, "only the last one is kept"
    assert kept.of(lambda: next(results), one) == 3
    assert replace(kept).of(lambda: next(results), one) == 3
