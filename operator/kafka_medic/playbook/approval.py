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
from kafka_medic.playbook.auto import Cost, beyond_auto
from kafka_medic.playbook.plan_digest import digest_fits
from kafka_medic.playbook.triggers import SHIPPED
from kafka_medic.resources.admission import Standing
from kafka_medic.resources.approval import RemediationApproval
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


def judge_approvals(
    remediation: Remediation,
    policy: RemediationPolicy,
    words: Sequence[Word] | None,
    policies: Standing | None,
    now: datetime,
    *,
    started: bool,
    risk: Risk | None = None,
    cost: Cost | None = None,
    skew: Skew | None = None,
) -> ApprovalJudgement:
    """The judgement over every approval of this Remediation. `words` None: they could not be read. `risk`: of its
    playbook; None: not known, which Auto takes for too high. `cost`: of the plan; None: not counted, which is beyond
    Auto's bounds. `skew`: of the clock that dates approvals to the one that dates the plan, and by which `now` decides
    whether the plan is still open; None: not known, taken for none."""
    guard, plan = Guard.APPROVAL_VALID, remediation.status.plan
    if plan is None:
        return ApprovalJudgement(Reason(guard, Verdict.DENY, "there is no plan yet"), (), None, None)
    if not digest_fits(remediation, plan):
        message = "the plan in status does not match its digest: another writer changed it"
        return ApprovalJudgement(Reason(guard, Verdict.DENY, message), (), None, None)
    if words is None:
        return ApprovalJudgement(Reason(guard, Verdict.UNKNOWN, "the approvals could not be read"), (), None, None)
    facts = [w for w in words if isinstance(w, ApprovalFact)]
    late = None if started else skew or EXACT
    records = tuple(_record(fact, remediation, plan, policy, policies, late) for fact in facts)
    rejected = ", ".join(_who(records, Decision.REJECT)) or None
    answer = (
        _no(remediation, plan, words, rejected)
        or _not_open(remediation, plan, policy, policies, None if started else now)
        or _yes(remediation, plan, policy, facts, records, _beyond(remediation, plan, policy, cost, risk, now, started))
    )
    verdict, message, by = answer
    return ApprovalJudgement(Reason(guard, verdict, message), records, by, rejected)


Answer = tuple[Verdict, str, str | None]
"""The verdict, a sentence, and who approved."""


def _who(records: Sequence[ApprovalRecord], decision: Decision) -> list[str]:
    return sorted({r.approver for r in records if r.counted and r.decision is decision})


def _no(remediation: Remediation, plan: Plan, words: Sequence[Word], rejected: str | None) -> Answer | None:
    """Somebody who may has said no, or may have."""
    if rejected:
        return Verdict.DENY, f"rejected by {rejected}", None
    facts = [w for w in words if isinstance(w, ApprovalFact)]
    if unsure := sorted({f.approval.spec.approver for f in facts if _may_be_a_no(f, remediation, plan)}):
        return Verdict.UNKNOWN, f"{', '.join(unsure)} rejected, but their right could not be checked", None
    if unread := [w for w in words if isinstance(w, UnreadApproval)]:
        message = (
            f"RemediationApproval {', '.join(w.name for w in unread[:5])} cannot be read by this version and may be a "
            f"Reject: {unread[0].why}; delete it, and create it again with this version's types"
        )
        return Verdict.UNKNOWN, message, None
    return None


def _not_open(
    remediation: Remediation, plan: Plan, policy: RemediationPolicy, policies: Standing | None, now: datetime | None
) -> Answer | None:
    """Why nobody's yes would count. `now`: None once the run has started, and its plan cannot expire any more."""
    if policy.mode_for(remediation.spec.playbook.name) is RemediationMode.OBSERVE:
        return Verdict.DENY, "the KafkaCluster's mode is Observe, so the operator carries out no plan", None
    if unproven := _unproven(remediation, policies):
        return (*unproven, None)
    if now is not None and now >= plan.expires_at:
        return Verdict.DENY, f"the plan expired at {_utc(plan.expires_at)}", None
    return None


def _beyond(
    remediation: Remediation,
    plan: Plan,
    policy: RemediationPolicy,
    cost: Cost | None,
    risk: Risk | None,
    now: datetime,
    started: bool,
) -> tuple[str, ...] | None:
    """What of the plan is beyond what Auto does by itself; None where the mode is not Auto."""
    if policy.mode_for(remediation.spec.playbook.name) is not RemediationMode.AUTO:
        return None
    beyond = beyond_auto(remediation, plan, cost or Cost(copied=None), policy.auto, risk, now, started=started)
    name = remediation.spec.playbook.name
    if name not in SHIPPED and policy.override(name) is None:
        return (f"{name} is not a shipped playbook, and spec.remediation.playbooks does not list it", *beyond)
    return beyond


def _yes(
    remediation: Remediation,
    plan: Plan,
    policy: RemediationPolicy,
    facts: Sequence[ApprovalFact],
    records: Sequence[ApprovalRecord],
    beyond: tuple[str, ...] | None,
) -> Answer:
    """Whether enough of those who may have said yes, or Auto may go by itself."""
    if beyond == ():
        return Verdict.ALLOW, "the KafkaCluster's mode is Auto, and the plan within its bounds", AUTOMATIC
    approvers, needed = _who(records, Decision.APPROVE), policy.approvals.needed(remediation.spec.requested_by)
    missing = needed - len(approvers)
    by = ", ".join(approvers)
    if missing <= 0:
        return Verdict.ALLOW, f"approved by {by}", by
    if any(fact.may_approve is None for fact in facts):
        return Verdict.UNKNOWN, "whether an approver may approve could not be checked", None
    asks = f"beyond the bounds of Auto ({'; '.join(beyond)}): " if beyond else ""
    more = f"{missing} more" if approvers else f"{missing}"
    why = "; one more because a ServiceAccount requested the run, and an approver may hold its token"
    why = why if needed > policy.approvals.required else ""
    return Verdict.WAIT, f"{asks}waits for {more} approval{'s' if missing > 1 else ''} of {plan.digest}{why}", None


def _unproven(remediation: Remediation, policies: Standing | None) -> tuple[Verdict, str] | None:
    """Why nobody's word about this Remediation can be believed, whatever it says."""
    if policies is None:
        return Verdict.UNKNOWN, "the admission policies could not be read, so no approval can be trusted"
    if policies.since is None:
        return Verdict.DENY, f"the admission policies are not in force, so no approval can be trusted: {policies.why}"
    if not policies.covers(remediation.metadata.creation_timestamp):
        why = unchecked(remediation, policies)
        return Verdict.DENY, f"{why}; approve its plan again, then delete it: the operator then reverts what it set"
    return None


def unchecked(remediation: Remediation, policies: Standing) -> str:
    """Why nobody's word counts about a Remediation from before the policies: who asked for it may be made up."""
    created = remediation.metadata.creation_timestamp
    text = _utc(created) if created else "an unknown time"
    return f"this Remediation was created at {text}, and {_checked(policies)}, so its requester is not proven"


def _checked(policies: Standing) -> str:
    if policies.since is None:
        return f"the admission policies are not in force: {policies.why}"
    return f"the admission policies check objects created after {_utc(policies.since)}"


def _utc(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _may_be_a_no(fact: ApprovalFact, remediation: Remediation, plan: Plan) -> bool:
    """A Reject of this very plan whose approver's right is not known: it counts neither way."""
    spec = fact.approval.spec
    exact = spec.remediation_ref.uid == remediation.uid and spec.plan_digest == plan.digest
    return exact and spec.decision is Decision.REJECT and fact.may_approve is None


def _record(
    fact: ApprovalFact,
    remediation: Remediation,
    plan: Plan,
    policy: RemediationPolicy,
    policies: Standing | None,
    skew: Skew | None,
) -> ApprovalRecord:
    """`skew`: None once the run has started, and no approval can be late any more."""
    approval = fact.approval
    spec, at = approval.spec, approval.metadata.creation_timestamp
    if at is None or approval.uid is None:
        raise ValueError("an approval without uid or creationTimestamp did not come from the API server")
    why = _uncounted(fact, remediation, plan) or _yes_uncounted(fact, at, remediation, plan, policy, policies, skew)
    return ApprovalRecord(
        name=approval.name,
        uid=approval.uid,
        approver=spec.approver,
        decision=spec.decision,
        at=at,
        counted=why is None,
        reason=(why or spec.reason)[:1024],
    )


def _uncounted(fact: ApprovalFact, remediation: Remediation, plan: Plan) -> str | None:
    """Why neither a yes nor a no of this kind counts."""
    spec = fact.approval.spec
    if spec.remediation_ref.uid != remediation.uid:
        return "it names another Remediation of the same name (other uid)"
    if spec.plan_digest != plan.digest:
        return "it names another plan; read the current plan and approve again"
    if fact.may_approve is False:
        through = f" or through {', '.join(spec.approver_groups[:5])}" if spec.approver_groups else ""
        return f"{spec.approver} may not approve by name{through} (verb approve on remediations)"
    if fact.may_approve is None:
        return f"whether {spec.approver} may approve could not be checked"
    return None


def _yes_uncounted(
    fact: ApprovalFact,
    at: datetime,
    remediation: Remediation,
    plan: Plan,
    policy: RemediationPolicy,
    policies: Standing | None,
    skew: Skew | None,
) -> str | None:
    """Why a yes does not count, which as a no would."""
    spec = fact.approval.spec
    if spec.decision is not Decision.APPROVE:
        return None
    if policies is not None and not policies.covers(at):
        return f"it was created at {_utc(at)}, and {_checked(policies)}; approve again"
    if skew is not None and skew.latest(at) >= plan.expires_at:
        return "it was created after the plan's expiry, or too close to the expiry for two clocks"
    if policy.approvals.is_machine(spec.approver):
        return f"{spec.approver} is a ServiceAccount, and approvals.serviceAccounts does not list it"
    if spec.approver == remediation.spec.requested_by and not policy.approvals.allow_requester:
        return f"{spec.approver} requested this run, and approvals.allowRequester is false"
    return None
