from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from kafka_medic.cli import fleet
from kafka_medic.cli.main import main

TODAY = datetime(2026, 1, 12, 9, tzinfo=UTC)


class Clock(datetime):
    @classmethod
    def now(cls, tz=None):
        return TODAY.astimezone(tz)


@pytest.fixture
def asked(tmp_path, monkeypatch, capsys):
    """Runs `fleet QUESTION` on the history tmp_path/h at 9:00 on 2026-01-12; the clusters by name."""
    monkeypatch.setattr(fleet, "datetime", Clock)
    count = iter(range(1000))

    def ask(question, *more, code=0, engine="local"):
        out = tmp_path / f"out-{next(count)}"
        line = ["fleet", question, "--history", str(tmp_path / "h"), "--output", str(out), "--engine", engine]
        assert main([*line, *more]) == code
        ask.told = capsys.readouterr()
        ask.out = out
        if not out.exists():
            return {}
        rows = json.loads((out / "fleet.json").read_text())["clusters"]
        return {row["cluster"]: row for row in rows}

    return ask
