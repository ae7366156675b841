"""What the watches hear reaches the workers, and a Remediation of nobody's is told so."""

from __future__ import annotations

import asyncio
import itertools

import kopf
import pytest

from kafka_medic.controller.fleet import Fleet
from kafka_medic.controller.handlers import connected, register
from kafka_medic.controller.store import Store
from kafka_medic.controller.watch_audit import WatchAudit
from tests.simulation.world import BASE, World, factor_one_cluster


class FakeReconciler:
    def reconcile(self):
        return 60.0

    def close(self):
        pass


@pytest.fixture
def world() -> World:
    world = World(factor_one_cluster())
    world.install()
    return world


@pytest.fixture
def fleet():
    fleet = Fleet(lambda key: FakeReconciler())  # type: ignore[arg-type, return-value]
    yield fleet
    fleet.stop()


def handlers(fleet, world, watch_audit=None):
    registry = kopf.OperatorRegistry()
    register(registry, fleet, Store(world.api), watch_audit or WatchAudit(dict, fleet))
    found = [*registry._watching.get_all_handlers(), *registry._activities.get_all_handlers()]
    return {h.fn.__name__: h.fn for h in found}


def test_a_remediation_of_no_watched_cluster_is_checked(world, fleet):
    heard = handlers(fleet, world)["remediation_changed"]
    raw = world.api.get(f"{BASE}/namespaces/ns/remediations/{world.until_phase('AwaitingApproval').name}")
    world.api.events.clear()

    def hear(kind, cluster):
        raw["spec"]["clusterRef"]["name"] = cluster
        asyncio.run(heard(type=kind, namespace="ns", spec=raw["spec"], meta=raw["metadata"], body=raw))
        return [reason for reason, _ in world.api.events]

    fleet.present(("ns", "c"), 1)
    assert hear("ADDED", "c") == []
    assert hear("MODIFIED", "nobody") == []
    assert hear("DELETED", "nobody") == []
    assert hear(None, "nobody") == ["NoKafkaCluster"]


def test_a_remediation_that_is_being_deleted_wakes_its_cluster_and_our_own_writes_do_not(world, fleet, monkeypatch):
    heard, woken = handlers(fleet, world)["remediation_changed"], []
    monkeypatch.setattr(fleet, "wake", lambda *cluster: woken.append(cluster))
    fleet.present(("ns", "c"), 1)
    spec = {"clusterRef": {"name": "c"}}
    asyncio.run(heard(type="MODIFIED", namespace="ns", spec=spec, meta={}, body={}))
    assert woken == []
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    asyncio.run(heard(type="MODIFIED", namespace="ns", spec=spec, meta=going, body={}))
    assert woken == [("ns", "c")]


def test_alive_until_a_worker_or_a_watch_stalls(world, fleet, monkeypatch):
    alive = handlers(fleet, world)["alive"]
    assert asyncio.run(alive()) == "ok"
    monkeypatch.setattr(fleet, "stalled", lambda: ["ns/c: its thread has ended"])
    with pytest.raises(kopf.PermanentError, match="its thread has ended"):
        asyncio.run(alive())


def test_not_alive_once_the_watch_owes_a_cluster(world, fleet, monkeypatch):
    watch_audit = WatchAudit(dict, fleet)
    alive = handlers(fleet, world, watch_audit)["alive"]
    monkeypatch.setattr(watch_audit, "missed", lambda: ["KafkaCluster ns/new is missing in the watch for 200 s"])
    with pytest.raises(kopf.PermanentError, match="ns/new is missing in the watch"):
        asyncio.run(alive())


def test_an_api_server_that_is_away_ends_the_operator_only_before_it_has_heard_anything(world, fleet):
    settings = kopf.OperatorSettings()
    its = handlers(fleet, world)
    asyncio.run(its["configure"](settings=settings))
    assert sum(settings.networking.error_backoffs) < 60
    asyncio.run(its["approval_changed"](type="DELETED", namespace="ns", body={"metadata": {"name": "a"}}))
    assert len(list(itertools.islice(settings.networking.error_backoffs, 1000))) == 1000


def test_the_same_credentials_are_the_same_to_kopf_and_others_are_not():
    async def ways(*tokens):
        found = [connected(kopf.ConnectionInfo(server="http://127.0.0.1:1", token=t)) for t in tokens]
        for way in found:
            await way.aiohttp_session.close()
        return found

    refused, again, rotated = asyncio.run(ways("a", "a", "b"))
    assert refused == again
    assert refused != rotated
