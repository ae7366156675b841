"""The operator killed (SIGKILL) around each write of a run on real parts: the run ends as if nothing had been."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.conftest import Case
from tests.e2e.mortal_operator import MOMENTS
from tests.incident import operator, records
from tests.testbed import kubectl, wait_for


@pytest.fixture(scope="module")
def no_other_operator(installed: None) -> Iterator[None]:
    """The installed one steps aside: the one under test runs outside, where it can be killed to the point."""
    deployment = f"deployment/{operator.RELEASE}"
    kubectl("scale", deployment, "-n", operator.NAMESPACE, "--replicas=0")
    gone = ["-n", operator.NAMESPACE, "-l", "app.kubernetes.io/name=kafka-medic"]
    kubectl("wait", "pods", *gone, "--for=delete", "--timeout=60s")
    yield
    kubectl("scale", deployment, "-n", operator.NAMESPACE, "--replicas=1")
    kubectl("rollout", "status", deployment, "-n", operator.NAMESPACE, "--timeout=120s", timeout=130)


def start(case: Case, folder: Path, number: int, moment: str | None) -> subprocess.Popen[bytes]:
    """One operator process. Its name stays, as a container's does when the kubelet starts it again in its Pod."""
    command = [sys.executable, "-m", "tests.e2e.mortal_operator", str(folder / "effects"), case.namespace]
    environment = os.environ | {
        "KUBECONFIG": str(operator.kubeconfig(folder / "kubeconfig")),
        "POD_NAME": "operator-under-test",
    }
    log = (folder / f"operator-{number}.log").open("wb")
    return subprocess.Popen([*command, *([moment] if moment else [])], env=environment, stdout=log, stderr=log)


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed(moment: str, both_cases: list[Case], no_other_operator: None, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        stories = [pool.submit(dies_and_heals, moment, case, tmp_path / case.namespace) for case in both_cases]
    problems = {c.namespace: p for c, s in zip(both_cases, stories, strict=True) if (p := s.exception()) is not None}
    if problems:
        raise AssertionError(f"on {' and '.join(problems)}") from next(iter(problems.values()))


def dies_and_heals(moment: str, case: Case, folder: Path) -> None:
    folder.mkdir()
    orders, others = case.topic([1]), case.topic([0], [2], suffix="others")
    records.write(case.boot, orders, [f"order-{n}" for n in range(21)])
    case.watch()
    first = start(case, folder, 1, moment)
    second = None
    try:
        run = case.wait("AwaitingApproval")
        assert operator.approve(run, "alice").returncode == 0
        wait_for(f"death {moment}", lambda: first.poll() is not None, 60)
        assert first.returncode == -9, (folder / "operator-1.log").read_text()[-3000:]
        second = start(case, folder, 2, None)
        done = case.wait("Succeeded", 120)
    finally:
        for process in (first, second):
            if process is not None and process.poll() is None:
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
