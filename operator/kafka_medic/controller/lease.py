"""One writer: a coordination.k8s.io Lease, taken and renewed by compare-and-set, and kept beside the work.

The model is client-go's leader election (LeaseDuration 15 s, RenewDeadline 10 s, RetryPeriod 2 s). Taken from it:
a lease is abandoned if it has not changed for its whole duration *by the observer's own clock*, so that two machines'
clocks need not agree; a holder that cannot renew in time gives up before others may take over; a clean end releases.
Stricter than client-go:

- The time of a renewal is the moment at which its request was sent, not that at which it was answered.
- A lease that was lost is lost for the rest of the reconcile, even if nobody took it. Only `hold` takes it again.
- An effect needs one more compare-and-set right before it (`confirm`), and after that answer enough time (`has_room`).
- A renewal never takes a lease: not a free one, not one that was deleted and created again.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi, answered_within
from kafka_medic.resources.vocabulary import GROUP, VERSION

DURATION_SECONDS = 30
"""Seconds without a change after which others may take the lease. The other figures are shares of it."""
RENEWED = 1 / 3
"""After which the holder renews: 10 s, less up to `JITTER` of that."""
JITTER = 0.2
"""So that the leases of many clusters are not renewed at the same moment."""
RETRIED = 1 / 15
"""After which a renewal that failed is sent again: 2 s."""
ANSWERED = 1 / 6
"""How long a request waits for its answer at most: 5 s, so that a first renewal that hangs leaves time for two more."""
MARGIN = 1 / 6
"""How long before the end the holder takes it for lost: 5 s, for clocks that run at different speeds."""
ROOM = 2 / 3
"""What has to be left when an effect is sent: 20 s, the longest wait for a change (`clients.timeouts.MOST_SECONDS`).
So no more than 5 s lie between the last compare-and-set and the effect."""
LONGEST_USE = 600.0
"""Seconds after `hold` from which a lease in use is not renewed: twice what the liveness probe gives a reconcile. Where
no probe restarts a process that hangs, another operator takes over."""
_LOG = logging.getLogger(__name__)


class Lease:
    """One Lease, as one operator process sees it. Thread-safe; one request at a time."""

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        name: str,
        identity: str,
        monotonic: Callable[[], float] = time.monotonic,
        owners: Sequence[dict[str, str]] = (),
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._api = api
        self._monotonic, self._chance = monotonic, chance
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace, self._name = namespace, name
        self._identity, self._owners = identity, owners
        self._seen: tuple[str, float] | None = None
        self._requesting = threading.Lock()
        self._until: float | None = None
        self._due: float | None = None
        self._stored: dict[str, Any] | None = None
        self._used_since: float | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def due(self) -> float | None:
        """When it is to be renewed, by the monotonic clock; None: it is not held."""
        return self._due

    def held(self) -> bool:
        """Whether it is certainly ours now. Sends no request."""
        until = self._until
        return until is not None and self._monotonic() < until

    def has_room(self) -> bool:
        """Whether enough of it is left for an effect that is sent now."""
        until = self._until
        return until is not None and until - self._monotonic() >= DURATION_SECONDS * ROOM

    def hold(self) -> bool | None:
        """Take it, or renew it once that is due. True: ours; False: somebody else's; None: unreadable. Sends no
        request while it is held and no renewal is due: what acts confirms it."""
        with self._requesting:
            self._used_since = now = self._monotonic()
            if self.held() and self._due is not None and now < self._due:
                return True
            return self._answer(self._take)

    def confirm(self) -> bool | None:
        """Renew it now, if it was ours without a gap since `hold`. Answers as `hold`, and never takes it: what its
        holder has read by then may be older than what another operator did."""
        with self._requesting:
            return self._answer(self._renew) if self.held() else False

    def rested(self) -> None:
        """The work that `hold` was called for has ended. The lease stays ours."""
        self._used_since = None

    def renew(self) -> None:
        """One renewal beside the work. Sends nothing if a thread that works is at it, or the lease is lost."""
        if not self._requesting.acquire(blocking=False):
            self._later()
            return
        try:
            self._renew_beside()
        finally:
            self._requesting.release()

    def release(self) -> None:
        """Let the next operator take it at once. Best effort: it runs out by itself."""
        with self._requesting:
            mine, self._stored = self._stored, None
            self._until = self._due = self._used_since = None
            if mine is None:
                return
            try:
                lease = self._read()
                if self._is_mine(lease, mine):
                    lease["spec"]["holderIdentity"] = ""
                    with answered_within(self._answer_timeout()):
                        self._api.replace(f"{self._path}/{self._name}", lease)
            except ApiFailure as problem:
                _LOG.info("lease %s was not released: %s", self._name, problem)

    def close(self) -> None:
        """Release it for good: nothing renews it any more."""
        self._closed = True
        self.release()

    def _answer(self, request: Callable[[], bool]) -> bool | None:
        try:
            return request()
        except ApiFailure as problem:
            if problem.conflict:
                return False
            _LOG.warning("lease %s: %s", self._name, problem)
            return None

    def _take(self) -> bool:
        try:
            lease = self._read()
        except ApiFailure as problem:
            if not problem.not_found:
                raise
            body = self._body(transitions=0)
            self._write(lambda: self._api.create(self._path, body))
            return True
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self._identity) and not self._abandoned(lease):
            self._lose(f"{holder} holds it")
            return False
        self._put(lease)
        return True

    def _renew(self) -> bool:
        try:
            lease = self._read()
        except ApiFailure as problem:
            if not problem.not_found:
                raise
            self._lose("it was deleted")
            return False
        if not self._is_mine(lease, self._stored):
            self._lose(f"{(lease.get('spec') or {}).get('holderIdentity') or 'no operator'} holds it")
            return False
        self._put(lease)
        return True

    def _renew_beside(self) -> None:
        if self._closed or self._due is None:
            return
        if not self.held():
            self._lose("it could not be renewed in time")
            return
        if self._used_since is not None and self._monotonic() - self._used_since > LONGEST_USE:
            self._due = None
            _LOG.error("lease %s: in use for %.0f s, no longer renewed", self._name, LONGEST_USE)
            return
        self._later()  # also if what follows fails by a fault of ours
        if self._answer(self._renew_known) is False and self.held():
            self._answer(self._renew)

    def _renew_known(self) -> bool:
        """In one request, as client-go does. A conflict may be a request of our own that was answered too late."""
        if self._stored is None:
            return False
        try:
            self._put(self._stored)
        except ApiFailure as problem:
            if not problem.not_found:
                raise
            self._lose("it was deleted")
        return True

    def _put(self, lease: dict[str, Any]) -> None:
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        body = self._body(int(spec.get("leaseTransitions") or 0) + (holder != self._identity))
        body["metadata"]["resourceVersion"] = lease["metadata"]["resourceVersion"]
        if holder == self._identity:
            body["spec"]["acquireTime"] = spec.get("acquireTime") or body["spec"]["acquireTime"]
        self._write(lambda: self._api.replace(f"{self._path}/{self._name}", body))

    def _write(self, send: Callable[[], dict[str, Any]]) -> None:
        """Others count from when they see the change, which is after this moment."""
        sent = self._monotonic()
        with answered_within(self._answer_timeout()):
            self._stored = send()
        self._until = sent + DURATION_SECONDS * (1 - MARGIN)
        self._due = sent + DURATION_SECONDS * RENEWED * (1 - JITTER * self._chance())

    def _read(self) -> dict[str, Any]:
        with answered_within(self._answer_timeout()):
            return self._api.get(f"{self._path}/{self._name}")

    def _answer_timeout(self) -> float:
        """Seconds that a request may take: less than what is left of a lease that is held."""
        longest, until = DURATION_SECONDS * ANSWERED, self._until
        left = 0.0 if until is None else until - self._monotonic()
        return min(longest, left) if left > 0 else longest

    def _later(self) -> None:
        self._due = self._monotonic() + DURATION_SECONDS * RETRIED

    def _lose(self, why: str) -> None:
        if self._until is not None:
            _LOG.warning("lease %s is lost: %s", self._name, why)
        self._until = self._due = None

    def _is_mine(self, lease: dict[str, Any], taken: dict[str, Any] | None) -> bool:
        """The very object that was taken, with the same holder."""
        same = taken is not None and taken["metadata"].get("uid") == lease["metadata"].get("uid")
        return same and (lease.get("spec") or {}).get("holderIdentity") == self._identity

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
        chance: Callable[[], float] = random.random,
    ) -> None:
        owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "KafkaCluster", "name": cluster, "uid": cluster_uid}
        super().__init__(api, namespace, f"kafka-medic-{cluster}", identity, monotonic, [owner], chance)


@dataclass(slots=True)
class Starts:
    """One start at a time, over all clusters: held from the read of the others until the start is written, so that two
    starts do not pass each other unseen. `lease` keeps other processes out; None: there are no others."""

    lease: Lease | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def passing(self) -> Iterator[bool]:
        """Whether this one may start; if not, another process is starting a run, or the lease could not be read."""
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

    def still(self) -> bool:
        """Right before the start is written: whether no other process may have passed meanwhile."""
        return self.lease is None or self.lease.held()
