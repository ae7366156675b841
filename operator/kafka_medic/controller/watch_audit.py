"""Detects a watch that has stalled, by comparing it with a list.

A worker re-reads its own cluster, so a dead watch shows in none of them: a new KafkaCluster would never be reconciled.
The cure is a new process, since approvals and Playbooks come through the same kind of watch.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller.fleet import STALLED_SECONDS, Fleet, Key

_LOG = logging.getLogger(__name__)

EVERY_SECONDS = 60.0
MISSED_SECONDS = 180.0
"""A watch that works reports within a second; kopf opens a broken one anew after a few tries."""


class WatchAudit:
    """Lists KafkaClusters once a minute, and keeps since when the watch has missed which of them."""

    def __init__(self, listed: Callable[[], Mapping[Key, int | None]], fleet: Fleet) -> None:
        self._listed, self._fleet = listed, fleet
        self._missed_since: dict[tuple[Key, str], float] = {}
        self._compared_at = time.monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="watch-audit", daemon=True)

    def start(self) -> None:
        self._compared_at = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def compare(self) -> None:
        """Compare once. An API server that does not answer says nothing about the watch."""
        try:
            listed = self._listed()
        except ApiFailure as problem:
            _LOG.info("the list of KafkaClusters could not be read: %s", problem)
            self._compared_at = time.monotonic()
            return
        known = self._fleet.known_generations()
        missed = {(k, "is missing in the watch") for k in listed.keys() - known.keys()}
        missed |= {(k, "was deleted without a watch event") for k in known.keys() - listed.keys()}
        missed |= {
            (k, f"has generation {listed[k]} without a watch event")
            for k in listed.keys() & known.keys()
            if listed[k] != known[k]
        }
        now = time.monotonic()
        self._missed_since = {what: self._missed_since.get(what, now) for what in missed}
        self._compared_at = now

    def missed(self) -> list[str]:
        """What the watch has missed for too long."""
        now = time.monotonic()
        missed = [
            f"KafkaCluster {'/'.join(key)} {what} for {now - since:.0f} s"
            for (key, what), since in sorted(self._missed_since.items())
            if now - since > MISSED_SECONDS
        ]
        if self._thread.is_alive() and now - self._compared_at > STALLED_SECONDS:
            missed.append(f"KafkaClusters were not listed for {now - self._compared_at:.0f} s")
        return missed

    def _loop(self) -> None:
        while not self._stopping.wait(EVERY_SECONDS):
            try:
                self.compare()
            except Exception:  # noqa: BLE001
                # A fault of ours: the next call is the next try, and `missed` says that none ended.
                _LOG.exception("the list of KafkaClusters was not compared")
