"""May replicas move between the log directories of their brokers now?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafka_medic.cluster.log_dirs import ReplicaDirs
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.resources.durations import format_bytes
from kafka_medic.resources.vocabulary import Guard


@dataclass(frozen=True, slots=True)
class VolumeRoom:
    """A volume that gets `coming` bytes, with `room` bytes free above the share that it keeps."""

    broker: int
    where: str
    coming: int
    room: int


def log_dirs_online(dirs: Mapping[int, ReplicaDirs | str]) -> tuple[Reason, ...]:
    """Of the brokers whose replicas move, every log directory answers without error. Kafka begins no move on a broker
    of which one has failed (LogManager.getOrCreateLog)."""
    reasons = tuple(_offline(dirs))
    if reasons or not dirs:
        return reasons or (Reason(Guard.LOG_DIRS_ONLINE, Verdict.ALLOW, "no replica moves within a broker"),)
    message = f"every log directory of broker {some(sorted(dirs))} answers without error"
    return (Reason(Guard.LOG_DIRS_ONLINE, Verdict.ALLOW, message),)


def _offline(dirs: Mapping[int, ReplicaDirs | str]) -> Iterator[Reason]:
    guard = Guard.LOG_DIRS_ONLINE
    for broker, told in sorted(dirs.items()):
        if isinstance(told, str):
            yield Reason(guard, Verdict.UNKNOWN, f"the log directories of broker {broker} are not known: {told}")
            continue
        if failed := [d.path for d in told.directories if d.failed]:
            message = (
                f"log directory {some(failed, 3)} of broker {broker} has failed, so Kafka moves no replica between the "
                "others: replace the disk and restart the broker"
            )
            yield Reason(guard, Verdict.WAIT, message)
        if unread := [f"{d.path} ({d.error})" for d in told.directories if d.error is not None and not d.failed]:
            message = f"log directory {some(unread, 3)} of broker {broker} could not be read"
            yield Reason(guard, Verdict.UNKNOWN, message)
        if not told.directories:
            yield Reason(guard, Verdict.UNKNOWN, f"broker {broker} reports no log directory")


def volumes_have_room(volumes: Mapping[int, tuple[VolumeRoom, ...] | None], share: int) -> tuple[Reason, ...]:
    """By broker, the volumes that replicas of it move to; None: not known. Each has room for all that it gets."""
    guard = Guard.DISK_HAS_ROOM
    reasons = [
        Reason(guard, Verdict.UNKNOWN, f"the free space on the volumes of broker {broker} is not known")
        for broker, told in sorted(volumes.items())
        if told is None
    ]
    reasons += [
        Reason(
            guard,
            Verdict.WAIT,
            f"volume {v.where} of broker {v.broker} has {format_bytes(max(v.room, 0))} free above the {share} % that "
            f"it keeps free, but is to get {format_bytes(v.coming)}: free some space there",
        )
        for told in volumes.values()
        for v in told or ()
        if v.coming > v.room
    ]
    return tuple(reasons) or (Reason(guard, Verdict.ALLOW, "every volume has room for what it gets now"),)
