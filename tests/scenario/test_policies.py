"""What was created while the admission policies did not stand never counts, whatever stands later."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from kafka_medic.resources.phases import Phase
from tests.simulation.world import ADMISSION, POLICIES, World, factor_one_cluster

BINDING = f"{ADMISSION}/validatingadmissionpolicybindings/{POLICIES[0].name}"


@pytest.fixture
def world() -> World:
    w = World(factor_one_cluster())
    w.install()
    w.until_phase("AwaitingApproval")
    return w


def steps(world: World, count: int = 6) -> None:
    for _ in range(count):
        world.step()


def reinstalled(world: World) -> None:
    world.install_policies(before=timedelta(0))


def edited_back(world: World) -> None:
    world.install_policies(before=timedelta(hours=1))
    world.api.touch(BINDING)["metadata"]["generation"] = 3


@pytest.mark.parametrize("back", [reinstalled, edited_back])
def test_an_approval_without_policies_never_counts(world: World, back: Callable[[World], None]) -> None:
    """Nothing checked whose name is in it."""
    first = world.run()
    world.uninstall_policies()
    world.step()
    world.approve(first, user="alice")
    steps(world)
    assert world.run().status.phase == Phase.AWAITING_APPROVAL
    back(world)
    steps(world)
    assert world.kafka.writes == []


def test_a_plan_from_before_the_policies_is_proposed_anew(world: World) -> None:
    """A plan that was approved without the policies is proposed anew, and counts once it is approved again."""
    first = world.run()
    world.uninstall_policies()
    world.step()
    world.approve(first, user="alice")
    world.step()
    reinstalled(world)
    world.step()
    world.until(lambda: any(r.status.phase == Phase.AWAITING_APPROVAL for r in world.runs()))
    old, new = sorted(world.runs(), key=lambda r: str(r.metadata.creation_timestamp))
    assert old.status.phase == Phase.SUPERSEDED
    assert "so its requester is not proven" in old.status.message
    assert world.kafka.writes == []
    world.approve(new)
    world.until_phase("Succeeded")


def test_auto_ignores_a_forged_cause() -> None:
    """Without policies anybody who may create a Remediation may name a finding as its cause."""
    w = World(factor_one_cluster())
    w.install()
    w.until_phase("AwaitingApproval")
    made_up = w.run()
    w.uninstall_policies()
    path = f"/apis/kafkamedic.dev/v1alpha1/namespaces/ns/kafkaclusters/{w.cluster()['metadata']['name']}"
    w.api.touch(path)["spec"]["remediation"] = {"mode": "Auto"}
    steps(w, 3)
    assert w.kafka.writes == []
    w.now += timedelta(hours=1)
    reinstalled(w)
    w.step()
    (old,) = (r for r in w.runs() if r.uid == made_up.uid)
    assert old.status.phase == Phase.SUPERSEDED


def test_a_run_under_way_stops_until_it_is_deleted(world: World) -> None:
    """What it has set is taken back, and no effect follows."""
    world.kafka.copies_per_tick = 0
    world.approve(world.run())
    world.until(lambda: any(w.startswith("configs") for w in world.kafka.writes))
    world.uninstall_policies()
    world.step()
    reinstalled(world)
    done = len(world.kafka.writes)
    steps(world)
    run = world.run()
    assert run.status.phase == Phase.BLOCKED
    assert "approve its plan again, then delete it: the operator then reverts what it set" in run.status.message
    assert world.kafka.writes[done:] == []


def test_a_missing_policy_is_named_on_the_kafkacluster(world: World) -> None:
    del world.api.objects[BINDING]
    steps(world, 2)
    told = world.condition("RemediationAllowed")
    assert (told["status"], told["reason"]) == ("False", "PoliciesMissing")
    assert f"{POLICIES[0].name}: not installed; run helm upgrade" in told["message"]
