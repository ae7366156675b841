"""A copy never fills a disk: a volume that fills up keeps its share, every other one a reserve, and a disk that cannot
be read has no room."""

from __future__ import annotations

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.remediation_plan import ReplicaMoves
from tests.scenario import test_relieve_disk as relieve
from tests.simulation.brokers import MIN_ISR
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BROKERS, NO_ELECTIONS, World

GB = 10**9
HOT = TopicPartition("hot", 0)
FILLS = 2


def world_of(racks: dict[int, str | None], *topics: tuple[str, list[int], int]) -> World:
    """Broker 2 has 1 TB, and `hot` grows on it; every other broker has 10 TB."""
    kafka = SimKafka(racks=racks)
    kafka.volumes = dict.fromkeys(racks, (10_000 * GB,)) | {FILLS: (1000 * GB,)}
    for name, replicas, size in topics:
        kafka.topic(name, replicas, size=size * GB)
        kafka.dynamic["TOPIC", name, MIN_ISR] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=NO_ELECTIONS)
    world.with_pods()
    while not any(f["id"] == "DiskFilling/broker-2" for f in (world.cluster().get("status") or {}).get("findings", [])):
        grow(world)
    return world


def grow(world: World, seconds: float = 225.0) -> None:
    world.step(seconds)
    world.kafka.partitions[HOT].size += int(10 * GB * seconds / 225)


def free(world: World) -> int:
    parts = world.kafka.partitions.values()
    return 1000 - sum(p.size for p in parts if FILLS in p.replicas and world.kafka.has_copied(FILLS, p)) // GB


def carried_through(world: World, playbook: str, **parameters: str) -> tuple[int, str]:
    """What is free on the volume once the copy is done, which takes as long as its throttle says; and the plan."""
    world.kafka.copies_per_tick = 0
    world.ask(playbook, **parameters)
    for _ in range(15):
        run = world.run()
        if run.status.phase == "AwaitingApproval" and not run.status.approvals:
            world.approve(run)
        grow(world, 5.0)
    if any(w.startswith("reassign") for w in world.kafka.writes):
        for _ in range(17):
            grow(world)  # 190 GB at 50 MB/s
        world.kafka.copies_per_tick = 2
        grow(world, 5.0)
    plan = world.run().status.plan
    return free(world), "" if plan is None else plan.summary


def test_a_disk_that_cannot_be_read_any_more_is_no_disk_with_room() -> None:
    kafka = SimKafka(racks=dict.fromkeys(range(4)))
    kafka.volumes = dict.fromkeys(range(4), (1000 * GB,))
    kafka.topic("orders", [3, 1, 2], size=300 * GB)
    kafka.topic("big", [0, 1, 2], size=300 * GB)
    for topic in ("orders", "big"):
        kafka.dynamic["TOPIC", topic, MIN_ISR] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=NO_ELECTIONS)
    world.with_pods()
    world.ask("evacuate-broker", brokers="3")
    run = world.until_phase("AwaitingApproval")
    kafka.partitions[TopicPartition("big", 0)].size = 900 * GB
    for _ in range(3):
        world.step(60)
    kafka.unreadable.add("log-dirs")
    world.approve(run)
    for _ in range(8):
        world.step()
    assert not any(w.startswith("reassign") for w in kafka.writes), "300 GB for a broker with 100 GB free"
    assert "DiskHasRoom" in {w.guard for w in world.run().status.waiting_for}


def test_spread_racks_does_not_fill_up_a_volume_that_fills() -> None:
    racks: dict[int, str | None] = {0: "a", 1: "b", 2: "c", 3: "a", 4: "b"}
    world = world_of(racks, ("hot", [2, 0, 1], 660), ("log", [0, 1, 3], 190))
    left, plan = carried_through(world, "spread-racks")
    assert left > 0 or "DiskFilling" in plan, plan


def test_five_percent_of_a_volume_stay_free_after_a_plan() -> None:
    """Of a volume that nothing is known to fill."""
    kafka = SimKafka(racks=dict.fromkeys(range(4)))
    kafka.volumes = dict.fromkeys(range(4), (10_000 * GB,)) | {FILLS: (1000 * GB,)}
    kafka.topic("log", [3, 0, 1], size=190 * GB)
    kafka.topic("large", [FILLS, 0, 1], size=770 * GB)
    for topic in ("log", "large"):
        kafka.dynamic["TOPIC", topic, MIN_ISR] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=NO_ELECTIONS)
    world.with_pods()
    world.ask("evacuate-broker", brokers="3")
    for _ in range(4):
        world.step()
    run = world.run()
    assert run.status.phase == "Planning", "190 of the 230 GB that are free"
    assert "room" in (run.status.message or ""), run.status.message


@pytest.mark.parametrize("playbook", ["replace-broker", "evacuate-broker"])
def test_no_broker_is_filled_to_the_brim_while_another_of_its_rack_has_room(playbook: str) -> None:
    """Broker 4 has 9 TB free."""
    racks: dict[int, str | None] = {0: "a", 1: "b", 2: "c", 3: "c", 4: "c"}
    world = world_of(racks, ("hot", [2, 0, 1], 660), ("log", [3, 0, 1], 190), ("more", [4, 0, 1], 1000))
    if playbook == "replace-broker":
        world.kafka.stop(3)
        assert world.pods is not None
        world.pods._put(3, ready=False, keep=True)
    left, plan = carried_through(world, playbook, brokers="3")
    assert left > 0, plan


def test_factors_are_not_raised_onto_a_volume_that_fills() -> None:
    world = relieve.filling(racks=dict.fromkeys(range(6)))
    for n in range(12):
        world.kafka.topic(f"some{n}", [1 + n % 5, 1 + (n + 1) % 5, 1 + (n + 2) % 5], size=GB)
        world.kafka.dynamic["TOPIC", f"some{n}", MIN_ISR] = "2"
    run = relieve.proposed(world)
    world.approve(run)
    for _ in range(80):
        relieve.grow(world, seconds=5.0)
        if {r.name: r.status.phase for r in world.runs()}[run.name] == "Succeeded":
            break
    for n in range(2):
        world.kafka.topic(f"low{n}", [1 + n, 2 + n], size=90 * GB)
        world.kafka.dynamic["TOPIC", f"low{n}", MIN_ISR] = "1"
    world.ask("raise-replication-factor")
    for _ in range(4):
        relieve.grow(world, seconds=5.0)
    (low,) = [r for r in world.runs() if r.spec.playbook.name == "raise-replication-factor" and r.spec.requested_by]
    assert low.status.plan is not None, low.status.message
    onto = [c.topic for c in low.status.plan.part(ReplicaMoves).changes if 0 in c.replicas]
    assert not onto, low.status.plan.summary
