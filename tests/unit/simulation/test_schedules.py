"""A few schedules in every check: those that failed once, and some new ones. `make simulate` runs 10,000."""

from __future__ import annotations

import pytest

from kafka_medic.guard import run as rules
from kafka_medic.guard.verdict import Reason, Verdict
from tests.mutation.allow import without
from tests.simulation import schedules
from tests.simulation.scenarios import prefix
from tests.simulation.schedules import Schedule

KEPT, NOTICED = schedules.kept(), schedules.noticed()


@pytest.mark.parametrize(("why", "schedule"), KEPT, ids=[why for why, _ in KEPT])
def test_what_failed_once_holds(why: str, schedule: Schedule) -> None:
    assert schedules.run(schedule).violation is None


@pytest.mark.parametrize(("mutant", "schedule"), NOTICED, ids=[mutant.rpartition(":")[2] for mutant, _ in NOTICED])
def test_a_missing_guard_is_noticed(mutant: str, schedule: Schedule) -> None:
    """By what the world is like, and not by what another guard says."""
    assert schedules.run(schedule).violation is None
    with without(mutant):
        assert schedules.run(schedule).violation is not None


def test_a_few_schedules_hold_and_run_the_same_way_twice() -> None:
    for seed in range(1, 8):
        schedule = schedules.of_seed(seed)
        outcome = schedules.run(schedule)
        assert outcome.violation is None, schedule
        if seed % 7 == 0:
            assert schedules.run(schedule) == outcome


def test_a_failure_is_told_and_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that does not heed a pause is found out, and only what it takes is kept."""
    _, (moment, *_) = prefix("roll").to_the_end()
    faults = [["at", 5.0, "cordoned", 2, 2.0], ["at", 0.0, "told_to_pause", 15.0], ["at", 9.0, "revoked", 2.0]]
    schedule = Schedule(1, "roll", moment, 2, False, faults)
    assert schedules.run(schedule).violation is None
    permits = Reason("NotPaused", Verdict.ALLOW, "permits everything")
    monkeypatch.setattr(rules, "_not_paused", lambda _: permits)
    assert "while remediation is paused" in (schedules.run(schedule).violation or "")
    small = schedules.shrunk(schedule)
    assert (small.faults, small.operators) == ([["at", 0.0, "told_to_pause", 15.0]], 1)
