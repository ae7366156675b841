"""A roll that drains first: whoever is about to be restarted leads nothing, and leads again what it did afterwards."""

from __future__ import annotations

import uuid

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection
from tests.e2e.conftest import Case, at_the_same_time
from tests.incident import operator, records
from tests.incident.watcher import Watcher
from tests.testbed import KafkaDeployment

ORDERS = ([0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1], [1, 0, 2], [2, 1, 0])


def test_who_is_restarted_leads_nothing_by_then_and_the_same_as_before_afterwards(
    installed: None, steady: list[KafkaDeployment]
) -> None:
    at_the_same_time(drained_and_rolled, steady)


def drained_and_rolled(kafka: KafkaDeployment) -> None:
    operator.people(kafka.namespace)
    case = Case(kafka, f"drained-{uuid.uuid4().hex[:4]}")
    topic = case.topic(*[list(order) for order in ORDERS], config={"min.insync.replicas": "2"})
    operator.apply([operator.kafka_cluster(kafka, case.name)])
    case.ask("rolling-restart", drainFirst="true")
    run = case.wait("AwaitingApproval")
    assert {d["broker"] for d in run["status"]["plan"]["drains"]} == {0, 1, 2}
    client = RealKafka(Connection(kafka.bootstrap))
    led: dict[int, set[int]] = {}

    def looked(found: operator.Object) -> None:
        """What a broker leads when its restart has just been written down."""
        for entry in found["status"].get("journal", []):
            _, kind, broker = entry["id"].rpartition("/restart-")
            if kind and int(broker) not in led:
                led[int(broker)] = {p for p, (_, leader) in states(client, topic).items() if leader == int(broker)}

    traffic, watcher = records.Traffic(case.boot, topic), Watcher(kafka)
    traffic.start()
    watcher.start()
    try:
        assert operator.approve(run, "alice").returncode == 0
        operator.wait_for_run(kafka.namespace, "Succeeded", 900, looked, case.name, case.asked)
    finally:
        watcher.stop()
        traffic.stop()
    assert led == {0: set(), 1: set(), 2: set()}
    assert states(client, topic) == {n: (list(order), order[0]) for n, order in enumerate(ORDERS)}
    client.close()
    assert watcher.most_away == 1
    assert watcher.thinnest >= 2
    assert traffic.acked
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    case.end()


def states(client: RealKafka, topic: str) -> dict[int, tuple[list[int], int | None]]:
    """Order of the replicas and leader, by partition, as any broker has them that answers."""
    for view in client.views([0, 1, 2]).values():
        if isinstance(view, BrokerView):
            return {p.partition: (list(p.replicas), p.leader) for p in view.partitions if p.topic == topic}
    return {}
