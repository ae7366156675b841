"""One suite for the simulated Kafka and the real ones, so that the first cannot drift from the others.

Each test is a promise of `kafka_medic.clients.ports` that the engine's decisions rest on.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection, Kafka, PartitionState, PodAddress
from kafka_medic.cluster.groups import GroupMember
from kafka_medic.cluster.snapshot import TopicPartition
from tests.incident.records import commit_offset, create_topic, delete_topic, joined, transaction, write
from tests.simulation.kafka import SimKafka
from tests.testbed import FACTOR_ONE, KafkaDeployment, Shape, faults
from tests.testbed.kafka_settings import CLIENT_PORT, CONTROLLER_PORT
from tests.testbed.steps import granted

FILE = {name: str(value) for name, value in FACTOR_ONE.items()}
"""Every broker's configuration, real or simulated, as far as the contract is about it."""


@dataclass
class Subject:
    """A cluster under contract: `topic` makes one with these replicas and answers its name, `wait` lets time pass."""

    kafka: Kafka
    make: Callable[[str, list[list[int]]], None]
    unmake: Callable[[str], None]
    pass_time: Callable[[], None]
    write: Callable[[str], int]
    commit: Callable[[str, str, int], None]
    """Group, topic, offset of its partition 0."""
    join: Callable[[str, str], contextlib.AbstractContextManager[None]]
    """Group, topic: a member of it that reads, as long as this lasts."""
    transact: Callable[[str, str, int], contextlib.AbstractContextManager[None]]
    """Group, topic, offset: a transaction that is open as long as this lasts, and then has committed it, and a
    record."""
    pod: Callable[[int], PodAddress]
    """Where to ask the Pod of that number which broker it runs."""
    topics: list[str] = field(default_factory=list)

    def topic(self, *assignment: list[int]) -> str:
        name = f"contract-{uuid.uuid4().hex[:8]}"
        self.make(name, list(assignment))
        self.topics.append(name)
        self.until(lambda: self.state(name) is not None and self.state(name).leader >= 0)  # type: ignore[union-attr]
        return name

    def state(self, topic: str, broker: int = 0) -> PartitionState | None:
        view = self.kafka.views([broker])[broker]
        assert isinstance(view, BrokerView)
        return next((p for p in view.partitions if p.topic == topic and p.partition == 0), None)

    def until(self, so: Callable[[], bool], seconds: float = 30) -> None:
        end = granted() + seconds
        while not so():
            assert granted() < end, "it did not come about"
            self.pass_time()


@pytest.fixture(params=["simulated", "kraft", "zookeeper"])
def subject(request: pytest.FixtureRequest, kafka_of: Callable[[Shape], KafkaDeployment]) -> Iterator[Subject]:
    if request.param == "simulated":
        racks, housed = {0: "zone-1", 1: "zone-2", 2: "zone-3"}, {f"10.0.0.{n}": n for n in range(3)}
        sim = SimKafka(racks=racks, files=dict.fromkeys(range(3), FILE), housed=housed)

        def commit(group: str, topic: str, offset: int) -> None:
            sim.committed[group] = {TopicPartition(topic, 0): offset}

        @contextlib.contextmanager
        def join(group: str, _: str) -> Iterator[None]:
            sim.states[group], sim.members_of[group] = "Stable", [GroupMember("contract-reader", "/127.0.0.1")]
            yield
            sim.states[group], sim.members_of[group] = "Empty", []

        @contextlib.contextmanager
        def transact(group: str, topic: str, offset: int) -> Iterator[None]:
            tp = TopicPartition(topic, 0)
            sim.unsettled_of[group], sim.partitions[tp].end = [tp], 1
            yield
            del sim.unsettled_of[group]
            sim.committed[group][tp], sim.partitions[tp].end = offset, 2

        def written(topic: str) -> int:
            if not sim.acknowledges(TopicPartition(topic, 0)):
                return 0
            now = int(time.time() * 1000)
            sim.written_at[TopicPartition(topic, 0)] = dict.fromkeys(range(21), now)
            return 21

        yield Subject(
            sim,
            lambda n, a: sim.topic(n, *a),
            sim.delete,
            sim.tick,
            written,
            commit,
            join,
            transact,
            lambda number: PodAddress(f"10.0.0.{number}", (CLIENT_PORT,), ()),
        )
        return
    deployment = kafka_of(request.param)
    boot = deployment.bootstrap

    def pod(number: int) -> PodAddress:
        ip = faults.pod_address(deployment.namespace, deployment.pod_name(number))
        return PodAddress(ip, (CLIENT_PORT, CONTROLLER_PORT), (deployment.broker_addresses[number],))

    real = RealKafka(Connection(boot))
    subject = Subject(
        real,
        lambda n, a: create_topic(boot, n, a),
        lambda n: delete_topic(boot, n),
        lambda: time.sleep(0.1),
        lambda n: write(boot, n, [str(i) for i in range(21)]),
        lambda group, topic, offset: commit_offset(boot, group, topic, offset),
        lambda group, topic: joined(boot, group, topic, "contract-reader"),
        lambda group, topic, offset: transaction(boot, group, topic, offset),
        pod,
    )
    yield subject
    for topic in subject.topics:
        subject.unmake(topic)
    real.close()
