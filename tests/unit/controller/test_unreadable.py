"""What this version cannot read is told so on the object, once for each version of it."""

from __future__ import annotations

import pytest

from kafka_medic.controller.events import recorder
from kafka_medic.controller.unreadable import Unreadable
from kafka_medic.resources.approval import RemediationApproval
from kafka_medic.resources.playbook import Playbook
from tests.simulation.world import World, factor_one_cluster
from tests.thorough import only, thorough


@pytest.fixture
def world() -> World:
    world = World(factor_one_cluster())
    world.install()
    return world


def broken(world: World, generation: int = 1):
    run = world.until_phase("AwaitingApproval")
    world.approve(run, "alice", "Reject", oddField=1)
    raw = world.api.get(f"/apis/kafkamedic.dev/v1alpha1/namespaces/ns/remediationapprovals/{run.name}-alice-reject")
    raw["metadata"]["generation"] = generation
    world.api.events.clear()
    return raw


def test_said_once_for_each_version_with_the_field(world):
    unreadable, raw = Unreadable(recorder(world.api)), broken(world)
    unreadable.check(RemediationApproval, raw)
    unreadable.check(RemediationApproval, raw)
    ((reason, message),) = world.api.events
    assert reason == "Unreadable"
    assert "spec.oddField" in message
    unreadable.check(RemediationApproval, {**raw, "metadata": {**raw["metadata"], "generation": 2}})
    assert len(world.api.events) == 2
    unreadable.forget(raw)
    unreadable.check(RemediationApproval, raw)
    assert len(world.api.events) == 3


def test_what_can_be_read_is_not_spoken_of(world):
    raw = broken(world)
    del raw["spec"]["oddField"]
    Unreadable(recorder(world.api)).check(RemediationApproval, raw)
    assert world.api.events == []


def test_of_what_has_no_namespace_the_event_is_where_the_api_server_takes_it(world, monkeypatch):
    sent = []
    monkeypatch.setattr(world.api, "create", lambda path, body: sent.append((path, body["metadata"]["namespace"])))
    Unreadable(recorder(world.api)).check(Playbook, {"metadata": {"name": "odd", "uid": "u"}, "spec": 7})
    assert sent == [("/api/v1/namespaces/default/events", "default")]


def test_the_run_waits_with_the_reason_and_goes_on_when_it_is_gone(world):
    run = world.until_phase("AwaitingApproval")
    broken(world)
    world.approve(run)
    for _ in range(5):
        world.step()
    assert world.kafka.writes == []
    waits = [w for w in world.run().status.waiting_for if w.guard == "ApprovalValid"]
    assert [w.verdict for w in waits] == ["Unknown"]
    assert f"{run.name}-alice-reject" in waits[0].message
    assert "spec.oddField" in waits[0].message
    world.api.delete(f"/apis/kafkamedic.dev/v1alpha1/namespaces/ns/remediationapprovals/{run.name}-alice-reject")
    world.until_phase("Succeeded")


@thorough
@pytest.mark.parametrize(
    "other",
    only([0], [{"planDigest": "sha256:" + "0" * 64}, {"remediationRef": {"name": "another", "uid": "another"}}]),
)
def test_one_that_is_clearly_about_something_else_holds_nothing(world, other):
    run = world.until_phase("AwaitingApproval")
    world.approve(run, "alice", "Reject", oddField=1, **other)
    world.approve(run)
    world.until_phase("Succeeded")


def test_one_that_says_nothing_of_what_it_is_about_may_be_about_this(world):
    run = world.until_phase("AwaitingApproval")
    world.approve(run, "alice", "Reject", remediationRef=7, planDigest=None)
    world.approve(run)
    for _ in range(5):
        world.step()
    assert world.kafka.writes == []
