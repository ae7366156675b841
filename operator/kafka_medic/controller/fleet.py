"""One worker thread per KafkaCluster, woken by events and by its own clock."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller.reconciler import Reconciler

_LOG = logging.getLogger(__name__)

STALLED_SECONDS = 300.0
"""Longer than the slowest honest reconcile: many probes that all run into their deadlines."""
RETRY_SECONDS = 5.0

ALONE_SECONDS = 3600.0
"""The limit where at most FEW clusters among others hang. A restart interrupts the other clusters for some seconds.
Another operator takes the Lease of a cluster that hangs long before."""
FEW = 3
"""If more clusters hang, or all, the cause is in the process."""

Key = tuple[str, str]
"""(namespace, name) of a KafkaCluster."""


@dataclass(slots=True, eq=False)
class Worker:
    """Reconciles until stopped. A reconcile that fails is logged and retried; only the operator's end stops the
    worker."""

    key: Key
    reconciler: Reconciler
    wake: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)
    generation: int | None = None
    active_at: float = field(default_factory=time.monotonic)
    """When a reconcile last began or ended."""
    running: bool = False
    pause: float = 0.0
    faulty_since: float | None = None
    thread: threading.Thread | None = None
    share: Callable[[], float] = random.random
    """Of the first pause: between 0 and 1."""
    _in_step: bool = True
    """With other workers: all begin at the operator's start, and all try again when the API server is back."""

    def start(self) -> None:
        self.thread = threading.Thread(target=self._loop, name=f"kafkacluster-{'/'.join(self.key)}", daemon=True)
        self.thread.start()

    def stop(self, timeout: float = 20.0) -> None:
        self.stopping.set()
        self.wake.set()
        if self.thread is not None:
            self.thread.join(timeout)

    def stalled(self, now: float, limit: float = STALLED_SECONDS) -> str | None:
        """Why this worker does not reconcile its cluster any more: its thread has ended, it hangs in a reconcile, did
        not begin one that was due, or has failed by a fault of ours for `limit` seconds. A long interval is none of
        these, nor is an API server that refuses: a restart of the process would cure nothing."""
        if self.stopping.is_set():
            return None
        if self.thread is not None and not self.thread.is_alive():
            return "its thread has ended"
        if self.running and now - self.active_at > limit:
            return f"reconcile running for {now - self.active_at:.0f} s (limit {limit:.0f} s)"
        if not self.running and now - self.active_at > limit + self.pause:
            return f"no reconcile for {now - self.active_at:.0f} s (limit {limit + self.pause:.0f} s)"
        if self.faulty_since is not None and now - self.faulty_since > limit:
            return f"internal faults for {now - self.faulty_since:.0f} s"
        return None

    def _loop(self) -> None:
        try:
            while not self.stopping.is_set():
                self.wake.clear()
                self._once()
                self.wake.wait(self.pause)
        finally:
            self.reconciler.close()  # else the Lease of a cluster that nobody watches would be renewed

    def _once(self) -> None:
        """One reconcile; `pause` is how long to wait for the next one. Only `stalled` reads these from another thread,
        and each order of the writes errs on the patient side."""
        self.active_at, self.running = time.monotonic(), True
        self.pause, fault = self._take()
        self.active_at, self.running = time.monotonic(), False
        self.faulty_since = (self.faulty_since or self.active_at) if fault else None

    def _take(self) -> tuple[float, bool]:
        """The pause after this reconcile, and whether it failed by a fault of ours."""
        try:
            return self._out_of_step(self.reconciler.reconcile()), False
        except ApiFailure as problem:
            if problem.not_found:
                _LOG.info("%s: gone", "/".join(self.key))
                return RETRY_SECONDS, False  # the watch will stop this worker; until then there is nothing to do
            if problem.conflict:
                return 0.2, False  # written by somebody else meanwhile: retry from fresh reads
            _LOG.warning("%s: the API server: %s", "/".join(self.key), problem)
            self._in_step = True
            return RETRY_SECONDS, False
        except Exception:  # noqa: BLE001
            # A fault of ours must not end the worker: the cluster would be unwatched with nobody the wiser. It is
            # loud in the log, and the liveness probe fails if it lasts.
            _LOG.exception("%s: the reconcile failed", "/".join(self.key))
            return RETRY_SECONDS, True

    def _out_of_step(self, pause: float) -> float:
        """Once, a share of the pause: a hundred reconciles at the same moment take a fifth more processor, for their
        threads wait for each other."""
        share, self._in_step = self.share() if self._in_step else 1.0, False
        return pause * share


@dataclass(frozen=True, slots=True)
class Known:
    """What the watch has reported of a KafkaCluster."""

    generation: int | None
    created: str


class Fleet:
    """The workers by KafkaCluster. Of a namespace with more than `most` KafkaClusters the oldest have one."""

    def __init__(self, make_reconciler: Callable[[Key], Reconciler], most: int | None = None) -> None:
        self._make_reconciler = make_reconciler
        self.most = most
        self._known: dict[Key, Known] = {}
        self._leaving: dict[Key, Worker] = {}
        """Workers whose KafkaCluster is gone, or gave way to older ones. None begins for the same one before its thread
        has ended."""
        self._workers: dict[Key, Worker] = {}
        self._lock = threading.Lock()
        self._reported: set[Worker] = set()

    def present(self, key: Key, generation: int | None, created: str = "") -> None:
        """The KafkaCluster exists: watch it. A new generation wakes the worker; our own writes of its status, which
        come back as events too, do not."""
        with self._lock:
            self._known[key] = Known(generation, created)
            self._start_and_stop(key[0])
            worker = self._workers.get(key)
        if worker is not None and worker.generation != generation:
            worker.generation = generation
            worker.wake.set()

    def gone(self, key: Key) -> None:
        with self._lock:
            self._known.pop(key, None)
            worker = self._workers.pop(key, None)
            if worker is not None:
                worker.stop(timeout=0)
                self._leaving[key] = worker
            self._start_and_stop(key[0])

    def start_due(self) -> None:
        """What could not begin yet, because another thread of the same KafkaCluster had not ended, begins now."""
        with self._lock:
            for namespace in {key[0] for key in self._known}:
                self._start_and_stop(namespace)
            self._leaving = {k: w for k, w in self._leaving.items() if w.thread is not None and w.thread.is_alive()}

    def _start_and_stop(self, namespace: str) -> None:
        """Under the lock."""
        watched = self._watched(namespace)
        for key in [k for k in self._workers if k[0] == namespace and k not in watched]:
            worker = self._leaving[key] = self._workers.pop(key)
            worker.stop(timeout=0)
        for key in watched:
            left = self._leaving.get(key)
            if key in self._workers or (left is not None and left.thread is not None and left.thread.is_alive()):
                continue
            self._leaving.pop(key, None)
            worker = self._workers[key] = Worker(
                key, self._make_reconciler(key), generation=self._known[key].generation
            )
            worker.start()

    def _watched(self, namespace: str) -> list[Key]:
        keys = sorted((k for k in self._known if k[0] == namespace), key=lambda k: (self._known[k].created, k))
        return keys if self.most is None else keys[: self.most]

    def unwatched(self) -> dict[Key, int]:
        """The KafkaClusters beyond `most`, each with how many there are in its namespace."""
        with self._lock:
            namespaces = {key[0] for key in self._known}
            counts = {n: sum(key[0] == n for key in self._known) for n in namespaces}
            watched = {key for namespace in namespaces for key in self._watched(namespace)}
            return {key: counts[key[0]] for key in self._known if key not in watched}

    def wake(self, namespace: str | None = None, name: str | None = None) -> None:
        """Something changed that concerns one cluster, a namespace's clusters, or all."""
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            if namespace in (None, worker.key[0]) and name in (None, worker.key[1]):
                worker.wake.set()

    def knows(self, namespace: str, name: str) -> bool:
        """Whether there is a KafkaCluster of that name."""
        with self._lock:
            return (namespace, name) in self._known

    def known_generations(self) -> dict[Key, int | None]:
        """The clusters that the watch has reported, each with its last generation."""
        with self._lock:
            return {key: known.generation for key, known in self._known.items()}

    def stalled(self) -> list[str]:
        """Why the process should be restarted: clusters that it no longer reconciles, each with the reason. At most FEW
        among others count only after ALONE_SECONDS. One cluster that hangs does not stop the other hundred."""
        self.start_due()
        now = time.monotonic()
        with self._lock:
            workers = list(self._workers.values())
        found = {w: why for w in workers if (why := w.stalled(now))}
        for worker, why in found.items():
            if worker not in self._reported:
                _LOG.error("%s is no longer reconciled: %s", "/".join(worker.key), why)
        self._reported = set(found)
        if len(found) <= FEW and len(found) < len(workers):
            found = {w: why for w in found if (why := w.stalled(now, ALONE_SECONDS))}
        return [f"{'/'.join(w.key)}: {why}" for w, why in found.items()]

    def stop(self) -> None:
        with self._lock:
            workers, self._workers, self._known = list(self._workers.values()), {}, {}
        for worker in workers:
            worker.stopping.set()
            worker.wake.set()
        for worker in workers:
            worker.stop()
