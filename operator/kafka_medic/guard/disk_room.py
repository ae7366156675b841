"""Is there room for what is about to be copied?"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.resources.durations import format_bytes
from kafka_medic.resources.vocabulary import Guard


def disk_has_room(snapshot: Snapshot, incoming: Mapping[int, int]) -> tuple[Reason, ...]:
    """incoming: bytes that each broker is to get now. A plan is checked when it is made, and what is written meanwhile
    takes room as well. Of a broker that reports no free space (before KIP-827) the plan has said that nobody checks."""
    guard = Guard.DISK_HAS_ROOM
    if snapshot.brokers is None:
        return (Reason(guard, Verdict.UNKNOWN, "the brokers are not known"),)
    free = {b.id: b.disk_free for b in snapshot.brokers}
    full = [
        Reason(
            guard,
            Verdict.WAIT,
            f"broker {broker} has {format_bytes(room)} free, but is to get {format_bytes(size)}: free some space there",
        )
        for broker, size in sorted(incoming.items())
        if (room := free.get(broker)) is not None and size > room
    ]
    return tuple(full) or (Reason(guard, Verdict.ALLOW, "every receiving broker has room for what it gets now"),)
