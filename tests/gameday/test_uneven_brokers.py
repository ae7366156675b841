"""Brokers that are not alike: one of two disks fails, and two of them enforce different minimums."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_medic.clients.answers import LogDirs
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection
from kafka_medic.cluster.snapshot import TopicPartition
from tests.e2e.conftest import STEADY, Case
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, Shape, deployed, faults, get, wait_for

SLOT = 9
TWO_DISKS, STRICT, OTHER = 1, 0, 2
"""The broker with a second disk, the one that asks for two replicas in sync by default, and the third."""
SECOND = "/second/kafka"
EACH = {
    TWO_DISKS: {"log.dirs": f"/data/kafka,{SECOND}", "min.insync.replicas": 1},
    STRICT: {"min.insync.replicas": 2},
    OTHER: {"min.insync.replicas": 1},
}


@pytest.fixture(scope="module", params=["kraft", "zookeeper"])
def uneven(installed: None, request: pytest.FixtureRequest) -> Iterator[KafkaDeployment]:
    shape: Shape = request.param
    settings = STEADY | {"auto.leader.rebalance.enable": "false"}
    with deployed(
        f"gameday-uneven-{shape}", shape, settings, SLOT, broker_overrides=EACH, disks={"/second": "48Mi"}
    ) as kafka:
        operator.people(kafka.namespace)
        yield kafka


@pytest.mark.parametrize("uneven", ["zookeeper"], indirect=True)
def test_a_restart_is_refused_where_the_leaders_own_minimum_forbids_it(uneven: KafkaDeployment) -> None:
    """The topic has no value of its own. Its leader enforces 2, whatever the others would. Kafka 4 with eligible leader
    replicas (KIP-966) has one value for all brokers, so only the older kind can be brought into this state."""
    case = Case(uneven, f"strict-{uuid.uuid4().hex[:5]}")
    topic = case.topic([STRICT, TWO_DISKS])
    case.watch(remediation={"limits": {"cooldown": "0s"}}, expectations={"topics": [{"pattern": ".*", "exempt": True}]})
    try:
        case.ask("rolling-restart", brokers=str(TWO_DISKS))
        try:
            wait_for("the refusal", lambda: f"{topic} (2 replicas, min.insync.replicas 2)" in said(case), 120)
        except Exception as problem:
            raise AssertionError(f"the run says: {said(case)}") from problem
        print(f"\n{uneven.shape}: {said(case)}")
        wait_for("the difference", lambda: "BrokerConfigDiffers/min.insync.replicas" in findings(case), 60)
        found = findings(case)["BrokerConfigDiffers/min.insync.replicas"]
        assert found["affected"] == [f"broker-{STRICT}"]
    finally:
        case.end()


def test_a_failed_directory_is_named_others_can_be_restarted_and_get_what_was_on_it(uneven: KafkaDeployment) -> None:
    case = Case(uneven, f"disk-{uuid.uuid4().hex[:5]}")
    topic = case.topic(*[[TWO_DISKS, STRICT, OTHER]] * 6, config={"min.insync.replicas": "1"})
    spared = case.topic(*[[TWO_DISKS, STRICT]] * 6, suffix="spared", config={"min.insync.replicas": "1"})
    traffic = records.Traffic(case.boot, spared)
    client = RealKafka(Connection(uneven.bootstrap, timeout_seconds=20.0))
    case.watch(remediation={"limits": {"cooldown": "0s"}}, expectations={"topics": [{"pattern": ".*", "exempt": True}]})
    try:
        there: list[TopicPartition] = []

        def placed() -> bool:
            found = client.log_dirs([TWO_DISKS])[TWO_DISKS]
            assert isinstance(found, LogDirs)
            held = {d.path: {tp for tp in d.sizes or () if tp.topic in (topic, spared)} for d in found.directories}
            there[:] = sorted(held[SECOND])
            return sum(map(len, held.values())) == 12

        wait_for("each partition on one of the disks", placed, 30)
        assert {tp.topic for tp in there} == {topic, spared}
        before = uid(uneven, OTHER)
        faults.fill_disk(uneven, TWO_DISKS, "/second")
        for tp in (tp for tp in there if tp.topic == topic):
            with contextlib.suppress(Exception):
                records.write(case.boot, tp.topic, ["x" * 50_000] * 20, partition=tp.partition)
        name = f"LogDirFailed/broker-{TWO_DISKS}"
        lost = set(map(str, there))
        wait_for("the finding", lambda: lost <= set(findings(case).get(name, {}).get("affected", ())), 120)
        found = findings(case)[name]
        assert SECOND in " ".join([found["message"], *found["evidence"]])
        print(f"\n{uneven.shape}: {found['message']}")
        case.ask("rolling-restart", brokers=str(OTHER))
        run = case.wait("AwaitingApproval", 180)
        assert operator.approve(run, "alice").returncode == 0
        case.wait("Succeeded", 300)
        assert uid(uneven, OTHER) != before
        assert any(n.startswith(name) for n in findings(case)), "it is still so"
        traffic.start()
        case.ask("restore-log-dir", brokers=str(TWO_DISKS))
        run = case.wait("AwaitingApproval", 180)
        (full,) = (
            line for line in run["status"]["plan"]["summary"].splitlines() if "every broker that is up holds" in line
        )
        assert topic in full
        assert operator.approve(run, "alice").returncode == 0
        done = case.wait("Succeeded", 300)
        view = client.views([STRICT])[STRICT]
        assert isinstance(view, BrokerView)
        given = {tp for tp in there if tp.topic == spared}
        for p in (p for p in view.partitions if p.topic in (topic, spared)):
            has = TopicPartition(p.topic, p.partition) in given
            assert set(p.replicas) == ({STRICT, OTHER} if has else {TWO_DISKS, STRICT, *([OTHER] * (p.topic == topic))})
            assert not has or set(p.isr) == {STRICT, OTHER}
        plan = done["status"]["plan"]
        print(f"{uneven.shape}: {plan['moves']} replicas of a failed disk replaced, {plan.get('bytesToMove')} bytes")
        traffic.stop()
        assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
        print(f"{uneven.shape}: {len(traffic.acked)} records acknowledged meanwhile, none lost")
    finally:
        client.close()
        case.end()


def said(case: Case) -> str:
    assert case.asked is not None
    status = get("remediations", case.asked, namespace=case.namespace).get("status", {})
    return " ".join([status.get("message", ""), *(w["message"] for w in status.get("waitingFor", []))])


def findings(case: Case) -> dict[str, dict[str, Any]]:
    status = get("kafkacluster", case.name, namespace=case.namespace).get("status", {})
    return {f["id"]: f for f in status.get("findings", [])}


def uid(kafka: KafkaDeployment, broker: int) -> str:
    return str(get("pod", kafka.pod_name(broker), namespace=kafka.namespace)["metadata"]["uid"])
