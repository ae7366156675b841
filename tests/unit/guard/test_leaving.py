"""Brokers that are to hold nothing, by whose word."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.leaving import departed_brokers, leaving_brokers
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.resources.kafkacluster_status import MAX_DEPARTED, DepartedBrokerStatus, NodePoolStatus, StrimziStatus
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation_plan import Plan, ReplicaRemovals
from tests.unit.cluster import worlds

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def run(phase: Phase | None, *brokers: int, planned: bool = True) -> OtherRun:
    plan = Plan(digest="sha256:" + "0" * 64, proposed_at=NOW, expires_at=NOW, steps=())
    plan = plan.with_parts(ReplicaRemovals(emptied_brokers=brokers or None))
    return OtherRun("evacuate-1", phase, None, None, plan=plan if planned else None, uid="u1")


@pytest.mark.parametrize(
    ("phase", "verb"),
    [
        (Phase.APPROVED, "empties"),
        (Phase.RUNNING, "empties"),
        (Phase.PAUSED, "empties"),
        (Phase.SUCCEEDED, "emptied"),
        *(
            (phase, None)
            for phase in (
                Phase.AWAITING_APPROVAL,
                Phase.REJECTED,
                Phase.EXPIRED,
                Phase.FAILED,
                Phase.ABORTED,
                Phase.SUPERSEDED,
            )
        ),
    ],
)
def test_a_run_names_its_brokers_from_its_approval_until_it_is_given_up(phase: Phase, verb: str | None) -> None:
    expected = {} if verb is None else dict.fromkeys((3, 4), f"Remediation evacuate-1 {verb} it")
    assert leaving_brokers(None, [run(phase, 3, 4)]) == expected


def test_runs_without_a_plan_and_runs_that_empty_nothing_name_nobody() -> None:
    assert leaving_brokers(None, [run(None, 3, planned=False), run(Phase.SUCCEEDED)]) == {}


def test_a_pool_that_is_scaled_down_names_its_brokers() -> None:
    pools = (NodePoolStatus(name="a", ids=(0, 1)), NodePoolStatus(name="b", ids=(2, 3), leaving=(3,)))
    assert leaving_brokers(StrimziStatus(cluster="c", pools=pools), []) == {3: "KafkaNodePool b is scaled down"}


def seen(*brokers: int, hours: float = 0, **changes: object) -> Snapshot:
    at = NOW + timedelta(hours=hours)
    listed = tuple(replace(worlds.broker(1), id=b) for b in brokers)
    return replace(worlds.healthy(at=at), brokers=listed, **changes)  # type: ignore[arg-type]


def after(*snapshots: Snapshot, runs: list[OtherRun] | None = None) -> tuple[DepartedBrokerStatus, ...]:
    """Once each was observed, the first one after nothing."""
    runs = [run(Phase.SUCCEEDED, 3)] if runs is None else runs
    departed: tuple[DepartedBrokerStatus, ...] = ()
    last = None
    for snapshot in snapshots:
        departed, last = departed_brokers(departed, runs, snapshot, last), snapshot.taken_at
    return departed


def hourly(first: float, last: float, *brokers: int) -> list[Snapshot]:
    return [seen(*brokers, hours=first + h) for h in range(int(last - first) + 1)]


def spared(departed: tuple[DepartedBrokerStatus, ...], *runs: OtherRun) -> set[int]:
    return set(leaving_brokers(None, runs or (run(Phase.SUCCEEDED, 3),), departed))


def test_who_was_gone_for_a_day_is_a_new_broker() -> None:
    assert spared(after(*hourly(0, 23, 1, 2))) == {3}
    gone = hourly(0, 24, 1, 2)
    assert spared(after(*gone)) == set()
    assert spared(after(*gone, seen(1, 2, 3, hours=25), seen(1, 2, hours=26))) == set(), "and stays one"
    assert spared(after(*gone, seen(1, 2, 3, hours=90))) == set(), "also after a time without an observation"


def test_who_comes_back_within_a_day_is_the_same_broker() -> None:
    back = [*hourly(0, 22, 1, 2), seen(1, 2, 3, hours=23)]
    assert after(*back) == ()
    assert spared(after(*back, *hourly(24, 30, 1, 2))) == {3}


def test_who_cannot_be_seen_is_not_gone() -> None:
    unread = replace(seen(1, 2), brokers=None)
    assert after(unread) == ()
    assert after(seen(1, 2, sources=worlds.sources(kubernetes="refused"))) == ()
    assert after(seen(1, 2, unplaced=(worlds.pod(9),))) == (), "the Pod may run it"
    (kept,) = after(seen(1, 2), replace(unread, taken_at=NOW + timedelta(hours=1)))
    assert kept.since == NOW


def test_time_in_which_nobody_looked_does_not_count() -> None:
    """The cluster and its operator were off for a weekend."""
    departed = after(seen(1, 2), seen(1, 2, hours=1), seen(1, 2, hours=61))
    assert spared(departed) == {3}
    (one,) = departed
    assert one.since == NOW + timedelta(hours=61)


def test_a_clock_that_jumps_makes_nobody_older() -> None:
    for jump in (48, -48):
        (one,) = after(seen(1, 2), seen(1, 2, hours=jump), seen(1, 2, hours=1))
        assert not one.for_good
        assert one.since == NOW + timedelta(hours=1)


def test_a_later_run_empties_the_new_broker_again() -> None:
    departed = after(*hourly(0, 24, 1, 2))
    again = replace(run(Phase.SUCCEEDED, 3), name="evacuate-2", uid="u2")
    assert spared(departed, run(Phase.SUCCEEDED, 3), again) == {3}


def test_what_no_run_says_any_more_is_forgotten_and_status_has_room() -> None:
    departed = after(seen(1, 2))
    assert departed_brokers(departed, [], seen(1, 2), NOW) == ()
    assert departed_brokers(departed, [run(Phase.RUNNING, 3)], seen(1, 2), NOW) == ()
    many = [replace(run(Phase.SUCCEEDED, n + 3), uid=str(n)) for n in range(MAX_DEPARTED + 1)]
    assert len(after(seen(1, 2), runs=many)) == MAX_DEPARTED
