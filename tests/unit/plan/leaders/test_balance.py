from __future__ import annotations

import numpy as np

from kafka_medic.plan.leaders.balance import balance_leaders


def led(replicas, column, brokers):
    return np.bincount(replicas[np.arange(len(replicas)), column], minlength=brokers).tolist()


def test_leadership_is_evened_out_by_reordering_alone():
    replicas = np.array([[0, 1], [0, 2], [0, 1], [0, 2], [0, 1], [0, 2]], np.int32)
    column, bound = balance_leaders(replicas, np.zeros(3, np.int64), np.ones(3, bool))
    assert led(replicas, column, 3) == [2, 2, 2]
    assert bound == 2


def test_what_is_even_already_is_left_as_it_is():
    replicas = np.array([[0, 1], [1, 0]], np.int32)
    column, _ = balance_leaders(replicas, np.zeros(2, np.int64), np.ones(2, bool))
    assert column.tolist() == [0, 0]


def test_a_chain_of_brokers_hands_leadership_on():
    # 0 can give only to 1, 1 only to 2, 2 only to 3: no single move helps.
    replicas = np.array([[0, 1], [0, 1], [1, 2], [2, 3]], np.int32)
    column, bound = balance_leaders(replicas, np.zeros(4, np.int64), np.ones(4, bool))
    assert led(replicas, column, 4) == [1, 1, 1, 1]
    assert bound == 1


def test_the_bound_counts_what_cannot_leave_a_group_of_brokers():
    replicas = np.array([[0, 1]] * 8 + [[2, 3]] * 2, np.int32)
    column, bound = balance_leaders(replicas, np.zeros(4, np.int64), np.ones(4, bool))
    assert led(replicas, column, 4) == [4, 4, 1, 1]
    assert bound == 4


def test_partitions_outside_the_plan_keep_their_leaders_and_count():
    replicas = np.array([[0, 1]] * 4, np.int32)
    column, bound = balance_leaders(replicas, np.array([9, 0, 0]), np.ones(3, bool))
    assert led(replicas, column, 3) == [0, 4, 0]
    assert bound == 9


def test_where_only_some_of_many_are_looked_at_first_the_best_is_found_as_well():
    rng = np.random.default_rng(1)
    replicas = np.argsort(rng.random((150_000, 20)), axis=1)[:, :2].astype(np.int32)
    column, bound = balance_leaders(replicas, np.zeros(20, np.int64), np.ones(20, bool))
    assert bound == 7500
    assert set(led(replicas, column, 20)) == {7500}
