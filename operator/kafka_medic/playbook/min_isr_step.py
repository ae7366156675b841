"""SetMinInsyncReplicas: only once the replicas exist, so that no producer is refused by it."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.playbook.intents import ChangeSettings, SettingKey, settings_observed, topics_gone
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.remediation_status import JournalEntry, Progress


def assess(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """Where the step stands. A topic whose ISR is not larger than the new minimum is waited for; one that has grown by
    partitions whose replicas are too few for it is not what the plan was made for."""
    changes = plan.config_changes
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
            f"topic {', '.join(gone[:5])} is gone",
            progress=Progress(done=0, total=total, unit="topics"),
        )
    if in_place:
        seen = (intent_id,) if intent_id in journal else ()
        return StepReport(
            StepState.REACHED,
            f"min.insync.replicas is set on {total} topics",
            observed=seen,
            progress=Progress(done=total, total=total, unit="topics"),
        )
    for key, value in wanted.items():
        found = snapshot.config(*key)
        now = found.value if found is not None and found.dynamic else None
        if now not in (before[key], value):
            return StepReport(
                StepState.DRIFTED,
                f"{key[2]} of {key[1]} is {now} now; the plan saw {before[key]}",
                progress=Progress(done=0, total=total, unit="topics"),
            )
    floors = {resource: int(floor or 0) for (_, resource, _), floor in wanted.items()}
    thin = [
        row for row in snapshot.rows() if row.topic in floors and (row.isr is None or len(row.isr) <= floors[row.topic])
    ]
    few = [row.tp for row in thin if row.replicas is not None and len(row.replicas) <= floors[row.topic]]
    if few:
        # Waiting would not help, and while this run waits nobody plans for them.
        return StepReport(
            StepState.DRIFTED,
            f"{len(few)} partitions that the plan did not see have too few replicas for it: {_first(few)}",
            progress=Progress(done=0, total=total, unit="topics"),
        )
    if thin:
        return StepReport(
            StepState.WAIT,
            f"{len(thin)} partitions have no in-sync replica to spare yet: {_first([row.tp for row in thin])}",
            progress=Progress(done=0, total=total, unit="topics"),
        )
    return StepReport(
        StepState.ACT,
        f"setting min.insync.replicas on {total} topics",
        intent=ChangeSettings(intent_id, wanted),
        target=", ".join(sorted(floors))[:200],
        saved={"/".join(key): value for key, value in before.items()},
        progress=Progress(done=0, total=total, unit="topics"),
    )


def _first(partitions: list[TopicPartition]) -> str:
    return ", ".join(str(tp) for tp in partitions[:5])
