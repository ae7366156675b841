"""KRaft controllers that are no brokers: restarted before the brokers, the active one last of them."""

from __future__ import annotations

import uuid

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection, PodAddress
from tests.e2e.conftest import STEADY, Case
from tests.incident import operator, records
from tests.incident.watcher import Watcher
from tests.testbed import KafkaDeployment, deployed, faults, get
from tests.testbed.kafka_settings import CONTROLLER_PORT, FIRST_CONTROLLER

SLOT = 9
NAMESPACE = "gameday-apart"
CONTROLLERS = tuple(range(FIRST_CONTROLLER, FIRST_CONTROLLER + 3))


def test_controllers_go_before_brokers_and_the_active_one_last_of_them(installed: None) -> None:
    with deployed(NAMESPACE, "kraft", STEADY, SLOT, controllers_apart=True) as kafka:
        rolled(kafka)


def rolled(kafka: KafkaDeployment) -> None:
    operator.people(kafka.namespace)
    case = Case(kafka, f"apart-{uuid.uuid4().hex[:4]}")
    orders = case.topic([0, 1, 2], [1, 2, 0], [2, 0, 1], config={"min.insync.replicas": "2"})
    operator.apply([operator.kafka_cluster(kafka, case.name)])
    case.ask("rolling-restart")
    run = case.wait("AwaitingApproval")
    client = RealKafka(Connection(kafka.bootstrap))
    client.describe_cluster()
    one, other, _ = CONTROLLERS
    at = {n: PodAddress(faults.pod_address(NAMESPACE, f"controller-{n}"), (CONTROLLER_PORT,), ()) for n in CONTROLLERS}
    crossed = client.identities({one: at[other], other: at[one]}, (0, 1, 2, *CONTROLLERS))
    assert crossed == {one: other, other: one}, "each controller says itself which one it is"
    before = pods()
    traffic, watcher = records.Traffic(case.boot, orders), Watcher(kafka)
    leaders: dict[int, int | None] = {}

    def looked(found: operator.Object) -> None:
        """Who led the quorum when the restart of each controller had just been written down."""
        for entry in found["status"].get("journal", []):
            leaders.setdefault(int(entry["id"].rpartition("-")[2]), client.quorum().leader)

    traffic.start()
    watcher.start()
    try:
        assert operator.approve(run, "alice").returncode == 0
        done = operator.wait_for_run(kafka.namespace, "Succeeded", 900, looked, case.name, case.asked)
    finally:
        watcher.stop()
        traffic.stop()
        client.close()
    after = pods()
    assert all(after[name] != before[name] for name in before), "every Pod is another one"
    order = [int(e["id"].rpartition("-")[2]) for e in sorted(done["status"]["journal"], key=lambda e: e["intendedAt"])]
    assert set(order[:3]) == set(CONTROLLERS)
    assert sorted(order[3:]) == [0, 1, 2]
    assert all(leaders[first] != first for first in order[:2]), "the active controller goes last"
    assert watcher.most_away == 1
    assert watcher.thinnest >= 2
    assert traffic.acked
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    print(f"\ncontrollers apart: restarted {order}, the quorum's leader before each {leaders}")
    case.end()


def pods() -> dict[str, str]:
    return {p["metadata"]["name"]: p["metadata"]["uid"] for p in get("pods", namespace=NAMESPACE)["items"]}
