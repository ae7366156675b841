"""Replicas that were added lead their share at last: only once they are in sync, and in batches that serve."""

from __future__ import annotations

from collections import Counter

import pytest

from kafka_medic.resources.remediation_plan import Elections, Reorders
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World
from tests.thorough import thorough


@pytest.fixture
def world() -> World:
    """Everything on broker 0."""
    kafka = SimKafka()
    kafka.topic("orders", *([0],) * 6)
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "1"
    world = World(kafka)
    world.install()
    return world


def leads(world: World) -> Counter[int]:
    return Counter(part.leader for part in world.kafka.partitions.values())


def kinds(world: World) -> list[str]:
    return [line.split(" ")[0] for line in world.kafka.writes]


def test_new_replicas_get_their_share_of_the_leaderships(world: World) -> None:
    run = world.until_phase("AwaitingApproval")
    plan = run.status.plan
    assert plan is not None
    assert "preferred leaders per broker finally 2..2 (bound 2)" in plan.summary
    assert {c.replicas[0] for c in plan.part(Reorders).reorders} == {1, 2}
    assert sum(len(e.partitions) for e in plan.part(Elections).elections) == len(plan.part(Reorders).reorders) == 4
    world.approve(run)
    done = world.until_phase("Succeeded")
    assert leads(world) == {0: 2, 1: 2, 2: 2}
    assert all(part.leader == part.replicas[0] for part in world.kafka.partitions.values())
    assert kinds(world) == ["configs", "reassign", "configs", "configs", "reassign", "elect"]
    assert all(entry.state == "Done" for entry in done.status.journal)


@thorough
def test_leaders_stay_while_replicas_are_copied(world: World) -> None:
    """Leaders stay while replicas are copied and while a broker is away."""
    world.kafka.copies_per_tick = 1
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: "reassign" in kinds(world))
    while any(len(part.isr) < 3 for part in world.kafka.partitions.values()):
        assert leads(world) == {0: 6}
        world.step()
    world.until(lambda: world.run().status.current_step == "change-order")
    world.kafka.stop(2)
    for _ in range(8):
        world.step()
    assert leads(world) == {0: 4, 1: 2}
    world.kafka.start(2)
    world.until_phase("Succeeded")
    assert leads(world) == {0: 2, 1: 2, 2: 2}


@thorough
def test_undrain_does_not_revert_even_leaders(world: World) -> None:
    """Bringing leaders back after maintenance goes by what drains changed, not by this."""
    world.approve(world.until_phase("AwaitingApproval"))
    world.until_phase("Succeeded")
    world.ask("undrain-broker", brokers="0")
    world.until(lambda: len(world.runs()) == 2)
    for _ in range(4):
        world.step()
    assert leads(world) == {0: 2, 1: 2, 2: 2}
    undrain = next(run for run in world.runs() if run.spec.playbook.name == "undrain-broker")
    assert undrain.status.plan is None
