"""What the operator's own token is worth to a thief, verb by verb: each attack beside what the operator itself does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_medic.clients.broker_pods import EvictedPods, StrimziPods
from kafka_medic.clients.kubernetes_api import ApiFailure, custom_path
from kafka_medic.controller.lease import ClusterLease
from kafka_medic.resources.kafkacluster import STRIMZI_ROLL
from kafka_medic.resources.vocabulary import RESTORE_FINALIZER
from tests.integration.operated_cluster import Person, persons
from tests.integration.people import RELEASE, Object, created, helm, placed
from tests.testbed import apply, kubectl, wait_for
from tests.unit.resources.sources import CHART

KAFKA, OTHERS = "stolen-kafka", "stolen-others"
SPEC = {"containers": [{"name": "c", "image": "none"}], "nodeSelector": {"no": "node"}}
PODS, LEASES = "/api/v1/namespaces/{}/pods", "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


@pytest.fixture(scope="module")
def thief(operator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """With the operator's token. Restarts are allowed in one namespace of two, in which Strimzi's Pods may be annotated
    (strimzi.enabled with watchNamespaces)."""
    names = (KAFKA, OTHERS)
    kubectl("delete", "namespace", *names, "--ignore-not-found", "--timeout=60s")
    for name in names:
        kubectl("create", "namespace", name)
        kubectl("-n", name, "create", "serviceaccount", "default", check=False)
    kubectl("label", "namespace", KAFKA, "kafkamedic.dev/restarts=allowed")
    account = f"--serviceaccount={operator.split(':')[2]}:{operator.split(':')[3]}"
    kubectl("-n", KAFKA, "create", "role", "annotates", "--verb=patch", "--resource=pods")
    kubectl("-n", KAFKA, "create", "rolebinding", "annotates", "--role=annotates", account)
    yield persons(tmp_path_factory.mktemp("operator"), operator)["operator"]
    kubectl("delete", "namespace", *names, "--wait=false")


def pod(namespace: str, name: str = "kafka-0") -> str:
    """The uid of a Pod that no node has room for: nothing of it has to run."""
    meta = {"name": name, "namespace": namespace, "labels": {"app": "kafka"}, "annotations": {"somebody": "else"}}
    apply([{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": SPEC}])
    found: Object = json.loads(kubectl("get", "pod", name, "-n", namespace, "-o", "json").stdout)
    return str(found["metadata"]["uid"])


def there(namespace: str, name: str = "kafka-0") -> bool:
    return kubectl("get", "pod", name, "-n", namespace, check=False).returncode == 0


def refused(why: str, attempt: Any, *args: Any) -> None:
    with pytest.raises(ApiFailure) as told:
        attempt(*args)
    assert told.value.status in (403, 422), told.value
    assert why in told.value.message


def eviction(namespace: str, name: str, **options: Any) -> tuple[str, Object]:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    return f"{PODS.format(namespace)}/{name}/eviction", body | ({"deleteOptions": options} if options else {})


def test_evictions_where_no_broker_may_be_restarted(thief: Person) -> None:
    """Whatever Pod it is, and the operator's own way to evict too; kube-system has no label either."""
    uid = pod(OTHERS)
    why = f"may not evict Pods in namespace {OTHERS}; label the namespace kafkamedic.dev/restarts=allowed"
    refused(why, thief.create, *eviction(OTHERS, "kafka-0", preconditions={"uid": uid}))
    refused("may not evict Pods in namespace kube-system", thief.create, *eviction("kube-system", "any"))
    assert there(OTHERS)


def test_evictions_of_other_kinds_than_the_operators(thief: Person) -> None:
    uid = pod(KAFKA)
    why = "only by its uid and with the Pod's own grace period"
    refused(why, thief.create, *eviction(KAFKA, "kafka-0"))
    refused(why, thief.create, *eviction(KAFKA, "kafka-0", preconditions={"uid": uid}, gracePeriodSeconds=0))
    assert there(KAFKA)
    EvictedPods(thief, KAFKA).replace_pod("kafka-0", uid)
    wait_for("the Pod to go", lambda: not there(KAFKA), seconds=30)


def test_a_drain_by_somebody_else_is_none_of_these_policies_business(thief: Person) -> None:
    """The administrator evicts wherever Kubernetes lets them."""
    pod(OTHERS, "app-0")
    path, body = eviction(OTHERS, "app-0")
    kubectl("create", "--raw", path, "-f", "-", input=json.dumps(body))
    wait_for("the Pod to go", lambda: not there(OTHERS, "app-0"), seconds=30)


def test_evictions_of_pods_that_are_not_listed(thief: Person, operator: str) -> None:
    """restartablePods: RBAC knows the Pods by name. A release of its own, so that the chart in force stays as it is."""
    release, account = "listed", f"system:serviceaccount:{KAFKA}:listed-kafka-medic"
    values = ("--set", f"restartablePods[0].namespace={KAFKA}", "--set", "restartablePods[0].names={kafka-0}")
    chart = helm("template", release, str(CHART), "-n", KAFKA, *values, "-s", "templates/operator-rbac.yaml").stdout
    kubectl("apply", "-f", "-", input=chart)
    try:
        may = ("auth", "can-i", "create", f"--as={account}", "-n", KAFKA, "--subresource=eviction")
        wait_for("the roles", lambda: kubectl(*may, "pods/kafka-0", check=False).returncode == 0, seconds=30)
        for other in ("pods/app-0", "pods"):
            assert kubectl(*may, other, check=False).stdout.strip() == "no", other
    finally:
        kubectl("delete", "-f", "-", input=chart)


def test_leases_of_others(thief: Person) -> None:
    """Those by which nodes say that they live, and by which others elect their leader."""
    spec = {"holderIdentity": "thief", "leaseDurationSeconds": 3600}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "controller"}, "spec": spec}
    why = "may hold only Leases named kafka-medic-CLUSTER and kafka-medic.starts, not "
    refused(f"{why}controller", thief.create, LEASES.format(OTHERS), lease)
    node = json.loads(kubectl("get", "nodes", "-o", "json").stdout)["items"][0]["metadata"]["name"]
    theirs = thief.get(f"{LEASES.format('kube-node-lease')}/{node}")
    theirs["spec"]["holderIdentity"] = "thief"
    refused(f"{why}{node}", thief.replace, f"{LEASES.format('kube-node-lease')}/{node}", theirs)
    cluster = created(placed("KafkaCluster", KAFKA))["metadata"]
    own = ClusterLease(thief, KAFKA, cluster["name"], cluster["uid"], "the-operator")
    assert own.hold()
    assert own.confirm() is True
    own.close()


def test_patches_of_pods(thief: Person) -> None:
    uid = pod(KAFKA, "kafka-1")
    path = f"{PODS.format(KAFKA)}/kafka-1"
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}
    containers = thief.list(PODS.format(KAFKA))[-1]["spec"]["containers"]
    for change in (
        {"spec": {"containers": [containers[0] | {"image": "mallory/miner"}]}},
        {"spec": {"activeDeadlineSeconds": 1}},
        {"metadata": {"labels": {"app": "another"}}},
        {"metadata": {"labels": {"more": "x"}}},
        {"metadata": {"annotations": {"more": "x"}}},
        {"metadata": {"annotations": {"somebody": "changed"}}},
        {"metadata": {"annotations": {"somebody": None}}},
        {"metadata": {"annotations": {STRIMZI_ROLL: "false"}}},
        {"metadata": {"finalizers": ["mallory.example.com/stay"]}},
        {"metadata": {"ownerReferences": [owner]}},
    ):
        refused("may change only the annotation strimzi.io/manual-rolling-update of a Pod", thief.merge, path, change)
    pods = StrimziPods(thief, KAFKA)
    pods.replace_pod("kafka-1", uid)
    assert thief.list(PODS.format(KAFKA))[-1]["metadata"]["annotations"][STRIMZI_ROLL] == "true"
    pods.keep_pod("kafka-1", uid)
    path = f"{PODS.format(OTHERS)}/kafka-0"
    refused("cannot patch resource", thief.merge, path, {"metadata": {"labels": {"a": "b"}}})


def test_specs_finalizers_and_other_metadata(thief: Person) -> None:
    stored = created(placed("KafkaCluster", KAFKA))["metadata"]
    path = custom_path("kafkaclusters", KAFKA, stored["name"])
    for change, why in (
        ({"spec": {"remediation": {"mode": "Auto"}}}, "may not change spec; only people write spec"),
        ({"metadata": {"labels": {"a": "b"}}}, "no metadata except its finalizer"),
        ({"metadata": {"annotations": {"a": "b"}}}, "no metadata except its finalizer"),
        ({"metadata": {"finalizers": ["mallory.example.com/stay"]}}, "no metadata except its finalizer"),
    ):
        refused(why, thief.merge, path, change)
    thief.merge(path, {"metadata": {"finalizers": [RESTORE_FINALIZER]}})
    thief.merge(path, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (PODS.format(KAFKA), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "miner"}, "spec": SPEC}),
        (custom_path("remediationapprovals", KAFKA), placed("RemediationApproval", KAFKA)),
        (custom_path("kafkaclusters", KAFKA), placed("KafkaCluster", KAFKA)),
        (f"/api/v1/namespaces/{KAFKA}/secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}),
        ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}),
    ],
)
def test_what_it_has_no_right_for(thief: Person, path: str, body: Object) -> None:
    refused("cannot create resource", thief.create, path, body)


def test_secrets_are_read_only_where_the_chart_says(thief: Person) -> None:
    kubectl("-n", KAFKA, "create", "secret", "generic", "database", "--from-literal=password=x")
    refused("cannot get resource", thief.get, f"/api/v1/namespaces/{KAFKA}/secrets/database")
    refused("cannot list resource", thief.list, f"/api/v1/namespaces/{KAFKA}/secrets")
    refused("cannot get resource", thief.get, "/api/v1/namespaces/kube-system/secrets/any")


def test_strimzi_needs_namespaces_to_watch() -> None:
    done = helm("template", RELEASE, str(CHART), "--set", "strimzi.enabled=true", check=False)
    assert done.returncode != 0
    assert "strimzi.enabled needs watchNamespaces" in done.stderr
    helm("template", RELEASE, str(CHART), "--set", "strimzi.enabled=true", "--set", "watchNamespaces={kafka}")
