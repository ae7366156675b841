"""What a decision may need besides the Snapshot: what is asked for, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from kafka_medic.cluster.groups import GroupMember
from kafka_medic.cluster.log_dirs import ReplicaDirs
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.cluster.workloads import Workload
from kafka_medic.resources.vocabulary import WorkloadKind


@dataclass(frozen=True, slots=True)
class Questions:
    """Whose members to read; from which time (milliseconds since 1970) the first offset of which partitions; and of
    which leader where a leader epoch of a partition ends."""

    groups: tuple[str, ...] = ()
    ms: int | None = None
    partitions: tuple[TopicPartition, ...] = ()
    epochs: frozenset[tuple[int, TopicPartition, int]] = frozenset()
    workload: tuple[WorkloadKind, str] | None = None
    """What is to be stopped meanwhile: its kind and name."""
    log_dirs: frozenset[int] = frozenset()
    """Brokers of which to read which replica is in which log directory."""


@dataclass(frozen=True, slots=True)
class ExtraReads:
    """The answers. `members`: of groups that are not Empty, those that could be told. `at`: offsets by time, None when
    they were not read. `epoch_ends`: by partition and leader epoch, where that epoch ends in the leader's log; those
    that it could tell. `silent`: partitions whose leader did not answer that."""

    members: Mapping[str, Sequence[GroupMember]] = field(default_factory=dict)
    at: Mapping[TopicPartition, int | None] | None = None
    epoch_ends: Mapping[tuple[TopicPartition, int], int] = field(default_factory=dict)
    silent: frozenset[TopicPartition] = frozenset()
    workload: Workload | str | None = None
    """What is to be stopped meanwhile; a text says why it could not be read."""
    log_dirs: Mapping[int, ReplicaDirs | str] = field(default_factory=dict)
    """By broker; a text says why it could not be read."""
    paces: Mapping[str, float] = field(default_factory=dict)
    """The fastest at which each group was seen reading, in offsets a second."""
    growth: pa.Table | None = None
    """How fast each log grows (`diagnose.traffic.GROWTH_SCHEMA`); None: not known yet."""
