"""Bytes per broker as even as whole replicas allow."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from kafka_medic.cli import main
from kafka_medic.plan.model import Plan, Spread
from kafka_medic.plan.problem import Problem, ProblemError
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.verify.rules import verify
from kafka_medic.plan.wanted import Wanted
from tests.unit.plan.cluster_tables import brokers, partitions
from tests.unit.plan.spark.in_blocks import planned_in_blocks


def request(racks, count, factor=2, *, by_bytes=True, seed=1):
    rng = np.random.default_rng(seed)
    sizes = pa.array((rng.pareto(1.5, count) * 1000).astype(np.int64))
    rows = [[n % 3] for n in range(count)]  # three brokers hold everything
    return Problem(partitions({"t": rows}, sizeBytes=sizes), brokers(racks), factor, by_bytes=by_bytes)


@pytest.mark.parametrize("racks", [9, "abcabcabc", "aabbbcccc", "abccccddd"])
def test_bytes_are_within_one_partition_of_the_bound_where_racks_allow(racks):
    problem = request(racks, 600)
    plan = plan_local(problem)
    assert verify(problem, plan) == []
    largest = max(problem.partitions.column("sizeBytes").to_pylist())
    figures = plan.summary.bytes_per_broker
    assert figures.max - figures.bound <= largest
    by_count = plan_local(request(racks, 600, by_bytes=False))
    assert plan.summary.moves == by_count.summary.moves
    assert plan.summary.rack_violations == by_count.summary.rack_violations
    assert "bytesPerBroker" not in by_count.summary.to_json()


@pytest.mark.parametrize("racks", [9, "abccccddd"])
def test_blocks_together_are_as_even_in_bytes(racks):
    problem = request(racks, 600)
    question = Question(problem.brokers, Wanted(2), by_bytes=True)
    table, done = planned_in_blocks(problem.partitions, question, 200)
    assert done.problems == ()
    sizes = dict(enumerate(problem.partitions.column("sizeBytes").to_pylist()))
    in_order = pa.array([sizes[number] for number in table.column("partition").to_pylist()], pa.int64())
    assert verify(problem, Plan(table, in_order, done.summary)) == []
    here, there = plan_local(problem).summary, done.summary
    assert there.moves == here.moves
    assert there.rack_violations == here.rack_violations
    assert there.bytes_per_broker.bound <= here.bytes_per_broker.bound
    assert there.bytes_per_broker.max - here.bytes_per_broker.max <= max(sizes.values())


def test_the_verifier_counts_the_bytes():
    problem = request(9, 60)
    plan = plan_local(problem)
    wrong = replace(plan, summary=replace(plan.summary, bytes_per_broker=Spread(1, 2, 2)))
    assert any("bytesPerBroker" in line for line in verify(problem, wrong))


def test_a_size_that_is_not_known_is_refused_by_row():
    table = partitions({"t": [[0], [1]]}, sizeBytes=pa.array([1, None]))
    with pytest.raises(ProblemError, match="row 2: the size of t-1 is not known"):
        Problem(table, brokers(3), 2, by_bytes=True)


def test_the_command_says_it(tmp_path, capsys):
    rows = [{"topic": "t", "partition": n, "replicas": [1], "sizeBytes": n} for n in range(6)]
    (tmp_path / "p.json").write_text(json.dumps(rows))
    (tmp_path / "b.json").write_text(json.dumps([{"id": n} for n in (1, 2, 3)]))
    line = ["plan", "raise-replication-factor", "--replication-factor", "2", "--balance", "bytes", "--brokers"]
    line += [str(tmp_path / "b.json"), "--partitions", str(tmp_path / "p.json"), "--output", str(tmp_path / "out")]
    assert main.main(line) == 0
    assert "bytes per broker" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["bytesPerBroker"]["max"] == 15
