"""The canary uses its client as it is meant to be used, and tells what it measured and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import Broken, Delivered, Returned, Undelivered, Unread
from kafka_medic.observe.canary import Canary, Outcome
from tests.simulation.canary import SimCanary
from tests.simulation.kafka import SimKafka

TOPIC = "kafka-medic-canary"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Stage:
    """A canary on a clock that only moves when told; every client that it made."""

    interval: float = 15.0
    timeout: float = 10.0
    now: float = 1000.0
    clients: list[SimCanary] = field(default_factory=list)
    told: list[Outcome] = field(default_factory=list)
    refuse: bool = False
    prepare: Any = None

    def __post_init__(self) -> None:
        self.kafka = SimKafka()
        self.kafka.topic(TOPIC, [0, 1, 2], [1, 2, 0], [2, 0, 1], end=0)
        self.delivery: float | None = None
        self.canary = Canary(
            TOPIC, self.connect, self.interval, self.timeout, self.told.append, lambda: self.now, lambda: NOW
        )
        self.canary.watch({0: 0, 1: 1, 2: 2})

    def connect(self, delivery: float) -> SimCanary:
        if self.refuse:
            raise ReadFailed(FailureKind.TLS, "no certificate")
        self.delivery = delivery
        client = SimCanary(self.kafka, TOPIC)
        if self.prepare:
            self.prepare(client)
        self.clients.append(client)
        return client

    @property
    def client(self) -> SimCanary:
        return self.clients[-1]

    def steps(self, number: int = 5) -> None:
        for _ in range(number):
            self.canary.step()

    def round(self) -> None:
        """The rest of an interval passes, then a round begins and runs as far as it can."""
        self.now += self.interval
        self.canary.watch(None)
        self.steps()

    def rows(self) -> dict[int, dict[str, Any]]:
        return {row["partition"]: row for row in self.canary.reading().to_pylist()}

    def failures(self) -> list[int]:
        return [row["consecutiveFailures"] for row in self.rows().values()]


def test_each_partition_is_written_and_read_back_with_its_latencies():
    stage = Stage()
    with pytest.raises(ReadFailed, match="no round"):
        stage.canary.reading()
    stage.steps()
    assert stage.rows()[1] == {
        "topic": TOPIC, "partition": 1, "leader": 1, "lastOkAt": "2026-01-01T12:00:00.000Z", "produceMs": 3,
        "consumeMs": 1, "consecutiveFailures": 0, "lastError": None,
    }  # fmt: skip
    assert [(o.partition, o.leader, o.produce_seconds, o.error) for o in stage.told] == [
        (p, p, 0.003, None) for p in (0, 1, 2)
    ]
    assert len(stage.client.sent) == 3
    assert stage.client.following == {0: 1, 1: 1, 2: 1}, "read from the acknowledged record on, without a group"


def test_nothing_is_told_before_each_partition_has_had_its_round():
    stage = Stage(prepare=lambda client: client.deaf.add(2))
    stage.steps()
    with pytest.raises(ReadFailed, match="no round"):
        stage.canary.reading()
    stage.now += 10
    stage.steps()
    assert stage.failures() == [0, 0, 1]
    stage.kafka.topic("more", [0])
    stage.canary.watch({0: 0, 1: 1, 2: 2, 3: 0})
    stage.now += 5
    stage.steps()
    assert stage.rows()[3]["consecutiveFailures"] is None, "one that came later is not known, the others are"


def test_one_broker_that_takes_nothing_fails_exactly_its_partition_and_heals():
    stage = Stage()
    stage.steps()
    stage.client.deaf = {2}
    stage.round()
    stage.now += 10.1
    stage.steps()
    assert stage.failures() == [0, 0, 1]
    assert "not acknowledged within 10 s" in stage.rows()[2]["lastError"]
    assert stage.rows()[2]["produceMs"] is None
    stage.client.give_up()
    stage.client.deaf = set()
    stage.round()
    assert stage.failures() == [0, 0, 0]


def test_a_record_is_given_up_before_the_next_round():
    assert Stage(interval=15, timeout=10).canary._timeout == 10
    stage = Stage(interval=5, timeout=10)
    stage.steps()
    assert stage.delivery == 4.0, "below the interval, whatever the timeout says"


def test_nothing_piles_up_through_an_outage_of_hours_and_nothing_is_sent_twice():
    stage = Stage(interval=1, timeout=1)
    stage.steps()
    stage.client.deaf = {0, 1, 2}
    for _ in range(400):
        stage.round()  # no report ever comes: the client itself hangs
    assert len(stage.client.queued) == 3, "one record a partition is under way at most"
    assert len(stage.client.sent) == 6
    assert sum(o.dropped for o in stage.told) == 3 * 399
    assert stage.failures() == [1, 1, 1], "what was not sent has not failed"
    for _ in range(400):
        stage.client.give_up()
        stage.round()
    assert len(stage.client.queued) == 3
    assert len({value for _, value in stage.client.sent}) == len(stage.client.sent), "no resend of its own"
    assert all(failures > 390 for failures in stage.failures())
    stage.client.give_up()
    stage.client.deaf = set()
    stage.round()
    assert stage.failures() == [0, 0, 0]


def test_a_full_queue_of_our_own_is_counted_and_is_no_failure():
    stage = Stage()
    stage.steps()
    stage.client.full = True
    for _ in range(5):
        stage.round()
    assert stage.failures() == [0, 0, 0]
    assert sum(o.dropped for o in stage.told) == 15


def test_a_fatal_error_closes_the_client_and_another_is_made_after_growing_pauses():
    stage = Stage()
    stage.steps()
    stage.client.deaf = {0, 1, 2}
    stage.now += 15
    stage.canary.step()
    stage.client.events.append(Broken("Fatal error: fenced"))
    stage.canary.step()
    assert stage.clients[0].closed
    assert "fenced" in stage.rows()[0]["lastError"]
    stage.steps(50)
    assert len(stage.clients) == 1, "not before the pause is over"
    stage.now += 1.1
    stage.steps()
    assert len(stage.clients) == 2
    stage.round()
    assert stage.failures() == [0, 0, 0]

    stage.refuse = True
    stage.client.events.append(Broken("again"))
    tries = 0
    waited = []
    for _ in range(600):
        stage.canary.watch(None)
        before = stage.canary._backoff
        stage.steps(1)
        tries += stage.canary._backoff != before
        waited.append(stage.canary._backoff)
        stage.now += 1
    assert max(waited) == 60.0
    assert 6 <= tries <= 8


def test_a_client_that_cannot_be_made_is_said_and_measured_as_nothing():
    stage = Stage(refuse=True)
    stage.steps()
    with pytest.raises(ReadFailed, match="no certificate"):
        stage.canary.reading()


@pytest.mark.parametrize("to", ["write", "read"])
def test_a_right_that_the_operator_lacks_is_no_brokers_failure(to):
    stage = Stage()
    stage.steps()
    if to == "write":
        stage.client.deaf = {0, 1, 2}
        stage.now += 15
        stage.canary.step()
        denied = [Undelivered(p, v, "Broker: Topic authorization failed", True) for p, v in stage.client.queued]
        stage.client.queued.clear()
        stage.client.events += denied
    else:
        stage.client.follow = lambda partition, offset: stage.client.events.append(  # type: ignore[method-assign]
            Unread(partition, "Broker: Topic authorization failed", True)
        )
        for partition in (0, 1, 2):
            stage.client.forget(partition)
            stage.client.events.append(Unread(partition, "Broker: Topic authorization failed", True))
        stage.round()
        stage.now += 10
    stage.steps()
    with pytest.raises(ReadFailed, match=r"NotAuthorized: topic kafka-medic-canary: .*authorization failed"):
        stage.canary.reading()
    stage.client.deaf = set()
    if to == "read":
        del stage.client.follow
    stage.round()
    assert stage.failures() == [0, 0, 0]


def test_a_record_that_comes_back_twice_or_wrong_fails_the_round():
    stage = Stage()
    stage.steps()
    (value,) = [v for p, v in stage.client.sent if p == 0]
    stage.client.events.append(Returned(0, 7, value))
    stage.round()
    assert "twice: offsets 0 and 7" in stage.rows()[0]["lastError"]
    assert stage.failures() == [1, 0, 0]

    class Wrong(SimCanary):
        def poll(self, seconds):
            return [
                Returned(e.partition, e.offset, b"somebody else's") if isinstance(e, Returned) else e
                for e in super().poll(seconds)
            ]

    stage = Stage()
    stage.connect = lambda _: stage.clients.append(Wrong(stage.kafka, TOPIC)) or stage.client  # type: ignore[assignment]
    stage.canary._connect = stage.connect
    stage.steps()
    stage.now += 10
    stage.steps()
    assert "not read back" in stage.rows()[0]["lastError"]
    assert "another record" in stage.rows()[0]["lastError"]


def test_what_was_acknowledged_and_not_read_says_so_and_is_looked_for_anew():
    stage = Stage()
    stage.steps()
    stage.client.follow = lambda partition, offset: None  # type: ignore[method-assign]
    stage.client.following.clear()
    stage.round()
    stage.now += 10
    stage.steps()
    assert "acknowledged after 3 ms, not read back within 10 s" in stage.rows()[0]["lastError"]
    del stage.client.follow
    stage.round()
    assert stage.failures() == [0, 0, 0]


def test_reading_that_stops_between_rounds_is_taken_up_again_without_a_failure():
    stage = Stage()
    stage.steps()
    stage.client.forget(1)
    stage.client.events.append(Unread(1, "Broker: Offset out of range"))
    stage.steps()
    stage.round()
    assert stage.failures() == [0, 0, 0]


def test_partitions_that_are_gone_are_forgotten_and_new_ones_are_measured():
    stage = Stage()
    stage.steps()
    stage.canary.watch({1: 1})
    stage.now += 15
    stage.steps()
    assert list(stage.rows()) == [1]
    assert set(stage.client.following) == {1}


def test_nobody_who_watches_means_that_nothing_is_sent():
    stage = Stage()
    stage.steps()
    sent = len(stage.client.sent)
    for _ in range(20):
        stage.now += 15
        stage.steps()
    late = len(stage.client.sent)
    assert sent < late <= sent + 3 * 7
    stage.now += 15
    stage.steps()
    assert len(stage.client.sent) == late
    with pytest.raises(ReadFailed, match="last round was"):
        stage.canary.reading()


def test_a_report_for_a_partition_that_is_gone_is_nothing():
    stage = Stage()
    stage.steps()
    stage.client.events += [Delivered(9, b"x", 1, 0.1), Returned(9, 1, None), Unread(9, "x")]
    stage.steps()
    assert list(stage.rows()) == [0, 1, 2]


def test_a_fault_of_ours_is_a_broken_client_and_not_the_end():
    stage = Stage()

    class Faulty(SimCanary):
        def poll(self, seconds):
            raise ValueError("a bug")

    stage.canary._connect = lambda _: Faulty(stage.kafka, TOPIC)
    stage.canary._clock = lambda: stage.now
    stage.canary.start()
    try:
        for _ in range(200):
            if stage.canary._broken:
                break
            stage.canary._stopping.wait(0.02)
        with pytest.raises(ReadFailed, match="internal fault: ValueError"):
            stage.canary.reading()
        assert stage.canary._thread is not None
        assert stage.canary._thread.is_alive()
    finally:
        stage.canary.close()
