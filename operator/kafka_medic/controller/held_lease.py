"""What a reconcile may write, by the Lease of its KafkaCluster and the time that has passed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafka_medic.controller.lease import ClusterLease
from kafka_medic.guard.freshness import MAX_AGE


@dataclass(slots=True)
class HeldLease:
    """The Lease of one KafkaCluster, once a reconcile has taken it."""

    monotonic: Callable[[], float]
    _lease: ClusterLease | None = None
    _begun: float = 0.0

    def take(self, make: Callable[[], ClusterLease]) -> bool | None:
        """At the beginning of a reconcile. True: held; False: held by another operator; None: unreadable."""
        self._begun = self.monotonic()
        self._lease = self._lease or make()
        return self._lease.hold()

    def kept(self) -> bool:
        """Whether the Lease was kept since the reconcile began. Sends no request: for what the API server itself
        fences, by the version of the object that is written."""
        return self._lease is not None and self._lease.held()

    def confirm(self) -> bool | None:
        """One more compare-and-set, answered as `take`."""
        return self._lease.confirm() if self._lease else None

    def may_send(self) -> bool:
        """For what Kafka and Kubernetes do not fence. The compare-and-set sees another operator's takeover, whatever
        the clocks say. The time is read after its response: a process that stood still in it sends nothing."""
        return self._lease is not None and self._lease.confirm() is True and self._lease.has_room()

    def may_send_as_read(self) -> bool:
        """The same, for a write that rests on what this reconcile has read: a process that was stopped for a while may
        have read it long ago."""
        return self.may_send() and self.monotonic() - self._begun <= MAX_AGE

    def rest(self) -> None:
        """The reconcile has ended."""
        if self._lease is not None:
            self._lease.rested()

    def release(self) -> None:
        if self._lease is not None:
            self._lease.release()

    def close(self) -> None:
        if self._lease is not None:
            self._lease.close()
