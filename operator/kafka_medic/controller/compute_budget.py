"""The processor time that the reconciles of one KafkaCluster may use, and what waits because it used too much."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from kafka_medic.controller.overtime import within

T = TypeVar("T")
COMPUTE_SECONDS = 60.0
"""Processor seconds for all that one reconcile computes. To diagnose 200,000 partitions takes one second."""
FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0
"""Seconds until the operator computes again what was cut off. The pause doubles each time."""


@dataclass(slots=True)
class ComputeBudget:
    """Names are `diagnosis` and the uids of runs. `now`: by a clock that only goes forwards."""

    _used: float = 0.0
    _paused: dict[str, tuple[float, int]] = field(default_factory=dict)
    """By name: until when it is left alone, and how often it took too long."""

    def begin(self) -> None:
        """A reconcile begins to compute."""
        self._used = 0.0

    def within(self, limit: float, what: str, compute: Callable[[], T]) -> T:
        """What `compute` returns. Everything since `begin` shares the limit. Raises Overtime."""
        began = time.thread_time()
        try:
            return within(max(1.0, limit - self._used), what, compute)
        finally:
            self._used += time.thread_time() - began

    def pause(self, name: str, now: float) -> float:
        """Leave it alone for a while; the seconds, longer each time."""
        count = self._paused.get(name, (0.0, 0))[1] + 1
        seconds: float = min(FIRST_PAUSE * 2 ** (count - 1), LONGEST_PAUSE)
        self._paused[name] = now + seconds, count
        return seconds

    def is_paused(self, name: str, now: float) -> bool:
        until, _ = self._paused.get(name, (0.0, 0))
        return until > now

    def succeeded(self, name: str) -> None:
        self._paused.pop(name, None)
