"""A plan that was approved for a topic does nothing to another topic that has its name by then."""

from __future__ import annotations

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.remediation_plan import ReplicaMoves
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World


def one_thin_topic() -> tuple[SimKafka, World]:
    kafka = SimKafka()
    kafka.topic("orders", [1], size=5_000_000)
    world = World(kafka)
    world.install(remediation={"limits": {"cooldown": "0s"}})
    return kafka, world


def remake(kafka: SimKafka) -> None:
    kafka.delete("orders")
    kafka.topic("orders", [1], size=5_000_000)


def test_the_digest_covers_topic_ids() -> None:
    """A plan has the ids of its topics, and its digest covers them."""
    kafka, world = one_thin_topic()
    first = world.until_phase("AwaitingApproval").status.plan
    assert first is not None
    assert [t.topic for t in first.topics] == ["orders"]
    remake(kafka)
    world.until(lambda: (p := world.run().status.plan) is not None and p.digest != first.digest)
    second = world.run().status.plan
    assert second is not None
    was, now = first.part(ReplicaMoves).changes, second.part(ReplicaMoves).changes
    assert [c.replicas for c in now] == [c.replicas for c in was], "all else is as it was"
    assert second.topics != first.topics


def test_a_recreated_topic_ends_the_approved_plan() -> None:
    """The only topic of an approved plan is deleted and created again. The run ends."""
    kafka, world = one_thin_topic()
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    world.until_phase("Running")
    remake(kafka)
    before = list(kafka.writes)
    world.until_phase("Superseded")
    (ended,) = [r for r in world.runs() if r.status.phase == "Superseded"]
    assert "every topic of the plan was deleted since it was made: orders" in ended.status.message
    assert not [w for w in kafka.writes[len(before) :] if w.startswith("reassign")]
    assert kafka.partitions[TopicPartition("orders", 0)].replicas == [1]
