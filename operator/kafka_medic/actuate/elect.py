"""Elect preferred leaders (KIP-460)."""

from __future__ import annotations

from collections.abc import Callable

from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.ports import BrokerView, Kafka
from kafka_medic.playbook.effects import ElectPreferred


def elect(kafka: Kafka, intent: ElectPreferred, ask: Callable[[], None]) -> None:
    """Idempotent: who leads already is left alone. Each broker that would lead is asked right before: Kafka itself
    would elect one that hangs as long as its session lasts. `ask` raises if, after their answers, it may not be sent
    any more. Raises WriteFailed; those elected by then stay elected, and
    the next look tells which."""
    brokers = sorted(set(intent.preferred.values()))
    try:
        answers = kafka.memberships(brokers)
    except ReadFailed as problem:
        raise WriteFailed(problem.kind, f"not sent: {problem.message}") from None
    silent = [b for b in brokers if not isinstance(answers.get(b), BrokerView)]
    if silent:
        names = ", ".join(map(str, silent))
        raise WriteFailed(FailureKind.REFUSED, f"not sent: broker {names} would lead and did not answer just now")
    ask()
    refused = kafka.elect_preferred(sorted(intent.preferred))
    if refused:
        shown = "; ".join(f"{tp}: {why}" for tp, why in sorted(refused.items())[:5])
        raise WriteFailed(FailureKind.REFUSED, f"{len(refused)} of {len(intent.preferred)} elections refused: {shown}")
