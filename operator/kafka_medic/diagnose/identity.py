"""PodIdentityMismatch: a Pod in which another broker answers than the Pod's name or label says."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_medic.cluster.snapshot import Pod
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene, broker_name
from kafka_medic.resources.vocabulary import Severity

MISMATCHED_FOR = 30.0
"""Seconds: two observations at the default interval of 15 s."""


def detect(scene: Scene) -> Iterator[Finding]:
    """What has not answered is no mismatch."""
    pods = [(b.id, b.pod) for b in scene.brokers if b.pod is not None]
    pods += [(v.id, v.pod) for v in scene.snapshot.controllers_apart() if v.pod is not None]
    runs = {pod.answers_as: pod.name for _, pod in pods if pod.answers_as is not None}
    for broker, pod in pods:
        if pod.answers_as is not None and pod.answers_as != broker:
            yield _finding(scene, broker, pod, pod.answers_as, runs.get(broker))


def _finding(scene: Scene, broker: int, pod: Pod, answered: int, elsewhere: str | None) -> Finding:
    where = f"broker {broker} answered in Pod {elsewhere}" if elsewhere else f"no Pod has answered as broker {broker}"
    return Finding(
        id=f"PodIdentityMismatch/{broker_name(broker)}",
        type="PodIdentityMismatch",
        severity=Severity.CRITICAL,
        message=f"Pod {pod.name}, by its name or label broker {broker}, runs broker {answered}",
        affected=(broker_name(broker), broker_name(answered)),
        evidence=(
            f"Pod {pod.name} (uid {pod.uid}) is broker {broker} by its name or label, {scene.read_from('kubernetes')}",
            f"broker {answered} answered at the Pod's own address {pod.ip}",
            where,
            "if you delete or drain one of these Pods, the other broker stops",
        ),
        for_seconds=MISMATCHED_FOR,
    )
