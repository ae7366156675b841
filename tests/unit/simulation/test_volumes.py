"""Moves between the log directories of a simulated broker, as KIP-113 and KIP-112 have them."""

from __future__ import annotations

import pytest

from kafka_medic.clients.failures import WriteFailed
from kafka_medic.cluster.snapshot import STORAGE_ERROR, TopicPartition
from tests.simulation.brokers import FILE_DELETE_DELAY
from tests.simulation.kafka import SimKafka

ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


def two_disks() -> SimKafka:
    kafka = SimKafka()
    kafka.topic("orders", [0, 1], [1, 0], size=100)
    kafka.volumes = {0: (1000, 1000)}
    return kafka


def usable(kafka, broker=0):
    return [d.usable for d in kafka.log_dirs([broker])[broker].directories]


def test_a_move_takes_room_in_both_places_and_gives_it_back_later():
    kafka = two_disks()
    before = (kafka.partitions[ORDERS].epoch, kafka.partitions[ORDERS].leader, kafka.partitions[ORDERS].isr)
    assert usable(kafka) == [800, 1000]
    assert kafka.alter_log_dirs(0, {ORDERS: "/data/1"}) == {}
    kafka.tick()
    assert usable(kafka) == [800, 950]
    kafka.tick()
    assert (kafka.dir_of(0, ORDERS), kafka.futures) == (1, {})
    assert usable(kafka) == [800, 900], "the old files are still there"
    kafka.elapsed += FILE_DELETE_DELAY
    assert usable(kafka) == [900, 900]
    assert (kafka.partitions[ORDERS].epoch, kafka.partitions[ORDERS].leader, kafka.partitions[ORDERS].isr) == before


def test_the_directory_where_it_is_cancels_a_move_and_a_third_one_turns_it():
    kafka = two_disks()
    kafka.volumes = {0: (1000, 1000, 1000)}
    kafka.alter_log_dirs(0, {ORDERS: "/data/1"})
    assert kafka.alter_log_dirs(0, {ORDERS: "/data/2"}) == {}
    assert kafka.futures[0, ORDERS].to == 2
    assert kafka.alter_log_dirs(0, {ORDERS: "/data/0"}) == {}
    assert kafka.futures == {}


def test_what_is_refused():
    kafka = two_disks()
    kafka.topic("elsewhere", [2, 1])
    told = kafka.alter_log_dirs(0, {TopicPartition("elsewhere", 0): "/data/1", TopicPartition("none", 0): "/data/1"})
    assert sorted(told.values()) == ["NotLeaderForPartitionError", "UnknownTopicOrPartitionError"]
    assert kafka.alter_log_dirs(0, {ORDERS: "/data/7"}) == {ORDERS: "LogDirNotFoundError"}
    kafka.stop(0)
    with pytest.raises(WriteFailed):
        kafka.alter_log_dirs(0, {ORDERS: "/data/1"})


def test_a_copy_outlives_a_restart_and_pauses_meanwhile():
    kafka = two_disks()
    kafka.alter_log_dirs(0, {ORDERS: "/data/1"})
    kafka.stop(0)
    for _ in range(5):
        kafka.tick()
    assert kafka.dir_of(0, ORDERS) == 0
    kafka.start(0)
    for _ in range(3):
        kafka.tick()
    assert kafka.dir_of(0, ORDERS) == 1


def test_a_target_that_fails_takes_the_copy_with_it_and_a_source_the_replica():
    kafka = two_disks()
    kafka.alter_log_dirs(0, {ORDERS: "/data/1"})
    kafka.volume_fails(0, 1)
    assert (kafka.futures, kafka.partitions[ORDERS].leader) == ({}, 0)
    assert [d.error for d in kafka.log_dirs([0])[0].directories] == [None, STORAGE_ERROR]
    assert kafka.alter_log_dirs(0, {ORDERS: "/data/1"}) == {ORDERS: "KafkaStorageError"}
    kafka.disk_replaced(0)
    kafka.alter_log_dirs(0, {ORDERS: "/data/1"})
    kafka.volume_fails(0, 0)
    assert kafka.partitions[ORDERS].isr == [1]
    assert (0, ORDERS) in kafka.futures, "Kafka lists it still"
    kafka.tick()
    assert kafka.dir_of(0, ORDERS) == 0
    assert kafka.alter_log_dirs(0, {ORDERS: "/data/0"}) == {ORDERS: "KafkaStorageError"}


def test_no_move_begins_while_any_directory_has_failed():
    kafka = two_disks()
    kafka.volumes = {0: (1000, 1000, 1000)}
    kafka.volume_fails(0, 2)
    assert kafka.alter_log_dirs(0, {ORDERS: "/data/1"}) == {ORDERS: "KafkaStorageError"}


def test_a_replica_that_goes_takes_its_copy_along_and_a_new_one_comes_to_the_emptier_directory():
    kafka = two_disks()
    kafka.alter_log_dirs(0, {OTHER: "/data/1"})
    kafka.alter_reassignments({OTHER: [1]})
    assert kafka.futures == {}
    kafka.alter_reassignments({OTHER: [1, 0]})
    assert kafka.dir_of(0, OTHER) == 1, "the other one has a replica"
    kafka.delete("orders")
    assert (kafka.placed, kafka.futures) == ({}, {})
