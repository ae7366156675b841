"""min.insync.replicas of topics that have the replicas for it, through the operator's own turns: after approval, and
only what the plan saw."""

from __future__ import annotations

import pytest

from kafka_medic.resources.remediation import Remediation
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World

MIN_ISR = "min.insync.replicas"
PLAYBOOK = "raise-min-insync-replicas"


def key(topic: str) -> tuple[str, str, str]:
    return "TOPIC", topic, MIN_ISR


@pytest.fixture
def world() -> World:
    kafka = SimKafka()
    kafka.topic("orders", [0, 1, 2], [1, 2, 0])
    kafka.topic("ledger", [2, 0, 1])
    kafka.dynamic |= {key("orders"): "1", key("ledger"): "2"}
    world = World(kafka)
    world.install(remediation={"limits": {"cooldown": "0s"}})
    return world


def proposed(world: World) -> Remediation:
    world.until(lambda: any(r.status.phase == "AwaitingApproval" for r in world.runs()))
    (run,) = world.runs()
    assert run.spec.playbook.name == PLAYBOOK
    assert run.status.plan is not None
    return run


def test_it_is_set_after_approval_on_the_topic_that_lacks_it(world: World) -> None:
    began = world.now
    run = proposed(world)
    assert (world.now - began).total_seconds() >= 300, "a raise of the factor sets it by itself"
    assert run.status.plan is not None
    assert [(c.resource_name, c.before, c.after) for c in run.status.plan.config_changes] == [("orders", "1", "2")]
    assert "orders: 1 -> 2" in run.status.plan.summary
    for _ in range(3):
        world.step()
    assert world.kafka.writes == []
    world.approve(run)
    world.until_phase("Succeeded")
    assert world.kafka.dynamic == {key("orders"): "2", key("ledger"): "2"}
    assert len(world.kafka.writes) == 1
    for _ in range(30):
        world.step()
    assert len(world.runs()) == 1
    assert not world.cluster()["status"].get("findings")


def test_not_while_no_replica_is_spared(world: World) -> None:
    world.approve(proposed(world))
    world.kafka.up.discard(2)
    for _ in range(6):
        world.step()
    assert world.kafka.writes == []
    assert world.kafka.dynamic[key("orders")] == "1"
    world.kafka.up.add(2)
    world.until_phase("Succeeded")
    assert world.kafka.dynamic[key("orders")] == "2"


def test_what_somebody_has_set_meanwhile_is_theirs(world: World) -> None:
    world.approve(proposed(world))
    world.kafka.dynamic[key("orders")] = "3"
    world.until_phase("Superseded")
    assert world.kafka.writes == []
    assert world.kafka.dynamic[key("orders")] == "3"


def test_what_a_raise_that_ended_early_has_left_is_cured_as_well() -> None:
    """Its topics have their replicas by then, so that the plan that follows is not about them."""
    kafka = SimKafka()
    kafka.topic("orders", [0])
    kafka.dynamic[key("orders")] = "1"
    world = World(kafka)
    world.install(remediation={"limits": {"cooldown": "0s"}})
    raising = world.until_phase("AwaitingApproval")
    assert raising.spec.playbook.name == "raise-replication-factor"
    world.approve(raising)
    world.until(lambda: bool(kafka.partitions and all(len(p.isr) == 3 for p in kafka.partitions.values())), seconds=2)
    world.approve(raising, decision="Reject")
    world.until_phase("Aborted")
    assert kafka.dynamic == {key("orders"): "1"}
    world.until(lambda: any(r.status.phase == "AwaitingApproval" for r in world.runs()))
    run = next(r for r in world.runs() if r.status.phase == "AwaitingApproval")
    assert run.spec.playbook.name == PLAYBOOK
    world.approve(run)
    world.until_phase("Succeeded")
    assert kafka.dynamic == {key("orders"): "2"}
