"""Whose object says what a topic is to be: KafkaTopics of Strimzi, whose Topic Operator puts back what others change.

It takes away each dynamic setting that `spec.config` does not have, throttles too where Cruise Control is not used, and
is not ready while the number of replicas is another (`BatchingTopicController` of Strimzi 1.2.0). A KafkaTopic that is
paused or not managed it leaves alone.
"""

from __future__ import annotations

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi, Object
from kafka_medic.clients.strimzi_types import strimzi_types
from kafka_medic.cluster.min_isr import MIN_ISR
from kafka_medic.cluster.snapshot import TopicOwner
from kafka_medic.resources.kafkacluster import STRIMZI_CLUSTER

PAUSED, MANAGED = "strimzi.io/pause-reconciliation", "strimzi.io/managed"
GIT = {
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "argocd.argoproj.io/instance": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
}
"""Labels and annotations of those who put an object back to what Git has."""
FORBIDDEN = 403


def topic_owners(api: KubernetesApi, namespace: str, cluster: str) -> tuple[TopicOwner, ...]:
    """The KafkaTopics of that Kafka resource in the namespace. Raises ReadFailed."""
    try:
        kinds = strimzi_types(api, namespace)
        if kinds is None:
            return ()
        found = api.list(f"{kinds}/kafkatopics", {"labelSelector": f"{STRIMZI_CLUSTER}={cluster}"})
    except ApiFailure as problem:
        kind = FailureKind.AUTHORIZATION if problem.status == FORBIDDEN else FailureKind.UNREACHABLE
        raise ReadFailed(kind, f"KafkaTopics: {problem.message}") from None
    return tuple(map(_owner, found))


def _owner(topic: Object) -> TopicOwner:
    meta, spec = topic["metadata"], topic.get("spec") or {}
    notes, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    off = str(notes.get(PAUSED, "")).lower() == "true" or str(notes.get(MANAGED, "")).lower() == "false"
    return TopicOwner(
        topic=spec.get("topicName") or meta["name"],
        kind="KafkaTopic",
        name=meta["name"],
        acts=not off,
        factor=_number(spec.get("replicas")),
        min_isr=_number((spec.get("config") or {}).get(MIN_ISR)),
        kept_by=next((tool for key, tool in GIT.items() if key in notes or key in labels), None),
    )


def _number(value: object) -> int | None:
    """Settings may be numbers or strings."""
    text = str(value)
    return int(text) if text.isdigit() else None
