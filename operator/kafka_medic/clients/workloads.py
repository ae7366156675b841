"""Deployments and StatefulSets, by their subresource `scale` alone: reading and changing that is all they are touched
for, and all the rights that it takes."""

from __future__ import annotations

from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi, Object
from kafka_medic.cluster.workloads import Workload
from kafka_medic.resources.vocabulary import WorkloadKind

_PLURAL = {WorkloadKind.DEPLOYMENT: "deployments", WorkloadKind.STATEFUL_SET: "statefulsets"}


class ScaledWorkloads:
    """Those of one namespace."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self._api, self._namespace = api, namespace

    def read(self, kind: WorkloadKind, name: str) -> Workload:
        """Raises ReadFailed."""
        try:
            found = self._api.get(self._path(kind, name))
        except ApiFailure as problem:
            if problem.not_found:
                return Workload(None)
            raise ReadFailed(_kind(problem), f"Kubernetes: {kind.value} {name}: {problem}") from None
        return _workload(found)

    def scale(self, kind: WorkloadKind, name: str, uid: str, before: int, after: int) -> None:
        """Exactly this one, and only from `before`; what runs `after` replicas already, or is another one by now, is
        left alone. Raises WriteFailed."""
        try:
            found = self._api.get(self._path(kind, name))
            present = _workload(found)
            if present.uid != uid or present.replicas == after:
                return
            if present.replicas != before:
                message = f"not sent: {kind.value} {name} has spec.replicas {present.replicas} (planned from: {before})"
                raise WriteFailed(FailureKind.REFUSED, message)
            # With the resourceVersion that was read this is a compare-and-set.
            self._api.replace(self._path(kind, name), found | {"spec": {"replicas": after}})
        except ApiFailure as problem:
            if problem.not_found:
                return
            raise WriteFailed(_kind(problem), f"Kubernetes: {kind.value} {name}: {problem}") from None

    def _path(self, kind: WorkloadKind, name: str) -> str:
        return f"/apis/apps/v1/namespaces/{self._namespace}/{_PLURAL[kind]}/{name}/scale"


def _workload(scale: Object) -> Workload:
    """From a Scale (autoscaling/v1), which leaves out what is 0."""
    spec, status = scale.get("spec") or {}, scale.get("status") or {}
    return Workload(scale["metadata"]["uid"], int(spec.get("replicas") or 0), int(status.get("replicas") or 0))


def _kind(problem: ApiFailure) -> FailureKind:
    if problem.status in (401, 403):
        return FailureKind.AUTHORIZATION
    return FailureKind.REFUSED if problem.conflict else FailureKind.UNREACHABLE
