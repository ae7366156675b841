"""Right before an effect everything is read once more: what changed since the turn began is not written over."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.clients.ports import BrokerView, FailureKind, PartitionState, ReadFailed
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World, factor_one_cluster


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


def test_a_reassignment_that_somebody_starts_in_that_moment_is_not_written_over() -> None:
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


def test_a_mode_that_is_set_back_in_that_moment_holds_the_effect() -> None:
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
    with pytest.raises(ApiFailure) as raised:  # the turn's status write loses to the edit, and is taken again
        world.until(lambda: bool(fired))
    assert raised.value.conflict
    for _ in range(3):
        world.step()
    assert world.kafka.writes == []


def test_a_lease_that_is_taken_while_requests_are_sent_ends_them() -> None:
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


def test_no_view_at_all_leaves_what_hangs_on_it_unknown() -> None:
    kafka = SimKafka()
    kafka.topic("orders", [0])
    kafka.views = lambda brokers: {b: ReadFailed(FailureKind.UNREACHABLE, "silent") for b in brokers}  # type: ignore[method-assign]
    snapshot = observe_cluster("c", ClusterReaders(kafka))
    assert {s.name for s in snapshot.sources if not s.known} >= {"views", "configs", "log-dirs", "log-ends"}
    assert snapshot.partitions is None
