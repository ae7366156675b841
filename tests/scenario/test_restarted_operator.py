"""What the operator remembers outlives it, in the KafkaCluster's status."""

from __future__ import annotations

from typing import Any

from kafka_medic.cluster.snapshot import TopicPartition
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World

ORDERS = TopicPartition("orders", 0)
EXPECTED = {"expectations": {"replicationFactor": 3, "minInSyncReplicas": 1}}


def world(**probes: Any) -> World:
    kafka = SimKafka()
    kafka.topic("orders", [1, 0, 2])
    kafka.committed = {"billing": {ORDERS: 21}, "scratch-1": {ORDERS: 21}}
    found = World(kafka)
    found.install(**EXPECTED, probes=probes)
    return found


def finding(world: World, ident: str) -> dict[str, Any] | None:
    return next((f for f in world.cluster()["status"]["findings"] if f["id"] == ident), None)


def regress(world: World) -> None:
    part = world.kafka.partitions[ORDERS]
    world.step()
    part.end, part.epoch = 10, part.epoch + 1
    world.step()


def test_a_log_regression_outlives_the_operator():
    """A log end regression stays known after a restart of the operator and after writes that hide it."""
    it = world()
    regress(it)
    (kept,) = it.cluster()["status"]["logEndRegressions"]
    assert {k: v for k, v in kept.items() if k != "at"} == {
        "topic": "orders", "partition": 0, "before": 21, "after": 10, "epochBefore": 0, "epochAfter": 1,
        "groups": ["billing", "scratch-1"], "topicId": "id-1-orders",
    }  # fmt: skip
    it.operator()
    it.kafka.partitions[ORDERS].end = 500
    it.kafka.committed = {"billing": {ORDERS: 500}}
    it.step()
    told = finding(it, "LogEndRegressed/orders")
    assert told is not None
    assert "groups that had committed beyond it: billing" in " ".join(told["evidence"])
    assert it.condition("OffsetsConsistent")["reason"] == "LogEndRegressed"


def test_a_regression_is_forgotten_after_remember_for():
    it = world(rememberFor="1h")
    regress(it)
    it.step(3700)
    it.step()
    assert it.cluster()["status"].get("logEndRegressions", []) == []
    assert finding(it, "LogEndRegressed/orders") is None


def test_the_longest_leaderless_time_is_kept():
    """The longest time without a leader is kept in status, with the client setting that it implies."""
    it = world()
    part = it.kafka.partitions[ORDERS]
    it.step()
    assert "longestLeaderlessMs" not in it.cluster()["status"]
    part.leader, part.epoch = -1, 1
    it.step(60)
    it.step(60)
    it.operator()
    it.step(60)
    status = it.cluster()["status"]
    (now,) = status["leaderless"]
    assert (now["topic"], now["partition"], now["milliseconds"]) == ("orders", 0, 60_000)
    it.step(60)
    part.leader, part.epoch = 1, 2
    it.step()
    status = it.cluster()["status"]
    assert status["longestLeaderlessMs"] == 180_000, "the time while no operator looked is not counted"
    assert status["impliedDefaultApiTimeoutMs"] == 270_000
    assert status["longestLeaderless"][0]["topic"] == "orders"
    assert status.get("leaderless", []) == []


def test_only_selected_groups_are_read():
    it = world(consumerGroups={"include": ["scratch-.*", "b.*"], "exclude": ["scratch-.*"]})
    it.kafka.committed = {g: {ORDERS: 99} for g in ("billing", "scratch-1", "audit")}
    it.step()
    beyond = [f["id"] for f in it.cluster()["status"]["findings"] if f["type"] == "OffsetBeyondLogEnd"]
    assert beyond == ["OffsetBeyondLogEnd/billing"]


class Counted(SimKafka):
    """How many brokers told their whole view in the last look."""

    whole: int = 0

    def views(self, brokers: Any) -> Any:
        self.whole += len(brokers)
        return super().views(brokers)


def many(**topic: Any) -> World:
    kafka = Counted(racks=dict.fromkeys(range(9)))
    kafka.topic("orders", [1, 0, 2])
    found = World(kafka)
    found.install(**{**EXPECTED, **topic}, probes={"fullViews": 2})
    return found


def looked(it: World) -> int:
    it.kafka.whole = 0  # type: ignore[attr-defined]
    it.step()
    return it.kafka.whole  # type: ignore[attr-defined,no-any-return]


def test_all_brokers_report_views_while_a_run_acts():
    """Of many brokers a few report their whole view, and all of them while a run acts."""
    it = many()
    assert looked(it) == 2
    it.kafka.topic("payments", [0])
    it.step()
    run = it.until_phase("AwaitingApproval")
    assert looked(it) == 2, "a plan that waits for a person is no reason to read more"
    it.approve(run)
    it.until_phase("Running")
    assert looked(it) >= 9


def test_all_brokers_report_views_during_a_finding():
    """All brokers report their whole view until a finding about a broker is gone."""
    it = many()
    it.step()
    it.kafka.stop(8)
    it.step()
    assert finding(it, "BrokerDown/broker-8") is None, "it leaves nothing behind that names it"
    it.kafka.topic("late", [8, 1])
    it.kafka.stop(8)
    it.step()
    assert finding(it, "BrokerDown/broker-8") is not None
    assert looked(it) == 8
