"""Committed offsets from the command line: seen, planned, set only when every guard allows it, and put back."""

from __future__ import annotations

import contextlib
import csv
import io
import json

import pytest
import yaml

from kafka_medic.cli.main import main
from kafka_medic.cli.offsets import command, documents
from kafka_medic.clients.answers import Groups
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.cluster.groups import Committed, GroupMember
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.observe.snapshot import ClusterReaders
from tests.simulation.kafka import SimKafka
from tests.simulation.serial import one_after_another
from tests.simulation.world import World

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)
FOUND = {ORDERS: Committed(32, 3, "a note"), PAYMENTS: Committed(20, 0)}
WHERE = ["--bootstrap-servers", "kafka:9092"]


@pytest.fixture
def kafka(monkeypatch) -> SimKafka:
    kafka = SimKafka()
    kafka.topic("orders", [0, 1, 2])
    kafka.topic("payments", [0, 1, 2])
    kafka.partitions[ORDERS].epoch = 5
    kafka.commit_offsets("billing", FOUND)
    kafka.commit_offsets("audit", {ORDERS: Committed(7, 5)})
    kafka.writes.clear()

    @contextlib.contextmanager
    def opened(*_):
        with one_after_another():
            yield kafka, ClusterReaders(kafka)

    monkeypatch.setattr(command, "opened", opened)
    return kafka


def now(kafka, group="billing"):
    return dict(next(g.committed for g in kafka.groups(lambda name: name == group).offsets))


def asked(capsys, *words):
    code = main(["offsets", words[0], *WHERE, *words[1:], "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_show_tells_the_lag_as_it_is(kafka, capsys):
    code, told = asked(capsys, "show", "--group", "b.*", "--topic", "orders")
    assert code == 0
    (row,) = told["offsets"]
    assert (row["committed"], row["leaderEpoch"], row["metadata"]) == (32, 3, "a note")
    assert (row["logStart"], row["logEnd"], row["lag"], row["beyondLogEnd"]) == (0, 21, -11, True)
    assert main(["offsets", "show", *WHERE]) == 0
    table = capsys.readouterr().out
    assert "beyond the log end" in table
    assert "audit" in table
    kafka.unreadable.add("groups")
    assert main(["offsets", "show", *WHERE]) == 3


def test_plan_heals_what_is_wrong_and_sets_nothing_unasked(kafka, capsys):
    code, told = asked(capsys, "plan")
    assert (code, told["verdict"]) == (0, "Allow")
    (change,) = told["changes"]
    assert (change["group"], change["topic"], change["before"], change["after"]) == ("billing", "orders", 32, 21)
    assert kafka.writes == []
    assert main(["offsets", "plan", *WHERE]) == 0
    assert "log end; the group reads nothing again" in capsys.readouterr().out


def test_set_with_a_backup_and_put_back_byte_for_byte(kafka, capsys, tmp_path):
    before, undo = str(tmp_path / "before.json"), str(tmp_path / "undo.json")
    assert main(["offsets", "plan", *WHERE, "--execute"]) == 4, "there has to be a way back"
    assert main(["offsets", "plan", *WHERE, "--execute", "--backup", before]) == 0
    assert now(kafka) == FOUND | {ORDERS: Committed(21)}
    assert main(["offsets", "restore", *WHERE, "--from", before]) == 0
    assert now(kafka)[ORDERS] == Committed(21), "not without --execute"
    assert main(["offsets", "restore", *WHERE, "--from", before, "--execute", "--backup", before]) == 4
    assert "already exists" in capsys.readouterr().err
    assert main(["offsets", "restore", *WHERE, "--from", before, "--execute", "--backup", undo]) == 0
    assert now(kafka) == FOUND
    assert main(["offsets", "restore", *WHERE, "--from", undo, "--execute", "--backup", str(tmp_path / "n")]) == 0
    assert now(kafka)[ORDERS] == Committed(21)


def test_backup_holds_all_that_restore_needs(kafka, capsys, tmp_path):
    assert main(["offsets", "backup", *WHERE, "--group", "billing"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [o["group"] for o in document["offsets"]] == ["billing", "billing"]
    file = tmp_path / "before.json"
    file.write_text(json.dumps(document))
    kafka.commit_offsets("billing", {ORDERS: Committed(1), PAYMENTS: Committed(2)})
    words = ["--from", str(file), "--execute", "--backup", str(tmp_path / "undo")]
    assert main(["offsets", "restore", *WHERE, *words]) == 0
    assert now(kafka) == FOUND
    file.write_text(json.dumps(document | {"cluster": {"id": "another"}}))
    assert main(["offsets", "restore", *WHERE, "--from", str(file)]) == 4
    assert "this cluster's id is sim" in capsys.readouterr().err


def test_a_group_that_lives_is_not_touched_and_its_members_are_named(kafka, capsys, tmp_path):
    kafka.states["billing"], kafka.members_of["billing"] = "Stable", [GroupMember("shop-1", "/10.0.0.7")]
    code = main(["offsets", "plan", *WHERE, "--execute", "--backup", str(tmp_path / "b")])
    assert code == 1
    assert "shop-1 at 10.0.0.7" in capsys.readouterr().out
    assert kafka.writes == []
    assert not (tmp_path / "b").exists()


def test_where_a_leader_does_not_answer_nothing_is_set(kafka, capsys, tmp_path, monkeypatch):
    def silent(broker, _):
        raise ReadFailed(FailureKind.UNREACHABLE, f"broker {broker}")

    monkeypatch.setattr(kafka, "epoch_ends", silent)
    words = ["plan", *WHERE, "--group", "billing", "--execute", "--backup", str(tmp_path / "b")]
    assert main(["offsets", *words]) == 3
    assert "the leader does not answer: orders-0" in capsys.readouterr().out
    assert kafka.writes == []


def test_a_refused_write_says_how_far_it_came(kafka, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(kafka, "commit_offsets", lambda _, offsets: dict.fromkeys(offsets, "CoordinatorLoading"))
    file = tmp_path / "b"
    assert main(["offsets", "plan", *WHERE, "--execute", "--backup", str(file)]) == 1
    assert "CoordinatorLoading; 0 of 1 offset set" in capsys.readouterr().err
    assert file.exists()


def test_by_time_for_groups_that_are_named(kafka, capsys):
    kafka.commit_offsets("billing", {ORDERS: Committed(20)})
    kafka.written_at[ORDERS] = {n: 1_700_000_000_000 + n * 1000 for n in range(21)}
    words = ["--to", "to-datetime:2023-11-14T22:13:25Z", "--topic", "orders"]
    assert main(["offsets", "plan", *WHERE, *words]) == 4
    assert "name the groups" in capsys.readouterr().err
    _, told = asked(capsys, "plan", *words, "--group", "billing")
    assert [(c["after"], c["readAgain"]) for c in told["changes"]] == [(5, 15)]


def test_csv_as_kafkas_own_tool_exports_it_has_to_lie_in_the_log(kafka, capsys, tmp_path):
    file = tmp_path / "offsets.csv"
    file.write_text('"orders",0,11\n')
    code, told = asked(capsys, "restore", "--from", str(file), "--group", "billing")
    assert code == 0
    assert [(c["before"], c["after"]) for c in told["changes"]] == [(32, 11)]
    text = io.StringIO()
    csv.writer(text).writerow(["billing", "orders", 0, 5000])
    file.write_text(text.getvalue())
    code, told = asked(capsys, "restore", "--from", str(file))
    assert (code, told["verdict"]) == (1, "Deny")


def document(*rows) -> str:
    told = [{"group": "g", "topic": "orders", "partition": 0} | row for row in rows]
    return json.dumps({"kind": "CommittedOffsets", "apiVersion": "kafkamedic.dev/v1alpha1", "offsets": told})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "holds no committed offset"),
        ("\n,,\n", "holds no committed offset"),
        ("orders,0", "line 1 does not have four values"),
        ("orders,0,11", "line 1 does not have four values"),
        ("g,orders,0,-1", "line 1.offset is '-1', not a number of 0 or more"),
        ("g,orders,0," + "9" * 5000, "line 1.offset is '999"),
        ("g,orders,0," + "9" * 19, "line 1.offset: Input should be less"),
        ("g,orders,\u0663,4", "line 1.partition"),
        ('g,orders,0,"' + "9" * 200_000, "line 1: field larger than field limit"),
        ("g,or/ders,0,1", "line 1.topic"),
        ("g,orders,0,1\n\ng,orders,0,2", "line 3 repeats the offset of g on orders-0 from line 1"),
        ("kind: Remediation\nspec: 5\n", "not a usable Remediation: "),
        (document({"offset": 1, "leaderepoch": 3}), "offsets[0].leaderepoch: no such field"),
        (document({"offset": -1}), "offsets[0].offset"),
        (document({"offset": 1, "leaderEpoch": "3"}), "offsets[0].leaderEpoch"),
        (document({"offset": 1, "metadata": ["a"]}), "offsets[0].metadata"),
        (document({"offset": 1}, {"offset": 1}), "offsets[1] repeats the offset"),
        (document(), "holds no committed offset"),
        ("{}", "is not a CommittedOffsets document"),
        ('{"kind": "CommittedOffsets", "apiVersion": "kafkamedic.dev/v1alpha1"}', "offsets is not a list"),
        (
            '{"kind": "CommittedOffsets", "apiVersion": "kafkamedic.dev/v1alpha1", "offsets": [{"group": "g", '
            '"topic": "t", "partition": 0, "offset": "1"}]}',
            "offsets[0].offset",
        ),
        ("{", "is not JSON"),
    ],
)
def test_a_bad_file_is_refused_by_line_or_field(kafka, capsys, tmp_path, text, told):
    file = tmp_path / "bad"
    file.write_text(text)
    assert main(["offsets", "restore", *WHERE, "--from", str(file)]) == 4
    assert told in capsys.readouterr().err
    assert kafka.writes == []


def test_a_file_is_read_up_to_its_bound(kafka, capsys, monkeypatch):
    monkeypatch.setattr(documents, "MAX_BYTES", 1 << 20)
    assert main(["offsets", "restore", *WHERE, "--from", "/dev/zero"]) == 4
    assert "is too long (limit 1 MiB)" in capsys.readouterr().err


def test_a_backup_in_yaml_and_the_run_itself_are_put_back_as_well(kafka, capsys, tmp_path):
    assert main(["offsets", "backup", *WHERE, "--group", "billing", "-o", "yaml"]) == 0
    file = tmp_path / "before"
    file.write_text(capsys.readouterr().out)
    kafka.commit_offsets("billing", {ORDERS: Committed(1), PAYMENTS: Committed(2)})
    words = ["restore", *WHERE, "--from", str(file), "--execute", "--backup"]
    assert main(["offsets", *words, str(tmp_path / "undo")]) == 0
    assert now(kafka) == FOUND

    world = World(kafka)
    world.install(remediation={"limits": {"cooldown": "0s"}})
    world.ask("reset-consumer-offsets")
    plain = world.api.objects[next(path for path in world.api.objects if "/remediations/" in path)]
    file.write_text(yaml.safe_dump(plain))
    assert main(["offsets", *words, str(tmp_path / "nothing")]) == 4
    assert "set no offset" in capsys.readouterr().err
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(world.finished)
    assert now(kafka)[ORDERS] == Committed(21)
    plain = world.api.objects[next(path for path in world.api.objects if "/remediations/" in path)]
    file.write_text(yaml.safe_dump(plain))
    assert main(["offsets", *words, str(tmp_path / "again")]) == 0
    assert now(kafka) == FOUND, "offset, leader epoch and metadata"


def test_a_group_is_named_for_lines_that_name_none(kafka, capsys, tmp_path):
    file = tmp_path / "offsets"
    file.write_text("billing,orders,0,11\n")
    assert main(["offsets", "restore", *WHERE, "--from", str(file), "--group", "audit"]) == 4
    assert "line 1 already names its group" in capsys.readouterr().err
    file.write_text(document({"offset": 1}))
    assert main(["offsets", "restore", *WHERE, "--from", str(file), "--group", "audit"]) == 4
    assert "--group" in capsys.readouterr().err


def test_what_a_plan_does_not_know_is_said_with_it(kafka, capsys):
    kafka.topic("billing-totals-changelog", [0, 1, 2])
    _, told = asked(capsys, "plan")
    assert [n.partition(" ")[0] for n in told["notes"]] == ["counts", "a", "the"]
    assert "billing looks like a Kafka Streams application" in told["warnings"][0]
    kafka.commit_offsets("billing", {ORDERS: Committed(3, 5)})
    assert asked(capsys, "plan")[1]["notes"] == []


@pytest.mark.parametrize("words", [["--group", "("], ["--to", "nowhere"]])
def test_what_cannot_be_understood_is_refused(kafka, capsys, words):
    assert main(["offsets", "plan", *WHERE, *words]) == 4
    assert "write" in capsys.readouterr().err


def test_a_coordinator_that_is_silent_is_noted_and_what_its_groups_have_is_not_guessed(
    kafka, capsys, tmp_path, monkeypatch
):
    way_back = tmp_path / "way-back.json"
    assert main(["offsets", "backup", *WHERE, "--group", "billing", "-o", "json"]) == 0
    way_back.write_text(capsys.readouterr().out)
    whole, late = kafka.groups, ReadFailed(FailureKind.UNREACHABLE, "no answer")

    def groups(wanted, brokers=None):
        told = [g for g in whole(wanted, brokers).offsets if g.group != "billing"]
        return Groups(told, {}, {2: late})

    monkeypatch.setattr(kafka, "groups", groups)
    assert main(["offsets", "show", *WHERE]) == 0
    told = capsys.readouterr()
    assert "audit" in told.out
    assert "not known in full: broker 2: Unreachable: no answer" in told.err
    code, found = asked(capsys, "plan", "--group", "billing", "--to", "to-latest")
    assert (code, found["verdict"], found["changes"]) == (3, "Unknown", [])
    assert main(["offsets", "restore", *WHERE, "--from", str(way_back)]) == 3
    assert "billing: broker 2 did not list its groups" in capsys.readouterr().err
