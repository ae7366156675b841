"""Each word that says where offsets are to go, beside what Kafka's own kafka-consumer-groups makes of it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kafka_medic.cli.main import main
from tests.e2e.conftest import Case
from tests.gameday.scenario import Scene
from tests.incident import records
from tests.testbed import build, wait_for
from tests.testbed.preflight import java_home

BEFORE = 10
Offsets = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def offsets(story: tuple[Scene, Case], capsys: pytest.CaptureFixture[str]) -> Offsets:
    """The changes that `kafka-medic offsets` would make."""

    def run(*words: str) -> list[dict[str, Any]]:
        where = ["--bootstrap-servers", story[1].boot]
        capsys.readouterr()
        code = main(["offsets", words[0], *where, *words[1:], "-o", "json"])
        told = json.loads(capsys.readouterr().out)
        assert (code, told["verdict"]) == (0, "Allow"), told["reasons"]
        changes: list[dict[str, Any]] = told["changes"]
        return changes

    return run


def test_targets_and_files_are_those_of_kafkas_own_tool(
    story: tuple[Scene, Case], offsets: Offsets, tmp_path: Path
) -> None:
    """On a log with a transaction in it, whose end is an offset that no consumer is given."""
    _, case = story
    topic, group = case.topic([0, 1, 2]), f"{case.name}-billing"
    assert records.write(case.boot, topic, [f"early-{n}" for n in range(12)]) == 12
    between = now_and_then()
    assert records.write(case.boot, topic, [f"late-{n}" for n in range(9)]) == 9
    records.commit_offset(case.boot, group, topic, 3)
    with records.transaction(case.boot, group, topic, BEFORE):
        pass
    wait_for("the transaction's end in the log", lambda: records.log_end(case.boot, topic) == 23, 30)

    def tool(*words: str) -> str:
        home = java_home()
        assert home is not None, "the preflight has asked for a Java"
        options = ["-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{build.kafka('kraft')}/*"]
        name = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        about = ["--bootstrap-server", case.boot, "--timeout", "60000", "--reset-offsets", "--group", group]
        command = [f"{home}/bin/java", *options, name, *about, "--topic", topic, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
        assert "Error" not in done.stdout, done.stdout + done.stderr  # it exits with 0 all the same
        return done.stdout

    wanted = {
        "to-earliest": 0,
        "to-latest": 23,
        "to-current": BEFORE,
        "shift-by:-3": 7,
        "shift-by:100": 23,
        "to-offset:5000": 23,
        f"to-datetime:{between}": 12,
        "by-duration:PT1H": 0,
    }
    for word, offset in wanted.items():
        how, _, value = word.partition(":")
        theirs = tool("--dry-run", f"--{how}", *([value.removesuffix("Z")] if value else []))
        row = next(line.split() for line in theirs.splitlines() if line.split()[:2] == [group, topic])
        changes = offsets("plan", "--group", group, "--topic", topic, "--to", word)
        ours = changes[0]["after"] if changes else BEFORE
        assert (ours, int(row[-1])) == (offset, offset), word
    file = tmp_path / "theirs.csv"
    file.write_text(tool("--dry-run", "--export", "--shift-by", "-3"))
    (change,) = offsets("restore", "--group", group, "--from", str(file))
    assert (change["before"], change["after"], change["readAgain"]) == (BEFORE, 7, 3)


def test_of_a_log_with_transactions_no_more_is_read_than_planned(story: tuple[Scene, Case], offsets: Offsets) -> None:
    """Counted are offsets, and the ends of transactions are among them."""
    _, case = story
    topic, group = case.topic([0, 1, 2]), f"{case.name}-billing"
    records.commit_offset(case.boot, group, topic, 0)
    for offset in (0, 0, 0):
        with records.transaction(case.boot, group, topic, offset):
            pass
    wait_for("three records and three ends", lambda: records.log_end(case.boot, topic) == 6, 30)
    assert [value for _, value in records.read_group(case.boot, group, topic, 3)] == ["of a transaction"] * 3
    (change,) = offsets("plan", "--group", group, "--to", "to-earliest")
    assert (change["before"], change["logEnd"], change["readAgain"]) == (5, 6, 5)
    records.commit_offset(case.boot, group, topic, 0)
    assert len(records.read_group(case.boot, group, topic, 3)) == 3 <= change["readAgain"]


def now_and_then() -> str:
    """A moment after what was written by now and before what is written from then on, in whole milliseconds."""
    written = time.time()
    wait_for("a moment in between", lambda: time.time() > written + 0.01, 10, every=0.01)
    moment = datetime.fromtimestamp(written + 0.005, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"
