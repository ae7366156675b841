"""Whole runs that raise min.insync.replicas of topics: after approval, and only what the plan saw."""

from __future__ import annotations

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import ReplicaMoves, SettingChanges
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


def test_the_minimum_is_set_on_the_topic_that_lacks_it(world: World) -> None:
    began = world.now
    run = proposed(world)
    assert (world.now - began).total_seconds() >= 300, "a raise of the factor sets it by itself"
    assert run.status.plan is not None
    assert [(c.resource_name, c.before, c.after) for c in run.status.plan.part(SettingChanges).config_changes] == [
        ("orders", "1", "2")
    ]
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


def test_no_minimum_without_a_spare_replica(world: World) -> None:
    world.approve(proposed(world))
    world.kafka.up.discard(2)
    for _ in range(6):
        world.step()
    assert world.kafka.writes == []
    assert world.kafka.dynamic[key("orders")] == "1"
    world.kafka.up.add(2)
    world.until_phase("Succeeded")
    assert world.kafka.dynamic[key("orders")] == "2"


def test_a_replica_out_of_sync_blocks_no_run(world: World) -> None:
    """A replica that stays out of sync blocks neither this run nor others. It begins when it can be done, and is not
    Paused for hours in everybody's way."""
    world.approve(proposed(world))
    behind = world.kafka.partitions[TopicPartition("orders", 1)]
    behind.isr.remove(2)
    world.kafka.copies_per_tick = 0
    for _ in range(60):
        world.step()
    (run,) = world.runs()
    assert run.status.phase == "Approved"
    assert "without a spare in-sync replica" in run.status.message
    assert world.kafka.writes == []
    world.kafka.copies_per_tick = 2
    world.until_phase("Succeeded")
    assert world.kafka.dynamic[key("orders")] == "2"


def test_an_unread_source_keeps_the_finding(world: World) -> None:
    for _ in range(6):
        world.step()
    (before,) = world.cluster()["status"]["findings"]
    world.kafka.unreadable.add("reassignments")
    world.step()
    (now,) = world.cluster()["status"]["findings"]
    assert (now["id"], now["state"], now["since"]) == ("MinInsyncReplicasLow", "Firing", before["since"])
    assert "can no longer be read" in now["evidence"][-1]
    world.ask(PLAYBOOK)
    for _ in range(3):
        world.step()
    (run,) = world.runs()
    assert run.status.phase == "Planning"
    world.kafka.unreadable.clear()
    assert world.until_phase("AwaitingApproval").name == run.name


def test_a_raise_in_waves_sets_the_minimum() -> None:
    kafka = SimKafka()
    for topic in ("orders", "ledger", "audit"):
        kafka.topic(topic, [0], size=30_000_000_000)
        kafka.dynamic[key(topic)] = "1"
    world = World(kafka)
    world.install(remediation={"limits": {"cooldown": "0s"}})
    run = world.until_phase("AwaitingApproval")
    assert run.status.plan is not None
    assert (run.status.plan.part(ReplicaMoves).waves or 0) > 1
    world.approve(run)
    half_way = 0
    for _ in range(200):
        sizes = {len(p.isr) for p in kafka.partitions.values()}
        half_way += sizes == {1, 3}
        kafka.copies_per_tick = 2 if not 0 < half_way < 40 else 0  # the second wave is long
        world.step()
        if world.runs()[0].status.phase == "Succeeded":
            break
        assert not any(f["type"] == "MinInsyncReplicasLow" for f in world.cluster()["status"].get("findings", []))
    assert half_way >= 40
    assert [(r.name, r.status.phase) for r in world.runs()] == [(run.name, "Succeeded")]
    assert set(kafka.dynamic.values()) == {"2"}


def test_a_minimum_set_meanwhile_stays(world: World) -> None:
    world.approve(proposed(world))
    world.kafka.dynamic[key("orders")] = "3"
    world.until_phase("Superseded")
    assert world.kafka.writes == []
    assert world.kafka.dynamic[key("orders")] == "3"


def test_a_foreign_minimum_is_not_reported_as_ours(world: World) -> None:
    world.approve(proposed(world))
    world.kafka.dynamic[key("orders")] = "2"
    assert world.until_phase("Superseded").status.journal == ()
    assert world.kafka.writes == []


def test_the_rest_of_an_aborted_raise_is_cured() -> None:
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
