"""The sources of one look, read side by side.

Each has its own thread while it is read, of a pool that is bounded and ends with the look: nothing is left behind, and
what hangs in one source costs the others nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from kafka_medic.clients.ports import ReadFailed
from kafka_medic.cluster.snapshot import Source, SourceState

T = TypeVar("T")

THREADS = 13
"""More than the sources that are ever read at the same time, apart from the logs of stale leaders."""


def wholly(_: object) -> None:
    """A source that told all there is."""
    return


def told_failures(failed: Mapping[str, str], most: int = 5) -> str | None:
    """What failed and why, the first few; None when nothing did."""
    named = [f"{what}: {why}" for what, why in list(failed.items())[:most]]
    more = [f"and {len(failed) - most} more"] if len(failed) > most else []
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
