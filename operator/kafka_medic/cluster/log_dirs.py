"""Which replica of one broker is in which of its log directories. No snapshot has that: it would be one more column as
long as all replicas, for what a plan between volumes alone needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_medic.cluster.snapshot import Directory, TopicPartition


class Placed(NamedTuple):
    """Where a replica is, and how many bytes of it."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class ReplicaDirs:
    """A broker's log directories, and where its replicas are. `future`: replicas that are being moved to another
    directory, with the bytes that are copied so far; Kafka puts each in the place of the current one once it has caught
    up (KIP-113)."""

    directories: tuple[Directory, ...]
    current: Mapping[TopicPartition, Placed] = field(default_factory=dict)
    future: Mapping[TopicPartition, Placed] = field(default_factory=dict)

    def directory(self, path: str) -> Directory | None:
        return next((d for d in self.directories if d.path == path), None)
