"""From an intent to the one function that carries it out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from kafka_medic.actuate.elect import elect
from kafka_medic.actuate.offsets import set_offsets
from kafka_medic.actuate.reassign import reassign, reorder
from kafka_medic.actuate.rescue import rescue
from kafka_medic.actuate.resign import ControllerWrites, resign
from kafka_medic.actuate.restart import AskedPods, PodWrites, call_off, restart
from kafka_medic.actuate.scale import WorkloadWrites, scale
from kafka_medic.actuate.settings import change_settings
from kafka_medic.clients.failures import FailureKind, WriteFailed
from kafka_medic.clients.ports import Kafka, MaySend
from kafka_medic.playbook.effects import (
    CallOffRestarts,
    ChangeSettings,
    ElectPreferred,
    Intent,
    Reassign,
    Reorder,
    RescueRecords,
    ResignController,
    RestartPod,
    ScaleWorkload,
    SetOffsets,
)


@dataclass(frozen=True, slots=True)
class KubernetesWrites:
    """What effects need of Kubernetes. `pods` are evicted, `strimzi` is asked."""

    pods: PodWrites
    strimzi: AskedPods
    workloads: WorkloadWrites


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
            raise WriteFailed(FailureKind.REFUSED, "not sent: the cluster's Lease is not held any more")
        if not still_fresh():
            raise WriteFailed(FailureKind.REFUSED, "not sent: what it rests on was read too long ago by now")

    ask()
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
            elect(kafka, intent, ask)
        case RestartPod():
            restart(kubernetes.strimzi if intent.annotated else kubernetes.pods, intent)
        case CallOffRestarts():
            call_off(kubernetes.strimzi, intent, ask)
        case ResignController():
            resign(ensemble, intent)
        case SetOffsets():
            set_offsets(kafka, intent, ask)
        case ScaleWorkload():
            scale(kubernetes.workloads, intent)
        case _:
            assert_never(intent)
