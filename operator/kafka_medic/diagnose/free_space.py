"""How much was free on each log directory's volume, observation by observation, the last four hours of it.

Deleted segments give room back in jumps, a reassignment takes some for a while, and two observations may be a second
apart. So samples are kept SPACING apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_medic.cluster.snapshot import Directory, Snapshot

SPACING = 225.0
"""Seconds between two samples that are kept. Kafka looks for segments to delete every 300 s by default
(`log.retention.check.interval.ms`), so that of four quarters some have a deletion in them."""
QUARTERS = 4
QUARTER_SAMPLES = (1, 4, 16)
"""How many samples a quarter has: of the last 15 minutes, hour and four hours."""
KEPT = QUARTERS * QUARTER_SAMPLES[-1] + 1
OTHER_SIZE = 0.01
"""Of the total: a volume whose size differs by more is another one."""


@dataclass(frozen=True, slots=True)
class VolumeHistory:
    """Free bytes of a directory's volume, by a clock of our own, the oldest first."""

    total: int
    samples: tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """By broker and path, at `clock` seconds since the first observation."""

    clock: float = 0.0
    histories: Mapping[tuple[int, str], VolumeHistory] = field(default_factory=dict)


def measure(before: FreeSpace, snapshot: Snapshot, passed: float) -> FreeSpace:
    """With one more observation, `passed` seconds later. A broker without a report keeps what it had."""
    clock, known = before.clock + passed, before.histories
    found: dict[tuple[int, str], VolumeHistory] = {}
    for broker in snapshot.brokers or ():
        if broker.directories is None:
            found |= {key: history for key, history in known.items() if key[0] == broker.id}
            continue
        for directory in broker.directories:
            key = (broker.id, directory.path)
            if (grown := _grown(known.get(key), directory, clock)) is not None:
                found[key] = grown
    return FreeSpace(clock, known if snapshot.brokers is None else found)


def _grown(history: VolumeHistory | None, directory: Directory, clock: float) -> VolumeHistory | None:
    total, usable = directory.total, directory.usable
    if directory.error is not None or total is None or usable is None:
        return None
    if history is None or abs(total - history.total) > OTHER_SIZE * history.total:
        return VolumeHistory(total, ((clock, usable),))
    if clock - history.samples[-1][0] < SPACING:
        return history
    return VolumeHistory(total, (*history.samples, (clock, usable))[-KEPT:])
