"""What effects of one KafkaCluster need of Kubernetes."""

from __future__ import annotations

from kafka_medic.actuate.carry_out import KubernetesWrites
from kafka_medic.clients.broker_pods import EvictedPods, StrimziPods
from kafka_medic.clients.kubernetes_api import KubernetesApi
from kafka_medic.clients.topic_objects import KafkaTopics
from kafka_medic.clients.workloads import ScaledWorkloads


def kubernetes_writes(api: KubernetesApi, namespace: str) -> KubernetesWrites:
    """Its brokers' Pods by either way of having them restarted, and workloads and KafkaTopics beside it."""
    return KubernetesWrites(
        EvictedPods(api, namespace),
        StrimziPods(api, namespace),
        ScaledWorkloads(api, namespace),
        KafkaTopics(api, namespace),
    )
