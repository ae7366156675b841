"""Throttles that outlived their reassignment are removed after approval, and only those that the plan saw."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.remediation_plan import SettingChanges
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World

RATE, LIST = "leader.replication.throttled.rate", "follower.replication.throttled.replicas"
LEFT = {("BROKER", "1", RATE): "1000", ("TOPIC", "orders", LIST): "0:1,1:2"}


@pytest.fixture
def world() -> World:
    kafka = SimKafka()
    kafka.topic("orders", [0, 1, 2], [1, 2, 0])
    kafka.dynamic |= LEFT
    world = World(kafka)
    world.install()
    return world


def proposed(world: World) -> None:
    for _ in range(3):
        world.step()
    world.now += timedelta(minutes=12)
    run = world.until_phase("AwaitingApproval")
    assert run.spec.playbook.name == "remove-leftover-throttles"
    assert run.status.plan is not None
    assert {(c.resource_name, c.before, c.after) for c in run.status.plan.part(SettingChanges).config_changes} == {
        ("1", "1000", None),
        ("orders", "0:1,1:2", None),
    }
    world.approve(run)


def test_only_leftover_throttles_are_removed(world: World) -> None:
    world.kafka.dynamic[("TOPIC", "orders", "retention.ms")] = "1000"
    proposed(world)
    world.until_phase("Succeeded")
    assert world.kafka.dynamic == {("TOPIC", "orders", "retention.ms"): "1000"}
    assert len(world.kafka.writes) == 1


def test_a_throttle_set_anew_stays(world: World) -> None:
    proposed(world)
    world.kafka.dynamic[("BROKER", "1", RATE)] = "2000"
    for _ in range(4):
        world.step()
    assert world.kafka.writes == []
    assert world.kafka.dynamic[("BROKER", "1", RATE)] == "2000"


def test_throttles_stay_during_a_reassignment(world: World) -> None:
    world.kafka.copies_per_tick = 0
    proposed(world)
    world.kafka.alter_reassignments({TopicPartition("orders", 0): [0, 2, 1]})
    world.kafka.topic("theirs", [0])
    world.kafka.alter_reassignments({TopicPartition("theirs", 0): [0, 1]})
    world.kafka.writes.clear()
    for _ in range(4):
        world.step()
    assert world.kafka.writes == []
    assert LEFT.items() <= world.kafka.dynamic.items()
