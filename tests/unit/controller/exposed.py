"""An operator's page of metrics with a sample of each family, for tests of what reads it: alerts and dashboards."""

from __future__ import annotations

from kafka_medic.cluster.clock import Skew
from kafka_medic.cluster.snapshot import NO_LEADER, Source, SourceState
from kafka_medic.controller.metrics import Metrics
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.finding import Finding
from kafka_medic.guard.breaker import BreakerReading, BreakerState
from kafka_medic.observe.canary import Outcome
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.vocabulary import FindingState, Severity
from tests.unit.cluster import worlds

KEY = ("ns", "c")


def running(**progress: int) -> Remediation:
    """A run that copies replicas, and waits for two guards."""
    steps = [{"name": "raise", "action": "ReassignPartitions", "phase": "Running",
              "progress": {"done": 5, "total": 10, "unit": "partitions", **progress}}]  # fmt: skip
    waits = [{"guard": "WithinWindow", "verdict": "Wait"}, {"guard": "ClusterReachable", "verdict": "Deny"}]
    status = {
        "phase": "Running",
        "currentStep": "raise",
        "steps": steps,
        "waitingFor": waits,
        "startedAt": "2026-01-01T12:00:00Z",
    }
    spec = {
        "clusterRef": {"name": "c", "uid": "1"},
        "playbook": {"name": "raise-replication-factor", "digest": f"sha256:{'a' * 64}"},
        "requestedBy": "anna",
    }
    body = {
        "apiVersion": "kafkamedic.dev/v1alpha1",
        "kind": "Remediation",
        "metadata": {"name": "r", "namespace": "ns"},
        "spec": spec,
        "status": status,
    }
    return Remediation.parse(body)


def everything() -> Metrics:
    """Each family that there is, with a sample."""
    metrics = Metrics(lambda: Skew(59.5, 60.5), consumer_groups=True)
    metrics.lease(KEY, True)
    told = metrics.canary(KEY)
    told(Outcome(0, 1, 0.1, 0.1, "x"))
    told(Outcome(0, 1, dropped=True))
    metrics.effect(KEY, "failed")
    sources = (*worlds.healthy().sources, Source("exporter", worlds.NOW, SourceState.UNKNOWN, "refused", 5))
    rows = [worlds.partition("orders", 0, (1, 2, 3)), worlds.partition("orders", 1, (1, 2, 3), leader=NO_LEADER)]
    snapshot = worlds.healthy(rows=rows, sources=sources)
    metrics.observed(KEY, snapshot)
    runs = [running(bytesDone=1_000, bytesTotal=3_000, secondsLeft=90)]
    firing = [
        Finding(kind, kind, severity, kind, (), (), since=worlds.NOW, state=FindingState.FIRING)
        for kind, severity in (("BrokerDown", Severity.CRITICAL), ("LeadersImbalanced", Severity.WARNING))
    ]
    found = (*diagnose(snapshot), *firing)
    metrics.reconciled(KEY, worlds.NOW, snapshot, found, runs, 1, BreakerReading(BreakerState.CLOSED))
    return metrics
