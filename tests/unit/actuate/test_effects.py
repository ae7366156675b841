"""One effect each: sent as asked, safe to send again, and a refusal is never silent."""

from __future__ import annotations

import pytest

from kafka_medic.actuate.carry_out import carry_out
from kafka_medic.actuate.reassign import MAX_RECORDS
from kafka_medic.clients.answers import Groups
from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.ports import always
from kafka_medic.cluster.groups import Committed, GroupOffsets
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.playbook.effects import ChangeSettings, ElectPreferred, Reassign, SetOffsets
from tests.simulation.kafka import SimKafka

ORDERS = TopicPartition("orders", 0)


class NoPods:
    def replace_pod(self, name, uid):
        raise AssertionError("no Pod was to be touched")


NO_PODS = NoPods()


@pytest.fixture
def kafka():
    kafka = SimKafka()
    kafka.topic("orders", [1])
    return kafka


def test_a_reassignment_is_sent_and_sending_it_again_changes_nothing(kafka):
    for _ in range(2):
        carry_out(kafka, NO_PODS, Reassign("w", {ORDERS: (1, 0, 2)}), always)
        assert kafka.partitions[ORDERS].replicas == [1, 0, 2]
        assert kafka.partitions[ORDERS].adding == [0, 2]
        assert kafka.partitions[ORDERS].before == [1]


def test_a_cancel_goes_back_and_is_harmless_where_nothing_is_in_flight(kafka):
    carry_out(kafka, NO_PODS, Reassign("w", {ORDERS: (1, 0, 2)}), always)
    for _ in range(2):
        carry_out(kafka, NO_PODS, Reassign("c", {ORDERS: None}), always)
        assert kafka.partitions[ORDERS].replicas == [1]


def test_what_is_refused_is_named_and_the_rest_stands(kafka):
    gone = TopicPartition("gone", 3)
    with pytest.raises(WriteFailed, match=r"1 of 2 partitions refused: gone-3: UnknownTopicOrPartition"):
        carry_out(kafka, NO_PODS, Reassign("w", {ORDERS: (1, 0), gone: (1, 0)}), always)
    assert kafka.partitions[ORDERS].adding == [0]


def test_more_than_a_controller_takes_in_is_not_sent_at_all(kafka):
    many = {TopicPartition("orders", n): (1, 0) for n in range(MAX_RECORDS + 1)}
    with pytest.raises(WriteFailed, match="at most 5000"):
        carry_out(kafka, NO_PODS, Reassign("w", many), always)
    assert kafka.writes == []


def test_settings_are_set_and_taken_away(kafka):
    rate, floor = ("BROKER", "1", "leader.replication.throttled.rate"), ("TOPIC", "orders", "min.insync.replicas")
    for _ in range(2):
        carry_out(kafka, NO_PODS, ChangeSettings("s", {rate: "5", floor: "2"}), always)
        assert kafka.dynamic == {rate: "5", floor: "2"}
    for _ in range(2):
        carry_out(kafka, NO_PODS, ChangeSettings("r", {rate: None}), always)
        assert kafka.dynamic == {floor: "2"}


def test_a_broker_that_is_down_refuses(kafka):
    kafka.stop(1)
    with pytest.raises(WriteFailed):
        carry_out(
            kafka, NO_PODS, ChangeSettings("s", {("BROKER", "1", "leader.replication.throttled.rate"): "5"}), always
        )


def test_what_takes_several_requests_stops_when_it_may_go_on_no_more(kafka):
    floor = ("TOPIC", "orders", "min.insync.replicas")
    rates = {("BROKER", str(b), "leader.replication.throttled.rate"): "5" for b in (0, 1, 2)}
    answers = iter([True, True, True, False])  # before anything at all, and before each request
    with pytest.raises(WriteFailed, match="stopped after 2"):
        carry_out(kafka, NO_PODS, ChangeSettings("s", {**rates, floor: "2"}), lambda: next(answers))
    assert kafka.dynamic == {floor: "2", ("BROKER", "0", "leader.replication.throttled.rate"): "5"}


@pytest.mark.parametrize(("lease", "fresh", "why"), [(False, True, "Lease"), (True, False, "observation is too old")])
def test_an_answer_that_takes_long_lets_nobody_be_elected_by_old_reads(kafka, monkeypatch, lease, fresh, why):
    """Whoever would lead is asked right before; by the time it has answered, the guards' reads may be old."""
    kafka.partitions[ORDERS].leader, kafka.partitions[ORDERS].replicas = 0, [1, 0]
    kafka.partitions[ORDERS].isr = [0, 1]
    answers, passed = kafka.memberships, []

    def and_it_takes_long(brokers):
        passed.append(brokers)
        return answers(brokers)

    monkeypatch.setattr(kafka, "memberships", and_it_takes_long)
    elect = ElectPreferred("e", {ORDERS: 1})
    with pytest.raises(WriteFailed, match=why):
        carry_out(kafka, NO_PODS, elect, lambda: lease or not passed, lambda: fresh or not passed)
    assert kafka.partitions[ORDERS].leader == 0
    carry_out(kafka, NO_PODS, elect, always)
    assert kafka.partitions[ORDERS].leader == 1


BEFORE, AFTER = Committed(32, 3, "m"), Committed(21)
RESET = SetOffsets("s/group-0", "billing", {ORDERS: (BEFORE, AFTER)})


def test_an_offset_is_set_once_and_set_again_nothing_is_sent(kafka):
    kafka.commit_offsets("billing", {ORDERS: BEFORE})
    kafka.writes.clear()
    for _ in range(2):
        carry_out(kafka, NO_PODS, RESET, always)
    assert kafka.writes == ["commit billing [('orders-0', 21)]"]


@pytest.mark.parametrize(
    ("state", "present", "told"),
    [
        ("Empty", Committed(33, 3, "m"), "has committed since on orders-0"),
        ("Empty", Committed(32, 4, "m"), "has committed since on orders-0"),
        ("Stable", BEFORE, "group billing is Stable now"),
    ],
)
def test_an_offset_that_is_not_as_the_plan_saw_it_is_not_overwritten(kafka, state, present, told):
    kafka.commit_offsets("billing", {ORDERS: present})
    kafka.states["billing"] = state
    kafka.writes.clear()
    with pytest.raises(WriteFailed, match=told):
        carry_out(kafka, NO_PODS, RESET, always)
    assert kafka.writes == []


def test_an_offset_that_an_open_transaction_is_to_commit_is_waited_for(kafka):
    kafka.commit_offsets("billing", {ORDERS: BEFORE})
    kafka.unsettled_of["billing"] = [ORDERS]
    kafka.writes.clear()
    with pytest.raises(WriteFailed, match="a transaction is open that commits offsets of group billing on orders-0"):
        carry_out(kafka, NO_PODS, RESET, always)
    assert kafka.writes == []


def test_an_offset_of_a_topic_that_went_in_between_is_refused_by_name(kafka):
    kafka.commit_offsets("billing", {ORDERS: BEFORE})
    kafka.delete("orders")
    kafka.committed["billing"] = {ORDERS: BEFORE.offset}  # its coordinator forgets it somewhat later
    with pytest.raises(WriteFailed, match="1 of 1 offset refused: orders-0: UnknownTopicOrPartition"):
        carry_out(kafka, NO_PODS, RESET, always)
    kafka.committed.clear()
    with pytest.raises(WriteFailed, match="group billing is gone"):
        carry_out(kafka, NO_PODS, RESET, always)


LATE = ReadFailed(FailureKind.UNREACHABLE, "no answer")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Groups([], {"billing": LATE}), "not sent: no answer"),
        (Groups([], {}, {2: LATE}), "broker 2 did not list its groups, so whether group billing exists is not known"),
        (Groups([GroupOffsets("billing", "Empty", {ORDERS: None})]), "what group billing has committed on orders-0"),
    ],
)
def test_an_offset_of_a_group_that_could_not_be_read_is_not_set(kafka, monkeypatch, answer, told):
    kafka.commit_offsets("billing", {ORDERS: BEFORE})
    kafka.writes.clear()
    monkeypatch.setattr(kafka, "groups", lambda _: answer)
    with pytest.raises(WriteFailed, match=told):
        carry_out(kafka, NO_PODS, RESET, always)
    assert kafka.writes == []
