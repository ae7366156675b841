"""Limits on moves and bytes of a table in several blocks: kept to over all of them, and used as in one process."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_medic.plan.allowed import Allowed, LeftOut
from kafka_medic.plan.model import Plan
from kafka_medic.plan.problem import Problem
from kafka_medic.plan.relocation import Leave, LowerImbalance, Relocation, SpreadRacks
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.solver.relocate import plan_relocation
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.verify.moves import verify_moves
from kafka_medic.plan.verify.rules import verify
from kafka_medic.plan.wanted import Wanted
from tests.property.plan.test_plan_properties import CALM, clusters, tried
from tests.unit.plan.cluster_tables import brokers, partitions
from tests.unit.plan.spark.in_blocks import planned_in_blocks


def table(rows, sizes=None):
    count = sum(map(len, rows.values()))
    return partitions(rows, sizeBytes=pa.array([10] * count if sizes is None else sizes, pa.int64()))


WIDE = {f"t{n:02}": [[(n + i) % 6] for i in range(9)] for n in range(12)}


def raised(rows, allowed, sizes=None, racks="aabbcc", block=20, factor=2):
    """(the plan in blocks, the same in one process), both verified."""
    given_rows, listed = table(rows, sizes), brokers(racks)
    request = Problem(given_rows, listed, factor, allowed=allowed)
    plan, done = planned_in_blocks(given_rows, Question(listed, Wanted(factor), allowed=allowed), block)
    assert done.problems == ()
    assert verify(request, Plan(plan, sizes_of(given_rows, plan), done.summary)) == []
    return plan, done, plan_local(request)


def sizes_of(given_rows, plan):
    size = {(row["topic"], row["partition"]): row["sizeBytes"] for row in given_rows.to_pylist()}
    return pa.array([size[row["topic"], row["partition"]] for row in plan.to_pylist()], pa.int64())


def received(plan, what=lambda _: 1):
    found = Counter()
    for row in plan.to_pylist():
        for broker in set(row["replicas"]) - set(row["replicasBefore"]):
            found[broker] += what(row)
    return found


def test_moves_in_all_are_used_up_over_all_blocks():
    plan, done, here = raised(WIDE, Allowed(moves=50))
    assert done.summary.moves == here.summary.moves == plan.num_rows == 50
    assert done.summary.left_out == here.summary.left_out == {LeftOut.OVER_LIMIT: 58}


def test_the_most_exposed_partitions_come_first_wherever_they_lie():
    rows = {f"t{n}": [[0, 1]] * 8 for n in range(6)} | {"z": [[2]] * 8}
    plan, done, here = raised(rows, Allowed(moves=18), factor=3)
    assert {row["topic"] for row in plan.to_pylist() if len(row["replicasBefore"]) == 1} == {"z"}
    assert [row["topic"] for row in plan.to_pylist()].count("z") == 8
    assert done.summary.moves == here.summary.moves == 18


def test_bytes_in_all_are_used_up_though_a_block_cannot_use_what_it_gets():
    rng = np.random.default_rng(3)
    sizes = np.where(rng.random(108) < 0.1, 500, rng.integers(1, 40, 108))
    _, done, here = raised(WIDE, Allowed(bytes=900), sizes.tolist())
    assert done.copied <= 900
    assert done.copied >= 0.95 * 900
    assert done.summary.moves >= 0.5 * here.summary.moves


def test_a_partition_that_no_limit_has_room_for_keeps_no_other_from_its_turn():
    sizes = [10**6 if n % 9 == 0 else 10 for n in range(108)]
    _, done, here = raised(WIDE, Allowed(bytes=5000), sizes)
    assert done.summary.moves == here.summary.moves == 96
    assert done.summary.left_out == {LeftOut.OVER_LIMIT: 12}


def test_sizes_that_are_not_known_are_left_out_of_a_limit_on_bytes():
    sizes = [None if n % 9 == 0 else 10 for n in range(108)]
    _, done, here = raised(WIDE, Allowed(bytes=10_000), sizes)
    assert done.summary.left_out == here.summary.left_out == {LeftOut.UNKNOWN_SIZE: 12}


def test_no_broker_receives_more_than_it_may_from_all_blocks_together():
    rows = {f"t{n:02}": [[n % 4] for _ in range(9)] for n in range(12)}
    plan, done, here = raised(rows, Allowed(moves_per_broker=17), racks=6)
    assert max(received(plan).values()) <= 17
    # Two brokers are empty and would get nearly everything; the others have room for the rest.
    assert done.summary.moves >= 0.9 * here.summary.moves
    assert done.summary.replicas_per_broker.bound <= done.summary.replicas_per_broker.max


def test_bytes_of_a_broker_are_kept_to_over_all_blocks():
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 50, 108).tolist()
    plan, done, here = raised(WIDE, Allowed(bytes_per_broker=300), sizes)
    size = dict(zip(((t, n) for t, rows in WIDE.items() for n in range(len(rows))), sizes, strict=True))
    assert max(received(plan, lambda row: size[row["topic"], row["partition"]]).values()) <= 300
    assert done.summary.moves >= 0.8 * here.summary.moves


def test_limits_that_hold_nothing_back_change_nothing():
    free, _, _ = raised(WIDE, Allowed())
    held, done, _ = raised(WIDE, Allowed(moves=10**6, bytes=10**9))
    assert held.equals(free)
    assert done.summary.left_out == {}


@pytest.mark.parametrize("ask", [Leave((1,), gone=False), Leave((0, 2), gone=True, skip_lost=True), SpreadRacks()])
@pytest.mark.parametrize("allowed", [Allowed(moves=20), Allowed(bytes=150), Allowed(moves_per_broker=5)])
def test_questions_that_move_replicas_keep_to_limits_in_blocks(ask, allowed):
    rows = {f"t{n:02}": [[n % 6, 6 + n % 3], [n % 6, (n + 1) % 6], [0, 1]] * 3 for n in range(14)}
    given_rows, listed = table(rows), brokers("aabbccabc")
    request = Relocation(given_rows, listed, ask, allowed)
    plan, done = planned_in_blocks(given_rows, Question(listed, ask, allowed=allowed), 20)
    here = plan_relocation(request).summary
    assert done.problems == ()
    assert verify_moves(request, Plan(plan, sizes_of(given_rows, plan), done.summary)) == []
    assert 0 < done.summary.moves <= here.moves
    if allowed.moves_per_broker is None:
        assert done.summary.moves >= here.moves - 2
        assert done.summary.left_out.keys() == here.left_out.keys()


@pytest.mark.parametrize("allowed", [Allowed(bytes=100), Allowed(moves_per_broker=2), Allowed(bytes_per_broker=40)])
def test_imbalance_is_lowered_within_limits_in_blocks(allowed):
    rows = {f"t{n:02}": [[0, 1 + n % 2]] * 9 for n in range(9)}
    given_rows, listed = table(rows), brokers(6)
    request = Relocation(given_rows, listed, LowerImbalance(40), allowed)
    plan, done = planned_in_blocks(given_rows, Question(listed, LowerImbalance(40), allowed=allowed), 20)
    assert done.problems == ()
    assert verify_moves(request, Plan(plan, sizes_of(given_rows, plan), done.summary)) == []
    assert done.summary.moves >= 0.7 * plan_relocation(request).summary.moves > 0


def test_imbalance_is_lowered_on_disks_with_little_room_in_blocks():
    rows = {f"t{n:02}": [[0, 1 + n % 2]] * 9 for n in range(9)}
    given_rows = table(rows)
    listed = tuple(b if b.id < 3 else type(b)(b.id, b.rack, disk_free=60) for b in brokers(6))
    plan, done = planned_in_blocks(given_rows, Question(listed, LowerImbalance(40)), 20)
    assert done.problems == ()
    assert max(count for broker, count in received(plan).items() if broker > 2) <= 6
    assert done.summary.moves > 0


@settings(max_examples=tried(20), derandomize=True, suppress_health_check=CALM)
@given(clusters(partitions=(20, 60)), st.sampled_from([8, 16, 40]), st.data())
def test_any_limits_are_kept_to_by_the_verifiers_own_count(problem, rows, data):
    limit = st.one_of(st.none(), st.integers(1, 60))
    size = st.one_of(st.none(), st.integers(1, 1 << 34))
    allowed = Allowed(moves=data.draw(limit), bytes=data.draw(size), moves_per_broker=data.draw(limit),
                      bytes_per_broker=data.draw(size))  # fmt: skip
    wanted = Wanted(1, tuple(problem.topic_factors.items()))
    request = Problem(problem.partitions, problem.brokers, 1, problem.topic_factors, allowed=allowed)
    plan, done = planned_in_blocks(problem.partitions, Question(problem.brokers, wanted, allowed=allowed), rows)
    assert done.problems == ()
    assert verify(request, Plan(plan, sizes_of(problem.partitions, plan), done.summary)) == []
    here = plan_local(request).summary
    if allowed.bytes is None and allowed.moves_per_broker is None and allowed.bytes_per_broker is None:
        assert done.summary.moves >= here.moves - max(problem.topic_factors.values())
