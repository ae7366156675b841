"""A log directory that has failed: others get a replica in place of each one on it, and the broker keeps the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from kafka_medic.clients.answers import LogDirs
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.remediation_plan import ReplicaMoves
from tests.scenario.four_brokers import LAST, QUIET, four_brokers, held, throttles
from tests.simulation.brokers import MIN_ISR
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BROKERS, World

ORDERS = [TopicPartition("orders", n) for n in range(3)]


@pytest.fixture
def world() -> World:
    return four_brokers()


def silent_disks(world: World) -> None:
    """The broker answers everything but DescribeLogDirs."""
    real = world.kafka.log_dirs

    def answer(brokers: Sequence[int]) -> Mapping[int, LogDirs | ReadFailed]:
        return {**real(brokers), LAST: ReadFailed(FailureKind.OTHER, "timed out")}

    world.kafka.log_dirs = answer  # type: ignore[method-assign]


def told_again(world: World) -> None:
    del world.kafka.log_dirs


@pytest.mark.parametrize("zookeeper", [False, True])
def test_what_is_on_the_failed_directory_gets_another_broker_and_nothing_else_moves(zookeeper: bool) -> None:
    world = four_brokers(zookeeper=zookeeper)
    world.kafka.disk_fails(LAST, {ORDERS[0], TopicPartition("__consumer_offsets", 0)})
    world.until(lambda: any(r.spec.playbook.name == "restore-log-dir" for r in world.runs()), reconciles=200)
    run = world.until_phase("AwaitingApproval")
    assert run.spec.playbook.name == "restore-log-dir"
    plan = run.status.plan
    assert plan is not None
    assert plan.part(ReplicaMoves).replaced_brokers == (LAST,)
    assert plan.moves == plan.part(ReplicaMoves).lower_bound_moves == 2
    assert "2 partitions of 2 topics" in plan.summary
    assert "on the failed log directory of broker 3" in plan.summary
    assert world.kafka.writes == []
    world.approve(run)
    world.until_phase("Succeeded")
    assert held(world) == ["orders-1"], "it is on the other directory"
    assert all(len(p.replicas) == len(p.isr) == 3 for p in world.kafka.partitions.values())
    assert throttles(world) == []


def test_a_directory_that_comes_back_meanwhile_ends_the_run(world: World) -> None:
    """With its records: the replica needs less data than a copy."""
    world.kafka.disk_fails(LAST, {ORDERS[0], ORDERS[1]})
    world.ask("restore-log-dir", brokers="3")
    world.kafka.copies_per_tick = 0
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: any(p.adding for p in world.kafka.partitions.values()))
    world.kafka.disk_replaced(LAST)
    ended = world.until_phase("Superseded")
    assert "broker 3 is back" in ended.status.message
    world.kafka.copies_per_tick = 2
    world.until(lambda: all(len(p.isr) == 3 for p in world.kafka.partitions.values()))
    assert held(world) == ["__consumer_offsets-0", "orders-0", "orders-1"]
    assert throttles(world) == []


def test_what_is_in_sync_on_the_failed_directory_alone_is_left_out_and_named(world: World) -> None:
    world.kafka.topic("scratch", [3])
    world.kafka.dynamic["TOPIC", "scratch", MIN_ISR] = "1"
    world.api.touch("/apis/kafkamedic.dev/v1alpha1/namespaces/ns/kafkaclusters/c")["spec"]["expectations"] = {
        "topics": [{"pattern": "scratch", "exempt": True}]
    }
    world.kafka.disk_fails(LAST, {TopicPartition("scratch", 0), ORDERS[0]})
    world.ask("restore-log-dir", brokers="3")
    run = world.until_phase("AwaitingApproval")
    assert run.status.plan is not None
    assert "no other broker has them in sync: scratch-0" in run.status.plan.summary
    world.approve(run)
    world.until_phase("Succeeded")
    assert held(world) == ["__consumer_offsets-0", "orders-1", "scratch-0"]
    assert world.kafka.partitions[TopicPartition("scratch", 0)].isr == [3]


@pytest.mark.parametrize("zookeeper", [False, True])
def test_a_copy_that_takes_long_is_no_directory_that_is_back(zookeeper: bool) -> None:
    """What the reassignment removes is not known to be on the failed directory, since it may be missing for that."""
    world = four_brokers(zookeeper=zookeeper)
    world.kafka.disk_fails(LAST, {ORDERS[0], ORDERS[1], TopicPartition("__consumer_offsets", 0)})
    world.ask("restore-log-dir", brokers="3", waveBytesPerBroker="5000000")
    world.kafka.copies_per_tick = 0
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: any(p.adding for p in world.kafka.partitions.values()))
    for _ in range(20):
        world.step()
    assert any(p.adding for p in world.kafka.partitions.values())
    assert "copying" in str(world.run().status.message)
    world.kafka.copies_per_tick = 2
    world.until_phase("Succeeded")
    assert held(world) == []


def test_directories_that_could_not_be_read_are_not_back(world: World) -> None:
    """The copies go on, and no approval is lost."""
    world.kafka.disk_fails(LAST, {ORDERS[0], ORDERS[1]})
    world.ask("restore-log-dir", brokers="3")
    run = world.until_phase("AwaitingApproval")
    assert run.status.plan is not None
    silent_disks(world)
    for _ in range(8):
        world.step()
    assert world.run().status.plan == run.status.plan
    told_again(world)
    world.kafka.copies_per_tick = 0
    world.approve(run)
    world.until(lambda: any(p.adding for p in world.kafka.partitions.values()))
    silent_disks(world)
    for _ in range(8):
        world.step()
    assert any(p.adding for p in world.kafka.partitions.values())
    assert "is back" not in str(world.run().status.message)
    world.kafka.copies_per_tick = 2
    world.until_phase("Succeeded")
    assert held(world) == ["__consumer_offsets-0"]


def test_a_broker_whose_directories_are_well_has_nothing_to_restore(world: World) -> None:
    world.ask("restore-log-dir", brokers="3")
    for _ in range(5):
        world.step()
    (run,) = world.runs()
    assert run.status.phase == "Superseded"
    assert "broker 3 has no replica on a failed log directory" in run.status.message
    assert world.kafka.writes == []


def test_nothing_is_replaced_that_the_broker_still_serves(world: World) -> None:
    """The directory is back between approval and effect: the guard asks the broker itself."""
    world.kafka.disk_fails(LAST, {ORDERS[0]})
    world.ask("restore-log-dir", brokers="3")
    run = world.until_phase("AwaitingApproval")
    world.kafka.disk_replaced(LAST)
    world.approve(run)
    for _ in range(20):
        world.step()
    assert not any(w.startswith("reassign") for w in world.kafka.writes)
    assert world.run().status.phase == "Superseded"


def test_a_broker_that_goes_down_with_its_disk_is_waited_for_by_nobody_else(world: World) -> None:
    """It is not needed for the copies: they go on, and what it held besides is the matter of replace-broker."""
    world.kafka.disk_fails(LAST, {ORDERS[0]})
    world.ask("restore-log-dir", brokers="3")
    run = world.until_phase("AwaitingApproval")
    world.kafka.copies_per_tick = 0
    world.approve(run)
    world.until(lambda: any(p.adding for p in world.kafka.partitions.values()))
    world.kafka.stop(LAST)
    world.kafka.copies_per_tick = 2
    world.until_phase("Succeeded")
    assert held(world) == ["__consumer_offsets-0", "orders-1"]


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("9", "broker 9 is not part of the cluster"),
        ("1,3", "broker 1 has orders-0, orders-1 on a log directory that works: ask for one broker at a time"),
    ],
)
def test_a_request_that_could_only_wait_ends(world: World, named: str, why: str) -> None:
    world.kafka.disk_fails(LAST, {ORDERS[0], ORDERS[1]})
    world.ask("restore-log-dir", brokers=named)
    for _ in range(5):
        world.step()
    assert world.run().status.phase == "Failed"
    assert why in str(world.run().status.message)


def test_a_partition_that_every_broker_holds_does_not_keep_the_rest_of_its_topic() -> None:
    kafka = SimKafka(racks=dict.fromkeys(range(4)))
    kafka.topic("wide", [3, 1, 2, 0], [3, 1, 2])
    kafka.dynamic["TOPIC", "wide", MIN_ISR] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=QUIET)
    world.with_pods()
    kafka.disk_fails(LAST, set(kafka.partitions))
    world.ask("restore-log-dir", brokers="3")
    run = world.until_phase("AwaitingApproval")
    assert run.status.plan is not None
    assert "every broker that is up holds a replica already: wide-0" in run.status.plan.summary
    world.approve(run)
    world.until_phase("Succeeded")
    assert held(world) == ["wide-0"]
    for _ in range(60):
        world.step(60)
    assert len(world.runs()) == 1
