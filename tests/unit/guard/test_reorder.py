"""An order of replicas is changed only where the partition is as the plan saw it, and nothing but the order."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.guard.reorder import judge_reorder
from kafka_medic.guard.verdict import Verdict
from kafka_medic.resources.vocabulary import Guard
from tests.unit.cluster import worlds

TP = TopicPartition("orders", 0)
BEFORE, AFTER = (1, 2, 3), (2, 1, 3)


def preconditions(after: tuple[int, ...] = AFTER, **row: Any) -> tuple[Verdict, str]:
    rows = [worlds.partition("orders", 0, BEFORE) | row, *worlds.ROWS[1:]]
    told = judge_reorder(worlds.healthy(rows=rows), {TP: (BEFORE, after)}, worlds.NOW).reasons
    (reason,) = (r for r in told if r.guard is Guard.PRECONDITIONS_HOLD)
    return reason.verdict, reason.message


@pytest.mark.parametrize("replicas", [BEFORE, AFTER])
def test_as_the_plan_saw_it_or_wants_it(replicas: tuple[int, ...]) -> None:
    assert preconditions(replicas=replicas) == (Verdict.ALLOW, "no partition changed since the plan")


@pytest.mark.parametrize("replicas", [(3, 2, 1), (1, 2), (1, 2, 3, 4)])
def test_replicas_that_somebody_else_has_changed(replicas: tuple[int, ...]) -> None:
    assert preconditions(replicas=replicas) == (Verdict.DENY, "drift since the plan: orders-0")


def test_replicas_that_are_not_known() -> None:
    assert preconditions(replicas=None) == (Verdict.UNKNOWN, "the replicas are not known: orders-0")


def test_a_topic_that_is_gone() -> None:
    gone = worlds.healthy(rows=worlds.ROWS[1:])
    told = judge_reorder(gone, {TP: (BEFORE, AFTER)}, worlds.NOW)
    assert "drift since the plan: orders-0" in {r.message for r in told.refusals}


@pytest.mark.parametrize("after", [(2, 1), (2, 1, 3, 4), (2, 1, 4)])
def test_more_than_the_order(after: tuple[int, ...]) -> None:
    assert preconditions(after) == (Verdict.DENY, "the plan changes more than the order of orders-0")
