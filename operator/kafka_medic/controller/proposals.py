"""Which finding deserves which Remediation. Pure: the shell creates what comes out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kafka_medic.diagnose.finding import Finding
from kafka_medic.guard.breaker import BreakerState, breaker
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.playbook.acceptance import check
from kafka_medic.playbook.registry import once_for_a_finding, takes_back
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import ACTING_PHASES, TERMINAL_PHASES, Phase
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import MAX_INLINE_CHANGES, Reorders, ReplicaMoves
from kafka_medic.resources.vocabulary import API_VERSION, RemediationMode, Severity

GAVE_UP = (Phase.REJECTED, Phase.EXPIRED, Phase.FAILED, Phase.ABORTED)


def due(
    cluster: KafkaCluster,
    findings: Sequence[Finding],
    playbooks: Mapping[str, Playbook],
    runs: Sequence[Remediation],
    now: datetime,
) -> list[dict[str, Any]]:
    """The Remediations to create now, one for each playbook at most: several findings of a type have one cure. The cure
    of the gravest finding comes first, then that of the oldest.

    A plan that was rejected, expired, failed or was stopped by a person is not proposed again while the same
    findings last: a person has seen it, and deleting that Remediation asks for a new one. One that was superseded,
    because the cluster was no longer as planned, is.

    A person's request blocks a proposal only while it acts. Otherwise everybody who may request a run could keep
    the operator from proposing anything.
    """
    policy = cluster.spec.remediation
    if breaker(policy.breaker, [OtherRun.of(r) for r in runs], now).state is BreakerState.OPEN:
        return []  # it would be dropped at once
    chosen: list[tuple[Finding, dict[str, Any]]] = []
    for name, playbook in sorted(playbooks.items()):
        if policy.mode_for(name) is RemediationMode.OBSERVE:
            continue
        mine = [f for f in findings if _treats(playbook, f, now)]
        if takes_back(playbook):
            mine = _over(cluster, playbook, findings, runs)
        runs_of_it = [r for r in runs if r.spec.playbook.name == name and r.spec.cluster_ref.uid == cluster.uid]
        known = [r for r in runs_of_it if r.spec.cause is not None]
        acting = any(r.status.phase in ACTING_PHASES for r in runs_of_it)
        if not mine or acting or any(r.status.phase not in TERMINAL_PHASES for r in known):
            continue
        drains = once_for_a_finding(playbook)
        fresh = [f for f in mine if not _declined(f, known) and not (drains and _drained(f, known))]
        if not fresh:
            continue
        try:
            check(playbook)
        except ResourceError:
            continue  # its own status says why
        cause = min(fresh, key=_urgency)
        chosen.append((cause, _body(cluster, playbook, cause, known)))
    return [body for _, body in sorted(chosen, key=lambda c: _urgency(c[0]))]


def _urgency(finding: Finding) -> tuple[int, datetime]:
    """Smallest first."""
    return -list(Severity).index(finding.severity), finding.since or datetime.max.replace(tzinfo=UTC)


def in_order(runs: Sequence[Remediation]) -> list[Remediation]:
    """Those that have begun first, then by the severity of what they cure, then by age. Which of them acts does not
    rest on this order (`guard.precedence`): a run that is decided before another one only learns of it later."""
    active = [r for r in runs if r.status.phase not in TERMINAL_PHASES]
    return sorted(active, key=lambda r: (r.status.phase not in ACTING_PHASES, -OtherRun.of(r).gravity))


def _treats(playbook: Playbook, finding: Finding, now: datetime) -> bool:
    """Firing, and for as long as the playbook's own `for` asks."""
    trigger = playbook.spec.trigger
    if not finding.firing() or finding.since is None or finding.playbook != playbook.name:
        return False
    return finding.type == trigger.finding.value and (now - finding.since).total_seconds() >= parse_duration(
        trigger.for_
    )


def _over(
    cluster: KafkaCluster, playbook: Playbook, findings: Sequence[Finding], runs: Sequence[Remediation]
) -> list[Finding]:
    """What drains were made for and is over, each not yet followed by a run of this playbook. Over is what neither
    this observation nor the last one found: one that could not be read stays in the status."""
    lasting = {f.id for f in findings} | {f.id for f in cluster.status.findings}
    over = []
    for drain in runs:
        cause, plan, ended = drain.spec.cause, drain.status.plan, drain.status.finished_at
        if drain.status.phase is not Phase.SUCCEEDED or cause is None or plan is None or ended is None:
            continue
        if drain.spec.playbook.name == playbook.name or cause.finding_id in lasting:
            continue
        # Orders that come with added replicas are to stay: that was no drain.
        if not plan.part(Reorders).reorders or plan.part(ReplicaMoves).changes:
            continue
        follows = [
            r
            for r in runs
            if r.spec.playbook.name == playbook.name
            and r.spec.cause is not None
            and r.spec.cause.finding_id == cause.finding_id
            and _since(r, ended)
        ]
        if not follows:
            over.append(Finding(cause.finding_id, cause.finding_type, Severity.INFO, "is over", (), (), since=ended))
    return over


def _declined(finding: Finding, runs: Sequence[Remediation]) -> bool:
    return any(r.status.phase in GAVE_UP and finding.since is not None and _since(r, finding.since) for r in runs)


def _since(run: Remediation, moment: datetime) -> bool:
    """Whether a run that has ended was planned, or found nothing to plan, at `moment` or later. The operator's clock
    dates findings, plans and ends, and the API server's an object's creation."""
    planned = run.status.plan.proposed_at if run.status.plan is not None else run.status.finished_at
    return planned is not None and planned >= moment


def _drained(finding: Finding, runs: Sequence[Remediation]) -> bool:
    """A machine may be about to go for days: its broker is drained once, or found to lead nothing once. Not so where
    a plan was too long for one run, or was stopped because the cluster changed under it."""

    def enough(run: Remediation) -> bool:
        plan = run.status.plan
        if run.status.phase is Phase.SUPERSEDED:
            return run.status.started_at is None
        return run.status.phase is Phase.SUCCEEDED and (plan is None or (plan.partitions or 0) < MAX_INLINE_CHANGES)

    return any(
        enough(r)
        and r.spec.cause is not None
        and r.spec.cause.finding_id == finding.id
        and finding.since is not None
        and _since(r, finding.since)
        for r in runs
    )


def renamed(body: Mapping[str, Any], taken_by: str) -> dict[str, Any]:
    """The same proposal under the name that follows where the object of that uid has its name. After a crash it is the
    same one, and however many names were taken, a next one follows."""
    stem, _, suffix = body["metadata"]["name"].rpartition("-")
    following = hashlib.sha256(f"{suffix}/{taken_by}".encode()).hexdigest()[:_SUFFIX]
    return {**body, "metadata": {**body["metadata"], "name": f"{stem}-{following}"}}


def is_that_proposal(found: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether the object under a proposal's name is the proposal itself, which an earlier reconcile has created."""
    spec, wanted = found.get("spec"), body["spec"]
    if not isinstance(spec, Mapping) or found["metadata"].get("deletionTimestamp") is not None:
        return False
    return {"parameters": {}, **spec} == wanted and found["metadata"].get("ownerReferences") is not None


_SUFFIX = 6


def _body(cluster: KafkaCluster, playbook: Playbook, finding: Finding, known: Sequence[Remediation]) -> dict[str, Any]:
    """The name is made of what it is for and how many there were, so that two reconciles cannot create it twice."""
    override = cluster.spec.remediation.override(playbook.name)
    parameters = {k: str(v) for k, v in (override.parameters if override else {}).items()}
    seed = f"{cluster.uid}/{finding.id}/{sorted(r.uid or '' for r in known)}"
    suffix = hashlib.sha256(seed.encode()).hexdigest()[:_SUFFIX]
    return {
        "apiVersion": API_VERSION,
        "kind": Remediation.KIND,
        "metadata": {
            "name": f"{cluster.name[:180]}-{playbook.name[:60]}-{suffix}",
            "namespace": cluster.namespace,
            "labels": {"app.kubernetes.io/managed-by": "kafka-medic"},
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": cluster.KIND,
                    "name": cluster.name,
                    "uid": cluster.uid,
                }
            ],
        },
        "spec": {
            "clusterRef": {"name": cluster.name, "uid": cluster.uid},
            "playbook": {"name": playbook.name, "digest": playbook.digest()},
            "parameters": parameters,
            "cause": {"findingId": finding.id, "findingType": finding.type},
        },
    }
