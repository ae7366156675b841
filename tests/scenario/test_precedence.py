"""A run that holds nothing gives way to the cure of something graver, through the operator's own reconciles."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import datetime

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.phases import ACTING_PHASES
from kafka_medic.resources.remediation import Remediation
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BASE, BROKERS, World
from tests.thorough import thorough

LIGHT, GRAVE = "elect-preferred-leaders", "rolling-restart"


def broker_leads_nothing(away: int = 2, cooldown: str = "1h") -> World:
    """Broker `away` was away: the others lead what it should."""
    kafka = SimKafka(voted=0)
    kafka.topic("orders", [0, 1, 2], [1, 2, 0], *([[2, 0, 1]] * 4))
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    for part in kafka.partitions.values():
        if part.replicas[0] == away:
            part.elect(part.replicas[1])
    world = World(kafka)
    world.install(brokers=BROKERS, remediation={"mode": "Approve", "limits": {"cooldown": cooldown, "perDay": 100}})
    pods = world.with_pods()

    def stopped(broker: int) -> None:
        kafka.heal(broker)
        kafka.mute.discard(broker)

    pods.stopped = stopped
    return world


def of(world: World, playbook: str) -> Remediation:
    return next(r for r in world.runs() if r.spec.playbook.name == playbook)


def cut_off(world: World, broker: int = 2) -> None:
    """It hears nothing of the controller any more, and misses an election."""
    kafka = world.kafka
    kafka.stale[broker] = kafka.view()
    kafka.partitions[TopicPartition("orders", 0)].elect(1)


def stuck_elections() -> World:
    """The elections were carried out, and what broker 2 leads by now does not serve: it was cut off meanwhile."""
    world = broker_leads_nothing()
    world.kafka.mute = {2}
    world.approve(world.until_phase("AwaitingApproval"))
    run = world.until_phase("Paused")
    assert run.spec.playbook.name == LIGHT
    assert "not yet serving" in run.status.message
    assert run.status.holds != "", "its elections may still be on their way"
    cut_off(world)
    return world


def proposed(world: World, broker: int = 2) -> Remediation:
    """The restart that cures the stale view."""
    world.until(lambda: any(r.status.phase == "AwaitingApproval" for r in world.runs()))
    run = of(world, GRAVE)
    assert run.status.cures is not None
    assert (run.status.cures.finding_id, run.status.cures.severity) == (f"ViewDiverged/broker-{broker}", "Critical")
    return run


def never_two_at_work(world: World) -> None:
    """Of the runs that have begun one at most holds anything, and the others say which one they wait for."""
    begun = [r for r in world.runs() if r.status.phase in ACTING_PHASES]
    assert sum(r.status.holds != "" for r in begun) <= 1
    if len(begun) > 1:
        (first,) = (r.name for r in begun if r.spec.playbook.name == GRAVE)
        for run in begun:
            assert run.name == first or [w.remediation for w in run.status.waiting_for] == [first]


def to_the_end(world: World, most: int = 150) -> None:
    for _ in range(most):
        for run in world.runs():
            if run.status.phase == "AwaitingApproval" and not run.status.approvals:
                world.approve(run)
        if world.finished():
            return
        world.step()
        never_two_at_work(world)
    raise AssertionError([(r.name, r.status.phase, r.status.message) for r in world.runs()])


def test_paused_elections_give_way_to_the_curing_restart():
    """Paused elections give way to the restart that cures, and continue afterwards."""
    world = stuck_elections()
    assert world.pods is not None
    world.approve(proposed(world))
    world.until(lambda: of(world, GRAVE).status.phase == "Running")
    light, grave = of(world, LIGHT), of(world, GRAVE)
    told = f"gives way to {grave.name}, which cures ViewDiverged/broker-2 (Critical)"
    assert (light.status.phase, light.status.message, light.status.holds) == ("Blocked", told, "")
    assert [(w.guard, w.verdict, w.remediation) for w in light.status.waiting_for] == [
        ("NoOtherRemediation", "Wait", grave.name)
    ]
    assert ("Blocked", told) in world.api.events
    assert world.condition("RemediationAllowed")["message"] == f"{light.name}: {told}"
    elections = sum(w.startswith("elect") for w in world.kafka.writes)
    world.until(lambda: of(world, GRAVE).status.phase == "Succeeded", reconciles=150)
    assert 2 in world.pods.restarts
    assert sum(w.startswith("elect") for w in world.kafka.writes) == elections, "nothing is elected meanwhile"
    to_the_end(world)
    assert not world.kafka.stale
    assert of(world, LIGHT).status.phase == "Succeeded", of(world, LIGHT).status.message
    assert all(p.leader == 2 for p in world.kafka.partitions.values() if p.replicas[0] == 2)
    assert len([r for r in world.runs() if r.status.started_at]) <= 3, "no loop of proposals"


def test_no_run_gives_way_to_an_unapproved_one():
    world = stuck_elections()
    grave = proposed(world)
    for _ in range(10):
        world.step()
    assert of(world, LIGHT).status.phase == "Paused"
    assert of(world, GRAVE).status.phase == "AwaitingApproval"
    world.approve(grave, decision="Reject")
    world.kafka.mute.clear()
    world.until(lambda: of(world, LIGHT).status.phase == "Succeeded")


def test_time_in_which_a_run_gives_way_does_not_count():
    """Elections have 30 minutes; two hours for somebody else's cure are none of theirs."""
    world = stuck_elections()
    assert world.pods is not None
    world.pods.never_back = {0, 1, 2}
    world.approve(proposed(world))
    world.until(lambda: bool(world.pods and world.pods.restarts))
    for _ in range(8):
        world.step(900)
    assert of(world, LIGHT).status.phase == "Blocked"
    step = of(world, LIGHT).status.steps[0]
    assert step.held_since is not None
    world.pods.never_back.clear()
    world.until(lambda: of(world, GRAVE).status.phase == "Paused")
    world.approve(of(world, GRAVE), decision="Reject")
    world.until(lambda: of(world, GRAVE).status.phase == "Aborted")
    world.kafka.stale.clear()
    world.until(lambda: of(world, LIGHT).status.phase == "Succeeded", reconciles=100)


def test_a_graver_run_waits_for_effects_in_flight():
    world = broker_leads_nothing()
    world.approve(world.until_phase("AwaitingApproval"))
    lost: list[datetime] = []
    elect = world.kafka.elect_preferred

    def unheard(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, str]:
        lost.append(world.now)
        return {}

    world.kafka.elect_preferred = unheard  # type: ignore[method-assign]
    world.until(lambda: len(lost) == 4, seconds=10)
    cut_off(world, broker=1)
    world.approve(proposed(world, broker=1))
    world.until(lambda: of(world, GRAVE).status.phase == "Approved", seconds=1)
    world.step(1)
    lost_last = lost[-1]
    for _ in range(3):
        world.step(1)
        assert "It holds: elect the preferred leaders of 4 partitions" in of(world, GRAVE).status.message
    world.until(lambda: of(world, GRAVE).status.phase == "Running", seconds=5)
    assert lost[-1] == lost_last
    assert (world.now - lost_last).total_seconds() >= 60
    world.kafka.elect_preferred = elect  # type: ignore[method-assign]
    to_the_end(world)


def test_a_throttle_is_never_left_for_another_run():
    """A raise that copies goes on to its end, whatever else fires and is approved."""
    kafka = SimKafka(voted=0, copies_per_tick=0)
    kafka.topic("orders", [0, 1, 2], [1, 2, 0])
    kafka.topic("thin", [1, 0], [0, 2])
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation={"limits": {"cooldown": "0s", "perDay": 100}})
    pods = world.with_pods()
    pods.stopped = kafka.heal
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: any("throttled" in key[2] for key in kafka.dynamic))
    for _ in range(3):
        world.step()
    raising = "raise-replication-factor"
    assert of(world, raising).status.cures.severity == "Warning"
    cut_off(world)
    for _ in range(20):
        for run in world.runs():
            if run.status.phase == "AwaitingApproval" and not run.status.approvals:
                world.approve(run)
        world.step()
    assert of(world, raising).status.holds == "changes to revert"
    assert pods.restarts == []
    kafka.copies_per_tick = 2
    kafka.stale.clear()
    world.until(lambda: of(world, raising).status.phase == "Succeeded", reconciles=100)
    assert not any("throttled" in key[2] for key in kafka.dynamic)


def ended(world: World, playbook: str, severity: str | None) -> None:
    """A run that has just ended."""
    digest = "sha256:" + "0" * 64
    spec = {
        "clusterRef": {"name": "c", "uid": world.cluster()["metadata"]["uid"]},
        "playbook": {"name": playbook, "digest": digest},
        "cause": {"findingId": "LeadersImbalanced/all", "findingType": "LeadersImbalanced"},
    }
    status = {"phase": "Succeeded", "startedAt": world.timestamp(), "finishedAt": world.timestamp(), "message": "done"}
    if severity:
        status["cures"] = {"findingId": "LeadersImbalanced/all", "severity": severity}
    body = {
        "apiVersion": "kafkamedic.dev/v1alpha1",
        "kind": "Remediation",
        "metadata": {"name": "before", "namespace": "ns"},
    }
    world.put("remediations", body | {"spec": spec, "status": status})


@pytest.mark.parametrize(("severity", "waits"), [("Warning", False), ("Critical", True), (None, True)])
def test_a_lighter_runs_cooldown_blocks_no_graver_cure(severity, waits):
    world = broker_leads_nothing(away=-1)
    world.step()
    ended(world, LIGHT, severity)
    cut_off(world)
    world.approve(proposed(world))
    for _ in range(6):
        world.step()
    run = of(world, GRAVE)
    assert (run.status.phase == "Approved") == waits, run.status.message
    assert not waits or "limits.cooldown is 1h" in run.status.message


def test_per_day_limit_and_breaker_hold_for_every_cure():
    world = broker_leads_nothing(away=-1)
    world.api.touch(f"{BASE}/namespaces/ns/kafkaclusters/c")["spec"]["remediation"]["limits"]["perDay"] = 1
    world.step()
    ended(world, LIGHT, "Warning")
    cut_off(world)
    world.approve(proposed(world))
    for _ in range(6):
        world.step()
    assert "limits.perDay is 1" in of(world, GRAVE).status.message


@thorough
@pytest.mark.parametrize("order", list(itertools.permutations(("rolling-restart", "elect-preferred-leaders"))))
def test_the_graver_of_two_waiting_runs_starts_first(order):
    """Of two runs that wait to start, the graver starts first, whatever their names and ages."""
    world = broker_leads_nothing(cooldown="0s")
    cut_off(world, broker=1)
    world.until(lambda: sum(r.status.phase == "AwaitingApproval" for r in world.runs()) == 2)
    for playbook in order:
        world.approve(of(world, playbook))
        world.step(1)
    world.until(lambda: any(r.status.phase in ACTING_PHASES for r in world.runs()))
    assert of(world, GRAVE).status.phase in ACTING_PHASES
    assert of(world, LIGHT).status.phase == "Approved"
    to_the_end(world)


@thorough
def test_a_restart_without_a_budget_gives_way():
    """A restart that no PodDisruptionBudget permits gives way and is not repeated. Its Pod is as it was, so nothing of
    it is on its way. The graver run restarts that broker too."""
    world = broker_leads_nothing(away=-1, cooldown="0s")
    assert world.pods is not None
    world.ask("restart-broker", brokers="1")
    world.approve(world.until_phase("AwaitingApproval"))
    world.pods.min_available = 3
    world.until(lambda: any(e.state == "Intended" for e in world.run().status.journal))
    light = world.run()
    assert light.status.cures is None
    cut_off(world)
    world.approve(proposed(world))
    world.until(lambda: of(world, GRAVE).status.phase == "Running", reconciles=120, seconds=5)
    assert of(world, "restart-broker").status.holds == ""
    world.pods.min_available = None
    for _ in range(300):
        if world.finished():
            break
        world.step(5)
        assert world.pods.most_down <= 1
    assert {r.spec.playbook.name: r.status.phase for r in world.runs() if r.status.started_at} == {
        GRAVE: "Succeeded",
        "restart-broker": "Succeeded",
    }
    assert sorted(world.pods.restarts) == [0, 1, 2], "each once"
