"""When a run may act: windows on the wall clock, limits, cooldown, breaker, pause, lease."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.run import judge_run
from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook.refusal import NO_DIGEST
from kafka_medic.resources.kafkacluster_remediation import RemediationPolicy
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation_plan import PartitionChange, Plan

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)  # a Thursday


def asked(policy=None, others=(), lease=True, now=NOW, starting=True, **run):
    rules = RemediationPolicy.model_validate(policy or {})
    reasons = judge_run(rules, others, lease, now, starting=starting, **run)
    return {r.guard: r for r in reasons}


def ended(name, ago, phase=Phase.SUCCEEDED, plan=None):
    return OtherRun(name, phase, NOW - timedelta(minutes=ago + 1), NOW - timedelta(minutes=ago), plan=plan)


def reordering(before, after):
    order = PartitionChange(topic="orders", partition=0, replicas_before=before, replicas=after)
    return Plan(digest=NO_DIGEST, proposed_at=NOW, expires_at=NOW, reorders=(order,))


def test_nothing_in_the_way():
    found = asked()
    assert set(found) == {"NotPaused", "WithinWindow", "LeaseHeld", "NoOtherRemediation", "WithinLimits"}
    assert {r.verdict for r in found.values()} == {Verdict.ALLOW}


def window(start, end, zone="Europe/Berlin", days=("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")):
    return {"windows": [{"days": list(days), "start": start, "end": end, "timeZone": zone}]}


def inside(policy, text):
    verdict = asked(policy, now=datetime.fromisoformat(text))["WithinWindow"].verdict
    assert verdict in (Verdict.ALLOW, Verdict.WAIT)
    return verdict is Verdict.ALLOW


def test_a_window_has_its_first_minute_and_not_its_last():
    day = window("09:00", "17:00", "UTC")
    assert [inside(day, f"2026-01-01T{t}+00:00") for t in ("08:59:59", "09:00:00", "16:59:59", "17:00:00")] == [
        False, True, True, False,
    ]  # fmt: skip


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_starts():
    night = window("22:00", "04:00", "UTC", days=["Fri"])  # 2026-01-02 is a Friday
    assert not inside(night, "2026-01-02T03:00:00+00:00")  # the night from Thursday
    assert not inside(night, "2026-01-02T21:59:00+00:00")
    assert inside(night, "2026-01-02T22:00:00+00:00")
    assert inside(night, "2026-01-03T03:59:00+00:00")
    assert not inside(night, "2026-01-03T04:00:00+00:00")
    assert not inside(night, "2026-01-03T22:30:00+00:00")
    sunday = window("22:00", "04:00", "UTC", days=["Sun"])
    assert inside(sunday, "2026-01-05T03:00:00+00:00"), "Monday's small hours belong to Sunday"


def test_the_wall_clock_counts_when_daylight_saving_changes():
    night = window("01:00", "04:00")
    # 2026-03-29, Berlin: 02:00 CET is 03:00 CEST, so the window is two hours long.
    assert not inside(night, "2026-03-28T23:59:00+00:00")
    assert inside(night, "2026-03-29T00:00:00+00:00")
    assert inside(night, "2026-03-29T01:59:00+00:00")
    assert not inside(night, "2026-03-29T02:00:00+00:00")
    # 2026-10-25: 03:00 CEST is 02:00 CET again, so it is four hours long.
    assert inside(night, "2026-10-24T23:00:00+00:00")
    assert inside(night, "2026-10-25T02:59:00+00:00")
    assert not inside(night, "2026-10-25T03:00:00+00:00")
    # Winter and summer.
    assert inside(night, "2026-01-10T00:30:00+00:00")
    assert not inside(night, "2026-07-10T02:30:00+00:00")


def test_a_zone_that_nobody_knows_is_unknown_and_never_now():
    found = asked(window("00:00", "23:59", "Europe/Nowhere"))["WithinWindow"]
    assert found.verdict is Verdict.UNKNOWN
    assert "Europe/Nowhere" in found.message


@pytest.mark.parametrize("zone", ["Europe", "America/Argentina"])
def test_a_zone_that_cannot_be_one_is_unknown_and_not_a_fault(zone):
    assert asked(window("00:00", "23:59", zone))["WithinWindow"].verdict is Verdict.UNKNOWN


def test_a_pause_waits_and_says_why():
    found = asked({"paused": True, "pauseReason": "freeze until Monday"})["NotPaused"]
    assert found.verdict is Verdict.WAIT
    assert "freeze until Monday" in found.message


@pytest.mark.parametrize(("held", "verdict"), [(True, "Allow"), (False, "Wait"), (None, "Unknown")])
def test_the_lease(held, verdict):
    assert asked(lease=held)["LeaseHeld"].verdict == verdict


@pytest.mark.parametrize("phase", list(Phase))
def test_one_run_acts_at_a_time(phase):
    acting = phase in (Phase.RUNNING, Phase.VERIFYING, Phase.PAUSED, Phase.BLOCKED)
    found = asked(others=[OtherRun("other", phase, None, None)])["NoOtherRemediation"]
    assert (found.verdict is Verdict.WAIT) == acting


def test_other_runs_that_could_not_be_read_permit_nothing():
    assert asked(others=None)["NoOtherRemediation"].verdict is Verdict.UNKNOWN


def test_so_many_a_day():
    policy = {"limits": {"perDay": 2, "cooldown": "0s"}}
    many = [ended("a", 60), ended("b", 23 * 60)]
    found = asked(policy, many)["WithinLimits"]
    assert found.verdict is Verdict.WAIT
    assert asked(policy, [ended("a", 60), ended("b", 24 * 60)])["WithinLimits"].verdict is Verdict.ALLOW
    assert asked({"limits": {"perDay": 0}})["WithinLimits"].verdict is Verdict.WAIT
    # A run that has begun is better finished than left half-way.
    assert "WithinLimits" not in asked(policy, many, starting=False)


def test_a_rest_after_each():
    found = asked({"limits": {"cooldown": "10m"}}, [ended("a", 4)])["WithinLimits"]
    assert found.verdict is Verdict.WAIT
    assert found.message == "a ended 240 s ago; limits.cooldown is 10m"
    assert asked({"limits": {"cooldown": "10m"}}, [ended("a", 10)])["WithinLimits"].verdict is Verdict.ALLOW


def test_no_rest_between_a_drain_and_its_own_way_back():
    policy, drain = {"limits": {"cooldown": "10m"}}, reordering((1, 2), (2, 1))
    back = OtherRun("back", None, None, None, plan=reordering((2, 1), (1, 2)))
    drained = ended("away", 1, plan=drain)
    assert asked(policy, [drained], itself=back, takes_back=True)["WithinLimits"].verdict is Verdict.ALLOW
    assert asked(policy, [drained], itself=back)["WithinLimits"].verdict is Verdict.WAIT, (
        "the next drain is another one"
    )
    for others in ([drained, ended("x", 4)], [ended("x", 4, plan=reordering((1, 2), (2, 3)))]):
        found = asked(policy, others, itself=back, takes_back=True)["WithinLimits"]
        assert "x ended 240 s ago" in found.message


def test_no_rest_between_the_parts_of_one_drain():
    policy, plan = {"limits": {"cooldown": "10m"}}, reordering((1, 2), (2, 1))
    first = replace(ended("first", 1, plan=plan), playbook="drain-broker", cause="NodeMaintenance/broker-1")
    second = replace(first, name="second", phase=None, started_at=None, finished_at=None)
    assert asked(policy, [first], itself=second)["WithinLimits"].verdict is Verdict.ALLOW
    for other in ({"cause": "NodeMaintenance/broker-2"}, {"cause": None}, {"playbook": "undrain-broker"}):
        assert asked(policy, [replace(first, **other)], itself=second)["WithinLimits"].verdict is Verdict.WAIT


def test_the_breaker_opens_after_failures_in_a_row_and_only_then():
    policy = {"breaker": {"failures": 2}, "limits": {"cooldown": "0s"}}
    row = [ended("a", 90, Phase.FAILED), ended("b", 60, Phase.FAILED)]
    assert asked(policy, row)["WithinLimits"].verdict is Verdict.DENY
    assert asked(policy, [*row, ended("c", 30)])["WithinLimits"].verdict is Verdict.ALLOW
    between = [row[0], ended("c", 75), row[1]]
    assert asked(policy, between)["WithinLimits"].verdict is Verdict.ALLOW
    # One that was rejected before it began has not failed, nor does it close the breaker.
    never_began = OtherRun("d", Phase.REJECTED, None, NOW - timedelta(minutes=10))
    assert asked(policy, [*row, never_began])["WithinLimits"].verdict is Verdict.DENY
