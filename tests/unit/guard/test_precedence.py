"""Which of several runs goes first, and what the others are told."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.precedence import goes_first
from kafka_medic.guard.verdict import Verdict
from kafka_medic.resources.phases import ACTING_PHASES, TERMINAL_PHASES, Phase
from kafka_medic.resources.remediation_status import Cure
from kafka_medic.resources.vocabulary import Guard, Severity

BORN = datetime(2026, 1, 1, 12, tzinfo=UTC)
ALONE = Guard.NO_OTHER_REMEDIATION
HELD = frozenset({ALONE, Guard.ISR_STAYS_ABOVE_MIN})
GRAVITY = (None, *Severity)


def cure(severity: Severity | None) -> Cure | None:
    return None if severity is None else Cure(finding_id=f"Some/{severity.value.lower()}", severity=severity)


def run(name="a", phase=Phase.APPROVED, severity=Severity.WARNING, holds="", **other) -> OtherRun:
    created = BORN + timedelta(minutes=ord(name[0]))
    return OtherRun(name, phase, None, None, created, cause="x", cures=cure(severity), holds=holds, **other)


@pytest.mark.parametrize("phase", sorted(ACTING_PHASES))
def test_a_run_that_holds_nothing_gives_way_to_the_approved_cure_of_a_graver_finding(phase):
    light, grave = run("light", phase), run("grave", severity=Severity.CRITICAL)
    told = goes_first(light, [grave])
    assert (told.verdict, told.remediation) == (Verdict.WAIT, "grave")
    assert told.message == "gives way to grave, which cures Some/critical (Critical)"
    first = goes_first(grave, [light])
    assert (first.verdict, first.message) == (Verdict.ALLOW, "light gives way")
    both = replace(grave, phase=Phase.RUNNING)
    assert goes_first(both, [light]).verdict is Verdict.ALLOW
    assert goes_first(light, [both]).remediation == "grave"
    assert goes_first(light, [replace(grave, phase=Phase.SUCCEEDED)]).verdict is Verdict.ALLOW


def test_what_a_run_has_to_take_back_comes_first():
    light, grave = run("light", Phase.PAUSED, holds="a throttle", owes=True), run("grave", severity=Severity.CRITICAL)
    assert goes_first(light, [grave]).verdict is Verdict.ALLOW
    told = goes_first(grave, [light])
    assert (told.verdict, told.remediation) == (Verdict.WAIT, "light")
    assert told.message == "light is acting on this cluster; one at a time. It holds: a throttle"


@pytest.mark.parametrize("holds", ["a request", None])
def test_what_is_sent_is_seen_settled_before_another_run_acts_and_nothing_more_is_sent(holds):
    light, grave = run("light", Phase.RUNNING, holds=holds), run("grave", severity=Severity.CRITICAL)
    assert goes_first(light, [grave]).remediation == "grave"
    told = goes_first(grave, [light])
    assert (told.verdict, told.remediation) == (Verdict.WAIT, "light")
    assert told.message.startswith("light is acting on this cluster; one at a time")


def test_a_cure_that_could_not_start_anyway_holds_nobody_up():
    """raise-replication-factor may be what makes a broker's restart possible."""
    light, grave = run("light", Phase.BLOCKED), run("grave", severity=Severity.CRITICAL, waits_for=HELD)
    assert goes_first(light, [grave]).verdict is Verdict.ALLOW
    assert goes_first(grave, [light]).verdict is Verdict.WAIT
    assert goes_first(run("light"), [grave]).verdict is Verdict.ALLOW


@pytest.mark.parametrize("phase", [None, Phase.PLANNING, Phase.AWAITING_APPROVAL, *sorted(TERMINAL_PHASES)])
def test_what_nobody_has_approved_overtakes_nobody(phase):
    light, grave = run("light", Phase.PAUSED), run("grave", phase, Severity.CRITICAL)
    assert goes_first(light, [grave]).verdict is Verdict.ALLOW


def test_a_run_that_waits_for_approval_is_told_what_would_be_with_it():
    grave = run("grave", Phase.AWAITING_APPROVAL, Severity.CRITICAL)
    assert goes_first(grave, [run("light", Phase.PAUSED)]).verdict is Verdict.ALLOW
    assert goes_first(grave, [run("light", Phase.PAUSED, holds="a throttle", owes=True)]).verdict is Verdict.WAIT


@pytest.mark.parametrize("severity", GRAVITY)
def test_of_equals_the_one_that_has_begun_goes_first_then_the_older_one(severity):
    old, young = run("a", severity=severity), run("b", severity=severity)
    assert goes_first(old, [young]).verdict is Verdict.ALLOW
    told = goes_first(young, [old])
    assert (told.remediation, told.message) == ("a", "a is also approved and starts first; one at a time")
    young = replace(young, phase=Phase.BLOCKED)
    assert goes_first(young, [old]).verdict is Verdict.ALLOW
    assert goes_first(old, [young]).message == "b is acting on this cluster; one at a time"


def test_a_run_of_an_earlier_version_is_overtaken_by_nobody():
    earlier = replace(run("earlier", Phase.PAUSED), cures=None, holds=None)
    grave = run("grave", severity=Severity.CRITICAL)
    assert goes_first(earlier, [grave]).verdict is Verdict.ALLOW
    assert goes_first(grave, [earlier]).verdict is Verdict.WAIT
