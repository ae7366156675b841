"""Right before an effect everything is read once more: what changed since the reconcile began is not written over."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.clients.ports import BrokerView, PartitionState
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BROKERS, World, factor_one_cluster
from tests.thorough import only


class Meddled:
    """An API server that lets somebody act on Kafka in the moment after an intent was written down."""

    def __init__(self, inner: Any, journal_id: str, meddle: Any) -> None:
        self.inner, self.journal_id, self.meddle = inner, journal_id, meddle

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def replace(self, path: str, body: Any) -> Any:
        answer = self.inner.replace(path, body)
        journal = (body.get("status") or {}).get("journal") or []
        if self.meddle and any(e["id"] == self.journal_id for e in journal):
            self.meddle()
            self.meddle = None
        return answer


def test_a_new_foreign_reassignment_is_left_alone() -> None:
    """Somebody starts a reassignment right before the effect. The operator does not overwrite it."""
    world = World(factor_one_cluster())
    world.install()
    theirs = TopicPartition("payments", 0)
    moment: dict[str, Any] = {}

    def start() -> None:
        world.kafka.copies_per_tick = 0
        world.kafka.alter_reassignments({theirs: [0, 1]})
        moment["writes"] = len(world.kafka.writes)

    world.wrap_api = lambda api: Meddled(api, "add-replicas/wave-0", start)
    world.operator()
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: "writes" in moment)
    for _ in range(3):
        world.step()
    assert world.kafka.partitions[theirs].replicas == [0, 1]
    assert not any("reassign" in w for w in world.kafka.writes[moment["writes"] :]), "ours is not sent over theirs"
    assert not any("cancel" in w for w in world.kafka.writes)


def test_a_mode_set_back_right_before_holds_the_effect() -> None:
    world = World(factor_one_cluster())
    world.install()
    fired: list[bool] = []

    def observe_only() -> None:
        body = world.cluster()
        body["spec"]["remediation"] = {"mode": "Observe"}
        world.put("kafkaclusters", body)
        fired.append(True)

    world.wrap_api = lambda api: Meddled(api, "add-replicas/throttle", observe_only)
    world.operator()
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: bool(fired))
    for _ in range(3):
        world.step()
    assert world.kafka.writes == []


def test_a_lease_lost_between_requests_stops_them() -> None:
    world = World(factor_one_cluster())
    world.install()
    lease = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/kafka-medic-c"
    send = world.kafka.alter_configs

    def stolen(changes: Any, may_send: Any) -> None:
        def and_then() -> bool:
            answer = bool(may_send())
            world.api.objects[lease]["spec"]["holderIdentity"] = "another"
            return answer

        send(changes, and_then)

    world.kafka.alter_configs = stolen  # type: ignore[method-assign]
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: bool(world.kafka.writes))
    assert {key[0] for key in world.kafka.dynamic} == {"TOPIC"}, "the first request, and no other"
    assert any(reason == "EffectFailed" and "stopped after 1" in why for reason, why in world.api.events)


class Meanwhile:
    """Something happens while the other KafkaClusters are listed: after the Lease was renewed, right before an effect
    whose intent is written down already."""

    def __init__(self, inner: Any, happens: Callable[[], None]) -> None:
        self.inner, self.happens, self.written = inner, happens, False
        self.listed = False
        self.renewing: Callable[[], None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def replace(self, path: str, body: Any) -> Any:
        if "/remediations/" in path:
            self.written = any(e["state"] == "Intended" for e in body["status"].get("journal") or ())
        return self.inner.replace(path, body)

    def get(self, path: str, query: Any = None) -> Any:
        if self.renewing is not None and self.listed and "/leases/" in path:
            self.renewing()
        return self.inner.get(path, query)

    def list(self, path: str, query: Any = None) -> Any:
        self.listed = self.written and path.endswith("/kafkaclusters")
        if self.written and path.endswith("/kafkaclusters"):
            self.written = False
            self.happens()
        return self.inner.list(path, query)


@pytest.mark.parametrize("before", only([2], ["throttle", "reassignment", "eviction"]))
def test_nothing_is_sent_after_the_lease_is_lost(before: str) -> None:
    world, wanted = _about_to(before)
    lease = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/kafka-medic-c"

    def stolen() -> None:
        world.api.touch(lease)["spec"]["holderIdentity"] = "another"

    world.wrap_api = lambda api: Meanwhile(api, stolen)
    world.operator()
    sent = wanted()
    for _ in range(6):
        world.step(2.0)
    assert world.api.objects[lease]["spec"]["holderIdentity"] == "another"
    assert wanted() == sent


@pytest.mark.parametrize("before", only([2], ["throttle", "reassignment", "eviction"]))
def test_rules_changed_during_the_last_read_count(before: str) -> None:
    world, wanted = _about_to(before)
    paused: list[int] = []

    def pause() -> None:
        if not paused:
            body = world.cluster()
            body["spec"]["remediation"]["paused"] = True
            world.put("kafkaclusters", body)
            paused.append(wanted())

    api = Meanwhile(world.api, lambda: None)
    world.wrap_api, world.wrap_kafka = lambda _: api, lambda kafka: Looked(kafka, api, pause)
    world.operator()
    for _ in range(6):
        with suppress(ApiFailure):  # the reconcile's status write loses to the person's, and is taken again
            world.step(2.0)
    assert paused == [wanted()]


@pytest.mark.parametrize("before", only([2], ["throttle", "reassignment", "eviction"]))
def test_reads_older_than_a_long_pause_are_repeated(before: str) -> None:
    """The process stands still right before it renews the Lease for the last time, and nobody else takes it."""
    world, wanted = _about_to(before)
    paused: list[int] = []

    def pause() -> None:
        if not paused:
            world.now += timedelta(seconds=31)
            world.api.approvers.clear()
            paused.append(wanted())

    api = Meanwhile(world.api, lambda: None)
    api.renewing = pause
    world.wrap_api = lambda _: api
    world.operator()
    for _ in range(6):
        world.step(2.0)
    assert paused == [wanted()]


class Looked:
    """Something happens while Kafka is looked at once more before an effect."""

    def __init__(self, inner: SimKafka, api: Meanwhile, happens: Callable[[], None]) -> None:
        self.inner, self.api, self.happens = inner, api, happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def describe_cluster(self) -> Any:
        if self.api.written:
            self.happens()
        return self.inner.describe_cluster()


def _about_to(before: str) -> tuple[World, Callable[[], int]]:
    """A run whose next effect is that one, and how many of the kind were sent."""
    if before == "eviction":
        kafka = SimKafka()
        kafka.topic("orders", [0, 1, 2])
        world = World(kafka)
        world.install(brokers=BROKERS, remediation={"limits": {"cooldown": "0s"}})
        pods = world.with_pods()
        world.ask("rolling-restart")
        world.approve(world.until_phase("AwaitingApproval"))
        world.until_phase("Running")
        return world, lambda: len(pods.restarts)
    world = World(factor_one_cluster())
    world.install(remediation={"limits": {"cooldown": "0s"}})
    world.approve(world.until_phase("AwaitingApproval"))
    if before == "reassignment":
        world.until(lambda: bool(world.kafka.dynamic))
    else:
        world.until_phase("Running")
    return world, lambda: len(world.kafka.writes)


class Lagging(SimKafka):
    """Broker 0 has not heard of what brokers 1 and 2 know."""

    def views(self, brokers: Any) -> Any:
        answers = dict(super().views(brokers))
        current = answers[0]
        assert isinstance(current, BrokerView)
        rows = tuple(
            PartitionState(p.topic, p.partition, p.leader, 0, p.replicas, (0, 1, 2)) for p in current.partitions
        )
        answers[0] = BrokerView.of(0, current.members, None, rows)
        return answers

    def quorum(self) -> Any:
        raise ReadFailed(FailureKind.OTHER, "controllers of their own")


def test_a_broker_that_lags_does_not_speak_for_the_cluster() -> None:
    kafka = Lagging()
    kafka.topic("orders", [0, 1, 2])
    part = kafka.partitions[TopicPartition("orders", 0)]
    part.epoch, part.isr = 5, [1]
    (row,) = observe_cluster("c", ClusterReaders(kafka)).rows()
    assert (row.leader_epoch, row.isr) == (5, (1,))


def test_without_any_view_the_guards_answer_unknown() -> None:
    kafka = SimKafka()
    kafka.topic("orders", [0])
    kafka.views = lambda brokers: {b: ReadFailed(FailureKind.UNREACHABLE, "silent") for b in brokers}  # type: ignore[method-assign]
    snapshot = observe_cluster("c", ClusterReaders(kafka))
    assert {s.name for s in snapshot.sources if not s.known} >= {"views", "configs", "log-dirs", "log-ends"}
    assert snapshot.partitions is None
