"""The signs on a Pod and on a node that it is about to be taken away, by whoever leaves them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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


def _taints(node: dict[str, Any]) -> list[dict[str, Any]]:
    return node["spec"].get("taints") or []
