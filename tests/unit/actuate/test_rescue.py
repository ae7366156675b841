"""What only a stale broker holds is copied whole, once, and the manifest comes last."""

from __future__ import annotations

import json

import pytest

from kafka_medic.actuate.rescue import rescue
from kafka_medic.clients.failures import WriteFailed
from kafka_medic.clients.ports import LogRecord
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.playbook.effects import RescuePart, RescueRecords
from tests.simulation.kafka import SimKafka

ORDERS = TopicPartition("orders", 0)
TOPIC = "rescued.1"
INTENT = RescueRecords("rescue", TOPIC, (0, 2), (RescuePart(1, ORDERS, 5, 18),))


@pytest.fixture
def kafka():
    """Broker 1's own log of orders-0 goes on from 18 to 21 alone."""
    kafka = SimKafka()
    kafka.topic("orders", [1, 0])
    kafka.logs[ORDERS] = [
        LogRecord(ORDERS, n, 1000 + n, b"k%d" % n, None if n == 20 else b"v%d" % n, (("trace", b"t"),))
        for n in range(21)
    ]
    return kafka


def saved(kafka, partition=0):
    return kafka.read_topic(TOPIC, partition)


def test_each_record_with_where_it_came_from_and_all_that_it_was(kafka):
    rescue(kafka, INTENT, lambda: True)
    assert [(r.key, r.value, r.timestamp_ms) for r in saved(kafka)] == [
        (b"k18", b"v18", 1018),
        (b"k19", b"v19", 1019),
        (b"k20", None, 1020),
    ]
    headers = dict(saved(kafka)[0].headers)
    assert headers == {
        "kafka-medic-topic": b"orders",
        "kafka-medic-partition": b"0",
        "kafka-medic-leader-epoch": b"5",
        "kafka-medic-offset": b"18",
        "kafka-medic-broker": b"1",
        "trace": b"t",
    }
    (manifest,) = saved(kafka, 1)
    assert json.loads(manifest.value) == {"rescued": {"orders-0": {"broker": 1, "epoch": 5, "from": 18, "records": 3}}}


def test_again_after_half_of_it_adds_only_what_is_missing(kafka):
    rescue(kafka, INTENT, lambda: True)
    del kafka.logs[TopicPartition(TOPIC, 0)][1:]  # as if it had died after the first record
    kafka.logs[TopicPartition(TOPIC, 1)].clear()
    rescue(kafka, INTENT, lambda: True)
    assert sorted(r.key for r in saved(kafka)) == [b"k18", b"k19", b"k20"]
    assert len(saved(kafka, 1)) == 1
    rescue(kafka, INTENT, lambda: True)
    assert len(saved(kafka)) == 3
    assert len(saved(kafka, 1)) == 1


def test_its_own_topic_does_not_stand_against_the_restarts_to_come(kafka):
    rescue(kafka, INTENT, lambda: True)
    assert kafka.dynamic["TOPIC", TOPIC, "min.insync.replicas"] == "1", "of two replicas one may be away"


def test_without_the_lease_nothing_more_is_written(kafka):
    with pytest.raises(WriteFailed, match="Lease"):
        rescue(kafka, INTENT, lambda: False)
    assert saved(kafka) == []
    assert saved(kafka, 1) == []


@pytest.mark.parametrize(("long_read", "records"), [("read_log", 0), ("read_topic", 3)])
def test_the_lease_that_went_while_something_was_read_permits_no_write(kafka, monkeypatch, long_read, records):
    """Another operator may be saving the same records by then, and each would be in the topic twice."""
    ours, read = [True], getattr(kafka, long_read)

    def and_it_takes_long(*args):
        found = read(*args)
        ours[0] = long_read == "read_topic" and args[1] == 0
        return found

    monkeypatch.setattr(kafka, long_read, and_it_takes_long)
    with pytest.raises(WriteFailed, match="Lease"):
        rescue(kafka, INTENT, lambda: ours[0])
    monkeypatch.undo()
    assert len(saved(kafka)) == records
    assert saved(kafka, 1) == []


def test_a_log_that_cannot_be_read_leaves_no_manifest(kafka):
    kafka.stop(1)
    with pytest.raises(WriteFailed, match=TOPIC):
        rescue(kafka, INTENT, lambda: True)
    assert saved(kafka, 1) == []
