"""`decide`: from what a run is and what is seen to what it is next, and at most one effect.

Pure and total: the same inputs give the same Decision, every phase has an answer, and an answer is either a step on,
or the reasons why not. What an earlier reconcile did is never remembered, only read back: from the journal what was
meant, from the Snapshot what is so.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from kafka_medic.diagnose.finding import Finding
from kafka_medic.guard.breaker import BreakerState, breaker
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.action import PlanRequest, StepContext
from kafka_medic.playbook.approval import ApprovalJudgement, unchecked
from kafka_medic.playbook.decision import (
    Decision,
    DecisionContext,
    being_deleted,
    disowned,
    ended,
    refuse,
    stay,
    waiting,
)
from kafka_medic.playbook.drift import drifted_long_enough
from kafka_medic.playbook.execution import ASK_AGAIN, advance, overtaken
from kafka_medic.playbook.guards import forward_reasons, judged
from kafka_medic.playbook.nothing_to_do import with_nothing_to_do
from kafka_medic.playbook.plan_file import is_missing, unread_file
from kafka_medic.playbook.planning import propose
from kafka_medic.playbook.preconditions import deleted_topics, recreated, unsure
from kafka_medic.playbook.provenance import beyond_plan, forged
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.playbook.registry import ACTIONS, may_find_later, needs_its_cause
from kafka_medic.playbook.running_record import recorded
from kafka_medic.playbook.triggers import SHIPPED, is_for
from kafka_medic.resources.conditions import Condition, ConditionStatus, find_condition
from kafka_medic.resources.durations import format_duration
from kafka_medic.resources.phases import ACTING_PHASES, TERMINAL_PHASES, Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.remediation_status import MAX_EVIDENCE_KEPT, Cure, RemediationStatus, StepStatus
from kafka_medic.resources.vocabulary import Guard, Severity

PLANNED_AGAIN = "PlannedAgain"
"""A condition of a run whose plan has replaced one that did not fit the cluster any more."""
OWN_PLANNING = 900.0
"""Seconds for which a proposal of an owner's own playbook may wait for its plan."""


def decide(run: Remediation, context: DecisionContext) -> Decision:
    """One reconcile of one Remediation. No effect goes beyond its plan, whatever its journal says."""
    decision = _decide(run, context)
    status = recorded(run.status, decision.status, context.snapshot.canary, context.now)
    decision = replace(decision, status=status)
    if decision.intent is None or run.status.plan is None:
        return decision
    beyond = beyond_plan(decision.intent, run.status.plan)
    return decision if beyond is None else disowned(run.status, f"its journal is not its plan's: {beyond}", context.now)


def _decide(run: Remediation, context: DecisionContext) -> Decision:
    phase = run.status.phase
    if phase is None:
        return Decision(run.status.model_copy(update={"phase": Phase.PLANNING, "message": "planning"}), requeue=0.0)
    if phase in TERMINAL_PHASES:
        return stay(run.status, requeue=None)
    if phase in ACTING_PHASES:
        return advance(run, context)
    going = being_deleted(run, context)
    if going:
        return ended(run.status, Phase.ABORTED, going, context.now)
    stale = _outlived(run, context)
    if stale:
        return ended(run.status, Phase.SUPERSEDED, stale, context.now)
    tripped = _tripped(run, context)
    if tripped:
        return ended(run.status, Phase.SUPERSEDED, tripped, context.now)
    run = run.model_copy(update={"status": run.status.model_copy(update={"cures": _cures(run, context)})})
    if phase is Phase.PLANNING:
        return _plan(run, context)
    return _await(run, context)


def _cures(run: Remediation, context: DecisionContext) -> Cure | None:
    """The finding that the run cures, as it is now: its cause or, where a person asked for the run, the gravest that
    fires and that its playbook is for. A finding that is gone keeps its last severity. One that was gone before the run
    was first decided, as a drain's is when its way back is proposed, is no emergency."""
    cause, known = run.spec.cause, run.status.cures
    if cause is not None:
        found = next((f for f in context.findings if f.id == cause.finding_id), None)
        if found is None:
            return known or Cure(finding_id=cause.finding_id, severity=Severity.INFO)
        return _cure_of(found, known)
    playbook = context.playbook
    fired = [f for f in context.findings if f.firing() and playbook is not None and is_for(playbook, f)]
    gravest = max(fired, key=lambda f: list(Severity).index(f.severity), default=None)
    return known if gravest is None else _cure_of(gravest, known)


def _cure_of(finding: Finding, known: Cure | None) -> Cure:
    """With the evidence as it was when the finding first had this severity: its times change in each observation."""
    if known is not None and (known.finding_id, known.severity) == (finding.id, finding.severity):
        return known
    return Cure(
        finding_id=finding.id,
        severity=finding.severity,
        message=finding.message[:1024],
        evidence=tuple(line[:1024] for line in finding.evidence[:MAX_EVIDENCE_KEPT]),
    )


def _outlived(run: Remediation, context: DecisionContext) -> str | None:
    """Why a run that has done nothing yet has lost what it was made for."""
    if run.spec.cluster_ref.uid != context.cluster.uid:
        return "its KafkaCluster was replaced (other uid)"
    if context.playbook is None:
        return f"playbook {run.spec.playbook.name} no longer exists"
    if context.playbook.digest() != run.spec.playbook.digest:
        return f"playbook {run.spec.playbook.name} changed since then"
    cause, found = run.spec.cause, context.finding_ids
    standing = context.policies
    if standing is not None and standing.since is not None and not standing.covers(run.metadata.creation_timestamp):
        return (
            f"{unchecked(run, standing)}; the operator proposes a run again for a lasting finding, else request it "
            "again"
        )
    if needs_its_cause(context.playbook) and cause is not None and cause.finding_id not in found:
        # Neither a restart nor a drain is right by itself: without what it was to cure there is no reason left.
        return f"its finding {cause.finding_id} is gone"
    return None


def _tripped(run: Remediation, context: DecisionContext) -> str | None:
    """Why a run that has done nothing yet is dropped: once the breaker lets one start again, what has piled up behind
    it, with approvals from before, is not to start by itself."""
    if context.others is None:
        return None
    reading = breaker(context.cluster.spec.remediation.breaker, (*context.others, OtherRun.of(run)), context.now)
    return f"dropped: {reading.describe()}" if reading.state is BreakerState.OPEN else None


def _plan(run: Remediation, context: DecisionContext) -> Decision:
    assert context.playbook is not None  # _outlived saw to it
    proposal = propose(
        PlanRequest(
            run,
            context.cluster,
            context.playbook,
            context.snapshot,
            context.now,
            others=context.others,
            pending=context.pending_ids,
            reads=context.reads,
            files=context.files,
        )
    )
    if isinstance(proposal, Refusal):
        if proposal.nothing_to_do and _named_still(run, context):
            return waiting(run.status, Phase.PLANNING, proposal.message, proposal.reasons)
        if proposal.nothing_to_do:
            status = with_nothing_to_do(run.status, proposal.message, context.now)
            return ended(status, Phase.SUPERSEDED, proposal.message, context.now)
        if proposal.permanent:
            return ended(run.status, Phase.FAILED, proposal.message, context.now)
        if _outwaited(run, context.now):
            message = f"no plan within {format_duration(OWN_PLANNING)}: {proposal.message}"
            return ended(run.status, Phase.EXPIRED, message, context.now)
        return waiting(run.status, Phase.PLANNING, proposal.message, proposal.reasons)
    update = {
        "phase": Phase.AWAITING_APPROVAL,
        "plan": proposal,
        "risk": context.playbook.spec.risk,
        "steps": _steps(proposal),
        "waiting_for": (),
        "message": f"waits for approval of this plan{_why_again(run.status)}",
    }
    return Decision(run.status.model_copy(update=update), requeue=0.0)


def _named_still(run: Remediation, context: DecisionContext) -> bool:
    """Whether the diagnosis names the run's shipped playbook for its cause as before: it would be proposed again at
    once, and end again. The plan comes when brokers come back, or are added, or traffic is another."""
    cause, playbook = run.spec.cause, context.playbook
    if cause is None or playbook is None or playbook.name not in SHIPPED:
        return False
    return may_find_later(playbook) and any(f.id == cause.finding_id and is_for(playbook, f) for f in context.findings)


def _outwaited(run: Remediation, now: datetime) -> bool:
    """Whether a proposal of an owner's own playbook has waited so long that the next playbook is to have its turn. A
    shipped one waits on: the diagnosis named it."""
    created = run.metadata.creation_timestamp
    own = run.spec.cause is not None and run.spec.playbook.name not in SHIPPED
    return own and created is not None and (now - created).total_seconds() >= OWN_PLANNING


def _await(run: Remediation, context: DecisionContext) -> Decision:
    """AwaitingApproval and Approved: nothing has been done; anything that does not fit sends it back or ends it."""
    plan, why_not = run.status.plan, forged(run)
    if plan is None or why_not is not None:
        again = _again(run.status, why_not or "", context.now)
        return replace(again, warning=("StatusForged", f"planned again: {why_not}"))
    words = judged(run, context, started=False)
    status = run.status.model_copy(update={"approvals": words.records, "approved_by": words.approved_by})
    if words.rejected_by:
        return ended(status, Phase.REJECTED, f"rejected by {words.rejected_by}", context.now)
    if context.now >= plan.expires_at:
        return ended(status, Phase.EXPIRED, "the plan expired without approval", context.now)
    if is_missing(plan):
        return refuse(status, status.phase or Phase.AWAITING_APPROVAL, (unread_file(plan),))
    # An approved plan continues without a deleted topic. Before the approval, people see what would be done.
    gone = deleted_topics(plan, context.snapshot) if status.phase is Phase.APPROVED else frozenset()
    left = plan.without(gone)
    if gone and left.changed_topics():
        plan, status = left, status.model_copy(update={"deleted_topics": tuple(sorted(gone))})
    else:
        status = status.model_copy(update={"deleted_topics": ()})
    drift = None if unsure(plan, context.snapshot) else _drift(run, plan, context)
    status, voided = drifted_long_enough(status, drift, context.now)
    if voided and run.spec.cause is None and (done := overtaken(run, plan, context)):
        return ended(status, Phase.SUPERSEDED, f"{done}: {ASK_AGAIN}", context.now)
    if voided:
        return _again(status, voided, context.now)
    if drift and status.phase is Phase.APPROVED:
        # Not believed yet, and no plan to begin with.
        return refuse(status, Phase.APPROVED, (Reason(Guard.PRECONDITIONS_HOLD, Verdict.UNKNOWN, drift),))
    return _approved(run.model_copy(update={"status": status}), plan, words, context)


def _approved(run: Remediation, plan: Plan, words: ApprovalJudgement, context: DecisionContext) -> Decision:
    """A plan that still fits: it waits for people, then for the guards, then it begins."""
    status = run.status
    if words.reason.verdict is not Verdict.ALLOW:
        refusals = tuple(r for r in forward_reasons(run, context) if r.verdict is not Verdict.ALLOW)
        message = f"{words.reason.message}{_why_again(status)}"
        return waiting(status, Phase.AWAITING_APPROVAL, message, refusals)
    if status.phase is Phase.AWAITING_APPROVAL:
        update = {"phase": Phase.APPROVED, "message": words.reason.message, "waiting_for": ()}
        return Decision(status.model_copy(update=update), requeue=0.0)
    refusals = tuple(r for r in forward_reasons(run, context) if r.verdict is not Verdict.ALLOW)
    if refusals:
        return refuse(status, Phase.APPROVED, refusals)
    start = {"phase": Phase.RUNNING, "started_at": context.now, "message": "starting", "waiting_for": ()}
    # Nothing has been done yet, so whatever the status says was done is somebody else's word.
    start |= {"journal": (), "restore_owed": False, "current_step": None, "steps": _steps(plan)}
    return Decision(status.model_copy(update=start), requeue=0.0)


def _drift(run: Remediation, plan: Plan, context: DecisionContext) -> str | None:
    """What is not as the plan saw it."""
    if drift := recreated(plan, context.snapshot):
        return drift
    asked = (ACTIONS[s.action].drift(StepContext(run, plan, context, s.name)) for s in plan.steps)
    return next((drift for drift in asked if drift), None)


def _steps(plan: Plan) -> tuple[StepStatus, ...]:
    return tuple(StepStatus(name=s.name, action=s.action) for s in plan.steps)


def _again(status: RemediationStatus, why: str, now: datetime) -> Decision:
    """Back to planning: another plan needs another approval, and says why."""
    condition = Condition(
        type=PLANNED_AGAIN,
        status=ConditionStatus.TRUE,
        reason="NotAsPlanned",
        message=why[:8192],
        last_transition_time=now,
    )
    update = {
        "phase": Phase.PLANNING,
        "plan": None,
        "message": f"planning again: {why}",
        "approvals": (),
        "approved_by": None,
        "deleted_topics": (),
        "conditions": (condition,),
        "steps": (),
        "waiting_for": (),
    }
    return Decision(status.model_copy(update=update), requeue=0.0)


def _why_again(status: RemediationStatus) -> str:
    """Why the plan is another one than before; empty for the first."""
    found = find_condition(status.conditions, PLANNED_AGAIN)
    return f"; the plan before is void: {found.message}" if found is not None else ""
