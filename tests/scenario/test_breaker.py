"""The breaker in turns: what waits is dropped, nothing is proposed, and one is tried at a person's word."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafka_medic.resources.phases import Phase
from tests.simulation.world import API_VERSION, BASE, World, factor_one_cluster

LIMITS = {"limits": {"cooldown": "0s"}}


@pytest.fixture
def world() -> World:
    world = World(factor_one_cluster())
    world.install(remediation=LIMITS)
    world.until_phase("AwaitingApproval")
    return world


def failed(world: World, *names: str) -> None:
    """Earlier runs of another playbook, five minutes ago."""
    like = world.api.get(f"{BASE}/namespaces/ns/remediations/{world.run().name}")
    at = (world.now - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for name in names:
        spec = like["spec"] | {"playbook": like["spec"]["playbook"] | {"name": "restart-broker"}}
        meta = {"name": name, "namespace": "ns"}
        body = {"apiVersion": API_VERSION, "kind": "Remediation", "metadata": meta, "spec": spec}
        world.put("remediations", body | {"status": {"phase": "Failed", "startedAt": at, "finishedAt": at}})


def test_an_open_breaker_stops_runs_that_are_approved(world: World) -> None:
    """A run that was approved before the breaker opened does not start."""
    waiting = world.run().name
    world.api.touch(f"{BASE}/namespaces/ns/kafkaclusters/c")["spec"]["remediation"] = LIMITS | {"paused": True}
    world.approve(world.run())
    world.until_phase("Approved")
    failed(world, "a", "b", "c")
    policy = world.api.touch(f"{BASE}/namespaces/ns/kafkaclusters/c")["spec"]
    policy["remediation"] = LIMITS
    for _ in range(4):
        world.step()
    dropped = next(r for r in world.runs() if r.name == waiting)
    assert dropped.status.phase is Phase.SUPERSEDED
    assert "dropped: the last 3 remediations failed or did not cure (a, b, c)" in dropped.status.message
    assert {r.name for r in world.runs()} == {waiting, "a", "b", "c"}, "nothing is proposed to be dropped again"
    told = world.condition("RemediationAllowed")
    assert (told["status"], told["reason"]) == ("False", "BreakerOpen")
    assert "tryAgainAt" in told["message"]
    assert world.kafka.writes == []

    world.api.touch(f"{BASE}/namespaces/ns/kafkaclusters/c")["spec"]["remediation"] = LIMITS | {
        "breaker": {"tryAgainAt": world.timestamp()}
    }
    world.until(lambda: any(r.status.phase is Phase.AWAITING_APPROVAL for r in world.runs()))
    for _ in range(3):
        world.step()
    assert world.kafka.writes == [], "the word on what was dropped is no word on what is proposed now"
    (anew,) = [r for r in world.runs() if r.status.phase is Phase.AWAITING_APPROVAL]
    world.approve(anew)
    world.until(lambda: any(r.status.phase is Phase.SUCCEEDED for r in world.runs()))
    assert world.condition("RemediationAllowed")["reason"] == "Allowed"


def test_after_a_day_one_run_is_proposed_again(world: World) -> None:
    failed(world, "a", "b", "c")
    world.step()
    assert all(r.status.phase in (Phase.SUPERSEDED, Phase.FAILED) for r in world.runs())
    world.now += timedelta(hours=24)
    world.until(lambda: any(r.status.phase is Phase.AWAITING_APPROVAL for r in world.runs()))


def test_a_persons_run_is_dropped_too_with_the_reason(world: World) -> None:
    failed(world, "a", "b", "c")
    world.ask("raise-replication-factor")
    world.step()
    world.step()
    (asked,) = [r for r in world.runs() if r.spec.requested_by]
    assert asked.status.phase is Phase.SUPERSEDED
    assert "The breaker is open until" in asked.status.message
