"""The command as people and tools meet it: formats, exit codes, and bad input that never ends in a traceback."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from kafka_medic.cli import check, output
from kafka_medic.cli import main as entry
from kafka_medic.cli.main import main
from kafka_medic.clients.ports import FailureKind, ReadFailed
from kafka_medic.cluster.document import to_document
from kafka_medic.cluster.snapshot import Mode, TopicPartition
from kafka_medic.guard.evaluate import GuardFaultError
from kafka_medic.observe import command
from tests.simulation.kafka import SimKafka
from tests.unit.cluster import worlds

ROOT = Path(__file__).parents[3]
CLUSTER = {
    "apiVersion": "kafkamedic.dev/v1alpha1",
    "kind": "KafkaCluster",
    "metadata": {"name": "demo"},
    "spec": {"bootstrapServers": "kafka:9092"},
}


@pytest.fixture
def save(tmp_path):
    def write(snapshot, name="now.json"):
        path = tmp_path / name
        document = snapshot if isinstance(snapshot, dict) else to_document(snapshot)
        path.write_text(yaml.safe_dump(document) if name.endswith("yaml") else json.dumps(document))
        return str(path)

    return write


def low():
    return worlds.healthy(rows=[worlds.partition("orders", 0, (1,), minIsr=1)])


# diagnose


def test_diagnose_prints_the_fixed_format(save, capsys):
    assert main(["diagnose", "--snapshot", save(low()), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"findings"}
    (finding,) = document["findings"]
    assert set(finding) == {
        "type", "state", "severity", "affected", "evidence", "playbook", "id", "message", "since",
    }  # fmt: skip
    assert finding["type"] == "ReplicationFactorLow"
    assert finding["state"] == "Firing"
    assert finding["affected"] == ["orders"]
    assert finding["playbook"] == "raise-replication-factor"


def test_diagnose_says_the_same_as_a_table_and_as_yaml(save, capsys):
    file = save(low())
    assert main(["diagnose", "--snapshot", file]) == 0
    text = capsys.readouterr().out
    assert "ReplicationFactorLow/topics" in text
    assert "\033[" not in text
    assert main(["diagnose", "--snapshot", file, "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["findings"][0]["type"] == "ReplicationFactorLow"


def test_a_healthy_cluster_and_one_with_gaps(save, capsys):
    assert main(["diagnose", "--snapshot", save(worlds.healthy())]) == 0
    assert "no finding\n" in capsys.readouterr().out
    gaps = worlds.healthy(groups=None, sources=worlds.sources(groups="not authorized"))
    assert main(["diagnose", "--snapshot", save(gaps)]) == 0
    told = capsys.readouterr()
    assert "1 sources are not known" in told.out
    assert "groups is not known: not authorized" in told.err


def test_previous_and_cluster(save, capsys):
    down = worlds.healthy(brokers=worlds.brokers(b3={"registered": False}))
    before = save(replace(down, taken_at=worlds.later(-60)), "before.json")
    assert main(["diagnose", "--snapshot", save(down), "--previous", before, "-o", "json"]) == 0
    states = {f["type"]: f["state"] for f in json.loads(capsys.readouterr().out)["findings"]}
    assert states["BrokerZombie"] == "Firing"
    lenient = {**CLUSTER, "spec": {**CLUSTER["spec"], "expectations": {"topics": [{"pattern": ".*", "exempt": True}]}}}
    file = save(lenient, "cluster.yaml")
    assert main(["diagnose", "--snapshot", save(low()), "--cluster", file, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"findings": []}


def test_snapshots_that_do_not_go_together(save, capsys):
    now, later = save(worlds.healthy()), save(worlds.healthy(at=worlds.later(60)), "later.json")
    assert main(["diagnose", "--snapshot", now, "--previous", later]) == 4
    assert "give the earlier one as --previous" in capsys.readouterr().err
    other = worlds.healthy(at=worlds.later(-60))
    other = save(replace(other, cluster=replace(other.cluster, id="another")), "other.json")
    assert main(["diagnose", "--snapshot", now, "--previous", other]) == 4
    assert main(["diagnose", "--snapshot", "-", "--previous", "-"]) == 4
    file = save({**CLUSTER, "spec": {**CLUSTER["spec"], "metadata": {"zookeeper": {"connect": "zk:2181"}}}}, "c.yaml")
    assert main(["diagnose", "--snapshot", now, "--cluster", file]) == 4
    assert "describes a ZooKeeper cluster" in capsys.readouterr().err


def test_standard_input_and_yaml_snapshots(save, capsys, monkeypatch):
    text = json.dumps(to_document(low())).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["diagnose", "--snapshot", "-", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"]
    assert main(["diagnose", "--snapshot", save(low(), "now.yaml"), "-o", "json"]) == 0


# check


@pytest.mark.parametrize(
    ("snapshot", "code", "verdict"),
    [
        (worlds.healthy(), 0, "Allow"),
        (worlds.healthy(rows=[*worlds.ROWS, worlds.partition("t", 0, (2, 1))]), 1, "Deny"),
        (worlds.healthy(brokers=worlds.brokers(b3={"recovering": True})), 2, "Wait"),
        (worlds.healthy(controller=None), 3, "Unknown"),
    ],
)
def test_check_restart_verdicts_and_exit_codes(save, capsys, snapshot, code, verdict):
    assert main(["check", "restart", "--broker", "2", "--snapshot", save(snapshot), "-o", "json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"verdict", "reasons"}
    assert document["verdict"] == verdict
    verdicts = [r["verdict"] for r in document["reasons"]]
    assert len(verdicts) == 10
    assert verdicts[0] == verdict
    assert verdicts == sorted(verdicts, key=["Deny", "Unknown", "Wait", "Allow"].index)
    assert all(set(r) == {"guard", "message", "verdict"} and r["message"] for r in document["reasons"])


def test_an_old_snapshot_is_judged_as_of_its_own_time(save):
    old = save(worlds.healthy(at=worlds.later(-(10**7))))
    assert main(["check", "restart", "--broker", "2", "--snapshot", old, "-o", "json"]) == 0


def test_check_restart_in_the_course_of_a_run(save, capsys):
    file = save(worlds.healthy())
    assert main(["check", "restart", "--broker", "1", "--snapshot", file]) == 0
    assert main(["check", "restart", "--broker", "1", "--then", "2", "--snapshot", file]) == 2
    assert "ControllerLast" in capsys.readouterr().out


def test_a_pause_in_the_cluster_counts(save):
    policy = {"paused": True}
    file = save({**CLUSTER, "spec": {**CLUSTER["spec"], "remediation": policy}}, "cluster.yaml")
    now = save(worlds.healthy())
    assert main(["check", "restart", "--broker", "2", "--snapshot", now, "--cluster", file]) == 2
    assert main(["check", "restart", "--broker", "2", "--snapshot", now, "--cluster", save(CLUSTER, "c.yaml")]) == 0


def test_check_elect_and_reset_offsets(save, capsys):
    beyond = worlds.healthy(groups=worlds.groups(("billing", "Empty", "orders", 0, 150)))
    file = save(beyond)
    assert main(["check", "elect", "--snapshot", file]) == 0
    assert main(["check", "elect", "--snapshot", file, "--partition", "orders:9"]) == 1
    assert main(["check", "reset-offsets", "--group", "billing", "--snapshot", file]) == 0
    assert main(["check", "reset-offsets", "--group", "billing", "--to", "orders:0:101", "--snapshot", file]) == 1
    assert "outside the log" in capsys.readouterr().out
    assert main(["check", "reset-offsets", "--group", "nobody", "--snapshot", file]) == 1


def test_a_guard_that_fails_is_unknown_and_loud(save, capsys, monkeypatch):
    def broken(*_, **__):
        raise GuardFaultError("ViewsAgree", "KeyError: leader")

    monkeypatch.setattr(check, "judge_restart", broken)
    assert main(["check", "restart", "--broker", "2", "--snapshot", save(worlds.healthy()), "-o", "json"]) == 3
    told = capsys.readouterr()
    assert json.loads(told.out)["verdict"] == "Unknown"
    assert "internal fault in the guard ViewsAgree" in told.err


# Bad input

VALID = json.dumps(to_document(worlds.healthy()))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"   \n", "is empty"),
        (b"{", "is not JSON"),
        (b"\x00\xff\xfe\x80", "is not text in UTF-8"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b"[]", "must be an object"),
        (b"null", "must be an object"),
        (b"7", "must be an object"),
        (json.dumps(CLUSTER).encode(), "kind: must be 'Snapshot'"),
        (VALID.replace("1000.0", "NaN").encode(), "holds NaN"),
        (VALID.replace("1000.0", "-Infinity").encode(), "holds -Infinity"),
        (VALID.replace("1000.0", "1e999").encode(), "brokers[0].bytesInRate: is not a finite number"),
        (VALID.replace('"minIsr": 2', '"minIsr": 1.9').encode(), "partitions[0].minIsr: must be whole"),
        (VALID.replace('"isr": [1, 2, 3]', '"isr": [1, 2.5]').encode(), "partitions[0].isr"),
        (VALID.replace('"isr": [1, 2, 3]', '"isr": [[1], [2]]').encode(), "partitions[0].isr: must be"),
        (VALID.replace('"isr": [1, 2, 3]', '"isr": {"a": 1}').encode(), "partitions[0]"),
        (VALID.replace('"isr": [1, 2, 3]', '"isr": "123"').encode(), "partitions[0]"),
        (VALID.replace('"minIsr": 2', '"minIsr": 99999999999').encode(), "partitions[0]"),
        (VALID.replace('"minIsr": 2', '"minIsr": ' + "9" * 5000).encode(), "digits"),
        (VALID.replace('"minIsr": 2', '"minIsr": 2, "minIsr": 1').encode(), "'minIsr' twice"),
        (VALID.replace('"orders"', '"\\ud800"').encode(), "surrogates not allowed"),
        (VALID.replace('"takenAt": "', '"takenAt": "x').encode(), "takenAt"),
        (VALID.replace("2026-01-31T12:00:00.000Z", "0001-01-01T00:00:00+23:59").encode(), "out of range"),
    ],
)
def test_a_file_that_is_no_snapshot(tmp_path, capsys, content, words):
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    for command_line in (["diagnose"], ["check", "restart", "--broker", "1"]):
        assert main([*command_line, "--snapshot", str(file)]) == 4
        told = capsys.readouterr()
        assert told.out == ""
        assert str(file) in told.err
        assert words in told.err
        assert "Traceback" not in told.err
        assert len(told.err) < 1500


def test_a_file_that_cannot_be_read(tmp_path, capsys):
    assert main(["diagnose", "--snapshot", str(tmp_path / "absent")]) == 4
    assert "there is no such file" in capsys.readouterr().err
    assert main(["diagnose", "--snapshot", str(tmp_path)]) == 4
    assert "is a directory" in capsys.readouterr().err
    assert main(["diagnose", "--snapshot", "nul\0byte"]) == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("a: [", "is not YAML"),
        ("kind: KafkaCluster", "spec"),
        ("- 1", "not a mapping"),
        ("a: &a [1]\nb: *a", "alias"),
        ("a: 1\na: 2", "key twice"),
        ("[" * 5000, "nested too deeply"),
        ("? [1]\n: 2", "is not YAML"),
        ("!!python/object/apply:os.system ['true']", "is not YAML"),
        (yaml.safe_dump({**CLUSTER, "spec": {"bootstrapServers": "kafka"}}), "spec.bootstrapServers"),
        (yaml.safe_dump({**CLUSTER, "spec": {**CLUSTER["spec"], "expectation": {}}}), "did you mean expectations"),
    ],
)
def test_a_file_that_is_no_cluster(tmp_path, capsys, save, text, words):
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    assert main(["diagnose", "--snapshot", save(worlds.healthy()), "--cluster", str(file)]) == 4
    told = capsys.readouterr().err
    assert words in told
    assert str(file) in told


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["diagnose"],
        ["diagnose", "--snapshot", "f", "-o", "xml"],
        ["check"],
        ["check", "restart", "--snapshot", "f"],
        ["check", "restart", "--broker", "one", "--snapshot", "f"],
        ["check", "elect", "--snapshot", "f", "--partition", "orders"],
        ["check", "reset-offsets", "--snapshot", "f"],
        ["check", "reset-offsets", "--group", "g", "--snapshot", "f", "--to", "orders:0:-1"],
        ["snapshot"],
        ["snapshot", "--bootstrap-servers", "a:1", "--cluster", "f"],
    ],
)
def test_wrong_usage_is_unusable_input_and_not_wait(arguments, capsys):
    assert main(arguments) == 4
    told = capsys.readouterr()
    assert told.out == ""
    assert "usage:" in told.err


PLAN_FILES = ("--partitions", "p", "--brokers", "b", "--output", "o")


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan"],
        ["plan", "nonsense"],
        ["plan", "raise-replication-factor"],
        ["plan", "raise-replication-factor", *PLAN_FILES, "--replication-factor", "x"],
        ["plan", "raise-replication-factor", *PLAN_FILES, "--replication-factor", "3", "-z"],
    ],
)
def test_wrong_usage_of_plan_is_exit_2_like_any_input_it_cannot_use(arguments, capsys):
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "usage:" in told.err


@pytest.mark.parametrize("arguments", [[], ["diagnose"], ["check"], ["check", "restart"], ["snapshot"], ["plan"]])
def test_help_has_examples_or_codes(arguments, capsys):
    assert main([*arguments, "--help"]) == 0
    told = capsys.readouterr().out
    assert "examples:" in told or "Exit code:" in told


def test_version(capsys):
    assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith("kafka-medic ")


# snapshot


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
    "security": {"protocol": "SASL_PLAINTEXT", "sasl": {"mechanism": "PLAIN", "secretRef": {"name": "login"}}},
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


def test_a_cluster_that_does_not_answer_is_a_snapshot_that_says_so(capsys, monkeypatch):
    monkeypatch.setattr(command, "RealKafka", lambda _: SimKafka(reachable=False))
    assert main(["snapshot", "--bootstrap-servers", "a:9092", "-o", "json"]) == 0
    told = capsys.readouterr()
    document = json.loads(told.out)
    assert document["partitions"] is None
    assert {s["state"] for s in document["sources"]} == {"Unknown"}
    assert "kafka is not known" in told.err


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
        "partitions: 2 of 1 topics, 0 without a leader, 1 with a replica out of sync, 0 being reassigned",
        "groups: 1 with 1 committed offsets, 1 Empty",
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


# The process


def test_an_interrupt_is_no_traceback(monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setitem(entry._COMMANDS, "version", interrupted)
    assert main(["version"]) == 130


def test_a_reader_that_stops_early_is_no_error(save):
    many = worlds.healthy(rows=[worlds.partition(f"t{n}", 0, (1,), minIsr=1) for n in range(4000)])
    line = [sys.executable, "-m", "kafka_medic.cli.main", "diagnose", "--snapshot", save(many), "-o", "json"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(10)
        process.stdout.close()
        told = process.stderr.read()
        assert process.wait(30) == 0
    assert told == b""
