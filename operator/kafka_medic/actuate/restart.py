"""Restart a broker by having its Pod replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kafka_medic.playbook.effects import CallOffRestarts, RestartPod


class PodWrites(Protocol):
    """What a restart needs of Kubernetes. Raises WriteFailed."""

    def replace_pod(self, name: str, uid: str) -> None:
        """Have the Pod of that name go, gracefully, if it still has that uid; its owner makes the next one. A Pod that
        is gone, or is another one by now, is left alone: what was asked for has happened."""


class AskedPods(PodWrites, Protocol):
    """Of Pods whose owner is asked to replace them, and does so later."""

    def keep_pod(self, name: str, uid: str) -> None:
        """Ask for it no more, if the Pod still has that uid."""


def restart(pods: PodWrites, intent: RestartPod) -> None:
    """Idempotent: the Pod's uid is a precondition, so that the successor of a restarted Pod is never touched."""
    pods.replace_pod(intent.pod, intent.pod_uid)


def call_off(pods: AskedPods, intent: CallOffRestarts, ask: Callable[[], None]) -> None:
    """Idempotent likewise. `ask`: before each request, whether it may be sent."""
    for name, uid in intent.pods:
        ask()
        pods.keep_pod(name, uid)
