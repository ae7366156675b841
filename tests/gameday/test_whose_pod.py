"""Two brokers run in each other's Pods, as after their volumes were swapped: named, and neither is restarted."""

from __future__ import annotations

import uuid

import pytest

from tests.e2e.conftest import STEADY, Case
from tests.incident import operator
from tests.testbed import KafkaDeployment, Shape, deployed, get, wait_for
from tests.testbed.kafka import slot_addresses
from tests.testbed.kafka_settings import CONTROLLER_PORT, Settings

SLOT = 9
ONE, OTHER, RIGHT = 1, 2, 0


def swapped(shape: Shape) -> dict[int, Settings]:
    """What each broker's file says of its id."""
    ids = {RIGHT: RIGHT, ONE: OTHER, OTHER: ONE}
    if shape == "zookeeper":
        return {pod: {"broker.id": broker} for pod, broker in ids.items()}
    addresses, _ = slot_addresses(SLOT)
    voters = ",".join(f"{broker}@{addresses[pod]}:{CONTROLLER_PORT}" for pod, broker in sorted(ids.items()))
    return {pod: {"node.id": broker, "controller.quorum.voters": voters} for pod, broker in ids.items()}


@pytest.mark.parametrize("shape", ["kraft", "zookeeper"])
def test_brokers_in_each_others_pods_are_named_and_not_restarted(installed: None, shape: Shape) -> None:
    with deployed(f"gameday-crossed-{shape}", shape, STEADY, SLOT, broker_overrides=swapped(shape)) as kafka:
        operator.people(kafka.namespace)
        crossed(kafka)


def crossed(kafka: KafkaDeployment) -> None:
    case = Case(kafka, f"crossed-{uuid.uuid4().hex[:5]}")
    case.topic([0, 1, 2], [1, 2, 0], config={"min.insync.replicas": "2"})
    case.watch(remediation={"limits": {"cooldown": "0s"}})
    before = {b: kafka.pod(b)["metadata"]["uid"] for b in (0, 1, 2)}
    try:
        wait_for("both findings", lambda: {f"PodIdentityMismatch/broker-{b}" for b in (ONE, OTHER)} <= fired(case), 150)
        assert f"PodIdentityMismatch/broker-{RIGHT}" not in fired(case)
        case.ask("rolling-restart", brokers=str(ONE))
        told = case.wait_for_guard("PodIsThatBroker", 120)
        assert str(ONE) in told
        assert str(OTHER) in told
        print(f"\n{kafka.shape}: {told}")
        assert {b: kafka.pod(b)["metadata"]["uid"] for b in (0, 1, 2)} == before
    finally:
        case.end()


def fired(case: Case) -> set[str]:
    status = get("kafkacluster", case.name, namespace=case.namespace).get("status", {})
    return {f["id"] for f in status.get("findings", []) if f["state"] == "Firing"}
