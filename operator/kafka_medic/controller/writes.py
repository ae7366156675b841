"""What effects of one KafkaCluster need of Kubernetes."""

from __future__ import annotations

from kafka_medic.actuate.carry_out import KubernetesWrites
from kafka_medic.clients.broker_pods import EvictedPods, StrimziPods
from kafka_medic.clients.kubernetes_api import KubernetesApi
from kafka_medic.clients.workloads import ScaledWorkloads
from kafka_medic.resources.kafkacluster import KafkaCluster, RestartMethod


def kubernetes_writes(api: KubernetesApi, cluster: KafkaCluster, namespace: str) -> KubernetesWrites:
    """Its brokers' Pods as whoever owns them has them restarted, and workloads beside it."""
    brokers = cluster.spec.brokers
    strimzi = brokers is not None and brokers.restart is RestartMethod.STRIMZI_ANNOTATION
    pods = StrimziPods(api, namespace) if strimzi else EvictedPods(api, namespace)
    return KubernetesWrites(pods, ScaledWorkloads(api, namespace))
