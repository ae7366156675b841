"""A Remediation of a KafkaCluster that is not there is told so, once."""

from __future__ import annotations

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller.events import recorder
from kafka_medic.controller.orphans import Orphans
from kafka_medic.controller.store import Store
from tests.simulation.world import BASE, World, factor_one_cluster

WORD = ("NoKafkaCluster", "KafkaCluster nobody does not exist in this namespace")


@pytest.fixture
def world() -> World:
    world = World(factor_one_cluster())
    world.install()
    return world


def remediation(world: World, cluster: str, phase: str | None = None):
    raw = world.api.get(f"{BASE}/namespaces/ns/remediations/{world.until_phase('AwaitingApproval').name}")
    world.api.events.clear()
    raw["spec"]["clusterRef"]["name"] = cluster
    if phase:
        raw["status"]["phase"] = phase
    return raw


def orphans(world: World) -> Orphans:
    return Orphans(Store(world.api), recorder(world.api))


def test_said_once(world):
    lost, looking = remediation(world, "nobody"), orphans(world)
    looking.check(lost)
    looking.check(lost)
    assert world.api.events == [WORD]


def test_one_that_owes_a_restore_is_told_that_nobody_takes_it_back(world):
    lost = remediation(world, "nobody", "Blocked")
    lost["status"]["restoreOwed"] = True
    orphans(world).check(lost)
    ((_, message),) = world.api.events
    assert "status.journal" in message


def test_one_whose_cluster_is_there_or_that_is_over_is_none(world):
    orphans(world).check(remediation(world, "c"))
    orphans(world).check(remediation(world, "nobody", "Rejected"))
    assert world.api.events == []


def test_one_that_cannot_be_read_and_a_refusing_api_server_end_quietly(world, monkeypatch):
    lost, looking = remediation(world, "nobody"), orphans(world)
    looking.check({**lost, "spec": {}})
    answer = world.api.get

    def refuse(path, query=None):
        raise ApiFailure(403, "no")

    monkeypatch.setattr(world.api, "get", refuse)
    looking.check(lost)
    assert world.api.events == []
    monkeypatch.setattr(world.api, "get", answer)
    looking.check(lost)
    assert world.api.events == [WORD]
