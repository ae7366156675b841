"""Does somebody who may say so want exactly this plan carried out?

Everything here is checked again right before each effect. An approval's expiry bounds how long a plan may wait for its
start; a run that has started is bounded by its steps' own `within` (docs/design/0004-approval.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kafka_medic.cluster.clock import EXACT, Skew
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.auto import beyond_auto
from kafka_medic.playbook.plan_file import without_file
from kafka_medic.resources.approval import RemediationApproval
from kafka_medic.resources.digest import sha256_digest
from kafka_medic.resources.kafkacluster_remediation import RemediationPolicy
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.remediation_status import ApprovalRecord
from kafka_medic.resources.vocabulary import Decision, Guard, RemediationMode, Risk

AUTOMATIC = "policy:Auto"
"""Recorded instead of a person where the KafkaCluster's mode is Auto."""


@dataclass(frozen=True, slots=True)
class ApprovalFact:
    """One RemediationApproval with what only the API server can tell: whether its approver still holds the verb
    `approve` (None: could not be asked)."""

    approval: RemediationApproval
    may_approve: bool | None


@dataclass(frozen=True, slots=True)
class UnreadApproval:
    """A RemediationApproval that may be about this very plan and that this version cannot read: it may be a No."""

    name: str
    why: str


Word = ApprovalFact | UnreadApproval


@dataclass(frozen=True, slots=True)
class ApprovalJudgement:
    """`reason` permits only when the plan is approved. `rejected_by` is set when somebody who may said no."""

    reason: Reason
    records: tuple[ApprovalRecord, ...]
    approved_by: str | None
    rejected_by: str | None


def plan_digest(remediation: Remediation, plan: Plan) -> str:
    """SHA-256 over everything that decides what will be done: the run's identity and pinned playbook, its parameters,
    every move and setting, the throttle, the preconditions. Times and prose are left out. For what lies in a file its
    hash stands, whether the file has been read or not."""
    spec, plan = remediation.spec, without_file(plan)
    drains = [
        {
            "broker": d.broker,
            "topic": d.topic,
            "partitions": list(d.partitions),
            "replicasBefore": list(d.replicas_before),
            "replicas": list(d.replicas),
        }
        for d in plan.drains
    ]
    return sha256_digest(
        # Named only where there are any, so that a plan that was approved before there were such stays what it was.
        ({"drains": drains} if drains else {})
        | ({"workload": plan.workload.to_kubernetes()} if plan.workload else {})
        | ({"staticSettings": [s.to_kubernetes() for s in plan.static_settings]} if plan.static_settings else {})
        | ({"topics": {t.topic: t.id for t in plan.topics}} if plan.topics else {})
        | ({"resignations": [[r.broker, r.epoch] for r in plan.resignations]} if plan.resignations else {})
        | {
            "cluster": {"name": spec.cluster_ref.name, "uid": spec.cluster_ref.uid},
            "remediation": remediation.uid,
            "playbook": {"name": spec.playbook.name, "digest": spec.playbook.digest},
            "parameters": dict(spec.parameters),
            "replicationFactor": plan.replication_factor,
            "throttleBytesPerSecond": plan.throttle_bytes_per_second,
            "steps": [{"name": s.name, "action": s.action.value} for s in plan.steps],
            "changes": [
                {
                    "topic": c.topic,
                    "partition": c.partition,
                    "replicasBefore": list(c.replicas_before),
                    "replicas": list(c.replicas),
                    "wave": c.wave,
                }
                for c in plan.changes
            ],
            "configChanges": [
                {
                    "resourceType": c.resource_type.value,
                    "resourceName": c.resource_name,
                    "name": c.name,
                    "before": c.before,
                    "after": c.after,
                }
                for c in plan.config_changes
            ],
            "reorders": [
                {
                    "topic": c.topic,
                    "partition": c.partition,
                    "replicasBefore": list(c.replicas_before),
                    "replicas": list(c.replicas),
                }
                for c in plan.reorders
            ],
            "elections": [
                {"broker": e.broker, "topic": e.topic, "partitions": list(e.partitions)} for e in plan.elections
            ],
            "restarts": [
                {"broker": r.broker, "pod": r.pod, "podUid": r.pod_uid, "stale": r.stale} for r in plan.restarts
            ],
            "offsets": [o.to_kubernetes() for o in plan.offsets],
            "rescueTopic": plan.rescue_topic,
            "rescues": [
                {
                    "broker": r.broker,
                    "topic": r.topic,
                    "partition": r.partition,
                    "epoch": r.epoch,
                    "from": r.from_offset,
                }
                for r in plan.rescues
            ],
            "artifact": plan.artifact.sha256 if plan.artifact else None,
            "preconditions": [{"name": p.name, "value": p.value} for p in plan.preconditions],
        }
    )


def judge_approvals(
    remediation: Remediation,
    policy: RemediationPolicy,
    words: Sequence[Word] | None,
    policies_installed: bool | None,
    now: datetime,
    *,
    started: bool,
    risk: Risk | None = None,
    skew: Skew | None = None,
) -> ApprovalJudgement:
    """The judgement over every approval of this Remediation. `words` None: they could not be read. `risk`: of its
    playbook; None: not known, which Auto takes for too high. `skew`: of the clock that dates approvals to the one that
    dates the plan, and by which `now` decides whether the plan is still open; None: not known, taken for none."""
    guard = Guard.APPROVAL_VALID.value
    plan = remediation.status.plan
    if plan is None:
        return ApprovalJudgement(Reason(guard, Verdict.DENY, "there is no plan yet"), (), None, None)
    if plan_digest(remediation, plan) != plan.digest:
        message = "the plan in status is not the one its digest was taken of: somebody else wrote it"
        return ApprovalJudgement(Reason(guard, Verdict.DENY, message), (), None, None)
    if words is None:
        return ApprovalJudgement(Reason(guard, Verdict.UNKNOWN, "the approvals could not be read"), (), None, None)
    facts = [w for w in words if isinstance(w, ApprovalFact)]
    unread = [w for w in words if isinstance(w, UnreadApproval)]
    records = tuple(_record(fact, remediation, plan, policy, None if started else skew or EXACT) for fact in facts)
    counted = [r for r in records if r.counted]
    rejecters = sorted({r.approver for r in counted if r.decision is Decision.REJECT})
    approvers = sorted({r.approver for r in counted if r.decision is Decision.APPROVE})
    rejected = ", ".join(rejecters) or None

    def answer(verdict: Verdict, message: str, by: str | None = None) -> ApprovalJudgement:
        return ApprovalJudgement(Reason(guard, verdict, message), records, by, rejected)

    if rejected:
        return answer(Verdict.DENY, f"rejected by {rejected}")
    unsure = sorted({f.approval.spec.approver for f in facts if _may_be_a_no(f, remediation, plan)})
    if unsure:
        message = f"{', '.join(unsure)} said no, and whether they may could not be asked"
        return answer(Verdict.UNKNOWN, message)
    if unread:
        message = (
            f"RemediationApproval {', '.join(w.name for w in unread[:5])} cannot be read by this version, and may be a "
            f"No: {unread[0].why}; delete it, and create it again as this version's types have it"
        )
        return answer(Verdict.UNKNOWN, message)
    mode = policy.mode_for(remediation.spec.playbook.name)
    if mode is RemediationMode.OBSERVE:
        return answer(Verdict.DENY, "the KafkaCluster's mode is Observe: nothing is ever done")
    if not policies_installed:
        message = "the admission policies for approvals are not installed, so nobody's word can be believed"
        return answer(Verdict.UNKNOWN if policies_installed is None else Verdict.DENY, message)
    if not started and now >= plan.expires_at:
        return answer(Verdict.DENY, f"the plan expired at {plan.expires_at:%Y-%m-%d %H:%M:%S} UTC")
    automatic = mode is RemediationMode.AUTO
    beyond = beyond_auto(remediation, plan, policy.auto, risk, now, started=started) if automatic else None
    if beyond == ():
        return answer(Verdict.ALLOW, "the KafkaCluster's mode is Auto, and the plan within its bounds", AUTOMATIC)
    asks = f"beyond what Auto does by itself ({'; '.join(beyond)}): " if beyond else ""
    missing = policy.approvals.required - len(approvers)
    if missing > 0:
        if any(fact.may_approve is None for fact in facts):
            return answer(Verdict.UNKNOWN, "whether an approver may approve could not be asked")
        more = f"{missing} more" if approvers else f"{missing}"
        return answer(Verdict.WAIT, f"{asks}waits for {more} approval{'s' if missing > 1 else ''} of {plan.digest}")
    by = ", ".join(approvers)
    return answer(Verdict.ALLOW, f"approved by {by}", by)


def _may_be_a_no(fact: ApprovalFact, remediation: Remediation, plan: Plan) -> bool:
    """A Reject of this very plan whose approver's right is not known: it counts neither way."""
    spec = fact.approval.spec
    exact = spec.remediation_ref.uid == remediation.uid and spec.plan_digest == plan.digest
    return exact and spec.decision is Decision.REJECT and fact.may_approve is None


def _record(
    fact: ApprovalFact, remediation: Remediation, plan: Plan, policy: RemediationPolicy, skew: Skew | None
) -> ApprovalRecord:
    """`skew`: None once the run has started, and no approval can be late any more."""
    approval = fact.approval
    spec, at = approval.spec, approval.metadata.creation_timestamp
    if at is None or approval.uid is None:
        raise ValueError("an approval without uid or creationTimestamp did not come from the API server")
    why = None
    if spec.remediation_ref.uid != remediation.uid:
        why = "it names another Remediation of the same name (uid)"
    elif spec.plan_digest != plan.digest:
        why = "it names another plan; read the present one and approve again"
    elif fact.may_approve is False:
        through = f" or through {', '.join(spec.approver_groups[:5])}" if spec.approver_groups else ""
        why = f"{spec.approver} may not approve by name{through} (verb approve on remediations)"
    elif fact.may_approve is None:
        why = f"whether {spec.approver} may approve could not be asked"
    elif spec.decision is Decision.APPROVE and skew is not None and skew.latest(at) >= plan.expires_at:
        why = "it was created after the plan's expiry, or too close to it to tell by two clocks"
    elif (
        spec.decision is Decision.APPROVE
        and spec.approver == remediation.spec.requested_by
        and not policy.approvals.allow_requester
    ):
        why = f"{spec.approver} asked for this run, and approvals.allowRequester is false"
    return ApprovalRecord(
        name=approval.name,
        uid=approval.uid,
        approver=spec.approver,
        decision=spec.decision,
        at=at,
        counted=why is None,
        reason=(why or spec.reason)[:1024],
    )
