"""Groups whose committed offset the log does not have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from kafka_medic.cluster.document import timestamp
from kafka_medic.diagnose.columns import Partitions, numbers, some, strings
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Severity

PLAYBOOK = "reset-consumer-offsets"
RACE_FOR = 60.0
"""Seconds, where the log ends are older than the committed offsets."""


def detect(scene: Scene) -> Iterator[Finding]:
    """OffsetBeyondLogEnd, one for each group. Observers read committed offsets first and log ends after, so a
    difference is never a race; the lag is never clamped to 0, which would hide just this. Where a snapshot says that
    it was read the other way round, the difference has to last."""
    p, groups = scene.partitions, scene.snapshot.groups
    if p is None or groups is None or not len(p):
        return
    row_of = p.rows_of(groups["topic"], numbers(groups["partition"]).values)
    committed = numbers(groups["committed"])
    comparable = (row_of >= 0) & committed.known & p.log_end.known[row_of]
    beyond = comparable & (committed.values > p.log_end.values[row_of])
    if not beyond.any():
        return
    late = _read_too_early(scene)
    names, states = strings(groups["group"]), groups["state"].to_pylist()
    by_group: dict[str, list[int]] = defaultdict(list)
    for i in np.flatnonzero(beyond).tolist():
        by_group[names[i]].append(i)
    for group, entries in sorted(by_group.items()):
        rows = [int(row_of[i]) for i in entries]
        positions = [
            f"{p.name(r)} committed {committed.values[i]}, log end {p.log_end.values[r]}, log start {_start(p, r)}: "
            f"the group would skip the next {many(int(committed.values[i] - p.log_end.values[r]), 'record')} "
            "written there"
            for i, r in zip(entries, rows, strict=True)
        ]
        state = states[entries[0]]
        yield Finding(
            id=f"OffsetBeyondLogEnd/{group}",
            type="OffsetBeyondLogEnd",
            severity=Severity.CRITICAL,
            message=f"group {group} has committed offsets beyond the log end of {many(len(entries), 'partition')}",
            affected=(group, *(str(p.name(r)) for r in rows)),
            evidence=(
                some(positions),
                f"the group is {state or 'in an unknown state'}, {scene.read_from('groups', 'kafka')}",
                f"log ends {scene.read_from('log-ends', 'kafka')}",
                *(["the log ends were read before the committed offsets, so the offsets may be valid"] if late else []),
                *_recreated(scene, {p.name(r).topic for r in rows}),
            ),
            for_seconds=RACE_FOR if late else 0.0,
            playbook=PLAYBOOK,
        )


def _start(p: Partitions, row: int) -> str:
    return str(p.log_start.values[row]) if p.log_start.known[row] else "not known"


def _read_too_early(scene: Scene) -> bool:
    groups, ends = (scene.snapshot.source(name) for name in ("groups", "log-ends"))
    times = [s.observed_at for s in (groups, ends) if s is not None and s.observed_at is not None]
    return len(times) == 2 and times[1] < times[0]


def _recreated(scene: Scene, topics: set[str]) -> Iterator[str]:
    """A topic that was deleted and made anew lost no record by accident; its groups' old offsets are still wrong."""
    noticed = scene.memory.recreated if scene.memory else {}
    for topic in sorted(topics & noticed.keys()):
        yield f"topic {topic} was deleted and recreated, observed at {timestamp(noticed[topic])}"
