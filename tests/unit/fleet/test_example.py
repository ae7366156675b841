"""The example, and docs/fleet.md: the commands that stand there print what stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from kafka_medic.cli.main import main
from kafka_medic.fleet.tables import SCHEMAS

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "fleet.md").read_text()


def test_the_commands_of_the_docs_print_what_the_docs_show(tmp_path, monkeypatch, capsys):
    subprocess.run([sys.executable, ROOT / "examples" / "fleet" / "make_history.py", tmp_path / "history"], check=True)
    monkeypatch.chdir(tmp_path)
    _, _, section = TEXT.partition("## Try it")
    section, _, _ = section.partition("\n## ")
    commands = re.findall(r"^    kafka-medic (.*)$", section, re.MULTILINE)
    shown = re.findall(r"```\n(.*?)```", section, re.DOTALL)
    assert len(commands) == len(shown) == 2
    for command, text in zip(commands, shown, strict=True):
        assert main([*shlex.split(command), "--engine", "local"]) == 0
        assert capsys.readouterr().out == text
    for page in (
        "report/index.html",
        "report/clusters/payments-id-of-payments.html",
        "plans/clusters/logs-id-of-logs.html",
    ):
        assert "<h1>" in (tmp_path / page).read_text()
    billing = (tmp_path / "report/clusters/payments-id-of-payments.html").read_text()
    assert "billing" in billing
    assert "audit" not in billing  # it keeps up


def test_every_column_of_a_history_is_documented():
    _, _, section = TEXT.partition("## The history's tables")
    for table, schema in SCHEMAS.items():
        (line,) = re.findall(rf"^\| `{table}` \|.*$", section, re.MULTILINE)
        assert re.findall(r"`(\w+)`", line.split("|")[3]) == schema.names[4:]
