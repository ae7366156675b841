"""Stop what consumes, or start it again."""

from __future__ import annotations

from typing import Protocol

from kafka_medic.playbook.effects import ScaleWorkload
from kafka_medic.resources.vocabulary import WorkloadKind


class WorkloadWrites(Protocol):
    """What scaling needs of Kubernetes. Raises WriteFailed."""

    def scale(self, kind: WorkloadKind, name: str, uid: str, before: int, after: int) -> None:
        """Of exactly this workload, and only from `before`."""


def scale(workloads: WorkloadWrites, intent: ScaleWorkload) -> None:
    """Idempotent: its uid and the replicas it had are preconditions."""
    workloads.scale(intent.kind, intent.name, intent.uid, intent.before, intent.after)
