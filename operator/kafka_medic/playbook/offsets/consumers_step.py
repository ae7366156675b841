"""StopConsumers and StartConsumers: what consumes is scaled to 0 before its offsets are set, and back afterwards.

It is ours to start again from the moment at which the intent to stop it was written down, and until it was seen to be
started, or somebody else has scaled or replaced it. However the run ends, that is done first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from kafka_medic.cluster.elements import group_unread
from kafka_medic.cluster.groups import EMPTY
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.cluster.workloads import Workload
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.effects import ScaleWorkload
from kafka_medic.playbook.extra_reads import ExtraReads
from kafka_medic.playbook.offsets.offset_step import states
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import OffsetChanges, Plan, StoppedConsumers, StoppedWorkload
from kafka_medic.resources.remediation_status import IntentState, JournalEntry
from kafka_medic.resources.vocabulary import Guard

STOP, START, START_AGAIN = "stop", "start", "start-again"
"""How the ids of the journal's entries end. The last one: of a run that is given up."""
ON_ITS_WAY = 30.0
"""Seconds in which a request that was sent may still arrive: longer than it is waited for."""


def name_of(workload: StoppedWorkload) -> str:
    return f"{workload.kind.value} {workload.name}"


def owed(journal: Iterable[JournalEntry]) -> bool:
    """Whether consumers may be stopped by us."""
    ours = [e for e in journal if e.kind == ScaleWorkload.__name__]
    return bool(ours) and not any(_starts(e) and e.state is IntentState.DONE for e in ours)


def _starts(entry: JournalEntry) -> bool:
    return entry.id.endswith((f"/{START}", f"/{START_AGAIN}"))


def as_planned(plan: Plan, answers: ExtraReads) -> Reason:
    """Before anything is done: whether it is still what the plan saw."""
    guard, planned, now = Guard.PRECONDITIONS_HOLD, plan.part(StoppedConsumers).workload, answers.workload
    if planned is None:
        return Reason(guard, Verdict.DENY, "the plan names no workload to stop")
    if not isinstance(now, Workload):
        return Reason(guard, Verdict.UNKNOWN, f"{name_of(planned)} could not be read: {now or 'it was not read'}")
    drift = _drift(planned, now)
    return Reason(guard, Verdict.DENY if drift else Verdict.ALLOW, drift or f"{name_of(planned)} is as planned")


def void(plan: Plan, answers: ExtraReads) -> str | None:
    """What of the workload is not as the plan saw it; None as well where that is not known."""
    workload = plan.part(StoppedConsumers).workload
    if workload is None or not isinstance(answers.workload, Workload):
        return None
    return _drift(workload, answers.workload)


def _drift(planned: StoppedWorkload, now: Workload) -> str | None:
    if now.uid != planned.uid:
        return f"{name_of(planned)} was {'deleted' if now.uid is None else 'replaced'} since the plan"
    if now.replicas != planned.replicas:
        return f"{name_of(planned)} has {many(now.replicas, 'replica')} (planned: {planned.replicas})"
    return None


def assess_stop(
    step: str, plan: Plan, journal: Mapping[str, JournalEntry], answers: ExtraReads, snapshot: Snapshot
) -> StepReport:
    """Reached once none of its Pods runs and every group of the plan is Empty."""
    planned, now, id_ = plan.part(StoppedConsumers).workload, answers.workload, f"{step}/{STOP}"
    if planned is None or not isinstance(now, Workload):
        return StepReport(StepState.UNKNOWN, as_planned(plan, answers).message)
    ours = journal.get(id_)
    if now.uid == planned.uid and now.replicas == 0 and ours is not None:
        if now.running:
            return StepReport(
                StepState.WAIT, f"{many(now.running, 'Pod')} of {name_of(planned)} still stopping", observed=(id_,)
            )
        return _left(plan, planned, snapshot, id_)
    if drift := _drift(planned, now):
        return StepReport(StepState.DRIFTED, drift)
    if ours is not None and ours.state is IntentState.DONE:
        return StepReport(StepState.DRIFTED, f"another client has started {name_of(planned)} again")
    return StepReport(
        StepState.ACT,
        f"stopping {name_of(planned)}",
        intent=ScaleWorkload(id_, planned.kind, planned.name, planned.uid, planned.replicas, 0),
        target=name_of(planned),
    )


def _left(plan: Plan, planned: StoppedWorkload, snapshot: Snapshot, id_: str) -> StepReport:
    if snapshot.groups is None:
        return StepReport(StepState.UNKNOWN, "the consumer groups could not be read", observed=(id_,))
    groups = sorted({c.group for c in plan.part(OffsetChanges).offsets})
    if untold := [f"{group}: {why}" for group in groups if (why := group_unread(snapshot, group))]:
        message = f"whether these groups have members could not be read: {some(untold, 3)}"
        return StepReport(StepState.UNKNOWN, message, observed=(id_,))
    standing = states(snapshot, groups)
    alive = sorted(group for group, state in standing.items() if state != EMPTY)
    if alive:
        message = f"no Pod of {name_of(planned)} runs; {some(alive)} has a member until its session times out"
        return StepReport(StepState.WAIT, message, observed=(id_,))
    return StepReport(StepState.REACHED, f"{name_of(planned)} is stopped", observed=(id_,))


def assess_start(step: str, plan: Plan, journal: Mapping[str, JournalEntry], answers: ExtraReads) -> StepReport:
    """Reached once its Pods are there again; that they become Ready is its owner's business."""
    return _start(f"{step}/{START}", plan, journal, answers)


def undo(step: str, plan: Plan, journal: Mapping[str, JournalEntry], answers: ExtraReads, now: datetime) -> StepReport:
    """The clean end of a run that is given up."""
    sent = journal.get(f"{step}/{STOP}")
    if sent is None or not owed(journal.values()):
        return StepReport(StepState.REACHED, "")
    report = _start(f"{step}/{START_AGAIN}", plan, journal, answers)
    on_its_way = sent.state is IntentState.INTENDED and (now - sent.last_asked).total_seconds() < ON_ITS_WAY
    if report.state is StepState.REACHED and on_its_way and f"{step}/{START_AGAIN}" not in journal:
        return StepReport(StepState.WAIT, "the scale-down may still arrive", restores=True)
    return report


def _start(id_: str, plan: Plan, journal: Mapping[str, JournalEntry], answers: ExtraReads) -> StepReport:
    planned, now = plan.part(StoppedConsumers).workload, answers.workload
    if planned is None or not isinstance(now, Workload):
        return StepReport(
            StepState.UNKNOWN, f"not yet started again: {as_planned(plan, answers).message}", restores=True
        )
    seen = (id_,) if id_ in journal else ()
    if now.uid != planned.uid or now.replicas not in (0, planned.replicas):
        return StepReport(
            StepState.REACHED, f"left as another client changed it: {_drift(planned, now)}", observed=seen
        )
    if now.replicas == 0:
        started = journal.get(id_)
        if started is not None and started.state is IntentState.DONE:
            return StepReport(StepState.REACHED, f"another client has stopped {name_of(planned)} again")
        return StepReport(
            StepState.ACT,
            f"starting {name_of(planned)} again",
            intent=ScaleWorkload(id_, planned.kind, planned.name, planned.uid, 0, planned.replicas),
            target=name_of(planned),
            restores=True,
        )
    if now.running < planned.replicas:
        message = f"{now.running} of {many(planned.replicas, 'Pod')} of {name_of(planned)} running"
        return StepReport(StepState.WAIT, message, observed=seen, restores=True)
    return StepReport(
        StepState.REACHED, f"{name_of(planned)} runs {many(planned.replicas, 'replica')} again", observed=seen
    )
