"""Kafka that neither Strimzi nor a plain StatefulSet runs, each shape as its project has it, on the real API server:
real StatefulSets and rights, Kafka in memory. docs/platforms.md names where each shape is described."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation_plan import Restarts
from tests.integration.operated_cluster import OperatedCluster, Person, persons
from tests.integration.owned_pods import CONTAINERS, NODE, OwnedCluster, node_without_kubelet
from tests.integration.people import Done, Object, people
from tests.integration.test_strimzi_pods import custom_type
from tests.simulation.brokers import MIN_ISR
from tests.simulation.kafka import SimKafka
from tests.simulation.world import NO_ELECTIONS
from tests.testbed import apply, get, wait_for
from tests.testbed import kubectl as in_testbed

NAMESPACE = "other-owners"
CONFLUENT, KOPERATOR = "platform.confluent.io", "kafka.banzaicloud.io"


KUBECTL_CACHE = tempfile.TemporaryDirectory(prefix="kubectl-")
"""kubectl keeps for hours which kinds there are. Koperator's KafkaCluster is there for this module alone."""


def kubectl(*arguments: str, **how: Any) -> Done:
    return in_testbed(f"--cache-dir={KUBECTL_CACHE.name}", *arguments, **how)


def served(group: str, kind: str, version: str) -> Object:
    made = custom_type(group, kind, subresources={"status": {}})
    made["spec"]["versions"][0]["name"] = version
    return made


TYPES = [
    served(CONFLUENT, "Kafka", "v1beta1"),
    served(CONFLUENT, "KRaftController", "v1beta1"),
    served(CONFLUENT, "KafkaTopic", "v1beta1"),
    served(KOPERATOR, "KafkaCluster", "v1beta1"),
    served(KOPERATOR, "KafkaTopic", "v1alpha1"),
]


@pytest.fixture(scope="module")
def known(role: str, operator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Person]]:
    """alice approves, bob asks."""
    names = [each["metadata"]["name"] for each in TYPES]
    with people(NAMESPACE, role), node_without_kubelet():
        apply(TYPES)
        kubectl("wait", "crd", *names, "--for=condition=Established", "--timeout=30s")
        may = ("auth", "can-i", "create", "pods", "--subresource=eviction", "-n", NAMESPACE, f"--as={operator}")
        wait_for("the operator's rights", lambda: kubectl(*may, check=False).returncode == 0, seconds=30)
        yield persons(tmp_path_factory.mktemp("operator"), operator, "admin", "alice", "bob")
        kubectl("delete", "statefulsets,pods", "--all", "-n", NAMESPACE, "--force", "--grace-period=0")
    kubectl("delete", "crd", *names)


def kafka_of(*brokers: int, apart: tuple[int, ...] = ()) -> SimKafka:
    kafka = SimKafka(
        racks={b: "abc"[place % 3] for place, b in enumerate(brokers)},
        controllers=set(apart),
        voted=apart[0] if apart else None,
    )
    for first in range(3):
        kafka.topic(f"orders-{first}", [brokers[(first + n) % len(brokers)] for n in range(3)])
        kafka.dynamic["TOPIC", f"orders-{first}", MIN_ISR] = "2"
    kafka.writes.clear()
    return kafka


def stateful_set(name: str, replicas: int, labels: dict[str, str], owner: Object | None = None) -> Object:
    meta: Object = {"name": name, "namespace": NAMESPACE, "labels": labels}
    if owner is not None:
        reference = {key: owner[key] for key in ("apiVersion", "kind")}
        reference |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}
        meta["ownerReferences"] = [reference]
    pod = {"containers": CONTAINERS, "nodeName": NODE, "terminationGracePeriodSeconds": 30}
    spec = {
        "replicas": replicas,
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}


def ordinal(pod: Object) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def stored(kind: str, group: str, name: str, **more: Any) -> Object:
    """A resource of another project's, as the API server keeps it."""
    meta = {"name": name, "namespace": NAMESPACE}
    status = more.pop("status", None)
    body = {"apiVersion": f"{group}/v1beta1", "kind": kind, "metadata": meta, "spec": {"replicas": 3}, **more}
    found: Object = json.loads(kubectl("create", "-f", "-", "-o", "json", input=json.dumps(body)).stdout)
    if status is not None:
        says(kind, group, name, status)
    return found


def says(kind: str, group: str, name: str, status: Object) -> None:
    """As that project's operator writes it."""
    patch = json.dumps({"status": status})
    resource = f"{kind.lower()}s.{group}"
    kubectl("patch", resource, name, "-n", NAMESPACE, "--subresource=status", "--type=merge", "-p", patch)


def rolled(cluster: OwnedCluster, order: list[int]) -> None:
    """A whole rolling restart that two people want: each node once, never two away, and at the end nothing is amiss."""
    name = cluster.approved()
    plan = cluster.run(name).status.plan
    assert plan is not None
    assert [r.broker for r in plan.part(Restarts).restarts] == order
    before = {cluster.kubelet.node_of(pod): pod["metadata"]["uid"] for pod in cluster.kubelet.pods()}
    ended = cluster.ends(name)
    assert ended.status.phase is Phase.SUCCEEDED, cluster.why(name)
    assert cluster.kubelet.restarted == order
    assert cluster.kubelet.most_away == 1
    after = {cluster.kubelet.node_of(pod): pod["metadata"]["uid"] for pod in cluster.kubelet.pods()}
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
    cluster.reconcile()
    assert cluster.conditions()["RestartsPossible"] == ("True", "")
    assert cluster.conditions()["Reachable"][0] == "True", cluster.conditions()


def held(cluster: OwnedCluster, change: Callable[[], None], words: str) -> str:
    """An approved roll waits for what somebody else does, and says so. Its name."""
    name = cluster.approved()
    change()
    cluster.reconcile(4)
    assert words in cluster.why(name), cluster.why(name)
    assert cluster.kubelet.restarted == []
    return name


@pytest.fixture
def owned(known: dict[str, Person]) -> Iterator[Any]:
    made: list[OwnedCluster] = []

    def build(name: str, kafka: SimKafka, node_of: Any, **spec: Any) -> OwnedCluster:
        made.append(OwnedCluster(known, NAMESPACE, name, kafka, node_of, **spec))
        return made[-1]

    yield build
    for each in made:
        each.close()
        each.leave()
    kubectl("delete", "statefulsets,pods", "--all", "-n", NAMESPACE, "--force", "--grace-period=0")


BITNAMI = {"app.kubernetes.io/name": "kafka", "app.kubernetes.io/instance": "my", "app.kubernetes.io/part-of": "kafka"}


def bitnami(component: str) -> dict[str, str]:
    return {**BITNAMI, "app.kubernetes.io/component": component, "app.kubernetes.io/managed-by": "Helm"}


def in_bitnami(pod: Object) -> int | None:
    """`minId` of the chart: 0 for controller-eligible nodes, 100 for brokers alone."""
    if pod["metadata"].get("labels", {}).get("app.kubernetes.io/instance") != "my":
        return None
    return ordinal(pod) + (100 if "-broker-" in pod["metadata"]["name"] else 0)


def test_two_statefulsets_with_an_offset_each_are_rolled_by_what_answers(owned: Any) -> None:
    """Bitnami's chart: brokers in the controller-eligible StatefulSet and in one of their own."""
    apply([
        stateful_set("my-kafka-controller", 3, bitnami("controller-eligible")),
        stateful_set("my-kafka-broker", 2, bitnami("broker")),
    ])  # fmt: skip
    kafka = kafka_of(0, 1, 2, 100, 101)
    component = {"key": "app.kubernetes.io/component", "operator": "In", "values": ["controller-eligible", "broker"]}
    brokers = {"podSelector": {"matchLabels": BITNAMI, "matchExpressions": [component]}, "idFrom": "Answer"}
    cluster = owned("bitnami", kafka, in_bitnami, brokers=brokers)
    cluster.expect(5)
    cluster.reconcile()
    assert cluster.conditions()["RestartsPossible"] == ("True", "")
    rolled(cluster, [1, 2, 100, 101, 0])


def test_by_ordinal_two_statefulsets_claim_the_same_broker_and_that_is_said(owned: Any) -> None:
    apply([
        stateful_set("my-kafka-controller", 3, bitnami("controller-eligible")),
        stateful_set("my-kafka-broker", 2, bitnami("broker")),
    ])  # fmt: skip
    cluster = owned(
        "claims", kafka_of(0, 1, 2, 100, 101), in_bitnami, brokers={"podSelector": {"matchLabels": BITNAMI}}
    )
    cluster.expect(5)
    cluster.reconcile()
    status, message = cluster.conditions()["RestartsPossible"]
    assert status == "Unknown"
    assert "two Pods claim broker" in message
    assert cluster.conditions()["Ready"][0] == "Unknown"


def test_a_change_of_a_statefulset_is_waited_for(owned: Any) -> None:
    apply([stateful_set("my-kafka-controller", 3, bitnami("controller-eligible"))])
    brokers = {"podSelector": {"matchLabels": BITNAMI}}
    cluster = owned("updating", kafka_of(0, 1, 2), in_bitnami, brokers=brokers)
    cluster.expect(3)
    name = cluster.approved()
    changed = {"spec": {"template": {"metadata": {"annotations": {"checksum/configuration": "another"}}}}}
    kubectl("patch", "statefulset", "my-kafka-controller", "-n", NAMESPACE, "-p", json.dumps(changed))
    told = set()
    for _ in range(60):
        cluster.reconcile(1)
        told.add(cluster.why(name))
        if len(cluster.kubelet.restarted) == 3 and len(cluster.kubelet.ready()) == 3:
            break
    assert any("StatefulSet my-kafka-controller is being rolled out" in why for why in told), told
    # Kubernetes has replaced every Pod, so the plan is not of these Pods any more.
    assert sorted(cluster.kubelet.restarted) == [0, 1, 2]
    assert cluster.kubelet.most_away == 1
    assert cluster.ends(name).status.phase is not Phase.SUCCEEDED


def of_confluent(name: str) -> dict[str, str]:
    """The labels that Confluent for Kubernetes gives the Pods of a component."""
    kind = "kraftcontroller" if name.startswith("kraft") else "kafka"
    return {
        "app": name,
        "clusterId": NAMESPACE,
        "confluent-platform": "true",
        "platform.confluent.io/type": kind,
        "type": kind,
    }


def in_confluent(pod: Object) -> int | None:
    name = pod["metadata"]["name"]
    return ordinal(pod) + 9990 if name.startswith("kraftcontroller-") else ordinal(pod) if "kafka-" in name else None


@pytest.fixture
def confluent(owned: Any) -> Iterator[OwnedCluster]:
    seen = {"observedGeneration": 1, "phase": "RUNNING"}
    controller = stored("KRaftController", CONFLUENT, "kraftcontroller", status=seen)
    broker = stored("Kafka", CONFLUENT, "kafka", status=seen)
    apply([
        stateful_set("kraftcontroller", 3, of_confluent("kraftcontroller"), controller),
        stateful_set("kafka", 3, of_confluent("kafka"), broker),
    ])  # fmt: skip
    one = {"clusterId": NAMESPACE, "confluent-platform": "true"}
    cluster = owned(
        "confluent",
        kafka_of(0, 1, 2, apart=(9990, 9991, 9992)),
        in_confluent,
        brokers={"podSelector": {"matchLabels": one | {"platform.confluent.io/type": "kafka"}}},
        controllers={
            "podSelector": {"matchLabels": one | {"platform.confluent.io/type": "kraftcontroller"}},
            "idOffset": 9990,
        },
    )
    cluster.expect(6)
    yield cluster
    kubectl("delete", f"kafkas.{CONFLUENT},kraftcontrollers.{CONFLUENT}", "--all", "-n", NAMESPACE)


def test_brokers_and_controllers_of_confluent_for_kubernetes_are_rolled(confluent: OwnedCluster) -> None:
    rolled(confluent, [9991, 9992, 9990, 0, 1, 2])


def test_what_confluent_for_kubernetes_has_not_acted_on_is_waited_for(confluent: OwnedCluster) -> None:
    """A roll by hand is a change of the Kafka resource: `kafkacluster-manual-roll` in its podTemplate."""

    def rolls() -> None:
        kubectl("patch", f"kafkas.{CONFLUENT}", "kafka", "-n", NAMESPACE, "--type=merge", "-p", json.dumps(roll))

    roll = {"spec": {"podTemplate": {"annotations": {"kafkacluster-manual-roll": "1"}}}}
    name = held(confluent, rolls, "Kafka kafka is being rolled out: its latest change has not been acted on yet")
    says("Kafka", CONFLUENT, "kafka", {"observedGeneration": 2})
    kubectl("annotate", f"kafkas.{CONFLUENT}", "kafka", "-n", NAMESPACE, "platform.confluent.io/block-reconcile=true")
    confluent.reconcile(3)
    assert "its reconciliation is blocked" in confluent.why(name)
    kubectl("annotate", f"kafkas.{CONFLUENT}", "kafka", "-n", NAMESPACE, "platform.confluent.io/block-reconcile-")
    assert confluent.ends(name).status.phase is Phase.SUCCEEDED, confluent.why(name)


def test_a_selector_of_confluents_that_takes_in_controllers_is_said(confluent: OwnedCluster) -> None:
    every = {"podSelector": {"matchLabels": {"confluent-platform": "true"}}}
    confluent.admin.merge(confluent.path("kafkaclusters", confluent.name), {"spec": {"brokers": None}})
    confluent.admin.merge(confluent.path("kafkaclusters", confluent.name), {"spec": {"brokers": every}})
    confluent.reconcile()
    status, message = confluent.conditions()["RestartsPossible"]
    assert status == "Unknown"
    assert "add platform.confluent.io/type: kafka to its matchLabels" in message


KOPERATOR_IN_SYNC = {
    "configurationState": "ConfigInSync",
    "gracefulActionState": {"cruiseControlState": "GracefulUpscaleSucceeded"},
}


class Koperator:
    """What Koperator does about Pods: one for each node of its KafkaCluster, made anew when it is gone."""

    def __init__(self, nodes: dict[int, str]) -> None:
        self.nodes = nodes
        states = {str(node): KOPERATOR_IN_SYNC for node in nodes}
        self.resource = stored(
            "KafkaCluster", KOPERATOR, "k", status={"state": "ClusterRunning", "brokersState": states}
        )

    def __call__(self) -> None:
        pods = json.loads(kubectl("get", "pods", "-n", NAMESPACE, "-l", "kafka_cr=k", "-o", "json").stdout)["items"]
        there = {int(pod["metadata"]["labels"]["brokerId"]) for pod in pods}
        for node in sorted(self.nodes.keys() - there):
            kubectl("create", "-f", "-", input=json.dumps(self.pod(node)))

    def pod(self, node: int) -> Object:
        roles = self.nodes[node]
        of_controller = "controller-" if "controller" in roles else ""
        labels = {
            "app": "kafka",
            "kafka_cr": "k",
            "brokerId": str(node),
            "processRoles": roles,
            "isBrokerNode": str("broker" in roles).lower(),
            "isControllerNode": str("controller" in roles).lower(),
        }
        owner = {
            "apiVersion": f"{KOPERATOR}/v1beta1",
            "kind": "KafkaCluster",
            "name": "k",
            "uid": self.resource["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        meta: Object = {"generateName": f"k-{of_controller}{node}-", "namespace": NAMESPACE, "labels": labels}
        meta["ownerReferences"] = [owner]
        spec = {"containers": CONTAINERS, "nodeName": NODE, "restartPolicy": "Never"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def in_koperator(pod: Object) -> int | None:
    labels = pod["metadata"].get("labels", {})
    return int(labels["brokerId"]) if labels.get("kafka_cr") == "k" else None


@pytest.fixture
def koperator(owned: Any) -> Iterator[OwnedCluster]:
    nodes = {0: "broker", 1: "broker", 2: "broker", 10: "controller", 11: "controller", 12: "controller"}
    by_label = {"idFrom": "Label", "idKey": "brokerId"}
    cluster = owned(
        "k",
        kafka_of(0, 1, 2, apart=(10, 11, 12)),
        in_koperator,
        brokers={"podSelector": {"matchLabels": {"kafka_cr": "k", "isBrokerNode": "true"}}, **by_label},
        controllers={
            "podSelector": {"matchLabels": {"kafka_cr": "k", "isControllerNode": "true", "isBrokerNode": "false"}},
            **by_label,
        },
    )
    cluster.owner = Koperator(nodes)
    cluster.expect(6)
    yield cluster
    kubectl("delete", f"kafkaclusters.{KOPERATOR}", "k", "-n", NAMESPACE, "--wait=false")


def test_pods_that_koperator_owns_are_rolled_and_come_back_under_other_names(koperator: OwnedCluster) -> None:
    rolled(koperator, [11, 12, 10, 0, 1, 2])


def test_koperators_own_rolls_are_waited_for(koperator: OwnedCluster) -> None:
    stale = {"brokersState": {"2": {"configurationState": "ConfigOutOfSync"}}}
    change = lambda: says("KafkaCluster", KOPERATOR, "k", stale)  # noqa: E731
    words = "KafkaCluster k is being rolled out: it is about to restart broker 2 (ConfigOutOfSync)"
    name = held(koperator, change, words)
    in_sync = {"brokersState": {"2": {"configurationState": "ConfigInSync"}}}
    says("KafkaCluster", KOPERATOR, "k", in_sync | {"state": "ClusterRollingUpgrading"})
    koperator.reconcile(3)
    assert "its state is ClusterRollingUpgrading" in koperator.why(name)
    assert koperator.kubelet.restarted == []
    says("KafkaCluster", KOPERATOR, "k", {"state": "ClusterRunning"})
    assert koperator.ends(name).status.phase is Phase.SUCCEEDED, koperator.why(name)


def test_two_kinds_of_one_name_live_side_by_side(koperator: OwnedCluster) -> None:
    """Koperator's KafkaCluster and this project's have the same name here. kubectl takes the plain name for
    Koperator's, whose group comes first in the alphabet. The short name is this project's alone."""
    mine = json.loads(kubectl("get", "kmc", "k", "-n", NAMESPACE, "-o", "json").stdout)
    plain = json.loads(kubectl("get", "kafkacluster", "k", "-n", NAMESPACE, "-o", "json").stdout)
    theirs = json.loads(kubectl("get", f"kafkaclusters.{KOPERATOR}", "k", "-n", NAMESPACE, "-o", "json").stdout)
    assert (mine["apiVersion"], theirs["apiVersion"]) == ("kafkamedic.dev/v1alpha1", f"{KOPERATOR}/v1beta1")
    assert plain["metadata"]["uid"] == theirs["metadata"]["uid"]


def test_a_pod_that_nothing_makes_anew_is_said_before_anything_is_proposed(owned: Any) -> None:
    labels = {"app": "alone"}
    alone = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"alone-{n}", "namespace": NAMESPACE, "labels": labels},
            "spec": {"containers": CONTAINERS, "nodeName": NODE},
        }
        for n in range(3)
    ]
    apply(alone)
    of_alone = lambda pod: ordinal(pod) if pod["metadata"]["name"].startswith("alone-") else None  # noqa: E731
    cluster = owned("alone", kafka_of(0, 1, 2), of_alone, brokers={"podSelector": {"matchLabels": labels}})
    cluster.expect(3)
    name = cluster.ask(cluster.known["bob"], "rolling-restart")
    cluster.reconcile(4)
    status, message = cluster.conditions()["RestartsPossible"]
    assert status == "False"
    assert "has no owner, so no controller would recreate it" in message
    assert cluster.run(name).status.phase is Phase.PLANNING
    assert "cannot be restarted: Pod alone-" in cluster.why(name)
    assert {pod["metadata"]["name"] for pod in cluster.kubelet.pods()} == {"alone-0", "alone-1", "alone-2"}
    assert get("pod", "alone-0", namespace=NAMESPACE)["metadata"].get("deletionTimestamp") is None


def test_kafka_without_pods_is_watched_and_what_cannot_be_done_is_said(known: dict[str, Person]) -> None:
    """Managed Kafka: brokers somewhere else, and nothing in Kubernetes that could be restarted."""
    cluster = OperatedCluster(known["operator"], known["admin"], NAMESPACE, "managed", **NO_ELECTIONS)
    restart = cluster.ask(known["bob"], "rolling-restart")
    raised = cluster.ask(known["bob"])
    cluster.reconcile(3)
    conditions = {
        c["type"]: c for c in cluster.admin.get(cluster.path("kafkaclusters", "managed"))["status"]["conditions"]
    }
    assert conditions["RestartsPossible"]["reason"] == "NotProbed"
    assert "no playbook restarts a broker" in conditions["RestartsPossible"]["message"]
    assert cluster.run(restart).status.phase is Phase.FAILED
    assert "the KafkaCluster has no spec.brokers.podSelector" in cluster.why(restart)
    cluster.until(raised, Phase.AWAITING_APPROVAL)
    cluster.say(known["alice"], raised)
    cluster.until(raised, Phase.SUCCEEDED, 60)
    cluster.close()
    cluster.leave()
