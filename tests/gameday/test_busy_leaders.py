"""Clients send most to one broker of a cluster of either kind, as a real exporter counts it: other leaders under load,
by a person's approval and in mode Auto, and no record lost or doubled."""

from __future__ import annotations

import time
import uuid

from kafka_medic.diagnose.load import LEAST_TRAFFIC, UNEVEN_FOR
from tests.e2e.conftest import STEADY, Case, at_the_same_time
from tests.gameday.test_moves import judged, loaded, proposed_after, rows
from tests.incident import operator, records
from tests.testbed import Shape, deployed, wait_for
from tests.testbed.kafka_settings import EXPORTER_PORT

PLACES: list[tuple[Shape, int]] = [("kraft", 9), ("zookeeper", 11)]
QUIET = STEADY | {"auto.leader.rebalance.enable": "false"}
PARTITIONS = 12
BUSY, CALM, RECORD = 100_000, 10_000, 5_000
"""Bytes per second to each partition that broker 0 leads at first, and to each other one; and bytes of a record."""
OVERWORKED = 700_000
"""As BUSY, so that the operator finds it by itself: LEAST_TRAFFIC above the mean, also on a slow day."""
assert 0.6 * (OVERWORKED * PARTITIONS / 3 * 2 / 3 - CALM * PARTITIONS) > LEAST_TRAFFIC
KEPT = {"min.insync.replicas": "2", "retention.bytes": "100000000", "segment.bytes": "20000000"}


def rate(partition: int, busy: int = BUSY) -> int:
    return busy if partition % 3 == 0 else CALM


def sent(case: Case, topic: str, busy: int = BUSY) -> list[int]:
    """Bytes per second to each broker, by whom each partition is led."""
    led = [(p.leader, rate(p.partition, busy)) for p in rows(case) if p.topic == topic]
    return [sum(each for leader, each in led if leader == broker) for broker in range(3)]


def test_busy_partitions_get_other_leaders(installed: None) -> None:
    """Side by side: the growth of logs is watched for ten minutes."""
    at_the_same_time(are_evened, PLACES)


def are_evened(place: tuple[Shape, int]) -> None:
    shape, slot = place
    with deployed(f"gameday-busy-{shape}", shape, QUIET, slot, exporter=True) as kafka:
        operator.people(kafka.namespace)
        case = Case(kafka, f"busy-{uuid.uuid4().hex[:5]}")
        case.watch(probes={"metricsPort": EXPORTER_PORT})
        spread = [[n % 3, (n + 1) % 3, (n + 2) % 3] for n in range(PARTITIONS)]
        busy = case.topic(*spread, suffix="busy", config={"min.insync.replicas": "2"})
        skewed = records.Steady(case.boot, busy, [rate(n) for n in range(PARTITIONS)], RECORD)
        with loaded(case) as traffic, skewed.lasting():
            before = sent(case, busy)
            case.ask("rebalance-leaders")
            run = case.wait("AwaitingApproval", 1500)
            print(f"\n{shape}: {run['status']['plan']['summary']}")
            assert operator.approve(run, "alice").returncode == 0
            began = time.monotonic()
            done = case.wait("Succeeded", 300)
            took = time.monotonic() - began
            wait_for("new leaders", lambda: sent(case, busy) != before, 60)
            after = sent(case, busy)
            print(f"{shape}: {before} bytes per second to brokers 0 to 2 became {after} in {took:.0f} s")
            assert done["status"]["plan"]["reorderedForGood"] is True
            assert max(before) > 2 * sum(before) / 3
            assert max(after) < 1.3 * sum(after) / 3
            mine = [p for p in rows(case) if p.topic == busy]
            assert all(sorted(p.replicas) == sorted(p.isr) == [0, 1, 2] for p in mine)
            assert all(p.leader == p.replicas[0] for p in mine)
        assert skewed.failed == []
        judged(case, traffic)


def test_busy_partitions_get_other_leaders_without_a_person(installed: None) -> None:
    """From the cause to the cure. The finding takes half an hour of uneven traffic, and one cure is enough."""
    with proposed_after("10s", "rebalance-leaders"):
        at_the_same_time(are_evened_in_auto, PLACES)


def are_evened_in_auto(place: tuple[Shape, int]) -> None:
    shape, slot = place
    with deployed(f"gameday-busy-auto-{shape}", shape, QUIET, slot, exporter=True) as kafka:
        operator.people(kafka.namespace)
        case = Case(kafka, f"busy-{uuid.uuid4().hex[:5]}")
        two = {"pattern": rf"(?:{case.name}\..*)", "replicationFactor": 2}
        expected = {"topics": [two, {"pattern": ".*", "exempt": True}]}
        case.watch(probes={"metricsPort": EXPORTER_PORT}, expectations=expected, remediation={"mode": "Auto"})
        spread = [[n % 3, (n + 1) % 3, (n + 2) % 3] for n in range(PARTITIONS)]
        busy = case.topic(*spread, suffix="busy", config=KEPT)
        skewed = records.Steady(case.boot, busy, [rate(n, OVERWORKED) for n in range(PARTITIONS)], RECORD)
        with loaded(case) as traffic, skewed.lasting():
            before, began = sent(case, busy, OVERWORKED), time.monotonic()
            wait_for("the cure", lambda: [operator.phase(r) for r in case.runs()] == ["Succeeded"], UNEVEN_FOR + 1200)
            took = time.monotonic() - began
            wait_for("new leaders", lambda: sent(case, busy, OVERWORKED) != before, 60)
            after = sent(case, busy, OVERWORKED)
            (run,) = case.runs()
            print(f"\n{shape}: {run['status']['plan']['summary']}; {took:.0f} s from the cause to the cure")
            print(f"{shape}: {before} bytes per second to brokers 0 to 2 became {after}")
            assert run["spec"]["playbook"]["name"] == "rebalance-leaders"
            assert run["status"]["approvedBy"] == "policy:Auto"
            assert not run["status"].get("approvals")
            assert max(before) > 2 * sum(before) / 3
            assert max(after) < 1.3 * sum(after) / 3
            assert all(p.leader == p.replicas[0] for p in rows(case) if p.topic == busy)
            told = {reason for reason, _ in case.events()}
            assert {"LoadUneven", "RemediationProposed"} <= told, told
        assert skewed.failed == []
        judged(case, traffic)
