"""An operator that dies at every write of a roll with Strimzi: as many restarts as without, and no record lost."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.conftest import mortal_operator
from tests.e2e.mortal_operator import MOMENTS_OF_A_ROLL_BY_STRIMZI
from tests.incident import operator
from tests.strimzi.case import StrimziCase, Timeline, nothing_of_ours, under_load


def test_killed_at_each_write_of_a_roll(case: StrimziCase, no_other_operator: None, tmp_path: Path) -> None:
    """All in one roll: each process dies at the next write, before it or right after, and the one after it goes on."""
    kafka, line = case.made_by_strimzi, Timeline("an operator that dies at each write of a roll by Strimzi")
    before, moments = set(kafka.uids().values()), MOMENTS_OF_A_ROLL_BY_STRIMZI
    process = mortal_operator(case, tmp_path, 0, moments[0])
    try:
        with under_load(case, line):
            case.watch()
            case.condition("Ready", "True", seconds=90)
            case.ask("rolling-restart")
            assert operator.approve(case.wait("AwaitingApproval"), "alice").returncode == 0
            line.note("approved")
            for number, moment in enumerate((*moments[1:], None), 1):
                process.wait(240)
                line.note(f"died {moments[number - 1]}")
                if moments[number - 1] == "after-annotate":
                    kafka.reconcile()  # what the dead one had no time for; else Strimzi looks after two minutes
                assert process.returncode == -9, (tmp_path / f"operator-{number - 1}.log").read_text()[-3000:]
                process = mortal_operator(case, tmp_path, number, moment)
            done = case.wait("Succeeded", 240)
            line.note("Succeeded")
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
    effects = [json.loads(told) for told in (tmp_path / "effects").read_text().splitlines()]
    asked = [e["what"] for e in effects if e["kind"] == "annotate"]
    assert set(asked) == before, "those that the plan names, and no other"
    assert len(asked) <= len(before) + 1, "again only where nobody can tell that it was sent"
    assert [e["state"] for e in done["status"]["journal"]] == ["Done"] * 3
    assert set(kafka.uids().values()).isdisjoint(before)
    nothing_of_ours(case)
