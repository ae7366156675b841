"""Consumer groups: what they have committed, and who is in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from kafka_medic.cluster.snapshot import TopicPartition

EMPTY = "Empty"
"""The state of a group without members, in Kafka's words: the only one in which its offsets can be set."""


class Committed(NamedTuple):
    """A committed offset, the next record that the group will read. `leader_epoch`: of the last record that it had read
    (KIP-320), None when whoever committed did not say; `metadata`: a text of the application's own."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


class GroupMember(NamedTuple):
    """Who holds a group now, as the broker knows it."""

    client_id: str
    host: str

    def __str__(self) -> str:
        return f"{self.client_id} at {self.host.lstrip('/')}"


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """A consumer group's state and committed offsets; None for one that could not be read."""

    group: str
    state: str | None
    committed: Mapping[TopicPartition, Committed | None]


def _field(name: str, kind: pa.DataType, nullable: bool = True) -> pa.Field[pa.DataType]:
    return pa.field(name, kind, nullable=nullable)


GROUPS_SCHEMA: pa.Schema = pa.schema(
    [
        _field("group", pa.string(), nullable=False),
        _field("state", pa.string()),
        _field("topic", pa.string(), nullable=False),
        _field("partition", pa.int32(), nullable=False),
        _field("committed", pa.int64()),
        _field("leaderEpoch", pa.int32()),
        _field("metadata", pa.string()),
    ]
)
"""One row a committed offset, as `Committed` has it."""
DOCUMENTED = ("group", "state", "topic", "partition", "committed")
"""The columns that a Snapshot document holds."""
