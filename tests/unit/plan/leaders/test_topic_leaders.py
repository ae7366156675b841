from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_medic.plan.leaders.topic_leaders import spread_leaders
from kafka_medic.plan.problem import Broker, Problem
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.wanted import Wanted
from tests.unit.plan.spark.in_blocks import planned_in_blocks

NOBODY = np.zeros(0, np.int64), np.zeros(0, np.int64)


def led(replicas, column):
    return replicas[np.arange(len(replicas)), column]


def most(topic, leader):
    """The most leaders of each topic on one broker."""
    return {t: int(np.bincount(leader[topic == t]).max()) for t in np.unique(topic).tolist()}


def test_a_topic_that_one_broker_leads_trades_with_others():
    replicas = np.array([[0, 1, 2]] * 9 + [[1, 0, 2]] * 9 + [[2, 0, 1]] * 9, np.int32)
    topic = np.repeat([0, 1, 2], 9)
    column = spread_leaders(replicas, np.zeros(27, np.int32), topic, NOBODY, np.ones(3, bool))
    assert np.bincount(led(replicas, column)).tolist() == [9, 9, 9]
    assert max(most(topic, led(replicas, column)).values()) <= 3


def test_what_lies_apart_is_left_as_it_is():
    replicas = np.array([[0, 1], [1, 0], [2, 0]], np.int32)
    column = np.zeros(3, np.int32)
    assert spread_leaders(replicas, column, np.zeros(3, int), NOBODY, np.ones(3, bool)) is column


def test_a_topic_alone_trades_with_nobody():
    replicas = np.array([[0, 1]] * 6 + [[1, 0]] * 2, np.int32)
    column = np.zeros(8, np.int32)
    assert spread_leaders(replicas, column, np.zeros(8, int), NOBODY, np.ones(4, bool)).tolist() == [0] * 8


def test_three_trade_along_a_path_where_no_two_fit():
    # Nobody who is led by 1 has a replica on 0. Topic 0 is led by 0 alone, the others lie apart.
    replicas = np.array([[0, 1]] * 8 + [[1, 2]] * 8 + [[2, 0]] * 8, np.int32)
    topic = np.array([0] * 8 + list(range(1, 9)) * 2)
    column = spread_leaders(replicas, np.zeros(24, np.int32), topic, NOBODY, np.ones(3, bool))
    assert np.bincount(led(replicas, column)).tolist() == [8, 8, 8]
    found = most(topic, led(replicas, column))
    assert found.pop(0) == 4  # its replicas are on two brokers alone
    assert max(found.values()) <= 2


def test_nothing_is_given_to_a_broker_that_is_not_live():
    # Each trade, and each path, would need broker 1.
    replicas = np.array([[0, 1]] * 8 + [[1, 2]] * 8 + [[2, 0]] * 8, np.int32)
    topic = np.array([0] * 8 + list(range(1, 9)) * 2)
    live = np.array([True, False, True])
    column = spread_leaders(replicas, np.zeros(24, np.int32), topic, NOBODY, live)
    assert not column.any()


@pytest.mark.parametrize(("outside", "left"), [(0, 3), (3, 4)])
def test_leaders_of_partitions_outside_the_plan_count(outside, left):
    # Of five on two brokers one has three at best; of eight, three of them on the other for good, one has four.
    replicas = np.array([[0, 1]] * 5 + [[1, 0]] * 3, np.int32)
    topic = np.array([0] * 5 + [1] * 3)
    others = np.zeros(outside, np.int64), np.ones(outside, np.int64)
    column = spread_leaders(replicas, np.zeros(8, np.int32), topic, others, np.ones(2, bool))
    assert most(topic, led(replicas, column))[0] == left


def test_ten_thousand_partitions_at_random_end_at_the_bound():
    rng = np.random.default_rng(7)
    brokers, each = 60, 40
    replicas = np.argsort(rng.random((10_000, brokers)), axis=1)[:, :3].astype(np.int32)
    topic = np.arange(10_000) // each
    column = np.zeros(10_000, np.int32)
    after = spread_leaders(replicas, column, topic, NOBODY, np.ones(brokers, bool))
    assert max(most(topic, led(replicas, column)).values()) > 2
    assert max(most(topic, led(replicas, after)).values()) <= 2
    assert (np.bincount(led(replicas, after)) == np.bincount(led(replicas, column))).all()


@pytest.mark.parametrize("rows", [None, 3000, 1010], ids=["at once", "in blocks", "in blocks that cut topics"])
def test_no_topic_of_a_plan_is_led_more_than_one_above_its_bound(rows):
    rng = np.random.default_rng(3)
    partitions = pa.table(
        {
            "topic": [f"t{number // 60:03}" for number in range(6000)],
            "partition": pa.array(np.arange(6000) % 60, pa.int32()),
            "replicas": pa.array([[int(b)] for b in rng.integers(0, 24, 6000)], pa.list_(pa.int32())),
        }
    )
    problem = Problem(partitions, tuple(Broker(n, "abc"[n % 3]) for n in range(24)), 3)
    if rows is None:
        found = plan_local(problem).summary.topic_leaders
    else:
        found = planned_in_blocks(problem.partitions, Question(problem.brokers, Wanted(3)), rows)[
            1
        ].summary.topic_leaders
    assert found.max <= found.bound + 1


@st.composite
def leaderships(draw):
    brokers = draw(st.integers(2, 6))
    rows = draw(st.lists(st.permutations(range(brokers)), min_size=1, max_size=60))
    width = draw(st.integers(1, brokers))
    replicas = np.array(rows, np.int32)[:, :width]
    short = draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    if width > 1:
        replicas[np.array(short), -1] = -1
    topics = st.integers(0, 4)
    topic = np.array(draw(st.lists(topics, min_size=len(rows), max_size=len(rows))))
    outside = draw(st.lists(st.tuples(topics, st.integers(0, brokers - 1)), max_size=20))
    return replicas, topic, tuple(np.array(outside, np.int64).reshape(-1, 2).T), brokers


@given(leaderships())
def test_brokers_lead_as_much_as_before_and_no_topic_is_worse(case):
    replicas, topic, outside, brokers = case
    column = np.zeros(len(replicas), np.int32)
    after = spread_leaders(replicas, column, topic, outside, np.ones(brokers, bool))
    was, is_now = led(replicas, column), led(replicas, after)
    assert is_now.min() >= 0
    assert (np.bincount(was, minlength=brokers) == np.bincount(is_now, minlength=brokers)).all()
    for number in range(5):
        at_first, at_last, given_ones = (
            np.bincount(leader[of == number], minlength=brokers)
            for of, leader in ((topic, was), (topic, is_now), outside)
        )
        in_all = len(topic[topic == number]) + len(outside[0][outside[0] == number])
        allowed = max(-(-in_all // brokers), int(given_ones.max())) + 1
        worst, now = (int((found + given_ones).max()) for found in (at_first, at_last))
        assert now <= max(worst, allowed)
        over = [np.maximum(found + given_ones - allowed, 0).sum() for found in (at_first, at_last)]
        assert over[1] <= over[0]
