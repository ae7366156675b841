"""The fleet on a real Spark: the answers of one process, from the days asked for alone."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import UTC, date, datetime

import pyarrow.dataset
import pytest

from kafka_medic.cli import fleet
from kafka_medic.cli.main import main
from kafka_medic.fleet.history import Window
from kafka_medic.fleet.on_spark import SparkEngine
from kafka_medic.fleet.request import Request, account_parts
from kafka_medic.plan.spark import engine
from kafka_medic.plan.spark.session import session
from tests.unit.fleet.fleets import cluster, history, topic

NOW = datetime(2026, 1, 12, 9, tzinfo=UTC)
DAYS = range(10)


@pytest.fixture(scope="module")
def spark():
    with session("local[2]", None, {"spark.driver.memory": "512m"}) as started:
        yield started


@pytest.fixture
def fleets(tmp_path):
    """Five clusters with ten days, a sick one, one that was made anew, a silent one, and a day in December that cannot
    be read."""
    for day in DAYS:
        for n in range(5):
            rows = topic("orders", 10 + n, day, replicas=lambda n: [1 + n % 3]) + topic('ö\'s "logs"', 4, day)
            commits = [("billing", "Stable", "orders", 0, 900 * (day + 1))]
            history(tmp_path / "h", cluster(f"c{n}", day, rows=rows, groups=commits, used=10 + 5 * day))
    history(tmp_path / "h", cluster("sick", 9, rows=topic("t", 3, 9, replicas=lambda _: [1]), brokers=None))
    history(tmp_path / "h", cluster("it's", 2, identity="old'"), cluster("it's", 9, identity="new"))
    history(tmp_path / "h", cluster("silent", 2))
    for table in ("snapshots", "brokers", "partitions", "offsets"):
        poisoned = tmp_path / "h" / table / "day=2025-12-01" / "c-x.parquet"
        poisoned.parent.mkdir(parents=True)
        poisoned.write_bytes(b"not Parquet")
    return tmp_path / "h"


@pytest.fixture
def answer(spark, fleets, tmp_path, monkeypatch):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return NOW.astimezone(tz)

    @contextmanager
    def running(*_):
        yield spark

    monkeypatch.setattr(fleet, "datetime", Clock)
    monkeypatch.setattr(fleet, "session", running)

    def ask(question, engine, *more):
        out = tmp_path / f"{question}-{engine}"
        line = ["fleet", question, "--history", str(fleets), "--output", str(out), "--engine", engine, *more]
        return main(line), out

    return ask


def pages(out):
    return {path.name: path.read_text() for path in out.rglob("*.html")}


@pytest.mark.parametrize("more", [[], ["--cluster", "c1", "--cluster", "it's"]])
def test_a_report_is_that_of_one_process(answer, more):
    (code, here), (there_code, there) = answer("report", "local", *more), answer("report", "spark", *more)
    assert code == there_code == 0
    rows = [json.loads((out / "fleet.json").read_text())["clusters"] for out in (here, there)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == (3 if more else 9)
    assert pages(here) == pages(there)


def test_plans_are_those_of_one_process_row_for_row(answer):
    (code, here), (there_code, there) = answer("plan", "local"), answer("plan", "spark")
    assert code == there_code == 1  # of the sick one
    rows = [json.loads((out / "fleet.json").read_text())["clusters"] for out in (here, there)]
    assert rows[0] == rows[1]
    assert {row["balancedBy"] for row in rows[0]} == {None, "traffic"}
    assert pages(here) == pages(there)
    tables = [pyarrow.dataset.dataset(out / "plans.parquet", partitioning="hive").to_table() for out in (here, there)]
    order = [(name, "ascending") for name in ("clusterId", "of", "topic", "partition")]
    assert tables[0].sort_by(order).to_pylist() == tables[1].sort_by(order).to_pylist()


def test_a_cluster_that_no_task_can_hold_is_planned_in_blocks(answer, monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "BLOCK_ROWS", 5)
    answer("plan", "local", "--balance", "replicas", "--output", str(tmp_path / "whole"))
    monkeypatch.setattr(fleet, "LARGEST", 16)
    code, there = answer("plan", "spark", "--balance", "replicas")
    assert code == 1  # of the sick one
    rows = [
        {row["clusterId"]: row for row in json.loads((out / "fleet.json").read_text())["clusters"]}
        for out in (tmp_path / "whole", there)
    ]
    large = [name for name, row in rows[0].items() if (row["partitions"] or 0) > 16]
    assert len(large) == 2
    for name in rows[0]:
        same = ("state", "partitions", "changed", "moves", "bytesToCopy", "replicasBound", "rackViolations", "leftOut")
        assert [rows[0][name][key] for key in same] == [rows[1][name][key] for key in same]
    tables = [
        pyarrow.dataset.dataset(out / "plans.parquet", partitioning="hive").to_table().to_pylist()
        for out in (tmp_path / "whole", there)
    ]
    for name in rows[0]:
        found = [
            [(r["topic"], r["partition"], r["replicasBefore"], len(r["replicas"])) for r in table
             if r["clusterId"] == name and r["of"] == "partition"]
            for table in tables
        ]  # fmt: skip
        assert sorted(found[0]) == sorted(found[1])
        assert sum(r["clusterId"] == name and r["of"] == "cluster" for r in tables[1]) == (name != "old'")
    assert pages(there).keys() == pages(tmp_path / "whole").keys()
    assert [path.name for path in there.iterdir() if path.name.startswith(".")] == []


def test_only_the_days_and_columns_asked_for_are_read(spark, fleets):
    request = Request(fleets, Window.until(date(2026, 1, 10), 2), NOW)
    reader = SparkEngine(request, spark)
    parts = {part.kind: part for part in account_parts(request, reader.clusters())}
    for kind, days in (("topics", {"2026-01-09", "2026-01-10"}), ("last", {"2026-01-10"})):
        rows = reader.read(parts[kind].table, parts[kind].days, parts[kind].columns)
        assert {path.split("day=")[1][:10] for path in rows.inputFiles()} == days
    plan = reader.read("partitions", parts["topics"].days, parts["topics"].columns)
    scan = plan._jdf.queryExecution().executedPlan().toString()
    assert "replicas" not in scan.split("ReadSchema")[1]


def test_clusters_that_are_not_asked_for_are_left_in_their_row_groups(spark, fleets):
    request = Request(fleets, Window.until(date(2026, 1, 10), 30), NOW, frozenset({"c1"}))
    reader = SparkEngine(request, spark)
    part = next(part for part in account_parts(request, reader.clusters()) if part.kind == "topics")
    frame = reader._packed(part, ["id-c1"])
    assert "PushedFilters: [IsNotNull(clusterId), EqualTo(clusterId,id-c1)]" in frame._jdf.queryExecution().toString()


def test_a_broken_file_among_the_days_is_named_and_nothing_is_written(answer, fleets, tmp_path):
    (file,) = (fleets / "partitions" / "day=2026-01-10").glob("c-c3-*")
    file.write_bytes(b"broken")
    with pytest.raises(Exception, match="c-c3-"):
        answer("report", "spark")
    assert [path for path in tmp_path.iterdir() if path != fleets] == []
