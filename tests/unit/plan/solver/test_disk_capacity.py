"""No broker gets more bytes than its disks have free, and where that cannot be, the broker and the bytes are named."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from kafka_medic.plan.problem import Broker, Problem, ProblemError
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.verify.rules import verify
from kafka_medic.plan.wanted import Wanted
from tests.unit.plan.cluster_tables import partitions
from tests.unit.plan.spark.in_blocks import planned_in_blocks


def request(rows, sizes, *brokers, factor=2):
    listed = tuple(Broker(number, rack, disk_free=capacity) for number, (rack, capacity) in enumerate(brokers))
    return Problem(partitions({"t": rows}, sizeBytes=pa.array(sizes, pa.int64())), listed, factor)


def brought(problem, plan):
    size_of = {row["partition"]: row["sizeBytes"] or 0 for row in problem.partitions.to_pylist()}
    coming = {broker.id: 0 for broker in problem.brokers}
    for move in plan.moves():
        for broker in set(move.replicas) - set(move.replicas_before):
            coming[broker] += size_of[move.partition]
    return coming


def test_large_replicas_go_where_there_is_capacity_and_counts_stay_even():
    problem = request([[0]] * 8, [1000, 1, 1000, 1, 1000, 1, 1000, 1], ("a", None), ("b", 2500), ("b", 3000))
    plan = plan_local(problem)
    coming = brought(problem, plan)
    assert coming[1] <= 2500
    assert coming[2] <= 3000
    assert (plan.summary.replicas_per_broker.min, plan.summary.replicas_per_broker.max) == (4, 8)
    assert verify(problem, plan) == []


def test_where_swaps_do_not_do_replicas_move_to_brokers_with_capacity():
    problem = request([[0]] * 6, [100] * 6, ("a", None), ("b", 100), ("b", 500))
    plan = plan_local(problem)
    assert brought(problem, plan) == {0: 0, 1: 100, 2: 500}
    assert verify(problem, plan) == []


def test_too_little_capacity_is_refused_by_broker_and_bytes():
    problem = request([[0]] * 4, [1000] * 4, ("a", 0), ("b", 3999))
    with pytest.raises(ProblemError, match=r"broker 1 would get 4,000 bytes of new replicas and has room for 3,999"):
        plan_local(problem)
    question = Question(problem.brokers, Wanted(2))
    with pytest.raises(ProblemError, match=r"broker 1 would get 4,000 bytes"):
        planned_in_blocks(problem.partitions, question, 2)


def test_what_is_not_known_is_not_checked_and_counted():
    problem = request([[0]] * 4, [1000, None, 1000, 1000], ("a", 0), ("b", None), ("c", 2000))
    plan = plan_local(problem)
    assert plan.summary.capacity_unknown == 1
    assert verify(problem, plan) == []
    wrong = replace(plan, summary=replace(plan.summary, capacity_unknown=0))
    assert any("roomUnknown" in rule for rule in verify(problem, wrong))


def test_the_verifier_counts_the_bytes_itself():
    free = request([[0]] * 4, [1000] * 4, ("a", None), ("b", None))
    tight = replace(free, brokers=(Broker(0, "a"), Broker(1, "b", disk_free=3999)))
    plan = plan_local(free)
    assert "broker 1 gets 4000 bytes and has room for 3999" in verify(tight, plan)


@pytest.mark.parametrize(("capacity", "reason"), [(-1, "negative"), (1 << 62, "larger than any disk")])
def test_capacity_that_no_disk_has_is_refused(capacity, reason):
    with pytest.raises(ProblemError, match=f"row 2: diskFree {capacity} of broker 1 is {reason}"):
        request([[0]], [1], ("a", 5), ("b", capacity))
