"""Installs Strimzi's own operators in the testbed, and lets them make a Kafka cluster."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.testbed.cluster import STORAGE_CLASS
from tests.testbed.image_transfer import load_image
from tests.testbed.kafka_manifests import namespace as namespace_object
from tests.testbed.kubectl import apply, get, kubectl
from tests.testbed.places import NODES, own_state
from tests.testbed.steps import wait_for
from tests.testbed.strimzi_images import KAFKA_IMAGE, OPERATOR_IMAGE, VERSION, strimzi_images

Object = dict[str, Any]
OPERATOR = "strimzi-cluster-operator"
CLUSTER_LABEL = "strimzi.io/cluster"
ROLL_ANNOTATION = "strimzi.io/manual-rolling-update"
_READY_SECONDS = 600.0


@dataclass(frozen=True)
class Pool:
    """A KafkaNodePool: its nodes' ids, which Strimzi counts through all pools of a cluster by their names."""

    name: str
    ids: tuple[int, ...]


@dataclass(frozen=True)
class StrimziKafka:
    """A cluster that Strimzi made of the resources in a file."""

    namespace: str
    name: str
    pools: tuple[Pool, ...]

    @property
    def bootstrap(self) -> str:
        return f"{self.name}-kafka-bootstrap.{self.namespace}.svc:9092"

    @property
    def selector(self) -> str:
        """Of the Pods that are Kafka nodes."""
        return f"{CLUSTER_LABEL}={self.name},app.kubernetes.io/name=kafka"

    def pod_name(self, node: int) -> str:
        pool = next(pool for pool in self.pools if node in pool.ids)
        return f"{self.name}-{pool.name}-{node}"

    def nodes(self) -> list[int]:
        return sorted(node for pool in self.pools for node in pool.ids)

    def pod(self, node: int) -> Object:
        return get("pod", self.pod_name(node), namespace=self.namespace)

    def uids(self) -> dict[int, str]:
        return {node: self.pod(node)["metadata"]["uid"] for node in self.nodes()}

    def uids_of_those_there(self) -> dict[int, str]:
        """Of the nodes that have a Pod."""
        found = get("pods", namespace=self.namespace, selector=self.selector)["items"]
        return {int(p["metadata"]["name"].rpartition("-")[2]): p["metadata"]["uid"] for p in found}

    def uids_of_those_that_stay(self) -> dict[int, str]:
        """Without Pods that are being deleted."""
        found = get("pods", namespace=self.namespace, selector=self.selector)["items"]
        staying = [p["metadata"] for p in found if "deletionTimestamp" not in p["metadata"]]
        return {int(meta["name"].rpartition("-")[2]): meta["uid"] for meta in staying}

    def resource(self, kind: str = "kafka", name: str | None = None) -> Object:
        """The Kafka resource, or another one of Strimzi's."""
        found: Object = json.loads(kubectl("get", kind, name or self.name, "-n", self.namespace, "-o", "json").stdout)
        return found

    def exists(self) -> bool:
        return kubectl("get", "kafka", self.name, "-n", self.namespace, check=False).returncode == 0

    def is_ready(self) -> bool:
        """Whether Strimzi says so of the resource as it is now."""
        found = self.resource()
        status = found.get("status", {})
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        return current and any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))

    def at_rest(self) -> bool:
        """Whether every Pod is Ready and has all annotations that its StrimziPodSet has for it."""
        for pool in self.pools:
            holder = self.resource("strimzipodset", f"{self.name}-{pool.name}")
            status = holder.get("status", {})
            if status.get("readyPods") != status.get("pods") or status.get("currentPods") != status.get("pods"):
                return False
            there = self.annotations()
            for wanted in holder["spec"]["pods"]:
                name, notes = wanted["metadata"]["name"], wanted["metadata"]["annotations"]
                if not notes.items() <= there.get(int(name.rpartition("-")[2]), {}).items():
                    return False
        return True

    def annotations(self) -> dict[int, dict[str, str]]:
        """Of the Pods of the nodes that have one."""
        found = get("pods", namespace=self.namespace, selector=self.selector)["items"]
        return {int(p["metadata"]["name"].rpartition("-")[2]): p["metadata"].get("annotations", {}) for p in found}

    def wait_ready(self, seconds: float = _READY_SECONDS) -> None:
        wait_for(f"Strimzi's {self.name} in {self.namespace}", self.is_ready, seconds, every=1)

    def wait_settled(self) -> None:
        """Until a reconciliation of Strimzi's has replaced no Pod: a new CA takes several rolls, minutes apart."""

        def without_a_roll() -> bool:
            before, seen = self.uids_of_those_there(), self.reconciled()
            self.reconcile()
            wait_for("a reconciliation of Strimzi's", lambda: self.reconciled() != seen, _READY_SECONDS, every=1)
            return self.is_ready() and self.at_rest() and self.uids_of_those_there() == before

        wait_for(f"Strimzi to leave {self.name} alone", without_a_roll, _READY_SECONDS, every=1)

    def reconcile(self) -> None:
        """Let Strimzi look now, rather than after its two minutes."""
        mark = f"kafka-medic.invalid/reconcile={time.time_ns()}"
        kubectl("annotate", "kafka", self.name, "-n", self.namespace, mark, "--overwrite")

    def reconciled(self) -> str:
        """A text that changes when Strimzi has gone through the cluster once more."""
        log = kubectl("logs", f"deployment/{OPERATOR}", "-n", self.namespace, "--tail=4000").stdout
        done = [line for line in log.splitlines() if f"Kafka({self.namespace}/{self.name}): reconciled" in line]
        return done[-1] if done else ""

    def asked_to_roll(self) -> list[str]:
        """The Pods that Strimzi is asked to restart."""
        found = get("pods", namespace=self.namespace, selector=self.selector)["items"]
        return [p["metadata"]["name"] for p in found if ROLL_ANNOTATION in p["metadata"].get("annotations", {})]


def install(namespace: str) -> None:
    """The cluster operator, in the namespace that it watches, from Strimzi's own manifests."""
    built = strimzi_images()
    for archive in (built.operator, built.kafka):
        load_image(archive)
    apply([namespace_object(namespace)])
    kubectl("apply", "--server-side", "-n", namespace, "-f", "-", input=manifests(built.manifests, namespace))
    wait = ("rollout", "status", f"deployment/{OPERATOR}", "-n", namespace, "--timeout=180s")
    kubectl(*wait, timeout=190)


def manifests(folder: Path, namespace: str) -> str:
    """Strimzi's, with our images' names and namespace. Nothing in the testbed enforces network policies."""
    text = "\n---\n".join(file.read_text() for file in sorted(folder.glob("*.yaml")))
    text = text.replace(f"quay.io/strimzi/operator:{VERSION}", OPERATOR_IMAGE)
    kafka = KAFKA_IMAGE.rpartition("-kafka-")[0]
    text = text.replace(f"quay.io/strimzi/kafka:{VERSION}", kafka)
    text = text.replace("namespace: myproject", f"namespace: {namespace}")
    # A machine that is shared by many makes Java start late.
    text = text.replace("initialDelaySeconds: 10\n", "initialDelaySeconds: 10\n            timeoutSeconds: 20\n")
    text = text.replace("              cpu: 1000m\n", "")
    switch = "            - name: STRIMZI_NETWORK_POLICY_GENERATION\n              value: 'false'\n"
    first = "          env:\n            - name: STRIMZI_NAMESPACE\n"
    return text.replace(first, first.replace("env:\n", f"env:\n{switch}"))


def make(file: Path, kafka: StrimziKafka) -> None:
    """The cluster of the file's resources, with disks for its pools, once Strimzi says that it is Ready."""
    make_volumes(kafka)
    kubectl("apply", "-n", kafka.namespace, "-f", str(file))
    kafka.wait_ready()


def make_volumes(kafka: StrimziKafka) -> None:
    """Disks for the nodes of its pools that have none yet."""
    apply(_volumes(kafka))


def unmake(file: Path, kafka: StrimziKafka) -> None:
    """The cluster alone; Strimzi stays."""
    kubectl("delete", "-n", kafka.namespace, "-f", str(file), "--ignore-not-found", timeout=180)
    gone = ("pods", "-n", kafka.namespace, "-l", kafka.selector, "--for=delete", "--timeout=120s")
    kubectl("wait", *gone, timeout=130)
    kubectl("delete", "persistentvolumeclaim", "-n", kafka.namespace, "-l", f"{CLUSTER_LABEL}={kafka.name}")
    for disk in (own_state().disks / kafka.namespace).glob(f"data-0-{kafka.name}-*"):
        kubectl("delete", "persistentvolume", f"{kafka.namespace}-{disk.name}", "--ignore-not-found")
        shutil.rmtree(disk, ignore_errors=True)


def uninstall(namespace: str) -> None:
    """All of Strimzi: its resources, its types and its rights."""
    # Its finalizers go with the topic operator, which may be gone already.
    for kind in ("kafkatopics", "kafkas"):
        found = kubectl("get", kind, "-n", namespace, "-o", "name", check=False).stdout.split()
        for each in found:
            kubectl(
                "patch", each, "-n", namespace, "--type=merge", "-p", '{"metadata":{"finalizers":null}}', check=False
            )
    kubectl("delete", "namespace", namespace, "--ignore-not-found", timeout=180)
    kubectl("delete", "crd,clusterrole,clusterrolebinding", "-l", "app=strimzi", "--ignore-not-found")
    kubectl("delete", "persistentvolume", "-l", "testbed=strimzi", "--ignore-not-found")
    shutil.rmtree(own_state().disks / namespace, ignore_errors=True)


def _volumes(kafka: StrimziKafka) -> list[Object]:
    """A disk for each node of each pool, spread over the testbed's nodes."""
    objects: list[Object] = []
    for pool in kafka.pools:
        for index, node in enumerate(pool.ids):
            claim = f"data-0-{kafka.pod_name(node)}"
            disk = own_state().disks / kafka.namespace / claim
            disk.mkdir(parents=True, exist_ok=True)
            # Strimzi's images run as a user of their own.
            disk.chmod(0o777)
            where = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODES[index % len(NODES)].name]}
            objects.append(
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolume",
                    "metadata": {"name": f"{kafka.namespace}-{claim}", "labels": {"testbed": "strimzi"}},
                    "spec": {
                        "capacity": {"storage": "1Gi"},
                        "accessModes": ["ReadWriteOnce"],
                        "persistentVolumeReclaimPolicy": "Retain",
                        "storageClassName": STORAGE_CLASS,
                        "claimRef": {"namespace": kafka.namespace, "name": claim},
                        "local": {"path": str(disk)},
                        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}},
                    },
                }
            )
    return objects
