"""What an action is: one object that the engine asks, in one room of its own, with a line in `registry`.

The engine knows no action by name. It asks the object that a step names, in this order: `problems` of the Playbook that
has it, `reads` and `plan` when a run is planned, `drift` while the plan waits, `judge` before each forward effect,
`assess` where the step stands and what comes next, `owes` and `undo` when the run ends early. `may_write` bounds every
effect by the plan, `cost` is for the mode Auto. What people are shown of a plan is in the room's module `changes`.

All of it is pure. Every method but `plan` and `assess` has an answer that fits an action that needs nothing special.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.cluster_wide import CLUSTER_WIDE
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.reassign import judge_reassign
from kafka_medic.guard.verdict import Reason
from kafka_medic.playbook.auto import Cost
from kafka_medic.playbook.decision import DecisionContext
from kafka_medic.playbook.effects import Intent, asked_for
from kafka_medic.playbook.extra_reads import ExtraReads, Questions
from kafka_medic.playbook.plan_digest import sealed
from kafka_medic.playbook.preconditions import CLUSTER_ID
from kafka_medic.playbook.refusal import NO_DIGEST, Refusal
from kafka_medic.playbook.report import StepReport
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.errors import Problem
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.playbook import Playbook, Step
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import AnyPart, OffsetChange, Plan, PlanStep, Precondition, ReplicaMoves
from kafka_medic.resources.remediation_status import JournalEntry, StepStatus
from kafka_medic.resources.vocabulary import ActionName, Guard, VerifyProbe

EVERY_EFFECT = (
    Guard.APPROVAL_VALID,
    Guard.LEASE_HELD,
    Guard.NOT_PAUSED,
    Guard.WITHIN_WINDOW,
    Guard.WITHIN_LIMITS,
    Guard.NO_OTHER_REMEDIATION,
    Guard.NO_OTHER_KAFKA_CLUSTER,
    Guard.SOURCES_FRESH,
    Guard.PRECONDITIONS_HOLD,
)
"""The guards that every action demands."""
GIVING_BACK = (Guard.APPROVAL_VALID, Guard.LEASE_HELD, Guard.NOT_PAUSED, Guard.PRECONDITIONS_HOLD)
"""Those that stand before an effect which only puts back what the run itself has changed (`restoring_reasons`)."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a plan is made from. `others`: other runs of the KafkaCluster; None: they could not be read. `pending`: ids
    of findings that have not lasted yet. `files`: the directory for plans that are too long for a Remediation."""

    run: Remediation
    cluster: KafkaCluster
    playbook: Playbook
    snapshot: Snapshot
    now: datetime
    others: Sequence[OtherRun] | None = ()
    pending: Collection[str] = ()
    reads: ExtraReads = field(default_factory=ExtraReads)
    files: str | None = None

    def step(self, action: ActionName) -> Step | None:
        """The playbook's step of that action."""
        return next((s for s in self.playbook.spec.steps if s.action is action), None)

    def draft(
        self,
        *parts: AnyPart,
        words: Mapping[ActionName, str] | None = None,
        summary: str = "",
        partitions: int | None = None,
        moves: int | None = None,
        estimated_seconds: int | None = None,
    ) -> Plan:
        """A plan without its digest. `words`: what each action's step would do here, in a sentence."""
        expire_after = parse_duration(self.cluster.spec.remediation.approvals.expire_after)
        steps = (
            PlanStep(name=s.name, action=s.action, description=(words or {}).get(s.action, "")[:1024])
            for s in self.playbook.spec.steps
        )
        plan = Plan(
            digest=NO_DIGEST,
            proposed_at=self.now,
            expires_at=self.now + timedelta(seconds=expire_after),
            steps=tuple(steps),
            preconditions=(Precondition(name=CLUSTER_ID, value=self.snapshot.cluster.id or ""),),
            summary=summary,
            partitions=partitions,
            moves=moves,
            estimated_seconds=estimated_seconds,
        )
        return plan.with_parts(*parts)

    def sealed(self, plan: Plan) -> Plan:
        """The plan with its digest."""
        return sealed(self.run, plan)


@dataclass(frozen=True, slots=True)
class StepContext:
    """A step of a run, with what there is to judge it by. `plan` is the run's; `step`: the step's name."""

    run: Remediation
    plan: Plan
    context: DecisionContext
    step: str

    @property
    def snapshot(self) -> Snapshot:
        return self.context.snapshot

    @property
    def now(self) -> datetime:
        return self.context.now

    @property
    def journal(self) -> Mapping[str, JournalEntry]:
        """By id."""
        return {entry.id: entry for entry in self.run.status.journal}

    @property
    def spec(self) -> Step | None:
        """None where the playbook is gone, or has no such step any more."""
        steps = self.context.playbook.spec.steps if self.context.playbook is not None else ()
        return next((s for s in steps if s.name == self.step), None)


class Action:
    """One action. Subclasses name what is theirs; the engine holds one object of each, and no state is kept in it."""

    name: ClassVar[ActionName]
    parameters: ClassVar[frozenset[str]] = frozenset()
    """Keys of a step's `with`, and parameters of the playbook, that it reads."""
    demands: ClassVar[tuple[Guard, ...]]
    """The guards besides `EVERY_EFFECT` that it asks, whatever a playbook names."""
    probe: ClassVar[VerifyProbe]
    """What shows that it has been done."""
    gives_back: ClassVar[bool] = False
    """Whether all that it does is to put back what a step before it has changed."""
    hindered_by: ClassVar[frozenset[Guard]] = frozenset()
    """Guards of `CLUSTER_WIDE` that its own effects, while they are on their way, would refuse."""

    prepares: ClassVar[frozenset[Guard]] = frozenset()
    """Guards of the next step that its own effect satisfies. Where it has any, every other guard of that step has to
    permit as well: nothing is prepared for nothing."""

    @property
    def asked(self) -> frozenset[Guard]:
        """Every guard that stands before its effects, whatever a playbook names."""
        return frozenset(GIVING_BACK if self.gives_back else (*EVERY_EFFECT, *self.demands))

    @property
    def addable(self) -> frozenset[Guard]:
        """The guards that a playbook may add. Nothing more may hold up what gives back."""
        return frozenset() if self.gives_back else frozenset(CLUSTER_WIDE) - self.asked - self.hindered_by

    @property
    def probes(self) -> tuple[VerifyProbe, ...]:
        """By what a playbook may have it verified."""
        return self.probe, VerifyProbe.FINDING_GONE

    def problems(self, playbook: Playbook, index: int) -> Iterable[Problem]:  # noqa: ARG002
        """What is wrong with the playbook's step at `index`, beyond keys that it does not know."""
        return ()

    def reads(self, request: PlanRequest, others: Callable[[], Sequence[OtherRun] | None]) -> Questions:  # noqa: ARG002
        """What has to be read besides the snapshot before planning. `others` are read if they are asked for."""
        return Questions()

    def watches(self, plan: Plan, snapshot: Snapshot) -> Questions:  # noqa: ARG002
        """What has to be read besides the snapshot at each look once there is a plan, whatever has become of the
        playbook since."""
        return Questions()

    def plan(self, request: PlanRequest) -> Plan | Refusal:
        """The whole plan of a playbook whose sequence this action leads (`registry.SEQUENCES`), its digest included, or
        why there is none."""
        raise NotImplementedError(f"{self.name} leads no sequence")

    def idle(self, plan: Plan) -> bool:  # noqa: ARG002
        """Whether the plan leaves nothing for it to do."""
        return False

    def drift(self, at: StepContext) -> str | None:  # noqa: ARG002
        """What is not as the plan saw it, before anything has been done."""
        return None

    def overtaken(self, at: StepContext) -> str | None:  # noqa: ARG002
        """That nothing of the plan is left to do, because somebody else has done it since. None: something is, or it
        is not known."""
        return None

    def judge(self, at: StepContext, intent: Intent | None) -> Iterable[Reason]:  # noqa: ARG002
        """What the guards that it demands say to the effect, or (None) to what would be its first one. By default: the
        cluster is at rest, but for what the run itself moves."""
        own = at.plan.part(ReplicaMoves)
        moves = [(c.topic, c.partition, c.replicas_before, c.replicas) for c in own.changes]
        asked = asked_for(own.changes, at.journal.values())
        return judge_reassign(at.snapshot, moves, own.replication_factor or 1, at.now, asked=asked).reasons

    def assess(self, at: StepContext) -> StepReport:
        """Where the step stands, and what comes next."""
        raise NotImplementedError

    def owes(self, step: StepStatus, journal: Sequence[JournalEntry]) -> bool:  # noqa: ARG002
        """Whether the step has set something that is only for a time, by the run's journal."""
        return False

    def binds(self, step: StepStatus, journal: Sequence[JournalEntry]) -> bool:
        """Whether no other run may act until what it owes is taken back."""
        return self.owes(step, journal)

    def undo(self, at: StepContext) -> Iterator[StepReport]:  # noqa: ARG002
        """How far each part of the clean end of a run that is given up has come; the next part is asked about once the
        one before is REACHED, whose message then says what is left, and is empty where nothing is."""
        yield from ()

    def undone(self, at: StepContext) -> str | None:  # noqa: ARG002
        """What of its effect is not there any more, right before the run is called a success; None also where that is
        not known. Only what is to last, and does not change by itself."""
        return None

    def afterwards(self, at: StepContext) -> str:  # noqa: ARG002
        """What a person has to know of the run's purpose once it is a success, in a sentence; empty if nothing."""
        return ""

    def has_sent_away(self, run: Remediation) -> frozenset[int]:  # noqa: ARG002
        """Brokers, and controllers that are none, that the run has made stop and that are not back yet."""
        return frozenset()

    def has_set(self, run: Remediation) -> Iterable[OffsetChange]:  # noqa: ARG002
        """Committed offsets that the run has set by it, or may have, for a run that puts them back."""
        return ()

    def may_write(self, plan: Plan) -> Iterator[Hashable]:  # noqa: ARG002
        """What its effects may write, in the words of `Intent.writes`."""
        yield from ()

    def restorable(self, plan: Plan) -> Iterator[str]:  # noqa: ARG002
        """What it may put back, by the names under which the journal has saved it."""
        yield from ()

    def cost(self, plan: Plan, snapshot: Snapshot | None) -> Cost:  # noqa: ARG002
        """What Auto counts of its part of the plan; with a snapshot, as it would be now. By default Auto asks a
        person: nobody has said what it costs."""
        return Cost(copied=None)

    def may_find_later(self, step: Step) -> bool:  # noqa: ARG002
        """Whether there may be something to do later for the same finding, where there is nothing to do now: once
        brokers are back or added, or clients send more to others."""
        return False

    def needs_its_cause(self, step: Step) -> bool:  # noqa: ARG002
        """Whether it is right only while the finding that it was proposed for lasts."""
        return False

    def once_for_a_finding(self, step: Step) -> bool:  # noqa: ARG002
        """Whether it is done once for a finding, however long that lasts, and taken back when it is over."""
        return False

    def takes_back(self, step: Step) -> bool:  # noqa: ARG002
        """Whether it undoes what such a run has done."""
        return False
