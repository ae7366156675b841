"""What a run that sets offsets has to know besides the snapshot: who holds a group, and what offset is of what time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from kafka_medic.cluster.groups import EMPTY
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.extra_reads import Questions
from kafka_medic.playbook.offsets.offset_step import states
from kafka_medic.playbook.offsets.parameters import reset_parameters, restored_run, stopped_workload
from kafka_medic.playbook.offsets.reset_plan import MAX_EPOCHS, MAX_HELD, aim_of, chosen, epoch_questions
from kafka_medic.playbook.offsets.targets import Aim, How, Spot
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.resources.playbook import Step

Others = Callable[[], Sequence[OtherRun] | None]
"""What other runs of the KafkaCluster have set, read if that is asked for."""


def to_be_stopped(request: PlanRequest, step: Step) -> Questions:
    """The workload that the parameters name; nothing where they name none, which the plan says."""
    try:
        return Questions(workload=stopped_workload(request.playbook, step, request.run.spec.parameters))
    except ValueError:
        return Questions()


def about_reset(request: PlanRequest, step: Step) -> Questions:
    """Nothing while the groups are not known."""
    snapshot = request.snapshot
    if snapshot.groups is None or snapshot.partitions is None:
        return Questions()
    settings = reset_parameters(request.playbook, step, request.run.spec.parameters)
    aim = aim_of(settings)
    if isinstance(aim, Refusal):
        return Questions()
    return about(chosen(snapshot, settings, aim, request.cluster.status).spots, aim, request.now)


def about_restore(request: PlanRequest, step: Step, others: Others) -> Questions:
    """Nothing while the groups are not known."""
    if request.snapshot.groups is None or request.snapshot.partitions is None:
        return Questions()
    name = restored_run(request.playbook, step, request.run.spec.parameters)
    return members_of(request.snapshot, {c.group for o in others() or () if o.name == name for c in o.offsets})


def about(spots: Sequence[Spot], aim: Aim, now: datetime) -> Questions:
    """What decides the targets of these, and who is in their groups."""
    live = tuple(dict.fromkeys(s.group for s in spots if s.state != EMPTY))[:MAX_HELD]
    ms = aim.since(now)
    if ms is not None:
        return Questions(live, ms, tuple(sorted({s.tp for s in spots})))
    if aim.how is not How.LAST_KNOWN_GOOD:
        return Questions(live)
    return Questions(live, epochs=frozenset(epoch_questions(spots)[:MAX_EPOCHS]))


def members_of(snapshot: Snapshot, groups: Collection[str]) -> Questions:
    """Who is in those of these groups that are not Empty; nothing while the groups are not known."""
    if snapshot.groups is None or snapshot.partitions is None:
        return Questions()
    standing = states(snapshot, groups)
    return Questions(tuple(sorted(g for g, state in standing.items() if state != EMPTY))[:MAX_HELD])
