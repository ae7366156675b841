"""The plan as a whole, on clusters small enough to see the answer."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafka_medic.plan.model import PLAN_SCHEMA, Move
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.verify.rules import verify
from tests.unit.plan.cluster_tables import problem


def test_a_second_broker_gets_one_replica_of_everything():
    request = problem({"__consumer_offsets": [[1]] * 3, "orders": [[1]] * 2}, 2, 2)
    plan = plan_local(request)
    assert plan.table.schema == PLAN_SCHEMA
    assert plan.table.column("replicas").to_pylist() == [[1, 0]] * 5
    assert plan.summary.leaders_per_broker.to_json() == {"min": 2, "max": 3, "bound": 3, "anyPlan": 3}
    assert verify(request, plan) == []


def test_enough_replicas_are_never_touched_nor_removed():
    request = problem({"full": [[0, 1, 2]], "more": [[0, 1, 2, 3]], "low": [[3]]}, 4, 3)
    plan = plan_local(request)
    assert plan.table.column("topic").to_pylist() == ["low"]
    assert plan.summary.moves == plan.summary.lower_bound_moves == 2


def test_nothing_to_do_is_an_empty_plan():
    request = problem({"t": [[0, 1]]}, 2, 2)
    plan = plan_local(request)
    assert (plan.table.num_rows, plan.summary.waves, list(plan.moves())) == (0, 0, [])
    assert verify(request, plan) == []


def test_no_partitions_at_all_is_an_empty_plan():
    request = problem({}, 2, 2)
    assert plan_local(request).summary.moves == 0


def test_old_replicas_stay_in_front_and_only_the_preferred_order_changes():
    plan = plan_local(problem({"t": [[2, 0]] * 9}, "abc", 3))
    for move in plan.moves():
        assert move.replicas == (2, 0, 1)
        assert sorted(move.preferred_order) == [0, 1, 2]
    assert {move.preferred_order[0] for move in plan.moves()} == {0, 1, 2}


def test_a_move_says_all_that_the_operator_needs():
    request = problem({"t": [[0]]}, 2, 2, sizeBytes=pa.array([7]))
    assert list(plan_local(request).moves()) == [Move("t", 0, (0,), (0, 1), (0, 1), 0, 7)]
    unknown = problem({"t": [[0]]}, 2, 2)
    assert next(plan_local(unknown).moves()).size_bytes is None


def test_each_new_replica_stands_in_a_rack_of_its_own():
    plan = plan_local(problem({"t": [[i % 6] for i in range(60)]}, "aabbcc", 3))
    for move in plan.moves():
        assert {broker // 2 for broker in move.replicas} == {0, 1, 2}
    assert plan.summary.rack_violations == 0
    assert plan.summary.replicas_per_broker.to_json() == {"min": 30, "max": 30, "bound": 30, "anyPlan": 30}


def test_fewer_racks_than_the_factor_are_used_evenly():
    plan = plan_local(problem({"t": [[0]] * 12}, "aaabbb", 4))
    for move in plan.moves():
        assert sum(broker < 3 for broker in move.replicas) == 2
    assert plan.summary.rack_violations == plan.summary.rack_violations_bound == 0


def test_violations_that_the_held_replicas_force_are_counted_on_both_sides():
    plan = plan_local(problem({"t": [[0, 1], [0, 2]]}, "aabc", 3))
    assert (plan.summary.rack_violations, plan.summary.rack_violations_bound) == (1, 1)


def test_racks_come_before_balance():
    # Broker 1 is empty but shares the rack; 2 is full but in another one.
    request = problem({"busy": [[2]] * 20, "t": [[0]]}, "aab", 1, topic_factors={"t": 2})
    assert plan_local(request).table.column("replicas").to_pylist() == [[0, 2]]


def test_new_empty_brokers_are_filled_first():
    plan = plan_local(problem({"t": [[0], [1]] * 10}, 4, 2))
    added = [move.replicas[1] for move in plan.moves()]
    assert (added.count(2), added.count(3)) == (10, 10)


def test_a_dead_broker_gets_nothing():
    plan = plan_local(problem({"t": [[0]] * 6}, 4, 2, dead=[1]))
    assert {move.replicas[1] for move in plan.moves()} == {2, 3}


@pytest.mark.parametrize("ids", [(0, 1, 2), (7, 1000, 2147483647)])
def test_broker_ids_need_not_be_dense(ids):
    from kafka_medic.plan.problem import Broker, Problem
    from tests.unit.plan.cluster_tables import partitions

    request = Problem(partitions({"t": [[ids[0]]] * 4}), tuple(Broker(i) for i in ids), 3)
    plan = plan_local(request)
    assert verify(request, plan) == []
    assert {tuple(sorted(move.replicas)) for move in plan.moves()} == {ids}


def test_a_clash_that_a_later_swap_mended_is_not_mended_again():
    held = [[1]] * 60
    held[39] = held[48] = [4]
    request = problem({"t": held}, "aaaaa", 5)
    plan = plan_local(request)
    assert verify(request, plan) == []
    assert {tuple(sorted(ids)) for ids in plan.table.column("replicas").to_pylist()} == {(0, 1, 2, 3, 4)}
