"""A broker that is gone with its volume, replaced under load while the operator is killed (SIGKILL) around each write;
one that comes back while others copy; runs that are given up at each wave, and that wait while another broker is away;
one that comes back empty, gets its share, is emptied and goes. No record is lost or doubled, and none of an aborted
transaction is read."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection, PartitionState
from kafka_medic.cluster.snapshot import TopicPartition
from tests.e2e.conftest import STEADY, Case, mortal_operator
from tests.e2e.mortal_operator import MOMENTS_OF_A_REPLACEMENT
from tests.incident import operator, records
from tests.testbed import Shape, deployed, get, own_state, wait_for

NAMESPACE, SLOT = "gameday-lost", 9
PARTITIONS, BYTES = 60, 24_800_000
"""1 GB on each of three brokers, with two replicas of everything."""
RECORD = 16_000
"""One batch, as large as producers make them by default. A follower fetches 1 MiB of a partition at a time, and what is
cut off of the last batch counts for the throttle all the same: with batches of 800 kB that is a quarter."""
LIVE = 6
GONE, OTHER = 2, 1
SLOW = {"throttleBytesPerSecond": "20000000", "waveBytesPerBroker": "100000000"}
AT_ONCE = {"throttleBytesPerSecond": "10000000"}
"""In one wave, as by default."""
TWO = STEADY | {
    "auto.leader.rebalance.enable": "false",
    "default.replication.factor": 2,
    "offsets.topic.replication.factor": 2,
    "transaction.state.log.replication.factor": 2,
    "transaction.state.log.min.isr": 1,
    "min.insync.replicas": 1,
}


@pytest.mark.parametrize("shape", ["kraft", "zookeeper"])
def test_a_lost_broker(shape: Shape, no_other_operator: None, tmp_path: Path) -> None:
    with deployed(NAMESPACE, shape, TWO, SLOT) as kafka:
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
        live, moved = (
            case.topic(*[[n % 3, (n + 1) % 3] for n in range(LIVE)], suffix=s, config={"min.insync.replicas": "1"})
            for s in ("live", "moved")
        )
        traffic, transactions = records.Traffic(case.boot, live), records.Transactions(case.boot, moved)
        traffic.start()
        transactions.start()
        try:
            comes_back(case, tmp_path)
            lose(case)
            is_given_up_at_each_wave(case, tmp_path)
            is_replaced(case, tmp_path)
            gets_its_share(case, tmp_path, 200)
            lose(case)
            is_replaced_at_the_throttle(case, tmp_path)
            gets_its_share(case, tmp_path, 400)
            is_emptied_and_goes(case, tmp_path)
        finally:
            traffic.stop()
            transactions.stop()
        print(
            f"{shape}: {len(traffic.acked)} records and {len(transactions.acked)} of transactions acknowledged "
            f"meanwhile, {len(transactions.withdrawn)} withdrawn"
        )
        for one in (traffic, transactions):
            assert (one.lost, one.doubled, one.failed) == (set(), [], [])
        assert transactions.read_though_withdrawn == set()
        assert transactions.acked
        case.end()


@contextlib.contextmanager
def operating(case: Case, folder: Path, number: int) -> Iterator[None]:
    process = mortal_operator(case, folder, number, None)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def lose(case: Case) -> None:
    """With its volume."""
    case.kafka.stop_broker(GONE)
    shutil.rmtree(own_state().disks / case.kafka.namespace / f"data-kafka-{GONE}" / "kafka")


def comes_back(case: Case, folder: Path) -> None:
    """In the middle: what was copied by then stays, and what was in flight goes back."""
    with operating(case, folder, 100):
        case.kafka.stop_broker(GONE)
        begun(case, "replace-broker", brokers=str(GONE), **SLOW)
        wait_for("copies in flight", lambda: any(rows_moving(case)), 60)
        case.kafka.start_broker(GONE)
        ended = case.wait("Superseded", 120)
        assert f"broker {GONE} is back" in ended["status"]["message"]
        wait_for("nothing in flight", lambda: not any(rows_moving(case)), 60)
        assert operator.throttles(case.boot) == []
        wait_for("every replica in sync", lambda: all(len(p.isr) == 2 for p in rows(case)), 120)


def is_given_up_at_each_wave(case: Case, folder: Path) -> None:
    """The first wave, the second, while another broker is away, and the third. Every partition is as it was, or as
    planned."""
    before = {(p.topic, p.partition): set(p.replicas) for p in rows(case)}
    with operating(case, folder, 150):
        for wave in (1, 2, 3):
            begun(case, "replace-broker", brokers=str(GONE), **SLOW | {"waveBytesPerBroker": "50000000"})
            wait_for(f"wave {wave}", partial(reached, case, wave), 120)
            if wave == 2:
                another_is_away(case)
            assert operator.approve(run_of(case), "alice", "Reject").returncode == 0
            case.wait("Aborted", 120)
            assert not any(rows_moving(case))
            assert operator.throttles_on(case.boot, [0, OTHER]) == []
            for p in rows(case):
                replicas, was = set(p.replicas), before[p.topic, p.partition]
                assert replicas == was or (GONE in was and GONE not in replicas and len(set(p.isr)) == 2), p
    left = sum(GONE in p.replicas for p in rows(case))
    print(f"{case.kafka.shape}: given up in three waves, {left} partitions are left on broker {GONE}")
    assert left


def another_is_away(case: Case) -> None:
    """No further wave begins before it is back; then one does."""
    case.kafka.stop_broker(OTHER)
    wait_for("the operator to see one broker", lambda: registered(case) == 1, 60)
    sent = waves(case)
    wait_for("what can end to end", lambda: not in_sync_but_moving(case), 60)
    assert waves(case) == sent
    case.kafka.start_broker(OTHER)
    wait_for("the run to go on", lambda: waves(case) > sent, 180)


def registered(case: Case) -> int | None:
    status = get("kafkacluster", case.name, namespace=case.namespace).get("status", {})
    found: int | None = status.get("brokers", {}).get("registered")
    return found


def in_sync_but_moving(case: Case) -> list[PartitionState]:
    """What only the brokers that are left copy, and is still copied."""
    moving = {(tp.topic, tp.partition) for tp in rows_moving(case)}
    return [p for p in rows(case) if (p.topic, p.partition) in moving and OTHER not in p.replicas]


def is_replaced(case: Case, folder: Path) -> None:
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


def is_replaced_at_the_throttle(case: Case, folder: Path) -> None:
    """By an operator that nobody kills: how long it takes beside what the throttle allows."""
    with operating(case, folder, 300):
        plan = begun(case, "replace-broker", brokers=str(GONE), **AT_ONCE)["status"]["plan"]
        began = time.monotonic()
        wait_for("every replica in sync", lambda: all(GONE not in p.replicas for p in rows(case)), 600)
        in_sync = time.monotonic() - began
        case.wait("Succeeded", 120)
    took, bound = time.monotonic() - began, plan["estimatedSeconds"]
    print(
        f"{case.kafka.shape}: {plan['bytesToMove'] / 1e6:.0f} MB replaced and in sync {in_sync:.0f} s after the "
        f"approval, verified after {took:.0f} s; the throttle allows {bound} s: {in_sync / bound:.2f} times"
    )


def gets_its_share(case: Case, folder: Path, number: int) -> None:
    case.kafka.start_broker(GONE)
    assert operator.throttles(case.boot) == [], "none is left, also on the broker that was away"
    with operating(case, folder, number):
        is_moved(case, "rebalance", maxMoves="200")
    share = sum(GONE in p.replicas for p in rows(case))
    assert share >= (PARTITIONS + 2 * LIVE) * 2 // 3 - 1


def is_emptied_and_goes(case: Case, folder: Path) -> None:
    with operating(case, folder, 500):
        done = is_moved(case, "evacuate-broker", brokers=str(GONE))
        assert f"broker {GONE} holds no replica any more, " in done["status"]["message"]
        case.kafka.stop_broker(GONE)
        isr = {(p.topic, p.partition): set(p.isr) for p in rows(case)}
        assert all(len(members) == 2 and GONE not in members for members in isr.values())


def is_moved(case: Case, playbook: str, **parameters: str) -> operator.Object:
    quick = {"throttleBytesPerSecond": "100000000", "batchSize": "20"}
    began = time.monotonic()
    begun(case, playbook, **parameters, **quick)
    done = case.wait("Succeeded", 300)
    took, plan = time.monotonic() - began, done["status"]["plan"]
    print(f"{playbook}: {plan['moves']} replicas in {took:.0f} s (at the throttle {plan['estimatedSeconds']} s)")
    assert all(len(p.replicas) == len(p.isr) == 2 for p in rows(case))
    assert operator.throttles(case.boot) == []
    return done


def begun(case: Case, playbook: str, **parameters: str) -> operator.Object:
    """Asked for and approved."""
    case.ask(playbook, **parameters)
    run = case.wait("AwaitingApproval")
    assert operator.approve(run, "alice").returncode == 0
    return run


def run_of(case: Case) -> operator.Object:
    return next(r for r in case.runs() if r["metadata"]["name"] == case.asked)


def reached(case: Case, wave: int) -> bool:
    return waves(case) >= wave


def waves(case: Case) -> int:
    """How many have been sent."""
    return sum(e["kind"] == "Reassign" for e in run_of(case)["status"].get("journal", []))


def phase(case: Case) -> str:
    return str(run_of(case)["status"].get("phase"))


def rows(case: Case) -> list[PartitionState]:
    client = RealKafka(Connection(case.boot))
    try:
        view = client.views([0])[0]
        return [p for p in view.partitions if p.topic in case.topics] if isinstance(view, BrokerView) else []
    finally:
        client.close()


def rows_moving(case: Case) -> Iterator[TopicPartition]:
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

    settings = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "batch.num.messages": 1}
    producer = Producer(settings)
    for number in range(BYTES // RECORD):
        for partition in range(PARTITIONS):
            value = f"before-{partition}-{number} ".ljust(RECORD, "x").encode()
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
            producer.poll(0)
        if number % 50 == 0:
            assert producer.flush(120) == 0
    assert producer.flush(120) == 0
    assert failed == []
