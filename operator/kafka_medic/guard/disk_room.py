"""Is there room for what is about to be copied?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.resources.durations import format_bytes
from kafka_medic.resources.vocabulary import Guard


@dataclass(frozen=True, slots=True)
class Kept:
    """What a broker keeps free nevertheless: so many percent of its volume, in bytes."""

    share: int = 0
    size: int = 0


def disk_has_room(
    snapshot: Snapshot, incoming: Mapping[int, int | None], kept: Mapping[int, Kept] | None = None
) -> tuple[Reason, ...]:
    """incoming: bytes that each broker is to get now; None: not known. kept: by broker. A plan is checked when it is
    made, and what is written meanwhile takes room as well. Of a broker that reports its log directories without their
    free space (before KIP-827) the plan has said that nobody checks."""
    guard = Guard.DISK_HAS_ROOM
    if snapshot.brokers is None:
        return (Reason(guard, Verdict.UNKNOWN, "the brokers are not known"),)
    unread = sorted(
        b.id for b in snapshot.brokers if b.directories is None and b.disk_free is None and b.id in incoming
    )
    if unread:
        return (Reason(guard, Verdict.UNKNOWN, f"the log directories of broker {some(unread)} could not be read"),)
    kept = kept or {}
    free = {b.id: None if b.disk_free is None else b.disk_free - kept.get(b.id, Kept()).size for b in snapshot.brokers}
    above = {b: f" above the {k.share} % that it keeps free" for b, k in kept.items() if k.share}
    full = [
        Reason(
            guard,
            Verdict.WAIT,
            f"broker {broker} has {format_bytes(max(room, 0))} free{above.get(broker, '')}, but is to get "
            f"{format_bytes(size)}: free some space there",
        )
        for broker, size in sorted(incoming.items())
        if (room := free.get(broker)) is not None and size is not None and size > room
    ]
    if unsized := sorted(b for b, size in incoming.items() if size is None and free.get(b) is not None):
        message = f"the size of a partition that broker {some(unsized)} is to get is not known: its leader reports none"
        full.append(Reason(guard, Verdict.UNKNOWN, message))
    return tuple(full) or (Reason(guard, Verdict.ALLOW, "every receiving broker has room for what it gets now"),)
