"""Change dynamic settings of topics and brokers (KIP-339, incremental)."""

from __future__ import annotations

from kafka_medic.clients.ports import ConfigChange, KafkaWrites, MaySend
from kafka_medic.playbook.effects import ChangeSettings


def change_settings(kafka: KafkaWrites, intent: ChangeSettings, may_send: MaySend) -> None:
    """Raises WriteFailed when a resource refuses; others may have been changed by then, and sending again is safe."""
    kafka.alter_configs([ConfigChange(*key, value) for key, value in sorted(intent.settings.items())], may_send)
