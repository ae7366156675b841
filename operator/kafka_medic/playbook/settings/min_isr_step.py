"""SetMinInsyncReplicas: only once the replicas exist, so that no producer is refused by it."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_medic.cluster.elements import settings_unread
from kafka_medic.cluster.min_isr import whole
from kafka_medic.cluster.snapshot import PartitionRow, Snapshot, TopicPartition
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.effects import ChangeSettings, SettingKey, dynamic_value, settings_observed, topics_gone
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import Plan, ReplicaMoves, SettingChanges
from kafka_medic.resources.remediation_status import JournalEntry, Progress
from kafka_medic.resources.vocabulary import Guard


def assess(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """Where the step stands. A topic whose ISR is not larger than the new minimum is waited for; one that has grown by
    partitions whose replicas are too few for it is not what the plan was made for."""
    changes = plan.part(SettingChanges).config_changes
    wanted: dict[SettingKey, str | None] = {(c.resource_type, c.resource_name, c.name): c.after for c in changes}
    if not wanted:
        return StepReport(StepState.REACHED, "no topic needs another min.insync.replicas")
    before: dict[SettingKey, str | None] = {(c.resource_type, c.resource_name, c.name): c.before for c in changes}
    intent_id = f"{step}/set"
    total = len(wanted)
    in_place = settings_observed(snapshot, wanted)
    if in_place is None or snapshot.partitions is None:
        return StepReport(
            StepState.UNKNOWN,
            "the topics' settings could not be read",
            progress=Progress(done=0, total=total, unit="topics"),
        )
    gone = sorted(topics_gone(snapshot, wanted))
    if gone:
        return StepReport(
            StepState.DRIFTED,
            f"topic {', '.join(gone[:5])} no longer exists",
            progress=Progress(done=0, total=total, unit="topics"),
        )
    if in_place:
        seen = (intent_id,) if intent_id in journal else ()
        return StepReport(
            StepState.REACHED,
            f"min.insync.replicas is set on {many(total, 'topic')}",
            observed=seen,
            progress=Progress(done=total, total=total, unit="topics"),
        )
    for key, value in wanted.items():
        found = snapshot.config(*key)
        now = found.value if found is not None and found.dynamic else None
        if now not in (before[key], value):
            return StepReport(
                StepState.DRIFTED,
                f"{key[2]} of {key[1]} is {now} (planned from: {before[key]})",
                progress=Progress(done=0, total=total, unit="topics"),
            )
    floors = {resource: int(floor or 0) for (_, resource, _), floor in wanted.items()}
    thin = without_spare(snapshot, floors)
    few = [row.tp for row in thin if row.replicas is not None and len(row.replicas) <= floors[row.topic]]
    lost = {tp.topic for tp in few}
    due = {k: value for k, value in wanted.items() if k[1] not in lost and dynamic_value(snapshot, k) != value}
    progress = Progress(done=total - len(due) - len(lost), total=total, unit="topics")
    waiting = [row.tp for row in thin if row.topic in {key[1] for key in due}]
    if not due:
        # Waiting would not help, and while this run waits nobody plans for them. The others come before: the plan that
        # follows is for what has too few replicas, and they would not be in it.
        return StepReport(
            StepState.DRIFTED,
            f"{many(len(few), 'partition')} outside the plan with too few replicas: {_first(few)}",
            progress=progress,
        )
    if waiting:
        return StepReport(
            StepState.WAIT,
            f"{many(len(waiting), 'partition')} without a spare in-sync replica: {_first(waiting)}",
            progress=progress,
        )
    return StepReport(
        StepState.ACT,
        f"setting min.insync.replicas on {many(len(due), 'topic')}",
        intent=ChangeSettings(intent_id, due),
        target=", ".join(sorted(key[1] for key in due))[:200],
        saved={"/".join(key): value for key, value in before.items()},
        progress=progress,
    )


def without_spare(snapshot: Snapshot, floors: Mapping[str, int]) -> list[PartitionRow]:
    """Partitions whose ISR is not larger than their topic's new minimum, or not known, as where brokers differ on who
    leads. floors: by topic."""
    return [
        row
        for row in snapshot.rows()
        if row.topic in floors and (row.isr is None or row.leader is None or len(row.isr) <= floors[row.topic])
    ]


def alone(plan: Plan) -> bool:
    """Whether no replicas are added before."""
    moves = plan.part(ReplicaMoves)
    return not moves.changes and moves.artifact is None


def other_values(plan: Plan, snapshot: Snapshot) -> str | None:
    """What is not as the plan saw it any more, of a plan that does nothing else; None also where it is not known."""
    if not alone(plan):
        return None
    for change in plan.part(SettingChanges).config_changes:
        if settings_unread(snapshot, change.resource_type, change.resource_name):
            continue
        present = dynamic_value(snapshot, (change.resource_type, change.resource_name, change.name))
        if present != change.before:
            return f"{change.name} of {change.resource_name} is {present} (planned from: {change.before})"
    return None


def undone(plan: Plan, snapshot: Snapshot) -> str | None:
    """Of a plan that is carried out: a setting that is another one again."""
    for change in plan.part(SettingChanges).config_changes:
        if settings_unread(snapshot, change.resource_type, change.resource_name):
            continue
        present = dynamic_value(snapshot, (change.resource_type, change.resource_name, change.name))
        gone = topics_gone(snapshot, [(change.resource_type, change.resource_name, change.name)])
        if present != change.after and not gone and not _more(present, change.after):
            now = present or "not set"
            return f"{change.name} of {change.resource_name} is {now} again (set by the run: {change.after})"
    return None


def _more(present: str | None, wanted: str | None) -> bool:
    """Whether somebody has raised the minimum further, which undoes nothing."""
    number, least = whole(present), whole(wanted)
    return number is not None and least is not None and number > least


def may_begin(plan: Plan, snapshot: Snapshot) -> Reason:
    """Whether a run that does nothing else can do it now: one that had to wait would hold up every other."""
    config_changes = plan.part(SettingChanges).config_changes
    guard = Guard.PRECONDITIONS_HOLD
    topics = (settings_unread(snapshot, c.resource_type, c.resource_name) for c in config_changes)
    if snapshot.configs is None or snapshot.partitions is None or any(topics):
        return Reason(guard, Verdict.UNKNOWN, "the topics' settings could not be read")
    thin = without_spare(snapshot, {c.resource_name: int(c.after or 0) for c in config_changes})
    if thin:
        message = f"{many(len(thin), 'partition')} without a spare in-sync replica: {_first([row.tp for row in thin])}"
        return Reason(guard, Verdict.WAIT, message)
    return Reason(guard, Verdict.ALLOW, "every partition has a spare in-sync replica")


def _first(partitions: list[TopicPartition]) -> str:
    return ", ".join(str(tp) for tp in partitions[:5])
