"""Argo CD and Flux beside the operator: who applies what Git has again and again, by server-side apply under the field
managers of both, never meets a field of the operator's, and the operator never writes what Git has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_medic.clients.broker_pods import StrimziPods
from kafka_medic.resources.kafkacluster import STRIMZI_ROLL
from kafka_medic.resources.phases import Phase
from tests.integration.operated_cluster import PLAYBOOK, OperatedCluster, Person, persons
from tests.integration.people import Object, people
from tests.integration.test_strimzi_pods import KAFKA_GROUP, custom_type
from tests.simulation.world import NO_ELECTIONS
from tests.testbed import apply, kubectl, wait_for

NAMESPACE = "gitops"
MANAGERS = {
    "argocd-controller": "argocd.argoproj.io/tracking-id",
    "kustomize-controller": "kustomize.toolkit.fluxcd.io/name",
}
TOOLS = {"argocd-controller": "Argo CD", "kustomize-controller": "Flux"}
TYPES = [custom_type(KAFKA_GROUP, kind, subresources={"status": {}}) for kind in ("Kafka", "KafkaTopic")]


@pytest.fixture(scope="module")
def known(role: str, operator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Person]]:
    """alice approves, bob asks. The operator may annotate Pods and Kafka resources, as with strimzi.enabled."""
    _, _, where, account = operator.split(":")
    names = [each["metadata"]["name"] for each in TYPES]
    with people(NAMESPACE, role):
        apply(TYPES)
        kubectl("wait", "crd", *names, "--for=condition=Established", "--timeout=30s")
        right = ("--verb=patch", "--resource=pods,kafkas.kafka.strimzi.io")
        kubectl("-n", NAMESPACE, "create", "role", "operator-annotates", *right)
        bound = ("--role=operator-annotates", f"--serviceaccount={where}:{account}")
        kubectl("-n", NAMESPACE, "create", "rolebinding", "operator-annotates", *bound)
        may = ("auth", "can-i", "patch", "pods", "-n", NAMESPACE, f"--as={operator}")
        wait_for("the operator's right", lambda: kubectl(*may, check=False).returncode == 0, seconds=30)
        yield persons(tmp_path_factory.mktemp("operator"), operator, "admin", "alice", "bob")
        kubectl("delete", "kafkas.kafka.strimzi.io,kafkatopics.kafka.strimzi.io", "--all", "-n", NAMESPACE)
    kubectl("delete", "crd", *names)


@pytest.fixture(params=MANAGERS)
def manager(request: pytest.FixtureRequest) -> str:
    return str(request.param)


PLURALS = {"Pod": "pods", "Kafka": "kafkas", "KafkaTopic": "kafkatopics", "KafkaCluster": "kafkaclusters",
           "Remediation": "remediations"}  # fmt: skip


def path_of(body: Object) -> str:
    version = body["apiVersion"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{base}/namespaces/{NAMESPACE}/{PLURALS[body['kind']]}/{body['metadata']['name']}"


class Git:
    """What one of them has in Git. `sync` applies all of it, with force only what is new in Git, as both tools do: so a
    field that somebody else has set to another value since fails it."""

    def __init__(self, admin: Person, manager: str) -> None:
        self.admin, self.manager = admin, manager
        self.desired: list[Object] = []
        self._applied: set[str] = set()

    def keep(self, body: Object) -> None:
        notes = {MANAGERS[self.manager]: "shop", **body["metadata"].get("annotations", {})}
        body["metadata"] = body["metadata"] | {"namespace": NAMESPACE, "annotations": notes}
        self.desired.append(body)

    def sync(self) -> None:
        for body in self.desired:
            text = json.dumps(body)
            self.admin.apply(path_of(body), body, self.manager, force=text not in self._applied)
            self._applied.add(text)


def managers_of(stored: Object) -> dict[str, set[str]]:
    """By who wrote: the top fields of what they own, but for metadata, of which each annotation and finalizer."""
    found: dict[str, set[str]] = {}
    for entry in stored["metadata"]["managedFields"]:
        owns = found.setdefault(entry["manager"], set())
        for top, inner in entry["fieldsV1"].items():
            owns.update(f"{top}/{key}" for key in inner) if top == "f:metadata" else owns.add(top)
    return found


class Kept(OperatedCluster):
    """A KafkaCluster, and perhaps more, that Git has: applied before each reconcile."""

    git: Git
    finalizers: frozenset[str] = frozenset()
    """Each that the KafkaCluster has had after a reconcile."""

    def reconcile(self, count: int = 2) -> None:
        for _ in range(count):
            if hasattr(self, "git"):
                self.git.sync()
            super().reconcile(1)
            self.finalizers |= set(self.stored()["metadata"].get("finalizers", ()))

    def runs(self) -> list[Object]:
        every = self.admin.list(self.path("remediations"))
        return [run for run in every if run["spec"]["clusterRef"]["name"] == self.name]

    def stored(self) -> Object:
        return self.admin.get(self.path("kafkaclusters", self.name))


@pytest.fixture
def kept(known: dict[str, Person], manager: str, request: pytest.FixtureRequest) -> Iterator[Kept]:
    name = f"{request.node.originalname.replace('_', '-')[5:30].strip('-')}-{manager[:4]}"
    cluster = Kept(known["operator"], known["admin"], NAMESPACE, name, limits={"cooldown": "0s"}, **NO_ELECTIONS)
    cluster.git = Git(known["admin"], manager)
    spec = cluster.stored()["spec"]
    kind = {"apiVersion": "kafkamedic.dev/v1alpha1", "kind": "KafkaCluster"}
    cluster.git.keep(kind | {"metadata": {"name": name}, "spec": spec})
    cluster.git.sync()
    yield cluster
    cluster.close()
    cluster.leave()


def by_the_operator(stored: Object) -> set[str]:
    """Which fields are the operator's."""
    return managers_of(stored).get("kafka-medic", set())


def test_a_run_from_git_to_its_end_meets_no_field_of_gits(kept: Kept, known: dict[str, Person], manager: str) -> None:
    """The KafkaCluster and the Remediation that asks for the run are in Git, and are applied all the while."""
    generation = kept.stored()["metadata"]["generation"]
    asked = kept.ask(known["bob"])
    body = {key: kept.admin.get(kept.path("remediations", asked))[key] for key in ("apiVersion", "kind", "spec")}
    kept.git.keep(body | {"metadata": {"name": asked}})
    kept.until(asked, Phase.AWAITING_APPROVAL)
    kept.say(known["alice"], asked)
    kept.until(asked, Phase.SUCCEEDED, 60)
    kept.reconcile(3)
    stored = kept.stored()
    assert stored["metadata"]["generation"] == generation, "spec is as Git has it"
    assert stored["metadata"]["annotations"] == {MANAGERS[manager]: "shop"}
    assert kept.finalizers == {"kafkamedic.dev/restore"}, "Git has none and took none off"
    assert "f:status" in by_the_operator(stored) <= {"f:status", "f:metadata/f:finalizers"}
    run = kept.admin.get(kept.path("remediations", asked))
    assert run["spec"] == body["spec"]
    phases = {each["metadata"]["name"]: each["status"]["phase"] for each in kept.runs()}
    assert phases.pop(asked) == "Succeeded"
    assert set(phases.values()) <= {"Superseded"}, "the operator's own proposal of the same, and nothing anew"
    assert len(phases) <= 1


def test_a_plan_that_nobody_approves_is_proposed_once(kept: Kept) -> None:
    kept.reconcile(12)
    (run,) = kept.runs()
    assert (run["spec"]["playbook"]["name"], run["status"]["phase"]) == (PLAYBOOK, "AwaitingApproval")
    digest = run["status"]["plan"]["digest"]
    kept.reconcile(6)
    (again,) = kept.runs()
    assert (again["metadata"]["uid"], again["status"]["plan"]["digest"]) == (run["metadata"]["uid"], digest)


def test_what_git_changes_counts_and_what_the_operator_wrote_stays(kept: Kept, manager: str) -> None:
    kept.reconcile(4)
    before = kept.stored()
    kept.git.desired[0]["spec"] = {**kept.git.desired[0]["spec"], "expectations": {"topics": [
        {"pattern": ".*", "exempt": True}]}}  # fmt: skip
    kept.reconcile(4)
    after = kept.stored()
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
    assert after["status"]["observedGeneration"] == after["metadata"]["generation"]
    assert not [f for f in after["status"].get("findings", []) if f["type"] == "ReplicationFactorLow"
                and "topic" in f["id"]]  # fmt: skip


def kafka_topic(kept: Kept, replicas: int, least: int, **meta: Any) -> Object:
    kind = {"apiVersion": f"{KAFKA_GROUP}/v1beta2", "kind": "KafkaTopic"}
    labels = {"strimzi.io/cluster": kept.name}
    spec = {"topicName": "orders", "partitions": 1, "replicas": replicas, "config": {"min.insync.replicas": least}}
    return kind | {"metadata": {"name": f"orders-{kept.name}"[:63], "labels": labels, **meta}, "spec": spec}


def finding(kept: Kept) -> Object | None:
    return next((f for f in kept.stored()["status"].get("findings", []) if f["type"] == "TopicOwnedElsewhere"), None)


def test_a_topic_that_git_keeps_is_reported_with_the_edit_and_never_edited(kept: Kept, manager: str) -> None:
    selected = {"podSelector": {"matchLabels": {"strimzi.io/cluster": kept.name}}, "restart": "StrimziAnnotation"}
    kept.git.desired[0]["spec"] = {**kept.git.desired[0]["spec"], "brokers": selected}
    topic = kafka_topic(kept, 1, 1)
    kept.git.keep(topic)
    name = topic["metadata"]["name"]
    path = f"/apis/{KAFKA_GROUP}/v1beta2/namespaces/{NAMESPACE}/kafkatopics/{name}"
    kept.reconcile(1)
    made = kept.admin.get(path)
    kept.kafka.writes.clear()
    kept.reconcile(20)
    told = finding(kept)
    assert told is not None
    assert (told["state"], told["affected"]) == ("Firing", ["orders"])
    evidence = " ".join(told["evidence"])
    assert '"replicas":3' in evidence
    assert name in evidence
    assert f"edit them in Git: {TOOLS[manager]} applies them from there" in evidence
    stored = kept.admin.get(path)
    assert stored["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"], "nobody has written it"
    assert len(kept.runs()) == 1, "proposed once, whatever Git puts back"
    assert kept.kafka.writes == []
    # The edit in Git ends it.
    topic["spec"] |= {"replicas": 3, "config": {"min.insync.replicas": 2}}
    kept.reconcile(4)
    assert finding(kept) is None


def test_annotations_of_strimzis_beside_those_of_git(kept: Kept, known: dict[str, Person], manager: str) -> None:
    """What the operator sets on a Pod and on the Kafka resource stays when Git is applied, and Git's stays too."""
    kafka = {"apiVersion": f"{KAFKA_GROUP}/v1beta2", "kind": "Kafka"}
    resource = kafka | {"metadata": {"name": kept.name, "annotations": {"of": "git"}}, "spec": {"kafka": {"x": "1"}}}
    kept.git.keep(resource)
    kept.git.sync()
    owner = json.loads(kubectl("get", "kafkas.kafka.strimzi.io", kept.name, "-n", NAMESPACE, "-o", "json").stdout)
    reference = {"apiVersion": f"{KAFKA_GROUP}/v1beta2", "kind": "Kafka", "name": kept.name, "controller": True}
    meta = {
        "name": f"{kept.name}-0",
        "labels": {"strimzi.io/cluster": kept.name},
        "annotations": {"of": "git"},
        "ownerReferences": [reference | {"uid": owner["metadata"]["uid"]}],
    }
    spec = {"containers": [{"name": "kafka", "image": "none"}], "nodeSelector": {"no": "node"}}
    kept.git.keep({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    kept.git.sync()
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{kept.name}-0"
    uid = kept.admin.get(path)["metadata"]["uid"]
    pods = StrimziPods(known["operator"], NAMESPACE)
    pods.replace_pod(f"{kept.name}-0", uid)
    for _ in range(3):
        kept.git.sync()
    notes = kept.admin.get(path)["metadata"]["annotations"]
    assert notes[MANAGERS[manager]] == "shop"
    assert (notes[STRIMZI_ROLL], notes["of"]) == ("true", "git")
    asked = json.loads(kubectl("get", "kafkas.kafka.strimzi.io", kept.name, "-n", NAMESPACE, "-o", "json").stdout)
    assert asked["metadata"]["annotations"] == {"of": "git", MANAGERS[manager]: "shop"}, "nothing stays behind"
    assert asked["spec"] == {"kafka": {"x": "1"}}
    pods.keep_pod(f"{kept.name}-0", uid)
    kept.git.sync()
    assert STRIMZI_ROLL not in kept.admin.get(path)["metadata"]["annotations"]
    kept.admin.delete(path)
