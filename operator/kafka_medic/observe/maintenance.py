"""The signs on a Pod and on a node that it is about to be taken away, by whoever leaves them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kafka_medic.resources.kafkacluster import MaintenanceSign, SignKind

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
TAINTS = {
    # cluster-autoscaler: chosen for removal, and likely to be
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    # Kubernetes: the machine is shut down, or given up by a person
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.kubernetes.io/out-of-service",
    # GKE, before a machine is taken back or maintained
    "cloud.google.com/impending-node-termination",
    # Karpenter, today's and yesterday's
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    # AKS's own repair
    "remediator.kubernetes.azure.com/unschedulable",
}
TAINT_PREFIXES = ("aws-node-termination-handler/",)
CONDITIONS = {
    # AKS: what Azure's Scheduled Events announce
    "VMEventScheduled",
    "FreezeScheduled",
    "PreemptScheduled",
    "RebootScheduled",
    "RedeployScheduled",
    "TerminateScheduled",
}
LABELS = {"cloud.google.com/scheduled-maintenance-time"}
ANNOTATIONS = {"weave.works/kured-reboot-in-progress"}


def unschedulable(node: dict[str, Any]) -> bool:
    """Cordoned, by its spec or by the taint that follows from it."""
    return bool(node["spec"].get("unschedulable")) or any(t.get("key") == UNSCHEDULABLE for t in _taints(node))


def node_signs(node: dict[str, Any]) -> Iterator[str]:
    """What says that the node is about to go, a phrase each. A cordon is none of them: it has a field of its own."""
    name, meta = node["metadata"]["name"], node["metadata"]
    for taint in _taints(node):
        key = str(taint.get("key"))
        if key in TAINTS or key.startswith(TAINT_PREFIXES):
            yield f"node {name} has the taint {key}"
    for condition in (node.get("status") or {}).get("conditions") or []:
        if condition.get("type") in CONDITIONS and condition.get("status") == "True":
            yield f"node {name} has the condition {condition['type']}"
    for key in sorted(LABELS & set(meta.get("labels") or {})):
        yield f"node {name} has the label {key}"
    for key in sorted(ANNOTATIONS & set(meta.get("annotations") or {})):
        yield f"node {name} has the annotation {key}"
    if meta.get("deletionTimestamp"):
        yield f"node {name} is being deleted"


def pod_signs(pod: dict[str, Any]) -> Iterator[str]:
    """What says that the Pod is being evicted: the condition that every eviction sets (Kubernetes 1.31)."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            reason = str(condition.get("reason") or "no reason given")[:64]
            yield f"Pod {pod['metadata']['name']} is to be disrupted ({reason})"


def named_signs(kind: str, holder: dict[str, Any], signs: Sequence[MaintenanceSign]) -> Iterator[str]:
    """Those of the signs that a KafkaCluster names which this node or Pod (its `kind`) shows."""
    meta = holder["metadata"]
    shown = {
        SignKind.TAINT: {str(t.get("key")): str(t.get("value") or "") for t in _taints(holder)},
        SignKind.CONDITION: {
            c.get("type"): c.get("status") for c in (holder.get("status") or {}).get("conditions") or []
        },
        SignKind.LABEL: meta.get("labels") or {},
        SignKind.ANNOTATION: meta.get("annotations") or {},
    }
    for sign in signs:
        wanted = "True" if sign.kind is SignKind.CONDITION and sign.value is None else sign.value
        if sign.key in shown[sign.kind] and wanted in (None, shown[sign.kind][sign.key]):
            yield f"{kind} {meta['name']} has the {sign.kind.value.lower()} {sign.key}" + (
                f"={sign.value}" if sign.value else ""
            )


def _taints(node: dict[str, Any]) -> list[dict[str, Any]]:
    return node["spec"].get("taints") or []
