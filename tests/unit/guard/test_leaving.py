"""Brokers that are to hold nothing, by whose word."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kafka_medic.guard.leaving import leaving_brokers
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.resources.kafkacluster_status import NodePoolStatus, StrimziStatus
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation_plan import Plan, ReplicaRemovals

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def run(phase: Phase | None, *brokers: int, planned: bool = True) -> OtherRun:
    plan = Plan(digest="sha256:" + "0" * 64, proposed_at=NOW, expires_at=NOW, steps=())
    plan = plan.with_parts(ReplicaRemovals(emptied_brokers=brokers or None))
    return OtherRun("evacuate-1", phase, None, None, plan=plan if planned else None)


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
