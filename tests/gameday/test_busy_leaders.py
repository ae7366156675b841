"""Clients send most to one broker of a cluster of either kind, as a real exporter counts it: other leaders under load,
by a person's approval and in mode Auto, and no record lost or doubled."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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
KEPT = {"retention.bytes": "100000000", "segment.bytes": "20000000"}
TWO_REPLICAS = {"topics": [{"pattern": "busy-.*", "replicationFactor": 2}, {"pattern": ".*", "exempt": True}]}


def rate(partition: int, busy: int = BUSY) -> int:
    return busy if partition % 3 == 0 else CALM


def sent(case: Case, topic: str, busy: int = BUSY) -> list[int]:
    """Bytes per second to each broker, by whom each partition is led."""
    led = [(p.leader, rate(p.partition, busy)) for p in rows(case) if p.topic == topic]
    return [sum(each for leader, each in led if leader == broker) for broker in range(3)]


@contextmanager
def skewed(place: tuple[Shape, int], name: str, busy: int, config: dict[str, str], **spec: Any) -> Iterator[Busy]:
    """A cluster whose clients send `busy` bytes per second to each partition that broker 0 leads at first. In the end
    no record is lost or doubled."""
    shape, slot = place
    with deployed(f"gameday-{name}-{shape}", shape, QUIET, slot, exporter=True) as kafka:
        operator.people(kafka.namespace)
        case = Case(kafka, f"busy-{uuid.uuid4().hex[:5]}")
        case.watch(probes={"metricsPort": EXPORTER_PORT}, **spec)
        spread = [[n % 3, (n + 1) % 3, (n + 2) % 3] for n in range(PARTITIONS)]
        topic = case.topic(*spread, suffix="busy", config={"min.insync.replicas": "2"} | config)
        wait_for("its partitions in the view of broker 0", lambda: sum(sent(case, topic, busy)) > 0, 60)
        writers = records.Steady(case.boot, topic, [rate(n, busy) for n in range(PARTITIONS)], RECORD)
        with loaded(case) as traffic, writers.lasting():
            yield Busy(case, topic, busy, sent(case, topic, busy), writers)
        assert writers.failed == []
        judged(case, traffic)


@dataclass(frozen=True)
class Busy:
    """`before`: bytes per second to each broker at first."""

    case: Case
    topic: str
    rate: int
    before: list[int]
    writers: records.Steady

    def all_cured(self) -> bool:
        """As long as there is a cause: without writers it would be waited for in vain."""
        assert self.writers.failed == []
        return [operator.phase(run) for run in self.case.runs()] == ["Succeeded"]

    def is_even_now(self, took: float) -> None:
        def now() -> list[int]:
            return sent(self.case, self.topic, self.rate)

        wait_for("new leaders", lambda: now() != self.before, 60)
        after, mine = now(), [p for p in rows(self.case) if p.topic == self.topic]
        shape = self.case.kafka.shape
        print(f"{shape}: {self.before} bytes per second to brokers 0 to 2 became {after} in {took:.0f} s")
        assert max(self.before) > 2 * sum(self.before) / 3
        # Of four busy partitions some broker leads two.
        assert max(after) < 2 * self.rate + PARTITIONS * CALM
        assert all(sorted(p.replicas) == sorted(p.isr) == [0, 1, 2] for p in mine)
        assert all(p.leader == p.replicas[0] for p in mine)


def test_busy_partitions_get_other_leaders(installed: None) -> None:
    """Side by side: the growth of logs is watched for ten minutes."""
    at_the_same_time(are_evened, PLACES)


def are_evened(place: tuple[Shape, int]) -> None:
    with skewed(place, "busy", BUSY, {}) as busy:
        busy.case.ask("rebalance-leaders")
        run = busy.case.wait("AwaitingApproval", 1500)
        print(f"\n{place[0]}: {run['status']['plan']['summary']}")
        assert operator.approve(run, "alice").returncode == 0
        began = time.monotonic()
        done = busy.case.wait("Succeeded", 300)
        busy.is_even_now(time.monotonic() - began)
        assert done["status"]["plan"]["reorderedForGood"] is True


def test_busy_partitions_get_other_leaders_without_a_person(installed: None) -> None:
    """From the cause to the cure. The finding takes half an hour of uneven traffic, and one cure is enough."""
    with proposed_after("10s", "rebalance-leaders"):
        at_the_same_time(are_evened_in_auto, PLACES)


def are_evened_in_auto(place: tuple[Shape, int]) -> None:
    with skewed(place, "busy-auto", OVERWORKED, KEPT, remediation={"mode": "Auto"}, expectations=TWO_REPLICAS) as busy:
        case, began = busy.case, time.monotonic()
        wait_for("the cure", busy.all_cured, UNEVEN_FOR + 1200)
        busy.is_even_now(time.monotonic() - began)
        (run,) = case.runs()
        print(f"{place[0]}: {run['status']['plan']['summary']}")
        assert run["spec"]["playbook"]["name"] == "rebalance-leaders"
        assert run["status"]["approvedBy"] == "policy:Auto"
        assert not run["status"].get("approvals")
        assert {"LoadUneven", "RemediationProposed"} <= {reason for reason, _ in case.events()}
