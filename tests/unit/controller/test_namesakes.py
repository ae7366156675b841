"""Two KafkaClusters for one Kafka cluster: whatever they are called and wherever they are, one acts."""

from __future__ import annotations

import copy

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller.store import Store
from tests.simulation.world import BASE, World, factor_one_cluster
from tests.thorough import only


@pytest.fixture
def world() -> World:
    world = World(factor_one_cluster())
    world.install()
    return world


def twin(world, created="2025-01-01T00:00:00Z", cluster_id="sim", namespace="elsewhere", owes=False, mode="Approve"):
    body = copy.deepcopy(world.cluster())
    body["metadata"] = {"name": "twin", "namespace": namespace, "creationTimestamp": created}
    body["metadata"] |= {"finalizers": ["kafkamedic.dev/restore"]} if owes else {}
    body["spec"]["remediation"] = {"mode": mode}
    body["status"] = {"clusterId": cluster_id}
    world.api.put(f"{BASE}/namespaces/{namespace}/kafkaclusters", body)


def held_back(world):
    world.approve(world.until_phase("AwaitingApproval"))
    for _ in range(5):
        world.step()
    waits = {w.guard: w for w in world.run().status.waiting_for}
    assert ("NoOtherKafkaCluster" in waits) == (world.kafka.writes == [])
    return waits["NoOtherKafkaCluster"] if world.kafka.writes == [] else None


@pytest.mark.parametrize("namespace", only([1], ["ns", "elsewhere"]))
def test_the_younger_waits_and_names_the_older(world, namespace):
    twin(world, namespace=namespace)
    wait = held_back(world)
    assert wait.verdict == "Wait"
    assert f"{namespace}/twin" in wait.message
    world.api.delete(f"{BASE}/namespaces/{namespace}/kafkaclusters/twin")
    world.until_phase("Succeeded")


def test_the_older_waits_for_a_younger_one_that_is_in_the_middle_of_it(world):
    twin(world, created="2027-01-01T00:00:00Z", owes=True)
    assert "elsewhere/twin" in held_back(world).message


@pytest.mark.parametrize("other", [{"created": "2027-01-01T00:00:00Z"}, {"cluster_id": "another"}, {"mode": "Observe"}])
def test_one_that_is_younger_another_kafka_or_only_looks_is_not_waited_for(world, other):
    twin(world, **other)
    assert held_back(world) is None


def test_an_older_one_that_turns_up_in_the_middle_is_not_let_in_between(world):
    world.kafka.copies_per_tick = 0
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: any(p.adding for p in world.kafka.partitions.values()))
    twin(world)
    world.kafka.copies_per_tick = 2
    world.until(lambda: not any("throttled" in key[2] for key in world.kafka.dynamic))


def test_nothing_is_done_while_the_others_cannot_be_read(world, monkeypatch):
    listed = world.api.list

    def refuse(path, query=None):
        if path == f"{BASE}/kafkaclusters":
            raise ApiFailure(403, "no")
        return listed(path, query)

    monkeypatch.setattr(world.api, "list", refuse)
    assert held_back(world).verdict == "Unknown"


def test_nor_before_the_others_can_know_of_this_one(world):
    store = Store(world.api)
    assert store.namesakes(store.cluster("ns", "c"), "sim") is None
    world.step()
    assert store.namesakes(store.cluster("ns", "c"), "sim") == []
    assert store.namesakes(store.cluster("ns", "c"), None) is None


def test_only_the_namespaces_that_are_watched_are_looked_at(world):
    world.step()
    twin(world)
    cluster = Store(world.api).cluster("ns", "c")
    assert Store(world.api, ["ns"]).namesakes(cluster, "sim") == []
    assert [n.name for n in Store(world.api, ["ns", "elsewhere"]).namesakes(cluster, "sim")] == ["elsewhere/twin"]
