"""ElectPreferredLeaders and ReorderReplicas: who leads, and who is preferred."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.guard.elect import ELECT_GUARDS, judge_elect
from kafka_medic.guard.reorder import judge_reorder
from kafka_medic.guard.verdict import Reason
from kafka_medic.playbook.action import Action, PlanRequest, StepContext
from kafka_medic.playbook.auto import Cost
from kafka_medic.playbook.effects import ElectPreferred, Intent
from kafka_medic.playbook.leadership import election_step, reorder_step
from kafka_medic.playbook.leadership.drain_plan import drain_plan
from kafka_medic.playbook.leadership.election_plan import election_plan
from kafka_medic.playbook.leadership.parameters import AWAY, BACK, EVEN, TRAFFIC, elect_parameters
from kafka_medic.playbook.leadership.traffic_plan import no_longer_helps, not_known, traffic_plan
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.playbook.report import StepReport
from kafka_medic.resources.errors import Problem
from kafka_medic.resources.playbook import Playbook, Step
from kafka_medic.resources.remediation_plan import Elections, Plan, Reorders
from kafka_medic.resources.vocabulary import ActionName, VerifyProbe

_DEMANDS = ELECT_GUARDS


class ElectPreferredLeaders(Action):
    name = ActionName.ELECT_PREFERRED_LEADERS
    parameters = frozenset({"batchSize", "leaderlessWithin"})
    demands = _DEMANDS
    probe = VerifyProbe.PREFERRED_LEADERS_SERVE

    def plan(self, request: PlanRequest) -> Plan | Refusal:
        step = request.step(self.name)
        assert step is not None  # it leads the sequence
        return election_plan(request, step)

    def idle(self, plan: Plan) -> bool:
        return not plan.part(Elections).elections

    def judge(self, at: StepContext, intent: Intent | None) -> Iterable[Reason]:
        """About the first one, where none is due yet."""
        first = [tp for tp, _ in election_step.planned_elections(at.plan) if tp.topic][:1]
        wanted = intent.preferred if isinstance(intent, ElectPreferred) else first
        return judge_elect(at.snapshot, at.now, set(wanted)).reasons

    def assess(self, at: StepContext) -> StepReport:
        step, playbook = at.spec, at.context.playbook
        assert step is not None  # the engine saw to it
        assert playbook is not None
        settings = elect_parameters(playbook, step, at.run.spec.parameters)
        return election_step.assess(at.step, at.plan, at.journal, at.snapshot, settings, at.now)

    def may_write(self, plan: Plan) -> Iterator[Hashable]:
        elections = plan.part(Elections).elections
        yield from (("leader", TopicPartition(e.topic, n), e.broker) for e in elections for n in e.partitions)

    def cost(self, plan: Plan, snapshot: Snapshot | None) -> Cost:  # noqa: ARG002
        elections = plan.part(Elections).elections
        return Cost(frozenset(TopicPartition(e.topic, n) for e in elections for n in e.partitions))


class ReorderReplicas(Action):
    name = ActionName.REORDER_REPLICAS
    parameters = frozenset({"brokers", "leaders", "maxMoves"})
    demands = _DEMANDS
    probe = VerifyProbe.REPLICAS_REORDERED

    def problems(self, playbook: Playbook, index: int) -> Iterable[Problem]:
        """What comes first drains a broker, brings its leaders back, or evens traffic; after added replicas it makes
        leaders even."""
        leaders = (AWAY, BACK, TRAFFIC) if index == 0 else (EVEN,)
        if playbook.spec.steps[index].with_.get("leaders") not in leaders:
            path = f"spec.steps[{index}].with.leaders"
            yield Problem(path, "is not supported by this step", f"write {' or '.join(leaders)}")

    def plan(self, request: PlanRequest) -> Plan | Refusal:
        step = request.step(self.name)
        assert step is not None  # it leads the sequence
        return (traffic_plan if step.with_.get("leaders") == TRAFFIC else drain_plan)(request, step)

    def idle(self, plan: Plan) -> bool:
        return not plan.part(Reorders).reorders

    def drift(self, at: StepContext) -> str | None:
        """Orders that come after added replicas are drawn up for those: until then the partitions have others."""
        step = at.spec
        if step is None or step.with_.get("leaders") == EVEN:
            return None
        drifted = reorder_step.other_orders(reorder_step.planned_orders(at.plan), at.snapshot)
        if drifted is None and step.with_.get("leaders") == TRAFFIC:
            return no_longer_helps(at.plan, at.snapshot, at.context.reads.growth)
        return drifted

    def judge(self, at: StepContext, intent: Intent | None) -> Iterable[Reason]:  # noqa: ARG002
        yield from judge_reorder(at.snapshot, reorder_step.planned_orders(at.plan), at.now).reasons
        if at.spec is not None and at.spec.with_.get("leaders") == TRAFFIC:
            yield from not_known(at.plan, at.snapshot, at.context.reads.growth)

    def assess(self, at: StepContext) -> StepReport:
        return reorder_step.assess(at.step, at.plan, at.journal, at.snapshot)

    def may_write(self, plan: Plan) -> Iterator[Hashable]:
        for c in plan.part(Reorders).reorders:
            tp = TopicPartition(c.topic, c.partition)
            yield from (("order", tp, tuple(order)) for order in (c.replicas_before, c.replicas))

    def cost(self, plan: Plan, snapshot: Snapshot | None) -> Cost:  # noqa: ARG002
        return Cost(frozenset(TopicPartition(c.topic, c.partition) for c in plan.part(Reorders).reorders))

    def may_find_later(self, step: Step) -> bool:
        return step.with_.get("leaders") == TRAFFIC

    def needs_its_cause(self, step: Step) -> bool:
        return step.with_.get("leaders", AWAY) in (AWAY, TRAFFIC)

    def once_for_a_finding(self, step: Step) -> bool:
        return step.with_.get("leaders", AWAY) == AWAY

    def takes_back(self, step: Step) -> bool:
        return step.with_.get("leaders") == BACK
