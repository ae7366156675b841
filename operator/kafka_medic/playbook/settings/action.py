"""SetMinInsyncReplicas, SetClusterDefaults and RemoveThrottles: settings that are changed at run time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import ClassVar

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard import owners
from kafka_medic.guard.verdict import Reason
from kafka_medic.playbook.action import Action, PlanRequest, StepContext
from kafka_medic.playbook.auto import Cost
from kafka_medic.playbook.effects import Intent, SettingKey, setting_text
from kafka_medic.playbook.owners.owned_plan import unplanned_owner
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.playbook.report import StepReport
from kafka_medic.playbook.settings import defaults_step, min_isr_step, throttle_step
from kafka_medic.playbook.settings.defaults_plan import defaults_plan
from kafka_medic.playbook.settings.min_isr_plan import min_isr_plan
from kafka_medic.playbook.settings.throttle_plan import throttle_plan
from kafka_medic.resources.errors import Problem
from kafka_medic.resources.phases import ACTING_PHASES
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation_plan import ConfigChange, Plan, SettingChanges
from kafka_medic.resources.vocabulary import ActionName, Guard, VerifyProbe

_AT_REST = (
    Guard.CLUSTER_REACHABLE,
    Guard.ENOUGH_LIVE_BROKERS,
    Guard.TARGETS_ALIVE,
    Guard.NO_FOREIGN_REASSIGNMENT,
    Guard.BROKERS_STABLE,
    Guard.FIT_TO_RECEIVE,
)


class _SettingsAction(Action):
    """What changes the settings that its plan names."""

    demands: ClassVar[tuple[Guard, ...]] = _AT_REST

    def idle(self, plan: Plan) -> bool:
        return not plan.part(SettingChanges).config_changes

    def may_write(self, plan: Plan) -> Iterator[Hashable]:
        yield from (("setting", *_key(change)) for change in plan.part(SettingChanges).config_changes)

    def restorable(self, plan: Plan) -> Iterator[str]:
        yield from (setting_text(_key(change)) for change in plan.part(SettingChanges).config_changes)

    def cost(self, plan: Plan, snapshot: Snapshot | None) -> Cost:  # noqa: ARG002
        """No data moves, and what was set before is in the plan."""
        return Cost()


def _key(change: ConfigChange) -> SettingKey:
    return change.resource_type.value, change.resource_name, change.name


class SetMinInsyncReplicas(_SettingsAction):
    name = ActionName.SET_MIN_INSYNC_REPLICAS
    demands = (*_AT_REST, Guard.OWNERS_PAUSED)
    probe = VerifyProbe.MIN_INSYNC_REPLICAS_SET

    def plan(self, request: PlanRequest) -> Plan | Refusal:
        return min_isr_plan(request)

    def drift(self, at: StepContext) -> str | None:
        return min_isr_step.other_values(at.plan, at.snapshot) or unplanned_owner(at.plan, at.snapshot)

    def undone(self, at: StepContext) -> str | None:
        return min_isr_step.undone(at.plan, at.snapshot)

    def judge(self, at: StepContext, intent: Intent | None) -> Iterable[Reason]:
        yield from super().judge(at, intent)
        yield owners.owners_paused(at.snapshot, at.plan.part(SettingChanges).topics())
        if at.run.status.phase not in ACTING_PHASES and min_isr_step.alone(at.plan):
            yield min_isr_step.may_begin(at.plan, at.snapshot)

    def assess(self, at: StepContext) -> StepReport:
        return min_isr_step.assess(at.step, at.plan, at.journal, at.snapshot)


class SetClusterDefaults(_SettingsAction):
    name = ActionName.SET_CLUSTER_DEFAULTS
    probe = VerifyProbe.CLUSTER_DEFAULTS_SET

    def problems(self, playbook: Playbook, index: int) -> Iterable[Problem]:  # noqa: ARG002
        """Which brokers is decided by their defaults; and more than one at a time could all come back with the old
        ones."""
        given = {p.name for p in playbook.spec.parameters}.union(*(step.with_ for step in playbook.spec.steps))
        for name in sorted(given & {"brokers", "maxParallel", "drainFirst"}):
            yield Problem("spec", f"{name} does not go with brokers' defaults", "remove it")

    def plan(self, request: PlanRequest) -> Plan | Refusal:
        return defaults_plan(request)

    def assess(self, at: StepContext) -> StepReport:
        return defaults_step.assess(at.step, at.plan, at.journal, at.snapshot)


class RemoveThrottles(_SettingsAction):
    name = ActionName.REMOVE_THROTTLES
    probe = VerifyProbe.THROTTLES_REMOVED

    def plan(self, request: PlanRequest) -> Plan | Refusal:
        return throttle_plan(request)

    def assess(self, at: StepContext) -> StepReport:
        return throttle_step.assess(at.step, at.plan, at.journal, at.snapshot)
