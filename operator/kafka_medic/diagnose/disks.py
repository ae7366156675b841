"""Log directories: those that have failed, and volumes that fill up.

A failed directory is Kafka's own word. The broker reports KAFKA_STORAGE_ERROR for it until it starts again, and
continues with the others (KIP-112). A directory that is unreadable for another reason is not called failed.

How fast a volume fills takes several observations (`free_space`). So a pace is the least of four quarters of the
time watched, each at least SPACING long. A volume that lost no room in one of them is not filling. A pace is believed
for AHEAD times as long as it was watched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from kafka_medic.cluster.elements import failed_directories
from kafka_medic.cluster.snapshot import Broker, Directory
from kafka_medic.diagnose.columns import Mask, Partitions, some
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.free_space import QUARTER_SAMPLES, QUARTERS, VolumeHistory
from kafka_medic.diagnose.scene import Scene
from kafka_medic.report.units import many
from kafka_medic.resources.durations import format_bytes, format_duration, parse_duration
from kafka_medic.resources.vocabulary import Severity

AHEAD = 6.0
CRITICAL_SECONDS = 4 * 3600.0
CRITICAL_SHARE = 0.05
ONE_VOLUME = 0.001
"""Of the total: directories whose free bytes differ by no more are on one volume, read moments apart."""


RELIEVED_BELOW = 0.2
"""Of the total that is free: below it `relieve-disk` is proposed. The share that the Playbook frees is no smaller, so
that it always has something to do, and by default larger, so that it is not proposed again at once."""


KEPT_FREE = 25
"""Percent of a volume: a rebalance that is proposed fills no volume further. The default share of `relieve-disk`, since
two runs that undo each other are worse than an uneven cluster."""


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume with the log directories on it, and its bytes."""

    paths: tuple[str, ...]
    total: int
    free: int

    @property
    def where(self) -> str:
        return " and ".join(self.paths)


@dataclass(frozen=True, slots=True)
class Filling:
    """A volume that loses at least `pace` bytes a second in each quarter of the `watched` seconds. `left`: seconds."""

    paths: tuple[str, ...]
    free: int
    total: int
    pace: float
    watched: float

    @property
    def left(self) -> float:
        return self.free / self.pace

    @property
    def severity(self) -> Severity:
        critical = self.left < CRITICAL_SECONDS or self.free < CRITICAL_SHARE * self.total
        return Severity.CRITICAL if critical else Severity.WARNING

    def __str__(self) -> str:
        where = f"{' and '.join(self.paths)}, on one volume" if len(self.paths) > 1 else self.paths[0]
        return (
            f"{where}: {format_bytes(self.free)} of {format_bytes(self.total)} free, and at least "
            f"{format_bytes(int(self.pace))}/s less in each quarter of the last {_about(self.watched)}; full in about "
            f"{_about(self.left)}"
        )


def detect(scene: Scene) -> Iterator[Finding]:
    """LogDirFailed, DiskFilling, one for each broker."""
    for broker in scene.brokers:
        if failed := failed_directories(broker):
            yield _failed(scene, broker, failed)
        if filling := _filling(scene, broker):
            yield _filling_finding(scene, broker, filling)


def cannot_lead(p: Partitions, brokers: tuple[Broker, ...]) -> Mask:
    """Of each entry of the ISRs: whether that replica is, or may be, on a failed log directory of its broker, which is
    live and cannot lead it all the same."""
    lost = np.zeros(len(p.isr.ids), dtype=np.bool_)
    for broker in brokers:
        if not failed_directories(broker):
            continue
        mine = p.isr.ids == broker.id
        if broker.offline_replicas is not None:
            topics = pa.chunked_array([pa.array([tp.topic for tp in broker.offline_replicas], pa.string())])
            numbers = np.array([tp.partition for tp in broker.offline_replicas], dtype=np.int64)
            mine &= np.isin(p.isr.rows, p.rows_of(topics, numbers))
        lost |= mine
    return lost


def _failed(scene: Scene, broker: Broker, failed: tuple[Directory, ...]) -> Finding:
    name, paths = f"broker-{broker.id}", tuple(d.path for d in failed)
    offline = broker.offline_replicas
    what = f"log directory {some(paths)} of broker {broker.id} has failed"
    if offline is None:
        message = f"{what}; which replicas it holds is not known"
    elif offline:
        message = f"{what}; {many(len(offline), 'replica on it is', 'replicas on it are')} offline"
    else:
        message = f"{what}; no replica on it is known"
    return Finding(
        id=f"LogDirFailed/{name}",
        type="LogDirFailed",
        severity=Severity.CRITICAL,
        message=message,
        affected=(name, *paths, *map(str, offline or ())),
        evidence=tuple(_evidence(scene, broker, failed)),
        playbook="restore-log-dir" if _copied_elsewhere(scene, broker) else None,
    )


def _copied_elsewhere(scene: Scene, broker: Broker) -> bool:
    """Whether there is a replica on a failed directory that others have in sync, and that one that is up could take."""
    rows = scene.snapshot.rows(set(broker.offline_replicas or ()))
    return any(
        set(row.isr or ()) - {broker.id} and len(set(row.replicas or ())) < len(scene.live or ())
        for row in rows
        if broker.id in (row.replicas or ())
    )


def _evidence(scene: Scene, broker: Broker, failed: tuple[Directory, ...]) -> Iterator[str]:
    for directory in failed[:3]:
        yield f"{directory.path}: {directory.error}, {scene.read_from('log-dirs', 'kafka')}"
    if broker.offline_replicas:
        yield f"offline: {some([str(tp) for tp in broker.offline_replicas])}"
    if len(failed) > 1 and broker.offline_replicas:
        yield "which directory held which replica is not known: Kafka does not list a failed directory"
    for directory in broker.directories or ():
        if directory.error is not None and not directory.failed:
            yield f"{directory.path} could not be read: {directory.error}; replicas may be there"
    alone = [str(row.tp) for row in scene.snapshot.rows(set(broker.offline_replicas or ())) if row.isr == (broker.id,)]
    if alone:
        yield f"the only in-sync replica of {some(alone)} is there; save the disk's data before you replace the disk"
    others = [d.path for d in broker.directories or () if d.error is None]
    yield (
        f"broker {broker.id} continues with {some(others) or 'no other directory that answers'}. Replace the disk, or "
        f"remove the directory from log.dirs. Then restart broker {broker.id}: Kafka reopens a failed directory "
        "only at its start"
    )


def _filling(scene: Scene, broker: Broker) -> list[Filling]:
    """The broker's volumes that fill up, each once, the first to be full first."""
    if scene.memory is None:
        return []
    histories = scene.memory.free_space.histories
    found = []
    for volume in volumes_of(broker.directories or ()):
        for path in volume.paths:
            history = histories.get((broker.id, path))
            if history is not None and (pace := _pace(history, volume.free)) is not None:
                found.append(Filling(volume.paths, volume.free, volume.total, *pace))
                break
    return sorted(found, key=lambda f: f.left)


def volumes_of(directories: Iterable[Directory]) -> list[Volume]:
    """Each volume once, of the directories that report theirs (KIP-827)."""
    volumes: list[list[tuple[str, int, int]]] = []
    for d in sorted(directories, key=lambda d: d.path):
        if d.error is not None or d.total is None or d.usable is None:
            continue
        same = (v for v in volumes if v[0][1] == d.total and abs(v[0][2] - d.usable) <= ONE_VOLUME * d.total)
        volume = next(same, None)
        if volume is None:
            volumes.append(volume := [])
        volume.append((d.path, d.total, d.usable))
    return [Volume(tuple(path for path, _, _ in v), v[0][1], min(usable for _, _, usable in v)) for v in volumes]


def only_volume(broker: Broker) -> Volume | None:
    """The broker's volume; None where it has several, or one of its directories does not report it."""
    told = [d for d in broker.directories or () if d.error is None and d.total is not None and d.usable is not None]
    volumes = volumes_of(told)
    return volumes[0] if len(volumes) == 1 and len(told) == len(broker.directories or ()) else None


def room_above(broker: Broker, share: int) -> int | None:
    """Bytes that may come wherever Kafka puts them until less than `share` percent of a volume is free: of several
    volumes the least. None where that is not known."""
    if broker.disk_free is None:
        return None
    above = [max(v.free - share_of(v.total, share), 0) for v in volumes_of(broker.directories or ())]
    return min([broker.disk_free, *above])


def share_of(total: int, share: int) -> int:
    """So many percent of a volume's bytes, rounded up."""
    return -(-total * share // 100)


def _pace(history: VolumeHistory, free: int) -> tuple[float, float] | None:
    """Bytes a second that are lost in each quarter of the time watched, and that time; None: it is not filling, or not
    so soon that it could be told."""
    for each in QUARTER_SAMPLES:
        points = history.samples[-1 - QUARTERS * each :: each]
        if len(points) <= QUARTERS:
            return None
        pace = min((before - after) / (then - at) for (at, before), (then, after) in pairwise(points))
        watched = points[-1][0] - points[0][0]
        if pace > 0 and free <= AHEAD * watched * pace:
            return pace, watched
    return None


def _filling_finding(scene: Scene, broker: Broker, filling: list[Filling]) -> Finding:
    name, first = f"broker-{broker.id}", filling[0]
    disks = "a disk" if len(filling) == 1 else f"the first of {len(filling)} disks"
    worst = Severity.CRITICAL if any(f.severity is Severity.CRITICAL for f in filling) else Severity.WARNING
    cure, why_none = _cure(broker, filling)
    return Finding(
        id=f"DiskFilling/{name}",
        type="DiskFilling",
        severity=worst,
        message=f"{disks} of broker {broker.id} will be full in about {_about(first.left)} at the current rate",
        affected=(name, *(path for f in filling for path in f.paths)),
        evidence=(
            *map(str, filling),
            scene.read_from("log-dirs", "kafka"),
            "a log directory on a full disk fails: shorten retention, move replicas to other volumes or brokers, or "
            "enlarge the volume",
            *why_none,
        ),
        playbook=cure,
    )


def _cure(broker: Broker, filling: Sequence[Filling]) -> tuple[str | None, tuple[str, ...]]:
    """The playbook that treats it; or none, and why."""
    if any(d.error is not None or d.total is None or d.usable is None for d in broker.directories or ()):
        return None, ("relieve-disk is not proposed: not every log directory of the broker reports its free bytes",)
    if all(f.free >= RELIEVED_BELOW * f.total for f in filling):
        share = f"{100 * RELIEVED_BELOW:.0f} %"
        return None, (f"relieve-disk is proposed when less than {share} of the volume is free",)
    return "relieve-disk", ()


_FULL_IN = re.compile(r"will be full in about (\S+) at the current rate")


def full_in(message: str) -> float | None:
    """The seconds that the finding's message names; None where it names none."""
    found = _FULL_IN.search(message)
    return parse_duration(found[1]) if found else None


def _about(seconds: float) -> str:
    """To the minute."""
    return format_duration(max(60.0, seconds // 60 * 60))
