"""ClusterUnreachable, OperatorIsolated: whether the cluster or the operator lacks the connection."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_medic.diagnose.columns import some
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene, blind, broker_name
from kafka_medic.resources.vocabulary import Severity

BLIND_FOR = 30.0
"""Seconds: two probes at the default interval of 15 s, so that one lost probe fires nothing."""


def detect(scene: Scene) -> Iterator[Finding]:
    """ClusterUnreachable, or OperatorIsolated when Kubernetes says that every broker's Pod is Ready: then the
    kubelets reach the brokers and only the operator does not, so nothing may be restarted because of it."""
    if not blind(scene):
        return
    affected = tuple(broker_name(b.id) for b in scene.brokers)
    evidence = tuple(_why(scene))
    if _pods_all_ready(scene):
        yield Finding(
            id="OperatorIsolated",
            type="OperatorIsolated",
            severity=Severity.WARNING,
            message="no broker answers, but every broker's Pod is Ready: the operator is cut off",
            affected=affected,
            evidence=(*evidence, f"every Pod is Ready, {scene.read_from('kubernetes')}"),
            for_seconds=BLIND_FOR,
        )
        return
    yield Finding(
        id="ClusterUnreachable",
        type="ClusterUnreachable",
        severity=Severity.CRITICAL,
        message="no broker answers; the operator changes nothing until one answers",
        affected=affected,
        evidence=(*evidence, _pods(scene)),
        for_seconds=BLIND_FOR,
    )


def _why(scene: Scene) -> Iterator[str]:
    source = scene.snapshot.source("kafka")
    if source is not None and not source.known:
        yield f"kafka did not answer: {source.error or 'no reason given'}, {scene.read_from('kafka')}"
    elif scene.brokers:
        yield f"not answering: {some([broker_name(b.id) for b in scene.brokers])}"
    else:
        yield "the snapshot has neither brokers nor partitions"


def _pods_all_ready(scene: Scene) -> bool:
    if scene.unknown("kubernetes"):
        return False
    pods = [b.pod for b in scene.brokers]
    return bool(pods) and all(pod is not None and pod.ready is True for pod in pods)


def _pods(scene: Scene) -> str:
    source = scene.snapshot.source("kubernetes")
    if source is not None and not source.known:
        return f"Kubernetes could not be read either ({source.error or 'no reason given'})"
    known = [b for b in scene.brokers if b.pod is not None and b.pod.ready is not None]
    if not known:
        return "the state of the Pods is not known, so the operator may be cut off"
    podless = [b.id for b in scene.brokers if scene.snapshot.without_pod(b.id)]
    bad = [broker_name(b.id) for b in scene.brokers if b.id in podless or (b.pod and b.pod.ready is not True)]
    return f"without a Ready Pod, {scene.read_from('kubernetes')}: {some(bad)}"
