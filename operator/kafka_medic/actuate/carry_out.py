"""From an intent to the one function that carries it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_medic.actuate.elect import elect
from kafka_medic.actuate.log_dirs import alter_log_dirs
from kafka_medic.actuate.offsets import set_offsets
from kafka_medic.actuate.owners import OwnerWrites, edit_owners, pause_owners, resume_owners
from kafka_medic.actuate.reassign import drop_replicas, reassign, reorder
from kafka_medic.actuate.rescue import rescue
from kafka_medic.actuate.resign import ControllerWrites, resign
from kafka_medic.actuate.restart import AskedPods, PodWrites, call_off, restart
from kafka_medic.actuate.scale import WorkloadWrites, scale
from kafka_medic.actuate.settings import change_settings
from kafka_medic.clients.failures import FailureKind, WriteFailed
from kafka_medic.clients.ports import Kafka, MaySend
from kafka_medic.playbook.effects import (
    AlterLogDirs,
    CallOffRestarts,
    ChangeSettings,
    DropReplicas,
    EditObjects,
    ElectPreferred,
    Intent,
    PauseObjects,
    Reassign,
    Reorder,
    RescueRecords,
    ResignController,
    RestartPod,
    ResumeObjects,
    ScaleWorkload,
    SetOffsets,
)


@dataclass(frozen=True, slots=True)
class KubernetesWrites:
    """What effects need of Kubernetes. `pods` are evicted, `strimzi` is asked."""

    pods: PodWrites
    strimzi: AskedPods
    workloads: WorkloadWrites
    owners: OwnerWrites


@dataclass(frozen=True, slots=True)
class Reach:
    """What effects are sent through. `may_send`: whether the Lease is held still. `ask` raises WriteFailed if it is
    not, or what the effect rests on is not fresh any more."""

    kafka: Kafka
    kubernetes: KubernetesWrites
    ensemble: ControllerWrites | None
    may_send: MaySend
    ask: Callable[[], None]


EFFECTS: Mapping[type[Intent], Callable[[Reach, Any], None]] = {
    AlterLogDirs: lambda to, intent: alter_log_dirs(to.kafka, intent, to.ask),
    Reassign: lambda to, intent: reassign(to.kafka, intent),
    DropReplicas: lambda to, intent: drop_replicas(to.kafka, intent),
    Reorder: lambda to, intent: reorder(to.kafka, intent),
    ChangeSettings: lambda to, intent: change_settings(to.kafka, intent, to.may_send),
    RescueRecords: lambda to, intent: rescue(to.kafka, intent, to.may_send),
    ElectPreferred: lambda to, intent: elect(to.kafka, intent, to.ask),
    RestartPod: lambda to, intent: restart(to.kubernetes.strimzi if intent.annotated else to.kubernetes.pods, intent),
    CallOffRestarts: lambda to, intent: call_off(to.kubernetes.strimzi, intent, to.ask),
    ResignController: lambda to, intent: resign(to.ensemble, intent),
    SetOffsets: lambda to, intent: set_offsets(to.kafka, intent, to.ask),
    ScaleWorkload: lambda to, intent: scale(to.kubernetes.workloads, intent),
    PauseObjects: lambda to, intent: pause_owners(to.kubernetes.owners, intent, to.ask),
    EditObjects: lambda to, intent: edit_owners(to.kubernetes.owners, intent, to.ask),
    ResumeObjects: lambda to, intent: resume_owners(to.kubernetes.owners, intent, to.ask),
}
"""By intent: what carries it out. A test holds it to every intent that there is."""


def carry_out(
    kafka: Kafka,
    kubernetes: KubernetesWrites,
    intent: Intent,
    may_send: MaySend,
    still_fresh: Callable[[], bool] = lambda: True,
    ensemble: ControllerWrites | None = None,
) -> None:
    """Sends only while `may_send` says so, which it is asked before each request, since those to many slow brokers can
    take longer than the Lease lasts; and begins only if what the intent rests on is still fresh once it has said so.
    Raises WriteFailed when nothing was sent, or the cluster refused it or did not answer."""

    def ask() -> None:
        if not may_send():
            raise WriteFailed(FailureKind.REFUSED, "not sent: the operator no longer holds the cluster's Lease")
        if not still_fresh():
            raise WriteFailed(FailureKind.REFUSED, "not sent: its observation is too old")

    ask()
    EFFECTS[type(intent)](Reach(kafka, kubernetes, ensemble, may_send, ask), intent)
