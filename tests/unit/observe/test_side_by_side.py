"""What does not need another's answer is read at the same time, and nobody waits twice for a broker that hangs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import BrokerView, KafkaReads, PartitionState
from kafka_medic.clients.zookeeper import Registrations
from kafka_medic.cluster.elements import group_unread, log_dirs_unread, settings_unread
from kafka_medic.cluster.snapshot import Controller, Quorum, Snapshot, TopicPartition, Voter
from kafka_medic.observe.contents import read_bounds
from kafka_medic.observe.divergence import diverged_logs, stale_leaderships
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from kafka_medic.observe.sources import THREADS
from tests.simulation.kafka import SimKafka
from tests.simulation.log_bounds import bounds_table, led_table
from tests.testbed.steps import StepFailedError, wait_for

SECONDS = 20
"""Until a test gives up waiting for what has to come about."""
TOLD = "Unreachable: metadata of broker 2: no answer"
LEADERS: dict[str, Callable[[Any], set[int]]] = {
    "views": set,
    "memberships": set,
    "log_dirs": set,
    "broker_configs": set,
    "unnamed_views": set,
    "log_bounds": lambda led: set(led["leader"].to_pylist()),
    "own_log_ends": lambda broker: {broker},
    "epoch_ends": lambda broker: {broker},
}


class Kafka:
    """A SimKafka that tells who was asked what. `hung` tells nothing, though it is registered and leads. Those named
    in `together` wait for each other: a look that reads them one after the other does not end."""

    def __init__(self, hung: int | None = None, together: tuple[str, ...] = ()) -> None:
        self.inner = SimKafka()
        self.inner.topic("orders", [1, 0, 2], [2, 1], [0, 1])
        self.inner.committed = {"billing": {TopicPartition("orders", 0): 10}}
        self.hung, self.asked, self.begun = hung, list[tuple[str, int]](), list[str]()
        self.together, self.barrier = together, threading.Barrier(len(together) or 1, timeout=SECONDS)
        self.instead: dict[str, Callable[..., Any]] = {}

    def __getattr__(self, name: str) -> Any:
        whom = LEADERS.get(name)

        def ask(*given: Any) -> Any:
            self.begun.append(name)
            if name in self.together:
                self.barrier.wait()
            self.asked += [(name, b) for b in sorted(whom(given[0]) if whom else ())]
            answer = self.instead.get(name, getattr(self.inner, name))(*given)
            if name in ("views", "memberships") and self.hung in answer:
                answer = {**answer, self.hung: ReadFailed(FailureKind.UNREACHABLE, "metadata of broker 2: no answer")}
            return answer

        return ask


class Ensemble:
    def __init__(self, meet: Callable[[], Any]) -> None:
        self.meet = meet

    def registrations(self) -> Registrations:
        self.meet()
        return Registrations((0, 1, 2), Controller(0, 1))

    def ensemble(self) -> Quorum:
        self.meet()
        return Quorum(1, (Voter(1, 0, 0),))

    def close(self) -> None: ...


def look(kafka: Any, **more: Any) -> Snapshot:
    reads: KafkaReads = kafka
    return observe_cluster("c", ClusterReaders(reads, **more))


def error(snapshot: Snapshot, name: str) -> str | None:
    source = snapshot.source(name)
    assert source is not None
    return source.error


@pytest.mark.parametrize(
    "together",
    [
        ("views", "quorum", "version", "reassignments"),  # the controller tells two of them: should it hang, at once
        ("log_dirs", "topic_configs", "broker_configs", "groups"),
    ],
)
def test_sources_that_do_not_need_each_other_are_read_at_the_same_time(together):
    snapshot = look(Kafka(together=together))
    assert [s.name for s in snapshot.sources if not s.known] == []


def test_kubernetes_zookeeper_and_kafka_are_asked_who_is_there_at_the_same_time():
    kafka = Kafka()
    met = threading.Barrier(4, timeout=SECONDS)
    kafka.instead["describe_cluster"] = lambda: (met.wait(), kafka.inner.describe_cluster())[1]
    snapshot = look(kafka, zookeeper=Ensemble(met.wait), pods=lambda: (met.wait(), {})[1])
    assert [s.name for s in snapshot.sources if not s.known] == []


def test_committed_offsets_are_read_before_log_ends_and_pods_before_what_is_rolled_out_over_them():
    kafka = Kafka()
    order = []
    kafka.instead["log_bounds"] = lambda *a: (order.append("log-ends"), kafka.inner.log_bounds(*a))[1]

    def slow(name: str, read: Callable[[], Any]) -> Any:
        threading.Event().wait(0.05)  # whoever does not wait for it is done by then
        order.append(name)
        return read()

    kafka.instead["groups"] = lambda *asked: slow("groups", lambda: kafka.inner.groups(*asked))
    look(kafka, pods=lambda: slow("pods", dict), rollouts=lambda: order.append("rollouts") or ())
    assert order.index("groups") < order.index("log-ends")
    assert order.index("pods") < order.index("rollouts")


def test_a_broker_that_did_not_answer_is_not_asked_again_in_the_same_look():
    kafka = Kafka(hung=2)
    look(kafka)
    assert [asked for asked in kafka.asked if asked[1] == 2] == [("views", 2)]
    kafka.asked.clear()
    look(kafka)
    assert ("views", 2) in kafka.asked, "the next look asks it anew"


def test_what_only_a_hung_broker_could_tell_is_unknown_for_that_reason_and_the_rest_is_known():
    snapshot = look(Kafka(hung=2))
    hung = snapshot.broker(2)
    assert hung is not None
    assert (hung.registered, hung.reachable) == (True, False)
    ends = {(row.topic, row.partition): (row.leader, row.log_end) for row in snapshot.rows()}
    assert ends == {("orders", 0): (1, 21), ("orders", 1): (2, None), ("orders", 2): (0, 21)}
    assert error(snapshot, "log-ends") == f"1 partition whose leader did not answer: broker 2: {TOLD}"
    assert error(snapshot, "log-dirs") == error(snapshot, "configs") == f"broker 2: {TOLD}"
    assert error(snapshot, "groups") == f"groups of broker 2: {TOLD}"
    assert snapshot.groups.to_pylist()[0]["group"] == "billing"
    assert group_unread(snapshot, "billing") is None
    assert group_unread(snapshot, "gone") == f"broker 2 did not list its groups: {TOLD}", "or it may be one of broker 2"
    assert settings_unread(snapshot, "BROKER", "2") == log_dirs_unread(snapshot, 2) == TOLD
    assert [s.name for s in snapshot.sources if not s.known] == []
    assert all(s.observed_at is not None for s in snapshot.sources)


def test_a_hung_leader_is_not_asked_where_logs_part():
    def view(broker: int, leader: int, epoch: int) -> Any:
        return BrokerView.of(broker, (1, 2, 3), None, [PartitionState("orders", 0, leader, epoch, (1, 2, 3), (1, 2))])

    newest = view(1, 2, 7)
    stale = stale_leaderships({1: newest, 3: view(3, 3, 5)}, newest.states)[3]
    silent = {2: ReadFailed(FailureKind.UNREACHABLE, "no answer")}
    kafka: Any = Kafka()
    with pytest.raises(ReadFailed, match="no answer"):
        diverged_logs(kafka, 3, stale, silent)
    assert kafka.begun == []


def test_leaders_that_hang_only_now_leave_their_own_log_ends_unknown():
    kafka: Any = Kafka()
    refused = ReadFailed(FailureKind.UNREACHABLE, "no answer")
    leaders = {TopicPartition("orders", n): n for n in range(3)}
    led = led_table(leaders)
    kafka.instead["log_bounds"] = lambda _: {
        b: refused if b == 1 else bounds_table({tp: (0, 5)}) for tp, b in leaders.items()
    }
    found, told = read_bounds(kafka, led, {})
    assert set(found["partition"].to_pylist()) == {0, 2}
    assert told == "1 partition whose leader did not answer: broker 1: Unreachable: no answer"
    kafka.instead["log_bounds"] = lambda _: dict.fromkeys(range(3), refused)
    with pytest.raises(ReadFailed, match="no answer"):
        read_bounds(kafka, led, {})
    with pytest.raises(ReadFailed, match="no answer"):
        read_bounds(kafka, led, dict.fromkeys(range(3), refused))


def test_an_observation_has_a_bounded_number_of_threads_and_the_next_one_has_the_same():
    kafka = Kafka()
    for n in range(50):
        kafka.inner.topic(f"t{n}", [0, 1], [1, 2], [2, 0])
    before, counts = set(threading.enumerate()), []

    def counted(*_: Any) -> Any:
        counts.append(len(set(threading.enumerate()) - before))
        return kafka.inner.groups(lambda _: True)

    kafka.instead["groups"] = counted
    for _ in range(5):
        look(kafka, pods=dict)
    assert max(counts) <= THREADS


def test_a_fault_of_ours_in_one_source_is_heard_and_leaves_nothing_at_work():
    kafka, ended = Kafka(), []

    def slow(*_: Any) -> Any:
        threading.Event().wait(0.3)
        ended.append("groups")
        return kafka.inner.groups(lambda _: True)

    kafka.instead["reassignments"] = lambda: 1 // 0
    kafka.instead["groups"] = slow
    with pytest.raises(ZeroDivisionError):
        look(kafka)
    assert ended == ["groups"]


def test_a_forked_process_observes_with_threads_of_its_own():
    """It has none of its parent's, which would be waited for in vain."""
    look(Kafka())
    child = os.fork()
    if child == 0:
        look(Kafka())
        os._exit(7)
    code: int | None = None

    def ended() -> bool:
        nonlocal code
        pid, status = os.waitpid(child, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if pid else None
        return pid != 0

    try:
        wait_for("the child", ended, 30)
    except StepFailedError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert code == 7
