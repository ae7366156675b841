"""Strimzi's resources in the API server, for KafkaClusters with `spec.strimzi`. They are read in every reconcile."""

from __future__ import annotations

from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi, Object
from kafka_medic.clients.strimzi_types import strimzi_types
from kafka_medic.observe.strimzi_cluster import NotDerivedError, StrimziObjects, completed
from kafka_medic.resources.kafkacluster import STRIMZI_CLUSTER, KafkaCluster, StrimziCluster
from kafka_medic.resources.kafkacluster_status import StrimziStatus

FORBIDDEN = 403


def with_strimzi(api: KubernetesApi, cluster: KafkaCluster) -> tuple[KafkaCluster, StrimziStatus | None]:
    """The KafkaCluster with what its spec leaves to Strimzi filled in, and what that was; as it is without
    `spec.strimzi`. The result is for reading alone: spec is never written. Raises ApiFailure and NotDerivedError."""
    wanted = cluster.spec.strimzi
    if wanted is None:
        return cluster, None
    try:
        spec, status = completed(cluster.spec, _objects(api, cluster.namespace or "", wanted))
    except ApiFailure as problem:
        if problem.status != FORBIDDEN:
            raise
        way_out = (
            "let the chart make the operator's roles (rbac.create), or give it get on kafkas and kafkausers and list"
        )
        raise NotDerivedError(f"{problem.message}: {way_out} on kafkanodepools") from None
    return cluster.model_copy(update={"spec": spec}), status


def _objects(api: KubernetesApi, namespace: str, wanted: StrimziCluster) -> StrimziObjects:
    kinds = strimzi_types(api, namespace)
    if kinds is None:
        raise NotDerivedError("the API server serves no resources of Strimzi (kafka.strimzi.io): install Strimzi")
    kafka = _if_there(api, f"{kinds}/kafkas/{wanted.cluster}")
    if kafka is None:
        return StrimziObjects(None)
    pools = api.list(f"{kinds}/kafkanodepools", {"labelSelector": f"{STRIMZI_CLUSTER}={wanted.cluster}"})
    user = _if_there(api, f"{kinds}/kafkausers/{wanted.user}") if wanted.user else None
    return StrimziObjects(kafka, pools, user)


def _if_there(api: KubernetesApi, path: str) -> Object | None:
    try:
        return api.get(path)
    except ApiFailure as problem:
        if problem.not_found:
            return None
        raise
