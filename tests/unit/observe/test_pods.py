"""Which Pod is which broker: by ordinal, label or annotation, and no guess where that is not plain."""

from __future__ import annotations

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.clients.ports import ReadFailed
from kafka_medic.observe.pods import broker_pods
from kafka_medic.resources.kafkacluster import Brokers
from tests.simulation.api import SimApi

SELECTOR = {"podSelector": {"matchLabels": {"app": "kafka"}}}


def brokers(**more):
    return Brokers.model_validate({**SELECTOR, **more})


def put(api, name, node="n1", ready="True", **meta):
    api.put(
        "/api/v1/namespaces/ns/pods",
        {
            "metadata": {"name": name, "uid": f"uid-{name}", **meta},
            "spec": {"nodeName": node} if node else {},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        },
    )


@pytest.fixture
def api():
    api = SimApi()
    api.put("/api/v1/nodes", {"metadata": {"name": "n1"}, "spec": {}})
    api.put("/api/v1/nodes", {"metadata": {"name": "n2"}, "spec": {"unschedulable": True}})
    return api


def test_by_ordinal_with_and_without_an_offset(api):
    put(api, "kafka-0")
    put(api, "kafka-11", node="n2", ready="False")
    found = broker_pods(api, "ns", brokers())
    assert {b: (p.name, p.uid, p.ready, p.node, p.cordoned) for b, p in found.items()} == {
        0: ("kafka-0", "uid-kafka-0", True, "n1", False),
        11: ("kafka-11", "uid-kafka-11", False, "n2", True),
    }
    assert set(broker_pods(api, "ns", brokers(idOffset=100))) == {100, 111}


@pytest.mark.parametrize(("source", "field"), [("Label", "labels"), ("Annotation", "annotations")])
def test_by_label_and_by_annotation(api, source, field):
    put(api, "a", **{field: {"strimzi.io/broker-id": "7"}})
    assert set(broker_pods(api, "ns", brokers(idFrom=source, idKey="strimzi.io/broker-id"))) == {7}


def test_two_pods_that_claim_one_id_are_not_told_apart_by_chance(api):
    for name in ("a", "b"):
        put(api, name, labels={"id": "7"})
    with pytest.raises(ReadFailed, match="two Pods claim broker 7"):
        broker_pods(api, "ns", brokers(idFrom="Label", idKey="id"))


@pytest.mark.parametrize("labels", [{}, {"id": "seven"}, {"id": "-1"}, {"id": ""}])
def test_a_selected_pod_without_an_id_is_said_and_not_left_out(api, labels):
    put(api, "a", labels=labels)
    with pytest.raises(ReadFailed, match="Pod a is selected"):
        broker_pods(api, "ns", brokers(idFrom="Label", idKey="id"))


def test_a_pod_that_is_going_is_not_ready_and_one_without_a_node_is_not_cordoned(api):
    put(api, "kafka-0", deletionTimestamp="2026-01-01T00:00:00Z")
    put(api, "kafka-1", node=None)
    found = broker_pods(api, "ns", brokers())
    assert found[0].ready is False
    assert found[1].cordoned is None


def test_an_api_server_that_refuses_is_a_failed_read(api, monkeypatch):
    def refuse(*_):
        raise ApiFailure(403, "nodes is forbidden")

    monkeypatch.setattr(api, "list", refuse)
    with pytest.raises(ReadFailed, match="403"):
        broker_pods(api, "ns", brokers())
