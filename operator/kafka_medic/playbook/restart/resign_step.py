"""A stuck controller of a ZooKeeper cluster gives way: its registration goes, and another broker takes over.

A restart could not bring that about. Who is controller is whoever's session holds `/controller`, and the session of a
process that ZooKeeper does not hear lasts for its whole timeout, whether the process is restarted or not; until then it
could not even register again. Kafka itself replaces a controller by deleting that node while `/controller_epoch` is as
it was, and fences the one before by the next epoch. No broker goes away for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from kafka_medic.cluster.snapshot import Mode, Snapshot
from kafka_medic.guard.context import RestartContext, RestartQuestion
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.freshness import sources_fresh
from kafka_medic.guard.quorum import quorum_keeps_majority
from kafka_medic.guard.stuck import waiting
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.effects import ResignController
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.playbook.restart.parameters import CONTROLLER, RestartParameters
from kafka_medic.report.units import many
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan, Resignation, Resignations
from kafka_medic.resources.remediation_status import JournalEntry
from kafka_medic.resources.vocabulary import FindingType, Guard

NEEDED = ("kafka", "views", "zookeeper", "ensemble")


def resigns(run: Remediation, settings: RestartParameters, snapshot: Snapshot) -> bool:
    """Whether the run is about a controller that gives way instead of being restarted: found stuck, on ZooKeeper."""
    stuck = run.spec.cause is not None and run.spec.cause.finding_type == FindingType.CONTROLLER_STUCK
    return stuck and settings.brokers == CONTROLLER and snapshot.cluster.mode is Mode.ZOOKEEPER


def resignation_plan(request: PlanRequest) -> Plan | Refusal:
    """The whole plan, its digest included, or why not."""
    snapshot = request.snapshot
    controller = snapshot.controller
    if controller is None or controller.id is None or controller.epoch is None:
        return unread(snapshot)
    rows = waiting(snapshot)
    if not rows:
        return Refusal("no partition waits for a new leader, so the controller is not stuck", nothing_to_do=True)
    broker, epoch = controller.id, controller.epoch
    lines = [
        f"broker {broker} resigns as controller (epoch {epoch}): the operator deletes its registration in ZooKeeper "
        "(/controller), and another broker takes over; no broker restarts",
        f"{many(len(rows), 'partition waits', 'partitions wait')} for a new leader: {some([r.tp for r in rows], 5)}",
        "a restart would not help: the old session keeps the registration until its timeout, "
        "zookeeper.session.timeout.ms, and a restarted broker could not register before that",
        f"broker {broker} stays a broker, and the next controller updates it; if it does not serve, that is a "
        "separate finding",
    ]
    plan = request.draft(
        Resignations(resignations=(Resignation(broker=broker, epoch=epoch),)),
        words={s.action: lines[0] for s in request.playbook.spec.steps},
        summary="\n".join(lines),
        partitions=len(rows),
        moves=0,
    )
    return request.sealed(plan)


def reasons(plan: Plan, snapshot: Snapshot, now: datetime) -> tuple[Reason, ...]:
    """What every guard says: somebody else is there to take over, the ensemble elects, and it is still needed."""
    (planned,) = plan.part(Resignations).resignations
    fresh = sources_fresh(snapshot, now, NEEDED)
    majority = quorum_keeps_majority(snapshot, RestartQuestion(planned.broker, RestartContext(), None))
    holds, taker = Guard.PRECONDITIONS_HOLD, Guard.NO_OTHER_BROKER_DISTURBED
    others = [b.id for b in snapshot.brokers or () if b.live and b.id != planned.broker]
    if snapshot.partitions is None or snapshot.brokers is None:
        needed = Reason(holds, Verdict.UNKNOWN, "whether partitions wait for a new leader is not known")
    elif rows := waiting(snapshot):
        needed = Reason(
            holds, Verdict.ALLOW, f"{many(len(rows), 'partition waits', 'partitions wait')} for a new leader"
        )
    else:
        needed = Reason(holds, Verdict.DENY, "no partition waits for a new leader now")
    if others:
        found = Reason(taker, Verdict.ALLOW, f"broker {some(others)} could take over")
    else:
        found = Reason(taker, Verdict.WAIT, "no other broker is registered and answers, so none can take over")
    return (*fresh, *majority, needed, found)


def assess(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """Where the step stands: done once another controller, or a later epoch, is there and nobody waits any more."""
    (planned,) = plan.part(Resignations).resignations
    id_, controller = f"{step}/resign-{planned.broker}", snapshot.controller
    source = snapshot.source("zookeeper")
    if source is None or not source.known or controller is None or snapshot.partitions is None:
        return StepReport(StepState.UNKNOWN, "the controller could not be read")
    if controller.id is None or controller.epoch is None:
        return StepReport(StepState.WAIT, "the cluster has no controller now", streak=0)
    if (controller.id, controller.epoch) == (planned.broker, planned.epoch):
        return StepReport(
            StepState.ACT,
            f"broker {planned.broker} resigns as controller",
            intent=ResignController(id_, planned.broker, planned.epoch),
            target=f"broker {planned.broker}",
        )
    seen = (id_,) if id_ in journal else ()
    text = f"broker {controller.id} is the controller now (epoch {controller.epoch})"
    if rows := waiting(snapshot):
        message = f"{text}; {many(len(rows), 'partition')} still without a leader: {some([r.tp for r in rows], 3)}"
        return StepReport(StepState.WAIT, message, observed=seen, streak=0)
    return StepReport(StepState.REACHED, text, observed=seen)
