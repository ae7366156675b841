"""Clocks that are two minutes apart: nothing is said of a healthy cluster, and nothing is refused that is safe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Case, at_the_same_time, mortal_operator
from tests.e2e.mortal_operator import MOMENTS_OF_A_ROLL
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, get, wait_for

OFF = -60.0, 60.0
"""Seconds by which the clocks of the first operator's machine and of its successor's are off, one after the other."""


ROLLING = {"VersionAdvisory", "LeadersImbalanced", "PartitionUnderReplicated", "NodeMaintenance"}
"""What a roll shows by any clock: a Pod that is evicted is one of these signs."""


def test_an_operator_whose_clock_is_off_and_a_successor_whose_clock_is_off_too(
    steady: list[KafkaDeployment], no_other_operator: None, tmp_path: Path
) -> None:
    at_the_same_time(lambda kafka: rolled(kafka, tmp_path / kafka.namespace), steady)


def rolled(kafka: KafkaDeployment, folder: Path) -> None:
    folder.mkdir()
    operator.people(kafka.namespace)
    case = Case(kafka, f"clock-{kafka.shape}")
    orders = case.topic([0, 1, 2], [1, 2, 0], config={"min.insync.replicas": "2"})
    assert records.write(case.boot, orders, ["first"]) == 1
    case.watch(remediation={"limits": {"cooldown": "0s"}})
    before = {kafka.pod(b)["metadata"]["uid"] for b in (0, 1, 2)}
    process = mortal_operator(case, folder, 0, MOMENTS_OF_A_ROLL[2], OFF[0])
    said = set[str]()

    def silent(phase: str) -> Any:
        def reached() -> bool:
            said.update(fired(case))
            return any(operator.phase(r) == phase for r in case.runs())

        return reached

    try:
        wait_for("a first look", lambda: "MetadataConsistent" in conditions(case), 60)
        assert "behind" in conditions(case)["RemediationAllowed"] or "ahead" in conditions(case)["RemediationAllowed"]
        case.ask("rolling-restart")
        wait_for("a plan", silent("AwaitingApproval"), 90)
        assert operator.approve(case.wait("AwaitingApproval"), "alice").returncode == 0
        wait_for("its death", lambda: bool(silent("")()) or process.poll() is not None, 180)
        assert process.returncode == -9, (folder / "operator-0.log").read_text()[-3000:]
        process = mortal_operator(case, folder, 1, None, OFF[1])
        wait_for("the end", silent("Succeeded"), 240)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
        told = conditions(case)["RemediationAllowed"]
        case.end()
    effects = [json.loads(line) for line in (folder / "effects").read_text().splitlines()]
    assert [e["kind"] for e in effects] == ["evict"] * 3, "each Pod once"
    assert {e["what"] for e in effects} == before
    assert {name.partition("/")[0] for name in said} <= ROLLING, said
    print(f"\n{kafka.shape}: {told}")


def fired(case: Case) -> set[str]:
    status = get("kafkacluster", case.name, namespace=case.namespace).get("status", {})
    return {f["id"] for f in status.get("findings", []) if f["state"] == "Firing"}


def conditions(case: Case) -> dict[str, str]:
    status = get("kafkacluster", case.name, namespace=case.namespace).get("status", {})
    return {c["type"]: c["message"] for c in status.get("conditions", [])}
