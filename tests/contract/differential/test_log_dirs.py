"""Moves between the log directories of one broker (KIP-113), on a real broker of each kind and on the simulated one.

What DescribeLogDirs and AlterReplicaLogDirs answer before, during and after a move, when it is cancelled, and when the
broker restarts in the middle."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kafka_medic.clients.answers import LogDir, LogDirs, sizes_of
from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import ConfigChange, Connection, Kafka
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.diagnose.moves import LOG_DIR_RATE
from tests.incident.records import create_topic, write
from tests.simulation.kafka import SimKafka
from tests.testbed import FACTOR_ONE
from tests.testbed.kafka_processes import KafkaProcesses, in_a_network_apart
from tests.testbed.kafka_settings import Shape
from tests.testbed.steps import wait_for

TP, NOBODYS = TopicPartition("moving", 0), TopicPartition("nobodys", 0)
SLOW, SECONDS = "20000", 60.0
BYTES, RECORDS = 10_000, 200
"""Together 2 MB, which takes 100 s at the slow rate."""


@dataclass
class Subject:
    """`rest`: lets time pass; `restart`: the broker goes and comes."""

    kafka: Kafka
    paths: tuple[str, str]
    restart: Callable[[], None]
    rest: Callable[[], object]

    def directories(self) -> dict[str, LogDir]:
        told = self.kafka.log_dirs([0])[0]
        assert isinstance(told, LogDirs)
        return {d.path: d for d in told.directories}

    def stands(self) -> tuple[str | None, str | None]:
        """Where the replica is, and where it is to be."""
        current, future = self.listing()
        assert len(current) <= 1 >= len(future)
        return next(iter(current), None), next(iter(future), None)

    def listing(self) -> tuple[list[str], list[str]]:
        """The directories that list the replica, and those that list a copy of it."""
        found = self.directories()
        current = [path for path, d in found.items() if TP in (d.sizes or {})]
        return current, [path for path, d in found.items() if TP in sizes_of(d.future)]

    def until(self, stands: tuple[str | None, str | None]) -> None:
        def so() -> bool:
            self.rest()
            # A broker's answer is no snapshot: while the copy takes the replica's place, both directories list it.
            with contextlib.suppress(ReadFailed):
                return self.listing() == tuple([path] if path else [] for path in stands)
            return False

        wait_for(f"{stands}", so, SECONDS, every=0.05)

    def rate(self, value: str | None) -> None:
        self.kafka.alter_configs([ConfigChange("BROKER", "0", LOG_DIR_RATE, value)])


def simulated() -> Subject:
    kafka = SimKafka(racks={0: None})
    kafka.volumes = {0: (10**9, 10**9)}
    kafka.topic(TP.topic, [0], size=BYTES * RECORDS)

    def restart() -> None:
        kafka.stop(0)
        kafka.start(0)

    def rest() -> None:
        kafka.ticks_of_a_copy = 1_000_000 if ("BROKER", "0", LOG_DIR_RATE) in kafka.dynamic else 2
        kafka.tick()

    return Subject(kafka, ("/data/0", "/data/1"), restart, rest)


@pytest.fixture(params=["simulated", "kraft", "zookeeper"])
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    if request.param == "simulated":
        yield simulated()
        return
    if not in_a_network_apart():
        pytest.skip("needs a network of its own, as the testbed's")
    shape: Shape = request.param
    processes = KafkaProcesses(shape, FACTOR_ONE, brokers=1, disks=2)
    kafka: Any = RealKafka(Connection(processes.bootstrap))

    def restart() -> None:
        processes.stop(0)
        processes.start(0)

    try:
        create_topic(processes.bootstrap, TP.topic, [[0]])
        write(processes.bootstrap, TP.topic, ["x" * BYTES] * RECORDS)
        kafka.describe_cluster()
        one, two = map(str, processes.log_dirs(0))
        yield Subject(kafka, (one, two), restart, lambda: None)
    finally:
        kafka.close()
        processes.close()


def test_a_replica_moves_is_cancelled_goes_on_after_a_restart_and_is_refused_elsewhere(subject: Subject) -> None:
    kafka = subject.kafka
    here, _ = subject.stands()
    assert here in subject.paths
    there = next(path for path in subject.paths if path != here)
    size = (subject.directories()[here].sizes or {})[TP]
    assert size >= BYTES * RECORDS
    assert all(d.total and d.usable for d in subject.directories().values()), "KIP-827"

    subject.rate(SLOW)
    assert kafka.alter_log_dirs(0, {TP: there}) == {}
    subject.until((here, there))
    assert sizes_of(subject.directories()[there].future)[TP] < size, "it is copied at the rate that was set"
    assert kafka.alter_log_dirs(0, {TP: there}) == {}, "sent twice, it is as sent once"
    assert subject.stands() == (here, there)

    assert kafka.alter_log_dirs(0, {TP: here}) == {}, "the directory in which it is cancels the move"
    subject.until((here, None))

    assert kafka.alter_log_dirs(0, {TP: there}) == {}
    subject.until((here, there))
    subject.restart()
    subject.until((here, there))
    subject.rate(None)
    subject.until((there, None))
    assert (subject.directories()[there].sizes or {})[TP] == size

    assert kafka.alter_log_dirs(0, {TP: "/no/such/directory"}) == {TP: "LogDirNotFoundError"}
    assert set(kafka.alter_log_dirs(0, {NOBODYS: there, TP: there})) == {NOBODYS}
    assert subject.stands() == (there, None)
