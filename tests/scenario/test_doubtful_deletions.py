"""Topics that are perhaps deleted: nobody reports them, or too few. Nothing is taken for deleted that is not, and what
is certain does not wait for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from kafka_medic.clients.answers import LogDirs
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import BrokerView
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.observe import view_reads
from tests.scenario.four_brokers import QUIET, throttles
from tests.scenario.test_deleted_topics import GOES, _hidden, approved, copying, several
from tests.scenario.test_leftover_throttles import proposed, world
from tests.scenario.test_owned_topics import strimzi
from tests.simulation.brokers import MIN_ISR
from tests.simulation.kafka import SimKafka
from tests.simulation.topic_operator import TOPICS
from tests.simulation.world import BASE, BROKERS, World

__all__ = ["world"]

MANY = 12
Answers = Mapping[int, BrokerView | ReadFailed]


def step(of: World, times: int, seconds: float = 15.0) -> None:
    for _ in range(times):
        of.step(seconds)


def under_way() -> World:
    found = approved(several(copies=0))
    found.until(lambda: copying(found), seconds=1.0)
    step(found, 2)
    return found


def hidden(of: World) -> Callable[[], None]:
    """The topic is there, and the operator may not see it. Returns what ends that."""
    seen = of.kafka._answers

    def without(brokers: Sequence[int]) -> Answers:
        return {b: _hidden(a) if isinstance(a, BrokerView) else a for b, a in seen(brokers).items()}

    def again() -> None:
        of.kafka._answers = seen  # type: ignore[method-assign]

    of.kafka._answers = without  # type: ignore[method-assign]
    return again


def paused(of: World, so: bool) -> None:
    of.api.touch(f"{BASE}/namespaces/ns/kafkaclusters/c")["spec"].setdefault("remediation", {})["paused"] = so


@pytest.mark.parametrize("brokers", ["all", "holders"])
def test_directories_that_are_not_read_list_nothing_and_deny_nothing(brokers: str) -> None:
    run = under_way()
    seen_again, log_dirs = hidden(run), run.kafka.log_dirs
    unread = range(4) if brokers == "all" else run.kafka.partitions[TopicPartition(GOES, 0)].replicas
    failed = ReadFailed(FailureKind.OTHER, "CLUSTER_AUTHORIZATION_FAILED")

    def some_read(brokers: Sequence[int]) -> Mapping[int, LogDirs | ReadFailed]:
        return {b: failed if b in unread else a for b, a in log_dirs(brokers).items()}

    run.kafka.log_dirs = some_read  # type: ignore[method-assign]
    step(run, 1, 1.0)
    assert run.run().status.deleted_topics == ()
    seen_again()
    run.kafka.log_dirs = log_dirs  # type: ignore[method-assign]
    run.kafka.copies_per_tick = 2
    step(run, 60)
    assert (run.run().status.phase, throttles(run)) == ("Succeeded", [])
    assert all(3 not in p.replicas for p in run.kafka.partitions.values())


def test_a_topic_that_shows_again_under_its_id_never_was_deleted() -> None:
    run = under_way()
    run.api.touch(f"{BASE}/namespaces/ns/remediations/{run.run().name}")["status"]["deletedTopics"] = [GOES]
    run.kafka.copies_per_tick = 2
    step(run, 60)
    assert (run.run().status.phase, run.run().status.deleted_topics, throttles(run)) == ("Succeeded", (), [])
    assert all(3 not in p.replicas for p in run.kafka.partitions.values())


def test_what_is_certain_is_cleaned_up_beside_what_is_not() -> None:
    run = under_way()
    seen_again = hidden(run)
    run.approve(run.run(), decision="Reject")
    step(run, 40)
    assert run.run().status.phase == "Blocked"
    assert f"the throttle of topic {GOES} is still set" in run.run().status.message
    assert {name for _, name, _ in throttles(run)} == {GOES}
    others = {tp: p for tp, p in run.kafka.partitions.items() if tp.topic != GOES}
    assert not any(p.adding for p in others.values())
    seen_again()
    step(run, 20)
    assert (run.run().status.phase, throttles(run)) == ("Aborted", [])


@pytest.mark.parametrize("how", ["stop", "deaf"])
def test_the_last_broker_and_its_old_view_are_no_majority(how: str) -> None:
    """With ZooKeeper a broker that is down is not registered."""
    before = SimKafka(racks=dict.fromkeys(range(4)), zookeeper=True).image(0).view
    run = approved(several(zookeeper=True, copies=0))
    run.until(lambda: copying(run), seconds=1.0)
    step(run, 2)
    run.kafka.stale[0] = before
    for broker in (1, 2, 3):
        run.kafka.stop(broker) if how == "stop" else run.kafka.deaf.add(broker)
    step(run, 4)
    assert run.run().status.deleted_topics == ()
    run.kafka.heal(0)
    run.kafka.deaf = set()
    for broker in {1, 2, 3} - run.kafka.up:
        run.kafka.start(broker)
    run.kafka.copies_per_tick = 2
    step(run, 60)
    assert (run.run().status.phase, run.run().status.deleted_topics, throttles(run)) == ("Succeeded", (), [])


@pytest.mark.parametrize("reject", [False, True], ids=["continued", "rejected"])
def test_everybody_of_a_large_cluster_is_asked_about_it(reject: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody watched the deletion, so nothing has changed since, for an operator that begins anew."""
    for name, rows in (("ROWS_AT_MOST", 0), ("SLICE_ROWS", 100), ("ACTING_SLICE_ROWS", 100), ("FEWEST", 1)):
        monkeypatch.setattr(view_reads, name, rows)
    kafka, last = SimKafka(racks=dict.fromkeys(range(MANY))), MANY - 1
    for n in range(4):
        kafka.topic(f"orders{n}", [last, 1, 2], size=1_000_000)
    for n in range(MANY):
        kafka.topic(f"other{n}", [n, (n + 1) % MANY, (n + 2) % MANY], size=1000)
    kafka.dynamic |= {("TOPIC", tp.topic, MIN_ISR): "2" for tp in kafka.partitions}
    kafka.copies_per_tick = 0
    run = World(kafka)
    run.install(brokers=BROKERS, remediation=QUIET)
    run.with_pods()
    run.ask("evacuate-broker", brokers=str(last), batchSize="1")
    run.approve(run.until_phase("AwaitingApproval"))
    run.until(lambda: len(kafka.partitions[TopicPartition(GOES, 0)].replicas) == 4, seconds=1.0)
    kafka.delete(GOES)
    run.operator()
    if reject:
        run.approve(run.run(), decision="Reject")
    kafka.copies_per_tick = 2
    run.until_phase("Aborted" if reject else "Succeeded")
    assert (run.run().status.deleted_topics, throttles(run)) == ((GOES,), [])


def test_rates_of_brokers_are_removed_where_the_topic_is_gone(world: World) -> None:
    world.kafka.topic("payments", [0, 1, 2])
    proposed(world)
    world.until_phase("Running")
    paused(world, True)
    step(world, 2)
    world.kafka.delete("orders")
    step(world, 2)
    paused(world, False)
    step(world, 10)
    assert world.runs()[0].status.phase == "Succeeded"
    assert not [key for key in world.kafka.dynamic if key[0] == "BROKER" and "throttled" in key[2]]


def test_an_approved_plan_outlives_the_owner_of_a_deleted_topic() -> None:
    """The usual way under Strimzi: the KafkaTopic is deleted, and with it the topic."""
    found = strimzi("orders", "payments")
    run = found.until_phase("AwaitingApproval")
    paused(found, True)
    found.approve(run)
    found.until_phase("Approved")
    del found.api.objects[f"{TOPICS}/payments"]
    found.kafka.delete("payments")
    step(found, 6)
    assert [r.status.phase for r in found.runs() if r.name == run.name] == ["Approved"]
