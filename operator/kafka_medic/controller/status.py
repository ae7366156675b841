"""KafkaCluster.status from a Snapshot and its findings. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from kafka_medic.cluster.clock import Skew, remark
from kafka_medic.cluster.names import printable
from kafka_medic.cluster.snapshot import Mode, Snapshot
from kafka_medic.controller.hidden import hidden
from kafka_medic.controller.kept_state import status_fields
from kafka_medic.controller.status_room import fitted
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.memory import DetectorMemory
from kafka_medic.diagnose.versions import unjudged
from kafka_medic.report.units import many
from kafka_medic.resources.admission import Standing
from kafka_medic.resources.conditions import Condition, ConditionStatus, set_condition
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.kafkacluster_status import (
    CONDITION_TYPES,
    MAX_AFFECTED,
    MAX_EVIDENCE,
    MAX_FINDINGS,
    BrokerCounts,
    FindingStatus,
    KafkaClusterStatus,
)
from kafka_medic.resources.vocabulary import ClusterMode, RemediationMode, Severity

CONDITION_OF: Mapping[str, str] = {
    "ClusterUnreachable": "Reachable",
    "OperatorIsolated": "Reachable",
    "BrokerDown": "Reachable",
    "ViewDiverged": "MetadataConsistent",
    "MetadataUndecided": "MetadataConsistent",
    "BrokerZombie": "MetadataConsistent",
    "ControllerMissing": "MetadataConsistent",
    "ControllerStuck": "MetadataConsistent",
    "QuorumDegraded": "MetadataConsistent",
    "PartitionLeaderless": "Replicated",
    "PartitionUnderReplicated": "Replicated",
    "PartitionUnderMinIsr": "Replicated",
    "ReplicationFactorLow": "Replicated",
    "MinInsyncReplicasLow": "Replicated",
    "RackSpreadLow": "Replicated",
    "LogDirFailed": "Replicated",
    "LeadersImbalanced": "LeadersBalanced",
    "OffsetBeyondLogEnd": "OffsetsConsistent",
    "LogEndRegressed": "OffsetsConsistent",
    "ClientStalled": "OffsetsConsistent",
    "CanaryFailing": "CanaryHealthy",
    "BrokerSilent": "CanaryHealthy",
    "VersionAdvisory": "VersionsSupported",
}
"""Which condition a type of finding makes False. Types that are not here (a foreign reassignment, a cordoned node) are
news, not illness."""

NEEDED: Mapping[str, tuple[str, ...]] = {
    "Reachable": ("kafka",),
    "MetadataConsistent": ("views", "quorum"),
    "Replicated": ("views", "configs"),
    "LeadersBalanced": ("views",),
    "OffsetsConsistent": ("groups", "log-ends"),
    "CanaryHealthy": ("canary", "views"),
    "VersionsSupported": ("version",),
}
"""Without these sources a condition is Unknown: nothing found because nothing was seen is not health."""

IN_ITS_PLACE: Mapping[str, tuple[str, ...]] = {"quorum": ("zookeeper", "ensemble")}
"""What is read of a cluster on ZooKeeper instead."""

ADVICE = frozenset({"VersionsSupported"})
"""Conditions that do not count for Ready: an old version is a plan to be made, not something wrong now."""

OPTIONAL = frozenset({"canary", "certificates", "kubernetes", "metrics", "pod-identity", "rollouts", "topic-owners"})
"""Sources that a snapshot may be without because the spec does not ask for them: they say nothing about
readiness. Any other that is absent was not reached."""
SOURCES_OF: Mapping[str, tuple[str, ...]] = {
    "NodeMaintenance": ("kubernetes",),
    "PodIdentityMismatch": ("kubernetes", "pod-identity"),
    "BrokerSilent": ("metrics",),
    "VersionAdvisory": ("version", "metrics"),
    "MinInsyncReplicasLow": ("views", "configs", "reassignments"),
    "ForeignReassignment": ("reassignments",),
    "LoadUneven": ("views", "reassignments"),
    "BrokerConfigDiffers": ("configs",),
    "LeftoverThrottle": ("configs", "reassignments"),
    "TopicOwnedElsewhere": ("topic-owners",),
    "LogDirFailed": ("log-dirs",),
    "DiskFilling": ("log-dirs",),
    "CertificateExpiring": ("certificates",),
    "ControllerMissing": ("kafka", "quorum"),
    "QuorumDegraded": ("quorum",),
}
"""What a type of finding is seen from, where that is not what its condition needs."""

LAST_SEEN = "last seen before "
"""How the evidence begins that says so of a finding that cannot be seen now."""

_ORDER = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


def unseen(before: Sequence[FindingStatus], now: Sequence[Finding], snapshot: Snapshot) -> tuple[Finding, ...]:
    """Earlier findings that are not among today's only because what they are seen from could not be read, as a source
    or as one element of it: they have not gone. No playbook is started for them."""
    seen = {f.id for f in now}
    states = {s.name: s.known for s in snapshot.sources}
    kept = []
    for old in before:
        needed = _sources_of_mode(SOURCES_OF.get(old.type) or NEEDED.get(CONDITION_OF.get(old.type, ""), ()), snapshot)
        unread = sorted(name for name in needed if not states.get(name, name in OPTIONAL))
        if old.id in seen or old.type in ("ClusterUnreachable", "OperatorIsolated"):
            continue
        what = ", ".join(unread) or hidden(old, snapshot)
        if what is None:
            continue
        note = f"{LAST_SEEN}{what} can no longer be read"
        evidence = tuple(e for e in old.evidence if not e.startswith(LAST_SEEN))[: MAX_EVIDENCE - 1]
        kept.append(
            Finding(
                id=old.id,
                type=old.type,
                severity=old.severity,
                message=old.message,
                affected=old.affected,
                evidence=(*evidence, note),
                since=old.since,
                state=old.state,
                counted=max(old.affected_count, len(old.affected)),
            )
        )
    return tuple(kept)


def _sources_of_mode(names: Sequence[str], snapshot: Snapshot) -> tuple[str, ...]:
    if snapshot.cluster.mode is not Mode.ZOOKEEPER:
        return tuple(names)
    return tuple(source for name in names for source in IN_ITS_PLACE.get(name, (name,)))


def held(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Those that status has room for, the worst first."""
    return tuple(sorted(findings, key=lambda f: _ORDER[f.severity])[:MAX_FINDINGS])


def cluster_status(
    cluster: KafkaCluster,
    snapshot: Snapshot,
    findings: Sequence[Finding],
    treated_by: Mapping[str, str],
    allowed: tuple[bool, str, str],
    memory: DetectorMemory | None = None,
) -> KafkaClusterStatus:
    """`treated_by`: finding id -> Remediation. `allowed`: whether the operator may remediate, reason word, sentence."""
    now, generation = snapshot.taken_at, cluster.metadata.generation
    conditions = cluster.status.conditions
    for kind in CONDITION_TYPES:
        if kind == "RemediationAllowed":
            status, reason, message = (
                ConditionStatus.TRUE if allowed[0] else ConditionStatus.FALSE,
                allowed[1],
                allowed[2],
            )
        elif kind == "Ready":
            continue
        elif kind == "RestartsPossible":
            status, reason, message = _restarts_possible(snapshot)
        else:
            status, reason, message = _condition(kind, snapshot, findings)
        conditions = set_condition(conditions, _make(kind, status, reason, message, now, generation))
    conditions = set_condition(conditions, _make("Ready", *_ready(findings, conditions), now, generation))
    brokers = snapshot.brokers
    found = KafkaClusterStatus(
        observed_generation=generation,
        conditions=conditions,
        findings=tuple(_finding(f, treated_by.get(f.id)) for f in held(findings)),
        findings_total=len(findings),
        brokers=BrokerCounts(
            expected=sum(b.pod is not None for b in brokers) + len(snapshot.unplaced) or None,
            registered=_count([b.registered for b in brokers]),
            reachable=_count([b.reachable for b in brokers]),
        )
        if brokers is not None
        else None,
        controller=snapshot.controller.id if snapshot.controller else None,
        metadata=ClusterMode(snapshot.cluster.mode.value) if snapshot.cluster.mode else None,
        version=snapshot.cluster.version or cluster.status.version,
        cluster_id=snapshot.cluster.id or cluster.status.cluster_id,
        last_observed_at=now,
        **status_fields(memory or DetectorMemory(), now),
    )
    return fitted(found)


def without_times(status: KafkaClusterStatus) -> KafkaClusterStatus:
    """Without the times of reads, which evidence holds as well."""
    findings = tuple(f.model_copy(update={"evidence": ()}) for f in status.findings)
    return status.model_copy(update={"last_observed_at": None, "findings": findings})


def remediation_allowed(
    cluster: KafkaCluster,
    policies: Standing | None,
    blocked: Sequence[str],
    tripped: str | None = None,
    skew: Skew | None = None,
) -> tuple[bool, str, str]:
    """Whether approved plans are carried out, a reason word, and a sentence. `tripped`: what the open breaker says;
    `skew`: of the API server's clock, which is named where it is large."""
    allowed, reason, message = _allowed(cluster, policies, blocked, tripped)
    clocks = remark(skew)
    return allowed, reason, f"{message}; {clocks}" if clocks else message


def _allowed(
    cluster: KafkaCluster, policies: Standing | None, blocked: Sequence[str], tripped: str | None
) -> tuple[bool, str, str]:
    policy = cluster.spec.remediation
    if cluster.metadata.deletion_timestamp is not None:
        return False, "Deleting", blocked[0] if blocked else "the KafkaCluster is being deleted"
    if policy.paused:
        return False, "Paused", policy.pause_reason or "spec.remediation.paused is true"
    if policy.mode is RemediationMode.OBSERVE:
        return (
            False,
            "ObserveMode",
            "spec.remediation.mode is Observe: the operator reports findings and changes nothing",
        )
    if policies is None:
        return False, "PoliciesUnknown", "the admission policies could not be read, so the operator only proposes plans"
    if policies.since is None:
        return (
            False,
            "PoliciesMissing",
            f"the admission policies are not in force, so the operator only proposes plans: {policies.why}",
        )
    if tripped:
        return False, "BreakerOpen", tripped
    if blocked:
        return False, "Waiting", blocked[0]
    return True, "Allowed", "the operator carries out approved plans"


def _count(answers: list[bool | None]) -> int | None:
    """How many are so; None when none of them is known either way."""
    return None if answers and all(a is None for a in answers) else sum(a is True for a in answers)


def _make(
    kind: str, status: ConditionStatus, reason: str, message: str, now: datetime, generation: int | None
) -> Condition:
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=printable(message)[:8192],
        last_transition_time=now,
        observed_generation=generation,
    )


def _condition(kind: str, snapshot: Snapshot, findings: Sequence[Finding]) -> tuple[ConditionStatus, str, str]:
    if kind == "Reachable":
        kafka = snapshot.source("kafka")
        if kafka is not None and not kafka.known:
            # The adapter's failures begin with their kind, as `AuthenticationFailed: ...`.
            word, _, rest = (kafka.error or "Unreachable").partition(":")
            return ConditionStatus.FALSE, word if word.isalpha() else "Unreachable", rest.strip() or word
    mine = [f for f in findings if CONDITION_OF.get(f.type) == kind and f.firing()]
    if mine:
        return ConditionStatus.FALSE, mine[0].type, "; ".join(f.message for f in mine[:5])
    for name in _sources_of_mode(NEEDED[kind], snapshot):
        source = snapshot.source(name)
        if source is None:
            return ConditionStatus.UNKNOWN, "NotProbed", f"{name} is not read"
        if not source.known:
            return ConditionStatus.UNKNOWN, "SourceUnknown", f"{name}: {source.error}"
    if kind == "VersionsSupported" and (why := unjudged(snapshot)):
        return ConditionStatus.UNKNOWN, "VersionUnknown", why
    sources = (snapshot.source(name) for name in _sources_of_mode(NEEDED[kind], snapshot))
    gaps = "; ".join(f"{s.name}: {s.error}" for s in sources if s is not None and s.error)
    return ConditionStatus.TRUE, "AsExpected", f"not known in full: {gaps}" if gaps else ""


def _restarts_possible(snapshot: Snapshot) -> tuple[ConditionStatus, str, str]:
    """Whether Pods can be restarted the way that the KafkaCluster says. It says nothing about the cluster's health."""
    pods = [b.pod for b in snapshot.brokers or ()] + [v.pod for v in snapshot.controllers_apart()]
    source = snapshot.source("kubernetes")
    if source is None:
        return ConditionStatus.UNKNOWN, "NotProbed", "spec.brokers selects no Pods, so no playbook restarts a broker"
    if not source.known or snapshot.brokers is None:
        return ConditionStatus.UNKNOWN, "SourceUnknown", f"kubernetes: {source.error or 'the brokers are not known'}"
    identity = snapshot.source("pod-identity")
    homeless = [b.id for b in snapshot.brokers if b.pod is None and b.registered]
    if homeless and identity is not None and identity.error:
        which = ", ".join(map(str, homeless[:5])) + (f" and {len(homeless) - 5} more" if len(homeless) > 5 else "")
        return ConditionStatus.UNKNOWN, "SourceUnknown", f"no Pod has answered as broker {which}: {identity.error}"
    if found := [pod.hindrance for pod in pods if pod is not None and pod.hindrance]:
        more = f", and {many(len(found) - 1, 'more Pod')}" if len(found) > 1 else ""
        return ConditionStatus.FALSE, "MethodDoesNotFit", f"{found[0]}{more}"
    return ConditionStatus.TRUE, "AsExpected", ""


def _ready(findings: Sequence[Finding], conditions: Sequence[Condition]) -> tuple[ConditionStatus, str, str]:
    """Ready when nothing fires and everything that this version can see is known."""
    parts = {c.type: c for c in conditions}
    failing = [
        t
        for t in CONDITION_TYPES
        if t in parts and t in CONDITION_OF.values() and t not in ADVICE and parts[t].status is ConditionStatus.FALSE
    ]
    if failing:
        return ConditionStatus.FALSE, parts[failing[0]].reason, f"see {', '.join(failing)}"
    unknown = [
        t
        for t in CONDITION_TYPES
        if t in parts
        and t in CONDITION_OF.values()
        and parts[t].status is ConditionStatus.UNKNOWN
        and t not in ADVICE
        and not (parts[t].reason == "NotProbed" and not OPTIONAL.isdisjoint(NEEDED[t]))
    ]
    if not unknown and (pods := parts.get("RestartsPossible")) is not None and pods.reason == "SourceUnknown":
        # The spec selects Pods, and which broker is in which is not known.
        return ConditionStatus.UNKNOWN, pods.reason, pods.message
    if unknown:
        return ConditionStatus.UNKNOWN, parts[unknown[0]].reason, f"see {', '.join(unknown)}"
    pending = sum(not f.firing() for f in findings)
    return ConditionStatus.TRUE, "Healthy", f"{many(pending, 'finding')} pending" if pending else "no findings"


def _finding(finding: Finding, remediation: str | None) -> FindingStatus:
    assert finding.since is not None  # diagnose() gives each its age
    return FindingStatus(
        id=finding.id[:128],
        type=finding.type,
        severity=finding.severity,
        state=finding.state,
        since=finding.since,
        message=finding.message[:1024],
        affected=tuple(a[:256] for a in finding.affected[:MAX_AFFECTED]),
        affected_count=len(finding.affected) if finding.counted is None else finding.counted,
        evidence=tuple(e[:1024] for e in finding.evidence[:MAX_EVIDENCE]),
        playbook=finding.playbook,
        remediation=remediation,
    )
