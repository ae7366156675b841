"""A status that somebody else wrote: nothing is sent on its word, with and without the admission policies."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kafka_medic.playbook.plan_digest import sealed
from kafka_medic.resources.admission import SETTLED
from kafka_medic.resources.remediation import Remediation
from tests.simulation.world import ADMISSION, BASE, World, factor_one_cluster

RATE = "leader.replication.throttled.rate"
STEP = "add-replicas"
Status = dict[str, Any]


def uninstall(world: World) -> dict[str, dict[str, Any]]:
    """The admission policies, taken away."""
    return {path: world.api.objects.pop(path) for path in [*world.api.objects] if path.startswith(ADMISSION)}


def reinstall(world: World, policies: dict[str, dict[str, Any]]) -> None:
    """The same ones, created now."""
    for path, found in policies.items():
        meta = {"name": found["metadata"]["name"], "creationTimestamp": world.timestamp()}
        world.api.put(path.rpartition("/")[0], found | {"metadata": meta})


@pytest.fixture
def world() -> World:
    world = World(factor_one_cluster())
    world.install()
    world.until_phase("AwaitingApproval")
    return world


def forge(world: World, *changes: Callable[[Status], object]) -> None:
    status = world.api.touch(f"{BASE}/namespaces/ns/remediations/{world.run().name}")["status"]
    for change in changes:
        change(status)


def seal(world: World) -> Callable[[Status], object]:
    """The digest that fits the plan as it was forged."""

    def change(status: Status) -> None:
        path = f"{BASE}/namespaces/ns/remediations/{world.run().name}"
        run = Remediation.parse(world.api.get(path) | {"status": status})
        assert run.status.plan is not None
        status["plan"] = sealed(run, run.status.plan).to_kubernetes()

    return change


def acting(world: World, phase: str = "Blocked") -> Callable[[Status], object]:
    def change(status: Status) -> None:
        status |= {"phase": phase, "startedAt": world.timestamp(), "currentStep": STEP, "restoreOwed": True}
        for step in status["steps"]:
            if step["name"] == STEP:
                step |= {"phase": "Running", "startedAt": world.timestamp()}

    return change


def entry(world: World, id_: str, kind: str, **other: Any) -> dict[str, Any]:
    at = {"state": "Intended", "intendedAt": world.timestamp()}
    return {"id": id_, "step": STEP, "kind": kind} | at | other


def journal(world: World, setting: str = f"BROKER/1/{RATE}", *more: dict[str, Any]) -> Callable[[Status], object]:
    """That a throttle was set over this setting, and that the run is to end."""

    def change(status: Status) -> None:
        throttle = entry(world, f"{STEP}/throttle", "ChangeSettings", saved=[{"name": setting, "value": "1"}])
        give_up = entry(world, "give-up", "GiveUp", target="Aborted", detail="x")
        status["journal"] = [throttle, *more, give_up]

    return change


def rate(status: Status) -> None:
    status["plan"]["throttleBytesPerSecond"] = 1048588


def nothing_written(world: World, reconciles: int = 6) -> Remediation:
    world.kafka.dynamic["BROKER", "1", RATE] = "1048588"
    world.kafka.dynamic["BROKER", "1", "message.max.bytes"] = "1048588"
    world.kafka.writes.clear()
    name = world.run().name
    for _ in range(reconciles):
        world.step()
    assert world.kafka.writes == []
    return next(r for r in world.runs() if r.name == name)


def warned(world: World) -> str:
    return next(message for reason, message in world.api.events if reason == "StatusForged")


@pytest.mark.parametrize("installed", [True, False])
def test_a_plan_that_its_digest_was_not_taken_of(world, installed):
    if not installed:
        uninstall(world)
    forge(world, rate, acting(world), journal(world))
    run = nothing_written(world)
    assert run.status.phase == "Superseded"
    assert "does not match its digest" in run.status.message
    assert run.status.message == warned(world)
    assert any(r.status.phase == "AwaitingApproval" for r in world.runs()), "the operator's own cure is proposed again"


@pytest.mark.parametrize("phase", ["AwaitingApproval", "Approved"])
def test_a_forged_plan_before_approval_is_made_anew(world, phase):
    honest = world.run().status.plan.digest
    forge(world, rate, lambda status: status.update(phase=phase))
    run = nothing_written(world)
    assert run.status.phase == "AwaitingApproval"
    assert run.status.plan.digest == honest
    assert "planned again" in warned(world)


@pytest.mark.parametrize(
    "forged",
    [
        (),  # an honest plan that nobody has approved
        (rate, "seal"),
        (lambda status: status.update(approvedBy="alice"),),
    ],
)
def test_a_forged_journal_writes_nothing(world, forged):
    """A forged journal causes no write, neither without the policies nor once they are back."""
    policies = uninstall(world)
    changes = [seal(world) if change == "seal" else change for change in forged]
    lowered = entry(world, f"{STEP}/rate-0-1048588", "ChangeSettings")
    forge(world, *changes, acting(world), journal(world, f"BROKER/1/{RATE}", lowered))
    run = nothing_written(world)
    assert run.status.phase == "Blocked"
    assert "its status is not trusted" in run.status.message
    assert [w.guard for w in run.status.waiting_for] == ["ApprovalValid"]
    world.now += timedelta(hours=1)
    reinstall(world, policies)
    run = nothing_written(world)
    assert "are younger than the run" in run.status.message
    assert any(reason == "Blocked" for reason, _ in world.api.events)


@pytest.mark.parametrize(
    "setting", ["BROKER/1/message.max.bytes", f"BROKER/9/{RATE}", "TOPIC/other/leader.replication.throttled.replicas"]
)
def test_what_the_plan_does_not_name_is_not_put_back(world, setting):
    kind, resource, name = setting.split("/")
    world.kafka.dynamic[kind, resource, name] = "1048588"
    lowered = entry(world, f"{STEP}/rate-0-1048588", "ChangeSettings")
    forge(world, acting(world), journal(world, setting, lowered))
    run = nothing_written(world)
    assert run.status.phase == "Superseded"
    assert f"would restore {setting}, which is not in its plan" in warned(world)
    assert world.kafka.dynamic[kind, resource, name] == "1048588"


def test_forged_approvals_in_a_status_are_overwritten(world):
    at = world.timestamp()
    word = {"name": "w", "uid": "u", "approver": "alice", "decision": "Approve", "at": at, "counted": True}
    forge(world, lambda status: status.update(phase="Approved", approvedBy="alice", approvals=[word]))
    run = nothing_written(world)
    assert run.status.phase == "AwaitingApproval"
    assert (run.status.approvals, run.status.approved_by) == ((), None)


@pytest.mark.parametrize("phase", ["Running", "Verifying", "Paused"])
def test_a_forged_phase_replaces_no_approval(world, phase):
    forge(world, acting(world, phase))
    assert "waits for 1 approval" in nothing_written(world).status.message


@pytest.mark.parametrize(
    "steps", [[], [{"name": STEP, "action": "ReassignPartitions", "phase": "Succeeded"}], "other action"]
)
def test_forged_steps_are_no_success(world, steps):
    def change(status: Status) -> None:
        if steps == "other action":
            status["steps"][0]["action"] = "RestartBrokers"
        else:
            status["steps"] = steps

    forge(world, acting(world, "Verifying"), change)
    run = nothing_written(world)
    assert run.status.phase == "Superseded"
    assert "the steps in its status are not those of its plan" in warned(world)


def test_a_journal_older_than_the_start_is_not_trusted(world):
    forge(world, lambda status: status.update(restoreOwed=True), journal(world))
    world.approve(world.run())
    world.until_phase("Succeeded")
    assert "give-up" not in {e.id for e in world.run().status.journal}


def test_an_honest_run_waits_until_its_status_is_trusted(world):
    """An honest run waits until its status can be trusted again, then takes back what it set."""
    world.kafka.copies_per_tick = 0
    world.approve(world.run())
    world.until(lambda: any(p.adding for p in world.kafka.partitions.values()))
    policies = uninstall(world)
    world.api.delete(f"{BASE}/namespaces/ns/remediations/{world.run().name}")
    world.until(lambda: "its status is not trusted" in world.run().status.message)
    world.now += timedelta(minutes=10)
    reinstall(world, policies)
    world.until(lambda: "are younger than the run" in world.run().status.message)
    assert any(p.adding for p in world.kafka.partitions.values())
    world.now += SETTLED + timedelta(seconds=5)
    world.api.approvers.add("bob")
    world.approve(world.run(), user="bob")
    world.until(lambda: not world.runs() or world.run().status.phase == "Aborted")
    assert not any(p.adding for p in world.kafka.partitions.values())
    assert not any("throttled" in key[2] for key in world.kafka.dynamic)


def test_auto_starts_no_proposal_older_than_policies():
    """A proposal that is older than the policies is made anew before Auto starts it. What could not be taken back is
    not begun, and Auto needs nobody's word."""
    world = World(factor_one_cluster())
    world.install(remediation={"mode": "Auto", "auto": {"maxPartitions": 0}})
    first = world.until_phase("AwaitingApproval").name
    policies = uninstall(world)
    world.now += timedelta(hours=1)
    reinstall(world, policies)
    world.api.touch(f"{BASE}/namespaces/ns/kafkaclusters/c")["spec"]["remediation"]["auto"] = {"maxPartitions": 100}

    def phases() -> dict[str, str]:
        return {run.name: run.status.phase for run in world.runs()}

    world.until(lambda: phases()[first] == "Superseded")
    assert world.kafka.writes == []
    world.until(lambda: any(name != first and phase == "Succeeded" for name, phase in phases().items()))
