"""Leadership that is away for a reason: its broker still catches up, or the partition is being moved. Waited for."""

from __future__ import annotations

import contextlib
import uuid

import pytest

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, ConfigChange, Connection
from kafka_medic.cluster.snapshot import TopicPartition
from tests.e2e.conftest import STEADY, Case
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, Shape, deployed, get, kubectl, wait_for

NAMESPACE, SLOT = "gameday-twin", 9
HOME, FELLOW, THIRD = 1, 0, 2
SLOW = "50000"
"""Bytes a second: 10 MB take 200 s."""


@pytest.mark.parametrize("shape", ["kraft", "zookeeper"])
def test_what_is_on_its_way_is_waited_for_with_the_reason(installed: None, shape: Shape) -> None:
    with deployed(NAMESPACE, shape, STEADY | {"auto.leader.rebalance.enable": "false"}, SLOT) as kafka:
        waited_for(kafka)


def waited_for(kafka: KafkaDeployment) -> None:
    operator.people(kafka.namespace)
    case = Case(kafka, f"twin-{uuid.uuid4().hex[:4]}")
    topic = case.topic([HOME, FELLOW], config={"min.insync.replicas": "1"})
    part = TopicPartition(topic, 0)
    client = RealKafka(Connection(kafka.bootstrap, timeout_seconds=30.0))
    case.watch(expectations={"topics": [{"pattern": ".*", "exempt": True}]})
    try:
        throttled(client, topic, "follower", HOME, SLOW)  # which the broker itself is told
        kafka.stop_broker(HOME)
        assert records.write(case.boot, topic, ["x" * 500_000] * 20) == 20
        kafka.start_broker(HOME)
        case.ask("elect-preferred-leaders")
        assert case.asked is not None
        told: list[str] = []

        def refused() -> bool:
            run = get("remediations", case.asked, namespace=case.namespace)
            told[:] = [run.get("status", {}).get("message", "")]
            return "still catching up" in told[0]

        wait_for("the reason", refused, 90)
        assert f"broker {HOME} is still catching up" in told[0]
        assert "LeadersImbalanced" not in findings(case), "it could not lead them now"
        assert led_by(client, part) == FELLOW
        throttled(client, topic, "follower", HOME, None)
        run = case.wait("AwaitingApproval", 180)

        throttled(client, topic, "follower", THIRD, SLOW)
        assert client.alter_reassignments({part: (HOME, FELLOW, THIRD)}) == {}
        assert operator.approve(run, "alice").returncode == 0
        assert str(part) in case.wait_for_guard("NotReassigning")
        assert led_by(client, part) == FELLOW
        throttled(client, topic, "follower", THIRD, None)
        case.wait("Succeeded", 180)
        assert led_by(client, part) == HOME
        print(f"\n{kafka.shape}: waited with: {told[0]}")
    finally:
        kubectl("uncordon", kafka.node_of(HOME))
        with contextlib.suppress(Exception):
            for broker in (HOME, THIRD):
                throttled(client, topic, "follower", broker, None)
        client.close()
        case.end()


def throttled(client: RealKafka, topic: str, side: str, broker: int, rate: str | None) -> None:
    """What that broker copies of that topic. None: at full speed again."""
    name = f"{side}.replication.throttled"
    client.alter_configs(
        [
            ConfigChange("BROKER", str(broker), f"{name}.rate", rate),
            ConfigChange("TOPIC", topic, f"{name}.replicas", None if rate is None else "*"),
        ]
    )


def led_by(client: RealKafka, part: TopicPartition) -> int | None:
    for view in client.views([FELLOW, THIRD]).values():
        if isinstance(view, BrokerView):
            return next(p.leader for p in view.partitions if (p.topic, p.partition) == part)
    return None


def findings(case: Case) -> set[str]:
    """Types of what is said of this cluster, Pending or Firing."""
    status = get("kafkacluster", case.name, namespace=case.namespace)["status"]
    return {f["type"] for f in status.get("findings", [])}
