"""A machine is about to go: its broker leads nothing by then, and leads again what it led before once it is back."""

from __future__ import annotations

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.remediation_plan import Reorders
from tests.simulation.deaths import Interrupted
from tests.simulation.kafka import SimKafka
from tests.simulation.pods import NODES
from tests.simulation.world import BROKERS, World
from tests.thorough import only, thorough

ORDERS = ([1, 2, 0], [1, 0, 2], [2, 1, 0], [0, 1, 2], [1, 2, 0], [0, 2, 1])


@pytest.fixture
def world() -> World:
    kafka = SimKafka()
    kafka.topic("orders", *ORDERS)
    kafka.topic("ledger", [1])
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    world = World(kafka)
    world.install(
        brokers=BROKERS,
        expectations={"topics": [{"pattern": "ledger", "exempt": True}]},
    )
    world.with_pods()
    return world


def cordon(world: World, broker: int, on: bool = True) -> None:
    node = world.api.get(f"{NODES}/node-{broker}")
    world.api.put(NODES, node | {"spec": {"unschedulable": True} if on else {}})


def leaders(world: World) -> list[int]:
    return [p.leader for tp, p in sorted(world.kafka.partitions.items()) if tp.topic == "orders"]


def orders(world: World) -> list[list[int]]:
    return [p.replicas for tp, p in sorted(world.kafka.partitions.items()) if tp.topic == "orders"]


def done(world: World, playbook: str, reconciles: int = 80) -> None:
    """Approved when it asks for it, and ended well."""

    def mine():
        return [r for r in world.runs() if r.spec.playbook.name == playbook]

    world.until(lambda: any(r.status.phase == "AwaitingApproval" for r in mine()))
    world.approve(next(r for r in mine() if r.status.phase == "AwaitingApproval"))
    world.until(lambda: mine()[-1].status.phase == "Succeeded", reconciles)


def test_leaderships_leave_before_maintenance_and_return(world):
    before = leaders(world)
    cordon(world, 1)
    done(world, "drain-broker")
    plan = world.runs()[0].status.plan
    assert "move 3 leaderships off broker 1" in plan.summary
    assert "because no other replica can take over: 1: ledger-0" in plan.summary
    assert 1 not in leaders(world)
    assert all(sorted(now) == sorted(was) for now, was in zip(orders(world), ORDERS, strict=True)), "no replica moved"
    assert not any(replicas[0] == 1 for replicas in orders(world)), "nothing brings it back by itself"
    assert sorted(leaders(world).count(b) for b in (0, 2)) == [3, 3], "spread over the others"
    for _ in range(5):
        world.step(60)
    assert len(world.runs()) == 1, "drained once, however long the machine takes to go"

    cordon(world, 1, on=False)
    done(world, "undrain-broker")
    assert orders(world) == [list(o) for o in ORDERS]
    assert leaders(world) == before
    for _ in range(5):
        world.step(60)
    assert len(world.runs()) == 2


@thorough
def test_undrain_waits_for_the_broker_to_be_in_sync(world):
    """Leaderships do not return while the broker is away or out of sync."""
    cordon(world, 1)
    done(world, "drain-broker")
    world.kafka.stop(1)
    world.kafka.copies_per_tick = 0
    cordon(world, 1, on=False)
    for _ in range(20):
        world.step()
    undrain = world.runs()[-1]
    assert undrain.spec.playbook.name == "undrain-broker"
    assert undrain.status.phase == "Planning"
    assert "broker 1 cannot lead yet" in undrain.status.message
    world.kafka.start(1)
    for _ in range(5):
        world.step()
    assert world.runs()[-1].status.phase == "Planning", "it is still out of the ISR"
    world.kafka.copies_per_tick = 10
    done(world, "undrain-broker")
    assert orders(world) == [list(o) for o in ORDERS]


@thorough
def test_a_foreign_replica_order_is_kept(world):
    cordon(world, 1)
    done(world, "drain-broker")
    theirs = TopicPartition("orders", 1)
    world.kafka.partitions[theirs].replicas = [2, 0, 1]
    cordon(world, 1, on=False)
    done(world, "undrain-broker")
    assert world.kafka.partitions[theirs].replicas == [2, 0, 1]
    assert orders(world)[0] == [1, 2, 0]
    ended = {r.spec.playbook.name: r.status.finished_at for r in world.runs()}
    took = (ended["undrain-broker"] - ended["drain-broker"]).total_seconds()
    assert took < 600, "the way back does not wait for limits.cooldown, 10m here, after the way there"


def test_a_cancelled_maintenance_needs_no_drain(world):
    cordon(world, 1)
    world.until_phase("AwaitingApproval")
    cordon(world, 1, on=False)
    world.until(lambda: world.runs()[0].status.phase == "Superseded")
    assert world.kafka.writes == []


def test_a_drained_broker_is_not_drained_again(world):
    """A broker that leads nothing is not drained again."""
    world.kafka.delete("ledger")
    for part in world.kafka.partitions.values():
        part.replicas = part.isr = [0, 2, 1]
        part.leader = 0
    cordon(world, 1)
    for _ in range(8):
        world.step(60)
    assert [(r.spec.playbook.name, r.status.phase) for r in world.runs()] == [("drain-broker", "Superseded")]
    assert world.kafka.writes == []


def test_a_replica_order_changed_after_the_plan_voids_it(world):
    cordon(world, 1)
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    world.kafka.partitions[TopicPartition("orders", 0)].replicas = [0, 1, 2]
    world.step()
    for _ in range(10):
        world.step()
    assert world.kafka.writes == []
    assert world.runs()[0].status.phase == "AwaitingApproval", "a plan of its own, which nobody approved"


@thorough
def test_a_changed_replica_order_is_not_restored(world):
    """Somebody changes a replica order after the drain changed it. The undrain leaves that order alone."""
    cordon(world, 1)
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: world.runs()[0].status.steps[0].phase == "Verifying")
    theirs = TopicPartition("orders", 0)
    world.kafka.partitions[theirs].replicas = [1, 2, 0]
    world.until(lambda: world.runs()[0].status.phase == "Superseded", reconciles=10)
    assert world.kafka.partitions[theirs].replicas == [1, 2, 0]


def test_a_person_may_request_a_drain_of_named_brokers(world):
    world.ask("drain-broker", brokers="0, 2")
    run = world.until_phase("AwaitingApproval")
    assert all(c.replicas[0] == 1 for c in run.status.plan.part(Reorders).reorders)
    world.ask("drain-broker")
    world.until(lambda: any(r.status.phase == "Failed" for r in world.runs()))
    assert "set the parameter brokers" in next(r for r in world.runs() if r.status.phase == "Failed").status.message


@pytest.mark.parametrize("moment", only([1], ["before", "after"]))
@pytest.mark.parametrize("write", only([0], ["alter_reassignments", "elect_preferred"]))
def test_killed_at_each_write(world, write, moment):
    cordon(world, 1)
    world.approve(world.until_phase("AwaitingApproval"))
    world.wrap_kafka = lambda kafka: Interrupted(kafka, (write,), 0, moment)
    world.operator()
    assert world.to_the_end() == 1
    assert world.run().status.phase == "Succeeded", world.run().status.message
    assert len([w for w in world.kafka.writes if w.startswith("reassign")]) == 1
    assert 1 not in leaders(world)
