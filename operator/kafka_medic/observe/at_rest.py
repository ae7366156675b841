"""What is read less often while a cluster is at rest: settings and log directories, half of what is asked then.

At rest no run is open, nothing is about to be changed, and the partitions are what they were. A failed log directory
takes replicas out of the ISR, so the partitions change with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pyarrow as pa

from kafka_medic.clients.answers import LogDirs
from kafka_medic.clients.failures import ReadFailed
from kafka_medic.cluster.partition_rows import Rows
from kafka_medic.cluster.snapshot import Source
from kafka_medic.observe.settings import Settings
from kafka_medic.observe.sources import Reading

T = TypeVar("T")

KEPT_SECONDS = 45.0
"""Less than any finding about settings waits for, so that none fires on one reading alone."""


@dataclass(slots=True)
class Kept(Generic[T]):
    """The last complete reading of a source: of which partitions (STATES_SCHEMA) and brokers, until when it counts."""

    last: tuple[pa.Table, tuple[int, ...], Source, T, float] | None = None


@dataclass(slots=True)
class Same(Generic[T]):
    """What was worked out last, and from which objects. None of them is changed, so the same ones lead to the same."""

    last: tuple[tuple[object, ...], T] | None = None

    def of(self, work: Callable[[], T], *inputs: object) -> T:
        """`work` depends on `inputs` alone."""
        if self.last is not None and len(self.last[0]) == len(inputs):
            before, found = self.last
            if all(one is other for one, other in zip(before, inputs, strict=True)):
                return found
        self.last = inputs, work()
        return self.last[1]


@dataclass(slots=True)
class AtRest:
    """Kept from observation to observation. `resting`: no run is open; `now`: in seconds by a clock that cannot be set.
    Both are of this observation."""

    resting: bool = False
    now: float = 0.0
    settings: Kept[Settings] = field(default_factory=Kept)
    disks: Kept[Mapping[int, LogDirs | ReadFailed]] = field(default_factory=Kept)
    rows: Same[Rows] = field(default_factory=Same)
    columns: Same[Mapping[str, Any]] = field(default_factory=Same)
    configs: Same[pa.Table] = field(default_factory=Same)
    unknown_topics: Same[Mapping[int, tuple[str, ...] | None]] = field(default_factory=Same)

    def still(self, kept: Kept[T], states: pa.Table, brokers: Sequence[int]) -> tuple[Source, T] | None:
        """What need not be read again. What no longer counts is forgotten before it is read anew."""
        if kept.last is not None:
            of, covered, source, value, until = kept.last
            if self.resting and of is states and covered == tuple(brokers) and self.now < until:
                return source, value
        kept.last = None
        return None

    def take(self, kept: Kept[T], states: pa.Table, brokers: Sequence[int], reading: Reading[T]) -> None:
        """What this observation has read. Only what is complete counts again."""
        value, source = reading.value(), reading.source
        if kept.last is None and value is not None and source is not None and source.error is None:
            kept.last = states, tuple(brokers), source, value, self.now + KEPT_SECONDS
