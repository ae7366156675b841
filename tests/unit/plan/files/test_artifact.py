from __future__ import annotations

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_medic.cli import main
from kafka_medic.plan.estimate import estimate
from kafka_medic.plan.files import artifact
from kafka_medic.plan.files.artifact import plan_directory, write_rows, write_summary
from kafka_medic.plan.files.inputs import InputError, read_brokers, read_partitions
from kafka_medic.plan.files.report_data import report_data
from kafka_medic.plan.problem import Broker
from kafka_medic.plan.solver.local import plan_local
from tests.unit.plan.cluster_tables import problem

ROWS = [
    {"topic": "t", "partition": 0, "replicas": [1], "leader": 1, "isr": [1], "sizeBytes": 5, "other": True},
    {"topic": "t", "partition": 1, "replicas": [2], "leader": None, "isr": None, "sizeBytes": None, "other": 0},
]


def write_plan(directory, plan, shown, *, png=False):
    with plan_directory(directory, overwrite=True) as work:
        write_rows(work, plan)
        write_summary(work, shown, png=png)


def written(tmp_path, text, name="p.json"):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


def test_a_list_lines_parquet_and_kafkas_own_format_read_alike(tmp_path):
    from_list = read_partitions(written(tmp_path, json.dumps(ROWS)))
    from_lines = read_partitions(written(tmp_path, "\n".join(map(json.dumps, ROWS)) + "\n\n"))
    pq.write_table(from_list, tmp_path / "p.parquet")
    assert from_list == from_lines == read_partitions(tmp_path / "p.parquet")
    assert from_list.column("leader").to_pylist() == [1, None]
    kafkas = {"version": 1, "partitions": [{k: row[k] for k in ("topic", "partition", "replicas")} for row in ROWS]}
    assert read_partitions(written(tmp_path, json.dumps(kafkas))).column_names == ["topic", "partition", "replicas"]


@pytest.mark.parametrize(
    ("text", "row", "reason"),
    [
        ("{", None, "not valid JSON"),
        ("3", None, "neither a JSON list nor JSON lines"),
        ("[3]", 1, "not a JSON object"),
        ('[{"topic":"t","partition":0}]', 1, "replicas is missing"),
        ('[{"topic":"t","partition":0,"replicas":[1]},{"topic":1,"partition":1,"replicas":[1]}]', 2, "not a string"),
        ('[{"topic":"t","partition":true,"replicas":[1]}]', 1, "partition true is not a whole number"),
        ('[{"topic":"t","partition":0,"replicas":["1"]}]', 1, "not a list of broker ids"),
        ('[{"topic":"t","partition":0,"replicas":[1],"sizeBytes":1.5}]', 1, "sizeBytes 1.5"),
        ('{"topic":"t","partition":0,"replicas":[1]}\n{"topic"', 2, "not valid JSON"),
    ],
)
def test_malformed_json_is_named_by_file_and_row(tmp_path, text, row, reason):
    with pytest.raises(InputError, match=reason) as caught:
        read_partitions(written(tmp_path, text))
    assert caught.value.row == row
    assert str(tmp_path) in str(caught.value)


def test_a_broken_parquet_file_and_a_missing_one_are_input_errors(tmp_path):
    for path in (written(tmp_path, "PAR1 but no more", "p.parquet"), tmp_path / "absent.json"):
        with pytest.raises(InputError):
            read_partitions(path)


def test_brokers_have_racks_and_life_where_given(tmp_path):
    text = '[{"id":1,"rack":"a"},{"id":2,"rack":null,"alive":false},{"id":3}]'
    assert read_brokers(written(tmp_path, text)) == (Broker(1, "a"), Broker(2, None, alive=False), Broker(3))
    for bad in ('[{"rack":"a"}]', '[{"id":"1"}]', '[{"id":1,"rack":7}]', '[{"id":1,"alive":"no"}]'):
        with pytest.raises(InputError) as caught:
            read_brokers(written(tmp_path, bad))
        assert caught.value.row == 1


def test_everything_is_written_and_readable_again(tmp_path):
    request = problem({'we"ird é': [[0], [1]]}, "ab", 2, sizeBytes=pa.array([3, None]))
    plan = plan_local(request)
    write_plan(tmp_path / "deep" / "plan", plan, report_data(request, plan, request.leaders_of_changed(plan)))
    made = tmp_path / "deep" / "plan"
    assert sorted(p.name for p in made.iterdir()) == [
        "plan.parquet", "reassignment.json", "report.html", "report.json", "summary.json"
    ]  # fmt: skip
    assert pq.read_table(made / "plan.parquet") == plan.table
    kafkas = json.loads((made / "reassignment.json").read_text("utf-8"))
    assert kafkas["version"] == 1
    assert kafkas["partitions"] == plan.table.select(["topic", "partition", "replicas"]).to_pylist()
    assert json.loads((made / "summary.json").read_text()) == plan.summary.to_json()
    assert [p.name for p in made.parent.iterdir()] == ["plan"]


def test_reassignment_in_several_pieces_is_one_document(tmp_path, monkeypatch):
    monkeypatch.setattr(artifact, "BLOCK", 3)
    request = problem({"t": [[0]] * 8}, 2, 2)
    plan = plan_local(request)
    write_plan(tmp_path / "plan", plan, report_data(request, plan, request.leaders_of_changed(plan)))
    kafkas = json.loads((tmp_path / "plan" / "reassignment.json").read_text("utf-8"))
    assert [row["partition"] for row in kafkas["partitions"]] == list(range(8))
    assert all(row["replicas"] == [0, 1] for row in kafkas["partitions"])


def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch):
    request = problem({"t": [[0]]}, 2, 2)
    plan = plan_local(request)
    write_plan(tmp_path / "plan", plan, report_data(request, plan, request.leaders_of_changed(plan)))
    before = {p.name: p.read_bytes() for p in (tmp_path / "plan").iterdir()}

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(artifact, "render_report", fail)
    with pytest.raises(OSError, match="disk full"):
        write_plan(tmp_path / "plan", plan, report_data(request, plan, request.leaders_of_changed(plan)))
    assert {p.name: p.read_bytes() for p in (tmp_path / "plan").iterdir()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["plan"]
    monkeypatch.undo()
    write_plan(
        tmp_path / "plan", plan, report_data(request, plan, request.leaders_of_changed(plan))
    )  # and a directory that is there is replaced


def test_the_report_shows_before_and_after_without_outside_resources(tmp_path):
    request = problem({"t": [[0]] * 3}, ["<a>", "b"], 2)
    plan = plan_local(request)
    write_plan(tmp_path / "plan", plan, report_data(request, plan, request.leaders_of_changed(plan)))
    page = (tmp_path / "plan" / "report.html").read_text("utf-8")
    assert "<span>3 → 3</span>" in page
    assert "<span>0 → 3</span>" in page
    assert "Preferred leaders per rack" in page
    assert "&lt;a&gt;" in page
    assert "<a>" not in page
    assert not any(word in page for word in ("http://", "https://", "src="))
    digest = hashlib.sha256((tmp_path / "plan" / "reassignment.json").read_bytes()).hexdigest()
    assert f"<code>{digest}</code>" in page


def test_the_estimate_is_the_busiest_broker_over_the_throttle():
    request = problem({"t": [[0], [0], [1]]}, 3, 2, sizeBytes=pa.array([10, 20, None]), leader=pa.array([0, 0, 1]))
    plan = plan_local(request)
    cost = estimate(plan, request.leaders_of_changed(plan), throttle=10)
    assert (cost.bytes_total, cost.busiest_out, cost.unknown) == (30, 30, 1)
    assert cost.seconds == 3.0
    assert estimate(plan).seconds is None
    with pytest.raises(ValueError, match="throttle"):
        estimate(plan, throttle=0)


def test_the_leader_sends_not_the_first_replica():
    request = problem({"t": [[0, 1], [2, 1]]}, 4, 3, sizeBytes=pa.array([5, 5]), leader=pa.array([1, 1]))
    plan = plan_local(request)
    assert estimate(plan).busiest_out == 5
    assert estimate(plan, request.leaders_of_changed(plan)).busiest_out == 10


@pytest.mark.parametrize(
    ("name", "change", "exit_code", "line"),
    [
        ("plan.parquet", None, 0, "keeps every rule: 8 partitions, 16 new replicas"),
        ("reassignment.json", None, 0, "keeps every rule: 8 partitions, 16 new replicas"),
        ("reassignment.json", ("[0,", "[1,"), 1, "broken: t-"),
        ("reassignment.json", ('"partition":3,', '"partition":9,'), 1, "broken: t-9 is not among the partitions"),
        ("reassignment.json", ('"partition":3,', '"partition":null,'), 4, "row 4: partition is missing"),
        ("reassignment.json", ('"version":1', '"version":7'), 4, "version 7"),
    ],
)
def test_a_written_plan_is_checked_anew_in_both_formats(tmp_path, capsys, name, change, exit_code, line):
    rows = [{"topic": "t", "partition": n, "replicas": [0], "sizeBytes": n} for n in range(8)]
    (tmp_path / "p.json").write_text(json.dumps(rows))
    (tmp_path / "b.json").write_text(json.dumps([{"id": n} for n in range(3)]))
    inputs = ["--partitions", str(tmp_path / "p.json"), "--brokers", str(tmp_path / "b.json")]
    inputs += ["--replication-factor", "3"]
    assert main.main(["plan", "raise-replication-factor", *inputs, "--output", str(tmp_path / "out")]) == 0
    path = tmp_path / "out" / name
    if change:
        path.write_text(path.read_text().replace(*change, 1))
    capsys.readouterr()
    assert main.main(["plan", "verify", "--plan", str(path), *inputs]) == exit_code
    printed = capsys.readouterr()
    assert line in printed.out + printed.err


def test_a_plan_for_partitions_that_have_changed_since_is_seen(tmp_path, capsys):
    (tmp_path / "b.json").write_text(json.dumps([{"id": n} for n in range(3)]))
    path, line = tmp_path / "p.json", ["--brokers", str(tmp_path / "b.json"), "--replication-factor", "2"]
    path.write_text(json.dumps([{"topic": "t", "partition": 0, "replicas": [0]}]))
    line += ["--partitions", str(path)]
    assert main.main(["plan", "raise-replication-factor", *line, "--output", str(tmp_path / "out")]) == 0
    path.write_text(json.dumps([{"topic": "t", "partition": 0, "replicas": [2]}]))
    for name in ("plan.parquet", "reassignment.json"):
        assert main.main(["plan", "verify", "--plan", str(tmp_path / "out" / name), *line]) == 1
    assert "names other replicas before" in capsys.readouterr().out
