"""`kafka-medic snapshot -o parquet` and `kafka-medic fleet`: what they answer to input that cannot be used."""

from __future__ import annotations

import argparse
import json

import pytest

from kafka_medic.cli import fleet
from kafka_medic.cli.main import main
from kafka_medic.cluster.snapshot import ClusterInfo
from kafka_medic.observe import command
from tests.unit.cluster import worlds
from tests.unit.fleet.fleets import cluster, history


def test_snapshots_are_appended_and_reported(asked, tmp_path, monkeypatch, capsys):
    for day in range(4):
        monkeypatch.setattr(command, "take_snapshot", lambda *_, day=day: cluster("payments", day))
        line = ["snapshot", "--bootstrap-servers", "a:1", "--name", "payments", "-o", "parquet"]
        assert main([*line, "--append", str(tmp_path / "h")]) == 0
        assert "appended" in capsys.readouterr().err
    assert asked("report")["payments"]["snapshots"] == 4


def test_a_snapshot_that_read_nothing_is_not_appended(tmp_path, monkeypatch, capsys):
    unread = cluster("payments")
    monkeypatch.setattr(
        command, "take_snapshot", lambda *_: worlds.replace(unread, cluster=ClusterInfo("payments"), partitions=None)
    )
    line = ["snapshot", "--bootstrap-servers", "a:1", "-o", "parquet", "--append", str(tmp_path / "h")]
    assert main(line) == 4
    assert "cluster id not known, so nothing was appended" in capsys.readouterr().err
    assert not (tmp_path / "h").exists()


@pytest.mark.parametrize("more", [["-o", "parquet"], ["-o", "json", "--append", "h"]])
def test_parquet_and_append_go_together(more, capsys):
    assert main(["snapshot", "--bootstrap-servers", "a:1", *more]) == 4
    assert "goes with --append DIR" in capsys.readouterr().err


def test_a_history_that_cannot_be_written_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "h").write_text("a file")
    monkeypatch.setattr(command, "take_snapshot", lambda *_: cluster())
    line = ["snapshot", "--bootstrap-servers", "a:1", "-o", "parquet", "--append", str(tmp_path / "h")]
    assert main(line) == 4
    assert "cannot be written: Not a directory" in capsys.readouterr().err


@pytest.mark.parametrize("question", ["report", "plan"])
def test_without_a_history_the_command_that_begins_one_is_named(asked, tmp_path, question):
    asked(question, code=4)
    assert "holds no snapshot" in asked.told.err
    assert "kafka-medic snapshot --bootstrap-servers HOST:PORT -o parquet --append" in asked.told.err
    assert list(tmp_path.iterdir()) == []


def test_days_without_a_snapshot_name_the_last_one(asked, tmp_path):
    history(tmp_path / "h", cluster(day=2))
    asked("report", "--until", "2025-12-01", code=4)
    assert "holds no snapshot of 2025-11-02 to 2025-12-01" in asked.told.err
    assert "give --until 2026-01-03" in asked.told.err


def test_a_cluster_that_is_not_there_is_answered_with_those_that_are(asked, tmp_path):
    history(tmp_path / "h", cluster("payments", 9), cluster("logs", 9))
    asked("report", "--cluster", "payment", code=4)
    assert "--cluster payment: not in the history" in asked.told.err
    assert "the history has logs, payments" in asked.told.err
    assert set(asked("report", "--cluster", "payments")) == {"payments"}
    assert set(asked("report", "--cluster", "id-logs")) == {"logs"}


def test_an_output_that_is_there_is_left_alone(tmp_path, capsys):
    history(tmp_path / "h", cluster("payments", 9))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept").write_text("mine")
    line = ["fleet", "report", "--history", str(tmp_path / "h"), "--until", "2026-01-12", "--output"]
    assert main([*line, str(tmp_path / "out")]) == 4
    assert "exists and is not an empty folder" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["kept"]


def test_an_answer_that_fails_leaves_no_folder(asked, tmp_path):
    history(tmp_path / "h", cluster("payments", 9))
    (file,) = (tmp_path / "h" / "partitions").rglob("*.parquet")
    file.write_bytes(b"broken")
    asked("report", code=4)
    assert "not readable as Parquet" in asked.told.err
    assert [path.name for path in tmp_path.iterdir()] == ["h"]


def test_the_summary_as_json_and_as_a_table(asked, tmp_path):
    history(tmp_path / "h", *(cluster("payments", day) for day in range(10)))
    asked("report", "-o", "json")
    (row,) = json.loads(asked.told.out)["clusters"]
    assert (row["cluster"], row["firstDiskFull"]) == ("payments", None)
    asked("report")
    assert asked.told.out.startswith("CLUSTER")
    assert "not at this rate" in asked.told.out


@pytest.mark.parametrize(
    "more",
    [["--days", "0"], ["--until", "yesterday"], ["--replication-factor", "0"], ["--topic-factor", "a"],
     ["--spark-conf", "a"]],
)  # fmt: skip
def test_options_that_cannot_be_used(asked, more):
    asked("report", *more, code=4)
    assert more[0] in asked.told.err


def test_spark_that_is_not_there_is_named(asked, tmp_path, monkeypatch):
    history(tmp_path / "h", cluster("payments", 9))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    asked("report", code=4, engine="spark")
    assert "no Java was found" in asked.told.err


def test_who_names_where_spark_is_asks_for_spark(asked, tmp_path, monkeypatch):
    history(tmp_path / "h", cluster("payments", 9))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    asked("report", "--spark-master", "local[1]", code=4, engine="auto")
    assert "no Java was found" in asked.told.err
    asked("report", "--spark-remote", "sc://a:1", code=4, engine="local")
    assert "--spark-remote: is for Spark alone" in asked.told.err


def test_many_rows_go_to_spark_by_themselves(monkeypatch):
    monkeypatch.setattr(fleet, "LARGEST_LOCAL", 100)

    def chosen(rows):
        return argparse.Namespace(rows=rows)

    assert fleet._is_large([chosen(60), chosen(60)])
    assert not fleet._is_large([chosen(60)])


@pytest.mark.parametrize("question", [[], ["report"], ["plan"]])
def test_the_help_tells_where_histories_come_from(question, capsys):
    assert main(["fleet", *question, "--help"]) == 0
    told = capsys.readouterr().out
    assert "-o parquet --append history/" in told
    assert "exit codes:" in told
