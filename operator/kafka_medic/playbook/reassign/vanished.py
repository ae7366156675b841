"""A throttle that somebody removes while it holds copying back.

It is set again in the reconcile that sees it: to copy more slowly than somebody may want is never the worse choice. A
second time, the run pauses as well and reports it, until nobody has removed it for a while. A throttle that has another
value is a person's, and is not fought.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from kafka_medic.cluster.elements import resource_name, settings_unread
from kafka_medic.cluster.owners import owners_by_topic
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.evaluate import some
from kafka_medic.playbook.effects import ChangeSettings, SettingKey, dynamic_value
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.durations import format_duration
from kafka_medic.resources.remediation_status import IntentState, JournalEntry

CALM_SECONDS = 600.0
"""For which a throttle has to stay where it was set a second time. The Topic Operator looks every two minutes."""


def entries(step: str) -> tuple[str, str]:
    """Ids of the journal's entries: the first time, and all later ones."""
    return f"{step}/throttle-again-1", f"{step}/throttle-again-2"


def set_again(
    step: str,
    wanted: Mapping[SettingKey, str | None],
    saved: Mapping[SettingKey, str | None],
    journal: Mapping[str, JournalEntry],
    snapshot: Snapshot,
) -> StepReport | None:
    """What is due; None while everything that is wanted is there, or is somebody else's, or is not known."""
    live = {str(b.id) for b in snapshot.brokers or () if b.live}
    gone = {
        key: value
        for key, value in wanted.items()
        if not settings_unread(snapshot, key[0], key[1])
        and (key[0] != "BROKER" or key[1] in live)
        and dynamic_value(snapshot, key) == saved[key] != value
    }
    if not gone:
        return None
    first, later = entries(step)
    before = journal.get(first)
    id_ = later if before is not None and before.state is IntentState.DONE else first
    whose = some(sorted({resource_name(key[0], key[1]) for key in gone}), 5)
    why = f"another client removed the throttle of {whose} during the copy; {_accounts(gone, snapshot)}"
    return StepReport(
        StepState.ACT,
        f"setting the throttle again: {why}",
        intent=ChangeSettings(id_, gone, why),
        target=f"{many(len(gone), 'setting')}",
        restores=True,
    )


def seen(step: str, journal: Mapping[str, JournalEntry]) -> tuple[str, ...]:
    """Journal ids of what stands by now."""
    return tuple(id_ for id_ in entries(step) if id_ in journal)


def removed_again(step: str, journal: Mapping[str, JournalEntry], now: datetime) -> str | None:
    """Why nothing more is begun: the throttle was removed more than once."""
    entry = journal.get(entries(step)[1])
    if entry is None or (now - entry.last_asked).total_seconds() >= CALM_SECONDS:
        return None
    calm = format_duration(CALM_SECONDS)
    return (
        f"another client removed the throttle more than once during the copy ({entry.detail}). It is set again; "
        f"the run starts nothing more until it has stayed for {calm}. Find that client, or reject the run"
    )


def _accounts(gone: Collection[SettingKey], snapshot: Snapshot) -> str:
    """What the owners of these topics say."""
    topics = sorted({key[1] for key in gone if key[0] == "TOPIC"})
    owners = owners_by_topic(snapshot)
    if owners is None:
        return "whether these topics have owners is not known"
    found = [owners[topic] for topic in topics if topic in owners]
    said = [f"{owner.kind} {owner.name} {'acts on it' if owner.acts else 'is paused'}" for owner in found]
    return some(said, 5) if said else "no object of another operator describes it"
