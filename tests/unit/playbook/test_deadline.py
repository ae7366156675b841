"""The time in which people hold a step."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kafka_medic.playbook.deadline import note_hold
from kafka_medic.resources.remediation_status import RemediationStatus, StepPhase, StepStatus
from kafka_medic.resources.vocabulary import ActionName

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def held(*, before: int, now: datetime) -> StepStatus:
    """A hold that began at NOW, after `before` seconds of others, as it is when it ends."""
    step = StepStatus(
        name="restart", action=ActionName.RESTART_BROKERS, phase=StepPhase.RUNNING, heldSeconds=before, heldSince=NOW
    )
    (step,) = note_hold(RemediationStatus(steps=(step,)), "restart", False, now).steps
    return step


def test_holds_are_added_up():
    step = held(before=30, now=NOW + timedelta(seconds=12))
    assert (step.held_since, step.held_seconds) == (None, 42)


def test_a_hold_that_another_operators_clock_dated_later_lasted_no_time():
    """The operator that wrote it down runs on a machine whose clock is a minute ahead."""
    assert held(before=30, now=NOW - timedelta(minutes=1)).held_seconds == 30
    assert held(before=0, now=NOW - timedelta(minutes=1)).held_seconds == 0
