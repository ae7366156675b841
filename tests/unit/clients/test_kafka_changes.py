"""What changes something: sent once, to the controller, and waited for as long as so much of it may take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors
from kafka.future import Future

from kafka_medic.clients.kafka_changes import WireChanges
from kafka_medic.clients.librdkafka import LibrdkafkaAdmin
from kafka_medic.clients.patience import EACH_SECONDS, MOST_SECONDS, seconds_for
from kafka_medic.clients.ports import ConfigChange, Connection, FailureKind, WriteFailed, unasked
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.controller.lease import DURATION_SECONDS
from kafka_medic.guard.freshness import MAX_AGE
from tests.unit.clients.test_kafka_link import SECONDS, Brokers, linked, told  # noqa: F401 - linked is a fixture

ORDERS = [TopicPartition("orders", n) for n in range(40)]
WHO = object()


def altered(*codes: int, whole: int = 0) -> Any:
    parts = [SimpleNamespace(partition_index=n, error_code=code) for n, code in enumerate(codes)]
    return SimpleNamespace(error_code=whole, responses=[SimpleNamespace(name="orders", partitions=parts)])


def elected(*codes: int) -> Any:
    parts = [SimpleNamespace(partition_id=n, error_code=code) for n, code in enumerate(codes)]
    return SimpleNamespace(replica_election_results=[SimpleNamespace(topic="orders", partition_result=parts)])


class Scripted(Brokers):
    """Answers in turn, each after so many seconds; asked who the controller is, it is broker 2."""

    def __init__(self, answers: dict[int, list[tuple[float, Any]]]) -> None:
        super().__init__(answers)
        self.sent: list[tuple[int, Any]] = []

    def send(self, request: Any, broker: int, _: int) -> Any:
        if request is WHO:
            return Future().success(told(2, controller=2))
        self.sent.append((broker, request))
        delay, answer = self.answers[broker].pop(0)
        future = Future()
        self._net.call_later(delay, lambda: future.success(answer))
        return future


@pytest.fixture
def changes(linked, monkeypatch):  # noqa: F811
    def make(answers: dict[int, list[tuple[float, Any]]], controller: int = 1) -> tuple[WireChanges, Scripted]:
        link, _ = linked({1: None})
        brokers = Scripted(answers)
        monkeypatch.setattr("kafka_medic.clients.kafka_link._connect", lambda _: brokers)
        link._answered, link._controller = [1], controller
        return WireChanges(link, lambda: WHO), brokers

    return make


def test_many_partitions_may_take_longer_than_one(changes):
    slow = 3 * SECONDS
    many, brokers = changes({1: [(slow, altered(*[0] * 40))]})
    assert many.alter_reassignments(dict.fromkeys(ORDERS, (1, 2))) == {}
    ((_, request),) = brokers.sent
    assert SECONDS * 1000 < request.timeout_ms < seconds_for(SECONDS, 40) * 1000, "the server gives up first"
    one, brokers = changes({1: [(slow, altered(0))]})
    with pytest.raises(WriteFailed) as failed:
        one.alter_reassignments({ORDERS[0]: (1, 2)})
    assert failed.value.kind is FailureKind.UNREACHABLE
    assert len(brokers.sent) == 1, "it may have been done: look before it is sent again"
    electing, _ = changes({1: [(slow, elected(*[0] * 40))]})
    assert electing.elect_preferred(ORDERS) == {}


def test_settings_of_many_topics_may_take_longer_too(monkeypatch):
    admin, waited = LibrdkafkaAdmin(Connection("127.0.0.1:1", timeout_seconds=SECONDS)), []

    class Answered:
        def result(self, timeout: float) -> None:
            waited.append(timeout)

    def alter(resources: list[Any], request_timeout: float) -> dict[Any, Answered]:
        waited.append(request_timeout)
        return {resource: Answered() for resource in resources[:1]}

    monkeypatch.setattr(admin, "_client", SimpleNamespace(incremental_alter_configs=alter))
    admin.alter_configs([ConfigChange("TOPIC", f"t{n}", "n", "1") for n in range(40)], unasked)
    assert waited == [seconds_for(SECONDS, 40), seconds_for(SECONDS, 40) + 1]


def test_it_is_never_waited_for_so_long_that_the_lease_runs_out_meanwhile():
    assert seconds_for(5, 0) == 5
    assert seconds_for(5, 50) == 5 + 50 * EACH_SECONDS
    assert seconds_for(5, 100_000) == MOST_SECONDS
    assert seconds_for(60, 100_000) == 60, "who has set a longer timeout gets it"
    assert min(DURATION_SECONDS, MAX_AGE) > MOST_SECONDS


NOT_CONTROLLER = errors.NotControllerError.errno


def test_whoever_is_not_the_controller_says_so_and_then_that_one_is_asked(changes):
    moved, brokers = changes({1: [(0, altered(whole=NOT_CONTROLLER))], 2: [(0, altered(0))]})
    assert moved.alter_reassignments({ORDERS[0]: (1, 2)}) == {}
    assert [broker for broker, _ in brokers.sent] == [1, 2]
    elections, brokers = changes({1: [(0, elected(NOT_CONTROLLER))], 2: [(0, elected(0))]})
    assert elections.elect_preferred(ORDERS[:1]) == {}
    assert [broker for broker, _ in brokers.sent] == [1, 2]
    nobody, brokers = changes({1: [(0, altered(whole=NOT_CONTROLLER))], 2: [(0, altered(whole=NOT_CONTROLLER))]})
    with pytest.raises(WriteFailed, match="NotController"):
        nobody.alter_reassignments({ORDERS[0]: (1, 2)})
    assert len(brokers.sent) == 2


def test_what_is_refused_is_named_unless_it_is_as_wanted_already(changes):
    over, refused = errors.NoReassignmentInProgressError.errno, errors.UnknownTopicOrPartitionError.errno
    asked, _ = changes({1: [(0, altered(0, refused, over, over))]})
    targets = {ORDERS[0]: (1, 2), ORDERS[1]: (1, 9), ORDERS[2]: None, ORDERS[3]: (1, 2)}
    assert asked.alter_reassignments(targets) == {
        ORDERS[1]: "UnknownTopicOrPartitionError",
        ORDERS[3]: "NoReassignmentInProgressError",
    }
    elections, _ = changes({1: [(0, elected(errors.ElectionNotNeededError.errno, 80, 0))]})
    assert set(elections.elect_preferred(ORDERS[:3])) == {ORDERS[1]}
