"""The sources of one observation, read side by side.

Each has its own thread while it is read, and an observation ends after all of its threads: a source that hangs costs
the other sources nothing. The threads belong to the process. To start 13 of them took a tenth of a small observation.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Generic, ParamSpec, TypeVar

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.cluster.snapshot import Source, SourceState

T = TypeVar("T")
P = ParamSpec("P")

THREADS = 14
"""Of one observation: more than the sources that are ever read at the same time, apart from the logs of stale
leaders."""
MOST_THREADS = 4096
"""Of all observations: more than hundreds of clusters need that all hang."""


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST_THREADS, "observe")


# A forked process has none of its parent's threads.
os.register_at_fork(after_in_child=_threads.cache_clear)


class SideBySide(Executor):
    """The threads of one observation. Its end waits for all of them."""

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(THREADS)
        self._begun: list[Future[Any]] = []

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Waits while as many as `THREADS` are at work."""
        self._free.acquire()
        begun = _threads().submit(fn, *args, **kwargs)
        begun.add_done_callback(lambda _: self._free.release())
        self._begun.append(begun)
        return begun

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        futures.wait(self._begun)


def wholly(_: object) -> None:
    """A source that told all there is."""
    return


NAMED = 5
"""Of what failed, so many are named."""


def failure_summary(failed: Mapping[str, str], of: int | None = None) -> str | None:
    """What failed and why, the first few; None when nothing did. `of`: how many there are, where `failed` has only the
    first."""
    named = [f"{what}: {why}" for what, why in list(failed.items())[:NAMED]]
    count = len(failed) if of is None else of
    more = [f"and {count - NAMED} more"] if count > NAMED else []
    return "; ".join([*named, *more]) or None


@dataclass(slots=True)
class Reading(Generic[T]):
    """A source that is being read."""

    sources: list[Source | None]
    place: int
    outcome: Future[T | None]

    def value(self) -> T | None:
        """Waits for it. None when it failed; then the source says why."""
        return self.outcome.result()

    @property
    def source(self) -> Source | None:
        """For who has waited for it."""
        return self.sources[self.place]

    @property
    def observed_at(self) -> datetime | None:
        """When it ended, for who has waited for it."""
        source = self.sources[self.place]
        return source.observed_at if source else None


@dataclass(slots=True)
class Readings:
    """The sources so far, in the order in which they were begun. `begin` is the only way to read one, so that no
    failure goes unrecorded. A reading may wait for the value of one that was begun before it."""

    now: Callable[[], datetime]
    pool: Executor
    _sources: list[Source | None] = field(default_factory=list)

    @property
    def sources(self) -> tuple[Source, ...]:
        """For who has waited for all of them."""
        return tuple(source for source in self._sources if source is not None)

    def begin(self, name: str, read: Callable[[], T], partly: Callable[[T], str | None] = wholly) -> Reading[T]:
        """`partly`: what the source could not tell, although it is known as a whole."""
        place = len(self._sources)
        self._sources.append(None)

        def run() -> T | None:
            began = self.now()
            try:
                value = read()
            except ReadFailed as problem:
                self._sources[place] = self._unknown(name, str(problem), began)
                return None
            ended = self.now()
            took = _milliseconds(began, ended)
            self._sources[place] = Source(name, ended, SourceState.KNOWN, partly(value), took)
            return value

        return Reading(self._sources, place, self.pool.submit(run))

    def again(self, source: Source, value: T) -> Reading[T]:
        """What was read before, with the time of that."""
        place = len(self._sources)
        self._sources.append(source)
        outcome: Future[T | None] = Future()
        outcome.set_result(value)
        return Reading(self._sources, place, outcome)

    def fail(self, name: str, error: str) -> None:
        self._sources.append(self._unknown(name, error))

    def skip(self, names: Sequence[str], why: str) -> None:
        for name in names:
            self.fail(name, f"not tried: {why}")

    def _unknown(self, name: str, error: str, began: datetime | None = None) -> Source:
        ended = self.now()
        took = None if began is None else _milliseconds(began, ended)
        return Source(name, ended, SourceState.UNKNOWN, error, took)


def value_of(reading: Reading[T] | None) -> T | None:
    """None, too, for a source that there is not."""
    return reading.value() if reading is not None else None


def _milliseconds(began: datetime, ended: datetime) -> int:
    """Never negative, whatever the clock was set to in between."""
    return max(0, round((ended - began).total_seconds() * 1000))
