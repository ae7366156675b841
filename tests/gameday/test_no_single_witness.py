"""A broker that the controller cannot reach, on a real cluster with ZooKeeper: what it believes is old, and it stays
registered and in sync. Nothing is given to it, and it is the one that is restarted, whatever its epochs say."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection
from kafka_medic.cluster.snapshot import TopicPartition
from tests.e2e.conftest import STEADY, Case
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, deployed, faults, get, wait_for
from tests.testbed.kafka_settings import CONTROLLER_PORT

NAMESPACE, SLOT = "gameday-witness", 9
KEPT = {"auto.leader.rebalance.enable": "false"}
"""Leaders stay where elections put them, so that only the operator gives any back."""


@pytest.fixture(scope="module")
def kafka(installed: None) -> Iterator[KafkaDeployment]:
    with deployed(NAMESPACE, "zookeeper", STEADY | KEPT, SLOT) as deployment:
        operator.people(deployment.namespace)
        yield deployment


@pytest.fixture
def client(kafka: KafkaDeployment) -> Iterator[RealKafka]:
    made = RealKafka(Connection(kafka.bootstrap, timeout_seconds=20.0))
    yield made
    faults.mend()
    made.close()


def test_lost_leaderships_are_not_given_to_the_stale_broker_and_its_restart_comes_first(
    kafka: KafkaDeployment, client: RealKafka
) -> None:
    controller = active_controller(client)
    stale, other = (b for b in (0, 1, 2) if b != controller)
    case = Case(kafka, f"lost-{uuid.uuid4().hex[:5]}")
    home = case.topic(*[[stale, other, controller]] * 4, config={"min.insync.replicas": "2"})
    missed = TopicPartition(case.topic([other, controller], suffix="m", config={"min.insync.replicas": "1"}), 0)
    lost = [TopicPartition(home, n) for n in range(4)]
    for tp in lost:  # its leaderships are lost, and its replicas are preferred still
        led_by(client, other, tp, [other, stale, controller])
        assert client.alter_reassignments({tp: [stale, other, controller]}) == {}
    wait_for("the old order", lambda: all(state(client, other, tp)[1][0] == stale for tp in lost), 30)
    case.watch(remediation={"limits": {"cooldown": "0s"}})
    faults.cut(address(kafka, controller), address(kafka, stale), CONTROLLER_PORT)
    led_by(client, other, missed, [controller, other])
    assert state(client, stale, missed)[0] == other, "it has not heard of it"
    case.ask("elect-preferred-leaders")
    elect = case.asked
    assert elect is not None
    given: list[str] = []
    done = threading.Event()

    def watch() -> None:
        """What the stale broker leads by the controller's word, for as long as it is cut off."""
        own = RealKafka(Connection(kafka.broker_address(other), timeout_seconds=10.0))
        while not done.wait(0.5):
            given.extend(str(tp) for tp in lost if state(own, other, tp)[0] == stale)
        own.close()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        waits = operator_run(kafka, elect)
        wait_for("the reason", lambda: f"the view of broker {stale} is stale" in told(waits()), 120)
        print(f"\nelect-preferred-leaders waits: {told(waits())}")
        run = wait_for_restart(case)
        plan = run["status"]["plan"]
        assert run["spec"]["cause"]["findingId"] == f"ViewDiverged/broker-{stale}"
        assert plan["restarts"][0]["broker"] == stale
        assert [r["broker"] for r in plan["restarts"] if r.get("stale")] == [stale]
        assert operator.approve(run, "alice").returncode == 0
        name = run["metadata"]["name"]

        def journal() -> list[dict[str, Any]]:
            found = get("remediations", name, namespace=kafka.namespace)
            return [e for e in found["status"].get("journal", []) if e["kind"] == "RestartPod"]

        wait_for("the first restart", journal, 180)
        assert journal()[0]["target"].endswith(str(stale)), journal()
        assert given == [], "given to the stale broker"
    finally:
        done.set()
        watching.join()
        faults.mend()
    ended(kafka, name, 400)
    case.condition("MetadataConsistent", "True", seconds=120)
    case.end()


def test_a_topic_made_anew_makes_the_cut_off_broker_stale_and_no_other(
    kafka: KafkaDeployment, client: RealKafka
) -> None:
    """The old topic had reached a high leader epoch, and the new one begins at 0."""
    controller = active_controller(client)
    stale, other = (b for b in (0, 1, 2) if b != controller)
    case = Case(kafka, f"anew-{uuid.uuid4().hex[:5]}")
    # ZooKeeper's controller cannot end the deletion of a topic of which a broker that it cannot reach has a replica.
    topic = case.topic([other, controller], config={"min.insync.replicas": "1"})
    tp = TopicPartition(topic, 0)
    for _ in range(5):
        led_by(client, other, tp, [controller, other])
        led_by(client, other, tp, [other, controller])
    old = epoch(client, stale, tp)
    assert old >= 10
    # Only the stale broker is restarted, so that the others' Pods show that nobody else was taken for stale.
    only = [{"name": "rolling-restart", "parameters": {"brokers": "cause"}}]
    case.watch(remediation={"limits": {"cooldown": "0s"}, "playbooks": only})
    before = {b: uid(kafka, b) for b in (0, 1, 2)}
    faults.cut(address(kafka, controller), address(kafka, stale), CONTROLLER_PORT)
    try:
        records.delete_topic(kafka.bootstrap, topic)
        wait_for("its deletion", lambda: not held(client, other, tp), 30)

        def made() -> bool:
            try:
                records.create_topic(kafka.bootstrap, topic, [[other, controller]], {"min.insync.replicas": "1"})
            except Exception as problem:
                if "marked for deletion" in str(problem):
                    return False
                raise
            return True

        wait_for("the new topic", made, 30)
        wait_for("its leader", lambda: held(client, other, tp) and epoch(client, other, tp) < old, 30)
        assert epoch(client, stale, tp) == old, "the stale broker still has the old one"
        run = wait_for_restart(case)
        assert run["spec"]["cause"]["findingId"] == f"ViewDiverged/broker-{stale}"
        named = {f["id"]: " ".join(f["evidence"]) for f in status(case)["findings"]}
        assert {n for n in named if n.startswith(("ViewDiverged", "MetadataUndecided"))} == {
            f"ViewDiverged/broker-{stale}"
        }
        assert "of a deleted topic with the same name" in named[f"ViewDiverged/broker-{stale}"]
        assert [r["broker"] for r in run["status"]["plan"]["restarts"]] == [stale]
        assert operator.approve(run, "alice").returncode == 0
        ended(kafka, run["metadata"]["name"], 300)
    finally:
        faults.mend()
    case.condition("MetadataConsistent", "True", seconds=120)
    after = {b: uid(kafka, b) for b in (0, 1, 2)}
    assert {b for b in after if after[b] != before[b]} == {stale}
    case.end()


def test_a_topic_whose_deletion_waits_for_the_cut_off_broker_makes_that_one_stale(
    kafka: KafkaDeployment, client: RealKafka
) -> None:
    """ZooKeeper still has a record of the topic, which is marked for deletion: it does not count."""
    controller = active_controller(client)
    stale, other = (b for b in (0, 1, 2) if b != controller)
    case = Case(kafka, f"gone-{uuid.uuid4().hex[:5]}")
    topic = case.topic([other, controller, stale], config={"min.insync.replicas": "2"})
    tp = TopicPartition(topic, 0)
    wait_for("the topic", lambda: all(held(client, b, tp) for b in (0, 1, 2)), 30)
    only = [{"name": "rolling-restart", "parameters": {"brokers": "cause"}}]
    case.watch(remediation={"limits": {"cooldown": "0s"}, "playbooks": only})
    before = {b: uid(kafka, b) for b in (0, 1, 2)}
    faults.cut(address(kafka, controller), address(kafka, stale), CONTROLLER_PORT)
    try:
        records.delete_topic(kafka.bootstrap, topic)
        wait_for("the others to forget it", lambda: not any(held(client, b, tp) for b in (controller, other)), 30)
        assert held(client, stale, tp)
        run = wait_for_restart(case)
        assert run["spec"]["cause"]["findingId"] == f"ViewDiverged/broker-{stale}"
        named = {f["id"] for f in status(case)["findings"]}
        assert {n for n in named if n.startswith(("ViewDiverged", "MetadataUndecided"))} == {
            f"ViewDiverged/broker-{stale}"
        }
        assert operator.approve(run, "alice").returncode == 0
        ended(kafka, run["metadata"]["name"], 300)
    finally:
        faults.mend()
    wait_for("the end of the deletion", lambda: not held(client, stale, tp), 60)
    case.condition("MetadataConsistent", "True", seconds=120)
    assert {b for b in before if uid(kafka, b) != before[b]} == {stale}
    case.end()


def active_controller(client: RealKafka) -> int:
    found = client.describe_cluster().controller
    assert found is not None
    return found


def wait_for_restart(case: Case) -> operator.Object:
    found: list[operator.Object] = []

    def proposed() -> bool:
        found[:] = [
            r
            for r in case.runs()
            if r["spec"]["playbook"]["name"] == "rolling-restart" and operator.phase(r) == "AwaitingApproval"
        ]
        return bool(found)

    wait_for("the restart that cures it", proposed, 180)
    return found[0]


def operator_run(kafka: KafkaDeployment, name: str) -> Any:
    return lambda: get("remediations", name, namespace=kafka.namespace)


def told(run: operator.Object) -> str:
    status = run.get("status", {})
    return " ".join([status.get("message", ""), *(w["message"] for w in status.get("waitingFor", []))])


def ended(kafka: KafkaDeployment, name: str, seconds: float) -> None:
    def succeeded() -> bool:
        phase = operator.phase(get("remediations", name, namespace=kafka.namespace))
        assert phase not in ("Failed", "Aborted", "Superseded"), phase
        return phase == "Succeeded"

    wait_for(f"{name} in phase Succeeded", succeeded, seconds)


def status(case: Case) -> dict[str, Any]:
    return dict(get("kafkacluster", case.name, namespace=case.namespace)["status"])


def led_by(client: RealKafka, witness: int, tp: TopicPartition, order: list[int]) -> None:
    assert client.alter_reassignments({tp: order}) == {}
    wait_for("the new order", lambda: state(client, witness, tp)[1][0] == order[0], 30)
    wait_for("the election", lambda: client.elect_preferred([tp]) == {}, 30)
    wait_for("the leader", lambda: state(client, witness, tp)[0] == order[0], 30)


def state(client: RealKafka, broker: int, tp: TopicPartition) -> tuple[int, tuple[int, ...], int]:
    """(leader, replicas, epoch) by that broker's own metadata."""
    view = client.views([broker])[broker]
    assert isinstance(view, BrokerView), view
    return next((p.leader, p.replicas, p.leader_epoch or 0) for p in view.partitions if (p.topic, p.partition) == tp)


def held(client: RealKafka, broker: int, tp: TopicPartition) -> bool:
    view = client.views([broker])[broker]
    return isinstance(view, BrokerView) and any((p.topic, p.partition) == tp for p in view.partitions)


def epoch(client: RealKafka, broker: int, tp: TopicPartition) -> int:
    return state(client, broker, tp)[2]


def address(kafka: KafkaDeployment, broker: int) -> str:
    return faults.pod_address(kafka.namespace, kafka.pod_name(broker))


def uid(kafka: KafkaDeployment, broker: int) -> str:
    return str(get("pod", kafka.pod_name(broker), namespace=kafka.namespace)["metadata"]["uid"])
