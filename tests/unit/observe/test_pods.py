"""Which Pod is which broker: by ordinal, label or annotation, and no guess where that is not plain."""

from __future__ import annotations

import pytest

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.observe.pods import BrokerPods
from kafka_medic.resources.kafkacluster import Brokers
from tests.simulation.api import SimApi

SELECTOR = {"podSelector": {"matchLabels": {"app": "kafka"}}}


def brokers(**more):
    return Brokers.model_validate({**SELECTOR, **more})


def broker_pods(api, namespace, wanted):
    return BrokerPods(api, namespace, wanted).pods()


def put(api, name, node="n1", ready="True", conditions=(), **meta):
    api.put(
        "/api/v1/namespaces/ns/pods",
        {
            "metadata": {"name": name, "uid": f"uid-{name}", **meta},
            "spec": {"nodeName": node} if node else {},
            "status": {"podIP": "10.1.1.1", "conditions": [{"type": "Ready", "status": ready}, *conditions]},
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


@pytest.mark.parametrize(
    ("name", "role", "why"),
    [
        ("my-entity-operator-7d9f-x2x4z", {}, "Pod my-entity-operator-7d9f-x2x4z .* has no broker id"),
        ("my-controllers-3", {"strimzi.io/broker-role": "false"}, "Pod my-controllers-3 .* is none of the brokers"),
    ],
)
def test_a_selector_that_takes_in_other_pods_of_strimzi_is_told_with_the_label_that_is_missing(api, name, role, why):
    """A controller that was taken for a broker is a broker that is down for ever."""
    put(api, "my-brokers-0", labels={"strimzi.io/cluster": "my", "strimzi.io/broker-role": "true"})
    put(api, name, labels={"strimzi.io/cluster": "my", **role})
    every = Brokers.model_validate({"podSelector": {"matchLabels": {"strimzi.io/cluster": "my"}}})
    with pytest.raises(ReadFailed, match=why + ": add strimzi.io/broker-role: 'true' to its matchLabels"):
        broker_pods(api, "ns", every)


@pytest.mark.parametrize("name", ["kafka-broker-0", "k-x2z4b"])
def test_by_what_answers_no_name_counts_and_what_has_not_answered_is_told_apart(api, name):
    put(api, name)
    put(api, "kafka-0")
    answered = {f"uid-{name}": 100}
    seen = BrokerPods(api, "ns", brokers(idFrom="Answer"), answered=answered.get)
    assert {b: p.name for b, p in seen.pods().items()} == {100: name}
    assert [p.name for p in seen.unidentified()] == ["kafka-0"]
    answered["uid-kafka-0"] = 7
    assert set(seen.pods()) == {7, 100}
    assert seen.unidentified() == ()
    answered["uid-kafka-0"] = 100
    with pytest.raises(ReadFailed, match="two Pods claim broker 100"):
        seen.pods()


def test_a_pod_of_another_role_is_said_before_it_is_asked_what_it_is(api):
    put(api, "k", labels={"strimzi.io/cluster": "my", "strimzi.io/broker-role": "false"})
    with pytest.raises(ReadFailed, match="is none of the brokers"):
        broker_pods(api, "ns", brokers(idFrom="Answer"))


KOPERATOR = {"apiVersion": "kafka.banzaicloud.io/v1beta1", "kind": "KafkaCluster", "name": "k", "controller": True}


@pytest.mark.parametrize("name", ["k-0-x2z4b", "k-0-24678"])
def test_the_random_end_of_a_koperator_pods_name_is_no_ordinal(api, name):
    """One name in a thousand ends in five digits."""
    labels = {"app": "kafka", "kafka_cr": "k", "brokerId": "0", "isBrokerNode": "true"}
    put(api, name, labels=labels, ownerReferences=[KOPERATOR])
    with pytest.raises(ReadFailed, match=f"Pod {name} .* has no broker id: set idFrom to Label and idKey to brokerId"):
        broker_pods(api, "ns", brokers())
    assert list(broker_pods(api, "ns", brokers(idFrom="Label", idKey="brokerId"))) == [0]


@pytest.mark.parametrize(
    ("labels", "field", "missing"),
    [
        ({"kafka_cr": "k", "isBrokerNode": "false"}, "brokers", "isBrokerNode: 'true'"),
        ({"kafka_cr": "k", "isControllerNode": "false"}, "controllers", "isControllerNode: 'true'"),
        (
            {"confluent-platform": "true", "platform.confluent.io/type": "kraftcontroller"},
            "brokers",
            "platform.confluent.io/type: kafka",
        ),
        (
            {"confluent-platform": "true", "platform.confluent.io/type": "kafka"},
            "controllers",
            "platform.confluent.io/type: kraftcontroller",
        ),
    ],
)
def test_a_selector_that_takes_in_another_role_is_told_with_the_label_that_is_missing(api, labels, field, missing):
    put(api, "k-0", labels={"id": "0", **labels})
    every = brokers(idFrom="Label", idKey="id")
    with pytest.raises(ReadFailed, match=f"Pod k-0 .* is none of the {field}: add {missing} to its matchLabels"):
        BrokerPods(api, "ns", every, field=field).pods()


def test_a_pod_that_is_going_is_not_ready_and_one_without_a_node_is_not_cordoned(api):
    put(api, "kafka-0", deletionTimestamp="2026-01-01T00:00:00Z")
    put(api, "kafka-1", node=None)
    found = broker_pods(api, "ns", brokers())
    assert found[0].ready is False
    assert found[1].cordoned is None


def test_where_a_pod_answers_and_whether_it_is_told_to_go(api):
    put(api, "kafka-0", deletionTimestamp="2026-01-01T00:00:00Z")
    put(api, "kafka-1")
    found = broker_pods(api, "ns", brokers())
    assert {b: (p.ip, p.deleting) for b, p in found.items()} == {0: ("10.1.1.1", True), 1: ("10.1.1.1", False)}


def node(api, name, taints=(), conditions=(), **more):
    api.put(
        "/api/v1/nodes",
        {
            "metadata": {"name": name, **more},
            "spec": {"taints": [{"key": k, "effect": "NoSchedule"} for k in taints]},
            "status": {"conditions": [{"type": t, "status": s} for t, s in conditions]},
        },
    )


@pytest.mark.parametrize(
    ("setting", "sign"),
    [
        ({"taints": ["ToBeDeletedByClusterAutoscaler"]}, "taint ToBeDeletedByClusterAutoscaler"),
        ({"taints": ["DeletionCandidateOfClusterAutoscaler"]}, "taint DeletionCandidateOfClusterAutoscaler"),
        ({"taints": ["cloud.google.com/impending-node-termination"]}, "taint cloud.google.com/impending-node"),
        ({"taints": ["aws-node-termination-handler/scheduled-maintenance"]}, "taint aws-node-termination-handler/"),
        ({"taints": ["karpenter.sh/disrupted"]}, "taint karpenter.sh/disrupted"),
        ({"conditions": [("VMEventScheduled", "True")]}, "condition VMEventScheduled"),
        ({"labels": {"cloud.google.com/scheduled-maintenance-time": "1"}}, "label cloud.google.com/scheduled"),
        ({"annotations": {"weave.works/kured-reboot-in-progress": "x"}}, "annotation weave.works/kured"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "is being deleted"),
    ],
)
def test_a_node_that_is_about_to_go(api, setting, sign):
    node(api, "n3", **setting)
    put(api, "kafka-0", node="n3")
    (told,) = broker_pods(api, "ns", brokers())[0].maintenance
    assert told.startswith("node n3 ")
    assert sign in told


@pytest.mark.parametrize(
    ("kind", "key", "value", "setting", "told"),
    [
        ("Taint", "x.io/retiring", None, {"taints": ["x.io/retiring"]}, "taint x.io/retiring"),
        ("Label", "pool", "old", {"labels": {"pool": "old"}}, "label pool=old"),
        ("Label", "pool", "old", {"labels": {"pool": "new"}}, None),
        ("Annotation", "x.io/at", None, {"annotations": {"x.io/at": "noon"}}, "annotation x.io/at"),
        ("Condition", "Due", None, {"conditions": [("Due", "True")]}, "condition Due"),
        ("Condition", "Due", None, {"conditions": [("Due", "False")]}, None),
        ("Condition", "Ready", "Unknown", {"conditions": [("Ready", "Unknown")]}, "condition Ready=Unknown"),
        (
            "Taint",
            "karpenter.sh/disrupted",
            None,
            {"taints": ["karpenter.sh/disrupted"]},
            "taint karpenter.sh/disrupted",
        ),
    ],
)
def test_a_sign_that_the_kafkacluster_names(api, kind, key, value, setting, told):
    node(api, "n3", **setting)
    put(api, "kafka-0", node="n3")
    signs = [{"kind": kind, "key": key} | ({} if value is None else {"value": value})]
    found = broker_pods(api, "ns", brokers(maintenanceSigns=signs))[0].maintenance
    assert found == (() if told is None else (f"node n3 has the {told}",)), "each once"


def test_a_sign_on_the_pod_itself(api):
    put(api, "kafka-0", labels={"x.io/leave": "soon"})
    signs = [{"kind": "Label", "key": "x.io/leave"}]
    assert broker_pods(api, "ns", brokers(maintenanceSigns=signs))[0].maintenance == (
        "Pod kafka-0 has the label x.io/leave",
    )


def test_what_is_on_every_node_is_no_sign(api):
    node(
        api, "n3", taints=["dedicated", "node.kubernetes.io/not-ready"],
        conditions=[("Ready", "True"), ("MemoryPressure", "True"), ("VMEventScheduled", "False")],
        labels={"topology.kubernetes.io/zone": "a"}, annotations={"node.alpha.kubernetes.io/ttl": "0"},
    )  # fmt: skip
    put(api, "kafka-0", node="n3")
    pod = broker_pods(api, "ns", brokers())[0]
    assert (pod.maintenance, pod.cordoned, pod.node_ready) == ((), False, True)


def test_the_taint_of_a_cordon_is_a_cordon(api):
    node(api, "n3", taints=["node.kubernetes.io/unschedulable"])
    put(api, "kafka-0", node="n3")
    pod = broker_pods(api, "ns", brokers())[0]
    assert (pod.cordoned, pod.maintenance) == (True, ())


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_node_that_is_not_heard_any_more_is_not_ready(api, status, ready):
    node(api, "n3", conditions=[("Ready", status)])
    put(api, "kafka-0", node="n3")
    assert broker_pods(api, "ns", brokers())[0].node_ready is ready


def test_a_node_that_is_gone_and_one_that_tells_nothing(api):
    put(api, "kafka-0", node="n9")
    put(api, "kafka-1", node="n1")
    found = broker_pods(api, "ns", brokers())
    assert (found[0].cordoned, found[0].node_ready) == (None, False)
    assert found[0].maintenance == ("node n9 no longer exists",)
    assert found[1].node_ready is None


def test_an_eviction_shows_on_the_pod(api):
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    put(api, "kafka-0", conditions=[condition])
    put(api, "kafka-1", conditions=[{**condition, "status": "False"}])
    found = broker_pods(api, "ns", brokers())
    assert found[0].maintenance == ("Pod kafka-0 is to be disrupted (EvictionByEvictionAPI)",)
    assert found[1].maintenance == ()


def test_only_the_nodes_of_the_pods_are_read(api):
    asked = []
    get = api.get
    api.get = lambda path, query=None: asked.append(path) or get(path, query)
    put(api, "kafka-0")
    put(api, "kafka-1")
    broker_pods(api, "ns", brokers())
    assert asked == ["/api/v1/nodes/n1"]


def test_an_api_server_that_refuses_is_a_failed_read(api, monkeypatch):
    def refuse(*_):
        raise ApiFailure(403, "nodes is forbidden")

    monkeypatch.setattr(api, "list", refuse)
    with pytest.raises(ReadFailed, match="403"):
        broker_pods(api, "ns", brokers())
