"""The minimum of each partition, as it is observed: the topic's own, else what the partition's own brokers have."""

from __future__ import annotations

from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from tests.simulation.brokers import MIN_ISR
from tests.simulation.kafka import SimKafka


def least(kafka: SimKafka) -> dict[str, int | None]:
    return {str(row.tp): row.min_isr for row in observe_cluster("c", ClusterReaders(kafka)).rows()}


def test_a_minimum_is_the_largest_of_the_partitions_own_brokers_and_no_others():
    """Broker 0 answers for the topics, with the default that it has itself."""
    kafka = SimKafka()
    kafka.topic("orders", [1, 2], [1, 0])
    kafka.topic("own", [2, 1])
    kafka.dynamic["TOPIC", "own", MIN_ISR] = "3"
    for broker, value in enumerate(("1", "1", "4")):
        kafka.started_with[broker][MIN_ISR] = value
    assert least(kafka) == {"orders-0": 4, "orders-1": 1, "own-0": 3}
    kafka.started_with[0][MIN_ISR] = "2"
    assert least(kafka) == {"orders-0": 4, "orders-1": 2, "own-0": 3}
    kafka.stop(2)
    assert least(kafka) == {"orders-0": None, "orders-1": 2, "own-0": 3}, "broker 2 does not answer"
    kafka.unreadable.add("configs")
    assert least(kafka) == {"orders-0": None, "orders-1": None, "own-0": None}
