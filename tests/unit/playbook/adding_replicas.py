"""A plan that adds replicas, and worlds in which it has come so far."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kafka_medic.playbook.effects import ChangeSettings
from kafka_medic.playbook.reassign import reassign_step
from kafka_medic.resources.remediation_plan import PartitionChange, Plan
from kafka_medic.resources.remediation_status import IntentState, JournalEntry, saved_from
from tests.unit.cluster import worlds

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
STEP = "add"
CHANGES = (
    PartitionChange(topic="orders", partition=0, replicas_before=(1,), replicas=(1, 2, 3), wave=0),
    PartitionChange(topic="orders", partition=1, replicas_before=(2, 1), replicas=(2, 1, 3), wave=0),
    PartitionChange(topic="logs", partition=0, replicas_before=(3,), replicas=(3, 1, 2), wave=1),
)
BEFORE, DONE, MOVING = "before", "done", "moving"


def plan(changes=CHANGES, throttle=1000, configs=()):
    return Plan(
        digest="sha256:" + "0" * 64,
        proposed_at=NOW,
        expires_at=NOW + timedelta(hours=1),
        throttle_bytes_per_second=throttle,
        changes=changes,
        config_changes=configs,
    )


def row(change, state):
    after, before = list(change.replicas), list(change.replicas_before)
    if state == BEFORE:
        return worlds.partition(change.topic, change.partition, before)
    added = [b for b in after if b not in before]
    if state == MOVING:
        return worlds.partition(change.topic, change.partition, after, isr=before, adding=added)
    if state == "behind":
        return worlds.partition(change.topic, change.partition, after, isr=before)
    return worlds.partition(change.topic, change.partition, after)


def seen(*states, settings=(), changes=CHANGES, **more):
    rows = [row(c, s) for c, s in zip(changes, states, strict=True)]
    table = worlds.configs(*((*key, value, True) for key, value in dict(settings).items()))
    views = tuple(worlds.view(n, rows) for n in worlds.IDS)
    return worlds.healthy(rows=rows, **{"views": views, "configs": table, **more})


def entry(name, state=IntentState.INTENDED, saved=None, kind="Reassign"):
    return JournalEntry(
        id=f"{STEP}/{name}", step=STEP, kind=kind, state=state, intended_at=NOW, saved=saved_from(saved or {})
    )


def journal(*entries):
    return {e.id: e for e in entries}


def assess(snapshot, *entries, of=None, now=NOW):
    return reassign_step.assess(STEP, of or plan(), journal(*entries), snapshot, now)


def undo(snapshot, *entries):
    return reassign_step.undo(STEP, plan(), journal(*entries), snapshot)


def throttled(was=None):
    """What the throttle step wants, and the journal entry that it leaves."""
    report = assess(seen(BEFORE, BEFORE, BEFORE, settings=was or {}))
    assert isinstance(report.intent, ChangeSettings)
    return dict(report.intent.settings), entry("throttle", saved=report.saved, kind="ChangeSettings")
