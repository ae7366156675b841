"""What one look cannot tell: how far each log once reached, how groups get on, since when a partition has no leader,
how fast a disk fills.

`remember` folds one Snapshot after another into a Memory. It is kept in the operator's process; the parts that must
outlive it (`regressions`, `longest`, the oldest rows of `unled`) go into the KafkaCluster's status and come back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.diagnose.columns import partitions_of
from kafka_medic.diagnose.disks import Disks, watch
from kafka_medic.diagnose.progress import PROGRESS_SCHEMA, fastest, follow
from kafka_medic.diagnose.regressions import ENDS_SCHEMA, Regression, compare
from kafka_medic.diagnose.unled import UNLED_SCHEMA, Outage, lengthen, longest_of, outages

KEEP_SECONDS = 7 * 24 * 3600.0
"""How long a regression, and an interval without a leader, is remembered: `log.retention.hours` is 168 by default
(Kafka broker configs), and what retention has deleted no group can miss any more."""
MAX_REGRESSIONS = 100
MAX_OUTAGES = 10
MAX_RECREATED = 50
CLOCK_SLACK = 60.0
"""Seconds by which the wall clock and the time that truly passed may differ before the clock counts as set anew."""


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """`regressions` holds the worst MAX_REGRESSIONS; `dropped` counts those that there was no room for. `recreated`:
    topics that were deleted and made again under the same name, and when that was noticed. `longest`: the longest time
    without a leader of each of the MAX_OUTAGES topics that had the longest. `unseen_seconds` is the time since
    the partitions were last known. `paces`: the fastest at which each group was seen reading, in offsets a second.
    `disks`: how much was free on each broker's disks."""

    at: datetime | None = None
    ends: pa.Table = field(default_factory=ENDS_SCHEMA.empty_table)
    unled: pa.Table = field(default_factory=UNLED_SCHEMA.empty_table)
    progress: pa.Table = field(default_factory=PROGRESS_SCHEMA.empty_table)
    paces: dict[str, float] = field(default_factory=dict)
    regressions: tuple[Regression, ...] = ()
    dropped: int = 0
    recreated: dict[str, datetime] = field(default_factory=dict)
    longest: tuple[Outage, ...] = ()
    unseen_seconds: float = 0.0
    disks: Disks = field(default_factory=Disks)

    @property
    def longest_leaderless(self) -> Outage | None:
        """The longest that any partition was without a leader, within the time that is remembered."""
        return self.longest[0] if self.longest else None


def remember(
    memory: Memory, snapshot: Snapshot, *, elapsed: float | None = None, keep_seconds: float = KEEP_SECONDS
) -> Memory:
    """The memory after one more look. `elapsed`: seconds since the look before by a clock that cannot be set; without
    it the snapshots' own times are believed as far as they go forward."""
    now = snapshot.taken_at
    wall = 0.0 if memory.at is None else (now - memory.at).total_seconds()
    passed = max(0.0, wall if elapsed is None else elapsed)
    jumped = 0.0 if elapsed is None or memory.at is None or abs(wall - passed) <= CLOCK_SLACK else wall - passed
    memory = _aged(_shifted(memory, jumped), now, keep_seconds)
    memory = replace(memory, disks=watch(memory.disks, snapshot, passed))
    p = partitions_of(snapshot)
    if p is None or snapshot.partitions is None:
        return replace(memory, at=now, unseen_seconds=memory.unseen_seconds + passed)
    topic_ids = snapshot.partitions["topicId"]
    found = compare(memory.ends, p, topic_ids, snapshot, now)
    recreated = memory.recreated | dict.fromkeys(sorted(found.recreated), now)
    kept = {r.tp: r for r in memory.regressions if r.topic not in found.recreated and not found.passed(r)}
    for new in found.regressions:
        kept[new.tp] = kept[new.tp].joined(new) if new.tp in kept else new
    worst = sorted(kept.values(), key=lambda r: (not r.groups, -r.records, r.tp))
    memory = _without(memory, found.recreated)
    followed = follow(memory.progress, p, snapshot, passed)
    unled, ended = lengthen(memory.unled, p, snapshot, passed + memory.unseen_seconds)
    return Memory(
        at=now,
        ends=found.ends,
        unled=unled,
        progress=followed.progress,
        paces=fastest(memory.paces, followed.paces, snapshot),
        regressions=tuple(worst[:MAX_REGRESSIONS]),
        dropped=memory.dropped + max(0, len(worst) - MAX_REGRESSIONS) if worst else 0,
        recreated=dict(sorted(recreated.items(), key=lambda item: item[1])[-MAX_RECREATED:]),
        longest=longest_of((*memory.longest, *outages(unled, now), *outages(ended, now)), MAX_OUTAGES),
        disks=memory.disks,
    )


def _without(memory: Memory, recreated: frozenset[str]) -> Memory:
    """What is remembered of a deleted topic says nothing of the one that has its name now."""
    if not recreated:
        return memory
    names = pa.array(sorted(recreated), pa.string())
    unled, progress = (
        t.filter(pc.invert(pc.is_in(t["topic"], value_set=names))) for t in (memory.unled, memory.progress)
    )
    return replace(memory, unled=unled, progress=progress)


def restored(
    regressions: tuple[Regression, ...], dropped: int, longest: tuple[Outage, ...], unled: dict[TopicPartition, Outage]
) -> Memory:
    """A memory from what outlived the process. An interval without a leader goes on from where it was."""
    rows = [
        {"topic": tp.topic, "partition": tp.partition, "leader": o.leader, "epoch": o.epoch, "seconds": o.seconds}
        for tp, o in unled.items()
    ]
    return Memory(
        regressions=regressions,
        dropped=dropped,
        longest=longest_of(longest, MAX_OUTAGES),
        unled=pa.Table.from_pylist(rows, schema=UNLED_SCHEMA),
    )


def _shifted(memory: Memory, seconds: float) -> Memory:
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


def _aged(memory: Memory, now: datetime, keep_seconds: float) -> Memory:
    def young(at: datetime) -> bool:
        return (now - at).total_seconds() <= keep_seconds

    return replace(
        memory,
        regressions=tuple(r for r in memory.regressions if young(r.at)),
        longest=tuple(o for o in memory.longest if young(o.at)),
        recreated={topic: at for topic, at in memory.recreated.items() if young(at)},
    )
