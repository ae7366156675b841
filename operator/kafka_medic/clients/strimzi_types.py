"""Where the API server has Strimzi's resources."""

from __future__ import annotations

from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi

GROUP = "/apis/kafka.strimzi.io"


def strimzi_types(api: KubernetesApi, namespace: str) -> str | None:
    """The path under which a namespace's Kafkas, KafkaTopics and so on are, of the newest version that is served; None
    where Strimzi's types are not installed. Raises ApiFailure."""
    try:
        served = [version["version"] for version in api.get(GROUP)["versions"]]
    except ApiFailure as problem:
        if problem.not_found:
            return None
        raise
    return f"{GROUP}/{'v1' if 'v1' in served else 'v1beta2'}/namespaces/{namespace}"
