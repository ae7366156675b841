"""`decide`: from what a run is and what is seen to what it is next, and at most one effect.

Pure and total: the same inputs give the same Decision, every phase has an answer, and an answer is either a step on,
or the reasons why not. What an earlier turn did is never remembered, only read back: from the journal what was meant,
from the Snapshot what is so.
"""

from __future__ import annotations

from dataclasses import replace

from kafka_medic.guard.breaker import BreakerState, breaker
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook.approval import unchecked
from kafka_medic.playbook.decision import Decision, World, being_deleted, disowned, ended, refuse, stay, waiting
from kafka_medic.playbook.drift import drifted_long_enough
from kafka_medic.playbook.execution import advance
from kafka_medic.playbook.guards import forward_reasons
from kafka_medic.playbook.leadership import reorder_step
from kafka_medic.playbook.offsets import consumers_step, offset_step
from kafka_medic.playbook.parameters import AWAY, brings_leaders
from kafka_medic.playbook.plan_file import is_missing, unread_file
from kafka_medic.playbook.planned_topics import recreated
from kafka_medic.playbook.planning import propose, restarts
from kafka_medic.playbook.provenance import beyond_plan, forged
from kafka_medic.playbook.reassign.positions import Position, standings
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.playbook.restart import drain_first, rescue_step
from kafka_medic.playbook.restart.attempts import other_pods
from kafka_medic.playbook.settings import min_isr_step
from kafka_medic.resources.phases import ACTING_PHASES, TERMINAL_PHASES, Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.remediation_status import Cure, RemediationStatus, StepStatus
from kafka_medic.resources.vocabulary import Severity


def decide(run: Remediation, world: World) -> Decision:
    """One turn of one Remediation. No effect goes beyond its plan, whatever its journal says."""
    decision = _decide(run, world)
    if decision.intent is None or run.status.plan is None:
        return decision
    beyond = beyond_plan(decision.intent, run.status.plan)
    return decision if beyond is None else disowned(run.status, f"its journal is not its plan's: {beyond}", world.now)


def _decide(run: Remediation, world: World) -> Decision:
    phase = run.status.phase
    if phase is None:
        return Decision(run.status.model_copy(update={"phase": Phase.PLANNING, "message": "planning"}), requeue=0.0)
    if phase in TERMINAL_PHASES:
        return stay(run.status, requeue=None)
    if phase in ACTING_PHASES:
        return advance(run, world)
    going = being_deleted(run, world)
    if going:
        return ended(run.status, Phase.ABORTED, going, world.now)
    stale = _outlived(run, world)
    if stale:
        return ended(run.status, Phase.SUPERSEDED, stale, world.now)
    tripped = _tripped(run, world)
    if tripped:
        return ended(run.status, Phase.SUPERSEDED, tripped, world.now)
    run = run.model_copy(update={"status": run.status.model_copy(update={"cures": _cures(run, world)})})
    if phase is Phase.PLANNING:
        return _plan(run, world)
    return _await(run, world)


def _cures(run: Remediation, world: World) -> Cure | None:
    """The finding that the run cures, as it is now: its cause or, where a person asked for the run, the gravest that
    fires and names its playbook. A finding that is gone keeps its last severity. One that was gone before the run was
    first decided, as a drain's is when its way back is proposed, is no emergency."""
    cause, known = run.spec.cause, run.status.cures
    if cause is not None:
        found = next((f for f in world.findings if f.id == cause.finding_id), None)
        severity = found.severity if found else known.severity if known else Severity.INFO
        return Cure(finding_id=cause.finding_id, severity=severity)
    fired = [f for f in world.findings if f.firing() and f.playbook == run.spec.playbook.name]
    gravest = max(fired, key=lambda f: list(Severity).index(f.severity), default=None)
    return known if gravest is None else Cure(finding_id=gravest.id, severity=gravest.severity)


def _outlived(run: Remediation, world: World) -> str | None:
    """Why a run that has done nothing yet has lost what it was made for."""
    if run.spec.cluster_ref.uid != world.cluster.uid:
        return "the KafkaCluster it names is another one now (uid)"
    if world.playbook is None:
        return f"the playbook {run.spec.playbook.name} is gone"
    if world.playbook.digest() != run.spec.playbook.digest:
        return f"the playbook {run.spec.playbook.name} was changed since"
    cause, found = run.spec.cause, world.finding_ids
    standing = world.policies
    if standing is not None and standing.since is not None and not standing.covers(run.metadata.creation_timestamp):
        return f"{unchecked(run, standing)}; what is still wrong is proposed again, else ask again"
    needs_cause = restarts(world.playbook) or brings_leaders(world.playbook) == AWAY
    if needs_cause and cause is not None and cause.finding_id not in found:
        # Neither a restart nor a drain is right by itself: without what it was to cure there is no reason left.
        return f"what it was to cure has gone: {cause.finding_id}"
    return None


def _tripped(run: Remediation, world: World) -> str | None:
    """Why a run that has done nothing yet is dropped: once the breaker lets one start again, what has piled up behind
    it, with approvals from before, is not to start by itself."""
    if world.others is None:
        return None
    reading = breaker(world.cluster.spec.remediation.breaker, (*world.others, OtherRun.of(run)), world.now)
    return f"dropped: {reading.describe()}" if reading.state is BreakerState.OPEN else None


def _plan(run: Remediation, world: World) -> Decision:
    assert world.playbook is not None  # _outlived saw to it
    proposal = propose(
        run,
        world.cluster,
        world.playbook,
        world.snapshot,
        world.now,
        world.others,
        world.pending_ids,
        world.answers,
        world.files,
    )
    if isinstance(proposal, Refusal):
        if proposal.nothing_to_do:
            return ended(run.status, Phase.SUPERSEDED, proposal.message, world.now)
        if proposal.permanent:
            return ended(run.status, Phase.FAILED, proposal.message, world.now)
        return waiting(run.status, Phase.PLANNING, proposal.message, proposal.reasons)
    update = {
        "phase": Phase.AWAITING_APPROVAL,
        "plan": proposal,
        "risk": world.playbook.spec.risk,
        "steps": _steps(proposal),
        "waiting_for": (),
        "message": "waits for approval of exactly this plan",
    }
    return Decision(run.status.model_copy(update=update), requeue=0.0)


def _await(run: Remediation, world: World) -> Decision:
    """AwaitingApproval and Approved: nothing has been done; anything that does not fit sends it back or ends it."""
    plan, why_not = run.status.plan, forged(run)
    if plan is None or why_not is not None:
        again = _again(run.status, why_not or "")
        return replace(again, warning=("StatusForged", f"planned again: {why_not}"))
    judged = world.judged(run, started=False)
    status = run.status.model_copy(update={"approvals": judged.records, "approved_by": judged.approved_by})
    if judged.rejected_by:
        return ended(status, Phase.REJECTED, f"rejected by {judged.rejected_by}", world.now)
    if world.now >= plan.expires_at:
        return ended(status, Phase.EXPIRED, "nobody approved the plan in time", world.now)
    if is_missing(plan):
        return refuse(status, status.phase or Phase.AWAITING_APPROVAL, (unread_file(plan),))
    drift = next((s.reason for s in standings(plan.changes, world.snapshot) if s.position is Position.DRIFTED), None)
    drift = drift or recreated(plan, world.snapshot)
    drift = drift or next(iter(other_pods(plan.restarts, world.snapshot)), None)
    drift = drift or rescue_step.unsaved(plan, world.snapshot, {r.broker for r in plan.restarts})
    if not plan.changes:  # else there is nothing to put into another order until replicas have been added
        drift = drift or reorder_step.other_orders(reorder_step.planned_orders(plan), world.snapshot)
    drift = drift or drain_first.other_orders(plan, world.snapshot) or min_isr_step.other_values(plan, world.snapshot)
    drift = drift or offset_step.void(plan, world.snapshot) or consumers_step.void(plan, world.answers)
    status, voided = drifted_long_enough(status, drift or _done_by_others(run, world), world.now)
    if voided:
        return _again(status, voided)
    run = run.model_copy(update={"status": status})
    if judged.reason.verdict is not Verdict.ALLOW:
        refusals = tuple(r for r in forward_reasons(run, world) if r.verdict is not Verdict.ALLOW)
        return waiting(status, Phase.AWAITING_APPROVAL, judged.reason.message, refusals)
    if status.phase is Phase.AWAITING_APPROVAL:
        update = {"phase": Phase.APPROVED, "message": judged.reason.message, "waiting_for": ()}
        return Decision(status.model_copy(update=update), requeue=0.0)
    refusals = tuple(r for r in forward_reasons(run, world) if r.verdict is not Verdict.ALLOW)
    if refusals:
        return refuse(status, Phase.APPROVED, refusals)
    start = {"phase": Phase.RUNNING, "started_at": world.now, "message": "starting", "waiting_for": ()}
    # Nothing has been done yet, so whatever the status says was done is somebody else's word.
    start |= {"journal": (), "restore_owed": False, "current_step": None, "steps": _steps(plan)}
    return Decision(status.model_copy(update=start), requeue=0.0)


def _steps(plan: Plan) -> tuple[StepStatus, ...]:
    return tuple(StepStatus(name=s.name, action=s.action) for s in plan.steps)


def _again(status: RemediationStatus, why: str) -> Decision:
    """Back to planning: another plan needs another approval."""
    update = {
        "phase": Phase.PLANNING,
        "plan": None,
        "message": f"planning again: {why}",
        "approvals": (),
        "approved_by": None,
        "conditions": (),
        "steps": (),
        "waiting_for": (),
    }
    return Decision(status.model_copy(update=update), requeue=0.0)


def _done_by_others(run: Remediation, world: World) -> str | None:
    """A partition that is where the plan would bring it, though we have done nothing: somebody else did."""
    plan = run.status.plan
    if plan is None or not plan.changes:
        return None
    ahead = (Position.MOVING, Position.CATCHING_UP, Position.DONE)
    done = next((s for s in standings(plan.changes, world.snapshot) if s.position in ahead), None)
    return f"{done.tp} was reassigned by somebody else" if done else None
