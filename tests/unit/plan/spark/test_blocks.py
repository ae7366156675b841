"""What the blocks of a large table tell, and what is refused of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.plan_topics import CASES, counted, hashed
from benchmarks.plan_topics import problem as case_of
from kafka_medic.plan.estimate import busiest_per_wave, estimate
from kafka_medic.plan.files.report import render_report
from kafka_medic.plan.files.report_data import report_data
from kafka_medic.plan.leaders.topic_spread import REPORTED_TOPICS, after_plan, worst
from kafka_medic.plan.model import Plan
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.spark import blocks
from kafka_medic.plan.spark import conclude as conclusions
from kafka_medic.plan.spark.blocks import Refused, lay_out, survey
from kafka_medic.plan.spark.conclude import conclude, wrong_numbers
from kafka_medic.plan.spark.packed import by_block, canonical, keys_of_blocks, packed
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.spark.share import shares
from kafka_medic.plan.wanted import Wanted
from kafka_medic.plan.wave_limits import WaveLimits
from tests.unit.plan.cluster_tables import brokers, partitions, problem
from tests.unit.plan.spark.in_blocks import planned_in_blocks, surveyed

REQUEST = Question(brokers("aabbcc"), Wanted(3, (("two-*", 2),), ("left*",)))


@pytest.mark.parametrize(
    ("taken", "reason"),
    [
        ([*range(14)][::-1], None),
        ([0, 1, 2, 4, *range(5, 14)], "a-3 is missing, though a-4 is here"),
        ([*range(14), 6], "b-1 is listed twice"),
        ([*range(12), 12, 12], "b-7 is listed twice"),
    ],
)
def test_a_partition_missing_or_twice_is_seen_in_its_block(taken, reason):
    table = partitions({"a": [[0]] * 5, "b": [[1]] * 9})
    _, found = surveyed(table.take(taken), REQUEST, 4)
    assert [one.reason for one in found if isinstance(one, Refused)] == ([reason] if reason else [])


@pytest.mark.parametrize(
    ("taken", "reason"),
    [
        (range(10), None),
        (range(8), None),
        ([*range(4), *range(8, 10)], "one of t-4 to t-7 is missing, though t-8 is here"),
        ([0, 1, 2, *range(4, 10)], "one of t-0 to t-3 is missing, though t-8 is here"),
    ],
)
def test_a_gap_between_the_pieces_of_a_large_topic_is_seen_by_the_driver(monkeypatch, taken, reason):
    monkeypatch.setattr(blocks, "PIECE_BITS", 2)
    for module in (blocks, conclusions):
        monkeypatch.setattr(module, "WHOLE_PIECE", 4)
    table = partitions({"t": [[0]] * 10}).take(list(taken))
    number = table.column("partition").to_numpy() >> 2
    parts = [table.filter(pa.array(number == piece)) for piece in np.unique(number)]
    found = [survey(canonical(part), REQUEST, n) for n, part in enumerate(parts)]
    assert wrong_numbers(piece for one in found for piece in one.pieces) == reason


def test_a_row_that_cannot_be_planned_is_named():
    table = partitions({"a": [[0], [0], [0]], "b": [[0], [9]]})
    _, found = surveyed(table, REQUEST, 3)
    assert found[1] == Refused(1, "b-1: replicas name broker 9, which is not listed")
    _, found = surveyed(table.set_column(0, "topic", pa.array(["a", "a", "a", None, "b"])), REQUEST, 9)
    assert found == [Refused(0, "of a row: the topic is missing")]


def test_a_block_is_the_same_in_any_order_of_its_rows_and_batches():
    table = partitions({f"t{n:02}": [[n % 3]] * (1 + n % 4) for n in range(30)})
    rng = np.random.default_rng(1)
    made = []
    for _ in range(2):
        mixed = table.take(rng.permutation(table.num_rows))
        code = mixed.column("topic").to_numpy(zero_copy_only=False)
        block = pa.array([int(name[1:]) % 3 for name in code], pa.int32())
        batches = mixed.add_column(0, "block", block).to_batches(max_chunksize=9)
        made.append(dict(by_block(packed(batches, keys_of_blocks(3)))))
    assert made[0] == made[1]
    assert sum(part.num_rows for part in made[0].values()) == table.num_rows
    assert made[0][1].column("topic").to_pylist() == sorted(made[0][1].column("topic").to_pylist())


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
    after = after_plan(columns.topic, columns.held, changed, order, live, np.zeros(len(columns.topics), int))
    after = after.among(planned)
    of_all = worst(after, columns.topic, columns.held, columns.topics, live, REPORTED_TOPICS)
    assert done.details.topics == of_all
    size_of = {(r["topic"], r["partition"]): r["sizeBytes"] for r in table.to_pylist()}
    places = zip(plan.column("topic").to_pylist(), plan.column("partition").to_pylist(), strict=True)
    whole = Plan(plan, pa.array([size_of[place] for place in places], pa.int64()), done.summary)
    assert done.details.waves.busiest.tolist() == busiest_per_wave(whole).tolist()
    cost = estimate(whole)
    assert (done.details.waves.moved.sum(), done.details.waves.received.max()) == (cost.bytes_total, cost.busiest_in)


def test_topics_that_lie_in_several_blocks_are_not_counted_and_that_is_said(monkeypatch):
    monkeypatch.setattr(blocks, "PIECE_BITS", 2)
    monkeypatch.setattr(blocks, "WHOLE_PIECE", 4)
    question = replace(REQUEST, ask=Wanted(2))
    table = canonical(partitions({"t": [[0]] * 10, "u": [[1]] * 3}))
    found = survey(table, question, 0)
    parts, bound = shares([found], question, 4.0)
    _, _, laid = lay_out(table, question, parts[0], 0)
    done = conclude([laid], question, bound)
    assert [topic.topic for topic in done.details.topics] == ["u"]
    assert done.details.uncounted == 1
    request = problem({"a": [[0]], "b": [[0]] * 2}, 3, 2)
    plan = plan_local(request)
    page = render_report(replace(report_data(request, plan, request.leaders_of_changed(plan)), uncounted=1))
    assert "1 topic, too large for one block, was not counted" in page


def test_too_few_waves_kept_are_told_not_overfilled():
    limits = WaveLimits(records=5, partitions_per_broker=2)
    table = partitions({"t": [[0]] * 20, "u": [[0]] * 20})
    question = Question(brokers("aabbcc"), Wanted(3), limits)
    parts, found = surveyed(table, question, 20)
    divided, bound = shares(found, question, 0.0)
    plan, _, laid = lay_out(parts[0], question, divided[0], 0)
    assert (plan.num_rows, laid.counts) == (0, None)
    assert conclude([laid], question, bound).problems == ("too few waves were kept for a block",)
    _, done = planned_in_blocks(table, question, 20, slacks=(0.0, 16.0))
    assert done.problems == ()
    assert done.waves[0].max() <= 2
    assert done.waves[0].min() > 0


def test_a_block_that_is_not_the_one_counted_is_not_planned():
    table = partitions({"t": [[0]] * 4, "u": [[0]] * 4})
    parts, found = surveyed(table, REQUEST, 4)
    divided, _ = shares(found, REQUEST, 1.3)
    with pytest.raises(RuntimeError, match="have changed"):
        lay_out(parts[0].slice(0, 3), REQUEST, divided[0], 0)


def test_a_plan_of_a_block_that_breaks_a_rule_is_a_problem(monkeypatch):
    monkeypatch.setattr(blocks, "lead_first", lambda replicas, lead: replicas[:, ::-1] * 0)
    table = partitions({"t": [[0]] * 8})
    parts, found = surveyed(table, REQUEST, 8)
    divided, bound = shares(found, REQUEST, 4.0)
    _, _, laid = lay_out(parts[0], REQUEST, divided[0], 0)
    done = conclude([laid], REQUEST, bound)
    assert any("has a preferred order that is no permutation" in problem for problem in done.problems)


def test_waves_are_cut_in_halves_until_all_that_were_kept_are_used():
    cut = blocks._stretch(np.array([0] * 8 + [1] * 3, np.int32), 5)
    assert np.bincount(cut).tolist() == [2, 3, 2, 2, 2]


@pytest.mark.parametrize(
    "name",
    ["heavy-tailed sizes, 60 brokers, 3 racks", "weights, 12 brokers, no racks", "random, 12 brokers, 3 racks, 2 held"],
)
def test_topics_in_blocks_are_as_even_as_in_one_piece(name):
    case = next(case for case in CASES if case.name == name)
    request = case_of(case)
    question = Question(request.brokers, Wanted(case.factor, case.factors))
    plan, done = planned_in_blocks(request.partitions, question, hashed(request.partitions))
    assert done.summary.replicas_per_broker.max == done.summary.replicas_per_broker.bound
    for found in counted(request, plan):
        assert found.max <= found.bound + 1
