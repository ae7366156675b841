"""What a stale leader alone holds is measured where its epoch parts from the cluster's, and never guessed."""

from __future__ import annotations

import pytest

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import BrokerView, PartitionState
from kafka_medic.cluster.snapshot import DivergedLog, TopicPartition
from kafka_medic.observe import divergence
from kafka_medic.observe.divergence import diverged_logs, stale_leaderships

ORDERS = TopicPartition("orders", 0)


def state(leader, epoch, number=0):
    return PartitionState("orders", number, leader, epoch, (1, 2, 3), (1, 2))


def view(*states, broker=3):
    return BrokerView.of(broker, (1, 2, 3), None, states)


def stale(mine, theirs):
    """What broker 3 is stale on, where the authority and broker 1 say `theirs`."""
    truth = view(*theirs, broker=1)
    return stale_leaderships({1: truth, 3: view(*mine)}, truth.states).get(3, ())


class Kafka:
    """Broker 3's own log ends at 120; on broker 1 epoch 5 ends at 100."""

    def __init__(self) -> None:
        self.asked = []

    def own_log_ends(self, broker, partitions):
        self.asked.append(("own", broker, list(partitions)))
        return dict.fromkeys(partitions, 120)

    def epoch_ends(self, broker, epochs):
        self.asked.append(("epoch", broker, dict(epochs)))
        return dict.fromkeys(epochs, 100)


def test_the_difference_between_its_own_end_and_the_end_of_its_epoch_at_the_real_leader():
    kafka = Kafka()
    (log,) = diverged_logs(kafka, 3, stale([state(3, 5)], [state(1, 7)]), {})
    assert log == DivergedLog("orders", 0, 5, 120, 100)
    assert log.records == 20
    assert kafka.asked == [("own", 3, [ORDERS]), ("epoch", 1, {ORDERS: 5})]


def test_a_leader_that_has_not_heard_of_its_own_new_epoch_is_compared_with_who_else_is_in_sync():
    """Nobody can follow it, and whoever leads next has what it has now."""
    kafka = Kafka()
    kafka.own_log_ends = lambda broker, partitions: dict.fromkeys(partitions, {3: 120, 1: 90, 2: 95}[broker])
    (log,) = diverged_logs(kafka, 3, stale([state(3, 5)], [state(3, 7)]), {})
    assert (log.log_end, log.shared_end, log.records) == (120, 90, 30)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (state(3, 5), state(3, 5)),  # it leads
        (state(1, 5), state(1, 7)),  # stale, but it does not take itself for the leader
        (state(3, None), state(1, 7)),  # no epoch to compare
        (state(3, 7), state(1, 7)),  # the same epoch cannot have two leaders: a misread, and nothing to count
    ],
)
def test_what_is_no_stale_leadership(mine, theirs):
    assert stale([mine], [theirs]) == ()


def test_views_that_are_one_table_are_not_even_compared():
    same = view(state(3, 5))
    other = BrokerView(1, same.members, None, same.states)
    assert stale_leaderships({1: other, 3: same}, view(state(1, 7)).states) == {}


def test_where_nobody_leads_the_number_is_unknown():
    (log,) = diverged_logs(Kafka(), 3, stale([state(3, 5)], [state(-1, 7)]), {})
    assert (log.log_end, log.shared_end, log.records) == (120, None, None)


def test_too_many_is_a_failed_read(monkeypatch):
    monkeypatch.setattr(divergence, "MAX_PARTITIONS", 1)
    both = stale([state(3, 5, 0), state(3, 5, 1)], [state(1, 7, 0), state(1, 7, 1)])
    with pytest.raises(ReadFailed, match="at most 1") as failed:
        diverged_logs(Kafka(), 3, both, {})
    assert failed.value.kind is FailureKind.OTHER
