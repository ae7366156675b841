"""The operator killed (SIGKILL) around each write of a run that sets offsets, and of the one that puts them back."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.snapshot import TopicPartition
from tests.e2e.conftest import Case, mortal_operator
from tests.e2e.mortal_operator import GROUPS, MOMENTS_OF_A_RESET
from tests.incident import operator, records
from tests.testbed import KafkaDeployment

Offsets = dict[str, dict[TopicPartition, Committed]]


def test_killed_at_each_write_of_a_reset_and_of_its_undo(
    one_kind: KafkaDeployment, no_other_operator: None, tmp_path: Path
) -> None:
    """Each process dies at the next write, before it or right after. Every group is set once and put back once."""
    case = Case(one_kind, f"kill-{uuid.uuid4().hex[:4]}")
    orders, payments = (case.topic([0, 1, 2], suffix=suffix) for suffix in ("orders", "payments"))
    kafka = RealKafka(Connection(case.boot))
    before: Offsets = {}
    for topic in (orders, payments):
        assert records.write(case.boot, topic, [f"record-{n}" for n in range(21)]) == 21
    for n in range(GROUPS):
        group = f"{case.name}-group-{n}"
        records.commit_offset(case.boot, group, orders, 10)  # its coordinator is there now
        before[group] = {
            TopicPartition(orders, 0): Committed(5000 + n, 0, f"of application {n}"),
            TopicPartition(payments, 0): Committed(6000 + n),
        }
        assert kafka.commit_offsets(group, before[group]) == {}

    def committed() -> Offsets:
        return {g.group: dict(g.committed) for g in kafka.groups(lambda name: name in before).offsets}

    case.watch(remediation={"limits": {"cooldown": "0s"}})
    process = mortal_operator(case, tmp_path, 0, MOMENTS_OF_A_RESET[0])
    number = 0

    def killed_all_along() -> operator.Object:
        nonlocal process, number
        run = case.wait("AwaitingApproval", 180)
        assert operator.approve(run, "alice").returncode == 0
        for moment in (*MOMENTS_OF_A_RESET[1:], None):
            process.wait(180)
            assert process.returncode == -9, (tmp_path / f"operator-{number}.log").read_text()[-3000:]
            number += 1
            process = mortal_operator(case, tmp_path, number, moment)
        return case.wait("Succeeded", 60)

    try:
        case.ask("reset-consumer-offsets", groups=f"{case.name}-.*")
        done = killed_all_along()
        # A commit with the present leader epoch goes to the log start, one without any to the log end.
        goes = {TopicPartition(orders, 0): Committed(0), TopicPartition(payments, 0): Committed(21)}
        assert committed() == dict.fromkeys(before, goes)
        process.terminate()
        process.wait(30)
        number += 1
        process = mortal_operator(case, tmp_path, number, MOMENTS_OF_A_RESET[0])
        case.ask("undo-offset-reset", remediation=done["metadata"]["name"])
        undone = killed_all_along()
        assert committed() == before, "offsets, leader epochs and metadata"
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
        kafka.close()
    effects = [json.loads(line) for line in (tmp_path / "effects").read_text().splitlines()]
    assert [e["what"][0] for e in effects] == [*before, *before], "each once, however often the operator died"
    for run in (done, undone):
        assert [e["state"] for e in run["status"]["journal"]] == ["Done"] * GROUPS
    case.end()
