"""A broker that is gone with its volume, replaced under load while the operator is killed (SIGKILL) around each write;
one that comes back while others copy; one that comes back empty, gets its share, and is emptied again. No record is
lost or doubled."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection, PartitionState
from tests.e2e.conftest import STEADY, Case, mortal_operator
from tests.e2e.mortal_operator import MOMENTS_OF_A_REPLACEMENT
from tests.incident import operator, records
from tests.testbed import Shape, deployed, own_state, wait_for

NAMESPACE, SLOT = "gameday-lost", 9
PARTITIONS, BYTES = 60, 8_000_000
"""240 MB on each of three brokers, with two replicas of everything."""
LIVE = 6
GONE = 2
SLOW = {"throttleBytesPerSecond": "10000000", "waveBytesPerBroker": "100000000"}


@pytest.mark.parametrize("shape", ["kraft", "zookeeper"])
def test_a_lost_broker(shape: Shape, no_other_operator: None, tmp_path: Path) -> None:
    settings = STEADY | {"auto.leader.rebalance.enable": "false", "offsets.topic.replication.factor": 2}
    with deployed(NAMESPACE, shape, settings, SLOT) as kafka:
        operator.people(kafka.namespace)
        case = Case(kafka, f"lost-{uuid.uuid4().hex[:4]}")
        topic = case.topic(
            *[[n % 3, (n + 1) % 3] for n in range(PARTITIONS)],
            config={"min.insync.replicas": "1", "segment.bytes": "16777216"},
        )
        fill(case.boot, topic)
        two = {"pattern": rf"(?:{case.name}\..*)", "replicationFactor": 2}
        case.watch(
            remediation={"limits": {"cooldown": "0s"}},
            expectations={"topics": [two, {"pattern": ".*", "exempt": True}]},
        )
        live = case.topic(
            *[[n % 3, (n + 1) % 3] for n in range(LIVE)], suffix="live", config={"min.insync.replicas": "1"}
        )
        traffic = records.Traffic(case.boot, live)
        traffic.start()
        try:
            comes_back(case, tmp_path)
            is_replaced(case, tmp_path)
            gets_its_share_and_is_emptied(case, tmp_path)
        finally:
            traffic.stop()
        print(f"{shape}: {len(traffic.acked)} records acknowledged meanwhile")
        assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
        case.end()


def comes_back(case: Case, folder: Path) -> None:
    """In the middle: what was copied by then stays, and what was in flight goes back."""
    process = mortal_operator(case, folder, 100, None)
    try:
        case.kafka.stop_broker(GONE)
        case.ask("replace-broker", brokers=str(GONE), **SLOW)
        assert operator.approve(case.wait("AwaitingApproval"), "alice").returncode == 0
        wait_for("copies in flight", lambda: any(rows_moving(case)), 60)
        case.kafka.start_broker(GONE)
        ended = case.wait("Superseded", 120)
        assert f"broker {GONE} is back" in ended["status"]["message"]
        wait_for("nothing in flight", lambda: not any(rows_moving(case)), 60)
        assert operator.throttles(case.boot) == []
        wait_for("every replica in sync", lambda: all(len(p.isr) == 2 for p in rows(case)), 120)
    finally:
        process.terminate()
        process.wait(30)


def is_replaced(case: Case, folder: Path) -> None:
    case.kafka.stop_broker(GONE)
    shutil.rmtree(own_state().disks / case.kafka.namespace / f"data-kafka-{GONE}" / "kafka")
    process, deaths = mortal_operator(case, folder, 0, MOMENTS_OF_A_REPLACEMENT[0]), list[str]()
    try:
        case.ask("replace-broker", brokers=str(GONE), **SLOW)
        run = case.wait("AwaitingApproval")
        plan = run["status"]["plan"]
        assert plan["replacedBrokers"] == [GONE]
        began = time.monotonic()
        assert operator.approve(run, "alice").returncode == 0
        for number, moment in enumerate(MOMENTS_OF_A_REPLACEMENT, 1):

            def died_or_done(one: object = process) -> bool:
                return one.poll() is not None or phase(case) == "Succeeded"  # type: ignore[attr-defined]

            wait_for(f"death {moment}, or the end", died_or_done, 300)
            if process.poll() is None:
                break
            assert process.returncode == -9, (folder / f"operator-{number - 1}.log").read_text()[-3000:]
            deaths.append(moment)
            process = mortal_operator(case, folder, number, (*MOMENTS_OF_A_REPLACEMENT, None)[number])
        done = case.wait("Succeeded", 300)
        took = time.monotonic() - began
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
    effects = Counter(json.loads(line)["kind"] for line in (folder / "effects").read_text().splitlines())
    size, estimate = plan["bytesToMove"] / 1e6, plan["estimatedSeconds"]
    print(
        f"\n{case.kafka.shape}: {plan['partitions']} partitions, {size:.0f} MB, replaced in {took:.0f} s "
        f"(at the throttle {estimate} s) with {len(deaths)} deaths of the operator; effects {dict(effects)}"
    )
    kinds = ("throttle", "reassign", "restore")
    assert {f"{when}-{kind}" for when in ("before", "after") for kind in kinds} <= set(deaths)
    assert all(e["state"] == "Done" for e in done["status"]["journal"])
    assert all(GONE not in p.replicas and len(p.isr) == 2 for p in rows(case))


def gets_its_share_and_is_emptied(case: Case, folder: Path) -> None:
    case.kafka.start_broker(GONE)
    assert operator.throttles(case.boot) == [], "none is left, also on the broker that was away"
    process = mortal_operator(case, folder, 200, None)
    quick = {"throttleBytesPerSecond": "50000000", "batchSize": "20"}
    try:
        for playbook, parameters, left in (
            ("rebalance", {"maxMoves": "200"}, range((PARTITIONS + LIVE) * 2 // 3, PARTITIONS + LIVE)),
            ("evacuate-broker", {"brokers": str(GONE)}, range(1)),
        ):
            case.ask(playbook, **parameters, **quick)
            run = case.wait("AwaitingApproval")
            began = time.monotonic()
            assert operator.approve(run, "alice").returncode == 0
            done = case.wait("Succeeded", 300)
            took, plan = time.monotonic() - began, done["status"]["plan"]
            print(
                f"{playbook}: {plan['moves']} replicas in {took:.0f} s (at the throttle {plan['estimatedSeconds']} s)"
            )
            found = rows(case)
            assert sum(GONE in p.replicas for p in found) in left
            assert all(len(p.replicas) == len(p.isr) == 2 for p in found)
            assert operator.throttles(case.boot) == []
    finally:
        process.terminate()
        process.wait(30)


def phase(case: Case) -> str:
    return str(next(r["status"].get("phase") for r in case.runs() if r["metadata"]["name"] == case.asked))


def rows(case: Case) -> list[PartitionState]:
    client = RealKafka(Connection(case.boot))
    try:
        view = client.views([0])[0]
        return [p for p in view.partitions if p.topic in case.topics] if isinstance(view, BrokerView) else []
    finally:
        client.close()


def rows_moving(case: Case) -> Iterator[object]:
    client = RealKafka(Connection(case.boot))
    try:
        yield from client.reassignments()
    finally:
        client.close()


def fill(bootstrap: str, topic: str) -> None:
    """So many bytes in each partition, acknowledged."""
    failed: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(str(error))

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    for number in range(BYTES // 800_000):
        for partition in range(PARTITIONS):
            value = f"before-{partition}-{number} ".ljust(800_000, "x").encode()
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(120) == 0
    assert failed == []
