"""AddPartitions: a topic gets more of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from kafka_medic.guard.few_partitions import few_partitions

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.freshness import sources_fresh
from kafka_medic.guard.verdict import Reason
from kafka_medic.playbook.action import Action, PlanRequest, StepContext
from kafka_medic.playbook.effects import Intent, RaisePartitions
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.resources.remediation_plan import AddedPartition, AddedPartitions, Plan
from kafka_medic.resources.vocabulary import ActionName, Guard, VerifyProbe

WANTED = 4


class AddPartitions(Action):
    name = ActionName.ADD_PARTITIONS
    demands = (Guard.FEW_PARTITIONS,)
    probe = VerifyProbe.PARTITIONS_ADDED

    def plan(self, request: PlanRequest) -> Plan | Refusal:
        before = count(request.snapshot, "orders")
        if before >= WANTED:
            return Refusal("topic orders has its partitions", nothing_to_do=True)
        added = AddedPartition(topic="orders", before=before, after=WANTED)
        words = f"give topic orders {WANTED} partitions"
        return request.sealed(request.draft(AddedPartitions(added=(added,)), words={self.name: words}, summary=words))

    def idle(self, plan: Plan) -> bool:
        return not plan.part(AddedPartitions).added

    def judge(self, at: StepContext, intent: Intent | None) -> Iterable[Reason]:
        return (*sources_fresh(at.snapshot, at.now, ("kafka",)), few_partitions(at.snapshot))

    def assess(self, at: StepContext) -> StepReport:
        (added,) = at.plan.part(AddedPartitions).added
        id_ = f"{at.step}/{added.topic}"
        if count(at.snapshot, added.topic) >= added.after:
            seen = (id_,) if id_ in at.journal else ()
            return StepReport(StepState.REACHED, f"{added.after} partitions", observed=seen)
        new = tuple((0, 1, 2) for _ in range(added.after - added.before))
        intent = RaisePartitions(id_, added.topic, added.after, new)
        return StepReport(StepState.ACT, intent.describe(), intent=intent, target=added.topic)

    def may_write(self, plan: Plan) -> Iterator[Hashable]:
        yield from (("partitions", a.topic, a.after) for a in plan.part(AddedPartitions).added)


def count(snapshot: Snapshot, topic: str) -> int:
    return sum(row.topic == topic for row in snapshot.rows())
