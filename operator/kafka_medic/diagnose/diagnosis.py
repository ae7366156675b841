"""Every detector over one snapshot, and how long each finding has lasted."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from kafka_medic.cluster.clock import Skew
from kafka_medic.cluster.names import printable
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.diagnose import (
    authority,
    broker_settings,
    brokers,
    canary,
    certificates,
    connectivity,
    controller_stuck,
    disks,
    identity,
    leaders,
    load,
    min_isr,
    moves,
    offsets,
    partitions,
    regressions,
    replication,
    stalled_groups,
    topic_owners,
    versions,
    views,
)
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.finding import Finding, FindingState
from kafka_medic.diagnose.memory import DetectorMemory
from kafka_medic.diagnose.scene import Scene
from kafka_medic.resources.vocabulary import Severity

Detector = Callable[[Scene], Iterator[Finding]]
DETECTORS: tuple[Detector, ...] = (
    connectivity.detect,
    views.detect,
    brokers.detect,
    identity.detect,
    disks.detect,
    certificates.detect,
    canary.detect,
    authority.detect,
    partitions.detect,
    replication.detect,
    min_isr.detect,
    broker_settings.detect,
    leaders.detect,
    load.detect,
    offsets.detect,
    regressions.detect,
    stalled_groups.detect,
    controller_stuck.detect,
    moves.detect,
    topic_owners.detect,
    versions.detect,
)

ID_LENGTH = 128
_UNSAFE = re.compile(r"[^A-Za-z0-9._:/-]")
_ORDER = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


def diagnose(
    snapshot: Snapshot,
    *,
    previous: Snapshot | None = None,
    expectations: Expectations | None = None,
    remembered: Mapping[str, datetime] | None = None,
    fired: Collection[str] = (),
    ours: frozenset[TopicPartition] = frozenset(),
    being_set: frozenset[str] = frozenset(),
    throttling: bool = False,
    memory: DetectorMemory | None = None,
    skew: Skew | None = None,
    leaving: Mapping[int, str] | None = None,
) -> tuple[Finding, ...]:
    """What is wrong, worst first. A finding's `since` is what its detector knows from `memory` (which holds `snapshot`
    already, see `memory.remember`); else the time remembered for its id; else, when it was there in `previous` already,
    that snapshot's time; else this snapshot's. `remembered` wins over `previous`, since it reaches further back.

    `fired`: of the ids in `remembered`, those that fired already. The same trouble goes on firing, also when it is
    given longer from now on: a broker that hung for a while and whose Pod then is not Ready has not begun to start.

    `ours` are the partitions that a run of this project is reassigning: they are nobody else's reassignment.
    `being_set` are the topics whose settings such a run changes afterwards. `throttling`: such a run has set
    its throttle or is about to. `skew`: of the API server's clock.
    `leaving`: brokers that are to hold nothing, and who says so.
    """
    if previous is not None and previous.taken_at >= snapshot.taken_at:
        previous = None  # a clock that went back, or the same snapshot twice: nothing lasted in between
    scene = Scene(
        snapshot,
        expectations or Expectations(),
        previous=previous,
        ours=ours,
        being_set=being_set,
        throttling=throttling,
        memory=memory,
        skew=skew,
        leaving=leaving or {},
    )
    if snapshot.partitions is not None:
        topics: Any = pc.unique(snapshot.partitions["topic"])
        scene.expectations.learn(topics.to_pylist())
    by_detector = {detector: [_named(f) for f in detector(scene)] for detector in DETECTORS}
    found = {f.id: f for findings in by_detector.values() for f in findings}
    known = remembered or {}
    undated = [detector for detector in DETECTORS if any(f.id not in known for f in by_detector[detector])]
    since = _since(scene, found, known, undated)
    aged = (_shown(f).seen(since=since[f.id], now=snapshot.taken_at) for f in found.values())
    lasting = {id_ for id_, then in (remembered or {}).items() if id_ in fired and id_ in found and since[id_] <= then}
    aged = (replace(f, state=FindingState.FIRING) if f.id in lasting else f for f in aged)
    return tuple(sorted(aged, key=lambda f: (_ORDER[f.severity], f.type, f.id)))


def _named(finding: Finding) -> Finding:
    """With an id that fits into a resource's status. Group names may hold any character and have any length; what had
    to be changed is told apart by a digest of the whole."""
    safe = _UNSAFE.sub("_", finding.id)
    if safe == finding.id and len(safe) <= ID_LENGTH:
        return finding
    digest = hashlib.sha256(finding.id.encode()).hexdigest()[:10]
    return replace(finding, id=f"{safe[: ID_LENGTH - 11]}-{digest}")


def _shown(finding: Finding) -> Finding:
    """With texts that a terminal or a status can be shown."""
    return replace(
        finding,
        message=printable(finding.message),
        affected=tuple(map(printable, finding.affected)),
        evidence=tuple(map(printable, finding.evidence)),
    )


def _since(
    scene: Scene, found: Mapping[str, Finding], remembered: Mapping[str, datetime], detectors: Sequence[Detector]
) -> dict[str, datetime]:
    """`detectors`: those that found something of which no time is remembered, and so may have found it before."""
    now, previous = scene.snapshot.taken_at, scene.previous
    earlier: dict[str, datetime] = {}
    restarted: frozenset[str] = frozenset()
    ageing = any(f.for_seconds > 0 or f.id not in remembered for f in found.values())
    if previous is not None and ageing:
        before = Scene(previous, scene.expectations, None, scene.ours, leaving=scene.leaving)
        earlier = {_named(f).id: previous.taken_at for detector in detectors for f in detector(before)}
        if any(id_.startswith("ViewDiverged/") for id_ in found):
            restarted = views.only_propagating(scene, before)
    times = {**earlier, **{k: v for k, v in remembered.items() if k in found}}
    # A remembered time in the future comes from a clock that jumped; nothing can have lasted less than no
    # time.
    times |= {f.id: f.since for f in found.values() if f.since is not None}
    return {id_: now if id_ in restarted else min(times.get(id_, now), now) for id_ in found}
