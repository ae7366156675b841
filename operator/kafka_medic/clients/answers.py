"""Answers of the port that hold several elements, each of them known or failed by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.tables import SIZES_SCHEMA, table_of
from kafka_medic.cluster.groups import GroupOffsets
from kafka_medic.cluster.snapshot import TopicPartition


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker. `replicas` has SIZES_SCHEMA, and is None where the directory could not be read.
    Replicas that are still moving there (KIP-113) are in `future` instead. `total`, `usable`: bytes of its volume
    (KIP-827), None where the broker does not report them. `error`: why it could not be read."""

    path: str
    replicas: pa.Table | None
    total: int | None = None
    usable: int | None = None
    error: str | None = None
    # Made when it is needed: whatever Arrow allocates first reserves 1 GB, beyond what a process apart may have.
    future: pa.Table = field(default_factory=SIZES_SCHEMA.empty_table)

    @classmethod
    def of(
        cls,
        path: str,
        sizes: Mapping[TopicPartition, int] | None,
        total: int | None = None,
        usable: int | None = None,
        error: str | None = None,
        future: Mapping[TopicPartition, int] | None = None,
    ) -> LogDir:
        """From single replicas and their bytes."""
        replicas = None if sizes is None else _table(sizes)
        return cls(path, replicas, total, usable, error, _table(future or {}))

    @property
    def sizes(self) -> dict[TopicPartition, int] | None:
        """Bytes of single replicas, for callers with a handful of them."""
        return None if self.replicas is None else sizes_of(self.replicas)


def sizes_of(table: pa.Table) -> dict[TopicPartition, int]:
    """Bytes by replica, of a table with SIZES_SCHEMA."""
    columns: list[list[Any]] = [table[name].to_pylist() for name in SIZES_SCHEMA.names]
    return {TopicPartition(topic, number): size for topic, number, size in zip(*columns, strict=True)}


def _table(sizes: Mapping[TopicPartition, int]) -> pa.Table:
    return table_of([(*tp, size) for tp, size in sizes.items()], SIZES_SCHEMA)


class LogDirs(NamedTuple):
    """A broker's log directories, one by one (KIP-112)."""

    directories: tuple[LogDir, ...]

    @property
    def sizes(self) -> dict[TopicPartition, int]:
        """Bytes of single replicas in the directories that could be read, for callers with a handful of them."""
        return {tp: size for directory in self.directories for tp, size in (directory.sizes or {}).items()}

    @property
    def usable(self) -> int | None:
        """The least that is free in any directory that answers. Kafka chooses among directories by their number of
        partitions, not by room, and two may share a volume."""
        return min((d.usable for d in self.directories if d.error is None and d.usable is not None), default=None)


@dataclass(frozen=True, slots=True)
class Groups:
    """Consumer groups as their coordinators report them. `unread`: groups that are listed and whose offsets could not
    be read. `unlisted`: brokers that did not list their groups, so that a group that is missing here may exist."""

    offsets: Sequence[GroupOffsets]
    unread: Mapping[str, ReadFailed] = field(default_factory=dict)
    unlisted: Mapping[int, ReadFailed] = field(default_factory=dict)
