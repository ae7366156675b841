"""The Kubernetes objects of a Kafka deployment, as plain dictionaries (JSON is what kubectl is given)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.testbed.cluster import STORAGE_CLASS
from tests.testbed.places import NODES

Object = dict[str, Any]
NAME_LABEL = "app.kubernetes.io/name"
INSTANCE_LABEL = "app.kubernetes.io/instance"
_HOST_PROGRAMS = ("/usr", "/lib", "/lib64", "/bin", "/etc")


@dataclass(frozen=True)
class Member:
    """One StatefulSet of three: Kafka's brokers, its controllers, or ZooKeeper's servers. `first`: the ordinal of its
    Pod number 0."""

    name: str
    namespace: str
    ports: Mapping[str, int]
    ready_port: int
    first: int = 0

    def pod(self, number: int) -> str:
        return f"{self.name}-{self.first + number}"

    def claim(self, number: int) -> str:
        return f"data-{self.pod(number)}"

    def volume(self, number: int) -> str:
        return f"{self.namespace}-{self.claim(number)}"

    def metadata(self, name: str) -> Object:
        return {"name": name, "namespace": self.namespace, "labels": {NAME_LABEL: self.name}}


def namespace(name: str) -> Object:
    """One in which the operator may restart brokers."""
    labels = {"kafkamedic.dev/restarts": "allowed"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def services(member: Member, addresses: Mapping[int, str] | None, count: int) -> list[Object]:
    """A headless Service that names the Pods, and one for each Pod, whose address outlives the Pod."""
    ports = [{"name": name, "port": port} for name, port in member.ports.items()]
    common: Object = {"publishNotReadyAddresses": True, "ports": ports}
    found: list[Object] = [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": member.metadata(member.name),
            "spec": {**common, "clusterIP": "None", "selector": {NAME_LABEL: member.name}},
        }
    ]
    for number in range(count):
        pod = member.pod(number)
        fixed: Object = {"clusterIP": addresses[number]} if addresses else {}
        found.append(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": member.metadata(pod),
                "spec": {**common, **fixed, "selector": {"statefulset.kubernetes.io/pod-name": pod}},
            }
        )
    return found


def volumes(member: Member, disks: Path, count: int) -> list[Object]:
    """A disk for each Pod on the node that is to be its own: the claim is named, so nothing else can take it."""
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": member.volume(number), "labels": {NAME_LABEL: member.name}},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": STORAGE_CLASS,
                "claimRef": {"namespace": member.namespace, "name": member.claim(number)},
                "local": {"path": str(disks / member.claim(number))},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [_on_node(NODES[number].name)]}},
            },
        }
        for number in range(count)
    ]


def _on_node(name: str) -> Object:
    return {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}


def settings(member: Member, files: Mapping[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": member.metadata(f"{member.name}-settings"),
        "data": dict(files),
    }


def disruption_budget(member: Member) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": member.metadata(member.name),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {NAME_LABEL: member.name}}},
    }


def stateful_set(
    member: Member,
    image: str,
    command: str,
    folders: Sequence[Path],
    count: int,
    disks: Mapping[str, str] | None = None,
) -> Object:
    """`folders` are the host's, found at their own paths in an empty image beside the host's programs; without any
    the image brings all it needs. `disks`: file systems of their own, path -> size."""
    claim: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    programs = [Path(place) for place in _HOST_PROGRAMS if Path(place).exists()] if folders else []
    mounted = programs + [folder for folder in folders if not any(folder.is_relative_to(p) for p in programs)]
    if folders:
        claim["storageClassName"] = STORAGE_CLASS
    container = {
        "name": member.name,
        "image": image,
        "imagePullPolicy": "Never" if folders else "IfNotPresent",
        "command": ["/bin/sh", "-c", command],
        "ports": [{"name": name, "containerPort": port} for name, port in member.ports.items()],
        "resources": {"requests": {"cpu": "50m", "memory": "300Mi"}},
        "readinessProbe": {"tcpSocket": {"port": member.ready_port}, "periodSeconds": 1, "failureThreshold": 3},
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "settings", "mountPath": "/config"},
            {"name": "scratch", "mountPath": "/tmp"},
            *({"name": f"disk-{n}", "mountPath": path} for n, path in enumerate(disks or ())),
            *({"name": f"host-{n}", "mountPath": str(place), "readOnly": True} for n, place in enumerate(mounted)),
        ],
    }
    apart = {"labelSelector": {"matchLabels": {NAME_LABEL: member.name}}, "topologyKey": "kubernetes.io/hostname"}
    pod: Object = {
        "terminationGracePeriodSeconds": 30,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        "containers": [container],
        "volumes": [
            {"name": "settings", "configMap": {"name": f"{member.name}-settings"}},
            {"name": "scratch", "emptyDir": {}},
            *(
                {"name": f"disk-{n}", "emptyDir": {"medium": "Memory", "sizeLimit": size}}
                for n, size in enumerate((disks or {}).values())
            ),
            *({"name": f"host-{n}", "hostPath": {"path": str(place)}} for n, place in enumerate(mounted)),
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": member.metadata(member.name),
        "spec": {
            "serviceName": member.name,
            "replicas": count,
            "ordinals": {"start": member.first},
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {NAME_LABEL: member.name}},
            "template": {
                "metadata": {"labels": {NAME_LABEL: member.name, INSTANCE_LABEL: member.namespace}},
                "spec": pod,
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    }
