"""Send reassignments (KIP-455): start them, or cancel ours."""

from __future__ import annotations

from kafka_medic.clients.ports import FailureKind, KafkaWrites, WriteFailed
from kafka_medic.playbook.intents import Reassign

MAX_RECORDS = 5000
"""Half of what a KRaft controller accepts in one request (10,000 records)."""


def reassign(kafka: KafkaWrites, intent: Reassign) -> None:
    """Raises WriteFailed if any partition was refused, naming the first few. Those accepted stay accepted: the next
    look at the cluster tells which."""
    if len(intent.targets) > MAX_RECORDS:
        raise WriteFailed(
            FailureKind.REFUSED, f"{len(intent.targets)} partitions in one request; at most {MAX_RECORDS}"
        )
    refused = kafka.alter_reassignments(intent.targets)
    if refused:
        shown = "; ".join(f"{tp}: {why}" for tp, why in sorted(refused.items())[:5])
        raise WriteFailed(FailureKind.REFUSED, f"{len(refused)} of {len(intent.targets)} partitions refused: {shown}")
