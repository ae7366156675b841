"""Which Pod is which broker, and on what kind of node it stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi
from kafka_medic.clients.ports import FailureKind, ReadFailed
from kafka_medic.cluster.snapshot import Pod
from kafka_medic.resources.kafkacluster import BrokerIdSource, Brokers

_ORDINAL = re.compile(r"-(\d+)$")


def broker_pods(api: KubernetesApi, namespace: str, brokers: Brokers) -> Mapping[int, Pod]:
    """Broker id -> Pod, for the Pods that `brokers.podSelector` selects. Raises ReadFailed."""
    try:
        pods = api.list(f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": brokers.pod_selector.to_query()})
        nodes = {n["metadata"]["name"]: bool(n["spec"].get("unschedulable")) for n in api.list("/api/v1/nodes")}
    except ApiFailure as problem:
        raise ReadFailed(FailureKind.UNREACHABLE, f"Kubernetes: {problem}") from None
    found: dict[int, Pod] = {}
    for pod in pods:
        broker_id = _broker_id(pod, brokers)
        if broker_id is None:
            name = pod["metadata"]["name"]
            raise ReadFailed(FailureKind.OTHER, f"Pod {name} is selected by brokers.podSelector but has no broker id")
        if broker_id in found:
            raise ReadFailed(
                FailureKind.OTHER, f"two Pods claim broker {broker_id}: check brokers.podSelector and idFrom"
            )
        node = pod["spec"].get("nodeName")
        found[broker_id] = Pod(
            name=pod["metadata"]["name"],
            uid=pod["metadata"]["uid"],
            ready=_ready(pod),
            node=node,
            cordoned=nodes.get(node) if node else None,
        )
    return found


def _broker_id(pod: Mapping[str, Any], brokers: Brokers) -> int | None:
    meta = pod["metadata"]
    if brokers.id_from is BrokerIdSource.ORDINAL:
        found = _ORDINAL.search(meta["name"])
        return int(found.group(1)) + brokers.id_offset if found else None
    holder = meta.get("labels" if brokers.id_from is BrokerIdSource.LABEL else "annotations") or {}
    text = str(holder.get(brokers.id_key or "", ""))
    return int(text) if text.isdigit() else None


def _ready(pod: Mapping[str, Any]) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
