"""Move replicas between the log directories of their brokers (KIP-113), or keep them where they are."""

from __future__ import annotations

from collections.abc import Callable

from kafka_medic.clients.failures import FailureKind, WriteFailed
from kafka_medic.clients.ports import KafkaWrites
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.playbook.effects import AlterLogDirs
from kafka_medic.report.units import many


def alter_log_dirs(kafka: KafkaWrites, intent: AlterLogDirs, ask: Callable[[], None]) -> None:
    """One request to each broker. `ask` raises WriteFailed if nothing more may be sent. Raises WriteFailed if any
    replica was refused, naming the first few. Those accepted stay accepted: the next observation tells which."""
    targets: dict[int, dict[TopicPartition, str]] = {}
    for (broker, tp), path in sorted(intent.moves.items()):
        targets.setdefault(broker, {})[tp] = path
    refused = []
    for broker, wanted in targets.items():
        ask()
        told = kafka.alter_log_dirs(broker, wanted)
        refused += [f"{tp} of broker {broker}: {why}" for tp, why in sorted(told.items())]
    if refused:
        shown = "; ".join(refused[:5])
        raise WriteFailed(
            FailureKind.REFUSED, f"{len(refused)} of {many(len(intent.moves), 'replica')} refused: {shown}"
        )
