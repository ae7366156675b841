"""Nobody keeps the operator from proposing by asking for the same, or by taking its names beforehand."""

from __future__ import annotations

import copy

import pytest

from kafka_medic.controller.proposals import renamed
from kafka_medic.controller.store import PROPOSE_ATTEMPTS, Store
from kafka_medic.resources.remediation import Remediation
from tests.simulation.world import API_VERSION, BASE, World, factor_one_cluster

REMEDIATIONS = f"{BASE}/namespaces/ns/remediations"


@pytest.fixture
def world() -> World:
    world = World(factor_one_cluster())
    world.install()
    return world


def own(world: World) -> list[Remediation]:
    return [r for r in world.runs() if r.spec.cause is not None]


def take(world: World, name: str, cluster: str = "nobody") -> None:
    spec = {
        "clusterRef": {"name": cluster, "uid": "x"},
        "playbook": {"name": "rolling-restart", "digest": "sha256:" + "0" * 64},
        "requestedBy": "mallory",
    }
    body = {"apiVersion": API_VERSION, "kind": "Remediation", "metadata": {"name": name, "namespace": "ns"}}
    world.put("remediations", body | {"spec": spec})


def next_name() -> str:
    """The name that the operator will use, as anybody can find it out from public fields."""
    twin = World(factor_one_cluster())
    twin.install()
    return twin.until_phase("AwaitingApproval").name


@pytest.mark.parametrize("cluster", ["nobody", "c"])
def test_a_taken_name_is_reported_and_replaced_once(world, cluster):
    name = next_name()
    take(world, name, cluster)
    run = world.until_phase("AwaitingApproval")
    assert run.name != name
    (told,) = [message for reason, message in world.api.events if reason == "NameTaken"]
    assert f"{name} (created by mallory)" in told
    assert run.name in told
    world.operator()  # a restart
    for _ in range(3):
        world.step()
    assert [r.name for r in own(world)] == [run.name]
    world.approve(run)
    world.until(lambda: own(world)[0].status.phase == "Succeeded")


def test_a_crash_after_the_creation_proposes_nothing_twice(world):
    name = next_name()
    take(world, name)
    run = world.until_phase("AwaitingApproval")
    body = world.api.get(f"{REMEDIATIONS}/{run.name}")
    found = {"metadata": {**body["metadata"], "name": name}, "spec": body["spec"]}
    assert Store(world.api).propose(found) == (None, [f"{name} (created by mallory)"])
    assert [r.name for r in own(world)] == [run.name]


def test_a_chain_of_taken_names_ends_in_a_free_one(world):
    """Somebody took a chain of names beforehand. The operator finds the first free one."""
    body = {"metadata": {"name": next_name()}}
    for _ in range(40):
        take(world, body["metadata"]["name"])
        body = renamed(body, world.api.get(f"{REMEDIATIONS}/{body['metadata']['name']}")["metadata"]["uid"])
    assert world.until_phase("AwaitingApproval").name == body["metadata"]["name"]
    (told,) = [message for reason, message in world.api.events if reason == "NameTaken"]
    assert "and 37 more" in told


def test_who_takes_every_name_is_reported(world, monkeypatch):
    """Somebody takes every name within a reconcile. An event names them, and the next reconcile tries again."""
    create, proposals = world.api.create, []

    def squatted(path, body):
        if path == REMEDIATIONS and len(proposals) < PROPOSE_ATTEMPTS:
            proposals.append(body["metadata"]["name"])
            take(world, body["metadata"]["name"])
        return create(path, body)

    monkeypatch.setattr(world.api, "create", squatted)
    world.until(lambda: len(proposals) == PROPOSE_ATTEMPTS)
    assert own(world) == []
    assert len(set(proposals)) == PROPOSE_ATTEMPTS
    allowed = world.condition("RemediationAllowed")
    assert "is taken by" in allowed["message"]
    assert "mallory" in allowed["message"]
    world.step()
    assert len(own(world)) == 1


def test_an_unapproved_request_blocks_nothing(world):
    world.ask("raise-replication-factor", user="mallory")
    world.until(lambda: [r.status.phase for r in own(world)] == ["AwaitingApproval"])
    assert world.run().status.phase == "AwaitingApproval"
    world.approve(own(world)[0])
    world.until(lambda: own(world)[0].status.phase == "Succeeded")


def test_an_acting_request_blocks_a_proposal(world):
    world.kafka.copies_per_tick = 0
    world.ask("raise-replication-factor", user="carol")
    world.step()
    world.until_phase("AwaitingApproval")
    for name in [r.name for r in own(world)]:
        world.api.delete(f"{REMEDIATIONS}/{name}")
    world.approve(world.run())
    world.until_phase("Running")
    before = copy.deepcopy([r.name for r in own(world)])
    for _ in range(4):
        world.step()
    assert [r.name for r in own(world)] == before
