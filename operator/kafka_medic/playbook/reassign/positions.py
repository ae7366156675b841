"""Where a partition stands between the plan's before and after."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kafka_medic.cluster.snapshot import PartitionRow, Snapshot, TopicPartition
from kafka_medic.guard.reassign import carries_out
from kafka_medic.resources.remediation_plan import PartitionChange


class Position(Enum):
    """DONE only when every target replica is in the ISR: Kafka may call a reassignment complete before that."""

    BEFORE = "before"
    MOVING = "moving"
    CATCHING_UP = "catching up"
    DONE = "done"
    DRIFTED = "drifted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Standing:
    """One planned change and where its partition stands now; `reason` explains DRIFTED and UNKNOWN."""

    change: PartitionChange
    position: Position
    row: PartitionRow | None = None
    reason: str = ""

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.change.topic, self.change.partition)


def standings(changes: tuple[PartitionChange, ...], snapshot: Snapshot) -> tuple[Standing, ...]:
    """Every change in plan order."""
    if snapshot.partitions is None:
        return tuple(Standing(c, Position.UNKNOWN, None, "the partitions could not be read") for c in changes)
    rows = {row.tp: row for row in snapshot.rows({TopicPartition(c.topic, c.partition) for c in changes})}
    return tuple(_standing(c, rows.get(TopicPartition(c.topic, c.partition))) for c in changes)


def growth(changes: tuple[PartitionChange, ...], snapshot: Snapshot) -> int | None:
    """Bytes that are to be copied by now beyond what the plan counted; None where a size is not known any more."""
    grown = 0
    for standing in standings(changes, snapshot):
        change, row = standing.change, standing.row
        copies = len(set(change.replicas) - set(change.replicas_before))
        if copies and row is not None:
            if row.size_bytes is None:
                return None
            grown += copies * max(row.size_bytes - (change.size_bytes or 0), 0)
    return grown


def _standing(change: PartitionChange, row: PartitionRow | None) -> Standing:
    if row is None:
        return Standing(change, Position.DRIFTED, None, f"{change.topic}-{change.partition} no longer exists")
    if row.replicas is None or row.isr is None or row.adding is None or row.removing is None:
        return Standing(change, Position.UNKNOWN, row, f"{row.tp}: replicas, ISR or reassignments could not be read")
    have, target = set(row.replicas), set(change.replicas)
    if row.adding or row.removing:
        if carries_out(row, change.replicas_before, change.replicas):
            return Standing(change, Position.MOVING, row)
        return Standing(
            change,
            Position.DRIFTED,
            row,
            f"another client is reassigning {row.tp} (to {sorted(have)})",
        )
    if have == target:
        return Standing(change, Position.DONE if target <= set(row.isr) else Position.CATCHING_UP, row)
    # Their order is the order of preferred leaders: somebody may have changed just that, and it is not ours to undo.
    if row.replicas == change.replicas_before:
        return Standing(change, Position.BEFORE, row)
    return Standing(
        change,
        Position.DRIFTED,
        row,
        f"{row.tp} has replicas {list(row.replicas)}; the plan has {list(change.replicas_before)}",
    )
