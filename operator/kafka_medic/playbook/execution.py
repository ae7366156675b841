"""A run that has begun: its steps one after the other, and its clean end when it is given up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import assert_never

from kafka_medic.guard import precedence
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.deadline import held_by_people, lateness, note_hold
from kafka_medic.playbook.decision import (
    SOON,
    Decision,
    World,
    being_deleted,
    disowned,
    ended,
    refuse,
    waiting,
    waiting_for,
)
from kafka_medic.playbook.drift import drifted_long_enough
from kafka_medic.playbook.effects import Intent, RestartPod, ScaleWorkload
from kafka_medic.playbook.guards import forward_reasons, restoring_reasons, same_cluster
from kafka_medic.playbook.holding import GIVE_UP, holding, renewed
from kafka_medic.playbook.leadership import election_step, reorder_step
from kafka_medic.playbook.offsets import consumers_step, offset_step
from kafka_medic.playbook.parameters import elect_parameters, restart_parameters
from kafka_medic.playbook.plan_file import is_missing, unread_file
from kafka_medic.playbook.provenance import forged
from kafka_medic.playbook.reassign import reassign_step
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.playbook.restart import drain_first, rescue_step, resign_step, restart_step, strimzi_restart
from kafka_medic.playbook.restart.restart_step import Watch
from kafka_medic.playbook.settings import defaults_step, min_isr_step, throttle_step
from kafka_medic.resources.kafkacluster import RestartMethod
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
from kafka_medic.resources.vocabulary import Action, Guard, OnFailure, VerifyProbe

WATCHING = 0.05
"""Seconds, at least, between looks at a broker that is between its restart and its recovery."""
UNDO = {
    Action.REASSIGN_PARTITIONS: (reassign_step.undo,),
    Action.RESTART_BROKERS: (strimzi_restart.undo, drain_first.undo),
}
"""By action: how its steps end that are given up, one after the other. Besides, stopped consumers are started. No other
one leaves anything that is only for a time."""


def advance(run: Remediation, world: World) -> Decision:
    """One turn of a run in Running, Verifying, Blocked or Paused."""
    held = holding(run.status, world.snapshot, world.now)
    run = run.model_copy(update={"status": run.status.model_copy(update={"holds": held})})
    plan, status, why_not = run.status.plan, run.status, forged(run)
    if plan is None or why_not is not None:
        return disowned(status, why_not or "", world.now)
    if is_missing(plan):
        ahead = _gives_way(run, world)
        return refuse(status, Phase.BLOCKED, (unread_file(plan), *((ahead,) if ahead else ())))
    journal = {entry.id: entry for entry in status.journal}
    if GIVE_UP in journal:
        return _wind_up(run, world, plan, journal)
    going = being_deleted(run, world)
    if going:
        return _give_up(status, Phase.ABORTED, going, world.now)
    lost = _lost(run, world)
    if lost:
        return _give_up(status, Phase.SUPERSEDED, lost, world.now)
    judged = world.judged(run, started=True)
    status = status.model_copy(update={"approvals": judged.records})
    if judged.rejected_by:
        return _give_up(status, Phase.ABORTED, f"stopped by {judged.rejected_by}", world.now)
    assert world.playbook is not None  # _lost saw to it
    current = next((s for s in status.steps if s.phase is not StepPhase.SUCCEEDED), None)
    if current is None:
        return ended(
            status,
            Phase.SUCCEEDED,
            f"{plan.summary.splitlines()[0] if plan.summary else 'done'}: done and verified",
            world.now,
        )
    ahead = _gives_way(run, world)
    if ahead is not None:
        status = note_hold(status, current.name, True, world.now)
        status = status.model_copy(update={"consecutive_verified": None, "well_since": None})
        return waiting(status, Phase.BLOCKED, ahead.message, (ahead,))
    step = next(s for s in world.playbook.spec.steps if s.name == current.name)
    same = same_cluster(plan, world.snapshot)
    if same.verdict is Verdict.ALLOW:
        report = _assess(step, run.model_copy(update={"status": status}), plan, journal, world)
    else:  # Nothing that another cluster shows says how this run stands.
        report = StepReport(StepState.UNKNOWN, same.message, progress=current.progress)
    status = _record(status, current, report, world)
    reasons = _reasons(run.model_copy(update={"status": status}), world, report)
    if report.otherwise is not None and any(r.verdict is not Verdict.ALLOW for r in reasons):
        report, reasons = report.otherwise, ()
        status = _record(status, current, report, world)
    status, drift = drifted_long_enough(status, _drift(report, reasons), world.now)
    if drift:
        return _give_up(status, Phase.SUPERSEDED, f"the cluster is not as planned: {drift}", world.now)
    return _step(run.model_copy(update={"status": status}), world, step, report, reasons)


def _gives_way(run: Remediation, world: World) -> Reason | None:
    """The run that goes first, where this one holds nothing. It is left as it stands, down to its step's clock, until
    that one has ended; then its own drift decides whether its plan still holds."""
    if run.status.holds != "" or world.others is None:
        return None
    first = precedence.goes_first(OtherRun.of(run), world.others)
    return None if first.verdict is Verdict.ALLOW else first


def _drift(report: StepReport, reasons: tuple[Reason, ...]) -> str | None:
    """What is not as planned: as the step sees it, or a guard that no waiting will satisfy."""
    if report.state is StepState.DRIFTED:
        return report.message
    broken = (r for r in reasons if r.guard == Guard.PRECONDITIONS_HOLD.value and r.verdict is Verdict.DENY)
    return next((r.message for r in broken), None)


def _reasons(run: Remediation, world: World, report: StepReport) -> tuple[Reason, ...]:
    """What every guard says to the effect that is due; nothing when none is."""
    if report.state is not StepState.ACT:
        return ()
    if report.restores:
        return restoring_reasons(run, world, giving_up=False)
    return forward_reasons(run, world, report.intent)


def _assess(step: Step, run: Remediation, plan: Plan, journal: Mapping[str, JournalEntry], world: World) -> StepReport:
    match step.action:
        case Action.REASSIGN_PARTITIONS:
            return reassign_step.assess(step.name, plan, journal, world.snapshot, world.now)
        case Action.SET_MIN_INSYNC_REPLICAS | Action.SET_CLUSTER_DEFAULTS:
            of_topics = step.action is Action.SET_MIN_INSYNC_REPLICAS
            sets = min_isr_step.assess if of_topics else defaults_step.assess
            return sets(step.name, plan, journal, world.snapshot)
        case Action.RESCUE_RECORDS:
            return rescue_step.assess(step.name, plan, journal, world.snapshot)
        case Action.REORDER_REPLICAS:
            return reorder_step.assess(step.name, plan, journal, world.snapshot)
        case Action.REMOVE_THROTTLES:
            return throttle_step.assess(step.name, plan, journal, world.snapshot)
        case Action.RESET_OFFSETS | Action.RESTORE_OFFSETS:
            return offset_step.assess(step.name, plan, journal, world.snapshot)
        case Action.STOP_CONSUMERS:
            return consumers_step.assess_stop(step.name, plan, journal, world.answers, world.snapshot)
        case Action.START_CONSUMERS:
            return consumers_step.assess_start(step.name, plan, journal, world.answers)
        case Action.ELECT_PREFERRED_LEADERS:
            assert world.playbook is not None  # _lost saw to it
            elected = elect_parameters(world.playbook, step, run.spec.parameters)
            return election_step.assess(step.name, plan, journal, world.snapshot, elected, world.now)
        case Action.RESTART_BROKERS:
            assert world.playbook is not None  # _lost saw to it
            if plan.resignations:
                return resign_step.assess(step.name, plan, journal, world.snapshot)
            settings = restart_parameters(world.playbook, step, run.spec.parameters)
            seen, since = run.status.consecutive_verified or 0, run.status.well_since
            required = world.cluster.spec.remediation.approvals.needed(run.spec.requested_by)
            said = run.status.approvals
            method = world.cluster.spec.brokers.restart if world.cluster.spec.brokers else RestartMethod.DELETE_POD
            strimzi = method is RestartMethod.STRIMZI_ANNOTATION
            watch = Watch(seen, step.verify.consecutive, world.now, since, said, required, world.skew, strimzi)
            return restart_step.assess(step.name, plan, journal, world.snapshot, settings, watch)
        case _:
            assert_never(step.action)


def _step(run: Remediation, world: World, step: Step, report: StepReport, reasons: tuple[Reason, ...]) -> Decision:
    status = note_hold(run.status, step.name, held_by_people(reasons), world.now)
    if report.state is StepState.REACHED:
        return _verify(status, world, step, report)
    required = world.cluster.spec.remediation.approvals.needed(run.spec.requested_by)
    status, late = lateness(status, step, required, world.now, world.skew)
    if late and step.on_failure is OnFailure.ABORT:
        return _give_up(status, Phase.FAILED, late, world.now)
    well_since = (status.well_since or world.now) if report.streak else None
    status = status.model_copy(update={"consecutive_verified": report.streak or None, "well_since": well_since})
    late = late or report.stuck
    match report.state:
        case StepState.UNKNOWN | StepState.DRIFTED:
            same = same_cluster(status.plan, world.snapshot)
            verdict = Verdict.DENY if same.verdict is Verdict.DENY else Verdict.UNKNOWN
            reason = Reason(Guard.PRECONDITIONS_HOLD.value, verdict, report.message)
            return waiting(status, Phase.PAUSED if late else Phase.BLOCKED, late or report.message, (reason,))
        case StepState.WAIT:
            # A broker that is away is looked at often: every moment that it is back unseen, the cluster waits.
            requeue = None if report.streak is None else WATCHING
            return _working(status, Phase.PAUSED if late else Phase.RUNNING, late or report.message, requeue)
    if late and not report.restores:
        return _working(status, Phase.PAUSED, late)
    refusals = tuple(r for r in reasons if r.verdict is not Verdict.ALLOW)
    if refusals:
        return waiting(status, Phase.BLOCKED, "; ".join(r.message for r in refusals[:3]), refusals)
    return _act(status, Phase.RUNNING, step.name, report, world)


def _verify(status: RemediationStatus, world: World, step: Step, report: StepReport) -> Decision:
    """The goal is observed; it has to be so several times in a row before the next step."""
    if step.verify.probe is VerifyProbe.FINDING_GONE and any(
        f.startswith("ReplicationFactorLow/") for f in world.finding_ids
    ):
        return _working(status, Phase.VERIFYING, "the finding has not gone yet")
    count = max(status.consecutive_verified or 0, report.streak or 0) + 1
    # The table of phases has one way to Succeeded: a run is seen Verifying at least once.
    if count < step.verify.consecutive or status.phase is not Phase.VERIFYING:
        needed = step.verify.consecutive
        message = f"{report.message}; seen {min(count, needed)} of {needed} times in a row"
        moved = _with_step(status, step.name, {"phase": StepPhase.VERIFYING, "message": message[:1024]})
        moved = moved.model_copy(update={"consecutive_verified": count})
        # Counted already where the step itself did; else what is to last is looked at a moment later.
        return _working(moved, Phase.VERIFYING, message, SOON if count < needed else 0.0)
    finished = {"phase": StepPhase.SUCCEEDED, "message": report.message[:1024], "finished_at": world.now}
    moved = _with_step(status, step.name, finished).model_copy(
        update={"consecutive_verified": None, "well_since": None}
    )
    last = all(s.phase is StepPhase.SUCCEEDED for s in moved.steps)
    if last:
        done = moved.model_copy(update={"restore_owed": False, "current_step": None})
        summary = done.plan.summary.splitlines()[0] if done.plan and done.plan.summary else "the plan"
        return ended(done, Phase.SUCCEEDED, f"done and verified: {summary}", world.now)
    return _working(moved, Phase.RUNNING, report.message, 0.0)


def _wind_up(run: Remediation, world: World, plan: Plan, journal: Mapping[str, JournalEntry]) -> Decision:
    """Cancel what is ours and in flight, restore what we set, then end."""
    status = run.status
    ending = journal[GIVE_UP]
    same = same_cluster(plan, world.snapshot)
    if len(journal) > 1 and same.verdict is not Verdict.ALLOW:
        return waiting(status, Phase.BLOCKED, f"still to be cleaned up: {same.message}", (same,))
    left = []
    for step, report in _undone(status, plan, journal, world):
        status = _observed(status, report.observed, world.now)
        if report.state is StepState.REACHED:
            left += [report.message] if report.message and step.action is not Action.REASSIGN_PARTITIONS else []
            continue
        if report.state is StepState.ACT:
            restoring = restoring_reasons(run, world, giving_up=True)
            refusals = tuple(r for r in restoring if r.verdict is not Verdict.ALLOW)
            if not refusals:
                return _act(status, Phase.BLOCKED, step.name, report, world)
            return waiting(status, Phase.BLOCKED, "; ".join(r.message for r in refusals), refusals)
        reason = Reason(Guard.SOURCES_FRESH.value, Verdict.UNKNOWN, report.message)
        return waiting(status, Phase.BLOCKED, report.message, (reason,))
    steps = tuple(
        s
        if s.phase is StepPhase.SUCCEEDED
        else s.model_copy(update={"phase": StepPhase.FAILED, "finished_at": world.now})
        for s in status.steps
    )
    status = status.model_copy(
        update={"steps": steps, "current_step": None, "journal": _done(status.journal, {GIVE_UP}, world.now)}
    )
    return ended(status, Phase(ending.target), "; ".join((ending.detail, *left))[:8192], world.now)


def _undone(
    status: RemediationStatus, plan: Plan, journal: Mapping[str, JournalEntry], world: World
) -> Iterator[tuple[StepStatus, StepReport]]:
    """How far each part of the clean-up has come; a part is asked about once those before it are REACHED."""
    for step in status.steps:
        if step.phase is StepPhase.PENDING:
            continue
        if step.action is Action.STOP_CONSUMERS:
            yield step, consumers_step.undo(step.name, plan, journal, world.answers, world.now)
        for undo in UNDO.get(step.action, ()):
            yield step, undo(step.name, plan, journal, world.snapshot)


def _give_up(status: RemediationStatus, phase: Phase, why: str, now: datetime) -> Decision:
    """Write down that the run ends, and how; the next turns clean up. Nothing is sent in this turn."""
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


def _lost(run: Remediation, world: World) -> str | None:
    if run.spec.cluster_ref.uid != world.cluster.uid:
        return "the KafkaCluster it names is another one now (uid)"
    if world.playbook is None or world.playbook.digest() != run.spec.playbook.digest:
        return f"the playbook {run.spec.playbook.name} was changed or removed while the run was under way"
    return None


def _act(status: RemediationStatus, phase: Phase, step: str, report: StepReport, world: World) -> Decision:
    """Journal first. An effect that is asked for again keeps its entry, and above all what it saved."""
    intent, now = report.intent, world.now
    assert intent is not None  # a report in state ACT carries one
    known = {entry.id for entry in status.journal}
    journal = tuple(renewed(e, now) if e.id == intent.id else e for e in status.journal)
    if intent.id not in known:
        entry = JournalEntry(
            id=intent.id,
            step=step,
            kind=type(intent).__name__,
            target=report.target[:1024],
            target_uid=_uid(intent),
            state=IntentState.INTENDED,
            intended_at=now,
            saved=saved_from(report.saved),
            detail=intent.describe(),
        )
        journal = (*journal, entry)
    update = {"journal": journal, "message": report.message[:8192], "waiting_for": (), "phase": phase}
    return Decision(_settled_up(status.model_copy(update=update), world), intent, report.restores, SOON)


def _uid(intent: Intent) -> str | None:
    """Of the object of Kubernetes that it is about."""
    match intent:
        case RestartPod():
            return intent.pod_uid
        case ScaleWorkload():
            return intent.uid
    return None


def _working(status: RemediationStatus, phase: Phase, message: str, requeue: float | None = None) -> Decision:
    update = {"phase": phase, "message": message[:8192], "waiting_for": waiting_for(())}
    return Decision(status.model_copy(update=update), requeue=requeue)


def _record(status: RemediationStatus, current: StepStatus, report: StepReport, world: World) -> RemediationStatus:
    """Progress, journal entries whose effect is now visible, and the step's first start."""
    now = world.now
    step: dict[str, object] = {"message": report.message[:1024], "progress": report.progress}
    if current.started_at is None:
        step["started_at"] = now
    if report.state is not StepState.REACHED:
        step["phase"] = StepPhase.RUNNING
    seen = _observed(status, report.observed, now)
    seen = seen.model_copy(update={"journal": _settled(seen.journal, set(report.void), IntentState.VOID, now)})
    moved = _with_step(seen, current.name, step)
    moved = moved.model_copy(update={"current_step": current.name})
    return _settled_up(moved, world)


def _settled_up(status: RemediationStatus, world: World) -> RemediationStatus:
    """With what is owed and held by its steps and journal as they are now."""
    status = status.model_copy(update={"restore_owed": _restore_owed(status)})
    return status.model_copy(update={"holds": holding(status, world.snapshot, world.now)})


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
    """Whether a throttle may be set, or a reassignment in flight: from the first intent of a step that moves
    partitions until that step has succeeded. Until then its goal can be lost again, whatever was restored before. Or
    whether an order of replicas may be there that is only for the time of a restart, consumers stopped by us, or an
    annotation that asks Strimzi for a restart."""
    open_steps = {
        s.name
        for s in status.steps
        if s.action is Action.REASSIGN_PARTITIONS and s.phase not in (StepPhase.SUCCEEDED, StepPhase.SKIPPED)
    }
    moving = any(e.step in open_steps and e.id != GIVE_UP for e in status.journal)
    kept = drain_first.owed(status.journal) or strimzi_restart.owed(status.journal)
    return moving or kept or consumers_step.owed(status.journal)


def _with_step(status: RemediationStatus, name: str, update: Mapping[str, object]) -> RemediationStatus:
    steps = tuple(s.model_copy(update=dict(update)) if s.name == name else s for s in status.steps)
    return status.model_copy(update={"steps": steps})
