"""What is asked of several brokers at the same time: one that hangs costs one timeout, and nobody else's answer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors
from kafka.future import Future
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from kafka_medic.clients import kafka_link
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kafka_admin import KafkaAdmin
from kafka_medic.clients.kafka_link import KafkaLink
from kafka_medic.clients.ports import Connection, Node

SECONDS = 0.4
HANGS = object()


class Brokers:
    """kafka-python's loop as it is, with brokers that answer at once, fail, or hang."""

    def __init__(self, answers: dict[int, Any]) -> None:
        self.answers, self.asked, self.closed = answers, list[int](), False
        self._net = NetworkSelector()
        self._net.start()
        self.run, self.call_soon = self._net.run, self._net.call_soon_with_future
        nodes = [SimpleNamespace(node_id=broker, host=f"broker-{broker}", port=9092) for broker in answers]
        self.cluster = SimpleNamespace(brokers=lambda: nodes, _brokers={}, _coordinator_brokers={})
        self._manager = self

    def reset_backoff(self, _: int) -> None: ...

    def send(self, _: Any, broker: int, __: int) -> Any:
        self.asked.append(broker)
        answer = self.answers[broker]
        if answer is HANGS:
            return Future()
        return Future().failure(answer) if isinstance(answer, Exception) else Future().success(answer)

    async def wait_for(self, future: Any, milliseconds: float) -> Any:
        return await KafkaConnectionManager.wait_for(self, future, milliseconds)  # type: ignore[arg-type]

    def close(self) -> None:
        self.closed = True
        self._net.stop()


Linked = Callable[..., tuple[KafkaLink, Brokers]]


@pytest.fixture
def linked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Linked]:
    links = []

    def link(answers: dict[int, Any], seconds: float = SECONDS) -> tuple[KafkaLink, Brokers]:
        brokers = Brokers(answers)
        made = KafkaLink(Connection("127.0.0.1:1", timeout_seconds=seconds))
        monkeypatch.setattr(kafka_link, "_connect", lambda _: brokers)
        links.append(made)
        return made, brokers

    yield link
    for made in links:
        made.close()


def told(broker: int, controller: int = -1) -> Any:
    node = SimpleNamespace(node_id=broker, host=f"10.0.0.{broker}", port=9092, rack="zone-1")
    return SimpleNamespace(cluster_id="c", controller_id=controller, brokers=[node])


def seconds_of(work: Callable[[], Any]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def failing(read: Callable[[], Any]) -> Callable[[], None]:
    def attempt() -> None:
        with pytest.raises(ReadFailed):
            read()

    return attempt


def test_who_is_there_is_told_by_whoever_answers_first(linked: Linked):
    link, brokers = linked({0: HANGS, 1: told(2), 2: HANGS}, 30)
    assert seconds_of(lambda: link.members(lambda: None)) < 20
    assert sorted(brokers.asked) == [0, 1, 2]


def test_a_broker_that_came_back_can_be_asked_before_the_client_reads_metadata_anew(linked: Linked):
    link, brokers = linked({1: told(2)})
    admin = KafkaAdmin(Connection("127.0.0.1:1"))
    admin._link = link
    assert admin.members().nodes == (Node(2, "10.0.0.2", 9092, "zone-1"),)
    assert {b: n.host for b, n in brokers.cluster._brokers.items()} == {2: "10.0.0.2"}
    assert set(brokers.cluster._coordinator_brokers) == {2}


def test_nobody_there_is_unreachable_and_the_next_question_begins_with_a_new_connection(linked: Linked):
    link, brokers = linked({0: HANGS, 1: errors.KafkaConnectionError()})
    with pytest.raises(ReadFailed) as failed:
        link.members(lambda: None)
    assert failed.value.kind is FailureKind.UNREACHABLE
    assert not brokers.closed
    with pytest.raises(ReadFailed):
        link.members(lambda: None)
    assert brokers.closed


def test_what_any_broker_knows_is_asked_of_one_that_has_just_answered(linked: Linked):
    link, brokers = linked({0: HANGS, 1: told(1), 2: HANGS})
    link.members(lambda: None)
    brokers.asked.clear()
    assert link.ask_anyone(lambda: None, "quorum")[0] == 1
    assert brokers.asked == [1]


@pytest.mark.parametrize(("answers", "asked"), [({}, 2), ({2: HANGS}, 1)])
def test_the_controller_is_asked_if_it_answers(linked: Linked, answers: dict[int, Any], asked: int):
    link, brokers = linked({1: told(1, controller=2), 2: told(2, controller=2)} | answers)
    link.members(lambda: None)
    brokers.asked.clear()
    assert link.ask_anyone(lambda: None, "settings")[0] == asked
    assert brokers.asked == [asked]


def test_one_that_says_who_is_there_and_no_more_is_spared_for_a_while(linked: Linked):
    """Cut off from ZooKeeper, it would lose a request thread to each such question."""
    link, brokers = linked({1: told(1, controller=2), 2: told(2, controller=2)})
    link.members(lambda: None)
    brokers.answers[2] = errors.KafkaTimeoutError()
    assert link.ask_anyone(lambda: None, "settings")[0] == 1
    assert 2 in brokers.asked
    brokers.answers[2] = told(2, controller=2)
    link.members(lambda: None)
    brokers.asked.clear()
    assert link.ask_anyone(lambda: None, "settings")[0] == 1
    assert brokers.asked == [1]


def test_what_is_passed_on_to_the_controller_is_asked_of_two_and_the_first_answer_counts(linked: Linked):
    """A broker that is cut off from the quorum says at once who is there, and nothing of what the controller knows."""
    link, brokers = linked({0: told(0), 1: told(1), 2: told(2)})
    link.members(lambda: None)
    quickest, second, _ = link._answered
    brokers.answers[quickest] = HANGS
    took = seconds_of(lambda: link.ask_anyone(lambda: None, "quorum", at_once=2))
    assert took < SECONDS / 2
    brokers.answers[quickest] = errors.KafkaConnectionError()
    assert link.ask_anyone(lambda: None, "quorum", at_once=2)[0] == second
    brokers.answers[second] = errors.NotControllerError()
    with pytest.raises(ReadFailed):
        link.ask_anyone(lambda: None, "quorum", at_once=2)


def test_brokers_that_hang_cost_one_timeout_between_them(linked: Linked):
    link, brokers = linked({0: HANGS, 1: "yes", 2: HANGS, 3: HANGS, 4: errors.KafkaConnectionError()})
    answers: dict[int, Any] = {}
    took = seconds_of(
        lambda: answers.update(link.ask_each(range(5), lambda _: None, lambda b, told: (b, told), "metadata"))
    )
    assert SECONDS <= took < 3 * SECONDS, "one after the other"
    assert answers.pop(1) == (1, "yes")
    assert {b: a.kind for b, a in answers.items()} == dict.fromkeys((0, 2, 3, 4), FailureKind.UNREACHABLE)
    assert str(answers[2]) == "Unreachable: metadata of broker 2: no answer in time"
    assert sorted(brokers.asked) == [0, 1, 2, 3, 4]


def test_a_question_that_waits_delays_no_other(linked: Linked):
    link, _ = linked({0: HANGS, 1: "yes"}, 2)
    failed: list[Exception] = []

    def wait() -> None:
        try:
            link.ask(0, None, "log ends")
        except ReadFailed as problem:
            failed.append(problem)

    waiting = threading.Thread(target=wait)
    waiting.start()
    link.ask(1, None, "log ends")
    assert waiting.is_alive()
    waiting.join()
    assert [type(f) for f in failed] == [ReadFailed]


def test_a_client_that_somebody_uses_is_not_closed_under_them(linked: Linked):
    link, brokers = linked({0: HANGS, 1: ValueError("garbage")})
    waiting = threading.Thread(target=failing(lambda: link.ask(0, None, "log ends")))
    waiting.start()
    deadline = time.monotonic() + 5
    while 0 not in brokers.asked and time.monotonic() < deadline:
        time.sleep(0.005)
    for _ in range(2):
        with pytest.raises(ReadFailed):
            link.ask(1, None, "log ends")
    assert not brokers.closed
    waiting.join()
    with pytest.raises(ReadFailed):
        link.ask(1, None, "log ends")
    assert brokers.closed


def test_a_cluster_that_is_away_costs_no_thread():
    before = set(threading.enumerate())
    link = KafkaLink(Connection("127.0.0.1:1,127.0.0.2:1", timeout_seconds=SECONDS))
    for _ in range(3):
        with pytest.raises(ReadFailed):
            link.members(lambda: None)
    link.close()
    deadline = time.monotonic() + 5
    while (left := set(threading.enumerate()) - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left


def test_servers_that_hang_do_not_keep_a_connection_from_coming_about(monkeypatch: pytest.MonkeyPatch):
    over, late = threading.Event(), list[Any]()

    def opened(settings: Any) -> Any:
        (server,) = settings["bootstrap_servers"]
        client = SimpleNamespace(server=server, close=lambda: late.append(server))
        if server != "good:9092":
            over.wait(10)
        return client

    monkeypatch.setattr(kafka_link, "_opened", opened)
    found: Any = kafka_link._connect({"bootstrap_servers": ["hung:9092", "good:9092", "hung:9093"]})
    assert found.server == "good:9092"
    over.set()
    deadline = time.monotonic() + 5
    while len(late) < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert sorted(late) == ["hung:9092", "hung:9093"]


def test_a_server_that_accepts_and_is_silent_costs_one_timeout():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        link = KafkaLink(Connection(f"127.0.0.1:{port}", timeout_seconds=SECONDS))
        took = seconds_of(failing(lambda: link.members(lambda: None)))
        link.close()
    assert took < 10


def test_a_controller_that_hangs_holds_up_nothing_that_brokers_know_themselves(monkeypatch: pytest.MonkeyPatch):
    clients: list[Brokers] = []

    def connect(_: Any) -> Brokers:
        clients.append(Brokers({1: told(1), 2: told(2)} if not clients else {1: HANGS, 2: HANGS}))
        return clients[-1]

    monkeypatch.setattr(kafka_link, "_connect", connect)
    admin = KafkaAdmin(Connection("127.0.0.1:1", timeout_seconds=SECONDS))
    admin.members()
    asked = list(clients[0].asked)
    for number in (1, 2):  # by connections of their own, new ones each time, to those that were heard from
        with pytest.raises(ReadFailed):
            admin.quorum()
        assert sorted(clients[number].asked) == [1, 2]
        assert clients[number].cluster._brokers, "and where they are"
    assert clients[0].asked == asked
    assert not clients[0].closed
    admin.close()
    assert all(client.closed for client in clients)


@pytest.mark.parametrize(("lasts", "attempts"), [(4.5, 1), (1.5, 3), (0.2, 17)])
def test_no_second_attempt_for_which_there_is_no_time(
    monkeypatch: pytest.MonkeyPatch, lasts: float, attempts: int
) -> None:
    """Else a question with a limit of five seconds takes nine: one attempt that ends just before, and a whole other."""
    link = KafkaLink(Connection("nobody:9092", timeout_seconds=5.0))
    clock = [0.0]

    def passes(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(kafka_link, "_connect", lambda _: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(kafka_link, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=passes))
    begun = []

    def slow(_: Any) -> None:
        begun.append(clock[0])
        passes(lasts)
        raise errors.KafkaTimeoutError("late")

    with pytest.raises(ReadFailed):
        link.call(slow, ReadFailed, "anything")
    assert len(begun) == attempts
    assert clock[0] < 5.1
