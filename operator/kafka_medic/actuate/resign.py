"""Have a controller of a ZooKeeper cluster give way to another broker."""

from __future__ import annotations

from typing import Protocol

from kafka_medic.clients.failures import FailureKind, WriteFailed
from kafka_medic.playbook.effects import ResignController


class ControllerWrites(Protocol):
    """What it needs of ZooKeeper. Raises WriteFailed."""

    def resign_controller(self, broker: int, epoch: int) -> None:
        """Delete the registration of that broker as controller while the controller epoch is still `epoch`; nothing
        where somebody else is controller by now, or the same one anew."""


def resign(ensemble: ControllerWrites | None, intent: ResignController) -> None:
    """Idempotent: the epoch is a precondition, so that no later controller is ever touched."""
    if ensemble is None:
        raise WriteFailed(FailureKind.REFUSED, "not sent: the KafkaCluster no longer names a ZooKeeper")
    ensemble.resign_controller(intent.broker, intent.epoch)
