"""An operator that dies at every write of a roll: as many restarts as without, and no record lost."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.conftest import Case, at_the_same_time, mortal_operator
from tests.e2e.mortal_operator import MOMENTS_OF_A_ROLL
from tests.incident import operator, records
from tests.incident.watcher import Watcher
from tests.testbed import KafkaDeployment


def test_killed_at_each_write_of_a_roll(steady: list[KafkaDeployment], no_other_operator: None, tmp_path: Path) -> None:
    """All in one roll: each process dies at the next write, before it or right after, and the one after it goes on.
    What was written and not seen, and what was seen and not written, is found out from the cluster."""
    at_the_same_time(lambda kafka: rolled_by_many(kafka, tmp_path / kafka.namespace), steady)


def rolled_by_many(kafka: KafkaDeployment, folder: Path) -> None:
    folder.mkdir()
    operator.people(kafka.namespace)
    case = Case(kafka, f"kill-{kafka.shape}")
    orders = case.topic([0, 1, 2], [1, 2, 0], config={"min.insync.replicas": "2"})
    assert records.write(case.boot, orders, ["first"]) == 1
    operator.apply([operator.kafka_cluster(kafka, case.name)])
    before = {kafka.pod(b)["metadata"]["uid"] for b in (0, 1, 2)}
    watcher, traffic = Watcher(kafka), records.Traffic(case.boot, orders)
    process = mortal_operator(case, folder, 0, MOMENTS_OF_A_ROLL[0])
    watcher.start()
    traffic.start()
    try:
        case.ask("rolling-restart")
        assert operator.approve(case.wait("AwaitingApproval"), "alice").returncode == 0
        for number, moment in enumerate((*MOMENTS_OF_A_ROLL[1:], None), 1):
            process.wait(180)
            assert process.returncode == -9, (folder / f"operator-{number - 1}.log").read_text()[-3000:]
            process = mortal_operator(case, folder, number, moment)
        done = case.wait("Succeeded", 120)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
        watcher.stop()
        traffic.stop()
    effects = [json.loads(line) for line in (folder / "effects").read_text().splitlines()]
    assert [e["kind"] for e in effects] == ["evict"] * 3, "each Pod once, however often the operator died"
    assert {e["what"] for e in effects} == before, "and those that the plan names"
    assert [e["state"] for e in done["status"]["journal"]] == ["Done"] * 3
    assert watcher.most_away == 1
    assert watcher.thinnest >= 2
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    case.end()
