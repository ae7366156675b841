"""`kafka-medic plan raise-replication-factor`, from files to files."""

from __future__ import annotations

import argparse
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_medic.cli import plan as command
from kafka_medic.cli import plan_arguments, plan_check, plan_spark, terminal

BROKERS = [{"id": 1, "rack": "a"}, {"id": 2, "rack": "b"}, {"id": 3, "rack": "c"}]
PARTITIONS = [
    {"topic": topic, "partition": number, "replicas": [1], "sizeBytes": 1 << 30}
    for topic in ("orders", "logs-a", "scratch")
    for number in range(4)
]


@pytest.fixture
def call(tmp_path, capsys):
    def run(*options, partitions=PARTITIONS, brokers=BROKERS, factor=3):
        (tmp_path / "p.json").write_text(json.dumps(partitions))
        (tmp_path / "b.json").write_text(json.dumps(brokers))
        parser = argparse.ArgumentParser()
        plan_arguments.add_parser(parser.add_subparsers())
        line = ["plan", "raise-replication-factor", "--partitions", str(tmp_path / "p.json")]
        line += ["--brokers", str(tmp_path / "b.json"), "--replication-factor", str(factor)]
        code = command.run(parser.parse_args([*line, "--output", str(tmp_path / "out"), *options]))
        printed = capsys.readouterr()
        return code, printed.out, printed.err, tmp_path / "out"

    return run


def test_the_summary_is_a_table_for_people_and_json_on_request(call):
    code, out, err, made = call("--throttle", "1073741824")
    assert code == 0
    assert "replicas added" in out
    assert "time at the throttle, at least  0 min 24 s" in out
    assert "planned 24 new replicas" in err
    code, out, _, _ = call("-o", "json", "--overwrite")
    assert code == 0
    summary = json.loads(out)
    assert summary == json.loads((made / "summary.json").read_text())
    assert list(summary) == [
        "partitions", "moves", "lowerBoundMoves", "replicasPerBroker", "leadersPerBroker",
        "rackViolations", "rackViolationsBound", "waves", "roomUnknown", "leadersAfterReassignment", "preferredOrder",
        "leftOut",
        "replicasOfOneTopic", "leadersOfOneTopic", "bounds", "engine", "seconds",
    ]  # fmt: skip
    assert summary["seconds"] > 0


def test_without_matplotlib_a_picture_is_refused_before_anything_is_read(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, _, err, made = call("--png")
    assert (code, made.exists()) == (4, False)
    assert "pip install 'kafka-medic[png]'" in err


def test_where_spark_is_comes_from_the_line_or_else_from_the_environment(call, monkeypatch):
    request = []

    def refuse(*place, **_):
        request.append(place)
        raise command.SparkError("not here")

    monkeypatch.setattr(plan_spark, "session", refuse)
    monkeypatch.setenv("KAFKA_MEDIC_SPARK_REMOTE", "sc://planner:15002")
    assert call("--engine", "spark")[0] == 4
    assert call("--engine", "spark", "--spark-master", "spark://other:7077")[0] == 4
    monkeypatch.setenv("KAFKA_MEDIC_SPARK_REMOTE", "")
    monkeypatch.setenv("KAFKA_MEDIC_SPARK_MASTER", "k8s://https://here")
    assert call("--engine", "spark", "--spark-conf", "a=b")[0] == 4
    assert call("--spark-master", "spark://named:7077")[0] == 4
    assert request == [
        (None, "sc://planner:15002", {}), ("spark://other:7077", None, {}), ("k8s://https://here", None, {"a": "b"}),
        ("spark://named:7077", None, {}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--partitions", "s3a://b/p", "--engine", "local"), "--partitions s3a://b/p: is for Spark alone"),
        (("--where", "a = 1", "--engine", "local"), "--where: is for Spark alone"),
        (("--spark-remote", "sc://a:1", "--engine", "local"), "--spark-remote: is for Spark alone"),
        (("--engine", "spark", "--plan-to", "elsewhere"), "--plan-to elsewhere: must be an address"),
        (("--engine", "spark", "--plan-format", "orc"), "are for --plan-to"),
        (("--engine", "spark", "--option", "a"), "--option a: must be KEY=VALUE"),
    ],
)
def test_options_for_spark_that_cannot_be_used_are_named(call, options, reason):
    code, _, err, made = call(*options)
    assert (code, made.exists()) == (4, False)
    assert reason in err


def test_patterns_set_other_factors_and_exemptions(call):
    _, out, err, _ = call("-o", "json", "--topic-factor", "logs-*=2", "--exempt", "scr*", "--exempt", "nothing")
    assert json.loads(out)["moves"] == 4 * 2 + 4 * 1
    assert "--exempt nothing: matches no topic" in err


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"factor": 4}, "p.json: row 1: orders-0 wants replication factor 4, but only 3 brokers are alive"),
        ({"factor": 0}, "below 1"),
        ({"factor": 2**32}, "replication factor 4294967296 is above 32767, Kafka's own limit"),
        ({"brokers": [*BROKERS[:2], BROKERS[2] | {"diskFree": 9}]}, "b.json: broker 3 would get 12,884,901,888 bytes"),
        ({"brokers": [*BROKERS, {"id": 4}]}, "b.json: row 4: broker 4 has no rack"),
        ({"partitions": PARTITIONS[1:]}, "p.json: row 1: orders-0 is missing"),
        ({"partitions": [{"topic": "t"}]}, "p.json: row 1: partition is missing"),
    ],
)
def test_bad_input_is_one_line_exit_4_and_nothing_written(call, change, reason):
    code, out, err, made = call(**change)
    assert code == 4
    assert out == ""
    assert reason in err
    assert len([line for line in err.splitlines() if "read " not in line]) == 1
    assert not made.exists()


@pytest.mark.parametrize(
    "options",
    [("--spark-conf", "cores"), ("--throttle", "0"), ("--topic-factor", "logs"), ("--topic-factor", "logs=x")],
)
def test_an_option_that_cannot_be_used_is_exit_4_and_nothing_written(call, options):
    code, _, err, made = call(*options)
    assert code == 4
    assert options[0] in err
    assert not made.exists()


def carried_out(file, partitions):
    """The partitions once a file of Kafka's format is carried out."""
    now = {(row["topic"], row["partition"]): row["replicas"] for row in json.loads(file.read_text())["partitions"]}
    return [row | {"replicas": now.get((row["topic"], row["partition"]), row["replicas"])} for row in partitions]


def leaders(partitions):
    first = [row["replicas"][0] for row in partitions]
    return {"min": min(map(first.count, (1, 2, 3))), "max": max(map(first.count, (1, 2, 3)))}


def test_the_files_that_people_carry_out_reach_the_leaders_of_the_summary(call, tmp_path, capsys):
    code, out, err, made = call("-o", "json")
    assert code == 0
    assert "Carry out preferred-order.json after it" in err
    summary = json.loads(out)
    first = carried_out(made / "reassignment.json", PARTITIONS)
    assert leaders(first) == summary["leadersAfterReassignment"] == {"min": 0, "max": 12}
    assert summary["preferredOrder"] == {"partitions": 8, "file": "preferred-order.json"}
    after = leaders(carried_out(made / "preferred-order.json", first))
    assert after == {name: summary["leadersPerBroker"][name] for name in ("min", "max")} == {"min": 4, "max": 4}

    def verified(partitions, plan):
        (tmp_path / "now.json").write_text(json.dumps(partitions))
        parser = argparse.ArgumentParser()
        plan_arguments.add_parser(parser.add_subparsers())
        line = ["plan", "verify", "--partitions", str(tmp_path / "now.json"), "--brokers", str(tmp_path / "b.json")]
        code = command.run(parser.parse_args([*line, "--replication-factor", "3", "--plan", str(plan)]))
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    order = made / "preferred-order.json"
    code, text = verified(PARTITIONS, order)
    assert code == 4
    assert "first carry out reassignment.json" in text
    code, text = verified(first, order)
    assert code == 0
    assert "8 partitions get another order" in text
    rows = json.loads(order.read_text())
    rows["partitions"][0]["replicas"][1] = rows["partitions"][0]["replicas"][0]
    order.write_text(json.dumps(rows))
    code, text = verified(first, order)
    assert code == 1
    assert "names other replicas than there are" in text


def test_a_plan_that_fails_its_check_is_not_written(call, monkeypatch):
    monkeypatch.setattr(command, "verify", lambda *_: ["t-0 names a broker twice"])
    code, out, err, made = call()
    assert code == 1
    assert out == ""
    assert "names a broker twice" in err
    assert not made.exists()


def test_a_directory_that_cannot_be_made_is_said(call, tmp_path):
    (tmp_path / "out").write_text("a file")
    code, _, err, made = call()
    assert code == 4
    assert f"--output {made}: is no folder" in err
    assert made.read_text() == "a file"


def test_without_pyspark_or_java_the_way_out_is_said(call, monkeypatch):
    with monkeypatch.context() as there:
        there.setitem(sys.modules, "pyspark.errors", None)
        code, _, err, made = call("--engine", "spark")
    assert (code, made.exists()) == (4, False)
    assert "pip install 'kafka-medic[spark]'" in err
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda _: None)
    code, _, err, made = call("--engine", "spark", "--spark-master", "local[1]")
    assert (code, made.exists()) == (4, False)
    assert "no Java was found" in err


def test_auto_takes_spark_only_for_much_parquet_and_where_it_is_installed(tmp_path, monkeypatch):
    pq.write_table(pa.table({"topic": ["t"] * 3}), tmp_path / "p.parquet")
    (tmp_path / "p.json").write_text("[]")

    def takes(name):
        options = {"engine": "auto", "format": None, "option": [], "where": None, "plan_to": None, "spark_conf": []}
        options |= {"spark_master": None, "spark_remote": None}
        asked = argparse.Namespace(question=command.RAISE, asked=command.RAISE, partitions=tmp_path / name, **options)
        return command._takes_spark(asked)

    assert not takes("p.parquet")
    monkeypatch.setattr(command, "LARGEST_LOCAL", 2)
    assert takes("p.parquet")
    assert not takes("p.json")
    monkeypatch.setattr(command, "find_spec", lambda _: None)
    assert not takes("p.parquet")


def test_a_folder_that_holds_something_is_refused_before_anything_is_planned(call, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "plan_local", lambda _: pytest.fail("it planned"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("kept")
    code, out, err, made = call()
    assert (code, out) == (4, "")
    way_out = "name another folder, or replace the plan in it with --overwrite"
    assert f"--output {made}: exists and is not empty\n  {way_out}" in err
    assert [path.name for path in made.iterdir()] == ["mine.txt"]


def test_a_plan_is_replaced_where_that_is_asked_for_and_an_empty_folder_is_used(call, tmp_path):
    (tmp_path / "out").mkdir()
    assert call()[0] == 0
    (tmp_path / "out" / "mine.txt").write_text("kept")
    (tmp_path / "out" / "summary.json").write_text("old")
    code, _, _, made = call("--overwrite")
    assert code == 0
    assert json.loads((made / "summary.json").read_text())["moves"] == 24
    assert (made / "mine.txt").read_text() == "kept"


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_planned(call, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "plan_local", lambda _: pytest.fail("it planned"))
    (tmp_path / "file").write_text("a file")
    code, _, err, _ = call("--output", str(tmp_path / "file" / "plan"))
    assert code == 4
    assert f"cannot be written: {tmp_path / 'file'} is no folder" in err


def test_a_plan_that_cannot_be_written_after_all_is_kept_and_found(call, tmp_path, monkeypatch):
    written, elsewhere = plan_check.write_rows, tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))

    def full(work, plan):
        if elsewhere not in work.parents:
            raise OSError(28, "No space left on device")
        written(work, plan)

    monkeypatch.setattr(plan_check, "write_rows", full)
    code, _, err, made = call()
    assert (code, made.exists()) == (4, False)
    assert f"{made}: cannot be written: No space left on device. The plan is complete in " in err
    (kept,) = elsewhere.glob("kafka-medic-plan-*/out")
    assert f"  mv {kept} DIR" in err
    assert {path.name for path in kept.iterdir()} >= {"plan.parquet", "reassignment.json", "summary.json"}


def test_a_folder_that_appears_meanwhile_is_not_overwritten(call, tmp_path, monkeypatch):
    written = plan_check.write_rows

    def beside(work, plan):
        written(work, plan)
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "summary.json").write_text("of another run")

    monkeypatch.setattr(plan_check, "write_rows", beside)
    code, _, err, made = call()
    assert code == 4
    assert (made / "summary.json").read_text() == "of another run"
    (kept,) = tmp_path.glob(".out.*")
    assert f"The plan is complete in {kept}" in err
    assert (kept / "plan.parquet").exists()


def test_one_partition_is_not_called_partitions(call):
    err = call(partitions=PARTITIONS[:1])[2]
    assert "read 1 partition and 3 brokers" in err
    assert "in 1 wave;" in err


def test_progress_is_drawn_on_a_terminal_and_never_into_a_pipe(call, monkeypatch):
    assert "\x1b" not in call()[2]
    monkeypatch.setattr("kafka_medic.cli.progress.animated", lambda _: True)
    monkeypatch.setattr("kafka_medic.cli.output.coloured", lambda _: False)
    shown = []
    real = terminal.bar

    def recorded(stream):
        made = real(stream)
        update = made.update
        made.update = lambda task, **what: (shown.append(what["description"]), update(task, **what))
        return made

    monkeypatch.setattr(terminal, "bar", recorded)
    code, out, _, _ = call("--overwrite")
    assert code == 0
    assert shown == ["planning 12 partitions", "checking and writing 24 new replicas"]
    assert "planning" not in out
