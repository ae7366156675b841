"""PauseOwners and ReturnToOwners: around steps that change topics which objects of other operators describe."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import ClassVar

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.action import Action, StepContext
from kafka_medic.playbook.auto import Cost
from kafka_medic.playbook.effects import Intent
from kafka_medic.playbook.owners import pause_step, return_step
from kafka_medic.playbook.owners.owned_values import as_object
from kafka_medic.playbook.report import StepReport
from kafka_medic.resources.phases import ACTING_PHASES
from kafka_medic.resources.remediation_plan import EditedBy, OwnedTopics, Plan
from kafka_medic.resources.remediation_status import JournalEntry, StepStatus
from kafka_medic.resources.vocabulary import ActionName, Guard, VerifyProbe


class _OwnersAction(Action):
    """What writes the objects that describe the plan's topics, and nothing of Kafka."""

    def idle(self, plan: Plan) -> bool:
        return not plan.part(OwnedTopics).each()

    def may_write(self, plan: Plan) -> Iterator[Hashable]:
        for owned in plan.part(OwnedTopics).each():
            if owned.by is EditedBy.OPERATOR:
                yield "owner pause", as_object(owned)
                yield from (("owner edit", as_object(owned), e.name, e.after) for e in owned.edits)

    def cost(self, plan: Plan, snapshot: Snapshot | None) -> Cost:  # noqa: ARG002
        """What people have to do by hand is nothing that Auto can begin."""
        by_hand = any(o.by is EditedBy.PERSON for o in plan.part(OwnedTopics).each())
        return Cost(asks=("a person must edit the owners of topics",) if by_hand else ())


class PauseOwners(_OwnersAction):
    name = ActionName.PAUSE_OWNERS
    demands = (Guard.OWNERS_PAUSED,)
    probe = VerifyProbe.OWNERS_KEPT_OFF
    prepares: ClassVar[frozenset[Guard]] = frozenset({Guard.OWNERS_PAUSED})

    def drift(self, at: StepContext) -> str | None:
        return pause_step.drift(at.plan, at.snapshot)

    def judge(self, at: StepContext, intent: Intent | None) -> Iterable[Reason]:  # noqa: ARG002
        """A run that has to wait for people has not begun, and holds up nobody."""
        todo = pause_step.to_pause_by_hand(at.plan, at.snapshot)
        if at.run.status.phase not in ACTING_PHASES and todo is not None:
            yield Reason(Guard.OWNERS_PAUSED, Verdict.WAIT, todo)
        else:
            yield Reason(Guard.OWNERS_PAUSED, Verdict.ALLOW, "this step pauses the owners of the plan's topics")

    def assess(self, at: StepContext) -> StepReport:
        return pause_step.assess(at.step, at.plan, at.journal, at.snapshot)

    def owes(self, step: StepStatus, journal: Sequence[JournalEntry]) -> bool:  # noqa: ARG002
        return pause_step.owed(journal)

    def undo(self, at: StepContext) -> Iterator[StepReport]:
        yield from pause_step.undo(at.step, at.plan, at.journal, at.snapshot)

    def restorable(self, plan: Plan) -> Iterator[str]:
        yield from map(pause_step.saved_name, pause_step.ours(plan))


class ReturnToOwners(_OwnersAction):
    name = ActionName.RETURN_TO_OWNERS
    demands = ()
    probe = VerifyProbe.OWNERS_AGREE
    gives_back = True

    def judge(self, at: StepContext, intent: Intent | None) -> Iterable[Reason]:  # noqa: ARG002
        return ()

    def assess(self, at: StepContext) -> StepReport:
        return return_step.assess(at.step, at.plan, at.journal, at.snapshot)

    def undone(self, at: StepContext) -> str | None:
        return return_step.undone(at.plan, at.snapshot)
