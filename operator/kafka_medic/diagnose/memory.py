"""What detectors remember between observations: how far each log once reached, how far groups have read, since when a
partition has no leader, how fast a disk fills.

`remember` folds one Snapshot after another into a DetectorMemory. The memory stays in the operator's process. The
parts that must outlive it (`regressions`, `recreated`, `longest`, the oldest rows of `leaderless`) go into the
KafkaCluster's status and come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.diagnose.columns import partitions_of
from kafka_medic.diagnose.free_space import FreeSpace, measure
from kafka_medic.diagnose.group_progress import PROGRESS_SCHEMA, fastest, follow
from kafka_medic.diagnose.leaderless import LEADERLESS_SCHEMA, Outage, lengthen, longest_of, outages
from kafka_medic.diagnose.log_ends import ENDS_SCHEMA, Compared, Regression, compare
from kafka_medic.diagnose.traffic import Growth, follow_growth

KEEP_SECONDS = 7 * 24 * 3600.0
"""How long a regression, and an interval without a leader, is remembered: `log.retention.hours` is 168 by default
(Kafka broker configs), and what retention has deleted no group can miss any more."""
MAX_REGRESSIONS = 100
MAX_OUTAGES = 10
MAX_RECREATED = 50
CLOCK_SLACK = 60.0
"""Seconds by which the wall clock and the time that truly passed may differ before the clock counts as set anew."""


@dataclass(frozen=True, slots=True, eq=False)
class DetectorMemory:
    """`regressions` holds the worst MAX_REGRESSIONS; `dropped` counts those that there was no room for. `recreated`:
    topics that were deleted and made again under the same name, and when that was noticed. `longest`: the longest time
    without a leader of each of the MAX_OUTAGES topics that had the longest. `unseen_seconds` is the time since
    the partitions were last known. `paces`: the fastest at which each group was seen reading, in offsets a second.
    `free_space`: on each broker's volumes. `growth`: how fast each log grows."""

    at: datetime | None = None
    ends: pa.Table = field(default_factory=ENDS_SCHEMA.empty_table)
    leaderless: pa.Table = field(default_factory=LEADERLESS_SCHEMA.empty_table)
    progress: pa.Table = field(default_factory=PROGRESS_SCHEMA.empty_table)
    paces: dict[str, float] = field(default_factory=dict)
    regressions: tuple[Regression, ...] = ()
    dropped: int = 0
    recreated: dict[str, datetime] = field(default_factory=dict)
    longest: tuple[Outage, ...] = ()
    unseen_seconds: float = 0.0
    free_space: FreeSpace = field(default_factory=FreeSpace)
    growth: Growth = field(default_factory=Growth)

    @property
    def longest_leaderless(self) -> Outage | None:
        """The longest that any partition was without a leader, within the time that is remembered."""
        return self.longest[0] if self.longest else None


def remember(
    memory: DetectorMemory, snapshot: Snapshot, *, elapsed: float | None = None, keep_seconds: float = KEEP_SECONDS
) -> DetectorMemory:
    """The memory after one more observation. `elapsed`: seconds since the observation before, by a clock that cannot be
    set. Without it the snapshots' own times count as far as they go forward."""
    now = snapshot.taken_at
    wall = 0.0 if memory.at is None else (now - memory.at).total_seconds()
    passed = max(0.0, wall if elapsed is None else elapsed)
    jumped = 0.0 if elapsed is None or memory.at is None or abs(wall - passed) <= CLOCK_SLACK else wall - passed
    memory = _aged(_shifted(memory, jumped), now, keep_seconds)
    memory = replace(memory, free_space=measure(memory.free_space, snapshot, passed))
    p = partitions_of(snapshot)
    if p is None or snapshot.partitions is None:
        return replace(memory, at=now, unseen_seconds=memory.unseen_seconds + passed)
    topic_ids = snapshot.partitions["topicId"]
    found = compare(memory.ends, p, topic_ids, snapshot, now)
    anew = {r.topic for r in memory.regressions if found.of_another(r)}
    found = replace(found, recreated=found.recreated | anew)
    recreated = memory.recreated | dict.fromkeys(sorted(found.recreated), now)
    worst = _worst_first(memory.regressions, found)
    memory = _without(memory, found.recreated)
    followed = follow(memory.progress, p, snapshot, passed)
    leaderless, ended = lengthen(memory.leaderless, p, snapshot, passed + memory.unseen_seconds)
    return DetectorMemory(
        at=now,
        ends=found.ends,
        leaderless=leaderless,
        progress=followed.progress,
        paces=fastest(memory.paces, followed.paces, snapshot),
        regressions=tuple(worst[:MAX_REGRESSIONS]),
        dropped=memory.dropped + max(0, len(worst) - MAX_REGRESSIONS) if worst else 0,
        recreated=dict(sorted(recreated.items(), key=lambda item: item[1])[-MAX_RECREATED:]),
        longest=longest_of((*memory.longest, *outages(leaderless, now), *outages(ended, now)), MAX_OUTAGES),
        free_space=memory.free_space,
        growth=follow_growth(memory.growth, p, snapshot, passed + memory.unseen_seconds),
    )


def _worst_first(before: tuple[Regression, ...], found: Compared) -> list[Regression]:
    """The regressions of before that still matter, joined with the new ones. Those that concern groups come first."""
    kept = {r.tp: r for r in before if r.topic not in found.recreated and not found.passed(r)}
    for new in found.regressions:
        kept[new.tp] = kept[new.tp].joined(new) if new.tp in kept else new
    return sorted(kept.values(), key=lambda r: (not r.groups, -r.records, r.tp))


def _without(memory: DetectorMemory, recreated: frozenset[str]) -> DetectorMemory:
    """What is remembered of a deleted topic says nothing of the one that has its name now."""
    if not recreated:
        return memory
    names = pa.array(sorted(recreated), pa.string())
    leaderless, progress = (
        t.filter(pc.invert(pc.is_in(t["topic"], value_set=names))) for t in (memory.leaderless, memory.progress)
    )
    return replace(memory, leaderless=leaderless, progress=progress)


def restored(
    regressions: tuple[Regression, ...],
    dropped: int,
    longest: tuple[Outage, ...],
    leaderless: dict[TopicPartition, Outage],
    recreated: Mapping[str, datetime],
) -> DetectorMemory:
    """A memory from what outlived the process. An interval without a leader goes on from where it was."""
    rows = [
        {"topic": tp.topic, "partition": tp.partition, "leader": o.leader, "epoch": o.epoch, "seconds": o.seconds}
        for tp, o in leaderless.items()
    ]
    return DetectorMemory(
        regressions=regressions,
        dropped=dropped,
        recreated=dict(recreated),
        longest=longest_of(longest, MAX_OUTAGES),
        leaderless=pa.Table.from_pylist(rows, schema=LEADERLESS_SCHEMA),
    )


def _shifted(memory: DetectorMemory, seconds: float) -> DetectorMemory:
    """The clock was set: what was written down by the old one is rewritten by the new one, so that nothing becomes old
    or young by that alone."""
    if not seconds:
        return memory
    by = timedelta(seconds=seconds)
    return replace(
        memory,
        regressions=tuple(replace(r, at=r.at + by) for r in memory.regressions),
        longest=tuple(replace(o, at=o.at + by) for o in memory.longest),
        recreated={topic: at + by for topic, at in memory.recreated.items()},
    )


def _aged(memory: DetectorMemory, now: datetime, keep_seconds: float) -> DetectorMemory:
    def young(at: datetime) -> bool:
        return (now - at).total_seconds() <= keep_seconds

    return replace(
        memory,
        regressions=tuple(r for r in memory.regressions if young(r.at)),
        longest=tuple(o for o in memory.longest if young(o.at)),
        recreated={topic: at for topic, at in memory.recreated.items() if young(at)},
    )
