"""What the operator once took for true: the simulated world contradicts it, and the oracle notices."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from kafka_medic.clients import kafka_admin
from kafka_medic.clients.answers import LogDirs
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.guard import precedence, reassign, replicas, views
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.playbook.restart import order
from tests.simulation import schedules
from tests.simulation.brokers import MIN_ISR
from tests.simulation.kafka import SimKafka
from tests.simulation.scenarios import prefix
from tests.simulation.schedules import Schedule

Patch = Callable[[pytest.MonkeyPatch], None]


def what_the_broker_that_answers_shows(patch: pytest.MonkeyPatch) -> None:
    def shown(snapshot: Any, row: Any, _: Any) -> int:
        return int(snapshot.config("TOPIC", row.topic, MIN_ISR).value)

    patch.setattr(replicas, "least_to_keep", shown)


def one_failed_directory_hides_all(patch: pytest.MonkeyPatch) -> None:
    healthy = SimKafka.log_dirs

    def log_dirs(self: SimKafka, brokers: Sequence[int]) -> Mapping[int, LogDirs | ReadFailed]:
        if self.failed_disk:
            raise ReadFailed(FailureKind.OTHER, "KAFKA_STORAGE_ERROR")
        return healthy(self, brokers)

    patch.setattr(SimKafka, "log_dirs", log_dirs)


def the_operators_own_clock(patch: pytest.MonkeyPatch) -> None:
    def ages(told: Any) -> dict[int, int]:
        return {v.replica_id: int(time.time() * 1000) - v.last_caught_up_timestamp for v in told.current_voters}

    patch.setattr(kafka_admin, "_ages", ages)


def whoever_began_first(patch: pytest.MonkeyPatch) -> None:
    place = precedence._place

    def by_age(run: OtherRun) -> Any:
        owes, _, *rest = place(run)
        return owes, 0, *rest

    patch.setattr(precedence, "_place", by_age)


def whoever_leads_next(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks who that is, and the smaller id goes first."""
    patch.setattr(views, "left_to_stale", lambda *_: {})
    patch.setattr(order, "harmless_first", lambda _, brokers: list(brokers))


def who_is_in_sync_stays_so(patch: pytest.MonkeyPatch) -> None:
    """A reassignment concerns those that get a replica, and the leader."""
    patch.setattr(reassign, "_of_a_new_epoch", lambda _: set())


STALE_FOLLOWER = Schedule(4008888, "filling-zookeeper", 5, 1, False, [["at", 1.799, "diverges", 2, 2, 45.0]])
UNEVEN = Schedule(1, "uneven", 0, 1, True, [])
NOTICED: list[tuple[Patch, Schedule, str]] = [
    (what_the_broker_that_answers_shows, UNEVEN, "takes spared-"),
    (one_failed_directory_hides_all, Schedule(1, "failed-disk", 0, 1, True, []), "a run does not end"),
    (the_operators_own_clock, Schedule(1, "roll", 0, 1, True, []), "a run does not end"),
    (whoever_leads_next, Schedule(1, "stale-pair", 0, 1, True, []), "led by broker 3, known to be stale"),
    (whoever_began_first, Schedule(1, "overtaken", 0, 1, True, []), "keeps it waiting"),
    (who_is_in_sync_stays_so, STALE_FOLLOWER, "a new leader epoch, of which [2] in its ISR would not hear"),
]


@pytest.mark.parametrize(("belief", "schedule", "violation"), NOTICED, ids=[b.__name__ for b, *_ in NOTICED])
def test_it_is_noticed(monkeypatch: pytest.MonkeyPatch, belief: Patch, schedule: Schedule, violation: str) -> None:
    prefix(schedule.scenario).moment(schedule.moment)  # by the product as it is
    belief(monkeypatch)
    assert violation in (schedules.run(schedule).violation or "")


@pytest.mark.parametrize("schedule", [s for _, s, _ in NOTICED if s is not UNEVEN], ids=lambda s: s.scenario)
def test_without_it_every_run_ends(schedule: Schedule) -> None:
    assert schedules.run(schedule).violation is None


def test_where_one_leader_could_spare_none_nothing_is_restarted() -> None:
    """Which a person has to end."""
    outcome = schedules.run(UNEVEN)
    assert outcome.effects == 0
    assert "spared (2 replicas, min.insync.replicas 2)" in (outcome.violation or "")
