"""What a run that sets offsets asks for: read as asked, and what cannot be told is left open."""

from __future__ import annotations

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.observe.offset_reads import answers
from kafka_medic.playbook.extra_reads import Questions
from tests.simulation.kafka import SimKafka

ORDERS = TopicPartition("orders", 0)


def test_where_several_epochs_of_one_partition_end():
    kafka = SimKafka()
    kafka.topic("orders", [1, 0], [0, 1])
    part = kafka.partitions[ORDERS]
    part.elect(1)
    part.end = 30
    part.elect(1)
    epochs = frozenset({(1, ORDERS, 0), (1, ORDERS, 1), (0, TopicPartition("orders", 1), 0)})
    found = answers(kafka, Questions(epochs=epochs)).epoch_ends
    assert found == {(ORDERS, 0): 21, (ORDERS, 1): 30, (TopicPartition("orders", 1), 0): 21}
    kafka.stop(0)
    told = answers(kafka, Questions(epochs=epochs))
    assert told.epoch_ends == {(ORDERS, 0): 21, (ORDERS, 1): 30}
    assert told.silent == {TopicPartition("orders", 1)}


def test_what_is_not_answered_is_left_open():
    kafka = SimKafka()
    kafka.topic("orders", [1, 0])
    kafka.unreadable = {"groups", "log-ends"}
    told = answers(kafka, Questions(("billing",), 5, (ORDERS,), frozenset({(1, ORDERS, 0)})))
    assert (told.members, told.at, told.epoch_ends, told.silent) == ({}, None, {}, {ORDERS})
    assert answers(None, Questions(epochs=frozenset({(1, ORDERS, 0)}))).silent == {ORDERS}
