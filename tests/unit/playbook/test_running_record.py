"""What a run keeps for its report: waits, and how the canary fared."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from kafka_medic.cluster.snapshot import CANARY_SCHEMA
from kafka_medic.playbook.running_record import recorded
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation_status import MAX_WAITS, CanaryEffect, RemediationStatus, Waiting
from kafka_medic.resources.vocabulary import Guard, Verdict

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NONE: tuple[Waiting, ...] = ()


def after(seconds):
    return NOW + timedelta(seconds=seconds)


def waiting(guard=Guard.VIEWS_AGREE, verdict=Verdict.WAIT, message="broker 1 is behind"):
    return (Waiting(guard=guard, verdict=verdict, message=message),)


def over(status, holds, seconds, canary=None, phase=Phase.RUNNING):
    return recorded(status, status.model_copy(update={"waiting_for": holds, "phase": phase}), canary, after(seconds))


def test_a_guard_that_holds_the_run_is_one_wait_from_its_first_refusal_to_its_last():
    status = over(RemediationStatus(), waiting(), 0)
    status = over(status, waiting(message="broker 1 is still behind"), 5)
    status = over(status, NONE, 9)
    (wait,) = status.waits
    assert (wait.guard, wait.verdict, wait.message) == (Guard.VIEWS_AGREE, Verdict.WAIT, "broker 1 is behind")
    assert (wait.since, wait.until) == (NOW, after(9))
    again = over(status, waiting(), 20)
    assert [(w.since, w.until) for w in again.waits] == [(NOW, after(9)), (after(20), None)]


def test_another_verdict_of_the_same_guard_is_another_wait():
    status = over(RemediationStatus(), waiting(), 0)
    status = over(status, waiting(verdict=Verdict.UNKNOWN), 3)
    assert [(w.verdict, w.until) for w in status.waits] == [(Verdict.WAIT, after(3)), (Verdict.UNKNOWN, None)]


def test_a_reconcile_in_which_nothing_happens_changes_nothing():
    status = over(RemediationStatus(phase=Phase.RUNNING), waiting(), 0, canary(5))
    assert over(status, waiting(), 5, canary(4)) == status
    assert over(status, waiting(message="another reason"), 6, canary(5)).waits == status.waits


def test_the_longest_waits_are_kept_and_the_open_ones():
    status = RemediationStatus()
    for n in range(MAX_WAITS + 10):
        status = over(status, waiting(), 100 * n)
        status = over(status, NONE, 100 * n + (50 if n == 0 else 1 + n % 7))
    status = over(status, waiting(Guard.NOT_PAUSED), 99_000)
    assert len(status.waits) == MAX_WAITS
    assert status.waits[0].since == NOW
    assert status.waits[-1].guard is Guard.NOT_PAUSED


def test_a_clock_that_was_set_back_makes_no_negative_wait():
    status = over(over(RemediationStatus(), waiting(), 0), NONE, -30)
    assert status.waits[0].until == NOW


def canary(*produced, failures=(), read=None):
    rows = [
        {
            "topic": "canary",
            "partition": n,
            "produceMs": ms,
            "consumeMs": read,
            "consecutiveFailures": failures[n] if failures else 0,
        }
        for n, ms in enumerate(produced)
    ]
    return pa.Table.from_pylist(rows, CANARY_SCHEMA)


def test_the_canary_is_compared_with_its_first_reading_of_the_run():
    status = over(RemediationStatus(), NONE, 0, canary(4, 7))
    status = over(status, NONE, 5, canary(900, 3))
    status = over(status, NONE, 9, canary(5, None, failures=(0, 3)))
    assert status.canary == CanaryEffect(before_ms=7, worst_ms=900, at=after(5), failing=1)


def test_what_consumers_waited_is_kept_too():
    status = over(RemediationStatus(), NONE, 0, canary(4, read=6))
    status = over(status, NONE, 5, canary(4, read=1500))
    status = over(status, NONE, 9, canary(4, read=None))
    assert (status.canary.consume_before_ms, status.canary.consume_worst_ms) == (6, 1500)


def test_what_is_not_known_of_the_canary_is_left_out():
    assert over(RemediationStatus(), NONE, 0, None).canary is None
    assert over(RemediationStatus(), NONE, 0, canary(None)).canary is None
    waits = over(RemediationStatus(), NONE, 0, canary(5), phase=Phase.AWAITING_APPROVAL)
    assert waits.canary is None
