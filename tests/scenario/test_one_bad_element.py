"""One failed disk, one topic that goes, one coordinator that is silent: through the operator's own reconciles."""

from __future__ import annotations

from typing import Any

from kafka_medic.clients.answers import Groups
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.remediation_plan import OffsetChanges
from tests.scenario.offset_worlds import ORDERS as FIRST
from tests.scenario.offset_worlds import asked_for, commit
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BROKERS, NO_ELECTIONS, World

ORDERS = [TopicPartition("orders", n) for n in range(3)]
REFUSED = ReadFailed(FailureKind.UNREACHABLE, "simulated: no answer")


class Instead:
    """A SimKafka some of whose answers are others."""

    def __init__(self, kafka: SimKafka, **instead: Any) -> None:
        self._kafka, self._instead = kafka, instead

    def __getattr__(self, name: str) -> Any:
        return self._instead.get(name) or getattr(self._kafka, name)


def rolling(least: str = "1", **parameters: str) -> World:
    """Three brokers, and a run that restarts them."""
    kafka = SimKafka()
    kafka.topic("orders", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = least
    world = World(kafka)
    rules = {"limits": {"cooldown": "0s"}, **NO_ELECTIONS}
    world.install(brokers=BROKERS, remediation=rules, expectations={"minInSyncReplicas": 1})
    world.with_pods()
    world.ask("rolling-restart", **parameters)
    return world


def findings(world: World) -> dict[str, Any]:
    return {f["id"]: f for f in world.cluster()["status"]["findings"]}


def test_a_failed_disk_does_not_block_restarts():
    """A failed disk is reported, and every broker can still be restarted."""
    world = rolling()
    world.kafka.disk_fails(1, {ORDERS[0]})
    world.approve(world.until_phase("AwaitingApproval"))
    named = findings(world)["LogDirFailed/broker-1"]
    assert named["affected"] == ["broker-1", "/data/1", "orders-0"]
    assert named["severity"] == "Critical"
    assert world.condition("Replicated")["status"] == "False"

    def survives() -> None:
        assert len(world.pods.down()) <= 1
        assert all(p.leader >= 0 for p in world.kafka.partitions.values()), "nobody is without a leader by us"

    world.to_the_end(reconciles=250, meanwhile=survives)
    assert world.run().status.phase == "Succeeded", world.run().status.message
    assert sorted(world.pods.restarts) == [0, 1, 2], "the one with the failed disk as well"
    assert 1 not in world.kafka.partitions[ORDERS[0]].isr, "the disk is still the old one"


def test_a_failed_disk_blocks_its_last_replicas():
    """A failed disk blocks restarts that would leave one of its partitions too few replicas."""
    world = rolling(least="2")
    world.kafka.disk_fails(1, {ORDERS[0]})
    for _ in range(5):
        world.step()
    run = world.run()
    assert run.status.phase == "Planning"
    assert "orders-0 would have 1 in sync (required: 2)" in run.status.message
    assert world.pods.restarts == []


def test_the_roll_waits_for_a_replaced_disk():
    """Nothing is on a failed directory any more once there is none."""
    world = rolling(brokers="1")
    world.kafka.disk_fails(1, {ORDERS[0]})
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: world.pods.restarts == [1])
    world.kafka.failed_disk.clear()
    world.kafka.copies_per_tick = 0
    for _ in range(5):
        world.step()
    assert "not in the ISR of" in world.run().status.message
    world.kafka.copies_per_tick = 2
    world.to_the_end()
    assert 1 in world.kafka.partitions[ORDERS[0]].isr


def test_a_topic_deleted_in_mid_read_blocks_one_reconcile():
    """A topic is deleted while the operator reads it. Nothing waits for longer than that reconcile."""
    world = rolling()
    world.kafka.topic("tmp-123", [0, 1, 2])
    gone: list[str] = []

    def settings(topics, *rest):
        if "tmp-123" in topics:
            gone.append("tmp-123")
            world.kafka.delete("tmp-123")
        return world.kafka.topic_configs(topics, *rest)

    world.wrap_kafka = lambda kafka: Instead(kafka, topic_configs=settings)
    world.approve(world.until_phase("AwaitingApproval"))
    world.to_the_end(reconciles=250)
    assert gone
    assert world.run().status.phase == "Succeeded", world.run().status.message


def test_a_disk_failure_is_no_stuck_controller():
    """The disk of the last replica in sync fails. The controller is not reported as stuck."""
    world = World(SimKafka())
    world.kafka.topic("orders", [0, 1, 2], [1, 2, 0])
    world.kafka.partitions[ORDERS[0]].isr = [0]
    world.kafka.disk_fails(0, {ORDERS[0]})
    world.kafka.copies_per_tick = 0
    world.install(brokers=BROKERS)
    world.with_pods()
    for _ in range(8):
        world.step()
    assert {"PartitionLeaderless", "LogDirFailed/broker-0"} <= findings(world).keys()
    assert "ControllerStuck" not in findings(world)
    assert [r.spec.playbook.name for r in world.runs()] == []


def test_a_silent_coordinator_blocks_its_groups_alone():
    """A coordinator does not answer. Its group is left out, and the run continues with the others."""
    world = asked_for()
    commit(world.kafka, "shipping", {FIRST: Committed(40, 3)})
    silent = [True]

    def groups(wanted, brokers=None):
        found = world.kafka.groups(wanted, brokers)
        if not silent[0]:
            return found
        return Groups([g for g in found.offsets if g.group != "shipping"], {}, {2: REFUSED})

    world.wrap_kafka = lambda kafka: Instead(kafka, groups=groups)
    run = world.until_phase("AwaitingApproval")
    assert {c.group for c in run.status.plan.part(OffsetChanges).offsets} == {"billing"}
    assert "broker 2" in run.status.plan.summary
    world.approve(run)
    world.until_phase("Succeeded")
    assert world.kafka.committed["shipping"][FIRST] == 40
    assert world.kafka.committed["billing"][FIRST] != 32


def test_a_raise_waits_for_settings_to_restore():
    """A raise waits until it can read the settings that it has to restore."""
    kafka = SimKafka()
    kafka.topic("orders", [1], size=5_000_000)
    world = World(kafka)
    world.install()
    silent = [True]

    def settings(brokers, *rest):
        found = dict(world.kafka.broker_configs(brokers, *rest))
        return {**found, 1: REFUSED} if silent[0] else found

    world.wrap_kafka = lambda inner: Instead(inner, broker_configs=settings)
    for _ in range(5):
        world.step()
    run = world.run()
    assert run.status.phase == "Planning"
    assert "throttle settings of broker 1 could not be read" in run.status.message
    silent[0] = False
    world.approve(world.until_phase("AwaitingApproval"))
    world.until_phase("Succeeded")
