"""The Spark engine on a real Spark: the same answers as in one process, from Parquet to Parquet."""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from kafka_medic.cli import main, plan_spark
from kafka_medic.plan.allowed import Allowed
from kafka_medic.plan.model import PLAN_SCHEMA, Plan
from kafka_medic.plan.problem import Problem, ProblemError
from kafka_medic.plan.relocation import Leave, LowerImbalance, Relocation, SpreadRacks
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.solver.relocate import plan_relocation
from kafka_medic.plan.spark import engine, frames
from kafka_medic.plan.spark.place import Place
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.spark.read_back import verify_on_spark
from kafka_medic.plan.spark.session import BATCH_BYTES, session
from kafka_medic.plan.verify.moves import verify_moves
from kafka_medic.plan.verify.rules import verify
from kafka_medic.plan.wanted import Wanted
from kafka_medic.plan.wave_limits import WaveLimits
from tests.property.plan.test_plan_properties import clusters
from tests.unit.plan.cluster_tables import brokers, partitions

FEW = settings(
    max_examples=3, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@pytest.fixture(scope="module")
def spark():
    with session("local[1]", None, {"spark.driver.memory": "512m"}) as started:
        yield started


@pytest.fixture
def shared(spark, monkeypatch):
    """The command's sessions are this one."""

    @contextmanager
    def opened(*_, **__):
        yield spark

    monkeypatch.setattr(plan_spark, "session", opened)


def planned(spark, problem, folder, parts=1):
    """(artifact, SparkPlan) of a problem whose partitions lie in so many files."""
    source, target = folder / "partitions", folder / "plan.parquet"
    source.mkdir(parents=True, exist_ok=True)
    step = -(-problem.partitions.num_rows // parts)
    for number in range(parts):
        pq.write_table(problem.partitions.slice(number * step, step), source / f"{number}.parquet", row_group_size=7)
    question = Question(problem.brokers, Wanted(1, tuple(problem.topic_factors.items())))
    done = engine.plan_spark(spark, Place(source.as_uri()), question, Place(target.as_uri()))
    return pyarrow.dataset.dataset(target, schema=PLAN_SCHEMA).to_table(), done


ASKED = (
    Leave((1,), gone=False), Leave((0, 2), gone=True, skip_lost=True), SpreadRacks(), LowerImbalance(9),
)  # fmt: skip


def crowded():
    """A cluster in which every question finds something to do."""
    apart = {f"t{n:02}": [[(n + i) % 4, (n + i) % 4 + 4] for i in range(5 + n % 7)] for n in range(20)}
    rows = apart | {f"u{n:02}": [[n % 2, 2 + n % 2]] * 4 for n in range(10)}
    sizes = pa.array(range(1, 1 + sum(map(len, rows.values()))))
    return partitions(rows, sizeBytes=sizes), brokers("aabbaabbcc")


@pytest.mark.parametrize("ask", ASKED, ids=lambda ask: type(ask).__name__)
def test_every_question_gets_on_spark_the_plan_that_it_gets_in_one_process(spark, tmp_path, monkeypatch, ask):
    table, listed = crowded()
    source = tmp_path / "partitions"
    source.mkdir()
    for begin in range(0, table.num_rows, 40):
        pq.write_table(table.slice(begin, 40), source / f"{begin}.parquet")
    request = Relocation(table, listed, ask)
    here = plan_relocation(request)
    question = Question(listed, ask)
    done = engine.plan_spark(spark, Place(source.as_uri()), question, Place((tmp_path / "one").as_uri()))
    made = pyarrow.dataset.dataset(tmp_path / "one", schema=PLAN_SCHEMA).to_table()
    assert done.problems == ()
    assert made.sort_by([("topic", "ascending"), ("partition", "ascending")]).equals(here.table)
    assert done.summary.to_json() | {"engine": "local"} == here.summary.to_json()

    monkeypatch.setattr(engine, "BLOCK_ROWS", 40)
    done = engine.plan_spark(spark, Place(source.as_uri()), question, Place((tmp_path / "several").as_uri()))
    made = pyarrow.dataset.dataset(tmp_path / "several", schema=PLAN_SCHEMA).to_table()
    size_of = {(r["topic"], r["partition"]): r["sizeBytes"] for r in table.to_pylist()}
    places = zip(made.column("topic").to_pylist(), made.column("partition").to_pylist(), strict=True)
    sizes = pa.array([size_of[place] for place in places], pa.int64())
    assert done.problems == ()
    assert verify_moves(request, Plan(made, sizes, done.summary)) == []
    assert done.summary.replicas_per_broker.bound == here.summary.replicas_per_broker.bound
    # Forty partitions have not always one that may move as its block's share would have it.
    assert here.summary.moves >= done.summary.moves > 0
    if not isinstance(ask, LowerImbalance):
        assert done.summary.moves == here.summary.moves
    # Which of two replicas leaves a rack is chosen in each block alone.
    if isinstance(ask, Leave):
        assert done.summary.replicas_per_broker.max <= here.summary.replicas_per_broker.max + 1


LIMITS = {
    "raise": (Wanted(3), Allowed(moves=60, moves_per_broker=7)), "leave": (ASKED[1], Allowed(bytes=4000)),
    "lower": (ASKED[3], Allowed(bytes_per_broker=900)),
}  # fmt: skip


@pytest.mark.parametrize("question", LIMITS)
def test_limits_hold_on_spark_and_what_they_leave_out_is_listed(spark, tmp_path, monkeypatch, question):
    table, listed = crowded()
    pq.write_table(table, tmp_path / "p.parquet")
    ask, allowed = LIMITS[question]
    for block in (1000, 40):
        monkeypatch.setattr(engine, "BLOCK_ROWS", block)
        request, check = (Problem(table, listed, 3, allowed=allowed), verify) if isinstance(ask, Wanted) else (
            Relocation(table, listed, ask, allowed), verify_moves
        )  # fmt: skip
        here = (plan_local if isinstance(ask, Wanted) else plan_relocation)(request)
        question, target, left = Question(listed, ask, allowed=allowed), tmp_path / f"plan{block}", []
        done = engine.plan_spark(
            spark, Place((tmp_path / "p.parquet").as_uri()), question, Place(target.as_uri()), leave_out=left.extend
        )
        made = pyarrow.dataset.dataset(target, schema=PLAN_SCHEMA).to_table()
        assert done.problems == ()
        size_of = {(r["topic"], r["partition"]): r["sizeBytes"] for r in table.to_pylist()}
        places = zip(made.column("topic").to_pylist(), made.column("partition").to_pylist(), strict=True)
        sizes = pa.array([size_of[place] for place in places], pa.int64())
        assert check(request, Plan(made, sizes, done.summary)) == []
        listed_out = [row for part in left for row in part.to_pylist()]
        assert len({(row["topic"], row["partition"]) for row in listed_out}) == len(listed_out)
        assert len(listed_out) == sum(done.summary.left_out.values())
        assert done.summary.left_out.keys() == here.summary.left_out.keys()
        if block == 1000:
            order = [("topic", "ascending"), ("partition", "ascending")]
            assert made.sort_by(order).equals(here.table)
            assert sorted(listed_out, key=str) == sorted(here.left_out.to_pylist(), key=str)
        else:
            assert here.summary.moves >= done.summary.moves > here.summary.moves // 2


def test_the_command_lists_what_it_leaves_out_on_spark(shared, tmp_path, monkeypatch, capsys):
    table, _ = crowded()
    isr = pa.array([[0] if row[0] == 0 and row[1] == 4 else row for row in table.column("replicas").to_pylist()])
    pq.write_table(table.append_column("isr", isr.cast(pa.list_(pa.int32()))), tmp_path / "p.parquet")
    (tmp_path / "b.json").write_text(json.dumps([{"id": i, "rack": rack} for i, rack in enumerate("aabbaabbcc")]))
    for name in ("spark", "local"):
        line = ["plan", "replace-broker", "--broker", "0", "--skip-lost", "--max-moves", "9"]
        line += ["--partitions", str(tmp_path / "p.parquet"), "--brokers", str(tmp_path / "b.json")]
        assert main.main([*line, "--engine", name, "--output", str(tmp_path / name)]) == 0
        told = capsys.readouterr().err
        assert "partitions; each is in sync on no broker that stays" in told
    rows = [sorted((tmp_path / name / "left-out.csv").read_text().splitlines()) for name in ("spark", "local")]
    assert rows[0] == rows[1]
    assert len(rows[0]) > 3


@pytest.mark.parametrize("block", [1000, 40])
def test_a_stored_plan_is_checked_anew_as_in_one_process(spark, tmp_path, monkeypatch, block):
    table, listed = crowded()
    pq.write_table(table, tmp_path / "p.parquet")
    source, question = Place((tmp_path / "p.parquet").as_uri()), Question(listed, Wanted(3))
    plan = plan_local(Problem(table, listed, 3)).table

    def checked(stored, **changed):
        pq.write_table(stored, tmp_path / "plan.parquet")
        place = Place((tmp_path / "plan.parquet").as_uri())
        return verify_on_spark(spark, source, place, replace(question, **changed), block, lambda _: None)

    found = checked(plan)
    assert (found.broken, found.rows, found.moves) == ((), table.num_rows, table.num_rows)
    assert any("not planned" in rule for rule in checked(plan.slice(1)).broken)
    gap = plan.set_column(5, "wave", pa.array([2] * plan.num_rows, pa.int32()))
    assert checked(gap).broken == ("waves are not numbered from 0 without a gap",)
    assert "records" in checked(plan, limits=WaveLimits(records=9)).broken[0]
    strange = plan.set_column(0, "topic", pa.array([f"x{n}" for n in range(plan.num_rows)]))
    assert checked(strange).broken
    full = tuple(replace(broker, disk_free=3) for broker in listed)
    assert "would get" in " ".join(checked(plan, brokers=full).broken)
    over = checked(plan, allowed=Allowed(moves=9, bytes_per_broker=8)).broken
    assert [rule.split(" ")[0] for rule in over] == ["moves", "bytes"]


@pytest.mark.parametrize("block", [1000, 40])
@pytest.mark.parametrize("ask", [Leave((0,), gone=False), SpreadRacks(), LowerImbalance(20)])
def test_a_stored_plan_of_moves_is_checked_anew_as_in_one_process(spark, tmp_path, ask, block):
    table, listed = crowded()
    pq.write_table(table, tmp_path / "p.parquet")
    plan = plan_relocation(Relocation(table, listed, ask)).table
    source, stored = Place((tmp_path / "p.parquet").as_uri()), Place((tmp_path / "plan.parquet").as_uri())

    def broken(rows, question):
        pq.write_table(rows, tmp_path / "plan.parquet")
        return verify_on_spark(spark, source, stored, Question(listed, question), block, lambda _: None).broken

    assert broken(plan, ask) == ()
    assert any("names other replicas before" in rule for rule in broken(plan.set_column(
        2, "replicasBefore", plan.column("replicas")
    ), ask))  # fmt: skip
    other = LowerImbalance(3) if isinstance(ask, LowerImbalance) else Leave((1,), gone=False)
    told = "moves where 3 are allowed" if isinstance(ask, LowerImbalance) else "broker"
    assert any(told in rule for rule in broken(plan, other))


def test_each_block_is_a_task_of_its_own(spark, tmp_path):
    pq.write_table(partitions({f"t{n:03}": [[0]] * 3 for n in range(200)}), tmp_path / "p.parquet")
    frame = frames.partitions(spark, Place((tmp_path / "p.parquet").as_uri()))
    kept = frames.blocks(frame, 7)
    lists = kept.select("block").rdd.map(lambda row: row[0]).glom().collect()
    kept.unpersist()
    assert sorted(set(part) for part in lists) == [{n} for n in range(7)]


def test_of_a_folder_the_columns_of_every_file_are_read(spark, tmp_path):
    """Else a partition would count as one whose in-sync replicas nobody knows."""
    pq.write_table(partitions({"a": [[1]]}), tmp_path / "a.parquet")
    isr = pa.array([[1]], pa.list_(pa.int32()))
    pq.write_table(partitions({"b": [[1, 2]]}, isr=isr), tmp_path / "b.parquet")
    found = frames.partitions(spark, Place(tmp_path.as_uri()))
    assert [tuple(row) for row in found.orderBy("topic").collect()] == [("a", 0, [1], None), ("b", 0, [1, 2], [1])]


def test_workers_do_without_pandas_and_without_a_count_of_bytes_after_each_row(spark):
    """Each costs a plan a twentieth of its time."""

    def work(batches):
        rows = sum(batch.num_rows for batch in batches)
        both = pa.array(np.arange(rows)), pa.array([rows])
        yield pa.RecordBatch.from_pydict({"loaded": ["pandas" in sys.modules], "rows": [rows == len(both[0])]})

    found = frames.mapped(spark.range(3), work, "loaded boolean, rows boolean").first()
    assert found.asDict() == {"loaded": False, "rows": True}
    assert spark.conf.get(BATCH_BYTES).startswith("2147483647")


def verified(problem, table, done):
    """What the verifier of plans in memory says of an artifact of the Spark engine."""
    size_of = {(r["topic"], r["partition"]): r["sizeBytes"] for r in problem.partitions.to_pylist()}
    rows = zip(table.column("topic").to_pylist(), table.column("partition").to_pylist(), strict=True)
    sizes = pa.array([size_of[row] for row in rows], pa.int64())
    return verify(problem, Plan(table, sizes, done.summary))


def test_a_table_of_one_block_gets_the_very_plan_that_the_local_engine_makes(spark, tmp_path_factory):
    @FEW
    @given(clusters())
    def check(problem):
        table, done = planned(spark, problem, tmp_path_factory.mktemp("alone"))
        here = plan_local(problem)
        assert done.problems == ()
        assert table.sort_by([("topic", "ascending"), ("partition", "ascending")]).equals(here.table)
        told = done.summary.to_json() | {"engine": "local"}
        assert told == here.summary.to_json()

    check()


def test_a_table_of_many_blocks_meets_the_same_bounds_and_twice_the_same_plan(spark, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(engine, "BLOCK_ROWS", 40)

    @FEW
    @given(clusters(partitions=(20, 60)))
    def check(problem):
        table, done = planned(spark, problem, tmp_path_factory.mktemp("blocks"), parts=2)
        assert done.problems == ()
        assert verified(problem, table, done) == []
        here, there = plan_local(problem).summary, done.summary
        for figure in ("partitions", "moves", "rack_violations", "rack_violations_bound"):
            assert getattr(here, figure) == getattr(there, figure)
        for figure in ("replicas_per_broker", "leaders_per_broker"):
            assert getattr(there, figure).max <= getattr(here, figure).bound + 1
        again, _ = planned(spark, problem, tmp_path_factory.mktemp("again"), parts=2)
        assert again.equals(table)

    check()


@pytest.mark.parametrize("block", [3, 1000])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda t: t.set_column(2, "replicas", pa.array([[0]] * 7 + [[9]], pa.list_(pa.int32()))),
            "t-7: replicas name broker 9, which is not listed",
        ),
        (lambda t: t.take([0, 1, 2, 3, 4, 5, 6, 7, 2]), "t-2 is listed twice"),
        (lambda t: t.take([0, 1, 2, 3, 5, 6, 7]), "t-4 is missing, though t-"),
    ],
)
def test_bad_rows_are_named_and_nothing_is_written(spark, tmp_path, monkeypatch, block, change, reason):
    monkeypatch.setattr(engine, "BLOCK_ROWS", block)
    pq.write_table(change(partitions({"t": [[0]] * 8})), tmp_path / "p.parquet")
    question = Question(brokers(3), Wanted(2))
    with pytest.raises(ProblemError, match=reason):
        engine.plan_spark(spark, Place((tmp_path / "p.parquet").as_uri()), question, Place((tmp_path / "out").as_uri()))
    assert not (tmp_path / "out").exists()


def test_the_command_writes_the_same_four_files(shared, tmp_path, capsys):
    sizes = pa.array([5, 1, 9, 2, 8, 3, 4, 4])
    rows = partitions({"orders": [[0]] * 6, "scratch": [[1]] * 2}, sizeBytes=sizes).to_pylist()
    (tmp_path / "p.json").write_text(json.dumps(rows))
    (tmp_path / "b.json").write_text(json.dumps([{"id": i} for i in range(3)]))
    line = ["plan", "raise-replication-factor", "--partitions", str(tmp_path / "p.json")]
    line += ["--brokers", str(tmp_path / "b.json"), "--replication-factor", "3", "--exempt", "scr*", "-o", "json"]
    line += ["--balance", "bytes"]
    made = {}
    for name in ("spark", "local"):
        assert main.main([*line, "--engine", name, "--output", str(tmp_path / name)]) == 0
        made[name] = json.loads(capsys.readouterr().out) | {"engine": "", "seconds": 0}
        assert sorted(p.name for p in (tmp_path / name).iterdir()) == [
            "plan.parquet", "preferred-order.json", "reassignment.json", "report.html", "report.json", "summary.json"
        ]  # fmt: skip
    assert made["spark"] == made["local"]
    for file in ("reassignment.json", "preferred-order.json"):
        told = [json.loads((tmp_path / name / file).read_text()) for name in ("spark", "local")]
        assert told[0] == told[1]
    pages = [(tmp_path / name / "report.html").read_text() for name in ("spark", "local")]
    dated = [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "", page) for page in pages]
    assert dated[0] == dated[1]
    assert '<th scope="row">orders</th><td data-is="Partitions" class="n">6</td>' in pages[0]
    assert pq.read_table(tmp_path / "spark" / "plan.parquet").num_rows == 6

    (tmp_path / "p.json").write_text(json.dumps([*rows, rows[0]]))
    assert main.main([*line, "--engine", "spark", "--output", str(tmp_path / "none")]) == 4
    assert "orders-0 is listed twice" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("source", ["file", "folder", "JSON"])
def test_paths_are_taken_as_they_are_written(shared, tmp_path, capsys, source):
    """Spark decodes no %20, and reads brackets as a pattern."""
    home = tmp_path / "für [a] %20"
    home.mkdir()
    rows, at = partitions({"orders": [[0]] * 6}), home / f"p {{1}}.{'json' if source == 'JSON' else 'parquet'}"
    if source == "JSON":
        at.write_text(json.dumps(rows.to_pylist()))
    else:
        pq.write_table(rows, at if source == "file" else (at.mkdir() or at / "0.parquet"))
    (home / "b.json").write_text(json.dumps([{"id": i} for i in range(3)]))
    asked = ["--partitions", str(at), "--brokers", str(home / "b.json"), "--replication-factor", "3"]
    raising = ["plan", "raise-replication-factor", *asked, "--engine", "spark", "--output", str(home / "my plan")]
    assert main.main(raising) == 0, capsys.readouterr().err
    assert pq.read_table(home / "my plan" / "plan.parquet").num_rows == 6
    assert {path.name for path in tmp_path.iterdir()} == {home.name}
    assert {path.name for path in home.iterdir()} == {at.name, "b.json", "my plan"}
    checking = ["plan", "verify", *asked, "--engine", "spark", "--plan", str(home / "my plan" / "plan.parquet")]
    assert main.main(checking) == 0, capsys.readouterr().err


def test_an_empty_table_and_one_that_lacks_nothing_are_empty_plans(spark, tmp_path):
    for name, replicas in (("none", {}), ("full", {"t": [[0, 1]]})):
        problem = Problem(partitions(replicas), brokers(2), 1)
        table, done = planned(spark, problem, tmp_path / name)
        assert table.num_rows == 0
        assert (done.problems, done.summary.moves, done.summary.waves) == ((), 0, 0)
