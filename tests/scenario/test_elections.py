"""Preferred leaders are elected in batches, and never on a broker that does not answer."""

from __future__ import annotations

import pytest

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import BrokerView
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources import remediation_plan
from tests.simulation.deaths import Interrupted
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World
from tests.thorough import only, thorough

PARTITIONS = 60


class Elections(SimKafka):
    """Remembers what each request named, lets some leaders be slow to serve, and some brokers hang though they are
    registered and in the ISR."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[list[TopicPartition]] = []
        self.mute: set[int] = set()
        self.hanging: set[int] = set()

    def elect_preferred(self, partitions):
        self.requests.append(list(partitions))
        return super().elect_preferred(partitions)

    def views(self, brokers):
        return {b: self._hangs(b) or view for b, view in super().views(brokers).items()}

    def memberships(self, brokers):
        return {b: self._hangs(b) or view for b, view in super().memberships(brokers).items()}

    def _hangs(self, broker: int) -> ReadFailed | None:
        return ReadFailed(FailureKind.UNREACHABLE, f"broker {broker}: no answer") if broker in self.hanging else None

    def away(self) -> list[TopicPartition]:
        return [tp for tp, p in self.partitions.items() if p.leader != p.replicas[0]]


@pytest.fixture
def world() -> World:
    """Broker 1 is back, and leads nothing."""
    kafka = Elections()
    kafka.topic("orders", *([[1, 2, 0]] * PARTITIONS))
    kafka.topic("payments", *([[2, 0, 1]] * 20))
    kafka.topic("audit", *([[0, 1, 2]] * 20))
    for topic in ("orders", "payments", "audit"):
        kafka.dynamic["TOPIC", topic, "min.insync.replicas"] = "2"
    world = World(kafka)
    world.install(remediation={"limits": {"cooldown": "0s"}})
    kafka.stop(1)
    kafka.start(1)
    for _ in range(200):
        kafka.tick()
    return world


def kafka_of(world: World) -> Elections:
    assert isinstance(world.kafka, Elections)
    return world.kafka


def approved(world: World) -> World:
    world.approve(world.until_phase("AwaitingApproval"))
    return world


def watched(world: World, seconds: float = 1.0) -> None:
    world.to_the_end(reconciles=200, seconds=seconds)


def test_elections_are_sent_in_growing_batches(world):
    approved(world)
    plan = world.run().status.plan
    assert world.run().spec.playbook.name == "elect-preferred-leaders"
    assert [(e.broker, e.topic, len(e.partitions)) for e in plan.part(remediation_plan.Elections).elections] == [
        (1, "orders", PARTITIONS)
    ]
    assert "broker 1: 60 partitions of orders" in plan.summary
    watched(world)
    assert world.run().status.phase == "Succeeded", world.run().status.message
    kafka = kafka_of(world)
    assert not kafka.away()
    assert [len(r) for r in kafka.requests] == [50, 10]
    assert len(set().union(*kafka.requests)) == PARTITIONS, "each once"


def test_the_plan_says_what_kafkas_own_rebalancing_does(world):
    kafka_of(world).dynamic["BROKER", "1", "auto.leader.rebalance.enable"] = "true"
    plan = world.until_phase("AwaitingApproval").status.plan
    assert "auto.leader.rebalance.enable is on (broker 1)" in plan.summary
    assert "The run does not repeat what Kafka has already elected" in plan.summary


@thorough
def test_a_parameter_makes_the_first_batch_small(world):
    world.ask("elect-preferred-leaders", batchSize="4")
    approved(world)
    watched(world)
    assert [len(r) for r in kafka_of(world).requests] == [4, 8, 16, 32]


@thorough
def test_the_next_batch_waits_until_leaders_serve(world):
    """The next batch waits until the elected leaders serve, and the run reports what it waits for."""
    world.ask("elect-preferred-leaders", batchSize="4")
    approved(world)
    kafka = kafka_of(world)
    kafka.mute = {1}
    for _ in range(40):
        world.step(1.0)
    assert [len(r) for r in kafka.requests] == [4]
    run = world.run()
    assert run.status.phase == "Paused"
    assert "not yet serving: 4 of 4 partitions of the last batch: orders-0" in run.status.message
    assert "limit 10s" in run.status.message
    kafka.mute = set()
    watched(world)
    assert [len(r) for r in kafka.requests][:3] == [4, 2, 4], "a slow batch makes the next one smaller"
    assert world.run().status.phase == "Succeeded"


def test_observations_of_many_partitions_are_spaced(world):
    """A look costs the brokers as well, for each partition: those of a large cluster serve their clients meanwhile."""
    approved(world)
    operator = world.operator()
    assert operator.reconcile() <= 0.2, "of 140 partitions"
    kafka_of(world).topic("large", *([[2, 0, 1]] * 4000))
    assert 0.2 <= operator.reconcile() < 0.4


@thorough
def test_no_election_on_a_hung_broker(world):
    approved(world)
    kafka = kafka_of(world)
    kafka.hanging = {1}  # registered and in the ISR as long as its session lasts: Kafka itself would elect it
    for _ in range(20):
        world.step()
    assert kafka.requests == []
    assert any(w.guard == "FitToReceive" for w in world.run().status.waiting_for), world.run().status
    kafka.hanging = set()
    watched(world)
    assert world.run().status.phase == "Succeeded"


def test_no_election_on_a_broker_that_just_stopped(world):
    """A broker stops answering between the observation and the request. No election is sent for it."""
    approved(world)
    kafka = kafka_of(world)
    plain = kafka.memberships
    kafka.memberships = lambda brokers: plain(brokers) | {1: ReadFailed(FailureKind.UNREACHABLE, "broker 1")}
    for _ in range(10):
        world.step()
    assert kafka.requests == []
    kafka.memberships = plain
    watched(world)
    assert not kafka.away()


@thorough
def test_the_run_waits_for_a_replica_that_catches_up(world):
    approved(world)
    kafka = kafka_of(world)
    kafka.copies_per_tick = 0
    kafka.partitions[TopicPartition("audit", 3)].isr.remove(1)
    for _ in range(10):
        world.step()
    assert kafka.requests == []
    assert any("still catching up: broker 1" in w.message for w in world.run().status.waiting_for)
    kafka.copies_per_tick = 2
    watched(world)
    assert not kafka.away()


def test_a_changed_preference_voids_the_plan(world):
    approved(world)
    kafka = kafka_of(world)
    kafka.partitions[TopicPartition("orders", 7)].replicas = [2, 1, 0]
    for _ in range(8):
        world.step(60)
    first = world.runs()[0]
    assert first.status.phase in ("Planning", "AwaitingApproval", "Superseded"), first.status.message
    assert kafka.requests == []


def test_a_deleted_topic_is_left_out(world):
    world.ask("elect-preferred-leaders", batchSize="4")
    approved(world)
    kafka = kafka_of(world)
    world.until(lambda: len(kafka.requests) == 1)
    kafka.delete("orders")
    watched(world)
    assert world.runs()[0].status.phase == "Succeeded"


DEATHS = [(number, moment) for number in range(4) for moment in ("before", "after")]


@pytest.mark.parametrize(("number", "moment"), only([1], DEATHS))
def test_killed_at_an_election(world, number, moment):
    world.ask("elect-preferred-leaders", batchSize="8")
    approved(world)
    kafka = kafka_of(world)
    world.wrap_kafka = lambda inner: Interrupted(inner, ("elect_preferred",), number, moment)
    world.operator()
    assert world.to_the_end(seconds=1.0) == 1
    assert world.runs()[0].status.phase == "Succeeded"
    assert not kafka.away()
    once = [tp for request in kafka.requests for tp in request]
    assert len(once) == len(set(once)), "nothing is elected twice"


def test_a_view_is_what_its_broker_reports(world):
    assert isinstance(kafka_of(world).memberships([1])[1], BrokerView)
