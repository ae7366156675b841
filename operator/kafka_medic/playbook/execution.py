"""A run that has begun: its steps one after the other, and its clean end when it is given up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from kafka_medic.guard import precedence
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.action import StepContext
from kafka_medic.playbook.approval import ApprovalJudgement
from kafka_medic.playbook.deadline import held_by_people, lateness, note_hold
from kafka_medic.playbook.decision import (
    SOON,
    Decision,
    DecisionContext,
    being_deleted,
    disowned,
    ended,
    refuse,
    waiting,
    waiting_for,
)
from kafka_medic.playbook.drift import drifted_long_enough
from kafka_medic.playbook.guards import forward_reasons, judged, restoring_reasons
from kafka_medic.playbook.holding import GIVE_UP, holding, renewed
from kafka_medic.playbook.plan_file import is_missing, unread_file
from kafka_medic.playbook.preconditions import deleted_topics, same_cluster, shown_again, unsure
from kafka_medic.playbook.provenance import forged
from kafka_medic.playbook.registry import ACTIONS
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.phases import Phase, StepPhase
from kafka_medic.resources.playbook import Step
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.remediation_status import (
    IntentState,
    JournalEntry,
    RemediationStatus,
    StepStatus,
    saved_from,
)
from kafka_medic.resources.vocabulary import Guard, OnFailure, VerifyProbe

ASK_AGAIN = "request it again if you still need it"
SOONEST, LATEST = 0.05, 1.0
"""Seconds, at least and at most, between two reconciles while an effect is awaited or a recovery is verified."""
SHARE = 0.05
"""Of the time since the effect: so long is the pause. An election is over in milliseconds. A broker takes seconds to
start, and starts the slower the more processor time the operator and the API server take from it."""


def advance(run: Remediation, context: DecisionContext) -> Decision:
    """One reconcile of a run in Running, Verifying, Blocked or Paused."""
    held = holding(run.status, context.snapshot, context.now, binds=_binds(run.status))
    run = run.model_copy(update={"status": run.status.model_copy(update={"holds": held})})
    plan, status, why_not = run.status.plan, run.status, forged(run)
    if plan is None or why_not is not None:
        return disowned(status, why_not or "", context.now)
    if is_missing(plan):
        ahead = _gives_way(run, context)
        return refuse(status, Phase.BLOCKED, (unread_file(plan), *((ahead,) if ahead else ())))
    # What was deleted once stays so, whatever can be read later.
    known = set(status.deleted_topics) - shown_again(plan, context.snapshot, status.deleted_topics)
    gone = tuple(sorted(known | deleted_topics(plan, context.snapshot)))
    status = status.model_copy(update={"deleted_topics": gone})
    run = run.model_copy(update={"status": status})
    plan = status.plan_left or plan
    journal = {entry.id: entry for entry in status.journal}
    if GIVE_UP in journal:
        return _wind_up(run, context, plan, journal)
    words = judged(run, context, started=True)
    status = status.model_copy(update={"approvals": words.records})
    if end := _over(run, words, context):
        return _give_up(status, *end, context.now)
    return _go_on(run.model_copy(update={"status": status}), plan, context)


def _over(run: Remediation, words: ApprovalJudgement, context: DecisionContext) -> tuple[Phase, str] | None:
    """The phase in which the run ends early, and why; None where it goes on."""
    going = being_deleted(run, context)
    if going:
        return Phase.ABORTED, going
    lost = _lost(run, context)
    if lost:
        return Phase.SUPERSEDED, lost
    return (Phase.ABORTED, f"stopped by {words.rejected_by}") if words.rejected_by else None


def _go_on(run: Remediation, plan: Plan, context: DecisionContext) -> Decision:
    """The step that is under way."""
    status = run.status
    current = next((s for s in status.steps if s.phase is not StepPhase.SUCCEEDED), None)
    if current is None:
        summary = plan.summary.splitlines()[0] if plan.summary else "done"
        message = "; ".join((f"{summary}: done and verified", *_without(status)))
        return ended(status, Phase.SUCCEEDED, message, context.now)
    ahead = _gives_way(run, context)
    if ahead is not None:
        status = note_hold(status, current.name, True, context.now)
        status = status.model_copy(update={"consecutive_verified": None, "well_since": None})
        return waiting(status, Phase.BLOCKED, ahead.message, (ahead,))
    at = StepContext(run, plan, context, current.name)
    step = at.spec
    assert step is not None  # _lost saw to it
    same = same_cluster(plan, context.snapshot)
    if same.verdict is not Verdict.ALLOW:  # Nothing that another cluster shows says how this run stands.
        report = StepReport(StepState.UNKNOWN, same.message, progress=current.progress)
    elif not_known := unsure(plan, context.snapshot):
        report = StepReport(StepState.UNKNOWN, not_known, progress=current.progress)
    elif status.deleted_topics and not status.journal and all(ACTIONS[s.action].idle(plan) for s in plan.steps):
        message = f"every topic of the plan was deleted since it was made: {some(status.deleted_topics, 5)}"
        report = StepReport(StepState.DRIFTED, message, progress=current.progress)
    else:
        report = ACTIONS[step.action].assess(at)
    status = _record(status, current, report, context)
    reasons = _reasons(run.model_copy(update={"status": status}), context, report)
    if report.otherwise is not None and any(r.verdict is not Verdict.ALLOW for r in reasons):
        report, reasons = report.otherwise, ()
        status = _record(status, current, report, context)
    undone = _undone_by_others(run, plan, context, report)
    status, drift = drifted_long_enough(status, undone or _drift(report, reasons), context.now)
    if drift and undone:
        return _give_up(status, Phase.FAILED, f"the run's changes were reverted: {drift}", context.now)
    if drift:
        return _give_up(status, Phase.SUPERSEDED, _not_as_planned(run, plan, context, drift), context.now)
    if undone:
        status = status.model_copy(update={"consecutive_verified": None})
        return _working(status, Phase.VERIFYING, f"{report.message}; {undone}", SOON)
    return _step(run.model_copy(update={"status": status}), context, step, report, reasons)


def _undone_by_others(run: Remediation, plan: Plan, context: DecisionContext, report: StepReport) -> str | None:
    """What a step has done and somebody has undone, whenever a step has reached its goal. All that are done are asked:
    Succeeded is about the whole run."""
    if report.state is not StepState.REACHED:
        return None
    left = [step.name for step in run.status.steps if step.phase is not StepPhase.SUCCEEDED]
    done = (step for step in plan.steps if step.name not in left[1:])
    asked = (ACTIONS[s.action].undone(StepContext(run, plan, context, s.name)) for s in done)
    return next((undone for undone in asked if undone), None)


def overtaken(run: Remediation, plan: Plan, context: DecisionContext) -> str | None:
    """That somebody else has done meanwhile all that is left of the plan."""
    left = [s.name for s in run.status.steps if s.phase is not StepPhase.SUCCEEDED]
    steps = [s for s in plan.steps if s.name in left and not ACTIONS[s.action].idle(plan)]
    done = [ACTIONS[s.action].overtaken(StepContext(run, plan, context, s.name)) for s in steps]
    return "; ".join(why for why in done if why) if done and all(done) else None


def _not_as_planned(run: Remediation, plan: Plan, context: DecisionContext, drift: str) -> str:
    """Why the run ends, and what becomes of its purpose."""
    why, cause = overtaken(run, plan, context) or f"the cluster is not as planned: {drift}", run.spec.cause
    if cause is None:
        return f"{why}: {ASK_AGAIN}"
    if cause.finding_id in context.finding_ids:
        return f"{why}; {cause.finding_id} lasts, so the operator proposes another plan, which needs its own approval"
    return f"{why}; its finding {cause.finding_id} is gone"


def _gives_way(run: Remediation, context: DecisionContext) -> Reason | None:
    """The run that goes first, where this one holds nothing. It is left as it stands, down to its step's clock, until
    that one has ended; then its own drift decides whether its plan still holds."""
    if run.status.holds != "" or context.others is None:
        return None
    first = precedence.goes_first(OtherRun.of(run), context.others)
    return None if first.verdict is Verdict.ALLOW else first


def _drift(report: StepReport, reasons: tuple[Reason, ...]) -> str | None:
    """What is not as planned: as the step sees it, or a guard that no waiting will satisfy."""
    if report.state is StepState.DRIFTED:
        return report.message
    broken = (r for r in reasons if r.guard == Guard.PRECONDITIONS_HOLD and r.verdict is Verdict.DENY)
    return next((r.message for r in broken), None)


def _reasons(run: Remediation, context: DecisionContext, report: StepReport) -> tuple[Reason, ...]:
    """What every guard says to the effect that is due; nothing when none is."""
    if report.state is not StepState.ACT:
        return ()
    if report.restores:
        return restoring_reasons(run, context, giving_up=False)
    return forward_reasons(run, context, report.intent)


def _step(
    run: Remediation, context: DecisionContext, step: Step, report: StepReport, reasons: tuple[Reason, ...]
) -> Decision:
    status = note_hold(run.status, step.name, held_by_people(reasons), context.now)
    lasting = None
    if report.state is StepState.REACHED:
        lasting = _lasting(run, context, step)
        if lasting is None:
            return _verify(run.model_copy(update={"status": status}), context, step, report)
        report = replace(report, streak=None)
    required = context.cluster.spec.remediation.approvals.needed(run.spec.requested_by)
    status, late = lateness(status, step, required, context.now, context.skew)
    if late and step.on_failure is OnFailure.ABORT:
        return _give_up(status, Phase.FAILED, late, context.now)
    well_since = (status.well_since or context.now) if report.streak else None
    status = status.model_copy(update={"consecutive_verified": report.streak or None, "well_since": well_since})
    late = f"{late}. Last seen: {report.message}" if late else report.stuck
    if lasting is not None:
        message = f"{late}; {lasting}" if late else f"{report.message}; {lasting}"
        status = _with_step(status, step.name, {"phase": StepPhase.VERIFYING, "message": message[:1024]})
        return _working(status, Phase.PAUSED if late else Phase.VERIFYING, message)
    match report.state:
        case StepState.UNKNOWN | StepState.DRIFTED:
            same = same_cluster(status.plan, context.snapshot)
            verdict = Verdict.DENY if same.verdict is Verdict.DENY else Verdict.UNKNOWN
            reason = Reason(Guard.PRECONDITIONS_HOLD, verdict, report.message)
            return waiting(status, Phase.PAUSED if late else Phase.BLOCKED, late or report.message, (reason,))
        case StepState.WAIT:
            requeue = None if report.streak is None else _pause(status, report, context.now)
            return _working(status, Phase.PAUSED if late else Phase.RUNNING, late or report.message, requeue)
    if late and not report.restores:
        return _working(status, Phase.PAUSED, late)
    refusals = tuple(r for r in reasons if r.verdict is not Verdict.ALLOW)
    if refusals:
        return waiting(status, Phase.BLOCKED, "; ".join(r.message for r in refusals[:3]), refusals)
    return _act(status, Phase.RUNNING, step.name, report, context)


def _lasting(run: Remediation, context: DecisionContext, step: Step) -> str | None:
    """The run's own cause where the step is verified by its end, and it has not ended. A run that a person asked for
    has no cause, so that its goal alone counts. A finding that could not be read again is still among the findings."""
    cause = run.spec.cause
    if step.verify.probe is not VerifyProbe.FINDING_GONE or cause is None:
        return None
    return f"{cause.finding_id} lasts" if cause.finding_id in context.finding_ids else None


def _verify(run: Remediation, context: DecisionContext, step: Step, report: StepReport) -> Decision:
    """The goal is observed; it has to be so several times in a row before the next step. What a step has counted by
    itself says nothing of a finding."""
    status = run.status
    if step.verify.probe is VerifyProbe.FINDING_GONE:
        before = (status.consecutive_verified or 0) if status.phase is Phase.VERIFYING else 0
    else:
        before = max(status.consecutive_verified or 0, report.streak or 0)
    count = before + 1
    # The table of phases has one way to Succeeded: a run is seen Verifying at least once.
    if count < step.verify.consecutive or status.phase is not Phase.VERIFYING:
        needed = step.verify.consecutive
        message = f"{report.message}; seen {min(count, needed)} of {many(needed, 'time')} in a row"
        moved = _with_step(status, step.name, {"phase": StepPhase.VERIFYING, "message": message[:1024]})
        moved = moved.model_copy(update={"consecutive_verified": count})
        # Counted already where the step itself did; else what is to last is looked at a moment later.
        return _working(moved, Phase.VERIFYING, message, SOON if count < needed else 0.0)
    finished = {"phase": StepPhase.SUCCEEDED, "message": report.message[:1024], "finished_at": context.now}
    moved = _with_step(status, step.name, finished).model_copy(
        update={"consecutive_verified": None, "well_since": None}
    )
    last = all(s.phase is StepPhase.SUCCEEDED for s in moved.steps)
    if last:
        done = moved.model_copy(update={"restore_owed": False, "current_step": None})
        summary = done.plan.summary.splitlines()[0] if done.plan and done.plan.summary else "the plan"
        message = "; ".join((f"done and verified: {summary}", *_afterwards(run, context), *_without(status)))
        return ended(done, Phase.SUCCEEDED, message, context.now)
    return _working(moved, Phase.RUNNING, report.message, 0.0)


def _afterwards(run: Remediation, context: DecisionContext) -> tuple[str, ...]:
    plan = run.status.plan_left
    if plan is None:
        return ()
    told = (ACTIONS[s.action].afterwards(StepContext(run, plan, context, s.name)) for s in plan.steps)
    return tuple(filter(None, told))


def _without(status: RemediationStatus) -> tuple[str, ...]:
    """What the run has left out."""
    gone = status.deleted_topics
    return (f"left out, because deleted since the approval: topic {some(gone, 20)}",) if gone else ()


def _wind_up(run: Remediation, context: DecisionContext, plan: Plan, journal: Mapping[str, JournalEntry]) -> Decision:
    """Cancel what is ours and in flight, restore what we set, then end."""
    status = run.status
    ending = journal[GIVE_UP]
    same = same_cluster(plan, context.snapshot)
    if len(journal) > 1 and same.verdict is not Verdict.ALLOW:
        return waiting(status, Phase.BLOCKED, f"clean-up pending: {same.message}", (same,))
    left = []
    for step, report in _undone(run, plan, context):
        status = _observed(status, report.observed, context.now)
        if report.state is StepState.REACHED:
            left += [report.message] if report.message else []
            continue
        if report.state is StepState.ACT:
            restoring = restoring_reasons(run, context, giving_up=True)
            refusals = tuple(r for r in restoring if r.verdict is not Verdict.ALLOW)
            if not refusals:
                return _act(status, Phase.BLOCKED, step, report, context)
            return waiting(status, Phase.BLOCKED, "; ".join(r.message for r in refusals), refusals)
        reason = Reason(Guard.SOURCES_FRESH, Verdict.UNKNOWN, report.message)
        return waiting(status, Phase.BLOCKED, report.message, (reason,))
    if len(journal) > 1 and (not_known := unsure(plan, context.snapshot)):
        reason = Reason(Guard.PRECONDITIONS_HOLD, Verdict.UNKNOWN, not_known)
        return waiting(status, Phase.BLOCKED, f"clean-up pending: {not_known}", (reason,))
    steps = tuple(
        s
        if s.phase is StepPhase.SUCCEEDED
        else s.model_copy(update={"phase": StepPhase.FAILED, "finished_at": context.now})
        for s in status.steps
    )
    status = status.model_copy(
        update={"steps": steps, "current_step": None, "journal": _done(status.journal, {GIVE_UP}, context.now)}
    )
    message = "; ".join((ending.detail, *left, *_without(status)))
    return ended(status, Phase(ending.target), message[:8192], context.now)


def _undone(run: Remediation, plan: Plan, context: DecisionContext) -> Iterator[tuple[str, StepReport]]:
    """By step, the last one first: how far each part of the clean-up has come; a part is asked about once those before
    it are REACHED."""
    for step in reversed(run.status.steps):
        if step.phase is not StepPhase.PENDING:
            at = StepContext(run, plan, context, step.name)
            yield from ((step.name, report) for report in ACTIONS[step.action].undo(at))


def _give_up(status: RemediationStatus, phase: Phase, why: str, now: datetime) -> Decision:
    """Write down that the run ends, and how; the next reconciles clean up. Nothing is sent in this one."""
    step = next((s.name for s in status.steps if s.phase is not StepPhase.SUCCEEDED), status.steps[-1].name)
    entry = JournalEntry(
        id=GIVE_UP,
        step=step,
        kind="GiveUp",
        target=phase.value,
        state=IntentState.INTENDED,
        intended_at=now,
        detail=why[:8192],
    )
    update = {"journal": (*status.journal, entry), "message": f"ending: {why}"[:8192], "phase": Phase.BLOCKED}
    return Decision(status.model_copy(update=update), requeue=0.0)


def _lost(run: Remediation, context: DecisionContext) -> str | None:
    if run.spec.cluster_ref.uid != context.cluster.uid:
        return "its KafkaCluster was replaced (other uid)"
    if context.playbook is None or context.playbook.digest() != run.spec.playbook.digest:
        return f"playbook {run.spec.playbook.name} was changed or removed during the run"
    return None


def _act(status: RemediationStatus, phase: Phase, step: str, report: StepReport, context: DecisionContext) -> Decision:
    """Journal first. An effect that is asked for again keeps its entry, and above all what it saved."""
    intent, now = report.intent, context.now
    assert intent is not None  # a report in state ACT carries one
    known = {entry.id for entry in status.journal}
    journal = tuple(renewed(e, now) if e.id == intent.id else e for e in status.journal)
    if intent.id not in known:
        entry = JournalEntry(
            id=intent.id,
            step=step,
            kind=type(intent).__name__,
            target=report.target[:1024],
            target_uid=intent.object_uid,
            state=IntentState.INTENDED,
            intended_at=now,
            saved=saved_from(report.saved),
            detail=intent.describe(),
        )
        journal = (*journal, entry)
    update = {"journal": journal, "message": report.message[:8192], "waiting_for": (), "phase": phase}
    return Decision(_settled_up(status.model_copy(update=update), context), intent, report.restores, SOON)


def _pause(status: RemediationStatus, report: StepReport, now: datetime) -> float:
    """Seconds until the next reconcile of a step that waits for its effect, or verifies it."""
    awaited = [entry.last_asked for entry in status.journal if entry.state is not IntentState.DONE]
    if report.streak or report.observed or not awaited:
        return SOONEST
    return min(max(SOONEST, (now - max(awaited)).total_seconds() * SHARE), LATEST)


def _working(status: RemediationStatus, phase: Phase, message: str, requeue: float | None = None) -> Decision:
    update = {"phase": phase, "message": message[:8192], "waiting_for": waiting_for(())}
    return Decision(status.model_copy(update=update), requeue=requeue)


def _record(
    status: RemediationStatus, current: StepStatus, report: StepReport, context: DecisionContext
) -> RemediationStatus:
    """Progress, journal entries whose effect is now visible, and the step's first start."""
    now = context.now
    step: dict[str, object] = {"message": report.message[:1024], "progress": report.progress}
    if current.started_at is None:
        step["started_at"] = now
    if report.state is not StepState.REACHED:
        step["phase"] = StepPhase.RUNNING
    seen = _observed(status, report.observed, now)
    seen = seen.model_copy(update={"journal": _settled(seen.journal, set(report.void), IntentState.VOID, now)})
    moved = _with_step(seen, current.name, step)
    moved = moved.model_copy(update={"current_step": current.name})
    return _settled_up(moved, context)


def _settled_up(status: RemediationStatus, context: DecisionContext) -> RemediationStatus:
    """With what is owed and held by its steps and journal as they are now."""
    status = status.model_copy(update={"restore_owed": _restore_owed(status)})
    return status.model_copy(update={"holds": holding(status, context.snapshot, context.now, binds=_binds(status))})


def _observed(status: RemediationStatus, ids: tuple[str, ...], now: datetime) -> RemediationStatus:
    return status.model_copy(update={"journal": _done(status.journal, set(ids), now)})


def _done(journal: tuple[JournalEntry, ...], ids: set[str], now: datetime) -> tuple[JournalEntry, ...]:
    return _settled(journal, ids, IntentState.DONE, now)


def _settled(
    journal: tuple[JournalEntry, ...], ids: set[str], state: IntentState, now: datetime
) -> tuple[JournalEntry, ...]:
    """With these entries as they were seen. A restart that had missed its purpose may be seen to have it after all."""
    return tuple(
        e.model_copy(update={"state": state, "done_at": now}) if e.id in ids and e.state is not IntentState.DONE else e
        for e in journal
    )


def _restore_owed(status: RemediationStatus) -> bool:
    """Whether something may be set that is only for a time."""
    return any(ACTIONS[step.action].owes(step, status.journal) for step in status.steps)


def _binds(status: RemediationStatus) -> bool:
    """Whether others wait until that is taken back."""
    return any(ACTIONS[step.action].binds(step, status.journal) for step in status.steps)


def _with_step(status: RemediationStatus, name: str, update: Mapping[str, object]) -> RemediationStatus:
    steps = tuple(s.model_copy(update=dict(update)) if s.name == name else s for s in status.steps)
    return status.model_copy(update={"steps": steps})
