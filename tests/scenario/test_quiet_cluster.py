"""A quiet KafkaCluster costs the API server few requests: an operator watches hundreds, several times a minute each."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.admission import REQUIRED_POLICIES
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World

READS_AND_WRITES = {"get", "list", "create", "replace", "merge"}


class Counted:
    def __init__(self, inner: Any, sent: list[str]) -> None:
        self._inner, self._sent = inner, sent

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in READS_AND_WRITES:
            return found

        def call(path: str, *rest: Any) -> Any:
            self._sent.append(f"{name} {path.partition('/namespaces/ns/')[2] or path}")
            return found(path, *rest)

        return call


def watched() -> tuple[World, list[str]]:
    kafka = SimKafka()
    kafka.topic("orders", [1, 0, 2], [2, 1, 0])
    world, sent = World(kafka), list[str]()
    world.install()
    world.wrap_api = lambda api: Counted(api, sent)
    for _ in range(2):
        world.step()
    sent.clear()
    return world, sent


LOOK, STATUS = ["get kafkaclusters/c", "list remediations"], ["replace kafkaclusters/c/status"]
LEASE = ["get leases/kafka-medic-c", "replace leases/kafka-medic-c"]


def test_requests_of_a_quiet_reconcile() -> None:
    """A quiet reconcile reads the KafkaCluster and lists its runs; it seldom writes the status."""
    world, sent = watched()
    world.step(5.0)
    assert sorted(sent) == sorted([*LOOK, *LEASE])
    sent.clear()
    world.step()
    assert sorted(sent) == sorted(LOOK), "the Lease was renewed 5 s ago"
    sent.clear()
    for _ in range(10):
        world.step()
    assert 3 <= sent.count(*STATUS) <= 5, "in 150 s"


def test_settings_are_read_once_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Settings and log directories are read once a minute, and at once when anything changes."""
    world, _ = watched()
    asked: list[str] = []

    def noted(name: str) -> None:
        usual = getattr(world.kafka, name)
        monkeypatch.setattr(world.kafka, name, lambda *how: asked.append(name) or usual(*how))

    noted("topic_configs")
    noted("log_dirs")
    for _ in range(8):
        world.step()
    assert 1 <= asked.count("log_dirs") == asked.count("topic_configs") <= 3, "in 120 s"
    world.step()
    asked.clear()
    world.kafka.partitions[TopicPartition("orders", 0)].elect(0)
    world.step()
    assert sorted(asked) == ["log_dirs", "topic_configs"]
    asked.clear()
    world.step()
    assert asked == []
    world.kafka.topic("thin", [1])
    world.until_phase("AwaitingApproval")
    asked.clear()
    world.step()
    assert asked, "a run is open"


def test_policies_are_read_once_a_minute() -> None:
    """Policies are read again after a minute, and playbooks once there is a finding."""
    world, sent = watched()
    for _ in range(5):
        world.step()
    assert sum("admissionregistration" in request for request in sent) == 2 * len(REQUIRED_POLICIES), "once in 75 s"
    assert not any("playbooks" in request for request in sent)
    sent.clear()
    world.kafka.stop(1)
    world.step()
    assert any("playbooks" in request for request in sent)


def test_with_a_run_policies_are_read_in_each_reconcile() -> None:
    world, sent = watched()
    world.kafka.topic("thin", [1])
    world.until_phase("AwaitingApproval")
    sent.clear()
    world.step()
    assert sum("admissionregistration" in request for request in sent) >= 2 * len(REQUIRED_POLICIES)
