"""How many partitions one request for reassignments names."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import TypeVar

from kafka_medic.cluster.snapshot import Mode, Snapshot

ZOOKEEPER_AT_ONCE = 50
"""The controller of a ZooKeeper cluster works on one partition after the other, with some writes to ZooKeeper for each,
in the one thread that also elects leaders when a broker dies: a wave in one request would keep it from that for
minutes."""
T = TypeVar("T")


def portion(snapshot: Snapshot, due: Sequence[T]) -> Sequence[T]:
    """Those of the next request. What is left is still due at the next look, which asks every guard again. KRaft's
    controller writes a whole wave in one go."""
    return due if snapshot.cluster.mode is Mode.KRAFT else due[:ZOOKEEPER_AT_ONCE]


def followed_by(now: Sized, due: Sized) -> str:
    """What to say of those that are left."""
    return f", {len(due) - len(now)} more follow" if len(now) < len(due) else ""
