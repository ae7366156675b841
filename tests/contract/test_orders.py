"""Stub brokers and a real KRaft cluster do the same when they are ordered to move, to elect and to set."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from kafka_medic.clients.failures import WriteFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, ConfigChange, Connection, NewTopic, Reassignment
from kafka_medic.cluster.snapshot import ConfigValue, TopicPartition
from tests.contract.given import by_hand
from tests.incident.records import delete_topic, write
from tests.stub_cluster import running
from tests.testbed import KafkaDeployment, Shape, wait_for

LIST, RATE = "follower.replication.throttled.replicas", "follower.replication.throttled.rate"
RECORDS, CHARACTERS = 10, 500_000
"""More than one fetch brings (replica.fetch.max.bytes)."""
State = tuple[int, int | None, tuple[int, ...], set[int]]
"""Leader, leader epoch, replicas and ISR."""


class Ordered:
    """A topic of one partition. Whichever broker is asked, it may hear of a change a moment later."""

    def __init__(self, kafka: RealKafka, replicas: Sequence[int]) -> None:
        self.kafka = kafka
        self.name = f"ordered-{uuid.uuid4().hex[:8]}"
        self.tp = TopicPartition(self.name, 0)
        kafka.create_topic(NewTopic(self.name, (tuple(replicas),), {}))

    def is_(self, *wanted: State) -> None:
        (state,) = wanted
        for broker in (0, 1, 2):
            wait_for(f"{state} at broker {broker}", lambda b=broker: self.seen(b) == state, 30)  # type: ignore[misc]

    def seen(self, broker: int) -> State | None:
        view = self.kafka.slices({broker: [self.name]})[broker]
        if not isinstance(view, BrokerView):
            return None
        found = [p for p in view.partitions if p.topic == self.name]
        return (found[0].leader, found[0].leader_epoch, found[0].replicas, set(found[0].isr)) if found else None

    def reassign(self, *replicas: int) -> None:
        assert self.kafka.alter_reassignments({self.tp: replicas}) == {}


@dataclass
class Subject:
    """`hold`: from now on no replica that is added to this topic catches up."""

    kafka: RealKafka
    hold: Callable[[str], None]
    delete: Callable[[str], None]


@pytest.fixture(scope="module", params=["stub", "kraft"])
def subject(request: pytest.FixtureRequest, kafka_of: Callable[[Shape], KafkaDeployment]) -> Iterator[Subject]:
    if request.param == "stub":
        with running(by_hand()) as stub:
            stub.pace(0.5, 0.5)
            client = RealKafka(Connection(stub.cluster.bootstrap))
            yield Subject(client, lambda _: stub.pace(None, None), lambda _: stub.pace(0.5, 0.5))
            client.close()
        return
    boot = kafka_of("kraft").bootstrap
    client = RealKafka(Connection(boot))

    def rates(value: str | None) -> None:
        client.alter_configs([ConfigChange("BROKER", str(broker), RATE, value) for broker in (0, 1, 2)])

    def hold(topic: str) -> None:
        assert write(boot, topic, ["x" * CHARACTERS] * RECORDS) == RECORDS
        client.alter_configs([ConfigChange("TOPIC", topic, LIST, "*")])
        rates("1")

    def delete(topic: str) -> None:
        rates(None)
        delete_topic(boot, topic)

    yield Subject(client, hold, delete)
    client.close()


@pytest.fixture
def ordered(subject: Subject) -> Iterator[Callable[..., Ordered]]:
    made: list[Ordered] = []

    def begin(*replicas: int) -> Ordered:
        made.append(Ordered(subject.kafka, replicas))
        return made[-1]

    yield begin
    for one in made:
        subject.delete(one.name)


def test_a_replica_is_added_under_the_same_epoch(ordered: Callable[..., Ordered]) -> None:
    topic = ordered(1)
    topic.is_((1, 0, (1,), {1}))
    topic.reassign(1, 2, 0)
    topic.is_((1, 0, (1, 2, 0), {0, 1, 2}))
    assert topic.tp not in topic.kafka.reassignments()


def test_what_is_cancelled_leaves_the_replicas_of_before_in_another_epoch(
    ordered: Callable[..., Ordered], subject: Subject
) -> None:
    topic = ordered(1)
    subject.hold(topic.name)
    topic.reassign(1, 2)
    topic.is_((1, 0, (1, 2), {1}))
    assert topic.kafka.reassignments()[topic.tp] == Reassignment((1, 2), (2,), ())
    assert topic.kafka.alter_reassignments({topic.tp: None}) == {}
    topic.is_((1, 1, (1,), {1}))
    assert topic.tp not in topic.kafka.reassignments()


def test_another_target_while_a_replica_is_added(ordered: Callable[..., Ordered], subject: Subject) -> None:
    topic = ordered(1)
    subject.hold(topic.name)
    topic.reassign(1, 2)
    topic.reassign(2, 1, 0)
    topic.is_((1, 0, (2, 1, 0), {1}))
    # What the first order added counts as present, in sync or not.
    assert topic.kafka.reassignments()[topic.tp] == Reassignment((2, 1, 0), (0,), ())
    assert topic.kafka.alter_reassignments({topic.tp: None}) == {}
    topic.is_((1, 1, (2, 1), {1}))


def test_a_follower_is_removed_in_another_epoch(ordered: Callable[..., Ordered]) -> None:
    topic = ordered(1, 0)
    topic.reassign(1)
    topic.is_((1, 1, (1,), {1}))


def test_who_leads_and_is_removed_is_succeeded(ordered: Callable[..., Ordered]) -> None:
    topic = ordered(1, 0)
    topic.reassign(2)
    topic.is_((2, 1, (2,), {2}))


def test_another_order_moves_no_leader_until_it_is_elected(ordered: Callable[..., Ordered]) -> None:
    topic = ordered(1, 0)
    topic.reassign(0, 1)
    topic.is_((1, 0, (0, 1), {0, 1}))
    assert topic.kafka.elect_preferred([topic.tp]) == {}
    topic.is_((0, 1, (0, 1), {0, 1}))
    assert topic.kafka.elect_preferred([topic.tp]) == {}, "not needed"
    topic.is_((0, 1, (0, 1), {0, 1}))


def test_what_is_refused_is_refused_by_the_same_name(ordered: Callable[..., Ordered]) -> None:
    topic, nobodys = ordered(1), TopicPartition(f"nobodys-{uuid.uuid4().hex[:8]}", 0)
    for wrong in ((), (1, 1), (1, 77)):
        told = topic.kafka.alter_reassignments({topic.tp: wrong, nobodys: [1]})
        assert told == {topic.tp: "InvalidReplicationAssignmentError", nobodys: "UnknownTopicOrPartitionError"}
    assert topic.kafka.elect_preferred([nobodys]) == {nobodys: "UnknownTopicOrPartitionError"}
    assert topic.kafka.alter_reassignments({topic.tp: None}) == {}, "there is none, as was wanted"


def test_settings_are_set_and_removed(ordered: Callable[..., Ordered]) -> None:
    topic = ordered(1)
    kafka = topic.kafka

    def change(list_: str | None, rate: str | None) -> None:
        kafka.alter_configs([ConfigChange("TOPIC", topic.name, LIST, list_), ConfigChange("BROKER", "2", RATE, rate)])

    def told() -> tuple[object, object]:
        own = kafka.broker_configs([2], [RATE])[2]
        assert isinstance(own, dict)
        rate = own.get(RATE)
        return kafka.topic_configs([topic.name], names=[LIST])[topic.name], rate if rate and rate.dynamic else None

    change("0:2", "1000")
    wait_for("both settings", lambda: told() == ({LIST: ConfigValue("0:2", True)}, ConfigValue("1000", True)), 30)
    change(None, None)
    wait_for("neither", lambda: told() == ({LIST: ConfigValue("", False)}, None), 30)
    with pytest.raises(WriteFailed):
        kafka.alter_configs([ConfigChange("TOPIC", topic.name, "no.such.setting", "1")])
