"""Restarts with drainFirst: a broker goes while it leads nothing, and leads everything again before the next goes."""

from __future__ import annotations

from functools import cache

import pytest

from kafka_medic.clients.failures import FailureKind, WriteFailed
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import Restarts
from tests.scenario.test_restarts import paused, watched
from tests.simulation.deaths import Interrupted
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BROKERS, NO_ELECTIONS, World
from tests.thorough import only, thorough

ORDERS = ([0, 1, 2], [1, 2, 0], [2, 0, 1])
TWICE = {TopicPartition("orders", 1): [1, 2, 0], TopicPartition("__consumer_offsets", 0): [1, 0, 2]}
"""What broker 1, the first to be restarted, leads."""


def asked(playbook: str = "rolling-restart", **parameters: str) -> World:
    kafka = SimKafka()
    kafka.topic("orders", *ORDERS)
    kafka.topic("__consumer_offsets", [1, 0, 2])
    for topic in ("orders", "__consumer_offsets"):
        kafka.dynamic["TOPIC", topic, "min.insync.replicas"] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation={"limits": {"cooldown": "0s"}, **NO_ELECTIONS})
    world.with_pods()
    world.ask(playbook, drainFirst="true", **parameters)
    return world


def approved(world: World) -> World:
    world.approve(world.until_phase("AwaitingApproval"))
    return world


def leaders(world: World) -> dict[TopicPartition, int]:
    return {tp: p.leader for tp, p in world.kafka.partitions.items()}


def orders(world: World) -> dict[TopicPartition, list[int]]:
    return {tp: list(p.replicas) for tp, p in world.kafka.partitions.items()}


def led_when_evicted(world: World) -> list[tuple[int, int]]:
    """Filled as brokers are evicted: each with how much it leads at that moment."""
    found: list[tuple[int, int]] = []
    pods, evict = world.pods, world.pods.evict

    def told(name: str) -> None:
        broker = int(name.rpartition("-")[2])
        found.append((broker, sum(p.leader == broker for p in world.kafka.partitions.values())))
        evict(name)

    pods.api.evicted = told
    return found


def held(world: World) -> bool:
    return bool(world.run().status.restore_owed) and bool(world.run().metadata.finalizers)


def test_brokers_are_drained_before_their_restart():
    """Each broker leads nothing when it restarts, and leads everything again before the next broker restarts."""
    world = asked(brokers="1,2")
    before, at = orders(world), leaders(world)
    evicted = led_when_evicted(world)
    plan = world.until_phase("AwaitingApproval").status.plan
    one = [d for d in plan.part(Restarts).drains if d.broker == 1]
    assert {TopicPartition(d.topic, p): list(d.replicas_before) for d in one for p in d.partitions} == TWICE
    assert all(d.replicas[0] != 1 and d.replicas[-1] == 1 for d in one)
    assert sorted(d.replicas[0] for d in one) == [0, 2], "spread over the others"
    assert "first 2 leaderships of it: 1 to broker 0, 1 to broker 2; afterwards 2 return" in plan.summary
    approved(world)
    watched(world)
    assert world.run().status.phase == "Succeeded", world.run().status.message
    assert evicted == [(1, 0), (2, 0)]
    assert (orders(world), leaders(world)) == (before, at)
    assert not world.run().status.restore_owed
    assert all(e.state == "Done" for e in journal(world))
    assert [e.id.removeprefix("restart-brokers/") for e in journal(world)][:5] == [
        "order-away-1", "elect-away-1-0", "restart-1", "order-back-1", "elect-back-1-0",
    ]  # fmt: skip


WRITES = ("alter_reassignments", "elect_preferred")


DEATHS = [(nth, when) for nth in range(4) for when in ("before", "after")]


@thorough
@pytest.mark.parametrize(("nth", "when"), only([4], DEATHS))
def test_killed_at_each_write_to_kafka(nth: int, when: str):
    """Order away, leaders away, order back, leaders back, each once."""
    world = asked("restart-broker", brokers="1")
    before, at = orders(world), leaders(world)
    world.approve(world.until_phase("AwaitingApproval"))
    world.wrap_kafka = lambda kafka: Interrupted(kafka, WRITES, nth, when)
    world.operator()
    assert watched(world) == 1
    assert world.run().status.phase == "Succeeded", world.run().status.message
    assert (orders(world), leaders(world)) == (before, at)
    assert world.pods.restarts == [1]
    assert [w.partition(" ")[0] for w in world.kafka.writes] == ["reassign", "elect", "reassign", "elect"]


def approved_restart(fatal: int | None) -> tuple[World, Interrupted]:
    """One broker's restart with drainFirst, approved, by an operator that dies at this write to the API server."""
    world = asked("restart-broker", brokers="1")
    world.approve(world.until_phase("AwaitingApproval"))
    api = Interrupted(world.api, ("create", "replace"), fatal, "before")
    world.wrap_api = lambda _: api
    world.operator()
    return world, api


@cache
def writes_to_the_api_server() -> int:
    """Of the same run when nobody kills the operator."""
    world, api = approved_restart(None)
    watched(world)
    return api.count


@thorough
@pytest.mark.parametrize("part", range(28))
def test_killed_at_writes_to_the_api_server(part: int):
    world, _ = approved_restart(part * writes_to_the_api_server() // 28)
    before, at = orders(world), leaders(world)
    assert watched(world) == 1
    assert world.run().status.phase == "Succeeded", world.run().status.message
    assert (orders(world), leaders(world)) == (before, at)
    assert world.pods.restarts == [1]


AT = {
    "the order is away": lambda world: any(p.replicas[-1] == 1 != p.replicas[0] for p in parts(world)),
    "nobody is led by it": lambda world: 1 not in leaders(world).values(),
    "its Pod has gone": lambda world: world.pods.restarts == [1],
    "it is back": lambda world: world.pods.restarts == [1] and 1 in world.kafka.up,
}


def parts(world: World):
    return [world.kafka.partitions[tp] for tp in TWICE]


@pytest.mark.parametrize("moment", only([2], AT))
def test_a_reject_restores_replica_orders(moment: str):
    """A reject in mid-run restores the replica orders, and the run reports who leads."""
    world = asked()
    before = orders(world)
    approved(world)
    world.until(lambda: AT[moment](world))
    assert held(world)
    world.approve(world.run(), decision="Reject")
    watched(world)
    run = world.run()
    assert run.status.phase == "Aborted"
    assert orders(world) == before
    assert world.pods.restarts == ([] if moment in list(AT)[:2] else [1])
    assert not run.status.restore_owed
    world.step()
    assert not world.run().metadata.finalizers
    assert "stopped by alice" in run.status.message
    away = sum(p.leader != p.replicas[0] for p in parts(world))
    assert (f"{many(away, 'partition')} still led by another broker" in run.status.message) == (away > 0)


def test_an_order_after_the_reject_is_restored_too():
    """A replica order takes effect only after the reject. It is restored as well. Its answer was lost, and Kafka takes
    its time."""
    world = asked("restart-broker", brokers="1")
    before, late = orders(world), []

    class Slow:
        def __getattr__(self, name: str):
            return getattr(world.kafka, name)

        def alter_reassignments(self, targets):
            late.append(targets)
            raise WriteFailed(FailureKind.UNREACHABLE, "no answer")

    world.approve(world.until_phase("AwaitingApproval"))
    world.wrap_kafka = lambda _: Slow()
    world.operator()
    world.until(lambda: late)
    world.wrap_kafka = lambda kafka: kafka
    world.operator()
    world.approve(world.run(), decision="Reject")
    world.step()
    world.step()
    world.kafka.alter_reassignments(late[0])
    assert orders(world) != before
    watched(world)
    assert world.run().status.phase == "Aborted"
    assert orders(world) == before


@thorough
def test_a_foreign_replica_order_ends_the_run():
    """Somebody else changes a replica order meanwhile. The run ends and leaves that order alone."""
    world = asked()
    before = orders(world)
    approved(world)
    world.until(lambda: world.pods.restarts == [1])
    theirs = TopicPartition("orders", 1)
    world.kafka.partitions[theirs].replicas = [0, 2, 1]
    watched(world)
    run = world.run()
    assert run.status.phase == "Superseded"
    assert orders(world) == before | {theirs: [0, 2, 1]}
    assert "another client changed the replicas of orders-1" in run.status.message
    assert world.pods.restarts == [1]


@pytest.mark.parametrize("way", only([0], ["away", "back"]))
def test_a_foreign_order_is_not_overwritten_again(way: str):
    """With two orders to choose from, theirs may be the one of the other way."""
    world = asked("restart-broker", brokers="1")
    before = orders(world)
    approved(world)
    seen = f"restart-broker/order-{way}-1"
    world.until(lambda: any(e.id == seen and e.state == "Done" for e in journal(world)))
    theirs = TopicPartition("orders", 1)
    (drain,) = [d for d in world.run().status.plan.part(Restarts).drains if d.topic == "orders"]
    order = list(drain.replicas_before if way == "away" else drain.replicas)
    world.kafka.partitions[theirs].replicas = order
    watched(world)
    run = world.run()
    assert run.status.phase == "Superseded"
    assert "another client changed the replica order of orders-1" in run.status.message
    assert orders(world) == before | {theirs: order}
    assert ("another client changed the replicas of orders-1" in run.status.message) == (way == "back")


def test_the_drain_waits_for_a_new_leader_in_sync():
    """The trap: nobody is moved to it, and the broker is not restarted with what it leads."""
    world = asked()
    world.approve(world.until_phase("AwaitingApproval"))
    world.kafka.copies_per_tick = 0
    for part in parts(world):
        part.isr.remove(2)
    at = leaders(world)
    for _ in range(8):
        world.step()
    assert world.kafka.writes == []
    assert world.pods.restarts == []
    assert leaders(world) == at
    assert "out of the ISR: broker 2" in world.run().status.message


@thorough
def test_no_election_of_a_replica_out_of_sync():
    """A replica falls out of the ISR between its order and its election. It is not elected."""
    world = asked()
    approved(world)
    world.until(lambda: AT["the order is away"](world))
    world.kafka.copies_per_tick = 0
    (late,) = [p for p in parts(world) if p.replicas[0] == 2]
    late.isr.remove(2)
    for _ in range(8):
        world.step()
    assert late.leader == 1
    assert world.pods.restarts == []
    assert "PreferredInIsr" in {w.guard.value for w in world.run().status.waiting_for}
    world.kafka.copies_per_tick = 2
    world.until(lambda: world.pods.restarts == [1])


@thorough
def test_nothing_returns_to_a_broker_out_of_sync():
    """No leadership and no replica order returns while the broker is out of an ISR again. Not even the order: Kafka's
    own rebalancing would go by it."""
    world = asked(brokers="1")
    approved(world)
    world.until(lambda: world.pods.restarts == [1])
    paused(world, True)
    world.until(lambda: any(e.id == "restart-brokers/restart-1" and e.state == "Done" for e in journal(world)))
    world.kafka.copies_per_tick = 0
    world.kafka.partitions[TopicPartition("orders", 0)].isr.remove(1)
    paused(world, False)
    sent = list(world.kafka.writes)
    for _ in range(3):
        world.step()
    assert world.kafka.writes == sent
    assert "PreferredCaughtUp" in {w.guard.value for w in world.run().status.waiting_for}
    assert held(world)


def journal(world: World):
    return world.run().status.journal


def test_no_drain_of_a_broker_that_may_not_restart():
    """It would wait without what it leads."""
    world = asked()
    approved(world)
    world.until_phase("Running")
    world.kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "3"
    for _ in range(6):
        world.step()
    assert world.kafka.writes == []
    assert "IsrStaysAboveMin" in {w.guard.value for w in world.run().status.waiting_for}


def test_a_drained_broker_that_becomes_controller_restarts():
    """Else what it led would go to and fro, or it would wait without it for all the others."""
    world = asked(brokers="1,2")
    evicted = led_when_evicted(world)
    approved(world)
    world.until(lambda: AT["the order is away"](world))
    world.kafka.voted = 1
    world.until(lambda: len(evicted) == 1)
    assert evicted == [(1, 0)]


@thorough
def test_leaders_that_are_not_preferred_move_for_good():
    """Partitions that the broker leads without being preferred move to their preferred leader and stay there."""
    world = asked("restart-broker", brokers="1")
    part = world.kafka.partitions[TopicPartition("orders", 2)]
    part.elect(1)
    before = orders(world)
    evicted = led_when_evicted(world)
    plan = world.until_phase("AwaitingApproval").status.plan
    (drain,) = [d for d in plan.part(Restarts).drains if d.partitions == (2,)]
    assert drain.replicas == drain.replicas_before == (2, 0, 1)
    watched(approved(world))
    assert evicted == [(1, 0)]
    assert orders(world) == before
    assert part.leader == 2


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"maxParallel": "2"}, "set maxParallel to 1"),
        ({"brokers": "all"}, "in 501 groups: broker 2 leads"),
    ],
)
def test_unsupported_parameters_are_refused(parameters: dict[str, str], words: str):
    world = asked(**parameters)
    for number in range(497):
        world.kafka.topic(f"small-{number}", ORDERS[2])
    run = world.until_phase("Failed", reconciles=5)
    assert words in run.status.message
    assert "remove drainFirst" in run.status.message
    assert world.kafka.writes == []


def test_equal_replica_orders_are_one_plan_entry():
    """Partitions with the same replica orders are one entry of the plan."""
    world = asked()
    world.kafka.topic("wide", *[ORDERS[n % 3] for n in range(300)])
    plan = world.until_phase("AwaitingApproval").status.plan
    assert len([d for d in plan.part(Restarts).drains if d.topic == "wide"]) == 6
    assert sum(len(d.partitions) for d in plan.part(Restarts).drains) == 304


def test_a_changed_replica_order_voids_the_plan():
    """A replica order changes before the approval. The plan is void."""
    world = asked()
    digest = world.until_phase("AwaitingApproval").status.plan.digest
    world.kafka.partitions[TopicPartition("orders", 0)].replicas = [0, 2, 1]
    world.until(lambda: (p := world.run().status.plan) is not None and p.digest != digest)
    assert world.run().status.phase == "AwaitingApproval"
