"""What a run asks for besides the snapshot: read as asked, and what cannot be told is left open."""

from __future__ import annotations

from kafka_medic.clients.answers import LogDir, LogDirs
from kafka_medic.cluster.log_dirs import ReplicaDirs
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.observe.extra_reads import answers
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


def test_which_replica_is_in_which_log_directory():
    kafka = SimKafka()
    kafka.topic("orders", [0, 1], [1, 0], size=100)
    kafka.volumes = {0: (1000, 1000)}
    other = TopicPartition("orders", 1)
    kafka.placed[0, other] = 1
    assert kafka.alter_log_dirs(0, {ORDERS: "/data/1"}) == {}
    kafka.futures[0, ORDERS].share = 0.25
    kafka.stop(1)
    asked = Questions(log_dirs=frozenset({0, 1}))
    told = answers(kafka, asked).log_dirs
    assert isinstance(told[1], str)
    assert "broker 1" in told[1] or "simulated" in told[1]
    found = told[0]
    assert isinstance(found, ReplicaDirs)
    assert found.current == {ORDERS: ("/data/0", 100), other: ("/data/1", 100)}
    assert found.future == {ORDERS: ("/data/1", 25)}
    assert [(d.path, d.usable, d.moving) for d in found.directories] == [("/data/0", 900, 0), ("/data/1", 875, 1)]
    kafka.unreadable = {"log-dirs"}
    assert {b: type(why) for b, why in answers(kafka, asked).log_dirs.items()} == {0: str, 1: str}
    assert answers(None, asked).log_dirs == {}
    assert answers(kafka, Questions()).log_dirs == {}, "nothing is read unasked"


def test_a_replica_that_is_said_to_be_in_two_directories_is_in_none_that_is_known():
    class Twice(SimKafka):
        def log_dirs(self, brokers):
            return dict.fromkeys(brokers, LogDirs((LogDir.of("/a", {ORDERS: 1}), LogDir.of("/b", {ORDERS: 1}))))

    (told,) = answers(Twice(), Questions(log_dirs=frozenset({0}))).log_dirs.values()
    assert str(told).endswith("broker 0 has orders-0 in two log directories")
