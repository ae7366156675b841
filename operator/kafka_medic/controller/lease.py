"""One writer: a coordination.k8s.io Lease, taken and renewed by compare-and-set, for a cluster right before each write.

As in client-go, a lease counts as abandoned when it has not changed for its whole duration *by our own clock*, so that
two machines' clocks need not agree.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi
from kafka_medic.resources.vocabulary import GROUP, VERSION

DURATION_SECONDS = 30
_LOG = logging.getLogger(__name__)


class Lease:
    """One Lease, as one operator process sees it."""

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        name: str,
        identity: str,
        monotonic: Callable[[], float] = time.monotonic,
        owners: Sequence[dict[str, str]] = (),
    ) -> None:
        self._api = api
        self._monotonic = monotonic
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace, self._name = namespace, name
        self._identity, self._owners = identity, owners
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
                **({"ownerReferences": list(self._owners)} if self._owners else {}),
            },
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": DURATION_SECONDS,
                "acquireTime": moment,
                "renewTime": moment,
                "leaseTransitions": transitions,
            },
        }


class ClusterLease(Lease):
    """The Lease of one KafkaCluster, beside it and owned by it."""

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        cluster: str,
        cluster_uid: str,
        identity: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "KafkaCluster", "name": cluster, "uid": cluster_uid}
        super().__init__(api, namespace, f"kafka-medic-{cluster}", identity, monotonic, [owner])


@dataclass(slots=True)
class Starts:
    """One start at a time, over all clusters: held from the look at the others until the start is written, so that two
    starts do not pass each other unseen. `lease` keeps other processes out; None: there are no others."""

    lease: Lease | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def passing(self) -> Iterator[bool]:
        """Whether it is this one's turn; if not, another process is at it, or that could not be told."""
        with self.lock:
            if self.lease is None:
                yield True
            elif self.lease.hold() is True:
                try:
                    yield True
                finally:
                    self.lease.release()
            else:
                yield False
