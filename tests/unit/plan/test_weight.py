"""Brokers of different weight: even is what is fair, and the figures are those of a broker of average share."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_medic.plan.files.report import render_report
from kafka_medic.plan.files.report_data import report_data
from kafka_medic.plan.problem import Broker, Problem, ProblemError
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.verify.rules import verify
from kafka_medic.plan.wanted import Wanted
from kafka_medic.plan.weight import handicap
from tests.unit.plan.cluster_tables import partitions
from tests.unit.plan.spark.in_blocks import planned_in_blocks


def weighted(*weights):
    return tuple(Broker(number, weight=weight) for number, weight in enumerate(weights))


def final(problem, table):
    after = Counter(broker for row in table.to_pylist() for broker in row["replicas"])
    leads = Counter(row["preferredOrder"][0] for row in table.to_pylist())
    return [after[b.id] for b in problem.brokers], [leads[b.id] for b in problem.brokers]


def test_a_broker_of_twice_the_weight_gets_twice_the_replicas_and_leaders():
    problem = Problem(partitions({"t": [[n % 4] for n in range(100)]}), weighted(2, 1, 1, 1), 2)
    plan = plan_local(problem)
    assert verify(problem, plan) == []
    assert final(problem, plan.table) == ([80, 40, 40, 40], [40, 20, 20, 20])
    assert plan.summary.replicas_per_broker.to_json() == {"min": 50, "max": 50, "bound": 50, "anyPlan": 50}
    assert plan.summary.leaders_per_broker.to_json() == {"min": 25, "max": 25, "bound": 25, "anyPlan": 25}
    assert "average weight" in render_report(report_data(problem, plan, problem.leaders_of_changed(plan)))
    table, done = planned_in_blocks(problem.partitions, Question(problem.brokers, Wanted(2)), 40)
    assert done.problems == ()
    assert final(problem, table)[0] == [80, 40, 40, 40]
    assert done.summary.replicas_per_broker == plan.summary.replicas_per_broker


def test_the_verifier_knows_what_is_fair():
    problem = Problem(partitions({"t": [[n % 4] for n in range(100)]}), weighted(1, 1, 1, 1), 2)
    plan = plan_local(problem)
    broken = verify(replace(problem, brokers=weighted(2, 1, 1, 1)), plan)
    assert any("replicasPerBroker" in line for line in broken)


@pytest.mark.parametrize("weight", [0, -1, 1e9, float("nan")])
def test_a_weight_that_is_none_is_refused(weight):
    with pytest.raises(ProblemError, match=r"row 2: weight .* of broker 1"):
        Problem(partitions({"t": [[0]]}), weighted(1, weight), 2)


@settings(max_examples=10)
@given(st.lists(st.tuples(st.sampled_from([0.5, 1, 2, 3, 7.5]), st.integers(0, 40)), min_size=1), st.integers(0, 60))
def test_shares_are_what_handing_out_one_by_one_gives(brokers, amount):
    weight, load = [w for w, _ in brokers], [count for _, count in brokers]
    fair = handicap(weighted(*weight), np.array(load), amount)
    if len(set(weight)) == 1:
        assert not fair.extra.any()
        return
    count = list(load)
    for _ in range(amount):
        best = min(range(len(count)), key=lambda b: ((count[b] + 1) / weight[b], b))
        count[best] += 1
    level = [extra + held for extra, held in zip(fair.extra.tolist(), count, strict=True)]
    got = [level[b] for b in range(len(count)) if count[b] > load[b]]
    assert len(set(got)) <= 1
    assert all(level[b] >= got[0] for b in range(len(count)) if got)


def test_no_figure_is_less_than_nothing():
    """A broker that should take a replica and may not has one less than its share, and the average share was 0."""
    listed = tuple(Broker(n, weight=weight) for n, weight in enumerate((0.001, 1000, 1, 0.001)))
    problem = Problem(partitions({"t": [[1], [1]]}), listed, 2)
    plan = plan_local(problem)
    assert (plan.summary.replicas_per_broker.min, plan.summary.replicas_per_broker.max) == (0, 2)
    assert verify(problem, plan) == []
    _, done = planned_in_blocks(problem.partitions, Question(listed, Wanted(2)), 1)
    assert (done.problems, done.summary.replicas_per_broker.min) == ((), 0)
