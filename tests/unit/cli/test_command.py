"""The command as a process: usage, help, interrupts, and readers that stop early."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafka_medic.cli import exits, output
from kafka_medic.cli import main as entry
from kafka_medic.cli.main import main
from tests.unit.cluster import worlds
from tests.unit.resources.sources import ROOT


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["diagnose"],
        ["plan"],
        ["plan", "raise-replication-factor"],
        ["plan", "raise-replication-factor", "--partitions", "p", "--output", "o", "--replication-factor", "x"],
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
def test_wrong_usage_is_exit_4_of_every_subcommand_and_not_wait(arguments, capsys):
    assert main(arguments) == 4
    told = capsys.readouterr()
    assert told.out == ""
    assert "usage:" in told.err


@pytest.mark.parametrize("arguments", [[], ["diagnose"], ["check"], ["check", "restart"], ["snapshot"], ["plan"]])
def test_help_has_examples_or_codes(arguments, capsys):
    assert main([*arguments, "--help"]) == 0
    told = capsys.readouterr().out
    assert "examples:" in told or "exit codes:" in told


def test_version(capsys):
    assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith("kafka-medic ")


def test_an_interrupt_is_no_traceback(monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(entry.output, "put", interrupted)
    assert main(["version"]) == 130


def test_a_reader_that_stops_early_is_no_error(save):
    many = worlds.healthy(rows=[worlds.partition(f"t{n}", 0, (1,), minIsr=1) for n in range(1500)])
    line = [sys.executable, "-m", "kafka_medic.cli.main", "diagnose", "--snapshot", save(many), "-o", "json"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(10)
        process.stdout.close()
        told = process.stderr.read()
        assert process.wait(30) == 0
    assert told == b""


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["statu"], "status"),
        (["snapshoot"], "snapshot"),
        (["plan", "spread-rack"], "spread-racks"),
        (["diagnoze"], "diagnose"),
    ],
)
def test_a_misspelt_command_is_answered_with_the_one_that_is_meant(arguments, meant, capsys):
    assert main(arguments) == 4
    told = capsys.readouterr().err
    assert f"command {arguments[-1]!r} does not exist; did you mean {meant}" in told
    assert len(told.splitlines()) == 2


def test_a_misspelt_command_of_the_plugin(capsys):
    assert main(["aprove"], as_plugin=True) == 4
    assert "did you mean approve?" in capsys.readouterr().err


def test_a_word_that_is_like_none_is_answered_with_all(capsys):
    assert main(["xyzzy"]) == 4
    assert "the commands are snapshot, diagnose, check, plan" in capsys.readouterr().err


def test_a_misspelt_choice_is_answered_with_the_one_that_is_meant(capsys):
    assert main(["list", "-o", "wid"], as_plugin=True) == 4
    assert "'wid' is not one of table, wide, name, json, yaml; did you mean wide?" in capsys.readouterr().err


def test_a_pause_without_its_reason_is_answered_with_an_example(capsys):
    assert main(["pause", "orders"], as_plugin=True) == 4
    assert '  for example: kubectl kafka-medic pause orders --reason "until Monday' in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["plan", "verify"], ["check", "elect"], ["offsets", "show"], ["fleet", "report"], ["diagnose"], ["status"]],
)
def test_every_help_has_the_one_set_of_exit_codes(arguments, capsys):
    assert main([*arguments, "--help"]) == 0
    told = capsys.readouterr().out
    assert told.endswith(exits.EPILOG)
    assert "xit code:" not in told


@pytest.mark.parametrize(("number", "text"), [(0, "0 waves"), (1, "1 wave"), (2, "2 waves"), (1234, "1,234 waves")])
def test_one_is_not_many(number, text):
    assert output.counted(number, "wave") == text


def test_the_exit_codes_are_documented_in_one_place():
    text = (ROOT / "docs" / "exit-codes.md").read_text()
    for code, meaning in exits.MEANINGS.items():
        assert f"| {code} | {meaning} |" in text
