"""A broker whose metadata is stale, while something is to be given to it or a topic is made anew."""

from __future__ import annotations

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.remediation_plan import Restarts
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BROKERS, World

STALE = 2


def three_brokers(*topics: tuple[str, list[list[int]]]) -> tuple[SimKafka, World]:
    """With controllers apart, as is usual in production: no broker's view is the controller's own."""
    kafka = SimKafka(racks={0: "a", 1: "b", 2: "c"}, controllers={10, 11, 12}, voted=11)
    for name, replicas in topics:
        kafka.topic(name, *replicas)
        kafka.dynamic["TOPIC", name, "min.insync.replicas"] = "2"
    world = World(kafka)
    exempt = {"topics": [{"pattern": "kafka-medic.*", "exempt": True}]}
    world.install(brokers=BROKERS, remediation={"mode": "Approve", "limits": {"cooldown": "0s"}}, expectations=exempt)
    world.with_pods()
    return kafka, world


def miss_an_election(kafka: SimKafka, tp: TopicPartition, leader: int) -> None:
    """The stale broker keeps what it knew, and another one comes to lead a partition."""
    kafka.stale[STALE] = kafka.view()
    kafka.partitions[tp].elect(leader)


def given_to_the_stale_broker(kafka: SimKafka) -> list[TopicPartition]:
    """What it leads by the controller's word, and does not know of."""
    if STALE not in kafka.stale:
        return []
    own = {(r["topic"], r["partition"]) for r in kafka.stale[STALE].states.to_pylist() if r["leader"] == STALE}
    return [tp for tp, part in kafka.partitions.items() if part.leader == STALE and tuple(tp) not in own]


def approved_for(world: World, kafka: SimKafka, steps: int) -> None:
    """Whatever is proposed is approved at once; nothing may be given to the stale broker meanwhile."""
    for _ in range(steps):
        world.step()
        assert given_to_the_stale_broker(kafka) == []
        for run in world.runs():
            if run.status.phase == "AwaitingApproval" and not run.status.approvals:
                world.approve(run)


def uids(world: World) -> dict[int, str]:
    """Of the brokers' Pods."""
    pods = world.api.list("/api/v1/namespaces/ns/pods")
    found = {int(p["metadata"]["name"].rpartition("-")[2]): p["metadata"]["uid"] for p in pods}
    return {broker: uid for broker, uid in found.items() if broker in world.kafka.racks}


def test_no_leadership_for_a_stale_broker() -> None:
    """Lost leaderships are not given back to a broker whose view is stale. It would not know that it leads them, and
    would serve nobody. Its restart is the cure, and comes about."""
    kafka, world = three_brokers(("orders", [[0, 1, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0], [2, 0, 1]]))
    for tp, part in kafka.partitions.items():
        if part.replicas[0] == STALE:
            part.elect(tp.partition % 2)
    for _ in range(2):
        world.step()
    miss_an_election(kafka, TopicPartition("orders", 1), 0)
    before = uids(world)
    approved_for(world, kafka, 40)
    assert STALE not in kafka.stale, "restarted, and so cured"
    assert uids(world)[STALE] != before[STALE]


def test_a_drain_moves_nothing_to_a_stale_broker() -> None:
    kafka, world = three_brokers(("orders", [[0, 2, 1], [0, 2, 1], [0, 2, 1], [1, 2, 0]]))
    for _ in range(2):
        world.step()
    miss_an_election(kafka, TopicPartition("orders", 3), 0)
    world.api.touch("/api/v1/nodes/node-0")["spec"]["unschedulable"] = True
    approved_for(world, kafka, 24)
    assert {kafka.partitions[TopicPartition("orders", n)].leader for n in (0, 1, 2)} == {1}


def test_drain_first_moves_nothing_to_a_stale_broker() -> None:
    """drainFirst moves no leadership to a broker whose view is stale."""
    kafka, world = three_brokers(("orders", [[0, 2, 1], [0, 2, 1], [1, 2, 0], [2, 0, 1]]))
    for _ in range(2):
        world.step()
    miss_an_election(kafka, TopicPartition("orders", 2), 0)
    world.ask("rolling-restart", drainFirst="true", brokers="0")
    approved_for(world, kafka, 24)


def test_a_stale_broker_gets_no_replicas() -> None:
    kafka, world = three_brokers(("orders", [[0, 1, 2], [1, 2, 0]]), ("thin", [[0], [1]]))
    kafka.dynamic["TOPIC", "thin", "min.insync.replicas"] = "1"
    for _ in range(2):
        world.step()
    miss_an_election(kafka, TopicPartition("orders", 0), 1)
    world.ask("raise-replication-factor")
    for _ in range(24):
        world.step()
        for run in world.runs():
            # The restart that would cure the stale broker is not approved: without it nothing is ever given to it.
            if run.spec.playbook.name == "raise-replication-factor" and run.status.phase == "AwaitingApproval":
                world.approve(run)
        assert all(STALE not in p.replicas for tp, p in kafka.partitions.items() if tp.topic == "thin")


@pytest.mark.parametrize("recreated", [True, False], ids=["made anew", "only deleted"])
def test_a_recreated_topic_makes_one_broker_stale(recreated: bool) -> None:
    """A topic is deleted and created again. The one broker that missed it is stale. Its old epoch is far above the new
    one's. The two that know the new topic keep their Pods until it is cured."""
    kafka, world = three_brokers(("orders", [[0, 1, 2], [1, 2, 0], [2, 0, 1]]), ("t", [[0, 1, 2]]))
    for part in kafka.partitions.values():
        part.epoch = 57
    for _ in range(2):
        world.step()
    kafka.stale[STALE] = kafka.view()
    kafka.delete("t")
    if recreated:
        kafka.topic("t", [0, 1, 2], end=3)
        kafka.dynamic["TOPIC", "t", "min.insync.replicas"] = "2"
    before = uids(world)
    named: set[str] = set()
    for _ in range(40):
        world.step()
        named |= {f["id"] for f in world.cluster()["status"].get("findings", [])}
        for run in world.runs():
            if run.status.phase == "AwaitingApproval" and not run.status.approvals:
                if run.spec.playbook.name != "rolling-restart":
                    continue  # what was restarted leads less for a while
                assert run.status.plan is not None
                restarts = {r.broker: r.stale for r in run.status.plan.part(Restarts).restarts}
                assert [b for b, stale in restarts.items() if stale] == [STALE]
                assert next(iter(restarts)) == STALE
                world.approve(run)
        if STALE in kafka.stale:
            assert {b: uid for b, uid in uids(world).items() if b != STALE} == {0: before[0], 1: before[1]}
        restarts = [r.status.phase for r in world.runs() if r.spec.playbook.name == "rolling-restart"]
        if restarts == ["Succeeded"]:
            break
    assert restarts == ["Succeeded"]
    assert {n for n in named if n.startswith(("ViewDiverged", "MetadataUndecided"))} == {"ViewDiverged/broker-2"}


def test_a_recreated_topic_alone_is_no_finding() -> None:
    """Twin: everybody hears of it."""
    kafka, world = three_brokers(("orders", [[0, 1, 2], [1, 2, 0]]), ("t", [[0, 1, 2]]))
    kafka.partitions[TopicPartition("t", 0)].epoch = 57
    for n in range(8):
        world.step()
        kafka.delete("t")
        kafka.topic("t", [n % 3, (n + 1) % 3, (n + 2) % 3])
        kafka.dynamic["TOPIC", "t", "min.insync.replicas"] = "2"
        found = world.cluster()["status"].get("findings", [])
        assert [f for f in found if f["type"] in ("ViewDiverged", "MetadataUndecided", "LogEndRegressed")] == []
    assert world.runs() == []
