"""The command as a process: usage, help, interrupts, and readers that stop early."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafka_medic.cli import main as entry
from kafka_medic.cli.main import main
from tests.unit.cluster import worlds


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
