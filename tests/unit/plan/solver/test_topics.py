"""Each topic is even by itself: its replicas and preferred leaders on each broker, beside the bounds."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.plan_topics import CASES, missed, problem
from kafka_medic.plan.relocation import Leave, Relocation
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.solver.racks import least_in_racks
from kafka_medic.plan.solver.relocate import plan_relocation
from kafka_medic.plan.solver.sites import Sites, kinds_of
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.topic_bounds import excess, leading_excess
from kafka_medic.plan.topic_cells import Cells
from kafka_medic.plan.verify.moves import verify_moves
from kafka_medic.plan.verify.rules import verify
from kafka_medic.plan.wanted import Wanted
from tests.unit.plan.cluster_tables import brokers, partitions
from tests.unit.plan.cluster_tables import problem as small_problem
from tests.unit.plan.spark.in_blocks import planned_in_blocks

SMALL = [case for case in CASES if case.brokers <= 16 or len(set(case.topics)) == 1]


def above(summary) -> int:
    """How far the worst topic is above its bound."""
    return max(found.max - found.bound for found in (summary.topic_replicas, summary.topic_leaders))


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_no_topic_is_more_than_one_above_its_bound(case):
    request = problem(case)
    plan = plan_local(request)
    assert above(plan.summary) <= 1
    assert missed(plan.summary) == ""
    assert verify(request, plan) == []


@pytest.mark.parametrize("case", [case for case in SMALL if case.name.startswith("kafka")], ids=lambda case: case.name)
def test_no_topic_is_more_than_two_above_its_bound_in_blocks(case):
    request = problem(case)
    question = Question(request.brokers, Wanted(case.factor, case.factors))
    _, done = planned_in_blocks(request.partitions, question, request.partitions.num_rows // 3)
    assert above(done.summary) <= 2


def test_a_topic_as_kafka_lays_it_out_does_not_come_to_one_broker():
    # Consecutive partitions on consecutive brokers: each is of another kind, and all kinds were dealt alike.
    held = {f"t{topic:02}": [[(topic + n) % 60] for n in range(60)] for topic in range(40)}
    found = plan_local(small_problem(held, 60, 3)).summary.topic_replicas
    assert (found.max, found.bound) == (3, 3)


def test_leaders_of_topics_that_lie_askew_come_to_the_optimum():
    rng = np.random.default_rng(1)
    held = {f"t{topic}": [[int(b)] for b in rng.choice(6, 100, p=[0.5, *[0.1] * 5])] for topic in range(10)}
    found = plan_local(small_problem(held, 6, 3)).summary.topic_leaders
    assert (found.max, found.bound) == (17, 17)


@pytest.mark.parametrize("racks", [12, "abcd" * 3])
def test_what_leaves_two_brokers_is_laid_apart_by_topic_as_well(racks):
    rows = {f"t{topic}": [[(topic + n + more) % 12 for more in range(3)] for n in range(60)] for topic in range(12)}
    request = Relocation(partitions(rows), brokers(racks), Leave((3, 7), gone=False))
    plan = plan_relocation(request)
    assert verify_moves(request, plan) == []
    assert above(plan.summary) <= 1


def test_equal_input_gives_an_equal_plan():
    case = next(case for case in SMALL if case.name.startswith("skewed"))
    assert plan_local(problem(case)).table.equals(plan_local(problem(case)).table)


def test_the_bound_knows_that_a_rack_of_one_broker_gets_one_of_each_partition():
    sites = Sites(np.array([0, 1, 1, 2, 2], np.int32), np.zeros(5, np.int64), 3)
    held = np.array([[1]] * 8, np.int32)
    kinds, kind = kinds_of(held, np.full(8, 2, np.int32), sites)
    assert least_in_racks(kinds, kind, np.repeat([0, 1], [6, 2]), 2, sites).tolist() == [6, 2]


def test_the_bound_knows_that_a_new_broker_takes_most_of_everything():
    # Two topics of ten get ten replicas each; the new broker gets eighteen, so nine of one of them.
    stays = Cells([np.repeat([0, 1, 4, 5], 5)], 2, 4, 10)
    come, live = np.array([0, 0, 2, 18]), np.ones(4, bool)
    own = np.array([5, 5])
    assert excess(come, own, np.array([10, 10]), stays, live, np.array([10, 10])) == 4
    assert excess(np.array([5, 5, 5, 5]), own, np.array([10, 10]), stays, live, np.array([10, 10])) == 0


def test_the_bound_knows_what_a_broker_that_leads_much_can_lead():
    replicas = Cells([np.repeat([0, 1, 3], [9, 1, 6])], 2, 3, 16)
    assert leading_excess(np.array([9, 0, 0]), np.array([4, 4]), replicas) == 1
    assert leading_excess(np.array([8, 0, 0]), np.array([4, 4]), replicas) == 0


@pytest.mark.parametrize("dense", [True, False])
def test_cells_are_counted_alike_in_a_table_and_in_order(dense, monkeypatch):
    if not dense:
        monkeypatch.setattr("kafka_medic.plan.topic_cells.DENSE", 0)
    cells = Cells([np.array([5, 0, 5], np.int32)], 3, 3, 9)
    cells.extend(np.array([2, 8, 5], np.int32))
    assert (cells.most().tolist(), cells.total().tolist(), cells.on_brokers().tolist()) == (
        [1, 3, 1],
        [2, 3, 1],
        [1, 0, 5],
    )
    assert cells.total(np.array([True, False, False])).tolist() == [1, 0, 0]
    assert cells.capped(np.array([9, 2, 0])).tolist() == [1, 0, 3]
    cells.add(np.array([5, 7, 7], np.int32), -1)
    cells.add(np.array([7, 7, 7, 7], np.int32), 1)
    assert cells.read(np.array([5, 7, 3], np.int32)).tolist() == [2, 2, 0]
    assert cells.above(np.array([0, 1, 1])).tolist() == [0, 2, 5, 7]
