"""The operator killed (SIGKILL) around each write of a drain, order and elections: it ends as if nothing had been."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection
from tests.e2e.conftest import STEADY, Case, mortal_operator
from tests.e2e.mortal_operator import MOMENTS_OF_A_DRAIN
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, Shape, deployed

NAMESPACE, SLOT = "gameday-drained", 9
HOME = 1
ORDERS = ([1, 2, 0], [1, 0, 2], [1, 2, 0], [0, 1, 2])
BATCH = 2


@pytest.mark.parametrize("shape", ["kraft", "zookeeper"])
def test_killed_at_each_write_of_a_drain(shape: Shape, no_other_operator: None, tmp_path: Path) -> None:
    # All that is elected is elected by the run.
    with deployed(NAMESPACE, shape, STEADY | {"auto.leader.rebalance.enable": "false"}, SLOT) as kafka:
        drained_by_many(kafka, tmp_path)


def drained_by_many(kafka: KafkaDeployment, folder: Path) -> None:
    operator.people(kafka.namespace)
    case = Case(kafka, f"drain-{uuid.uuid4().hex[:4]}")
    client = RealKafka(Connection(kafka.bootstrap))
    topic = case.topic(*[list(order) for order in ORDERS], config={"min.insync.replicas": "2"})
    case.watch()
    traffic = records.Traffic(case.boot, topic)
    process = mortal_operator(case, folder, 0, MOMENTS_OF_A_DRAIN[0])
    traffic.start()
    try:
        case.ask("drain-broker", brokers=str(HOME), batchSize=str(BATCH), leaderlessWithin="10m")
        run = case.wait("AwaitingApproval")
        planned = sum(len(e["partitions"]) for e in run["status"]["plan"]["elections"])
        assert BATCH < planned <= 3 * BATCH, "two batches: the second one is twice as large"
        assert operator.approve(run, "alice").returncode == 0
        for number, moment in enumerate((*MOMENTS_OF_A_DRAIN[1:], None), 1):
            process.wait(180)
            assert process.returncode == -9, (folder / f"operator-{number - 1}.log").read_text()[-3000:]
            process = mortal_operator(case, folder, number, moment)
        done = case.wait("Succeeded", 120)
        away = states(client, topic)
        case.ask("undrain-broker", brokers=str(HOME))
        assert operator.approve(case.wait("AwaitingApproval"), "alice").returncode == 0
        case.wait("Succeeded", 120)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
        traffic.stop()
    effects = [json.loads(line)["kind"] for line in (folder / "effects").read_text().splitlines()]
    assert effects[:3] == ["reassign", "elect", "elect"], "each effect once, however often the operator died"
    assert [e["state"] for e in done["status"]["journal"]] == ["Done"] * 3
    assert all(HOME not in (replicas[0], leader) for replicas, leader in away.values())
    assert states(client, topic) == {n: (list(order), order[0]) for n, order in enumerate(ORDERS)}
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    client.close()
    case.end()


def states(client: RealKafka, topic: str) -> dict[int, tuple[list[int], int | None]]:
    """Order of the replicas and leader, by partition."""
    view = client.views([0])[0]
    assert isinstance(view, BrokerView)
    return {p.partition: (list(p.replicas), p.leader) for p in view.partitions if p.topic == topic}
