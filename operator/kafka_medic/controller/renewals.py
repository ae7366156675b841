"""The leases of a process, renewed beside its work: a reconcile of any length keeps its lease."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from kafka_medic.controller.lease import Lease

THREADS = 4
"""For all leases together, however many there are. One request that hangs occupies one of them for five seconds."""
SEARCH_SECONDS = 1.0
"""Within which a lease that a reconcile has taken is found. Its first renewal is due seconds later."""
_LOG = logging.getLogger(__name__)
L = TypeVar("L", bound=Lease)


class Renewals:
    """Renews every lease that is held, each one when it is due."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._leases: set[Lease] = set()
        self._renewing: set[Lease] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._loop, name=f"lease-renewal-{n}", daemon=True) for n in range(THREADS)
        ]

    def keep(self, lease: L) -> L:
        """From now on, whenever it is held, until it is closed."""
        with self._lock:
            self._leases.add(lease)
        return lease

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def step(self) -> float:
        """Renew the lease that is due first and that no other thread renews. Answers after how many seconds the next
        one is due."""
        with self._lock:
            first, lease = float("inf"), None
            for kept in tuple(self._leases):
                if kept.closed:
                    self._leases.discard(kept)
                elif (due := kept.due) is not None and due < first and kept not in self._renewing:
                    first, lease = due, kept
            wait = first - self._monotonic()
            if lease is None or wait > 0:
                return wait
            self._renewing.add(lease)
        try:
            lease.renew()
        except Exception:  # noqa: BLE001
            # A fault of ours: the lease is lost by the clock if it lasts, and the others are renewed all the same.
            _LOG.exception("a lease could not be renewed")
            return SEARCH_SECONDS
        finally:
            with self._lock:
                self._renewing.discard(lease)
        return 0.0

    def _loop(self) -> None:
        while not self._stopping.is_set():
            if wait := self.step():
                self._stopping.wait(min(wait, SEARCH_SECONDS))
