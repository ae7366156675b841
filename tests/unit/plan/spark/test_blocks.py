"""What the blocks of a large table tell, and what is refused of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from kafka_medic.plan.estimate import busiest_per_wave, estimate
from kafka_medic.plan.files.report import render_report
from kafka_medic.plan.files.report_data import report_data
from kafka_medic.plan.leaders.topic_spread import REPORTED_TOPICS, after_plan, worst
from kafka_medic.plan.model import Plan
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.spark import blocks
from kafka_medic.plan.spark.blocks import Refused, lay_out
from kafka_medic.plan.spark.conclude import conclude, wrong_numbers
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.spark.report_data import scattered
from kafka_medic.plan.verify.input_checksum import input_checksum, plan_checksum
from kafka_medic.plan.wanted import Wanted
from kafka_medic.plan.wave_limits import WaveLimits
from tests.unit.plan.cluster_tables import brokers, partitions, problem
from tests.unit.plan.spark.in_blocks import planned_in_blocks, shared, surveyed

REQUEST = Question(brokers("aabbcc"), Wanted(3, (("two-*", 2),), ("left*",)))


def test_a_partition_missing_or_twice_is_seen_over_all_blocks():
    table = partitions({"a": [[0]] * 5, "b": [[1]] * 9})
    for taken, wrong in (
        (range(14), None),
        ([*range(14)][::-1], None),
        ([0, 1, 2, 4, *range(5, 14)], ("a", 4)),
        ([*range(14), 6], ("b", 8)),
        ([*range(12), 12, 12], ("b", 7)),
    ):
        _, found = surveyed(table.take(list(taken)), REQUEST, 4)
        assert wrong_numbers(found) == wrong


def test_a_row_that_cannot_be_planned_is_named_within_its_block():
    table = partitions({"a": [[0], [0], [0], [9]]})
    _, found = surveyed(table, REQUEST, 3)
    assert found[1] == Refused(0, 1, 1, "replicas name broker 9, which is not listed")


def test_patterns_hold_in_every_block():
    table = partitions({"left": [[0]] * 5, "two-a": [[1]] * 5, "x": [[2]] * 5})
    plan, done = planned_in_blocks(table, REQUEST, 4)
    assert done.summary.moves == done.summary.lower_bound_moves == 5 + 10
    assert set(plan.column("topic").to_pylist()) == {"two-a", "x"}


def test_more_kinds_than_a_table_holds_are_divided_as_well(monkeypatch):
    monkeypatch.setattr("kafka_medic.plan.solver.quotas.LARGEST_TABLE", 0)
    table = partitions({"t": [[i % 6] for i in range(300)]})
    _, done = planned_in_blocks(table, Question(brokers(6), Wanted(3)), 64)
    assert done.problems == ()
    assert done.summary.replicas_per_broker.to_json() == {"min": 150, "max": 150, "bound": 150, "anyPlan": 150}
    assert done.summary.leaders_per_broker.to_json() == {"min": 50, "max": 50, "bound": 50, "anyPlan": 50}


@pytest.mark.parametrize(("racks", "order"), [("aabbccd", "sorted"), (7, "mixed")])
def test_the_page_shows_of_blocks_what_it_shows_of_a_plan_in_one_piece(racks, order):
    rng = np.random.default_rng(5)
    rows = {f"t{n:02}": [[int(b)] for b in rng.integers(0, 1 + n % 5, 3 + n)] for n in range(12)}
    sizes = pa.array(rng.integers(0, 1000, sum(map(len, rows.values()))))
    request = problem({**rows, "zz": [[0, 1]] * 9}, racks, 2, sizeBytes=pa.concat_arrays([sizes, pa.array([7] * 9)]))
    table = request.partitions
    if order == "mixed":
        table = table.take(rng.permutation(table.num_rows))
    question = Question(request.brokers, Wanted(2), WaveLimits(records=9))
    plan, done = planned_in_blocks(table, question, 20)
    assert done.problems == ()
    columns, live = request.columns, np.ones(len(request.brokers), dtype=bool)
    row = {columns.name(n): n for n in range(len(columns.topic))}
    place = {broker.id: number for number, broker in enumerate(request.brokers)}
    changed = np.array([row[f"{r['topic']}-{r['partition']}"] for r in plan.to_pylist()])
    order = np.array([[place[b] for b in r["preferredOrder"]] for r in plan.to_pylist()])
    planned = np.isin(np.arange(len(columns.topics)), columns.topic[changed])
    after = after_plan(columns.topic, columns.held, changed, order, live).among(planned)
    of_all = worst(after, columns.topic, columns.held, columns.topics, live, REPORTED_TOPICS)
    assert done.details.topics == of_all
    size_of = {(r["topic"], r["partition"]): r["sizeBytes"] for r in table.to_pylist()}
    places = zip(plan.column("topic").to_pylist(), plan.column("partition").to_pylist(), strict=True)
    whole = Plan(plan, pa.array([size_of[place] for place in places], pa.int64()), done.summary)
    assert done.details.waves.busiest.tolist() == busiest_per_wave(whole).tolist()
    cost = estimate(whole)
    assert (done.details.waves.moved.sum(), done.details.waves.received.max()) == (cost.bytes_total, cost.busiest_in)


def test_topics_scattered_over_too_many_blocks_are_not_counted_and_that_is_said(monkeypatch):
    monkeypatch.setattr("kafka_medic.plan.spark.report_data.MOST_LOADS", 0)
    marks, left = scattered([("a", "b"), ("b", "c")], [np.array([1, 2]), np.array([3, 4])], 9)
    assert ([mark.tolist() for mark in marks], left) == ([[0, 2], [2, 0]], 1)
    request = problem({"a": [[0]], "b": [[0]] * 2}, 3, 2)
    plan = plan_local(request)
    page = render_report(replace(report_data(request, plan, request.leaders_of_changed(plan)), uncounted=left))
    assert "1 topics, whose partitions are scattered over the input, were not counted" in page


def test_too_few_waves_kept_are_told_not_overfilled():
    limits = WaveLimits(records=5, partitions_per_broker=2)
    table = partitions({"t": [[0]] * 40})
    question = Question(brokers("aabbcc"), Wanted(3), limits)
    parts, found = surveyed(table, question, 20)
    divided, _ = shared(found, question, 0.0)
    assert (lay_out(parts[0], question, divided[0])[0].column("wave").to_numpy() == -1).all()
    _, done = planned_in_blocks(table, question, 20, slacks=(0.0, 16.0))
    assert done.problems == ()
    assert done.waves[0].max() <= 2
    assert done.waves[0].min() > 0


def test_a_block_that_is_not_the_one_counted_is_not_planned():
    table = partitions({"t": [[0]] * 8})
    _, found = surveyed(table, REQUEST, 4)
    divided, _ = shared(found, REQUEST, 1.3)
    with pytest.raises(RuntimeError, match="have changed"):
        lay_out(table.slice(0, 3), REQUEST, divided[0])


def test_waves_are_cut_in_halves_until_all_that_were_kept_are_used():
    cut = blocks._stretch(np.array([0] * 8 + [1] * 3, np.int32), 5)
    assert np.bincount(cut).tolist() == [2, 3, 2, 2, 2]


def changed(table, name, row, value):
    rows = table.column(name).to_pylist()
    rows[row] = value
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(index), pa.array(rows, table.schema.field(index).type))


@pytest.mark.parametrize(
    ("name", "value"),
    [("replicasBefore", [5]), ("partition", 7), ("topic", "u"), ("replicas", [0, 1]), ("preferredOrder", [0, 2, 2])],
)
def test_an_artifact_that_was_changed_is_seen(name, value):
    request = problem({"t": [[0]] * 4}, "aabbcc", 3)
    plan = plan_local(request).table
    before, after = (
        input_checksum(request.partitions, request.brokers, request.wanted),
        plan_checksum(plan, request.brokers, request.wanted),
    )
    assert (after.problems, after.checksum, after.rows) == ((), before.checksum, before.below)
    after = plan_checksum(changed(plan, name, 2, value), request.brokers, request.wanted)
    assert after.problems or after.checksum != before.checksum


def test_a_plan_that_is_not_what_was_asked_is_a_problem():
    table = partitions({"t": [[0]] * 8})
    _, found = surveyed(table, REQUEST, 4)
    divided, bound = shared(found, REQUEST, 1.3)
    plan, laid = lay_out(table.slice(0, 4), REQUEST, divided[0])
    done = conclude(found, [laid], [plan_checksum(plan, REQUEST.brokers, REQUEST.wanted.of)], REQUEST, bound, 0)
    assert any("not those that lack replicas" in problem for problem in done.problems)
