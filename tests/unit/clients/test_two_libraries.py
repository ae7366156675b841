"""What librdkafka meets does not delay what kafka-python has an answer to."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kafka_medic.clients import kafka as module
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import ClusterDescription, ConfigChange, Connection, Node

TOLD = ClusterDescription("id", (Node(0, "b0", 9092, None),), 0)


def test_librdkafka_at_a_broker_that_hangs_is_left_to_it(monkeypatch):
    monkeypatch.setattr(module, "LIBRDKAFKA_TIMEOUT", 0.05)
    kafka: Any = RealKafka(Connection("127.0.0.1:1"))
    asked, answered = threading.Event(), threading.Event()

    def hangs() -> ClusterDescription:
        asked.set()
        assert answered.wait(60)
        return TOLD

    monkeypatch.setattr(kafka._admin, "members", lambda: TOLD)
    monkeypatch.setattr(kafka._librdkafka, "members", hangs)
    try:
        for _ in range(3):  # nor is it asked again while it hangs
            assert kafka.describe_cluster() is TOLD
        assert asked.wait(60)
        assert not answered.is_set()
    finally:
        answered.set()
        kafka.close()


def test_an_answer_that_librdkafka_needed_longer_for_counts_as_well(monkeypatch):
    """In a large cluster it always does."""
    monkeypatch.setattr(module, "LIBRDKAFKA_TIMEOUT", 0.05)
    kafka: Any = RealKafka(Connection("127.0.0.1:1"))
    let_go, asked = threading.Event(), []

    def slow() -> ClusterDescription:
        asked.append("whole view")
        assert let_go.wait(60)
        return TOLD

    monkeypatch.setattr(kafka._admin, "members", lambda: TOLD)
    monkeypatch.setattr(kafka._librdkafka, "members", slow)
    try:
        assert kafka.describe_cluster() is TOLD
        let_go.set()
        kafka._renewed.result(60)
        while not kafka._fresh_until:  # the note is taken right after the answer
            threading.Event().wait(0.01)
        for _ in range(3):
            assert kafka.describe_cluster() is TOLD
        assert asked == ["whole view"]
    finally:
        let_go.set()
        kafka.close()


def test_a_refusal_that_only_librdkafka_met_is_told(monkeypatch):
    kafka: Any = RealKafka(Connection("127.0.0.1:1"))

    def refused() -> ClusterDescription:
        raise ReadFailed(FailureKind.AUTHENTICATION, "no such user")

    monkeypatch.setattr(kafka._admin, "members", lambda: TOLD)
    monkeypatch.setattr(kafka._librdkafka, "members", refused)
    try:
        with pytest.raises(ReadFailed, match="no such user"):
            kafka.describe_cluster()
    finally:
        kafka.close()


def test_librdkafka_reads_its_whole_view_rarely_but_before_it_is_needed_and_after_a_failure(monkeypatch):
    """A whole view is a large answer, and librdkafka asks the controller and the leaders that it knows."""
    kafka: Any = RealKafka(Connection("127.0.0.1:1"))
    asked: list[str] = []
    able, now = [True], [1000.0]

    def members() -> ClusterDescription:
        if not able[0]:
            raise ReadFailed(FailureKind.UNREACHABLE, "nobody answers")
        return TOLD

    def whole() -> ClusterDescription:
        asked.append("whole view")
        return members()

    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(kafka._admin, "members", members)
    monkeypatch.setattr(kafka._librdkafka, "members", whole)
    monkeypatch.setattr(kafka._librdkafka, "create_topic", lambda _: asked.append("topic"))
    monkeypatch.setattr(kafka._librdkafka, "add_partitions", lambda *_: asked.append("partitions"))
    monkeypatch.setattr(kafka._librdkafka, "alter_configs", lambda *_: asked.append("configs"))
    monkeypatch.setattr(kafka._librdkafka, "offsets_at", lambda *_: asked.append("offsets"))
    try:
        for _ in range(3):
            assert kafka.describe_cluster() is TOLD
        assert asked == ["whole view"]
        kafka.create_topic(None)
        kafka.add_partitions("t", 2, [])
        kafka.alter_configs([ConfigChange("TOPIC", "t", "n", "1")])
        kafka.offsets_at([], 0)
        needed = ["topic", "partitions", "configs", "offsets"]
        assert asked[1:] == [each for what in needed for each in ("whole view", what)]
        del asked[:]
        able[0] = False
        for _ in range(2):  # the first is kafka-python's own, within its timeout
            with pytest.raises(ReadFailed, match="nobody answers"):
                kafka.describe_cluster()
        assert asked == ["whole view"]
        able[0] = True
        kafka.describe_cluster()
        kafka.describe_cluster()
        now[0] += module.RENEWED_SECONDS
        kafka.describe_cluster()
        assert asked == ["whole view"] * 3
    finally:
        kafka.close()
