"""Having a broker's Pod replaced, through the API server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from kafka_medic.clients.failures import FailureKind, WriteFailed
from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi, Object
from kafka_medic.resources.kafkacluster import STRIMZI_CLUSTER, STRIMZI_ROLL

ASKED_FOR = "kafkamedic.dev/restart-asked-for"
"""Annotation that a Kafka resource gets for a moment: the uid of the Pod that Strimzi is asked to restart. Any change
makes Strimzi reconcile at once, instead of at its timer's turn (STRIMZI_FULL_RECONCILIATION_INTERVAL_MS, 2 minutes)."""


class EvictedPods:
    """Pods that their own controller (a StatefulSet, a chart) makes anew. Always by eviction: where a
    PodDisruptionBudget covers the Pod it is asked, where none does an eviction is a deletion."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self._api, self._namespace = api, namespace

    def replace_pod(self, name: str, uid: str) -> None:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": self._namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        path = f"/api/v1/namespaces/{self._namespace}/pods/{name}/eviction"
        _unless_gone(lambda: self._api.create(path, body), name)


class StrimziPods:
    """Pods that Strimzi owns: it is told, and does it by its own rules."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self._api, self._namespace = api, namespace

    def replace_pod(self, name: str, uid: str) -> None:
        pod = self._annotate(name, uid, "true")
        if pod is None:
            return
        cluster = (pod["metadata"].get("labels") or {}).get(STRIMZI_CLUSTER)
        owner = next((o for o in pod["metadata"].get("ownerReferences") or () if o.get("controller")), None)
        if cluster and owner:
            version = owner["apiVersion"].rpartition("/")[2]
            path = f"/apis/kafka.strimzi.io/{version}/namespaces/{self._namespace}/kafkas/{cluster}"
            with suppress(ApiFailure):  # without it the restart comes later
                for note in (uid, None):  # Strimzi has heard of it, and nothing stays behind
                    self._api.merge(path, {"metadata": {"annotations": {ASKED_FOR: note}}})

    def keep_pod(self, name: str, uid: str) -> None:
        self._annotate(name, uid, None)

    def _annotate(self, name: str, uid: str, value: str | None) -> Object | None:
        """The Pod; None where it is gone."""
        # The uid in a patch is a precondition. For another Pod of that name the API server refuses it as a change of an
        # immutable field: 422 Invalid (ValidateObjectMetaUpdate), as Kubernetes' own PodControllerRefManager expects.
        body = {"metadata": {"uid": uid, "annotations": {STRIMZI_ROLL: value}}}
        path = f"/api/v1/namespaces/{self._namespace}/pods/{name}"
        return _unless_gone(lambda: self._api.merge(path, body), name)


def _unless_gone(send: Callable[[], Object], name: str) -> Object | None:
    try:
        return send()
    except ApiFailure as problem:
        another = problem.status == 422 and "metadata.uid" in problem.message
        if problem.not_found or problem.conflict or another:
            return None  # gone, or another Pod by now: the next look at the cluster tells
        if problem.status == 429:
            message = f"a PodDisruptionBudget does not permit the eviction of Pod {name} now: {problem.message}"
            raise WriteFailed(FailureKind.REFUSED, message) from None
        kind = FailureKind.AUTHORIZATION if problem.status in (401, 403) else FailureKind.UNREACHABLE
        raise WriteFailed(kind, f"Kubernetes: Pod {name}: {problem}") from None
