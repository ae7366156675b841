"""One writer per cluster: a coordination.k8s.io Lease, renewed by compare-and-set right before each write.

As in client-go, a lease counts as abandoned when it has not changed for its whole duration *by our own clock*, so that
two machines' clocks need not agree.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi

DURATION_SECONDS = 30
_LOG = logging.getLogger(__name__)


class ClusterLease:
    """The Lease of one KafkaCluster, as one operator process sees it."""

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        cluster: str,
        cluster_uid: str,
        identity: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._monotonic = monotonic
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace = namespace
        self._cluster, self._cluster_uid = cluster, cluster_uid
        self._name = f"kafka-medic-{cluster}"
        self._identity = identity
        self._seen: tuple[str, float] | None = None

    def hold(self) -> bool | None:
        """Take or renew it now. True: ours; False: somebody else's; None: could not be told."""
        try:
            return self._hold()
        except ApiFailure as problem:
            if problem.conflict:
                return False
            _LOG.warning("lease %s: %s", self._name, problem)
            return None

    def release(self) -> None:
        """Let the next operator go on at once. Best effort: it runs out by itself."""
        try:
            lease = self._api.get(f"{self._path}/{self._name}")
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"]["holderIdentity"] = ""
                self._api.replace(f"{self._path}/{self._name}", lease)
        except ApiFailure as problem:
            _LOG.info("lease %s was not released: %s", self._name, problem)

    def _hold(self) -> bool:
        try:
            lease = self._api.get(f"{self._path}/{self._name}")
        except ApiFailure as problem:
            if not problem.not_found:
                raise
            self._api.create(self._path, self._body(transitions=0))
            return True
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self._identity) and not self._abandoned(lease):
            return False
        transitions = int(spec.get("leaseTransitions") or 0) + (holder != self._identity)
        body = self._body(transitions)
        body["metadata"]["resourceVersion"] = lease["metadata"]["resourceVersion"]
        if holder == self._identity:
            body["spec"]["acquireTime"] = spec.get("acquireTime") or body["spec"]["acquireTime"]
        self._api.replace(f"{self._path}/{self._name}", body)
        return True

    def _abandoned(self, lease: dict[str, Any]) -> bool:
        version, now = lease["metadata"]["resourceVersion"], self._monotonic()
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, now)
            return False
        duration = int((lease.get("spec") or {}).get("leaseDurationSeconds") or DURATION_SECONDS)
        return now - self._seen[1] >= duration

    def _body(self, transitions: int) -> dict[str, Any]:
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self._name,
                "namespace": self._namespace,
                "ownerReferences": [
                    {
                        "apiVersion": "kafkamedic.dev/v1alpha1",
                        "kind": "KafkaCluster",
                        "name": self._cluster,
                        "uid": self._cluster_uid,
                    }
                ],
            },
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": DURATION_SECONDS,
                "acquireTime": moment,
                "renewTime": moment,
                "leaseTransitions": transitions,
            },
        }
