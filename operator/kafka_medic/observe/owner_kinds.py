"""Kinds of objects that describe topics, a line for each: where they are, what their fields are called, and what their
operator does.

- Strimzi 1.2.0 (and AMQ Streams, the same types): `BatchingTopicController` takes away each dynamic setting that
  `spec.config` does not have, throttles too where Cruise Control is not used; where it is used, it has the number of
  replicas changed to `spec.replicas`, also to fewer; else it is not Ready while they differ. It leaves alone what is
  paused, and reports that.
- Koperator: `KafkaTopicReconciler` sets `spec.config` as all that the topic has, when the object changes and at each
  resync. It has no pause; an object that another manager is named for it leaves alone.
- Confluent for Kubernetes: changes from elsewhere stay, unless the object asks for their correction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_medic.clients.kubernetes_api import Object
from kafka_medic.cluster.snapshot import OwnerState
from kafka_medic.resources.kafkacluster import STRIMZI_CLUSTER

PAUSED, MANAGED = "strimzi.io/pause-reconciliation", "strimzi.io/managed"
MANAGER = "managedBy"
BLOCKED, CORRECTED = "platform.confluent.io/block-reconcile", "platform.confluent.io/enable-drift-correction"


@dataclass(frozen=True, slots=True)
class OwnerKind:
    """`group`: of the API. `versions`: those that are read, the newest first. `of_cluster`: the label in the brokers'
    selector that names their cluster. Then the fields of spec: the topic, its replicas, its settings. `replicas` None:
    its operator takes the number for new topics alone, and lets nobody change it."""

    name: str
    group: str
    versions: tuple[str, ...]
    of_cluster: str
    topic: str
    replicas: str | None
    settings: str

    def belongs(self, found: Object, cluster: str) -> bool:
        """Whether the object, of the brokers' namespace, describes a topic of that cluster."""
        spec = found.get("spec") or {}
        if self is STRIMZI:
            return bool((found["metadata"].get("labels") or {}).get(STRIMZI_CLUSTER) == cluster)
        ref = spec.get("clusterRef" if self is KOPERATOR else "kafkaClusterRef") or {}
        return bool(ref.get("name", cluster) == cluster)

    def paused(self, notes: Mapping[str, str]) -> bool:
        """Whether it asks its operator to leave the topic alone."""
        if self is STRIMZI:
            return str(notes.get(PAUSED, "")).lower() == "true"
        return self is CONFLUENT and str(notes.get(BLOCKED, "")).lower() == "true"

    def managed(self, notes: Mapping[str, str]) -> bool:
        """Whether its operator would change the topic at all, were it not paused."""
        if self is STRIMZI:
            return notes.get(MANAGED) != "false"
        if self is KOPERATOR:
            return notes.get(MANAGER, "koperator") == "koperator"
        return str(notes.get(CORRECTED, "")).lower() == "true"

    def state(self, found: Object) -> tuple[OwnerState | None, str | None]:
        """What its operator last said of the object as it is, and why it is not ready."""
        meta, status = found["metadata"], found.get("status") or {}
        if self is not STRIMZI:
            return (OwnerState.PAUSED if self.paused(meta.get("annotations") or {}) else OwnerState.READY), None
        if status.get("observedGeneration") != meta.get("generation"):
            return None, None
        said = {c.get("type"): c for c in status.get("conditions") or ()}
        if said.get("ReconciliationPaused", {}).get("status") == "True":
            return OwnerState.PAUSED, None
        ready = said.get("Ready", {})
        if ready.get("status") == "True":
            return OwnerState.READY, None
        text = ": ".join(str(ready[key]) for key in ("reason", "message") if ready.get(key))
        return (OwnerState.NOT_READY, text[:1000] or None) if ready else (None, None)


STRIMZI = OwnerKind(
    "KafkaTopic", "kafka.strimzi.io", ("v1", "v1beta2"), STRIMZI_CLUSTER, "topicName", "replicas", "config"
)
KOPERATOR = OwnerKind(
    "KafkaTopic.kafka.banzaicloud.io", "kafka.banzaicloud.io", ("v1alpha1",), "kafka_cr", "name", None, "config"
)
CONFLUENT = OwnerKind(
    "KafkaTopic.platform.confluent.io",
    "platform.confluent.io",
    ("v1beta1",),
    "platform.confluent.io/type",
    "name",
    None,
    "configs",
)
KINDS = (STRIMZI, KOPERATOR, CONFLUENT)
