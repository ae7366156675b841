"""Five hundred partitions with a single replica each, raised to three under load, while a broker dies and comes back,
and the operator is killed (SIGKILL) around each write: no record is lost, and all ends as it would have without."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection
from tests.e2e.conftest import STEADY, Case, mortal_operator
from tests.e2e.mortal_operator import MOMENTS_OF_A_RAISE
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, Shape, deployed, faults, wait_for

NAMESPACE, SLOT = "gameday-raised", 9
PARTITIONS, BYTES = 500, 80_000
KILLED = 1
"""It leads half of the partitions, alone, and is given replicas of the others."""
SLOW = {"throttleBytesPerSecond": 2_000_000, "waveBytesPerBroker": 10_000_000}
"""What all brokers together have to copy takes some waves of a few seconds each."""


@pytest.mark.parametrize("shape", ["kraft", "zookeeper"])
def test_raised_under_load(shape: Shape, no_other_operator: None, tmp_path: Path) -> None:
    with deployed(NAMESPACE, shape, STEADY | {"auto.leader.rebalance.enable": "false"}, SLOT) as kafka:
        raised_by_many(kafka, tmp_path)


def raised_by_many(kafka: KafkaDeployment, folder: Path) -> None:
    operator.people(kafka.namespace)
    case = Case(kafka, f"raise-{uuid.uuid4().hex[:4]}")
    topic = case.topic(*[[n % 2] for n in range(PARTITIONS)], config={"min.insync.replicas": "1"})
    fill(case.boot, topic)
    cooldown = {"limits": {"cooldown": "0s"}, "playbooks": [{"name": "raise-replication-factor", "parameters": SLOW}]}
    case.watch(remediation=cooldown)
    traffic = records.Traffic(case.boot, topic)
    process, deaths = mortal_operator(case, folder, 0, MOMENTS_OF_A_RAISE[0]), list[str]()
    traffic.start()
    try:
        run = case.wait("AwaitingApproval")
        assert run["status"]["plan"]["partitions"] == PARTITIONS
        began = time.monotonic()
        assert operator.approve(run, "alice").returncode == 0
        for number, moment in enumerate(MOMENTS_OF_A_RAISE, 1):

            def died_or_done(one: object = process) -> bool:
                return one.poll() is not None or case.runs()[-1]["status"]["phase"] == "Succeeded"  # type: ignore[attr-defined]

            wait_for(f"death {moment}, or the end", died_or_done, 300)
            if process.poll() is None:
                break  # what was written in one write with something else is not written again
            assert process.returncode == -9, (folder / f"operator-{number - 1}.log").read_text()[-3000:]
            deaths.append(moment)
            if moment == "after-reassign" and deaths.count(moment) == 1:
                faults.crash_broker(kafka, KILLED)
            process = mortal_operator(case, folder, number, (*MOMENTS_OF_A_RAISE, None)[number])
        done = case.wait("Succeeded", 300)
        took = time.monotonic() - began
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
        traffic.stop()
    effects = Counter(json.loads(line)["kind"] for line in (folder / "effects").read_text().splitlines())
    print(
        f"\n{kafka.shape}: {PARTITIONS} partitions raised in {took:.0f} s with {len(deaths)} deaths of the operator "
        f"({', '.join(deaths)}) and one of broker {KILLED}; effects {dict(effects)}; {len(traffic.acked)} records"
    )
    kinds = ("throttle", "reassign", "restore", "min-isr", "elect")
    assert {f"{when}-{kind}" for when in ("before", "after") for kind in kinds} <= set(deaths)
    assert effects["restore"] == effects["min-isr"] == 1, "each once, however often the operator died"
    assert all(e["state"] == "Done" for e in done["status"]["journal"])
    assert operator.throttles(case.boot) == []
    as_planned(case, topic, done)
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    case.end()


def fill(bootstrap: str, topic: str) -> None:
    """A record of so many bytes for each partition, acknowledged."""
    failed: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(str(error))

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    for partition in range(PARTITIONS):
        value = f"before-{partition} ".ljust(BYTES, "x").encode()
        producer.produce(topic, value, partition=partition, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(120) == 0
    assert failed == []


def as_planned(case: Case, topic: str, done: operator.Object) -> None:
    """Three replicas of each partition, all in sync; each broker is to lead its share, and leads all that the plan gave
    it. What led before on the broker that died, and was to go on leading there, may be led by who took over: that is a
    finding of its own, or Kafka's own rebalancing."""
    client = RealKafka(Connection(case.boot))
    try:
        assert client.reassignments() == {}
        view = client.views([0])[0]
        assert isinstance(view, BrokerView)
        rows = [p for p in view.partitions if p.topic == topic]
        assert {(len(p.replicas), len(p.isr)) for p in rows} == {(3, 3)}
        preferred = Counter(p.replicas[0] for p in rows)
        assert max(preferred.values()) - min(preferred.values()) <= 1
        elected = {(e["topic"], n): e["broker"] for e in done["status"]["plan"]["elections"] for n in e["partitions"]}
        assert len(elected) == PARTITIONS // 3
        assert {(p.topic, p.partition): p.leader for p in rows if (p.topic, p.partition) in elected} == elected
        elsewhere = [p for p in rows if p.leader != p.replicas[0]]
        print(f"{len(elsewhere)} are led by who took over for broker {KILLED}")
        assert {p.replicas[0] for p in elsewhere} <= {KILLED}
        assert client.topic_configs([topic])[topic]["min.insync.replicas"].value == "2"
    finally:
        client.close()
