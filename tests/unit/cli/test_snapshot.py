"""A look at a cluster from the command line: what is asked, what is written, and no secret in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_medic.cli import output
from kafka_medic.cli.main import main
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.cluster.snapshot import Mode, TopicPartition
from kafka_medic.observe import command
from tests.simulation.kafka import SimKafka
from tests.unit.cli.conftest import CLUSTER
from tests.unit.cluster import worlds

ROOT = Path(__file__).parents[3]


def test_snapshot_writes_what_was_observed(capsys, monkeypatch):
    asked = []

    def take(cluster, secrets_dir):
        asked.append((cluster.spec, secrets_dir))
        return worlds.healthy(Mode.ZOOKEEPER, sources=worlds.sources(Mode.ZOOKEEPER, groups="refused"))

    monkeypatch.setattr(command, "take_snapshot", take)
    line = ["snapshot", "--bootstrap-servers", "a:9092,b:9092", "--zookeeper", "zk:2181/kafka", "--secrets-dir", "s"]
    assert main([*line, "-o", "json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["kind"] == "Snapshot"
    assert "groups is not known: refused" in told.err
    spec, secrets = asked[0]
    assert spec.bootstrap_servers == "a:9092,b:9092"
    assert spec.metadata.zookeeper.connect == "zk:2181/kafka"
    assert secrets == Path("s")
    assert main(line) == 0
    assert "partitions: 4" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options", [["--bootstrap-servers", "kafka"], ["--bootstrap-servers", "a:1", "--zookeeper", "zk"]]
)
def test_snapshot_refuses_an_address_that_is_none(options, capsys):
    assert main(["snapshot", *options]) == 4
    assert options[-2] in capsys.readouterr().err


def test_snapshot_that_cannot_be_taken(capsys, monkeypatch, save):
    def take(*_):
        raise ReadFailed(FailureKind.AUTHENTICATION, "wrong password")

    monkeypatch.setattr(command, "take_snapshot", take)
    assert main(["snapshot", "--bootstrap-servers", "a:9092"]) == 4
    assert "AuthenticationFailed: wrong password" in capsys.readouterr().err
    file = save(CLUSTER, "cluster.yaml")
    assert main(["snapshot", "--cluster", file, "--zookeeper", "zk:2181"]) == 4


SECURE = {
    "bootstrapServers": "127.0.0.1:1",
    "security": {"protocol": "SASL_SSL", "sasl": {"mechanism": "PLAIN", "secretRef": {"name": "login"}}},
}


def test_a_secret_that_is_missing_is_named_and_no_secret_is_shown(capsys, save, tmp_path):
    file = save({**CLUSTER, "spec": SECURE}, "cluster.yaml")
    assert main(["snapshot", "--cluster", file]) == 4
    assert f"{file}: Secret login is needed: give --secrets-dir" in capsys.readouterr().err
    (tmp_path / "login").mkdir()
    (tmp_path / "login" / "username").write_text("somebody-secret\n")
    assert main(["snapshot", "--cluster", file, "--secrets-dir", str(tmp_path)]) == 4
    told = capsys.readouterr().err
    assert "Secret login has no key 'password'" in told
    assert "somebody-secret" not in told
    assert "Traceback" not in told


def test_secrets_come_from_files_and_a_snapshot_from_what_the_cluster_answers(capsys, save, tmp_path, monkeypatch):
    kafka = SimKafka()
    kafka.topic("orders", [1, 0])
    connections, closed = [], []

    def connect(wanted):
        connections.append(wanted)
        monkeypatch.setattr(kafka, "close", lambda: closed.append(True))
        return kafka

    monkeypatch.setattr(command, "RealKafka", connect)
    (tmp_path / "login").mkdir()
    (tmp_path / "login" / "username").write_text("u\n")
    (tmp_path / "login" / "password").write_text("p\n")
    file = save({**CLUSTER, "spec": SECURE}, "cluster.yaml")
    assert main(["snapshot", "--cluster", file, "--secrets-dir", str(tmp_path), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["partitions"][0]["replicas"] == [1, 0]
    assert (connections[0].sasl_username, connections[0].sasl_password) == ("u", "p")
    assert "sasl_password" not in repr(connections[0])
    assert closed == [True]


def test_a_cluster_that_does_not_answer_is_a_snapshot_that_says_so_once_and_exit_3(capsys, monkeypatch):
    monkeypatch.setattr(command, "RealKafka", lambda _: SimKafka(reachable=False))
    assert main(["snapshot", "--bootstrap-servers", "a:9092", "-o", "json"]) == 3
    told = capsys.readouterr()
    document = json.loads(told.out)
    assert document["partitions"] is None
    assert {s["state"] for s in document["sources"]} == {"Unknown"}
    assert told.err.startswith("kafka-medic: Kafka at a:9092 did not answer: ")
    assert len(told.err.splitlines()) == 2
    assert main(["snapshot", "--bootstrap-servers", "a:9092"]) == 3
    told = capsys.readouterr()
    assert (told.out, len(told.err.splitlines())) == ("", 2)


def test_what_is_written_can_be_read_back(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "take_snapshot", lambda *_: worlds.healthy())
    for form in ("json", "yaml"):
        assert main(["snapshot", "--bootstrap-servers", "a:9092", "-o", form]) == 0
        file = tmp_path / f"s.{form}"
        file.write_text(capsys.readouterr().out)
        assert main(["check", "restart", "--broker", "2", "--snapshot", str(file), "-o", "json"]) == 0
        capsys.readouterr()


def test_two_snapshots_tell_what_one_cannot(save, capsys):
    def look(end, at, name="now.json"):
        rows = [worlds.partition("orders", 0, logEnd=end)]
        return save(worlds.healthy(rows=rows, groups=worlds.groups(("g", "Stable", "orders", 0, 90)), at=at), name)

    before = look(100, worlds.later(-300), "before.json")
    for end, kind in ((80, "LogEndRegressed"), (150, "ClientStalled")):
        assert main(["diagnose", "--snapshot", look(end, worlds.NOW), "--previous", before, "-o", "json"]) == 0
        told = json.loads(capsys.readouterr().out)["findings"]
        assert (kind, "Firing") in {(f["type"], f["state"]) for f in told}


def test_the_schema_is_printed_and_is_the_one_in_the_documentation(capsys):
    assert main(["snapshot", "--schema"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs" / "snapshot.schema.json").read_text()


def test_the_table_of_a_snapshot_tells_the_whole_cluster(capsys, monkeypatch):
    kafka = SimKafka()
    kafka.topic("orders", [1, 0], [2, 0])
    kafka.committed = {"billing": {TopicPartition("orders", 0): 3}}
    kafka.stop(1)
    monkeypatch.setattr(command, "RealKafka", lambda _: kafka)
    assert main(["snapshot", "--bootstrap-servers", "a:9092"]) == 0
    told = capsys.readouterr().out
    for line in (
        "controller: 0",
        "quorum: leader 0",
        "partitions: 2 of 1 topic, 0 without a leader, 1 with a replica out of sync, 0 being reassigned",
        "groups: 1 with 1 committed offset, 1 Empty",
    ):
        assert line in told
    assert "whole" in told


EVIL = "g\x1b[2J\x9b31m\u202eevil"


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_a_group_whose_name_gives_orders_to_the_terminal_is_shown_and_not_obeyed(save, capsys, form):
    rows = worlds.groups((EVIL, "Empty", "orders", 0, 999))
    sources = worlds.sources(metrics=f"Error: {EVIL}")
    file = save(worlds.healthy(groups=rows, sources=sources))
    assert main(["diagnose", "--snapshot", file, "-o", form]) == 0
    told = capsys.readouterr()
    for text in (told.out, told.err):
        assert "evil" in text
        assert text.replace("\n", "").isprintable()


def test_a_snapshot_with_such_a_name_is_written_without_it_and_read_back_whole(capsys):
    output.write({"group": EVIL}, "json")
    text = capsys.readouterr().out
    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == {"group": EVIL}
