"""From an intent to the one function that carries it out."""

from __future__ import annotations

from typing import assert_never

from kafka_medic.actuate.elect import elect
from kafka_medic.actuate.reassign import reassign, reorder
from kafka_medic.actuate.rescue import rescue
from kafka_medic.actuate.restart import PodWrites, restart
from kafka_medic.actuate.settings import change_settings
from kafka_medic.clients.ports import Kafka, MaySend
from kafka_medic.playbook.intents import (
    ChangeSettings,
    ElectPreferred,
    Intent,
    Reassign,
    Reorder,
    RescueRecords,
    RestartPod,
)


def carry_out(kafka: Kafka, pods: PodWrites, intent: Intent, may_send: MaySend) -> None:
    """Sends only while `may_send` says so. Raises WriteFailed when the cluster refused it or did not answer."""
    match intent:
        case Reassign():
            reassign(kafka, intent)
        case Reorder():
            reorder(kafka, intent)
        case ChangeSettings():
            change_settings(kafka, intent, may_send)
        case RescueRecords():
            rescue(kafka, intent, may_send)
        case ElectPreferred():
            elect(kafka, intent, may_send)
        case RestartPod():
            restart(pods, intent)
        case _:
            assert_never(intent)
