"""What is wrong, what waits for whom and what runs, of every KafkaCluster that a person may list. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kafka_medic.cli.remediation.explain import Hold, holds, stale_since
from kafka_medic.cli.remediation.rendering import rate
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.kafkacluster_status import FindingStatus
from kafka_medic.resources.phases import ACTING_PHASES, TERMINAL_PHASES, Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_status import StepStatus
from kafka_medic.resources.vocabulary import FindingState, Guard, Severity

WORST_FIRST = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
_FOR_WHOM: Mapping[str, str] = {
    Guard.APPROVAL_VALID: "a person who may approve",
    Guard.NO_OTHER_REMEDIATION: "another run",
    Guard.NOT_PAUSED: "the person who paused it",
    Guard.WITHIN_WINDOW: "the next window",
    Guard.WITHIN_LIMITS: "its limits",
    Guard.LEASE_HELD: "the operator",
    "NotSeen": "the operator",
    "NotObserved": "the operator",
    "ObserveMode": "an editor of the KafkaCluster",
    "PoliciesUnknown": "an administrator",
    "PoliciesMissing": "an administrator",
    "BreakerOpen": "a person who resumes it",
}
"""Of what a run waits for. Every other guard waits for the Kafka cluster to change."""


@dataclass(frozen=True, slots=True)
class RunState:
    """A run that has not ended."""

    run: Remediation
    holds: Sequence[Hold]

    @property
    def acting(self) -> bool:
        """Whether an effect of it may have been sent."""
        return self.run.status.phase in ACTING_PHASES

    @property
    def step(self) -> StepStatus | None:
        """The step that is running."""
        status = self.run.status
        return next((s for s in status.steps if s.name == status.current_step), None)

    @property
    def waits_for(self) -> str:
        """For whom, or for what; empty where nothing holds it."""
        if not self.holds:
            return ""
        first = self.holds[0]
        other = next((w.remediation for w in self.run.status.waiting_for if w.guard == first.what), None)
        if first.what == Guard.NO_OTHER_REMEDIATION and other:
            return other
        return _FOR_WHOM.get(first.what, "the Kafka cluster")


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A KafkaCluster with its runs that have not ended. `cluster` is None, with `problem`, when this version cannot
    read it. `stale`: how long ago it was last observed, where that is too long; `never`: it never was."""

    namespace: str
    name: str
    cluster: KafkaCluster | None
    runs: Sequence[RunState] = ()
    problem: str = ""
    stale: timedelta | None = None
    never: bool = False

    @property
    def findings(self) -> list[FindingStatus]:
        """The worst first, those that fire before those that are pending."""
        if self.cluster is None:
            return []
        return sorted(
            self.cluster.status.findings,
            key=lambda f: (f.state is not FindingState.FIRING, WORST_FIRST.index(f.severity), f.since, f.id),
        )

    @property
    def total(self) -> int:
        """Findings, with those that the status had no room for."""
        if self.cluster is None:
            return 0
        return max(self.cluster.status.findings_total or 0, len(self.cluster.status.findings))

    @property
    def blind(self) -> bool:
        """Whether it is not known how the cluster stands now."""
        return self.cluster is None or self.never or self.stale is not None

    def urgency(self) -> tuple[Any, ...]:
        """To sort by: what a person has to see first stands first."""
        firing = [f.severity for f in self.findings if f.state is FindingState.FIRING]
        worst = min((WORST_FIRST.index(severity) for severity in firing), default=len(WORST_FIRST))
        return (worst if worst == 0 else 0.5 if self.blind else worst, not self.runs, self.namespace, self.name)


def state_of(cluster: KafkaCluster, runs: Iterable[Remediation], now: datetime) -> ClusterState:
    """`runs`: of any KafkaCluster; those that name this one and have not ended count."""
    observed = cluster.status.last_observed_at
    own = [
        RunState(run, holds(run, cluster, now))
        for run in runs
        if run.namespace == cluster.namespace
        and run.spec.cluster_ref.name == cluster.name
        and run.status.phase not in TERMINAL_PHASES
    ]
    own.sort(key=lambda s: (not s.acting, s.run.metadata.creation_timestamp or now, s.run.name))
    return ClusterState(
        cluster.namespace or "", cluster.name, cluster, own, stale=stale_since(cluster, now), never=observed is None
    )


def counts(states: Sequence[ClusterState]) -> dict[str, int]:
    """What the first line says: clusters, findings that fire by severity, runs that something holds, and the others."""
    firing = [f.severity for s in states for f in s.findings if f.state is FindingState.FIRING]
    runs = [run for state in states for run in state.runs]
    return {
        "clusters": len(states),
        **{severity.value: firing.count(severity) for severity in WORST_FIRST},
        "unknown": sum(state.blind for state in states),
        "waiting": sum(bool(run.holds) for run in runs),
        "running": sum(not run.holds for run in runs),
    }


def document(states: Sequence[ClusterState], now: datetime) -> dict[str, Any]:
    """For programs. What is not known is null."""
    return {
        "at": _text(now),
        "summary": counts(states),
        "clusters": [_cluster(state, now) for state in states],
    }


def _cluster(state: ClusterState, now: datetime) -> dict[str, Any]:
    cluster = state.cluster
    if cluster is None:
        return {"namespace": state.namespace, "name": state.name, "problem": state.problem}
    status, brokers = cluster.status, cluster.status.brokers
    ready = next((c for c in status.conditions if c.type == "Ready"), None)
    return {
        "namespace": state.namespace,
        "name": state.name,
        "mode": cluster.spec.remediation.mode.value,
        "paused": cluster.spec.remediation.paused,
        "metadata": status.metadata.value if status.metadata else None,
        "version": status.version,
        "brokers": {
            "expected": brokers.expected if brokers else None,
            "registered": brokers.registered if brokers else None,
            "reachable": brokers.reachable if brokers else None,
        },
        "controller": status.controller,
        "lastObservedAt": _text(status.last_observed_at),
        "stale": state.blind,
        "ready": ready.status.value if ready else None,
        "findings": [_finding(finding) for finding in state.findings],
        "findingsTotal": state.total,
        "runs": [_run(run, now) for run in state.runs],
    }


def _finding(finding: FindingStatus) -> dict[str, Any]:
    return {
        "id": finding.id,
        "type": finding.type,
        "severity": finding.severity.value,
        "state": finding.state.value,
        "since": _text(finding.since),
        "message": finding.message,
        "evidence": list(finding.evidence),
        "affected": list(finding.affected),
        "affectedCount": finding.affected_count,
        "playbook": finding.playbook,
        "remediation": finding.remediation,
    }


def _run(state: RunState, now: datetime) -> dict[str, Any]:
    run, step = state.run, state.step
    status, progress = run.status, step.progress if step else None
    plan = status.plan
    return {
        "name": run.name,
        "playbook": run.spec.playbook.name,
        "phase": status.phase.value if status.phase else None,
        "step": step.name if step else None,
        "message": status.message,
        "approvedBy": status.approved_by,
        "expiresAt": _text(plan.expires_at) if plan is not None and status.phase is Phase.AWAITING_APPROVAL else None,
        "waitsFor": state.waits_for or None,
        "holds": [
            {"what": h.what, "verdict": h.verdict or None, "why": h.why, "wayOut": h.way_out} for h in state.holds
        ],
        "progress": progress.to_kubernetes() if progress else None,
        "bytesPerSecond": round(rate(step, now) or 0) or None if step else None,
    }


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat().replace("+00:00", "Z") if moment is not None else None
