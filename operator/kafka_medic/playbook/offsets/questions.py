"""What a run that sets offsets has to know besides the snapshot: who holds a group, and what offset is of what time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kafka_medic.cluster.groups import EMPTY
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.playbook.offsets.offset_step import states
from kafka_medic.playbook.offsets.reset_plan import MAX_EPOCHS, MAX_HELD, chosen, epoch_questions, request
from kafka_medic.playbook.offsets.targets import Aim, How, Spot
from kafka_medic.playbook.parameters import (
    reset_parameters,
    restored_run,
    sets_offsets,
    stopped_workload,
    stops_consumers,
)
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import TERMINAL_PHASES
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.vocabulary import Action, WorkloadKind


@dataclass(frozen=True, slots=True)
class Questions:
    """Whose members to read; from which time (milliseconds since 1970) the first offset of which partitions; and of
    which leader where a leader epoch of a partition ends."""

    groups: tuple[str, ...] = ()
    ms: int | None = None
    partitions: tuple[TopicPartition, ...] = ()
    epochs: frozenset[tuple[int, TopicPartition, int]] = frozenset()
    workload: tuple[WorkloadKind, str] | None = None
    """What is to be stopped meanwhile: its kind and name."""


def questions(
    run: Remediation,
    cluster: KafkaCluster,
    playbook: Playbook | None,
    snapshot: Snapshot,
    others: Callable[[], Sequence[OtherRun] | None],
    now: datetime,
) -> Questions:
    """Nothing for a run of any other playbook, or while the groups are not known. `others`: what other runs of this
    KafkaCluster have set, read if that is asked for."""
    stopped = _stopped(run, playbook)
    if stopped is not None:
        return replace(_about_offsets(run, cluster, playbook, snapshot, others, now), workload=stopped)
    return _about_offsets(run, cluster, playbook, snapshot, others, now)


def _stopped(run: Remediation, playbook: Playbook | None) -> tuple[WorkloadKind, str] | None:
    """Of a plan that there is, whatever has become of the cluster or the playbook since: it has to be started again."""
    if run.status.phase in TERMINAL_PHASES:
        return None
    if run.status.plan is not None:
        planned = run.status.plan.workload
        return None if planned is None else (planned.kind, planned.name)
    step = stops_consumers(playbook) if playbook is not None else None
    if playbook is None or step is None:
        return None
    try:
        return stopped_workload(playbook, step, run.spec.parameters)
    except ValueError:
        return None  # the plan says so


def _about_offsets(
    run: Remediation,
    cluster: KafkaCluster,
    playbook: Playbook | None,
    snapshot: Snapshot,
    others: Callable[[], Sequence[OtherRun] | None],
    now: datetime,
) -> Questions:
    step = sets_offsets(playbook) if playbook is not None else None
    known = snapshot.groups is not None and snapshot.partitions is not None
    if playbook is None or step is None or not known or run.status.phase in TERMINAL_PHASES:
        return Questions()
    if run.status.plan is not None:
        return _members_of(snapshot, {c.group for c in run.status.plan.offsets})
    if step.action is Action.RESTORE_OFFSETS:
        name = restored_run(playbook, step, run.spec.parameters)
        return _members_of(snapshot, {c.group for o in others() or () if o.name == name for c in o.offsets})
    settings = reset_parameters(playbook, step, run.spec.parameters)
    aim = request(settings)
    if isinstance(aim, Refusal):
        return Questions()
    return about(chosen(snapshot, settings, aim, cluster.status.log_end_regressions).spots, aim, now)


def about(spots: Sequence[Spot], aim: Aim, now: datetime) -> Questions:
    """What decides the targets of these, and who is in their groups."""
    live = tuple(dict.fromkeys(s.group for s in spots if s.state != EMPTY))[:MAX_HELD]
    ms = aim.since(now)
    if ms is not None:
        return Questions(live, ms, tuple(sorted({s.tp for s in spots})))
    if aim.how is not How.LAST_KNOWN_GOOD:
        return Questions(live)
    return Questions(live, epochs=frozenset(epoch_questions(spots)[:MAX_EPOCHS]))


def _members_of(snapshot: Snapshot, groups: Collection[str]) -> Questions:
    standing = states(snapshot, groups)
    return Questions(tuple(sorted(g for g, state in standing.items() if state != EMPTY))[:MAX_HELD])
