"""RemoveThrottles: settings that the plan saw are removed, each only while it is still what the plan saw."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.playbook.effects import (
    ChangeSettings,
    SettingKey,
    broker_gone,
    dynamic_value,
    setting_text,
    settings_observed,
    topics_gone,
)
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import Plan, SettingChanges
from kafka_medic.resources.remediation_status import JournalEntry, Progress


def assess(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """Where the step stands. Settings of a topic or a broker that the cluster has no more went with it."""
    before: dict[SettingKey, str | None] = {
        (c.resource_type.value, c.resource_name, c.name): c.before for c in plan.part(SettingChanges).config_changes
    }
    gone = topics_gone(snapshot, before)
    there = [key for key in before if not (key[1] in gone if key[0] == "TOPIC" else broker_gone(snapshot, int(key[1])))]
    if settings_observed(snapshot, dict.fromkeys(there)) is None:
        return StepReport(StepState.UNKNOWN, "the throttle settings of some brokers could not be read")
    due = [key for key in there if dynamic_value(snapshot, key) is not None]
    progress = Progress(done=len(before) - len(due), total=len(before), unit="settings")
    intent_id = f"{step}/remove"
    if not due:
        seen = (intent_id,) if intent_id in journal else ()
        return StepReport(StepState.REACHED, "every throttle of the plan is gone", observed=seen, progress=progress)
    for key in due:
        if dynamic_value(snapshot, key) != before[key]:
            text = f"{key[2]} of {key[0].lower()} {key[1]} changed since the plan"
            return StepReport(StepState.DRIFTED, f"{text}: another client sets throttles", progress=progress)
    return StepReport(
        StepState.ACT,
        f"removing {many(len(due), 'replication throttle')}",
        intent=ChangeSettings(intent_id, dict.fromkeys(due)),
        target=f"{many(len(due), 'setting')}",
        saved={setting_text(key): before[key] for key in due[:MAX_SAVED]},
        progress=progress,
    )


MAX_SAVED = 256
"""Values that one journal entry holds as they were; the plan has all of them."""
