"""What the simulated Kafka and the real ones tell of brokers, topics, logs and settings, and do when they are asked."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from confluent_kafka import KafkaException

from kafka_medic.clients.answers import LogDirs
from kafka_medic.clients.failures import ReadFailed, WriteFailed
from kafka_medic.clients.ports import BrokerView, ConfigChange, NewTopic, OwnRecord
from kafka_medic.cluster.snapshot import ConfigValue, TopicPartition
from kafka_medic.controller.canary_topic import MARKER, recognised
from tests.contract.conftest import Subject
from tests.simulation.log_bounds import log_bounds

RATE = "leader.replication.throttled.rate"
LIST = "leader.replication.throttled.replicas"


def test_the_registered_brokers_have_ids_and_racks(subject: Subject) -> None:
    described = subject.kafka.describe_cluster()
    assert [(n.id, n.rack) for n in described.nodes] == [(0, "zone-1"), (1, "zone-2"), (2, "zone-3")]
    assert described.cluster_id


def test_each_broker_answers_for_itself(subject: Subject) -> None:
    topic = subject.topic([1, 0])
    for broker in (0, 1, 2):
        subject.until(lambda b=broker: subject.state(topic, b) is not None)  # type: ignore[misc]
        state = subject.state(topic, broker)
        assert state is not None
        assert (state.leader, state.replicas, set(state.isr)) == (1, (1, 0), {0, 1})
    assert subject.kafka.views([1])[1].members == (0, 1, 2)  # type: ignore[union-attr]


def test_who_the_members_are_is_told_without_any_partition(subject: Subject) -> None:
    answers = subject.kafka.memberships([0, 77])
    alone = answers[0]
    assert isinstance(alone, BrokerView)
    assert (alone.members, alone.states) == ((0, 1, 2), None)
    assert isinstance(answers[77], ReadFailed)


def test_a_broker_is_asked_about_some_topics_alone(subject: Subject) -> None:
    one, other = subject.topic([1]), subject.topic([2])
    told = subject.kafka.slices({0: [one], 1: [one, other], 2: [f"{one}-is-not-there"], 77: [one]})
    assert isinstance(told[77], ReadFailed)
    for broker, topics in ((0, {one}), (1, {one, other}), (2, set[str]())):
        view = told[broker]
        assert isinstance(view, BrokerView)
        assert {p.topic for p in view.partitions} == topics
        assert view.members == (0, 1, 2)
    assert subject.state(f"{one}-is-not-there") is None


def test_a_topic_made_anew_under_its_old_name_has_another_id(subject: Subject) -> None:
    topic = subject.topic([1])
    first = subject.state(topic)
    assert first is not None
    assert first.topic_id
    subject.unmake(topic)
    subject.until(lambda: all(subject.state(topic, broker) is None for broker in (0, 1, 2)))

    def made() -> bool:
        try:
            subject.make(topic, [[1]])
        except KafkaException:  # with ZooKeeper the old topic is only marked for deletion for a while
            return False
        return True

    subject.until(made)
    subject.until(lambda: subject.state(topic) is not None and subject.state(topic).leader >= 0)  # type: ignore[union-attr]
    second = subject.state(topic)
    assert second is not None
    assert second.topic_id not in (None, first.topic_id)
    assert second.leader_epoch == 0, "epochs begin anew with each incarnation"
    tp = TopicPartition(topic, 0)
    subject.until(lambda: tp in subject.kafka.own_log_ends(1, [tp]))


def test_partitions_that_are_added_belong_to_the_same_incarnation(subject: Subject) -> None:
    topic = subject.topic([1])
    subject.kafka.add_partitions(topic, 2, [[2]])

    def ids() -> list[str | None]:
        view = subject.kafka.views([0])[0]
        assert isinstance(view, BrokerView)
        return [p.topic_id for p in view.partitions if p.topic == topic]

    subject.until(lambda: len(ids()) == 2)
    assert len(set(ids())) == 1


def test_what_is_committed_on_a_topic_goes_with_it(subject: Subject) -> None:
    topic, group = subject.topic([1]), f"contract-{uuid.uuid4().hex[:8]}"
    subject.write(topic)
    subject.commit(group, topic, 7)
    tp = TopicPartition(topic, 0)

    def committed() -> list[int]:
        found = subject.kafka.groups(lambda name: name == group).offsets
        return [offsets.committed[tp].offset for offsets in found if tp in offsets.committed]

    subject.until(lambda: committed() == [7])
    subject.unmake(topic)
    subject.until(lambda: committed() == [])


def test_of_a_topic_that_is_gone_no_broker_has_a_log(subject: Subject) -> None:
    topic = subject.topic([1])
    tp = TopicPartition(topic, 0)
    subject.unmake(topic)
    subject.until(lambda: subject.kafka.own_log_ends(1, [tp]) == {})
    assert log_bounds(subject.kafka, {tp: 1}) == {1: {}}
    assert subject.kafka.epoch_ends(1, {tp: 0}) == {}


def test_a_broker_that_is_not_there_fails_alone(subject: Subject) -> None:
    answers = subject.kafka.views([0, 77])
    assert isinstance(answers[0], BrokerView)
    assert isinstance(answers[77], ReadFailed)


def test_at_a_pods_own_address_its_broker_answers_and_no_other(subject: Subject) -> None:
    """Brokers announce the addresses of Services here, so that each Pod is asked at its own."""
    pods = {n: subject.pod(n) for n in range(3)}
    assert subject.kafka.identities(pods, [0, 1, 2]) == {0: 0, 1: 1, 2: 2}
    crossed = {0: pods[0], 1: pods[2], 2: pods[1]}
    assert subject.kafka.identities(crossed, [0, 1, 2]) == {0: 0, 1: 2, 2: 1}


def test_a_pod_that_does_not_answer_or_as_none_of_these_ids_fails_alone(subject: Subject) -> None:
    pods = {0: subject.pod(0), 1: replace(subject.pod(1), ip="198.51.100.1"), 7: subject.pod(2)}
    answers = subject.kafka.identities(pods, [0, 1, 7])
    assert answers[0] == 0
    assert isinstance(answers[1], ReadFailed)
    assert isinstance(answers[7], ReadFailed)


def test_a_replica_tells_its_own_log_end_and_a_leader_where_an_epoch_ends(subject: Subject) -> None:
    topic = subject.topic([1, 0])
    tp = TopicPartition(topic, 0)
    written = subject.write(topic)
    for replica in (0, 1):
        subject.until(lambda b=replica: subject.kafka.own_log_ends(b, [tp]) == {tp: written})  # type: ignore[misc]
    assert subject.kafka.own_log_ends(2, [tp]) == {}
    subject.until(lambda: log_bounds(subject.kafka, {tp: 1}) == {1: {tp: (0, written)}})
    assert log_bounds(subject.kafka, {tp: 0}) == {0: {}}, "a follower serves nobody"
    told = log_bounds(subject.kafka, {tp: 1, TopicPartition(topic, 1): 77})
    assert told[1] == {tp: (0, written)}
    assert isinstance(told[77], ReadFailed), "whoever does not answer fails alone"
    state = subject.state(topic)
    assert state is not None
    assert state.leader_epoch is not None
    assert subject.kafka.epoch_ends(1, {tp: state.leader_epoch}) == {tp: written}
    assert subject.kafka.epoch_ends(0, {tp: state.leader_epoch}) == {}, "it does not lead"


def test_a_topic_of_our_own_is_written_and_read_and_its_log_too(subject: Subject) -> None:
    name = f"contract-own-{uuid.uuid4().hex[:8]}"
    subject.topics.append(name)
    for _ in range(2):
        subject.kafka.create_topic(NewTopic(name, ((0, 1), (0, 1)), {"retention.ms": "-1"}))
    tp = TopicPartition(name, 0)
    subject.until(lambda: (s := subject.state(name)) is not None and s.leader >= 0)
    records = [OwnRecord(b"k", b"v", 1_700_000_000_000, (("h", b"1"), ("h", b"2"))), OwnRecord(None, None, 5)]
    assert subject.kafka.append(name, 0, records) == 2
    told = [(r.tp, r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in subject.kafka.read_topic(name, 0)]
    assert told == [
        (tp, 0, 1_700_000_000_000, b"k", b"v", (("h", b"1"), ("h", b"2"))),
        (tp, 1, 5, None, None, ()),
    ]
    assert list(subject.kafka.read_topic(name, 1)) == []
    state = subject.state(name)
    assert state is not None
    for replica in state.replicas:
        subject.until(lambda b=replica: subject.kafka.own_log_ends(b, [tp]) == {tp: 2})  # type: ignore[misc]
        found, after = subject.kafka.read_log(replica, tp, 1, 2)
        assert [(r.offset, r.key, r.value) for r in found] == [(1, None, None)]
        assert after == 2


def test_a_raise_completes_with_every_target_in_sync(subject: Subject) -> None:
    topic = subject.topic([1])
    tp = TopicPartition(topic, 0)
    assert subject.kafka.alter_reassignments({tp: [1, 2, 0]}) == {}
    subject.until(lambda: set(subject.state(topic).isr) == {0, 1, 2})  # type: ignore[union-attr]
    subject.until(lambda: tp not in subject.kafka.reassignments())
    state = subject.state(topic)
    assert state is not None
    assert state.replicas == (1, 2, 0)
    assert state.leader == 1


def test_asking_twice_ends_as_asking_once(subject: Subject) -> None:
    topic = subject.topic([1])
    for _ in range(2):
        assert subject.kafka.alter_reassignments({TopicPartition(topic, 0): [1, 2]}) == {}
    subject.until(lambda: subject.state(topic).replicas == (1, 2))  # type: ignore[union-attr]
    subject.until(lambda: set(subject.state(topic).isr) == {1, 2})  # type: ignore[union-attr]
    assert subject.kafka.alter_reassignments({TopicPartition(topic, 0): [1, 2]}) == {}


def test_cancelling_what_is_not_in_flight_is_no_error(subject: Subject) -> None:
    topic = subject.topic([1])
    assert subject.kafka.alter_reassignments({TopicPartition(topic, 0): None}) == {}
    assert subject.state(topic).replicas == (1,)  # type: ignore[union-attr]


def test_a_refused_partition_is_named_and_the_others_go_on(subject: Subject) -> None:
    topic = subject.topic([1])
    nowhere = TopicPartition("no-such-topic", 0)
    refused = subject.kafka.alter_reassignments({nowhere: [0, 1], TopicPartition(topic, 0): [1, 2]})
    assert set(refused) == {nowhere}
    subject.until(lambda: subject.state(topic).replicas == (1, 2))  # type: ignore[union-attr]


def test_a_broker_that_does_not_exist_is_refused_as_a_replica(subject: Subject) -> None:
    topic = subject.topic([1])
    assert set(subject.kafka.alter_reassignments({TopicPartition(topic, 0): [1, 77]})) == {TopicPartition(topic, 0)}


def test_dynamic_settings_are_told_from_defaults_and_go_away_again(subject: Subject) -> None:
    topic = subject.topic([1])
    before = subject.kafka.topic_configs([topic])[topic]["min.insync.replicas"]
    assert (before.value, before.dynamic) == ("1", False)
    changes = [
        ConfigChange("TOPIC", topic, "min.insync.replicas", "2"),
        ConfigChange("TOPIC", topic, LIST, "0:1"),
        ConfigChange("BROKER", "1", RATE, "1000000"),
    ]
    subject.kafka.alter_configs(changes)

    def value(kind: str, name: str) -> tuple[str | None, bool] | None:
        found = subject.kafka.topic_configs([topic])[topic] if kind == "TOPIC" else subject.kafka.broker_configs([1])[1]
        entry = found.get(name)
        return (entry.value or None, entry.dynamic) if entry is not None else None

    subject.until(lambda: value("BROKER", RATE) == ("1000000", True))
    assert value("TOPIC", LIST) == ("0:1", True)
    assert value("TOPIC", "min.insync.replicas") == ("2", True)
    subject.kafka.alter_configs([ConfigChange(c.resource_type, c.resource, c.name, None) for c in changes])
    subject.until(lambda: value("BROKER", RATE) in (None, (None, False)))
    assert value("TOPIC", LIST) in (None, (None, False))
    assert value("TOPIC", "min.insync.replicas") == ("1", False)


def test_what_is_set_for_all_brokers_is_told_by_each_and_counts_where_a_topic_has_no_value_of_its_own(
    subject: Subject,
) -> None:
    name = "min.insync.replicas"
    plain, own = subject.topic([1, 0, 2]), subject.topic([1, 0, 2])
    # A KRaft cluster that knows eligible leader replicas has one from the start, and does not let it go (KIP-966).
    before = subject.kafka.cluster_configs().get(name)
    assert before is None or before.dynamic
    subject.kafka.alter_configs([ConfigChange("TOPIC", own, name, "1"), ConfigChange("BROKER", "", name, "2")])

    def of(topic: str) -> tuple[str | None, bool]:
        found = subject.kafka.topic_configs([topic])[topic][name]
        return found.value, found.dynamic

    try:
        subject.until(lambda: subject.kafka.cluster_configs().get(name) == ConfigValue("2", True))
        subject.until(lambda: {c[name].value for c in subject.kafka.broker_configs([0, 1, 2]).values()} == {"2"})
        assert not any(c[name].dynamic for c in subject.kafka.broker_configs([0, 1, 2]).values()), "no broker's own"
        subject.until(lambda: of(plain) == ("2", False))
        subject.until(lambda: of(own) == ("1", True))
    finally:
        subject.kafka.alter_configs([ConfigChange("BROKER", "", name, before.value if before else None)])
    subject.until(lambda: subject.kafka.cluster_configs().get(name) == before)


def test_a_leader_asks_for_no_more_in_sync_replicas_than_there_are(subject: Subject) -> None:
    """Since 3.7 (KAFKA-15583): of a topic with one replica every record is acknowledged, whatever its minimum."""
    topic = subject.topic([1])
    subject.kafka.alter_configs([ConfigChange("TOPIC", topic, "min.insync.replicas", "2")])
    subject.until(lambda: subject.kafka.topic_configs([topic])[topic]["min.insync.replicas"].value == "2")
    assert subject.write(topic) == 21


def test_what_brokers_read_from_their_file_alone_is_not_set_while_they_run(subject: Subject) -> None:
    with pytest.raises(WriteFailed):
        subject.kafka.alter_configs([ConfigChange("BROKER", "", "default.replication.factor", "3")])
    assert "default.replication.factor" not in subject.kafka.cluster_configs()


def test_sizes_are_told_for_each_replica_and_room_for_each_broker(subject: Subject) -> None:
    topic = subject.topic([1])
    tp = TopicPartition(topic, 0)

    def directories() -> dict[int, LogDirs]:
        return {b: disks for b, disks in subject.kafka.log_dirs([0, 1, 2]).items() if isinstance(disks, LogDirs)}

    subject.until(lambda: tp in directories()[1].sizes)  # metadata may name a leader that has not made its log yet
    told = directories()
    assert tp not in told[0].sizes
    assert all((disks.usable or 0) > 1 << 20 for disks in told.values())
    for disks in told.values():
        assert all(d.path and d.error is None and (d.total or 0) >= (d.usable or 0) for d in disks.directories)
    answers = subject.kafka.log_dirs([0, 77])
    assert isinstance(answers[0], LogDirs)
    assert isinstance(answers[77], ReadFailed), "whoever does not answer fails alone"


def test_the_settings_of_a_topic_that_is_not_there_fail_alone(subject: Subject) -> None:
    topic = subject.topic([1])
    told = subject.kafka.topic_configs([topic, "no-such-topic"])
    there = told[topic]
    assert not isinstance(there, ReadFailed)
    assert "min.insync.replicas" in there
    assert isinstance(told["no-such-topic"], ReadFailed)


def test_the_quorum_has_a_leader_and_three_voters(subject: Subject, request: pytest.FixtureRequest) -> None:
    if "zookeeper" in request.node.name:
        with pytest.raises(ReadFailed):
            subject.kafka.quorum()
        return
    quorum = subject.kafka.quorum()
    assert quorum.leader in (0, 1, 2)
    assert {v.id for v in quorum.voters} == {0, 1, 2}


def canary_topic(subject: Subject) -> str:
    name = f"contract-{uuid.uuid4().hex[:8]}"
    subject.kafka.create_topic(NewTopic(name, ((1, 2), (2, 0)), dict(MARKER)))
    subject.topics.append(name)
    subject.until(lambda: subject.state(name) is not None and subject.state(name).leader >= 0)  # type: ignore[union-attr]
    return name


def test_a_topic_is_made_as_asked_for_and_is_known_again_by_its_settings(subject: Subject) -> None:
    topic = canary_topic(subject)
    subject.until(lambda: recognised(subject.kafka.topic_configs([topic])[topic]))
    state = subject.state(topic)
    assert state is not None
    assert (state.replicas, state.leader) == ((1, 2), 1)
    theirs = subject.topic([0])
    subject.kafka.create_topic(NewTopic(theirs, ((1, 2),), dict(MARKER)))
    assert subject.state(theirs).replicas == (0,), "what is there is left as it is"  # type: ignore[union-attr]
    assert not recognised(subject.kafka.topic_configs([theirs])[theirs])


def test_a_topic_on_brokers_that_are_not_there_is_refused(subject: Subject) -> None:
    with pytest.raises(WriteFailed):
        subject.kafka.create_topic(NewTopic(f"contract-{uuid.uuid4().hex[:8]}", ((77,),), {}))


def test_partitions_are_added_once_and_never_taken_away(subject: Subject) -> None:
    topic = canary_topic(subject)

    def there() -> dict[int, tuple[int, ...]]:
        view = subject.kafka.views([0])[0]
        assert isinstance(view, BrokerView)
        return {p.partition: p.replicas for p in view.partitions if p.topic == topic}

    for _ in range(2):
        subject.kafka.add_partitions(topic, 3, [[0, 1]])
    subject.until(lambda: there() == {0: (1, 2), 1: (2, 0), 2: (0, 1)})
    subject.kafka.add_partitions(topic, 1, [[0, 1]])
    assert len(there()) == 3
    with pytest.raises(WriteFailed):
        subject.kafka.add_partitions("no-such-topic", 3, [[0, 1]])


def test_a_preferred_leader_is_elected_and_one_that_leads_already_is_no_refusal(subject: Subject) -> None:
    topic = subject.topic([1, 2])
    tp, nowhere = TopicPartition(topic, 0), TopicPartition("no-such-topic", 0)
    assert subject.kafka.elect_preferred([tp]) == {}
    assert subject.kafka.alter_reassignments({tp: [2, 1]}) == {}
    subject.until(lambda: subject.state(topic).replicas == (2, 1))  # type: ignore[union-attr]
    assert subject.state(topic).leader == 1  # type: ignore[union-attr]
    refused = subject.kafka.elect_preferred([tp, nowhere])
    assert set(refused) == {nowhere}
    subject.until(lambda: subject.state(topic).leader == 2)  # type: ignore[union-attr]
