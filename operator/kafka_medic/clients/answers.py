"""Answers of the port that hold several elements, each of them known or failed by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_medic.clients.ports import ReadFailed
from kafka_medic.cluster.groups import GroupOffsets
from kafka_medic.cluster.snapshot import TopicPartition


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker. `sizes`: bytes of each replica in it, None where it could not be read; replicas that
    are still moving there (KIP-113) are left out. `total`, `usable`: bytes of its volume (KIP-827), None where the
    broker does not report them. `error`: why it could not be read."""

    path: str
    sizes: Mapping[TopicPartition, int] | None
    total: int | None = None
    usable: int | None = None
    error: str | None = None


class LogDirs(NamedTuple):
    """A broker's log directories, one by one (KIP-112)."""

    directories: tuple[LogDir, ...]

    @property
    def sizes(self) -> Mapping[TopicPartition, int]:
        """Bytes of each replica in the directories that could be read."""
        told = [d.sizes for d in self.directories if d.sizes is not None]
        return told[0] if len(told) == 1 else {tp: size for sizes in told for tp, size in sizes.items()}

    @property
    def usable(self) -> int | None:
        """The least that is free in any directory that answers. Kafka chooses among directories by their number of
        partitions, not by room, and two may share a volume."""
        return min((d.usable for d in self.directories if d.error is None and d.usable is not None), default=None)


@dataclass(frozen=True, slots=True)
class Groups:
    """Consumer groups as their coordinators report them. `unread`: groups that are listed and whose offsets could not
    be read. `unlisted`: brokers that did not list their groups, so that a group that is missing here may exist."""

    told: Sequence[GroupOffsets]
    unread: Mapping[str, ReadFailed] = field(default_factory=dict)
    unlisted: Mapping[int, ReadFailed] = field(default_factory=dict)
