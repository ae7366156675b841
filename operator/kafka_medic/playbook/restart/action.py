"""RestartBrokers, and RescueRecords before it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.guard.elect import judge_elect
from kafka_medic.guard.freshness import sources_fresh
from kafka_medic.guard.reorder import judge_reorder
from kafka_medic.guard.restart import RESTART_GUARDS, judge_restart
from kafka_medic.guard.verdict import Reason
from kafka_medic.playbook.action import Action, PlanRequest, StepContext
from kafka_medic.playbook.auto import Cost
from kafka_medic.playbook.effects import ElectPreferred, Intent, Reorder, RestartPod
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.playbook.report import StepReport
from kafka_medic.playbook.restart import drain_first, rescue_step, resign_step, restart_step, strimzi_restart
from kafka_medic.playbook.restart.attempts import none_left, on_their_way, replaced_by_others
from kafka_medic.playbook.restart.order import next_broker
from kafka_medic.playbook.restart.parameters import CONTROLLER, restart_parameters
from kafka_medic.playbook.restart.restart_plan import restart_plan
from kafka_medic.resources.kafkacluster import Brokers, RestartMethod
from kafka_medic.resources.playbook import Step
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan, Rescues, Resignations, Restarts
from kafka_medic.resources.remediation_status import JournalEntry, StepStatus
from kafka_medic.resources.vocabulary import ActionName, Guard, VerifyProbe


class RestartBrokers(Action):
    name = ActionName.RESTART_BROKERS
    parameters = frozenset({"brokers", "brokerWithin", "maxParallel", "drainFirst"})
    demands = tuple(name for name, _ in RESTART_GUARDS)
    probe = VerifyProbe.BROKERS_RECOVERED

    def plan(self, request: PlanRequest) -> Plan | Refusal:
        return restart_plan(request)

    def idle(self, plan: Plan) -> bool:
        return not plan.part(Restarts).restarts and not plan.part(Resignations).resignations

    def drift(self, at: StepContext) -> str | None:
        other = replaced_by_others(at.plan.part(Restarts).restarts, at.journal, at.snapshot)
        return other or drain_first.other_orders(at.plan, at.snapshot)

    def overtaken(self, at: StepContext) -> str | None:
        return none_left(at.plan, at.step, at.journal, at.snapshot)

    def judge(self, at: StepContext, intent: Intent | None) -> Iterable[Reason]:
        if at.plan.part(Resignations).resignations:
            return resign_step.reasons(at.plan, at.snapshot, at.now)
        return _reasons(at, intent)

    def assess(self, at: StepContext) -> StepReport:
        if at.plan.part(Resignations).resignations:
            return resign_step.assess(at.step, at.plan, at.journal, at.snapshot)
        step, playbook, cluster = at.spec, at.context.playbook, at.context.cluster
        assert step is not None  # the engine saw to it
        assert playbook is not None
        status = at.run.status
        watch = restart_step.Watch(
            seen=status.consecutive_verified or 0,
            needed=step.verify.consecutive,
            now=at.now,
            since=status.well_since,
            approvals=status.approvals,
            required=cluster.spec.remediation.approvals.needed(at.run.spec.requested_by),
            skew=at.context.skew,
            strimzi=_asks_strimzi(cluster.spec.brokers),
            strimzi_apart=_asks_strimzi(cluster.spec.controllers),
        )
        settings = restart_parameters(playbook, step, at.run.spec.parameters)
        return restart_step.assess(at.step, at.plan, at.journal, at.snapshot, settings, watch)

    def owes(self, step: StepStatus, journal: Sequence[JournalEntry]) -> bool:  # noqa: ARG002
        """An order of replicas that is only for the time of a restart, or an annotation that asks Strimzi for one."""
        return drain_first.owed(journal) or strimzi_restart.owed(journal)

    def undo(self, at: StepContext) -> Iterator[StepReport]:
        for part in (strimzi_restart.undo, drain_first.undo):
            yield part(at.step, at.plan, at.journal, at.snapshot)

    def may_write(self, plan: Plan) -> Iterator[Hashable]:
        for r in plan.part(Restarts).restarts:
            yield "restart", r.broker, r.pod
            yield "annotation", r.pod
        yield from (("controller", r.broker, r.epoch) for r in plan.part(Resignations).resignations)
        for tp, orders in drain_first.orders(plan).items():
            for order in orders:
                yield "order", tp, tuple(order)
                yield "leader", tp, order[0]

    def restorable(self, plan: Plan) -> Iterator[str]:
        yield from (strimzi_restart.annotation(r.pod) for r in plan.part(Restarts).restarts)

    def cost(self, plan: Plan, snapshot: Snapshot | None) -> Cost:  # noqa: ARG002
        own = plan.part(Restarts)
        asks = ("only a person can confirm that the brokers' configuration was changed",)
        stale = any(restart.stale for restart in own.restarts)
        saves = any(step.action is ActionName.RESCUE_RECORDS for step in plan.steps)
        lost = ("a stale broker restarts, and no step saves the records that only it holds",)
        return Cost(
            partitions=frozenset(TopicPartition(d.topic, n) for d in own.drains for n in d.partitions),
            restarts=len(own.restarts),
            asks=(*(asks if own.static_settings else ()), *(lost if stale and not saves else ())),
        )

    def has_sent_away(self, run: Remediation) -> frozenset[int]:
        plan = run.status.plan
        return frozenset() if plan is None else on_their_way(plan, run.status.journal)

    def needs_its_cause(self, step: Step) -> bool:  # noqa: ARG002
        return True


def _asks_strimzi(pods: Brokers | None) -> bool:
    return pods is not None and pods.restart is RestartMethod.STRIMZI_ANNOTATION


def _reasons(at: StepContext, intent: Intent | None) -> Iterable[Reason]:
    """What leads elsewhere because of the restart is asked about as any order and election is. Nothing is moved off a
    broker that may not be restarted at this moment: it would wait without what it leads."""
    plan, snapshot = at.plan, at.snapshot
    if isinstance(intent, ElectPreferred):
        return judge_elect(snapshot, at.now, set(intent.preferred)).reasons
    reordered: tuple[Reason, ...] = ()
    if isinstance(intent, Reorder):
        reordered = judge_reorder(snapshot, drain_first.guarded(plan, intent), at.now).reasons
        away = drain_first.away_from(at.step, intent.id)
        if away is None:
            return reordered
        broker = away
    elif isinstance(intent, RestartPod):
        broker = intent.broker
    else:
        restarts = plan.part(Restarts).restarts
        stale = {r.broker for r in restarts if r.stale}
        next_ = next_broker(snapshot, [r.broker for r in restarts], stale)
        broker = restarts[0].broker if next_ is None else next_
    restart_context = restart_step.context(
        at.step, plan, at.journal, broker, at.now, replaces_controller=_replaces_controller(at)
    )
    return (*reordered, *judge_restart(snapshot, broker, at.now, context=restart_context).reasons)


def _replaces_controller(at: StepContext) -> bool:
    step, playbook = at.spec, at.context.playbook
    if playbook is None or step is None:
        return False
    return restart_parameters(playbook, step, at.run.spec.parameters).brokers == CONTROLLER


class RescueRecordsFirst(Action):
    name = ActionName.RESCUE_RECORDS
    parameters = frozenset({"rescueTopic"})
    demands = (Guard.FIT_TO_RECEIVE,)
    probe = VerifyProbe.RECORDS_RESCUED

    def idle(self, plan: Plan) -> bool:
        return not plan.part(Rescues).rescues

    def drift(self, at: StepContext) -> str | None:
        return rescue_step.unsaved(at.plan, at.snapshot, {r.broker for r in at.plan.part(Restarts).restarts})

    def judge(self, at: StepContext, intent: Intent | None) -> Iterable[Reason]:
        """It adds a topic of our own and touches nothing else; what is read has to be read from a fresh look. Before it
        begins, the restart that it is for has to be possible."""
        if intent is None:
            step = next((s.name for s in at.plan.steps if s.action is ActionName.RESTART_BROKERS), at.step)
            return _reasons(replace(at, step=step), None)
        return sources_fresh(at.snapshot, at.now, ("kafka", "views"))

    def assess(self, at: StepContext) -> StepReport:
        return rescue_step.assess(at.step, at.plan, at.journal, at.snapshot)

    def may_write(self, plan: Plan) -> Iterator[Hashable]:
        own = plan.part(Rescues)
        for r in own.rescues:
            yield "rescue", own.rescue_topic, r.broker, TopicPartition(r.topic, r.partition), r.epoch

    def cost(self, plan: Plan, snapshot: Snapshot | None) -> Cost:  # noqa: ARG002
        return Cost()
