"""What comes in between while replicas are copied, on real parts: a person who stops, pauses or reassigns, a topic that
goes or grows, a broker that is away. Ours in flight is cancelled, every throttle is as it was, and what is left is
proposed anew."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, ConfigChange, Connection
from kafka_medic.cluster.snapshot import TopicPartition
from tests.conftest import one_of_each_kind
from tests.e2e.conftest import STEADY, Case, at_the_same_time
from tests.gameday.cluster import RATES, REPLICAS
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, Shape, kubectl, wait_for

SLOTS: dict[Shape, int] = {"kraft": 9, "zookeeper": 11}
SLOW = {"throttleBytesPerSecond": 1_000_000}
IN_WAVES = SLOW | {"waveBytesPerBroker": 10_000_000}
"""The least that the playbook allows; a partition of 5 MB, sent twice, fills a wave."""
AWAY = 2
_NODES = threading.Lock()
"""Held while one is cordoned: the deployments share them."""


@pytest.fixture
def deployments(request: pytest.FixtureRequest, installed: None) -> list[KafkaDeployment]:
    made = one_of_each_kind(request, "gameday-drift", STEADY | {"auto.leader.rebalance.enable": "false"}, SLOTS)
    for kafka in made:
        operator.people(kafka.namespace)
    return made


def test_what_comes_in_between(deployments: list[KafkaDeployment]) -> None:
    at_the_same_time(everything, deployments)


def everything(kafka: KafkaDeployment) -> None:
    stories: list[Callable[[Raise], None]] = [
        aborted,
        paused_while_a_topic_grows,
        a_topic_deleted,
        taken_over_by_somebody,
        aborted_while_a_broker_is_away,
    ]
    for story in stories:
        begun = time.monotonic()
        with raising(kafka) as run:
            story(run)
        print(f"{kafka.shape}: {story.__name__} {time.monotonic() - begun:.0f} s", flush=True)


class Raise:
    """A KafkaCluster of its own, and throttles of somebody else's that are there before."""

    def __init__(self, kafka: KafkaDeployment) -> None:
        self.case = Case(kafka, f"drift-{uuid.uuid4().hex[:4]}")
        self.client = RealKafka(Connection(kafka.bootstrap, timeout_seconds=10.0))
        self.before: list[str] = []

    def topic(self, partitions: int, suffix: str = "orders") -> str:
        """With so many partitions of 5 MB each, all on broker 0."""
        name = self.case.topic(*[[0]] * partitions, suffix=suffix, config={"min.insync.replicas": "1"})
        for partition in range(partitions):
            assert records.write(self.case.boot, name, ["x" * 500_000] * 10, partition) == 10
        return name

    def begin(self, parameters: dict[str, int], theirs: str) -> operator.Object:
        """Proposed, approved, and the first wave in flight under its throttle."""
        changes = [ConfigChange("BROKER", "1", RATES[1], "7000000"), ConfigChange("TOPIC", theirs, REPLICAS[0], "9:0")]
        self.client.alter_configs(changes)
        wait_for("their throttles", lambda: len(operator.throttles(self.case.boot)) == len(changes), 30)
        self.before = operator.throttles(self.case.boot)
        overrides = [
            {"name": "raise-replication-factor", "parameters": parameters},
            {"name": "remove-leftover-throttles", "mode": "Observe"},
        ]
        self.case.watch(remediation={"limits": {"cooldown": "0s"}, "playbooks": overrides})
        run = self.case.wait("AwaitingApproval")
        assert operator.approve(run, "alice").returncode == 0
        wait_for("the first wave in flight", lambda: bool(self.moving()), 60)
        assert operator.throttles(self.case.boot) != self.before
        return run

    def until(self, run: operator.Object, phase: str, seconds: float = 120) -> operator.Object:
        return operator.wait_for_run(self.case.namespace, phase, seconds, name=run["metadata"]["name"])

    def as_it_was(self) -> None:
        """Nothing of ours is in flight, and nothing throttled that was not."""
        assert self.moving() == set()
        assert operator.throttles(self.case.boot) == self.before

    def again(self, old: operator.Object, partitions: int) -> None:
        """What is left is proposed anew, approved, and done."""
        run = self.case.wait("AwaitingApproval")
        assert run["metadata"]["name"] != old["metadata"]["name"]
        assert run["status"]["plan"]["partitions"] == partitions
        assert operator.approve(run, "alice").returncode == 0
        self.until(run, "Succeeded", 180)
        assert self.case.factors() == {3}
        assert {self.floor(topic) for topic in self.case.topics} == {"2"}
        self.as_it_was()

    def moving(self) -> set[TopicPartition] | None:
        """What is being reassigned; None while nobody can tell."""
        try:
            self.client.describe_cluster()
            return set(self.client.reassignments())
        except ReadFailed:
            return None

    def floor(self, topic: str) -> str | None:
        return self.client.topic_configs([topic])[topic]["min.insync.replicas"].value

    def replicas(self, tp: TopicPartition) -> list[int]:
        view = self.client.views([0])[0]
        assert isinstance(view, BrokerView)
        return next(list(p.replicas) for p in view.partitions if (p.topic, p.partition) == tp)

    def pause(self, paused: bool) -> None:
        patch = f'{{"spec":{{"remediation":{{"paused":{str(paused).lower()}}}}}}}'
        kubectl("patch", "kafkacluster", self.case.name, "-n", self.case.namespace, "--type=merge", "-p", patch)


@contextmanager
def raising(kafka: KafkaDeployment) -> Iterator[Raise]:
    run = Raise(kafka)
    try:
        yield run
    finally:
        run.case.end()
        run.client.alter_configs([ConfigChange("BROKER", "1", RATES[1], None)])
        run.client.close()


def aborted(run: Raise) -> None:
    topic = run.topic(6)
    begun = run.begin(SLOW, topic)
    told = begun_progress(run, begun)
    assert (told["unit"], told["total"]) == ("partitions", 6)
    assert told["bytesTotal"] > 2 * 6 * 5_000_000 > told.get("bytesDone", 0)
    assert 0 < told["secondsLeft"] <= 61
    assert operator.approve(begun, "alice", "Reject").returncode == 0
    done = run.until(begun, "Aborted")
    run.as_it_was()
    assert 1 in run.case.factors(), "cancelled, and not finished in the meantime"
    assert {e["id"].partition("/")[2] for e in done["status"]["journal"]} >= {"cancel", "restore-throttle"}
    assert run.floor(topic) == "1"


def begun_progress(run: Raise, begun: operator.Object) -> operator.Object:
    """How far it is said to be: bytes, partitions, time."""
    found: list[operator.Object] = []

    def told() -> bool:
        (now,) = (r for r in run.case.runs() if r["metadata"]["name"] == begun["metadata"]["name"])
        found[:] = [s["progress"] for s in now["status"]["steps"] if "bytesTotal" in s.get("progress", {})]
        return bool(found)

    wait_for("progress", told, 30)
    return found[0]


def paused_while_a_topic_grows(run: Raise) -> None:
    first, second = run.topic(2, "a"), run.topic(1, "b")
    begun = run.begin(IN_WAVES, first)
    run.pause(True)
    run.case.wait_for_guard("NotPaused", 90)
    wait_for("what was sent to end", lambda: run.moving() == set(), 60)
    assert run.replicas(TopicPartition(second, 0)) == [0], "nothing more is sent"
    assert operator.throttles(run.case.boot) != run.before, "the throttle stays"
    admin = AdminClient({"bootstrap.servers": run.case.boot})
    admin.create_partitions([NewPartitions(second, 2)])[second].result(30)
    run.pause(False)
    # All that was planned is done. A minimum that the new partition cannot meet is not set.
    done = run.until(begun, "Superseded", 180)
    assert f"{second}-1" in done["status"]["message"]
    assert len(run.replicas(TopicPartition(second, 0))) == 3
    run.as_it_was()
    assert run.floor(second) == "1"
    run.again(begun, 1)


def a_topic_deleted(run: Raise) -> None:
    kept, doomed = run.topic(6), run.topic(1, "doomed")
    begun = run.begin(SLOW, kept)
    # On ZooKeeper it goes when its reassignment ends.
    records.delete_topic(run.case.boot, doomed)
    run.case.topics.remove(doomed)
    done = run.until(begun, "Succeeded", 300)
    assert done["status"]["deletedTopics"] == [doomed]
    assert doomed in done["status"]["message"]
    run.as_it_was()
    assert all(len(run.replicas(TopicPartition(kept, n))) == 3 for n in range(6))


def taken_over_by_somebody(run: Raise) -> None:
    topic = run.topic(6)
    begun = run.begin(SLOW, topic)
    theirs = TopicPartition(topic, 5)
    # A reassignment that takes the place of ours without this, and adds fewer replicas, KRaft never ends (4.3.1).
    assert run.client.alter_reassignments({theirs: None}) == {}
    assert run.client.alter_reassignments({theirs: (0, 1)}) == {}
    done = run.until(begun, "Superseded")
    assert str(theirs) in done["status"]["message"]
    assert operator.throttles(run.case.boot) == run.before
    assert (run.moving() or set()) <= {theirs}, "ours are cancelled, theirs is not"
    wait_for("their reassignment", lambda: run.moving() == set(), 60)
    assert run.replicas(theirs) == [0, 1]
    run.again(begun, sum(len(run.replicas(TopicPartition(topic, n))) < 3 for n in range(6)))


def aborted_while_a_broker_is_away(run: Raise) -> None:
    """On a node that is cordoned nobody gets a replica, so the deployments take turns."""
    topic, kafka = run.topic(6), run.case.kafka
    with _NODES:
        begun = run.begin(SLOW, topic)
        kafka.stop_broker(AWAY)
        try:
            assert operator.approve(begun, "alice", "Reject").returncode == 0
            wait_for("the reassignments cancelled", lambda: run.moving() == set(), 90)

            def told() -> bool:
                (now,) = (r for r in run.case.runs() if r["metadata"]["name"] == begun["metadata"]["name"])
                return f"the throttle of broker {AWAY} is still set" in now["status"]["message"]

            wait_for("what is left to do, told", told, 60)
            others = [text for text in run.before if not text.startswith(f"broker {AWAY}")]
            assert operator.throttles_on(run.case.boot, [0, 1]) == others
        finally:
            kafka.start_broker(AWAY)
        run.until(begun, "Aborted", 90)
    run.as_it_was()
