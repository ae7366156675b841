"""Two KafkaClusters for one Kafka cluster: whatever they are called and wherever they are, one acts."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import timedelta

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.cluster.clock import Skew
from kafka_medic.controller.lease import ClusterLease
from kafka_medic.controller.reconciler import Reconciler
from kafka_medic.controller.store import Store
from kafka_medic.playbook.claims import truly_owes
from kafka_medic.resources.phases import TERMINAL_PHASES
from tests.simulation.serial import one_after_another
from tests.simulation.store import SimStore
from tests.simulation.world import API_VERSION, BASE, World, factor_one_cluster
from tests.thorough import only


@pytest.fixture
def world() -> World:
    world = World(factor_one_cluster())
    world.install()
    return world


def twin(world, created="2025-01-01T00:00:00Z", cluster_id="sim", namespace="elsewhere", mode="Approve", **meta):
    """Another KafkaCluster for the same Kafka, with a finalizer that anybody can set there."""
    body = copy.deepcopy(world.cluster())
    body["metadata"] = {"name": "twin", "namespace": namespace, "creationTimestamp": created, "uid": "uid-twin", **meta}
    body["spec"]["remediation"] = {"mode": mode}
    body["status"] = {"clusterId": cluster_id}
    world.api.put(f"{BASE}/namespaces/{namespace}/kafkaclusters", body)


def acts(world, namespace="elsewhere", about="uid-twin", spec=None, **status):
    """A run of the twin, as its status has it."""
    body = copy.deepcopy(world.api.get(f"{BASE}/namespaces/ns/remediations/{world.run().name}"))
    body["metadata"] = {"name": "its-run", "namespace": namespace}
    body["spec"] = (body["spec"] | {"clusterRef": {"name": "twin", "uid": about}}) | (spec or {})
    body["status"] = {"phase": "Running", "holds": "changes to revert", "restoreOwed": True} | status
    world.api.put(f"{BASE}/namespaces/{namespace}/remediations", body)


def held_back(world):
    """What keeps the run from acting once it is approved; None: nothing does."""
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    for _ in range(5):
        world.step()
    waits = {w.guard: w for w in Store(world.api).remediation("ns", run.name).status.waiting_for}
    assert ("NoOtherKafkaCluster" in waits) == (world.kafka.writes == [])
    return waits["NoOtherKafkaCluster"] if world.kafka.writes == [] else None


@pytest.mark.parametrize("created", ["2025-01-01T00:00:00Z", "2027-01-01T00:00:00Z"])
@pytest.mark.parametrize("finalizers", [[], ["kafkamedic.dev/restore"]])
def test_an_idle_namesake_blocks_nothing(world, created, finalizers):
    twin(world, created=created, finalizers=finalizers)
    assert held_back(world) is None


@pytest.mark.parametrize("namespace", only([1], ["ns", "elsewhere"]))
@pytest.mark.parametrize("created", ["2025-01-01T00:00:00Z", "2027-01-01T00:00:00Z"])
def test_a_namesake_that_owes_a_restore_is_waited_for(world, namespace, created):
    world.until_phase("AwaitingApproval")
    twin(world, namespace=namespace, created=created)
    run = world.run()
    acts(world, namespace=namespace)
    world.approve(run)
    for _ in range(5):
        world.step()
    store = SimStore(world.api)
    waits = {w.guard: w for w in store.remediation("ns", run.name).status.waiting_for}
    assert waits["NoOtherKafkaCluster"].verdict == "Wait"
    assert f"Remediation its-run of KafkaCluster {namespace}/twin acts" in waits["NoOtherKafkaCluster"].message
    assert world.kafka.writes == []
    world.api.delete(f"{BASE}/namespaces/{namespace}/remediations/its-run")
    world.until(lambda: store.remediation("ns", run.name).status.phase == "Succeeded")


@pytest.mark.parametrize(
    ("how", "waited_for"),
    [
        ({}, True),
        ({"holds": "", "restoreOwed": False}, True),  # it is older, and nothing else keeps it from acting
        ({"holds": "", "restoreOwed": False, "waitingFor": [{"guard": "SourcesFresh", "verdict": "Unknown"}]}, False),
        ({"holds": "", "restoreOwed": False, "phase": "Paused"}, False),
        ({"phase": "AwaitingApproval"}, False),
        ({"phase": "Aborted"}, False),
        ({"phase": None}, False),
        ({"about": "uid-of-an-earlier-twin"}, False),
        ({"spec": {"parameters": {"p": 7}}}, True),  # unreadable, and it has begun
        ({"spec": {"parameters": {"p": 7}}, "phase": "Approved"}, False),
        ({"spec": {"parameters": {"p": 7}}, "phase": "Reconciling"}, True),
        ({"spec": {"parameters": {"p": 7}}, "holds": "", "restoreOwed": False}, False),
    ],
)
def test_a_namesakes_own_runs_decide(world, how, waited_for):
    world.until_phase("AwaitingApproval")
    twin(world)
    acts(world, **how)
    assert (held_back(world) is not None) == waited_for


def test_an_unused_claim_lapses(world):
    world.until_phase("AwaitingApproval")
    twin(world, created="2027-01-01T00:00:00Z")
    begun = {"id": "add/throttle", "step": "add", "kind": "ChangeSettings", "state": "Intended"}
    waits = [{"guard": "NoOtherKafkaCluster", "verdict": "Wait"}]
    acts(world, journal=[begun | {"intendedAt": world.timestamp()}], waitingFor=waits)
    assert held_back(world) is not None
    world.until_phase("Succeeded")


@pytest.mark.parametrize("other", [{"cluster_id": "another"}, {"mode": "Observe"}])
def test_another_kafka_or_an_observer_is_no_namesake(world, other):
    """A KafkaCluster for another Kafka, or one in mode Observe, blocks nothing."""
    twin(world, **other)
    assert held_back(world) is None


def test_an_older_namesake_does_not_interrupt_a_run(world):
    """An older KafkaCluster for the same Kafka appears in mid-run. It waits."""
    world.kafka.copies_per_tick = 0
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: any(p.adding for p in world.kafka.partitions.values()))
    twin(world)
    world.kafka.copies_per_tick = 2
    world.until(lambda: not any("throttled" in key[2] for key in world.kafka.dynamic))


@pytest.mark.parametrize("unread", [f"{BASE}/kafkaclusters", f"{BASE}/namespaces/elsewhere/remediations"])
def test_nothing_is_done_while_namesakes_are_unreadable(world, monkeypatch, unread):
    world.until_phase("AwaitingApproval")
    twin(world)
    listed = world.api.list

    def refuse(path, query=None):
        if path == unread:
            raise ApiFailure(500, "no")
        return listed(path, query)

    monkeypatch.setattr(world.api, "list", refuse)
    assert held_back(world).verdict == "Unknown"


@pytest.mark.parametrize("plural", ["kafkaclusters", "remediations"])
def test_an_unreadable_namespace_blocks_no_other(world, monkeypatch, plural):
    """The operator may no longer read one namespace. Runs in other namespaces continue."""
    world.until_phase("AwaitingApproval")
    twin(world)
    acts(world)
    cluster, listed = Store(world.api).cluster("ns", "c"), world.api.list

    def refuse(path, query=None):
        if path == f"{BASE}/namespaces/elsewhere/{plural}":
            raise ApiFailure(403, "no")
        return listed(path, query)

    several, alone = Store(world.api, ["ns", "elsewhere"]), Store(world.api, ["elsewhere"])
    assert several.acting_elsewhere("ns", "c") == ["elsewhere/twin"]
    assert len(several.namesakes(cluster, "sim", world.now)) == 1
    monkeypatch.setattr(world.api, "list", refuse)
    assert several.namesakes(cluster, "sim", world.now) == []
    assert several.acting_elsewhere("ns", "c") == ([] if plural == "remediations" else ["elsewhere/twin"])
    assert alone.namesakes(cluster, "sim", world.now) is None


def test_nothing_is_done_before_namesakes_can_know(world):
    store = Store(world.api)
    assert store.namesakes(store.cluster("ns", "c"), "sim", world.now) is None
    world.step()
    assert store.namesakes(store.cluster("ns", "c"), "sim", world.now) == []
    assert store.namesakes(store.cluster("ns", "c"), None, world.now) is None


def test_only_watched_namespaces_are_read(world):
    world.step()
    world.until_phase("AwaitingApproval")
    twin(world)
    acts(world)
    cluster = Store(world.api).cluster("ns", "c")
    assert Store(world.api, ["ns"]).namesakes(cluster, "sim", world.now) == []
    found = Store(world.api, ["ns", "elsewhere"]).namesakes(cluster, "sim", world.now)
    assert [(n.name, n.run) for n in found] == [("elsewhere/twin", "its-run")]


@pytest.mark.parametrize("first", ["c", "twin"])
@pytest.mark.parametrize("approved", only([0], [["c", "twin"], ["twin", "c"]]))
def test_two_namesakes_act_one_after_the_other(world, first, approved):
    """Two KafkaClusters for one Kafka have an approved run each. They act one after the other. Each with an operator of
    its own, one reconcile after the other, on the same Kafka."""
    world.step()
    twin(world, created="2025-12-31T00:00:00Z")
    theirs = Reconciler("elsewhere", "twin", replace(world.operator().clients), lambda c: lease(world, c))
    store, reconcilers = SimStore(world.api), {"c": world.reconciler, "twin": theirs}
    places = {"c": "ns", "twin": "elsewhere"}

    def run_of(name):
        return next((r for r in store.remediations(places[name], name)[0] if r.spec.cause is not None), None)

    def phases():
        return {name: run.status.phase if (run := run_of(name)) else None for name in places}

    acted = set()
    order = [first, *(name for name in places if name != first)]
    for _ in range(120):
        if set(phases().values()) <= TERMINAL_PHASES:
            break
        for name in order:
            world.api.created_at = world.timestamp()
            world.api.skew = Skew(-0.5, 0.5)
            with one_after_another():
                reconcilers[name].reconcile()
            sent = {n for n in places if (run := run_of(n)) is not None and truly_owes(run.status)}
            assert len(sent) < 2, phases()
            acted |= sent
            world.now += timedelta(seconds=1)
        if set(phases().values()) == {"AwaitingApproval"}:
            for name in approved:
                approve(world, places[name], run_of(name))
        world.kafka.tick()
        world.now += timedelta(seconds=14)
    assert set(phases().values()) <= {"Succeeded", "Superseded"}, phases()
    assert "Succeeded" in phases().values()
    assert acted
    assert sum(write.startswith("reassign") for write in world.kafka.writes) == 1


def lease(world, cluster):
    def monotonic():
        return world.now.timestamp()

    return ClusterLease(world.api, "elsewhere", "twin", cluster.uid or "", "theirs", monotonic)


def approve(world, namespace, run):
    spec = {"remediationRef": {"name": run.name, "uid": run.uid}, "planDigest": run.status.plan.digest}
    spec |= {"decision": "Approve", "approver": "alice"}
    body = {"apiVersion": API_VERSION, "kind": "RemediationApproval", "spec": spec}
    meta = {"name": f"{run.name}-alice", "namespace": namespace, "creationTimestamp": world.timestamp()}
    world.api.put(f"{BASE}/namespaces/{namespace}/remediationapprovals", body | {"metadata": meta})
