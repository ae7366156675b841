"""The operator killed (SIGKILL) around each write of a run on real parts: the run ends as if nothing had been."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.conftest import Case, at_the_same_time, mortal_operator
from tests.e2e.mortal_operator import MOMENTS
from tests.incident import operator, records
from tests.testbed import wait_for


def test_killed_before_and_after_each_write_of_one_run(
    both_cases: list[Case], no_other_operator: None, tmp_path: Path
) -> None:
    at_the_same_time(lambda case: dies_and_heals(case, tmp_path / case.namespace), both_cases)


def dies_and_heals(case: Case, folder: Path) -> None:
    folder.mkdir()
    orders, others = case.topic([1]), case.topic([0], [2], suffix="others")
    records.write(case.boot, orders, [f"order-{n}" for n in range(21)])
    case.watch()
    process = mortal_operator(case, folder, 0, MOMENTS[0])
    try:
        run = case.wait("AwaitingApproval")
        assert operator.approve(run, "alice").returncode == 0
        for number, moment in enumerate(MOMENTS):
            wait_for(f"death {moment}", lambda p=process: p.poll() is not None, 240)  # type: ignore[misc]
            assert process.returncode == -9, (folder / f"operator-{number}.log").read_text()[-3000:]
            process = mortal_operator(case, folder, number + 1, (*MOMENTS, None)[number + 1])
        done = case.wait("Succeeded", 120)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
    effects = [json.loads(line) for line in (folder / "effects").read_text().splitlines()]
    kinds = [e["kind"] for e in effects]
    assert kinds == ["throttle", "reassign", "restore", "min-isr"], "each effect once, however the operator died"
    assert [e["id"] for e in done["status"]["journal"]] == [
        "add-replicas/throttle",
        "add-replicas/wave-0",
        "add-replicas/restore-throttle",
        "set-min-insync-replicas/set",
    ]
    assert operator.throttles(case.boot) == []
    found = operator.factors(case.boot)
    assert found[orders] == found[others] == {3}
    assert [v for _, v in records.read_from(case.boot, orders, 0, 21, 30)] == [f"order-{n}" for n in range(21)]
