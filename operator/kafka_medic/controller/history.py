"""Snapshots appended to a history for `kafka-medic fleet`, beside the reconciles.

A volume may be slow or hang. So a thread of its own writes, one Snapshot at a time, and no reconcile waits for it. A
Snapshot that finds the thread at work is not kept: the next reconcile offers another one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.fleet.history import append
from kafka_medic.resources.kafkacluster import KafkaCluster

_LOG = logging.getLogger(__name__)

EVERY = 6 * 3600.0
RETRY = 300.0
"""Seconds from one failure to the next try."""


@dataclass(slots=True)
class History:
    """`directory` None: nothing is appended. `every`: seconds between two Snapshots of a cluster."""

    directory: Path | None = None
    every: float = EVERY
    now: Callable[[], float] = time.monotonic
    _due: dict[str, float] = field(default_factory=dict)
    _at_work: threading.Lock = field(default_factory=threading.Lock)

    def offer(self, cluster: KafkaCluster, snapshot: Snapshot) -> threading.Thread | None:
        """Append the Snapshot if one is due; the thread that does. Never waits and never fails. Without a cluster id
        nobody could tell whose it is."""
        uid, now = cluster.uid or "", self.now()
        if self.directory is None or snapshot.cluster.id is None or now < self._due.get(uid, now):
            return None
        if not self._at_work.acquire(blocking=False):
            return None
        self._due[uid] = now + self.every
        # Two KafkaClusters may have one name, in two namespaces. What tells their clocks apart is who observes.
        info = replace(snapshot.cluster, name=f"{cluster.namespace}/{cluster.name}")
        named = replace(snapshot, cluster=info)
        writer = threading.Thread(target=self._append, args=(self.directory, named, uid), name="history", daemon=True)
        writer.start()
        return writer

    def _append(self, directory: Path, snapshot: Snapshot, uid: str) -> None:
        try:
            append(directory, snapshot, f"operator, KafkaCluster {uid}")
        except Exception as problem:  # noqa: BLE001 - a history that cannot be written harms no cluster
            self._due[uid] = self.now() + RETRY
            told = f"{type(problem).__name__}: {problem}"
            _LOG.warning("%s: not appended to %s: %s; retrying", snapshot.cluster.name, directory, told)
        finally:
            self._at_work.release()
