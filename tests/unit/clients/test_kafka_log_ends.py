"""Log ends as Kafka's messages have them: each partition with its own error."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kafka_log_ends import epoch_ends, known, log_ends
from kafka_medic.cluster.snapshot import TopicPartition

ORDERS = [TopicPartition("orders", n) for n in range(3)]
STORAGE, NOT_LEADER = 56, 6


def answer(*told: tuple[int, int]) -> Any:
    """Of each partition its error code and its offset."""
    parts = [
        SimpleNamespace(partition_index=n, error_code=code, offset=offset) for n, (code, offset) in enumerate(told)
    ]
    return SimpleNamespace(topics=[SimpleNamespace(name="orders", partitions=parts)])


def test_a_partition_on_a_failed_disk_is_not_known_and_the_others_are():
    found = log_ends(answer((0, 21), (STORAGE, -1), (NOT_LEADER, -1)))
    assert found[ORDERS[0]] == 21
    assert isinstance(found[ORDERS[1]], ReadFailed)
    assert "orders-1: KafkaStorageError" in found[ORDERS[1]].message
    assert ORDERS[2] not in found
    assert known(found) == {ORDERS[0]: 21}


def test_nothing_but_failures_is_a_failure():
    with pytest.raises(ReadFailed, match="KafkaStorageError"):
        known(log_ends(answer((STORAGE, -1))))
    assert known(log_ends(answer((NOT_LEADER, -1)))) == {}


def test_where_an_epoch_ends_likewise():
    parts = [SimpleNamespace(partition=n, error_code=code, end_offset=7) for n, code in enumerate((0, STORAGE))]
    found = epoch_ends(SimpleNamespace(topics=[SimpleNamespace(topic="orders", partitions=parts)]))
    assert found[ORDERS[0]] == 7
    assert isinstance(found[ORDERS[1]], ReadFailed)
