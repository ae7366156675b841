"""Strimzi's resources, with the operator's own rights: whether a roll is under way, how one is asked for, and what a
KafkaCluster with `spec.strimzi` stands for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kafka_medic.clients.broker_pods import ASKED_FOR, StrimziPods
from kafka_medic.clients.failures import WriteFailed
from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi
from kafka_medic.clients.own_rights import OwnRights
from kafka_medic.clients.topic_objects import KafkaTopics
from kafka_medic.cluster.min_isr import MIN_ISR
from kafka_medic.cluster.owners import OwnerObject
from kafka_medic.cluster.snapshot import OwnerState, TopicOwner
from kafka_medic.controller.store import Store
from kafka_medic.controller.strimzi import with_strimzi
from kafka_medic.observe.owner_kinds import CORRECTED
from kafka_medic.observe.pods import BrokerPods
from kafka_medic.observe.topic_owners import NOT_GRANTED, topic_owners
from kafka_medic.resources.kafkacluster import STRIMZI_ROLL, KafkaCluster
from tests.incident.operator import kubeconfig
from tests.integration.people import create, created, placed, refused
from tests.integration.people import patch as patched
from tests.testbed import apply, get, kubectl, wait_for
from tests.unit.resources.sources import smallest

NAMESPACE = "strimzi-pods"
GROUP, KAFKA_GROUP = "core.strimzi.io", "kafka.strimzi.io"
OF_A = {"strimzi.io/cluster": "a"}


def custom_type(group: str, kind: str, **version: Any) -> dict[str, Any]:
    singular = kind.lower()
    any_fields = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": f"{singular}s", "singular": singular},
            "versions": [{"name": "v1beta2", "served": True, "storage": True, "schema": any_fields, **version}],
        },
    }


OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TOPIC_SPEC = {
    "topicName": {"type": "string"},
    "partitions": {"type": "integer", "minimum": 1},
    "replicas": {"type": "integer", "minimum": 1, "maximum": 32767},
    "config": OPEN,
}
TOPIC = {"type": "object", "properties": {"spec": {"type": "object", "properties": TOPIC_SPEC}, "status": OPEN}}
"""As Strimzi 1.2.0 types its KafkaTopic."""
KAFKA_TOPIC = {"schema": {"openAPIV3Schema": TOPIC}, "subresources": {"status": {}}}
OTHERS = ("kafka.banzaicloud.io", "v1alpha1"), ("platform.confluent.io", "v1beta1")
TYPES = [
    custom_type(GROUP, "StrimziPodSet"),
    custom_type(KAFKA_GROUP, "Kafka", subresources={"status": {}}),
    custom_type(KAFKA_GROUP, "KafkaRebalance"),
    custom_type(KAFKA_GROUP, "KafkaNodePool"),
    custom_type(KAFKA_GROUP, "KafkaUser"),
    custom_type(KAFKA_GROUP, "KafkaTopic", **KAFKA_TOPIC),
    *(custom_type(group, "KafkaTopic", name=version) for group, version in OTHERS),
]


@pytest.fixture(scope="module")
def api(operator: str, pod: str, tmp_path_factory: pytest.TempPathFactory) -> KubernetesApi:
    """As the operator, with the rights that the chart gives with strimzi.enabled and strimzi.topics=edit."""
    _, _, where, account = operator.split(":")
    rights = {
        "operator-annotates": ("--verb=patch", "--resource=pods,kafkas.kafka.strimzi.io"),
        "operator-edits-topics": ("--verb=get,patch", "--resource=kafkatopics.kafka.strimzi.io"),
    }
    for name, right in rights.items():
        kubectl("-n", NAMESPACE, "create", "role", name, *right)
        bound = (f"--role={name}", f"--serviceaccount={where}:{account}")
        kubectl("-n", NAMESPACE, "create", "rolebinding", name, *bound)
    return KubernetesApi.of_person(str(kubeconfig(tmp_path_factory.mktemp("o") / "kubeconfig", account, where)))[0]


@pytest.fixture(scope="module")
def pod(chart: None) -> Iterator[str]:
    """The uid of a broker's Pod that no node has room for: nothing of it has to run."""
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=60s")
    kubectl("create", "namespace", NAMESPACE)
    apply(TYPES)
    names = [each["metadata"]["name"] for each in TYPES]
    kubectl("wait", "crd", *names, "--for=condition=Established", "--timeout=30s")
    apply([kafka_resource("one")])
    held = {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": "StrimziPodSet",
        "metadata": {"name": "kafka", "namespace": NAMESPACE, "labels": OF_A},
        "status": {"observedGeneration": 1, "pods": 3, "currentPods": 2},
    }
    stored = json.loads(kubectl("create", "-f", "-", "-o", "json", input=json.dumps(held)).stdout)
    owner = {"apiVersion": held["apiVersion"], "kind": "StrimziPodSet", "name": "kafka", "controller": True}
    owners = [owner | {"uid": stored["metadata"]["uid"]}]
    meta = {"name": "kafka-0", "namespace": NAMESPACE, "labels": {"app": "kafka", **OF_A}, "ownerReferences": owners}
    spec = {"containers": [{"name": "kafka", "image": "none"}], "nodeSelector": {"no": "node"}}
    apply([{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}])
    yield get("pod", "kafka-0", namespace=NAMESPACE)["metadata"]["uid"]
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    kubectl("delete", "crd", *names, "--wait=false")


def kafka_resource(setting: str) -> dict[str, Any]:
    meta = {"name": "a", "namespace": NAMESPACE}
    return {"apiVersion": f"{KAFKA_GROUP}/v1beta2", "kind": "Kafka", "metadata": meta, "spec": {"setting": setting}}


def acted_on() -> None:
    """As Strimzi says that it has acted on what the Kafka resource has now."""
    stored = kubectl("get", "kafkas.kafka.strimzi.io", "a", "-n", NAMESPACE, "-o", "json").stdout
    generation = json.loads(stored)["metadata"]["generation"]
    status = json.dumps({"status": {"observedGeneration": generation}})
    kubectl(
        "patch", "kafkas.kafka.strimzi.io", "a", "-n", NAMESPACE, "--subresource=status", "--type=merge", "-p", status
    )


def broker_pods(api: KubernetesApi, rights: OwnRights | None = None) -> BrokerPods:
    raw = smallest("KafkaCluster")
    raw["spec"]["brokers"] = {"podSelector": {"matchLabels": {"app": "kafka"}}, "restart": "StrimziAnnotation"}
    brokers = KafkaCluster.parse(raw).spec.brokers
    assert brokers is not None
    return BrokerPods(api, NAMESPACE, brokers, rights.rules if rights else lambda: None)


def test_a_roll_of_strimzis_is_seen(api: KubernetesApi, pod: str) -> None:
    acted_on()
    pods = broker_pods(api)
    assert list(pods.pods()) == [0]
    (rollout,) = pods.rollouts()
    assert (rollout.kind, rollout.name, rollout.reason) == (
        "StrimziPodSet",
        "kafka",
        "2 of 3 Pods at the latest revision",
    )


def test_what_strimzi_does_for_its_kafka_resource_is_seen_with_the_charts_rights(api: KubernetesApi, pod: str) -> None:
    acted_on()
    apply([kafka_resource("another")])  # as a change of a setting that brokers read when they start
    pods = broker_pods(api)
    pods.pods()
    assert ("Kafka", "a") in {(r.kind, r.name) for r in pods.rollouts()}
    acted_on()
    assert [r.kind for r in pods.rollouts()] == ["StrimziPodSet"]
    conditions = {"conditions": [{"type": "Rebalancing", "status": "True"}]}
    rebalance = {"apiVersion": f"{KAFKA_GROUP}/v1beta2", "kind": "KafkaRebalance", "status": conditions}
    apply([rebalance | {"metadata": {"name": "r", "namespace": NAMESPACE, "labels": OF_A}}])
    assert [r.kind for r in pods.rollouts()] == ["KafkaRebalance", "StrimziPodSet"]


def test_a_restart_is_asked_of_strimzi_for_this_very_pod(api: KubernetesApi, pod: str) -> None:
    def asked() -> str | None:
        notes: dict[str, str] = get("pod", "kafka-0", namespace=NAMESPACE)["metadata"].get("annotations", {})
        return notes.get(STRIMZI_ROLL)

    pods = StrimziPods(api, NAMESPACE)
    pods.replace_pod("kafka-0", "the-uid-of-one-before")
    assert asked() is None
    before = _kafka_of_a()["metadata"]
    pods.replace_pod("kafka-0", pod)
    assert asked() == "true"
    now = _kafka_of_a()["metadata"]
    assert now["resourceVersion"] != before["resourceVersion"], "so that Strimzi looks at once"
    assert ASKED_FOR not in now.get("annotations", {}), "and nothing stays behind"
    assert broker_pods(api).pods()[0].restart_asked is True
    # And is called off on this very Pod alone, once or twice.
    pods.keep_pod("kafka-0", "the-uid-of-one-before")
    assert asked() == "true"
    kubectl("annotate", "pod", "kafka-0", "-n", NAMESPACE, "somebody=else")
    for _ in range(2):
        pods.keep_pod("kafka-0", pod)
        assert asked() is None
    assert get("pod", "kafka-0", namespace=NAMESPACE)["metadata"]["annotations"]["somebody"] == "else"
    assert broker_pods(api).pods()[0].restart_asked is False
    pods.keep_pod("kafka-9", pod)  # a Pod that is gone asks for nothing


def _kafka_of_a() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        kubectl("get", "kafkas.kafka.strimzi.io", "a", "-n", NAMESPACE, "-o", "json").stdout
    )
    return found


def test_whether_the_operator_may_ask_is_told_by_the_api_server_before_it_does(api: KubernetesApi, pod: str) -> None:
    assert broker_pods(api, OwnRights(api, NAMESPACE)).pods()[0].hindrance is None
    elsewhere = broker_pods(api, OwnRights(api, "default")).pods()[0].hindrance or ""
    assert "the operator may not annotate Pod kafka-0: set strimzi.enabled" in elsewhere


def test_the_api_server_refuses_a_patch_with_another_pods_uid_by_its_field(api: KubernetesApi, pod: str) -> None:
    """What `StrimziPods` takes for `another Pod by now`: 422 Invalid, and no other reason that it may have."""
    body = {"metadata": {"uid": "the-uid-of-one-before", "annotations": {STRIMZI_ROLL: None}}}
    with pytest.raises(ApiFailure, match=r"metadata\.uid: Invalid value") as refused:
        api.merge(f"/api/v1/namespaces/{NAMESPACE}/pods/kafka-0", body)
    assert refused.value.status == 422


def test_nothing_else_of_a_kafka_resource_is_changed(api: KubernetesApi, pod: str) -> None:
    """With a stolen token."""
    path = f"/apis/{KAFKA_GROUP}/v1beta2/namespaces/{NAMESPACE}/kafkas/a"
    for change in (
        {"spec": {"setting": "of a thief"}},
        {"metadata": {"labels": {"more": "x"}}},
        {"metadata": {"annotations": {"strimzi.io/pause-reconciliation": "true"}}},
        {"metadata": {"finalizers": ["mallory.example.com/stay"]}},
    ):
        with pytest.raises(ApiFailure, match="restart-asked-for of a Kafka resource"):
            api.merge(path, change)


def whole_kafka() -> list[dict[str, Any]]:
    """As Strimzi leaves its resources: one listener, for users with a certificate."""
    kind = {"apiVersion": f"{KAFKA_GROUP}/v1beta2"}
    listener = {"name": "mutual", "port": 9094, "type": "internal", "tls": True, "authentication": {"type": "tls"}}
    of_my = {"labels": {"strimzi.io/cluster": "my"}, "namespace": NAMESPACE}
    return [
        kind | {"kind": "Kafka", "metadata": {"name": "my", "namespace": NAMESPACE}}
        | {"spec": {"kafka": {"listeners": [listener]}}},
        kind | {"kind": "KafkaNodePool", "metadata": of_my | {"name": "dual"}}
        | {"spec": {"roles": ["controller", "broker"]}, "status": {"nodeIds": [0, 1, 2]}},
        kind | {"kind": "KafkaUser", "metadata": of_my | {"name": "medic"}}
        | {"spec": {"authentication": {"type": "tls"}}, "status": {"secret": "medic", "username": "CN=medic"}},
    ]  # fmt: skip


def test_a_kafkacluster_of_one_line_is_completed_and_its_status_written(api: KubernetesApi, pod: str) -> None:
    apply(whole_kafka())
    known = {"status": {"listeners": [{"name": "mutual", "bootstrapServers": "my-kafka-bootstrap:9094"}]}}
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps(known))
    kubectl("patch", "kafkas.kafka.strimzi.io", "my", "-n", NAMESPACE, *patch)
    line = placed("KafkaCluster", NAMESPACE, bootstrapServers=None, strimzi={"cluster": "my", "user": "medic"})
    stored = created(line)
    store = Store(api, [NAMESPACE])
    cluster, found = with_strimzi(api, store.typed(KafkaCluster, stored))
    assert found is not None
    assert cluster.spec.bootstrap_servers == "my-kafka-bootstrap:9094"
    assert (found.protocol, found.secrets) == ("SSL", ("my-cluster-ca-cert", "medic"))
    assert [(p.name, p.roles, p.ids) for p in found.pools] == [("dual", ("broker", "controller"), (0, 1, 2))]
    store.write_status(cluster, cluster.status.model_copy(update={"strimzi": found}))
    after = json.loads(kubectl("get", "kafkaclusters", cluster.name, "-n", NAMESPACE, "-o", "json").stdout)
    assert after["status"]["strimzi"]["listener"] == "mutual"
    assert after["spec"].keys() == stored["spec"].keys(), "spec is people's alone"


def test_a_kafkacluster_says_where_kafka_is(pod: str) -> None:
    nowhere = placed("KafkaCluster", NAMESPACE, bootstrapServers=None)
    refused(create(nowhere), "bootstrapServers and strimzi are both missing; set one of them")


def test_its_author_may_get_the_secrets_that_it_stands_for(pod: str, role: str) -> None:
    kubectl("-n", NAMESPACE, "create", "rolebinding", "fay-edits", f"--clusterrole={role}-editor", "--user=fay")
    may = ("auth", "can-i", "create", "kafkaclusters", "-n", NAMESPACE, "--as=fay")
    wait_for("fay's right", lambda: kubectl(*may, check=False).stdout.strip() == "yes", seconds=30)
    ca = placed("KafkaCluster", NAMESPACE, bootstrapServers=None, strimzi={"cluster": "my", "user": "medic"})
    refused(
        create(ca, "--as=fay"), "user fay may not get Secret my-cluster-ca-cert in namespace strimzi-pods, which spec"
    )
    get = ("--verb=get", "--resource=secrets", "--resource-name=my-cluster-ca-cert")
    kubectl("-n", NAMESPACE, "create", "role", "gets-the-ca", *get)
    kubectl("-n", NAMESPACE, "create", "rolebinding", "gets-the-ca", "--role=gets-the-ca", "--user=fay")
    may = ("auth", "can-i", "get", "secrets/my-cluster-ca-cert", "-n", NAMESPACE, "--as=fay")
    wait_for("fay's right", lambda: kubectl(*may, check=False).stdout.strip() == "yes", seconds=30)
    refused(create(ca, "--as=fay"), "user fay may not get Secret medic in namespace strimzi-pods")
    stored = created(placed("KafkaCluster", NAMESPACE, bootstrapServers="mine:9092"), "--as=fay")
    refused(
        patched(stored, {"spec": {"strimzi": {"cluster": "my", "user": "medic"}}}, "--as=fay"), "may not get Secret"
    )
    created(placed("KafkaCluster", NAMESPACE, bootstrapServers=None, strimzi={"cluster": "my"}), "--as=fay")


def kafka_topic(name: str, **spec: Any) -> OwnerObject:
    """As a person applies it."""
    kind = {"apiVersion": f"{KAFKA_GROUP}/v1beta2", "kind": "KafkaTopic"}
    meta = {"name": name, "namespace": NAMESPACE, "labels": {"strimzi.io/cluster": "my"}}
    spec = {"partitions": 3, "replicas": 1, "config": {"retention.ms": 1000, "min.insync.replicas": 1}} | spec
    apply([kind | {"metadata": meta, "spec": spec}])
    return OwnerObject("KafkaTopic", name, topic_object(name)["metadata"]["uid"])


def topic_object(name: str) -> dict[str, Any]:
    found = kubectl("get", "kafkatopics.kafka.strimzi.io", name, "-n", NAMESPACE, "-o", "json").stdout
    stored: dict[str, Any] = json.loads(found)
    return stored


OF_MY = {"strimzi.io/cluster": "my"}


def test_kafkatopics_are_read_with_the_charts_rights(api: KubernetesApi, pod: str) -> None:
    read = kafka_topic("orders", topicName="Orders", config={"min.insync.replicas": 2})
    rights = OwnRights(api, NAMESPACE)
    assert topic_owners(api, NAMESPACE, {"strimzi.io/cluster": "another"}) == ()
    (owner,) = topic_owners(api, NAMESPACE, OF_MY, rights.may)
    assert owner == TopicOwner("Orders", "KafkaTopic", "orders", acts=True, factor=1, min_isr=2, uid=read.uid)
    # Not Ready yet, then as the Topic Operator reports.
    status = {"observedGeneration": 1, "conditions": [{"type": "ReconciliationPaused", "status": "True"}]}
    what = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    orders = ("kafkatopics.kafka.strimzi.io", "orders", "-n", NAMESPACE)
    kubectl("patch", *orders, *what)
    kubectl("annotate", *orders, "strimzi.io/pause-reconciliation=true")
    (owner,) = topic_owners(api, NAMESPACE, OF_MY, rights.may)
    assert (owner.acts, owner.paused, owner.state, owner.hindrance) == (False, True, OwnerState.PAUSED, None)
    (owner,) = topic_owners(api, NAMESPACE, OF_MY, OwnRights(api, "default").may)
    assert owner.hindrance == NOT_GRANTED
    kubectl("delete", *orders)


def test_a_kafkatopic_is_paused_edited_and_resumed_and_nothing_else_of_it_changes(api: KubernetesApi, pod: str) -> None:
    owner, topics = kafka_topic("raised"), KafkaTopics(api, NAMESPACE)
    before = topic_object("raised")
    for _ in range(2):
        topics.pause(owner)
    topics.edit(owner, {"replicas": ("1", "3"), "min.insync.replicas": ("1", "2")})
    topics.edit(owner, {"replicas": ("1", "3"), "min.insync.replicas": ("1", "2")})
    stored = topic_object("raised")
    assert stored["metadata"]["annotations"]["strimzi.io/pause-reconciliation"] == "true"
    assert stored["spec"] == before["spec"] | {
        "replicas": 3,
        "config": {"retention.ms": 1000, "min.insync.replicas": 2},
    }
    assert stored["metadata"]["generation"] == before["metadata"]["generation"] + 1
    with pytest.raises(WriteFailed, match=r"has replicas 3 \(planned from: 2\)"):
        topics.edit(owner, {"replicas": ("2", "4")})
    for _ in range(2):
        topics.resume(owner)
    assert topic_object("raised")["metadata"].get("annotations", {}) == before["metadata"].get("annotations", {})
    # Another object of that name is left alone.
    topics.pause(OwnerObject("KafkaTopic", "raised", "another-uid"))
    assert "strimzi.io/pause-reconciliation" not in topic_object("raised")["metadata"].get("annotations", {})
    topics.pause(OwnerObject("KafkaTopic", "gone", "uid"))


def test_nothing_else_of_a_kafkatopic_can_be_changed(api: KubernetesApi, pod: str) -> None:
    """With a stolen token."""
    kafka_topic("guarded", replicas=3, config={"retention.ms": 1000, "min.insync.replicas": 2})
    path = f"/apis/{KAFKA_GROUP}/v1beta2/namespaces/{NAMESPACE}/kafkatopics/guarded"
    for change in (
        {"spec": {"partitions": 9}},
        {"spec": {"topicName": "another"}},
        {"spec": {"config": {"retention.ms": 1}}},
        {"spec": {"config": {"cleanup.policy": "compact"}}},
        {"spec": {"config": None}},
        {"spec": {"replicas": None}},
        {"spec": None},
        {"metadata": {"labels": {"strimzi.io/cluster": "another"}}},
        {"metadata": {"annotations": {"strimzi.io/managed": "false"}}},
        {"metadata": {"annotations": {"strimzi.io/pause-reconciliation": "false"}}},
        {"metadata": {"finalizers": ["mallory.example.com/stay"]}},
    ):
        with pytest.raises(ApiFailure, match="may change only these fields of a KafkaTopic"):
            api.merge(path, change)
    with pytest.raises(ApiFailure, match=r"may not lower spec\.replicas"):
        api.merge(path, {"spec": {"replicas": 2}})
    with pytest.raises(ApiFailure, match="cannot delete resource"):
        api._call("DELETE", path)
    api.merge(path, {"spec": {"replicas": 4, "config": {MIN_ISR: 3}}})


@pytest.mark.parametrize(
    ("present", "wrong", "right"),
    [
        (2, (1, 0, -1, "1", "3", 100, 2.5, None, {"a": 1}), 3),
        ("2", (1, 2, "1", "02", "3", 100), 3),
        ("3", (2,), 99),
        (None, (1, 0, "2"), 2),
        ("none", (1, 2, "2"), None),
        (" 1", (1, 2), None),
        (100, (2, 99), None),
        ({"a": 1}, (2,), None),
    ],
)
def test_a_minimum_is_raised_to_a_small_number_and_never_lowered(
    api: KubernetesApi, pod: str, present: object, wrong: Sequence[object], right: int | None
) -> None:
    """With a stolen token, and as the operator does: it edits only numbers, and only to a larger one."""
    name = "minimum"
    kubectl("delete", "kafkatopics.kafka.strimzi.io", name, "-n", NAMESPACE, "--ignore-not-found")
    owner = kafka_topic(name, config={"retention.ms": 1000} | ({MIN_ISR: present} if present is not None else {}))
    path = f"/apis/{KAFKA_GROUP}/v1beta2/namespaces/{NAMESPACE}/kafkatopics/{name}"
    for value in wrong:
        with pytest.raises(ApiFailure, match="of a KafkaTopic"):
            api.merge(path, {"spec": {"config": {MIN_ISR: value}}})
    assert topic_object(name)["spec"]["config"].get(MIN_ISR) == present
    if right is not None:
        before = None if present is None else str(present)
        KafkaTopics(api, NAMESPACE).edit(owner, {MIN_ISR: (before, str(right))})
        assert topic_object(name)["spec"]["config"][MIN_ISR] == right
    # A person's own edits are none of this policy's business.
    lower = json.dumps({"spec": {"config": {MIN_ISR: 1}}})
    kubectl("patch", "kafkatopics.kafka.strimzi.io", name, "-n", NAMESPACE, "--type=merge", "-p", lower)


@pytest.mark.parametrize("value", ["2", "none", " 1", 100, {"a": 1}])
def test_the_pause_goes_on_and_off_whatever_the_owner_has_written(api: KubernetesApi, pod: str, value: object) -> None:
    owner, topics = kafka_topic("worded", config={MIN_ISR: value}), KafkaTopics(api, NAMESPACE)
    topics.pause(owner)
    assert topic_object("worded")["metadata"]["annotations"]["strimzi.io/pause-reconciliation"] == "true"
    topics.resume(owner)
    assert "strimzi.io/pause-reconciliation" not in topic_object("worded")["metadata"].get("annotations", {})
    with pytest.raises(ApiFailure, match=r"nor set min\.insync\.replicas"):
        api.merge(
            f"/apis/{KAFKA_GROUP}/v1beta2/namespaces/{NAMESPACE}/kafkatopics/worded", {"spec": {"config": {MIN_ISR: 0}}}
        )


def test_topics_of_other_operators_are_read_and_never_edited(api: KubernetesApi, pod: str) -> None:
    meta = {"name": "orders", "namespace": NAMESPACE}
    specs = ({"name": "Orders", "clusterRef": {"name": "kafka"}, "config": {MIN_ISR: "1"}}, {"configs": {MIN_ISR: "1"}})
    for (group, version), spec in zip(OTHERS, specs, strict=True):
        apply([{"apiVersion": f"{group}/{version}", "kind": "KafkaTopic", "metadata": meta, "spec": spec}])
    may = OwnRights(api, NAMESPACE).may
    (koperator,) = topic_owners(api, NAMESPACE, {"kafka_cr": "kafka"}, may)
    assert (koperator.topic, koperator.acts, koperator.min_isr, koperator.factor) == ("Orders", True, 1, None)
    assert "does not edit" in (koperator.hindrance or "")
    assert topic_owners(api, NAMESPACE, {"kafka_cr": "another"}, may) == ()
    (confluent,) = topic_owners(api, NAMESPACE, {"platform.confluent.io/type": "kafka"}, may)
    assert not confluent.acts, "it leaves alone what others change, unless told to correct it"
    kubectl("annotate", "kafkatopics.platform.confluent.io", "orders", "-n", NAMESPACE, f"{CORRECTED}=true")
    (confluent,) = topic_owners(api, NAMESPACE, {"platform.confluent.io/type": "kafka"}, may)
    assert confluent.acts
