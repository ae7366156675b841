"""What the simulated Kafka and the real ones tell of consumer groups, and take from us for them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from kafka_medic.cluster.groups import Committed, GroupOffsets
from kafka_medic.cluster.snapshot import TopicPartition
from tests.contract.conftest import Subject
from tests.incident.records import commit_offset, create_topic, delete_topic, joined
from tests.simulation.log_bounds import log_bounds
from tests.testbed import KafkaDeployment, Shape


def test_groups_are_read_by_name_in_kafkas_own_words_for_their_state(subject: Subject) -> None:
    topic = subject.topic([1])
    names = [f"{topic}-group-{n}" for n in range(100)]
    for number, name in enumerate(names):
        subject.commit(name, topic, number)
    found = {g.group: g for g in subject.kafka.groups(lambda name: name.startswith(f"{topic}-group-1")).offsets}
    wanted = {name for name in names if name.startswith(f"{topic}-group-1")}
    assert set(found) == wanted
    assert {g.state for g in found.values()} == {"Empty"}
    assert found[names[17]].committed == {TopicPartition(topic, 0): Committed(17)}


def test_offsets_are_committed_with_all_that_goes_with_them_for_a_group_without_members(subject: Subject) -> None:
    topic = subject.topic([1])
    tp, nowhere = TopicPartition(topic, 0), TopicPartition("no-such-topic", 0)
    group = f"{topic}-group"
    subject.commit(group, topic, 3)

    def found() -> GroupOffsets:
        (only,) = subject.kafka.groups(lambda name: name == group).offsets
        return only

    assert found() == GroupOffsets(group, "Empty", {tp: Committed(3)})
    for _ in range(2):
        assert subject.kafka.commit_offsets(group, {tp: Committed(17, 0, "a note")}) == {}
        assert found().committed == {tp: Committed(17, 0, "a note")}
    refused = subject.kafka.commit_offsets(group, {nowhere: Committed(1), tp: Committed(900)})
    assert set(refused) == {nowhere}
    assert found().committed == {tp: Committed(900)}, "also beyond the end of the log"
    assert list(subject.kafka.group_members([group])[group]) == []


def test_a_group_with_members_is_refused_and_they_are_named(subject: Subject) -> None:
    topic = subject.topic([1])
    tp, group = TopicPartition(topic, 0), f"{topic}-group"
    subject.commit(group, topic, 3)
    with subject.join(group, topic):
        members = subject.kafka.group_members([group])[group]
        assert [m.client_id for m in members] == ["contract-reader"]
        assert members[0].host
        assert subject.kafka.commit_offsets(group, {tp: Committed(1)}) == {tp: "UnknownMemberIdError"}
        (found,) = subject.kafka.groups(lambda name: name == group).offsets
        assert found.state == "Stable"
        assert found.committed == {tp: Committed(3)}


def test_what_an_open_transaction_is_to_commit_is_told(subject: Subject) -> None:
    """What is committed does not show it. Its end takes an offset of the log too."""
    topic = subject.topic([1])
    tp, group = TopicPartition(topic, 0), f"{topic}-group"
    subject.commit(group, topic, 3)

    def found() -> GroupOffsets:
        (only,) = subject.kafka.groups(lambda name: name == group).offsets
        return only

    def log_end() -> int:
        told = log_bounds(subject.kafka, {tp: 1})[1]
        assert not isinstance(told, ReadFailed), told
        return told[tp][1]

    assert list(subject.kafka.unsettled(group)) == []
    with subject.transact(group, topic, 7):
        assert list(subject.kafka.unsettled(group)) == [tp]
        assert found() == GroupOffsets(group, "Empty", {tp: Committed(3)})
        assert log_end() == 1
    subject.until(lambda: not subject.kafka.unsettled(group))
    assert found().committed[tp].offset == 7
    subject.until(lambda: log_end() == 2)


def test_the_members_of_a_group_of_the_new_protocol_are_named(kafka_of: Callable[[Shape], KafkaDeployment]) -> None:
    """KIP-848, which brokers of 4.0 and later have. Empty, it is set as any other."""
    boot, topic = kafka_of("kraft").bootstrap, f"contract-{uuid.uuid4().hex[:8]}"
    group, tp, kafka = f"{topic}-group", TopicPartition(topic, 0), RealKafka(Connection(boot))
    create_topic(boot, topic, [[1]])
    try:
        commit_offset(boot, f"{group}-classic", topic, 3)
        with joined(boot, group, topic, "contract-reader", "consumer"):
            found = kafka.group_members([group, f"{group}-classic"])
            assert {g: [m.client_id for m in members] for g, members in found.items()} == {
                group: ["contract-reader"],
                f"{group}-classic": [],
            }
            assert found[group][0].host
            assert set(kafka.commit_offsets(group, {tp: Committed(1)})) == {tp}
            assert [g.state for g in kafka.groups(lambda name: name == group).offsets] == ["Stable"]
        assert kafka.commit_offsets(group, {tp: Committed(1)}) == {}
        assert [(g.state, g.committed) for g in kafka.groups(lambda name: name == group).offsets] == [
            ("Empty", {tp: Committed(1)})
        ]
    finally:
        kafka.close()
        delete_topic(boot, topic)


def test_the_first_offset_of_a_time_is_told(subject: Subject) -> None:
    topic = subject.topic([1])
    tp = TopicPartition(topic, 0)
    begun = int(time.time() * 1000) - 1000
    subject.write(topic)
    assert subject.kafka.offsets_at([tp], begun) == {tp: 0}
    assert subject.kafka.offsets_at([tp], begun + 3_600_000) == {tp: None}
