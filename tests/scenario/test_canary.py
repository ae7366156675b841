"""The canary runs while its KafkaCluster asks for it, on its own topic alone, and only for who holds the Lease."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_medic.clients.failures import FailureKind, WriteFailed
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.controller.canary_topic import MARKER
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BASE, World
from tests.thorough import thorough

TOPIC = "kafka-medic-canary"
ENABLED = {"interval": "1s", "canary": {"enabled": True}}


@pytest.fixture
def world() -> Iterator[World]:
    kafka = SimKafka()
    kafka.topic("orders", [0, 1, 2], [1, 2, 0])
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    world = World(kafka)
    yield world
    assert world.reconciler is not None
    world.reconciler.close()


def running(world: World) -> bool:
    assert world.reconciler is not None
    return world.reconciler._canary._running is not None


def until(world: World, so: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while True:
        world.step()
        if so():
            return
        assert time.monotonic() < end, world.cluster()["status"]["conditions"]
        time.sleep(0.1)


def health(world: World) -> tuple[str, str]:
    found = world.condition("CanaryHealthy")
    return found["status"], found["message"]


def canary_writes(world: World) -> list[str]:
    return [w for w in world.kafka.writes if TOPIC in w]


def patch(world: World, **spec: Any) -> None:
    body = world.cluster()
    body["spec"].update(spec)
    world.api.put(f"{BASE}/namespaces/ns/kafkaclusters", body)


def leaders(world: World) -> list[int]:
    return [p.leader for tp, p in sorted(world.kafka.partitions.items()) if tp.topic == TOPIC]


def test_no_topic_and_no_records_unless_the_spec_enables_it(world: World) -> None:
    world.install()
    for _ in range(5):
        world.step()
    assert world.kafka.writes == []
    assert health(world) == ("Unknown", "canary is not read")
    assert world.condition("Ready")["status"] == "True"
    assert not running(world)


def test_the_topic_is_created_with_records_through_each_broker(world: World) -> None:
    world.install(probes=ENABLED)
    world.step()
    assert canary_writes(world) == [f"create {TOPIC}"]
    assert (
        "CanaryTopic",
        f"made topic {TOPIC} for the canary, one partition for each of 3 brokers",
    ) in world.api.events
    until(world, lambda: health(world)[0] == "True")
    assert leaders(world) == [0, 1, 2]
    assert {k[2]: v for k, v in world.kafka.dynamic.items() if k[1] == TOPIC} == {**MARKER, "min.insync.replicas": "2"}
    for _ in range(10):
        world.step()
    assert len(canary_writes(world)) == 1
    assert world.runs() == []


def test_a_topic_of_a_user_is_not_the_canarys(world: World) -> None:
    """The canary's topic exists and the operator did not create it. The operator changes nothing; a condition reports
    it."""
    world.kafka.topic(TOPIC, [0, 1, 2])
    world.kafka.dynamic["TOPIC", TOPIC, "min.insync.replicas"] = "2"
    world.install(probes=ENABLED)
    for _ in range(10):
        world.step(60)
    assert world.kafka.writes == []
    assert not running(world)
    status, message = health(world)
    assert status == "Unknown"
    assert f"topic {TOPIC} exists but was not made by kafka-medic" in message
    assert "spec.probes.canary.topic" in message
    assert world.condition("Ready")["status"] == "Unknown", "it was asked for and cannot be told"


def test_the_canary_follows_the_spec(world: World) -> None:
    world.install(probes=ENABLED)
    until(world, lambda: running(world))
    assert world.reconciler is not None
    first = world.reconciler._canary._running
    world.step()
    assert world.reconciler._canary._running is first
    patch(world, probes={"interval": "1s", "timeout": "3s", "canary": {"enabled": True}})
    until(world, lambda: world.reconciler is not None and world.reconciler._canary._running is not first)
    assert first is not None
    assert first[1]._thread is not None
    assert not first[1]._thread.is_alive(), "a changed connection ends the old clients"
    patch(world, probes={"interval": "1s", "canary": {"enabled": False}})
    world.step()
    assert not running(world)
    world.step()
    assert health(world)[0] == "Unknown"


def test_without_the_lease_nothing_is_sent(world: World) -> None:
    world.install(probes=ENABLED)
    until(world, lambda: running(world))
    lease = next(o for path, o in world.api.objects.items() if "/leases/" in path)
    lease["spec"]["holderIdentity"] = "another"
    world.step()
    assert not running(world)

    before = len(world.kafka.writes)
    world.kafka.delete(TOPIC)
    world.step()
    assert len(world.kafka.writes) == before


def test_leaders_are_elected_back_after_a_while(
    world: World,
) -> None:
    """Leaders of the canary's topic that moved for a restart move back by themselves. Those that do not are elected."""
    world.install(probes=ENABLED)
    until(world, lambda: running(world))
    world.kafka.stop(1)
    world.step()
    assert leaders(world) == [0, 0, 2]
    for _ in range(10):
        world.step(60)
    assert canary_writes(world) == [f"create {TOPIC}"], "a broker is down"
    world.kafka.start(1)
    world.kafka.tick()
    world.step(15)
    world.step(15)
    assert len(canary_writes(world)) == 1, "not at once"
    for _ in range(6):
        world.step(15)
    assert canary_writes(world)[1:] == [f"elect ['{TOPIC}-1']"]
    assert leaders(world) == [0, 1, 2]


def test_a_new_broker_leads_a_partition_of_its_own(world: World) -> None:
    world.install(probes=ENABLED)
    until(world, lambda: running(world))
    world.kafka.installed(3, "d")
    world.kafka.start(3)
    for _ in range(8):
        world.step(15)
    assert canary_writes(world)[1:] == [f"partitions {TOPIC} 4"]
    assert leaders(world) == [0, 1, 2, 3]
    assert [f for f in world.cluster()["status"]["findings"] if f["type"] == "ForeignReassignment"] == []


@pytest.mark.parametrize("why", ["paused", "reassignment", "run"])
def test_the_topic_is_left_alone_while_a_run_acts(world: World, why: str) -> None:
    world.install(probes=ENABLED, remediation={"paused": why == "paused"})
    if why == "reassignment":
        world.kafka.topic("theirs", [0])
        world.kafka.copies_per_tick = 0
        world.kafka.alter_reassignments({TopicPartition("theirs", 0): [0, 1]})
        world.kafka.writes.clear()
    if why == "run":
        world.kafka.topic("payments", [0])
        world.kafka.copies_per_tick = 0
        world.kafka.dynamic = {k: v for k, v in world.kafka.dynamic.items() if k[1] != TOPIC}
        patch(world, probes={})
        run = world.until_phase("AwaitingApproval")
        world.approve(run)
        world.until_phase("Running")
        patch(world, probes=ENABLED)
    for _ in range(8):
        world.step(15)
    assert canary_writes(world) == []
    assert "cannot be made yet" in health(world)[1]
    assert health(world)[0] == "Unknown"


def test_a_refused_topic_is_retried_with_backoff(world: World) -> None:
    """Kafka refuses to create the canary's topic. The operator reports that once and retries after growing pauses."""
    tries: list[float] = []

    def refuse(topic: Any) -> None:
        tries.append(world.now.timestamp())
        raise WriteFailed(FailureKind.AUTHORIZATION, "create topic: not allowed")

    world.kafka.create_topic = refuse  # type: ignore[method-assign]
    world.install(probes=ENABLED)
    for _ in range(50):
        world.step(20)
    pauses = [b - a for a, b in itertools.pairwise(tries)]
    assert pauses == sorted(pauses)
    assert pauses[-1] >= 256
    assert len([e for e in world.api.events if e[0] == "CanaryTopicFailed"]) == 1
    assert "not allowed" in health(world)[1]


def test_an_internal_fault_ends_no_reconcile(world: World) -> None:
    def fault(topic: Any) -> None:
        raise ValueError("a bug")

    world.kafka.create_topic = fault  # type: ignore[method-assign]
    world.install(probes=ENABLED)
    world.step()
    world.step()
    assert health(world) == ("Unknown", "canary: Error: internal fault: ValueError; see the operator's log")
    assert world.condition("Replicated")["status"] == "True"


@thorough
def test_the_canary_runs_while_the_cluster_is_unreachable(world: World) -> None:
    """The canary continues while the cluster is unreachable, and nothing is reported twice."""
    world.install(probes=ENABLED)
    until(world, lambda: health(world)[0] == "True")
    assert world.reconciler is not None
    before = world.reconciler._canary._running
    world.kafka.reachable = False
    for _ in range(20):
        world.step(15)
    assert world.reconciler._canary._running is before
    kinds = {f["type"] for f in world.cluster()["status"]["findings"]}
    assert kinds & {"ClusterUnreachable", "OperatorIsolated"}
    assert "CanaryFailing" not in kinds
    assert health(world)[0] == "Unknown", "nothing is known of single brokers, least of all that they are well"
    world.kafka.reachable = True
    until(world, lambda: health(world)[0] == "True")
    assert len(canary_writes(world)) == 1
