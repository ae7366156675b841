"""What comes between a plan that sets offsets and the write: it waits, or the plan is void, and nothing is written."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.snapshot import TopicPartition
from tests.e2e.conftest import Case
from tests.gameday.scenario import Scene
from tests.incident import operator, records
from tests.testbed import wait_for


def planned(case: Case, group: str, topic: str, to: str = "to-offset:5") -> operator.Object:
    """21 records, 10 of them read, and a plan to go elsewhere."""
    assert records.write(case.boot, topic, [f"order-{n}" for n in range(21)]) == 21
    records.commit_offset(case.boot, group, topic, 10)
    case.condition("OffsetsConsistent", "True")
    case.ask("reset-consumer-offsets", groups=group, to=to)
    run = case.wait("AwaitingApproval")
    (change,) = run["status"]["plan"]["offsets"]
    assert (change["before"], change["after"]) == (10, 5)
    return run


def committed(case: Case, group: str) -> dict[TopicPartition, Committed]:
    kafka = RealKafka(Connection(case.boot))
    try:
        return {tp: c for g in kafka.groups(lambda name: name == group).offsets for tp, c in g.committed.items() if c}
    finally:
        kafka.close()


def another_plan(case: Case, run: operator.Object) -> bool:
    """Whether what was approved will not be carried out any more: planned anew, or over."""
    (now,) = [r for r in case.runs() if r["metadata"]["name"] == run["metadata"]["name"]]
    digest = (now["status"].get("plan") or {}).get("digest")
    return digest != run["status"]["plan"]["digest"] or now["status"]["phase"] == "Superseded"


def test_a_group_that_comes_to_life(story: tuple[Scene, Case]) -> None:
    _, case = story
    topic, group = case.topic([0, 1, 2]), f"{case.name}-billing"
    run = planned(case, group, topic)
    with records.joined(case.boot, group, topic, "shop-1"):
        assert operator.approve(run, "alice").returncode == 0
        assert "shop-1 at " in case.wait_for_guard("GroupEmpty")
        assert committed(case, group) == {TopicPartition(topic, 0): Committed(10)}
    case.wait("Succeeded")
    assert committed(case, group) == {TopicPartition(topic, 0): Committed(5)}


def test_a_group_of_the_new_protocol(story: tuple[Scene, Case]) -> None:
    """KIP-848, which brokers of 4.0 and later have: a live group is left alone, an Empty one is set."""
    _, case = story
    if case.kafka.shape == "zookeeper":
        pytest.skip("3.9 has the classic protocol alone")
    topic, group = case.topic([0, 1, 2]), f"{case.name}-billing"
    tp = TopicPartition(topic, 0)
    assert records.write(case.boot, topic, [f"order-{n}" for n in range(21)]) == 21
    assert len(records.read_group(case.boot, group, topic, 21, protocol="consumer")) == 21
    case.condition("OffsetsConsistent", "True")
    with records.joined(case.boot, group, topic, "shop-1", protocol="consumer"):
        case.ask("reset-consumer-offsets", groups=group, to="to-offset:5")
        assert f"group {group} is Stable: stop its consumers first, shop-1 at " in case.wait_for_guard("GroupEmpty")
        assert committed(case, group) == {tp: Committed(21)}
    run = case.wait("AwaitingApproval")
    with records.joined(case.boot, group, topic, "shop-1", protocol="consumer"):
        kafka = RealKafka(Connection(case.boot))
        refused = kafka.commit_offsets(group, {tp: Committed(3)})
        kafka.close()
        assert set(refused) == {tp}, "the coordinator itself takes nothing for a group with members"
        assert operator.approve(run, "alice").returncode == 0
        case.wait_for_guard("GroupEmpty")
        assert committed(case, group) == {tp: Committed(21)}
    case.wait("Succeeded")
    read = records.read_group(case.boot, group, topic, 16, protocol="consumer")
    assert [offset for offset, _ in read] == list(range(5, 21))


def test_a_topic_made_anew(story: tuple[Scene, Case]) -> None:
    _, case = story
    topic, group = case.topic([0, 1, 2]), f"{case.name}-billing"
    run = planned(case, group, topic)
    records.delete_topic(case.boot, topic)

    def made() -> bool:
        try:
            records.create_topic(case.boot, topic, [[0, 1, 2]])
        except KafkaException:  # with ZooKeeper the old topic is only marked for deletion for a while
            return False
        return True

    wait_for("the topic again", made, 60)
    assert records.write(case.boot, topic, [f"new-{n}" for n in range(21)]) == 21
    assert operator.approve(run, "alice").returncode == 0
    wait_for("the plan to be void", lambda: another_plan(case, run), 60)
    assert committed(case, group).get(TopicPartition(topic, 0), Committed(10)) == Committed(10), "nothing was written"


def test_a_topic_that_is_gone(story: tuple[Scene, Case]) -> None:
    _, case = story
    topic, group = case.topic([0, 1, 2]), f"{case.name}-billing"
    run = planned(case, group, topic)
    records.delete_topic(case.boot, topic)
    case.topics.remove(topic)
    assert operator.approve(run, "alice").returncode == 0
    wait_for("the plan to be void", lambda: another_plan(case, run), 60)
    assert committed(case, group).get(TopicPartition(topic, 0), Committed(10)) == Committed(10), "nothing was written"


def test_a_group_whose_offsets_are_deleted(story: tuple[Scene, Case]) -> None:
    """As they also are when they expire: it is not made anew."""
    _, case = story
    topic, group = case.topic([0, 1, 2]), f"{case.name}-billing"
    run = planned(case, group, topic)
    records.forget_group(case.boot, group)
    assert operator.approve(run, "alice").returncode == 0
    wait_for("the plan to be void", lambda: another_plan(case, run), 60)
    assert committed(case, group) == {}, "nothing was written"


def test_retention_that_passes_the_target(story: tuple[Scene, Case]) -> None:
    """And the committed offset: what is planned then is in the log."""
    _, case = story
    topic, group = case.topic([0, 1, 2]), f"{case.name}-billing"
    run = planned(case, group, topic)
    records.forget_records(case.boot, topic, 15)
    assert operator.approve(run, "alice").returncode == 0
    wait_for("the plan to be void", lambda: another_plan(case, run), 60)
    assert committed(case, group) == {TopicPartition(topic, 0): Committed(10)}, "nothing was written"
    (change,) = case.wait("AwaitingApproval")["status"]["plan"]["offsets"]
    assert (change["before"], change["after"], change["logStart"]) == (10, 15, 15)
    assert "5, is not in the log" in change["reason"]


def test_a_transaction_of_the_group_that_is_still_open(story: tuple[Scene, Case]) -> None:
    """What it will commit does not show until it ends; then the plan is not true any more."""
    _, case = story
    topic, group = case.topic([0, 1, 2]), f"{case.name}-billing"
    tp, run = TopicPartition(topic, 0), planned(case, group, topic)

    def held_back() -> bool:
        told = operator.events(case.namespace, run["metadata"]["name"])
        return any("a transaction is open that commits offsets" in note for _, note in told)

    with records.transaction(case.boot, group, topic, 16):
        assert operator.approve(run, "alice").returncode == 0
        wait_for("the write to be held back", held_back, 45)
        assert committed(case, group) == {tp: Committed(10)}, "nothing was written"
    wait_for("the plan to be void", lambda: another_plan(case, run), 60)
    assert committed(case, group)[tp].offset == 16
