"""One worker thread per KafkaCluster, woken by events and by its own clock."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller.turn import Turn

_LOG = logging.getLogger(__name__)

DEAF_SECONDS = 300.0
"""Longer than the slowest honest turn: many probes that all run into their deadlines."""
RETRY_SECONDS = 5.0

Key = tuple[str, str]
"""(namespace, name) of a KafkaCluster."""


@dataclass(slots=True)
class Worker:
    """Takes turns until stopped. A turn that fails is logged and taken again; only the operator's end stops it."""

    key: Key
    turn: Turn
    wake: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)
    generation: int | None = None
    heard: float = field(default_factory=time.monotonic)
    """When a turn last began or ended."""
    running: bool = False
    pause: float = 0.0
    faulty_since: float | None = None
    thread: threading.Thread | None = None

    def start(self) -> None:
        self.thread = threading.Thread(target=self._loop, name=f"kafkacluster-{'/'.join(self.key)}", daemon=True)
        self.thread.start()

    def stop(self, timeout: float = 20.0) -> None:
        self.stopping.set()
        self.wake.set()
        if self.thread is not None:
            self.thread.join(timeout)

    def deaf(self, now: float) -> str | None:
        """Why this worker does not watch its cluster any more: it has ended by itself, hangs in a turn, did not begin
        one that was due, or has failed by a fault of ours for too long. A long interval is none of these, nor is an API
        server that refuses: starting the process again would cure nothing."""
        if self.stopping.is_set():
            return None
        if self.thread is not None and not self.thread.is_alive():
            return "its thread has ended"
        if self.running and now - self.heard > DEAF_SECONDS:
            return f"in one turn for {now - self.heard:.0f} s"
        if not self.running and now - self.heard > DEAF_SECONDS + self.pause:
            return f"no turn for {now - self.heard:.0f} s"
        if self.faulty_since is not None and now - self.faulty_since > DEAF_SECONDS:
            return f"faults of the operator's own for {now - self.faulty_since:.0f} s"
        return None

    def _loop(self) -> None:
        while not self.stopping.is_set():
            self.wake.clear()
            self._once()
            self.wake.wait(self.pause)
        self.turn.close()

    def _once(self) -> None:
        """One turn; `pause` is how long to wait for the next one. Only `deaf` reads these from another thread, and each
        order of the writes errs on the patient side."""
        self.heard, self.running = time.monotonic(), True
        self.pause, fault = self._take()
        self.heard, self.running = time.monotonic(), False
        self.faulty_since = (self.faulty_since or self.heard) if fault else None

    def _take(self) -> tuple[float, bool]:
        """The pause after this turn, and whether it failed by a fault of ours."""
        try:
            return self.turn.run(), False
        except ApiFailure as problem:
            if problem.not_found:
                _LOG.info("%s: gone", "/".join(self.key))
                return RETRY_SECONDS, False  # the watch will stop this worker; until then there is nothing to do
            if problem.conflict:
                return 0.2, False  # somebody wrote in between: again, from fresh reads
            _LOG.warning("%s: the API server: %s", "/".join(self.key), problem)
            return RETRY_SECONDS, False
        except Exception:  # noqa: BLE001
            # A fault of ours must not end the worker: the cluster would be unwatched with nobody the wiser. It is
            # loud in the log, and the liveness probe fails if it lasts.
            _LOG.exception("%s: the turn failed", "/".join(self.key))
            return RETRY_SECONDS, True


class Fleet:
    """The workers by KafkaCluster."""

    def __init__(self, make_turn: Callable[[Key], Turn]) -> None:
        self._make_turn = make_turn
        self._workers: dict[Key, Worker] = {}
        self._lock = threading.Lock()

    def present(self, key: Key, generation: int | None) -> None:
        """The KafkaCluster exists: watch it. A new generation is worth a turn of its own; our own writes of its status,
        which come back as events too, are not."""
        with self._lock:
            worker = self._workers.get(key)
            if worker is None:
                worker = self._workers[key] = Worker(key, self._make_turn(key))
                worker.start()
        if worker.generation != generation:
            worker.generation = generation
            worker.wake.set()

    def gone(self, key: Key) -> None:
        with self._lock:
            worker = self._workers.pop(key, None)
        if worker is not None:
            worker.stop(timeout=0)

    def wake(self, namespace: str | None = None, name: str | None = None) -> None:
        """Something changed that concerns one cluster, a namespace's clusters, or all."""
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            if namespace in (None, worker.key[0]) and name in (None, worker.key[1]):
                worker.wake.set()

    def knows(self, namespace: str, name: str) -> bool:
        """Whether a KafkaCluster of that name is watched."""
        with self._lock:
            return (namespace, name) in self._workers

    def heard_of(self) -> dict[Key, int | None]:
        """The clusters that the watch told of, each with the generation it told last."""
        with self._lock:
            return {key: worker.generation for key, worker in self._workers.items()}

    def deaf(self) -> list[str]:
        """Clusters that are not watched any more though they should be, each with why."""
        now = time.monotonic()
        with self._lock:
            workers = list(self._workers.values())
        return [f"{'/'.join(w.key)}: {why}" for w in workers if (why := w.deaf(now))]

    def stop(self) -> None:
        with self._lock:
            workers, self._workers = list(self._workers.values()), {}
        for worker in workers:
            worker.stopping.set()
            worker.wake.set()
        for worker in workers:
            worker.stop()
