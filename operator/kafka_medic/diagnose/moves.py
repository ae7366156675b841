"""Reassignments that are not ours, and throttles that outlived theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import Broker, Snapshot
from kafka_medic.diagnose.columns import Ints, Mask, Partitions, some
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Severity

THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
"""KIP-73: the rates are set on brokers, the replicas on topics. KIP-113: a rate of copies between log directories."""
LOG_DIR_RATE = THROTTLES[-1]
PLAYBOOK = "remove-leftover-throttles"
LEFTOVER_FOR = 60.0
"""Seconds: a throttle is set before its reassignment begins and removed after it ends."""


def detect(scene: Scene) -> Iterator[Finding]:
    """ForeignReassignment, LeftoverThrottle."""
    p = scene.partitions
    if p is None:
        return
    moving = p.moving
    if moving.any():
        yield from _foreign(scene, p, moving)
    elif scene.throttling:
        return  # the run keeps its throttle until its replicas have stayed in sync for a while, then removes it
    elif bool(np.all(p.adding.known & p.removing.known)) and not scene.unknown("reassignments"):
        yield from _leftover(scene)


def _foreign(scene: Scene, p: Partitions, moving: Mask) -> Iterator[Finding]:
    rows = [r for r in np.flatnonzero(moving).tolist() if p.name(r) not in scene.ours]
    if not rows:
        return
    chosen = np.array(rows, dtype=np.int64)
    shown = [f"{p.name(r)} +{_ids(p, r, added=True)} -{_ids(p, r, added=False)}" for r in rows[:10]]
    more = f" and {len(rows) - 10} more" if len(rows) > 10 else ""
    yield Finding(
        id="ForeignReassignment",
        type="ForeignReassignment",
        severity=Severity.INFO,
        message=(
            f"another client is reassigning {many(len(rows), 'partition')}; the operator moves and restarts nothing "
            "meanwhile"
        ),
        affected=p.names(chosen),
        evidence=(", ".join(shown) + more, *_endless(p, chosen), scene.read_from("reassignments", "kafka")),
    )


def _endless(p: Partitions, rows: Ints) -> Iterator[str]:
    """One that took the place of another and adds fewer replicas: KRaft keeps the one that is not wanted any more both
    to be added and to be removed, and waits for it to be in sync without it (seen with 4.3.1)."""
    adding, removing = ((column.rows.astype(np.int64) << 32) | column.ids for column in (p.adding, p.removing))
    both = np.intersect1d(rows, np.intersect1d(adding, removing) >> 32)
    if len(both):
        yield (
            f"{some(p.names(both))}: one broker is both being added and being removed, which KRaft never completes; "
            "cancel "
            "the reassignment (kafka-reassign-partitions.sh --cancel) and submit it again"
        )


def _ids(p: Partitions, row: int, *, added: bool) -> list[int]:
    column = p.adding if added else p.removing
    return [int(b) for b in column.ids[column.rows == row]]


def _leftover(scene: Scene) -> Iterator[Finding]:
    found = throttles(scene.snapshot)
    if not found:
        return
    holders = sorted({f"{r['resourceType'].lower()} {r['resource']}" for r in found})
    settings = [f"{r['resourceType'].lower()} {r['resource']}: {r['name']}={_shown(r['value'])}" for r in found]
    yield Finding(
        id="LeftoverThrottle",
        type="LeftoverThrottle",
        severity=Severity.WARNING,
        message="replication throttles are set but no reassignment is in flight; they slow every catch-up",
        affected=tuple(holders),
        evidence=(
            some(settings),
            f"no reassignment in flight, {scene.read_from('reassignments', 'kafka')}",
            f"settings {scene.read_from('configs', 'kafka')}",
        ),
        for_seconds=LEFTOVER_FOR,
        playbook=PLAYBOOK,
    )


def throttles(snapshot: Snapshot) -> list[dict[str, Any]] | None:
    """The replication throttles set at run time, as rows of the snapshot's settings; None: they could not be read.
    Static and default values are the owner's standing choice: only what was set at run time can be left over. The rate
    of copies between the log directories of a broker counts once it is known that the broker makes none."""
    configs = snapshot.configs
    if configs is None:
        return None
    named = configs.filter(pc.is_in(configs["name"], value_set=pa.array(THROTTLES, pa.string())))
    found = [row for row in named.to_pylist() if row["value"] and row["dynamic"] is True]
    still = {str(b.id) for b in snapshot.brokers or () if _moves_nothing(b)}
    return [row for row in found if row["name"] != LOG_DIR_RATE or row["resource"] in still]


def _moves_nothing(broker: Broker) -> bool:
    """Whether no replica of it is known to be on its way to another log directory (KIP-113)."""
    return bool(broker.directories) and all(d.failed or d.moving == 0 for d in broker.directories or ())


def _shown(value: str) -> str:
    """A throttled-replicas list can be as long as the topic is wide."""
    return value if len(value) <= 60 else value[:57] + "..."
