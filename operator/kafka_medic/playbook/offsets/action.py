"""ResetOffsets and RestoreOffsets, and the consumers that are stopped and started around a reset."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import ClassVar

from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.reset_offsets import OFFSET_GUARDS, TARGET_WITHIN_LOG, judge_reset_offsets
from kafka_medic.guard.verdict import Reason
from kafka_medic.playbook.action import Action, PlanRequest, StepContext
from kafka_medic.playbook.auto import Cost
from kafka_medic.playbook.effects import Intent, SetOffsets
from kafka_medic.playbook.extra_reads import Questions
from kafka_medic.playbook.offsets import consumers_step, offset_step, questions
from kafka_medic.playbook.offsets.reset_plan import reset_plan
from kafka_medic.playbook.offsets.undo_plan import undo_plan
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.playbook.report import StepReport
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import OffsetChange, OffsetChanges, Plan, StoppedConsumers
from kafka_medic.resources.remediation_status import JournalEntry, StepStatus
from kafka_medic.resources.vocabulary import ActionName, Guard, VerifyProbe

_DEMANDS: tuple[Guard, ...] = OFFSET_GUARDS


class _OffsetsAction(Action):
    """What commits the offsets that its plan names."""

    demands: ClassVar[tuple[Guard, ...]] = _DEMANDS
    probe = VerifyProbe.OFFSETS_COMMITTED

    def idle(self, plan: Plan) -> bool:
        return not plan.part(OffsetChanges).offsets

    def watches(self, plan: Plan, snapshot: Snapshot) -> Questions:
        return questions.members_of(snapshot, {c.group for c in plan.part(OffsetChanges).offsets})

    def drift(self, at: StepContext) -> str | None:
        return offset_step.void(at.plan, at.snapshot)

    def judge(self, at: StepContext, intent: Intent | None) -> Iterable[Reason]:
        """Of the group that is due, or comes next."""
        plan = at.plan
        if isinstance(intent, SetOffsets):
            group, targets = intent.group, {tp: after.offset for tp, (_, after) in intent.offsets.items()}
        else:
            due = offset_step.next_group(at.step, plan, at.journal, at.snapshot)
            group = due or plan.part(OffsetChanges).offsets[0].group
            targets = _targets(plan, group)
        return judge_reset_offsets(
            at.snapshot,
            group,
            targets,
            at.now,
            members=at.context.reads.members.get(group),
            within_log=TARGET_WITHIN_LOG in self.demands,
        ).reasons

    def has_set(self, run: Remediation) -> Iterable[OffsetChange]:
        return offset_step.set_by(run)

    def assess(self, at: StepContext) -> StepReport:
        return offset_step.assess(at.step, at.plan, at.journal, at.snapshot)

    def may_write(self, plan: Plan) -> Iterator[Hashable]:
        offsets = plan.part(OffsetChanges).offsets
        yield from (("offset", o.group, TopicPartition(o.topic, o.partition), o.after) for o in offsets)

    def cost(self, plan: Plan, snapshot: Snapshot | None) -> Cost:  # noqa: ARG002
        return Cost(frozenset(TopicPartition(o.topic, o.partition) for o in plan.part(OffsetChanges).offsets))


class ResetOffsets(_OffsetsAction):
    name = ActionName.RESET_OFFSETS
    parameters = frozenset({"to", "groups", "excludeGroups", "topics"})
    demands = (*_DEMANDS, TARGET_WITHIN_LOG)

    def reads(self, request: PlanRequest, others: Callable[[], Sequence[OtherRun] | None]) -> Questions:  # noqa: ARG002
        step = request.step(self.name)
        return Questions() if step is None else questions.about_reset(request, step)

    def plan(self, request: PlanRequest) -> Plan | Refusal:
        step = request.step(self.name)
        assert step is not None  # it leads the sequence
        return reset_plan(request, step)


class RestoreOffsets(_OffsetsAction):
    """An offset goes back to where it was, also where the log does not have it."""

    name = ActionName.RESTORE_OFFSETS
    parameters = frozenset({"remediation"})

    def reads(self, request: PlanRequest, others: Callable[[], Sequence[OtherRun] | None]) -> Questions:
        step = request.step(self.name)
        return Questions() if step is None else questions.about_restore(request, step, others)

    def plan(self, request: PlanRequest) -> Plan | Refusal:
        step = request.step(self.name)
        assert step is not None  # it leads the sequence
        return undo_plan(request, step)


class _ConsumersAction(Action):
    """What scales the plan's workload."""

    demands = (Guard.PARTITIONS_LED, Guard.PREVIOUS_OFFSETS_KNOWN, Guard.TARGET_WITHIN_LOG)

    def idle(self, plan: Plan) -> bool:
        return plan.part(StoppedConsumers).workload is None

    def judge(self, at: StepContext, intent: Intent | None) -> Iterable[Reason]:  # noqa: ARG002
        """What consumes may be stopped while its groups have members: that is what it is stopped for. All else that
        would hold the offsets up holds this up as well, so that nothing is stopped for nothing."""
        plan = at.plan
        found = [
            judge_reset_offsets(at.snapshot, group, _targets(plan, group), at.now).reasons
            for group in dict.fromkeys(c.group for c in plan.part(OffsetChanges).offsets)
        ]
        others = (r for reasons in found for r in reasons if r.guard != Guard.GROUP_EMPTY)
        return (*dict.fromkeys(others), consumers_step.as_planned(plan, at.context.reads))

    def may_write(self, plan: Plan) -> Iterator[Hashable]:
        workload = plan.part(StoppedConsumers).workload
        if workload is not None:
            yield "workload", workload.uid, frozenset({0, workload.replicas})

    def cost(self, plan: Plan, snapshot: Snapshot | None) -> Cost:  # noqa: ARG002
        return Cost()


class StopConsumers(_ConsumersAction):
    name = ActionName.STOP_CONSUMERS
    parameters = frozenset({"workload"})
    probe = VerifyProbe.CONSUMERS_STOPPED

    def reads(self, request: PlanRequest, others: Callable[[], Sequence[OtherRun] | None]) -> Questions:  # noqa: ARG002
        step = request.step(self.name)
        return Questions() if step is None else questions.to_be_stopped(request, step)

    def watches(self, plan: Plan, snapshot: Snapshot) -> Questions:  # noqa: ARG002
        """Also once the playbook is gone: it has to be started again."""
        workload = plan.part(StoppedConsumers).workload
        return Questions() if workload is None else Questions(workload=(workload.kind, workload.name))

    def drift(self, at: StepContext) -> str | None:
        return consumers_step.void(at.plan, at.context.reads)

    def assess(self, at: StepContext) -> StepReport:
        return consumers_step.assess_stop(at.step, at.plan, at.journal, at.context.reads, at.snapshot)

    def owes(self, step: StepStatus, journal: Sequence[JournalEntry]) -> bool:  # noqa: ARG002
        return consumers_step.owed(journal)

    def undo(self, at: StepContext) -> Iterator[StepReport]:
        yield consumers_step.undo(at.step, at.plan, at.journal, at.context.reads, at.now)


class StartConsumers(_ConsumersAction):
    name = ActionName.START_CONSUMERS
    probe = VerifyProbe.CONSUMERS_STARTED
    gives_back = True

    def assess(self, at: StepContext) -> StepReport:
        return consumers_step.assess_start(at.step, at.plan, at.journal, at.context.reads)


def _targets(plan: Plan, group: str) -> dict[TopicPartition, int]:
    return {offset_step.partition_of(c): c.after for c in plan.part(OffsetChanges).offsets if c.group == group}
