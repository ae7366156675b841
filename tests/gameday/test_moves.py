"""Replicas that lie badly, moved under load on clusters of both kinds: a volume that fills is relieved before it is
full, by other brokers or by another volume of its broker, replicas that share a rack are spread, a broker that was
added gets its share, and brokers with different bytes are evened. No record is lost or doubled, and no throttle is
left."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from kafka_medic.clients.answers import LogDirs
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection, PartitionState
from kafka_medic.cluster.snapshot import TopicPartition
from tests.e2e.conftest import STEADY, Case, at_the_same_time
from tests.incident import operator, records
from tests.testbed import Shape, deployed, kubectl, wait_for

SLOT = 9
PLACES: list[tuple[Shape, int]] = [("kraft", 9), ("zookeeper", 11)]
TWO = STEADY | {
    "auto.leader.rebalance.enable": "false",
    "default.replication.factor": 2,
    "offsets.topic.replication.factor": 2,
    "min.insync.replicas": 1,
}
SMALL, VOLUME = "400Mi", 400 << 20
LARGE_DIR, SMALL_DIR = "/third/kafka", "/second/kafka"
ON_SMALL, ON_BOTH = {"log.dirs": SMALL_DIR}, {"log.dirs": f"{LARGE_DIR},{SMALL_DIR}"}
FULL = 0
"""The broker whose volume fills. It has a replica of every partition that grows, each of the others half of them."""
PARTITIONS, BEFORE, PACE = 12, 290_000_000, 60_000
"""BEFORE: bytes on the volume at the beginning. PACE: bytes a second. After the 15 minutes that a pace is watched, less
than a fifth of the volume is free. The other volumes last longer than is told ahead, or they would receive nothing."""
RACKS = {0: {"broker.rack": "a"}, 1: {"broker.rack": "a"}, 2: {"broker.rack": "b"}}
LARGE, LITTLE = 8_000_000, 100_000
RECORD = 100_000


def test_a_volume_that_fills_is_relieved_before_it_is_full(installed: None) -> None:
    """Side by side: the pace of a volume is watched for 15 minutes."""
    with proposed_after("2s", "relieve-disk"):
        at_the_same_time(is_relieved, PLACES)


def is_relieved(place: tuple[Shape, int]) -> None:
    shape, slot = place
    each, disks = dict.fromkeys((0, 1, 2), ON_SMALL), {"/second": SMALL}
    with deployed(f"gameday-fills-{shape}", shape, TWO, slot, broker_overrides=each, disks=disks) as kafka:
        operator.people(kafka.namespace)
        case = watched(Case(kafka, f"fills-{uuid.uuid4().hex[:5]}"), {})
        small = {"segment.bytes": "1048576", "min.insync.replicas": "1"}
        growing = case.topic(*[[FULL, 1 + n % 2] for n in range(PARTITIONS)], suffix="growing", config=small)
        for partition in range(PARTITIONS):
            fill(case, growing, partition, BEFORE // PARTITIONS)
        with loaded(case) as traffic:
            began = time.monotonic()
            growth = records.Steady(case.boot, growing, [PACE / PARTITIONS] * PARTITIONS, PACE // 3)
            with growth.lasting():
                case.wait("AwaitingApproval", 1500)
                found, before = time.monotonic() - began, free(case, FULL)
                (run,) = (r for r in case.runs() if operator.phase(r) == "AwaitingApproval")
                assert run["spec"]["playbook"]["name"] == "relieve-disk"
                assert run["spec"]["cause"]["findingId"] == f"DiskFilling/broker-{FULL}"
                assert operator.approve(run, "alice").returncode == 0
                done = case.wait("Succeeded", 300)
                took = time.monotonic() - began - found
                wait_for("Kafka to delete what was removed", lambda: free(case, FULL) > before + 0.05, 150)
                freed, after = time.monotonic() - began - found, free(case, FULL)
            plan = done["status"]["plan"]
            print(
                f"\n{shape}: proposed after {found:.0f} s with {before:.0%} free; {plan['moves']} replicas, "
                f"{plan['bytesToMove'] / 1e6:.0f} MB, in {took:.0f} s; {after:.0%} free after {freed:.0f} s"
            )
            assert before < 0.2 < after
            assert all(free(case, broker) > 0.2 for broker in (1, 2))
            assert growth.failed == []
            in_sync_twice(case)
        judged(case, traffic)


def test_a_volume_is_relieved_by_another_one_of_its_broker(installed: None) -> None:
    with proposed_after("2s", "relieve-disk"):
        at_the_same_time(is_relieved_within, PLACES)


def is_relieved_within(place: tuple[Shape, int]) -> None:
    """In mode Auto with its usual bounds: nothing leaves the broker, so nobody is asked. Who holds what, who leads, and
    every leader epoch stay as they are."""
    shape, slot = place
    each, disks = {FULL: ON_BOTH}, {"/second": SMALL, "/third": "800Mi"}
    with deployed(f"gameday-within-{shape}", shape, TWO, slot, broker_overrides=each, disks=disks) as kafka:
        operator.people(kafka.namespace)
        case = watched(Case(kafka, f"within-{uuid.uuid4().hex[:5]}"), {"mode": "Auto"})
        small = {"segment.bytes": "1048576", "min.insync.replicas": "1"}
        growing = case.topic(*[[FULL, 1 + n % 2] for n in range(PARTITIONS)], suffix="growing", config=small)
        on_the_small_one(case, growing)
        for partition in range(PARTITIONS):
            fill(case, growing, partition, BEFORE // PARTITIONS)
        with loaded(case) as traffic:
            before = {(p.topic, p.partition): (p.leader, p.leader_epoch, p.replicas) for p in rows(case)}
            growth = records.Steady(case.boot, growing, [PACE / PARTITIONS] * PARTITIONS, PACE // 3)
            with growth.lasting():
                wait_for("the proposal", lambda: bool(case.runs()), 1500)
                share, began = free(case, FULL), time.monotonic()
                run = case.wait("Succeeded", 300)
                took = time.monotonic() - began
            found = run["spec"]["cause"]["findingId"]
            assert (run["spec"]["playbook"]["name"], found) == ("relieve-disk", f"DiskFilling/broker-{FULL}")
            assert run["status"]["approvedBy"] == "policy:Auto"
            assert not run["status"].get("approvals")
            moves = run["status"]["plan"]["logDirMoves"]
            assert moves
            assert {(m["broker"], m["source"], m["target"]) for m in moves} == {(FULL, SMALL_DIR, LARGE_DIR)}
            wait_for("Kafka to delete what has moved", lambda: free(case, FULL) > 0.2, 150)
            print(
                f"\n{shape}: {share:.0%} of the small volume free; {len(moves)} replicas, "
                f"{sum(m['sizeBytes'] for m in moves) / 1e6:.0f} MB, moved within the broker in {took:.0f} s; "
                f"{free(case, FULL):.0%} free"
            )
            after = {(p.topic, p.partition): (p.leader, p.leader_epoch, p.replicas) for p in rows(case)}
            assert before == {key: value for key, value in after.items() if key in before}
            assert growth.failed == []
            in_sync_twice(case)
        judged(case, traffic)


def on_the_small_one(case: Case, topic: str) -> None:
    """All that the broker has of the topic."""
    with closing(RealKafka(Connection(case.boot, timeout_seconds=20.0))) as client:
        held = [TopicPartition(topic, n) for n in range(PARTITIONS)]

        def so() -> bool:
            refused = client.alter_log_dirs(FULL, dict.fromkeys(held, SMALL_DIR))
            there = {d.path: set(d.sizes or ()) for d in log_dirs(case, FULL).directories}
            return not refused and there[SMALL_DIR].issuperset(held) and there[LARGE_DIR].isdisjoint(held)

        wait_for("the topic on the small volume", so, 60)


@pytest.mark.parametrize("shape", ["kraft", "zookeeper"])
def test_shared_racks_are_spread_and_bytes_are_evened(shape: Shape, installed: None) -> None:
    with (
        deployed(f"gameday-racks-{shape}", shape, TWO, SLOT, broker_overrides=RACKS) as kafka,
        proposed_after("2s", "spread-racks"),
    ):
        operator.people(kafka.namespace)
        case = watched(Case(kafka, f"racks-{uuid.uuid4().hex[:5]}"), {"limits": {"cooldown": "0s"}})
        one = {"min.insync.replicas": "1"}
        shared = case.topic(*[[n % 2, 1 - n % 2] for n in range(6)], suffix="shared", config=one)
        large, little = (
            case.topic(*[[broker, 2]] * 6, suffix=suffix, config=one)
            for broker, suffix in ((0, "large"), (1, "little"))
        )
        for topic, size in ((shared, LITTLE), (large, LARGE), (little, LITTLE)):
            for partition in range(6):
                fill(case, topic, partition, size)
        with loaded(case) as traffic:
            case.wait("AwaitingApproval", 240)
            (run,) = (r for r in case.runs() if operator.phase(r) == "AwaitingApproval")
            assert (run["spec"]["playbook"]["name"], run["spec"]["cause"]["findingId"]) == (
                "spread-racks",
                "RackSpreadLow",
            )
            assert operator.approve(run, "alice").returncode == 0
            done = case.wait("Succeeded", 300)
            assert done["status"]["plan"]["moves"] == 6, "one of each partition that shares a rack"
            assert all(2 in p.replicas for p in in_sync_twice(case))

            before = {broker: held(case, broker) for broker in (0, 1)}
            case.ask("rebalance", balance="bytes")
            run = case.wait("AwaitingApproval", 120)
            assert operator.approve(run, "alice").returncode == 0
            done = case.wait("Succeeded", 300)
            after, counts = {broker: held(case, broker) for broker in (0, 1)}, Counter[int]()
            for p in in_sync_twice(case):
                assert 2 in p.replicas
                counts.update(p.replicas)
            plan = done["status"]["plan"]
            print(
                f"\n{shape}: bytes on brokers 0 and 1 {before}, then {after}, by {plan['moves']} moves; "
                f"replicas {dict(counts)}"
            )
            assert before[0] - before[1] > 5 * LARGE
            assert abs(after[0] - after[1]) < LARGE, "the largest partition"
            assert abs(counts[0] - counts[1]) <= 1
        judged(case, traffic)


def test_a_broker_that_was_added_gets_its_share(installed: None) -> None:
    """Side by side: LoadUneven is Firing after half an hour."""
    with proposed_after("2s", "rebalance"):
        at_the_same_time(gets_its_share, PLACES)


def gets_its_share(place: tuple[Shape, int]) -> None:
    shape, slot = place
    # A broker gets no share while less than a quarter of its volume is free, and the machine's disk may be that full.
    each, disks = dict.fromkeys((0, 1, 2), ON_SMALL), {"/second": SMALL}
    with deployed(f"gameday-share-{shape}", shape, TWO, slot, broker_overrides=each, disks=disks) as kafka:
        operator.people(kafka.namespace)
        case = watched(Case(kafka, f"share-{uuid.uuid4().hex[:5]}"), {})
        one = {"min.insync.replicas": "1"}
        elsewhere = case.topic(*[[n % 2, 1 - n % 2] for n in range(60)], suffix="elsewhere", config=one)
        for partition in range(60):
            fill(case, elsewhere, partition, LITTLE)
        with loaded(case) as traffic:
            began = time.monotonic()
            case.wait("AwaitingApproval", 2400)
            found, before = time.monotonic() - began, replicas(case)
            (run,) = (r for r in case.runs() if operator.phase(r) == "AwaitingApproval")
            assert (run["spec"]["playbook"]["name"], run["spec"]["cause"]["findingId"]) == (
                "rebalance",
                "LoadUneven/replicas",
            )
            assert operator.approve(run, "alice").returncode == 0
            done = case.wait("Succeeded", 600)
            took, plan = time.monotonic() - began - found, done["status"]["plan"]
            in_sync_twice(case)
            after = replicas(case)
            print(
                f"\n{shape}: proposed after {found:.0f} s; replicas per broker {dict(before)}, then {dict(after)}, by "
                f"{plan['moves']} moves in {took:.0f} s"
            )
            assert before[2] < min(before[0], before[1]) / 2
            assert max(after.values()) - min(after.values()) <= 1
            assert plan["moves"] == after[2] - before[2], "no more than it lacks"
        judged(case, traffic)


@contextmanager
def proposed_after(seconds: str, playbook: str) -> Iterator[None]:
    """The Playbook's own `for`, and what it was afterwards."""
    was = json.loads(kubectl("get", "playbook", playbook, "-o", "json").stdout)["spec"]["trigger"]["for"]

    def tuned(to: str) -> None:
        kubectl("patch", "playbook", playbook, "--type=merge", "-p", json.dumps({"spec": {"trigger": {"for": to}}}))

    tuned(seconds)
    try:
        yield
    finally:
        tuned(was)


def watched(case: Case, remediation: dict[str, object]) -> Case:
    two = {"pattern": rf"(?:{case.name}\..*)", "replicationFactor": 2}
    case.watch(remediation=remediation, expectations={"topics": [two, {"pattern": ".*", "exempt": True}]})
    return case


@contextmanager
def loaded(case: Case) -> Iterator[records.Traffic]:
    """An application that writes to partitions on all brokers while the block lasts."""
    live = case.topic([0, 2], [2, 1], [1, 2], suffix="live", config={"min.insync.replicas": "1"})
    with records.flowing(case.boot, live) as traffic:
        yield traffic


def judged(case: Case, traffic: records.Traffic) -> None:
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    assert operator.throttles(case.boot) == []
    print(f"{case.kafka.shape}: {len(traffic.acked)} records acknowledged meanwhile, none lost or doubled")
    case.end()


def fill(case: Case, topic: str, partition: int, size: int) -> None:
    count = size // RECORD
    assert records.write(case.boot, topic, ["x" * RECORD] * count, partition=partition) == count


def rows(case: Case) -> list[PartitionState]:
    client = RealKafka(Connection(case.boot, timeout_seconds=20.0))
    try:
        view = client.views([0])[0]
        return [p for p in view.partitions if p.topic in case.topics] if isinstance(view, BrokerView) else []
    finally:
        client.close()


def replicas(case: Case) -> Counter[int]:
    """How many each broker has, of all topics."""
    client = RealKafka(Connection(case.boot, timeout_seconds=20.0))
    try:
        view = client.views([0])[0]
        assert isinstance(view, BrokerView), view
        return Counter(broker for p in view.partitions for broker in p.replicas)
    finally:
        client.close()


def in_sync_twice(case: Case) -> list[PartitionState]:
    found: list[PartitionState] = []

    def so() -> bool:
        found[:] = rows(case)
        return bool(found) and all(len(p.isr) == len(p.replicas) == 2 for p in found)

    wait_for("two replicas in sync", so, 60)
    return found


def log_dirs(case: Case, broker: int) -> LogDirs:
    client = RealKafka(Connection(case.boot, timeout_seconds=20.0))
    try:
        found = client.log_dirs([broker])[broker]
        assert isinstance(found, LogDirs), found
        return found
    finally:
        client.close()


def free(case: Case, broker: int) -> float:
    """The share of its small volume."""
    (directory,) = (d for d in log_dirs(case, broker).directories if d.path == SMALL_DIR)
    assert directory.total is not None
    assert directory.usable is not None
    assert abs(directory.total - VOLUME) < 0.01 * VOLUME
    return directory.usable / directory.total


def held(case: Case, broker: int) -> int:
    """Bytes of this case's replicas."""
    return sum(size for tp, size in log_dirs(case, broker).sizes.items() if tp.topic in case.topics)
