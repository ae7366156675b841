"""What librdkafka meets does not delay what kafka-python has an answer to."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kafka_medic.clients import kafka as module
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import ClusterDescription, Connection, FailureKind, Node, ReadFailed

TOLD = ClusterDescription("id", (Node(0, "b0", 9092, None),), 0)


def test_librdkafka_at_a_broker_that_hangs_is_left_to_it(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    kafka: Any = RealKafka(Connection("127.0.0.1:1"))
    asked, answered = threading.Event(), threading.Event()

    def hangs() -> ClusterDescription:
        asked.set()
        assert answered.wait(60)
        return TOLD

    monkeypatch.setattr(kafka._wire, "members", lambda: TOLD)
    monkeypatch.setattr(kafka._rd, "members", hangs)
    try:
        for _ in range(3):  # nor is it asked again while it hangs
            assert kafka.describe_cluster() is TOLD
        assert asked.wait(60)
        assert not answered.is_set()
    finally:
        answered.set()
        kafka.close()


def test_a_refusal_that_only_librdkafka_met_is_told(monkeypatch):
    kafka: Any = RealKafka(Connection("127.0.0.1:1"))

    def refused() -> ClusterDescription:
        raise ReadFailed(FailureKind.AUTHENTICATION, "no such user")

    monkeypatch.setattr(kafka._wire, "members", lambda: TOLD)
    monkeypatch.setattr(kafka._rd, "members", refused)
    try:
        with pytest.raises(ReadFailed, match="no such user"):
            kafka.describe_cluster()
    finally:
        kafka.close()
