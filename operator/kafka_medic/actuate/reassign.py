"""Send reassignments (KIP-455): start them, or cancel ours."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_medic.clients.failures import FailureKind, WriteFailed
from kafka_medic.clients.ports import KafkaWrites
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.playbook.effects import DropReplicas, Reassign, Reorder
from kafka_medic.report.units import many

MAX_RECORDS = 5000
"""Half of what a KRaft controller accepts in one request (10,000 records)."""


def reassign(kafka: KafkaWrites, intent: Reassign) -> None:
    """Raises WriteFailed if any partition was refused, naming the first few. Those accepted stay accepted: the next
    look at the cluster tells which."""
    if len(intent.targets) > MAX_RECORDS:
        raise WriteFailed(
            FailureKind.REFUSED, f"{many(len(intent.targets), 'partition')} in one request; at most {MAX_RECORDS}"
        )
    _send(kafka, intent.targets)


def drop_replicas(kafka: KafkaWrites, intent: DropReplicas) -> None:
    """Leave partitions some of their replicas, which Kafka does at once. Raises as `reassign`."""
    _send(kafka, intent.targets)


def reorder(kafka: KafkaWrites, intent: Reorder) -> None:
    """Give partitions the replicas they have in another order, which Kafka does at once. Raises as `reassign`."""
    _send(kafka, intent.orders)


def _send(kafka: KafkaWrites, targets: Mapping[TopicPartition, tuple[int, ...] | None]) -> None:
    refused = kafka.alter_reassignments(targets)
    if refused:
        shown = "; ".join(f"{tp}: {why}" for tp, why in sorted(refused.items())[:5])
        raise WriteFailed(FailureKind.REFUSED, f"{len(refused)} of {many(len(targets), 'partition')} refused: {shown}")
