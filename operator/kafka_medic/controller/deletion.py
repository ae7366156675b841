"""What must not be deleted yet: a run that has something to put back, and its KafkaCluster, are held by a finalizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from kafka_medic.controller.store import Store
from kafka_medic.resources.base import Resource
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.remediation import Remediation

R = TypeVar("R", bound=Resource)


def keep(
    store: Store, cluster: KafkaCluster, runs: Sequence[Remediation], unreadable: Sequence[str]
) -> tuple[KafkaCluster, list[Remediation]]:
    """Hold what must not be deleted yet, and let go of what may: a run that owes a restore, and its KafkaCluster.
    What a run that cannot be read owes is not known, so the KafkaCluster stays as it is."""
    kept = [_kept(store, run, run.status.restore_owed) for run in runs]
    owed = any(run.status.restore_owed for run in runs)
    cluster = cluster if unreadable and not owed else _kept(store, cluster, owed)
    return cluster, [run for run in kept if not gone(run)]


def to_keep(found: Resource, owed: bool) -> bool | None:
    """True: to be held now; False: to be let go; None: as it should be, or too late to hold (the API server refuses a
    new finalizer on an object that is being deleted)."""
    if owed == found.held or (owed and found.metadata.deletion_timestamp is not None):
        return None
    return owed


def gone(found: Resource) -> bool:
    """Deleted, and with its last finalizer off it."""
    return found.metadata.deletion_timestamp is not None and not found.metadata.finalizers


def _kept(store: Store, found: R, owed: bool) -> R:
    match to_keep(found, owed):
        case None:
            return found
        case True:
            return store.hold(found)
        case False:
            return store.let_go(found)
