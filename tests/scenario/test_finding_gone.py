"""A step that is verified by FindingGone: its goal, and the end of the very finding that its run was made for."""

from __future__ import annotations

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.phases import Phase
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BASE, World

LATER = TopicPartition("later", 0)
PLAYBOOK = "elect-preferred-leaders"


def arrange(**step: object) -> World:
    """Broker 0 leads nothing, and is preferred for all of it. `step`: what is different in the playbook's only one."""
    kafka = SimKafka()
    kafka.topic("orders", *([[0, 1, 2]] * 4))
    kafka.topic("later", *([[0, 1, 2]] * 4))
    for topic in ("orders", "later"):
        kafka.dynamic["TOPIC", topic, "min.insync.replicas"] = "2"
    away(kafka, "orders")
    world = World(kafka)
    quiet = [{"name": name, "mode": "Observe"} for name in ("raise-replication-factor", "raise-defaults")]
    world.install(remediation={"limits": {"cooldown": "0s"}, "playbooks": quiet})
    raw = world.api.get(f"{BASE}/playbooks/{PLAYBOOK}")
    verify = {"probe": "FindingGone", "consecutive": 3, "within": "10m"}
    raw["spec"]["steps"][0] |= {"verify": verify, **step}
    world.api.put(f"{BASE}/playbooks", raw)
    return world


def away(kafka: SimKafka, topic: str) -> None:
    for tp, part in kafka.partitions.items():
        if tp.topic == topic:
            part.elect(1)


def home(kafka: SimKafka) -> None:
    for part in kafka.partitions.values():
        part.elect(0)


def reached(world: World) -> None:
    """The plan is carried out, and another topic is what the finding is about by then."""
    world.approve(world.until_phase("AwaitingApproval"))
    away(world.kafka, "later")
    world.until_phase("Verifying")
    for _ in range(4):
        world.step()


@pytest.fixture
def world() -> World:
    return arrange()


def test_the_goal_alone_is_not_enough_while_its_cause_lasts(world: World) -> None:
    reached(world)
    run = world.run()
    assert run.spec.cause is not None
    assert run.status.phase is Phase.VERIFYING
    assert f"{run.spec.cause.finding_id} lasts" in run.status.message
    assert run.status.consecutive_verified is None
    home(world.kafka)
    world.step()
    world.step()
    assert world.run().status.phase is Phase.VERIFYING, "seen gone twice in a row at most, of three times"
    world.until_phase("Succeeded")


def test_a_cause_that_comes_back_is_counted_anew(world: World) -> None:
    reached(world)
    home(world.kafka)
    world.until(lambda: world.run().status.consecutive_verified == 1)
    away(world.kafka, "later")
    world.until(lambda: world.run().status.consecutive_verified is None)
    assert world.run().status.phase is Phase.VERIFYING
    home(world.kafka)
    world.until_phase("Succeeded")


@pytest.mark.parametrize(("on_failure", "phase"), [("Pause", Phase.PAUSED), ("Abort", Phase.FAILED)])
def test_a_cause_that_never_goes_ends_the_step_in_its_time(on_failure: str, phase: Phase) -> None:
    world = arrange(onFailure=on_failure)
    reached(world)
    world.step(600)
    for _ in range(2):
        world.step(1)
    first = next(r for r in world.runs() if r.status.started_at is not None)
    assert first.status.phase is phase
    assert "did not reach its goal within 10m" in first.status.message


def test_a_run_that_a_person_asked_for_has_no_cause_and_needs_its_goal_alone(world: World) -> None:
    world.ask(PLAYBOOK)
    reached(world)
    assert world.run().spec.cause is None
    world.until_phase("Succeeded")


def test_another_finding_is_no_cause(world: World) -> None:
    """Also one of the kind that was once all that was looked for."""
    world.kafka.topic("thin", [0])
    reached(world)
    home(world.kafka)
    world.until(lambda: any(r.status.phase is Phase.SUCCEEDED for r in world.runs()))
    assert any(f["type"] == "ReplicationFactorLow" for f in world.cluster()["status"]["findings"])
