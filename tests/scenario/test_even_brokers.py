"""Replicas move to where they lie better: over racks, and evenly over brokers."""

from __future__ import annotations

from collections import Counter

import pytest

from kafka_medic.resources.remediation_plan import ReplicaMoves
from tests.simulation.brokers import MIN_ISR
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BROKERS, World

RACKS: dict[int, str | None] = {0: "a", 1: "a", 2: "b", 3: "c"}
QUIET = {"playbooks": [{"name": "elect-preferred-leaders", "mode": "Observe"}]}


def crowded(**spec: object) -> World:
    """Two partitions have two replicas in one rack."""
    kafka = SimKafka(racks=dict(RACKS))
    kafka.topic("orders", [0, 1, 2], [1, 0, 3], [2, 0, 3], size=5_000_000)
    kafka.dynamic["TOPIC", "orders", MIN_ISR] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=QUIET, **spec)
    world.with_pods()
    return world


def on_racks(world: World) -> list[int]:
    return [len({RACKS[b] for b in part.replicas}) for part in world.kafka.partitions.values()]


def whole(world: World) -> None:
    assert all(len(p.replicas) == len(p.isr) == 3 and p.leader in p.isr for p in world.kafka.partitions.values())
    assert not any("throttled" in key[2] for key in world.kafka.dynamic)


def test_partitions_that_share_a_rack_are_spread_with_the_fewest_moves() -> None:
    world = crowded()
    assert on_racks(world) == [2, 2, 3]
    run = world.until_phase("AwaitingApproval", reconciles=400)
    assert run.spec.playbook.name == "spread-racks"
    assert run.status.plan is not None
    assert run.status.plan.moves == run.status.plan.part(ReplicaMoves).lower_bound_moves == 2
    assert "spread over racks 2 partitions of 1 topic: orders" in run.status.plan.summary
    world.approve(run)
    world.until_phase("Succeeded")
    assert on_racks(world) == [3, 3, 3]
    whole(world)
    for _ in range(20):
        world.step(600)
    assert len(world.runs()) == 1


def test_nothing_is_proposed_where_racks_are_used_or_topics_are_exempt() -> None:
    world = crowded(expectations={"topics": [{"pattern": "orders", "exempt": True}]})
    for _ in range(20):
        world.step(600)
    assert world.runs() == []
    world.ask("spread-racks")
    ended = world.until_phase("Superseded")
    assert "no replica shares a rack that it need not share" in ended.status.message


def test_a_proposal_waits_while_a_broker_does_not_answer() -> None:
    """Its partitions stay as they are, and the finding lasts: it is not proposed again and again."""
    kafka = SimKafka(racks={**RACKS, 4: "a"})
    kafka.topic("orders", [0, 1, 4])
    kafka.dynamic["TOPIC", "orders", MIN_ISR] = "2"
    kafka.deaf.add(4)
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=QUIET)
    world.with_pods()
    for _ in range(100):
        world.step(60)
    (run,) = world.runs()
    assert run.status.phase == "Planning"
    assert "broker 4 is down" in run.status.message
    kafka.deaf.clear()
    world.until_phase("AwaitingApproval")
    assert len(world.runs()) == 1


@pytest.mark.parametrize(("most", "moves"), [("1", 1), ("100", 3)])
def test_brokers_are_made_even_with_as_many_moves_as_were_allowed(most: str, moves: int) -> None:
    kafka = SimKafka(racks=dict.fromkeys(range(4)))
    kafka.topic("orders", *([[0, 1, 2]] * 4), size=5_000_000)
    kafka.dynamic["TOPIC", "orders", MIN_ISR] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=QUIET)
    world.with_pods()
    world.ask("rebalance", maxMoves=most)
    run = world.until_phase("AwaitingApproval")
    assert run.status.plan is not None
    assert run.status.plan.moves == moves
    world.approve(run)
    world.until_phase("Succeeded")
    held = Counter(b for part in kafka.partitions.values() for b in part.replicas)
    assert held[3] == moves
    assert max(held.values()) == (4 if moves == 1 else 3)
    whole(world)


def test_a_plan_for_other_racks_is_not_carried_out() -> None:
    kafka = SimKafka(racks={0: "a", 1: "b", 2: "a", 3: "c"})
    kafka.topic("orders", [0, 1, 2], size=1_000_000)
    kafka.dynamic["TOPIC", "orders", MIN_ISR] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=QUIET)
    world.with_pods()
    world.ask("spread-racks")
    world.until_phase("AwaitingApproval")
    kafka.racks |= {2: "c", 0: "a", 3: "b"}  # brokers were restarted with the racks that they are truly in
    for _ in range(10):
        world.step()
    if world.run().status.phase == "AwaitingApproval":
        world.approve(world.run())
    for _ in range(30):
        world.step()
    assert "broker 3 is in rack b (planned: rack c)" in str(world.run().status.conditions)
    racks = {kafka.racks[b] for p in kafka.partitions.values() for b in p.replicas}
    assert len(racks) == 3, (racks, world.run().status.phase, world.run().status.message)


def test_racks_that_change_between_the_copy_and_the_removal_end_the_run_and_nothing_is_lost() -> None:
    """What was copied for the racks that were goes again."""
    world = crowded()
    world.ask("spread-racks")
    world.approve(world.until_phase("AwaitingApproval"))
    before = {tp: sorted(part.replicas) for tp, part in world.kafka.partitions.items()}
    world.until(lambda: sum(len(p.isr) == 4 for p in world.kafka.partitions.values()) == 2, seconds=1.0)
    world.kafka.racks |= {2: "a"}
    run = world.until_phase("Superseded")
    assert "broker 2 is in rack a (planned: rack b)" in run.status.message
    assert {tp: sorted(part.replicas) for tp, part in world.kafka.partitions.items()} == before
    whole(world)


@pytest.mark.parametrize("aware", [True, False])
def test_racks_count_where_they_are_used(aware: bool) -> None:
    """A plan that looked at no rack is the same for others."""
    kafka = SimKafka(racks=dict(RACKS))
    kafka.topic("orders", [0], size=5_000_000)
    kafka.dynamic["TOPIC", "orders", MIN_ISR] = "1"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=QUIET, expectations={"rackAware": aware})
    world.with_pods()
    world.ask("raise-replication-factor")
    world.until_phase("AwaitingApproval")
    kafka.racks |= dict.fromkeys(RACKS, "z")
    for _ in range(6):
        world.step()
    assert ("racks have changed since the plan" in str(world.run().status.conditions)) is aware
