"""A cluster in which a group has committed more than there is, and a person who says yes to whatever is planned."""

from __future__ import annotations

from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.snapshot import TopicPartition
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)
FOUND = Committed(32, 3, "of the application")


def commit(kafka: SimKafka, group: str, offsets: dict[TopicPartition, Committed]) -> None:
    """As its consumers, or somebody else, would."""
    kafka.commit_offsets(group, offsets)
    kafka.writes.clear()


def beyond_the_end() -> World:
    """Group billing is beyond the end of orders, with all that a commit can carry; audit is fine."""
    kafka = SimKafka()
    for topic in ("orders", "payments"):
        kafka.topic(topic, [0, 1, 2])
        kafka.dynamic["TOPIC", topic, "min.insync.replicas"] = "2"
    kafka.partitions[ORDERS].epoch = kafka.partitions[PAYMENTS].epoch = 5
    commit(kafka, "billing", {ORDERS: FOUND, PAYMENTS: Committed(20, 5)})
    commit(kafka, "audit", {ORDERS: Committed(7, 5)})
    world = World(kafka)
    world.install(remediation={"limits": {"cooldown": "0s"}})
    return world


def asked_for() -> World:
    """And a person has asked, which is sooner than the finding."""
    made = beyond_the_end()
    made.ask("reset-consumer-offsets")
    return made


def committed(world: World) -> dict[tuple[str, TopicPartition], Committed]:
    return {(g.group, tp): c for g in world.kafka.groups(lambda _: True).offsets for tp, c in g.committed.items()}
