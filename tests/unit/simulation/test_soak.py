"""Many schedules in a row: one that raises is reported, and the others run all the same."""

from __future__ import annotations

import pytest

from kafka_medic.clients.failures import FailureKind, ReadFailed
from tests.simulation import schedules, soak
from tests.simulation.schedules import Outcome, Schedule


def test_a_schedule_that_raises_is_a_failure_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(schedule: Schedule) -> Outcome:
        if schedule.seed == 8:
            raise ReadFailed(FailureKind.UNREACHABLE, "simulated")
        return Outcome(violation=None, reconciles=1, events=1, effects=0)

    monkeypatch.setattr(schedules, "run", run)
    reconciles, _, _, _, failed = soak._chunk(range(7, 10))
    assert reconciles == 2
    ((seed, told, kept),) = failed
    assert seed == 8
    assert "raised ReadFailed" in told
    assert '"seed": 8' in kept
