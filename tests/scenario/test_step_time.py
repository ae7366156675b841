"""How long a step may take, whose time does not count, and who may give it more."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.phases import Phase
from tests.scenario.test_raise_replication_factor import throttles, under_way, world
from tests.simulation.world import World
from tests.thorough import only, thorough

__all__ = ["world"]


def test_a_late_step_pauses_with_the_reason(world: World) -> None:
    under_way(world)
    for _ in range(5):
        world.step(3600)
    run = world.run()
    assert run.status.phase is Phase.PAUSED
    assert "within 4h" in run.status.message
    world.kafka.copies_per_tick = 2
    world.until_phase("Succeeded")


def pause(world: World, paused: bool, **more: object) -> None:
    body = world.cluster()
    body["spec"]["remediation"] = {"paused": paused, **more}
    world.put("kafkaclusters", body)


def late(world: World) -> None:
    """The step is past its time, with its wave still to be sent again."""
    under_way(world)
    for _ in range(5):
        world.step(3600)
    assert world.run().status.phase is Phase.PAUSED


@thorough
def test_a_new_approval_resumes_a_late_step(world: World) -> None:
    """A step that took too long continues when the same plan is approved again."""
    world.kafka.copies_per_tick = 0
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    world.until(lambda: world.run().status.restore_owed)
    world.kafka.unreadable = {"configs"}  # nothing is sent before its time has run out
    for _ in range(30):
        world.step(3600)  # past the plan's expiry, too
    assert world.run().status.phase is Phase.PAUSED
    world.kafka.unreadable = set()
    for _ in range(3):
        world.step()
    assert world.kafka.writes == []
    assert "approve the same plan again" in world.run().status.message
    world.api.approvers = {"alice"}
    world.approve(run, "mallory")
    for _ in range(3):
        world.step()
    assert world.kafka.writes == [], "not by anybody"
    world.approve(run, "alice")
    world.kafka.copies_per_tick = 2
    world.until_phase("Succeeded")
    assert throttles(world) == []
    assert world.run().status.steps[0].extended_at is not None


@pytest.mark.parametrize(
    ("ahead", "seconds", "counts"),
    [(0, -30, False), (0, 30, True), (60, -30, False), (60, 30, True), (-60, -30, False), (-60, 30, True)],
)
def test_one_clock_dates_approval_and_step_end(world: World, ahead: float, seconds: int, counts: bool) -> None:
    """The API server dates the word, by a clock that is so far ahead; so long after the end by the operator's."""
    world.ahead = ahead
    under_way(world)
    step = next(s for s in world.run().status.steps if s.phase == "Running")
    assert step.started_at is not None
    end = step.started_at + timedelta(hours=4)
    world.now = end + timedelta(seconds=seconds if seconds < 0 else -5)
    if seconds < 0:
        world.approve(world.run())
    world.until_phase("Paused" if seconds > 0 or not counts else "Running", seconds=10)
    if seconds > 0:
        world.now = end + timedelta(seconds=seconds)
        world.approve(world.run())
    world.step()
    world.step()
    assert world.run().status.phase is (Phase.RUNNING if counts else Phase.PAUSED)


def test_a_resumed_step_has_a_limit_too(world: World) -> None:
    late(world)
    world.approve(world.run())
    world.step()
    world.step()
    assert world.run().status.phase is Phase.RUNNING
    for _ in range(5):
        world.step(3600)
    assert world.run().status.phase is Phase.PAUSED


@thorough
@pytest.mark.parametrize(
    "hold",
    only(
        [0], [{"paused": True}, {"windows": [{"days": ["Sun"], "start": "02:00", "end": "03:00", "timeZone": "UTC"}]}]
    ),
)
def test_time_in_a_pause_or_a_closed_window_does_not_count(world: World, hold: dict[str, object]) -> None:
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: world.run().status.restore_owed)
    pause(world, **({"paused": False} | hold))  # type: ignore[arg-type]
    for _ in range(9):
        world.step(3600)
    held = world.run().status
    assert (held.phase, world.kafka.writes) == (Phase.BLOCKED, [])
    assert held.steps[0].held_since is not None
    pause(world, paused=False)
    world.until_phase("Succeeded")
    assert world.run().status.steps[0].held_seconds >= 8 * 3600
    assert throttles(world) == []


@thorough
def test_time_behind_a_foreign_reassignment_does_not_count(world: World) -> None:
    """The time in which a foreign reassignment holds a step does not count."""
    world.kafka.topic("theirs", [0, 1, 2])
    world.kafka.dynamic["TOPIC", "theirs", "min.insync.replicas"] = "2"
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: world.run().status.steps[0].phase == "Succeeded")
    part = world.kafka.partitions[TopicPartition("theirs", 0)]
    part.before, part.adding, part.isr, world.kafka.copies_per_tick = [0, 1], [2], [0, 1], 0
    for _ in range(9):
        world.step(300)
    held = world.run().status
    assert (held.phase, [w.guard for w in held.waiting_for]) == (Phase.BLOCKED, ["NoForeignReassignment"])
    world.kafka.copies_per_tick = 2
    world.until_phase("Succeeded", reconciles=10)
