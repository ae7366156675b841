"""What is undecided of one partition leaves open whose whole view is stale: nobody in doubt receives anything."""

from __future__ import annotations

from kafka_medic.cluster.agreement import agreement
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.guard.fit import fit_to_receive
from kafka_medic.guard.verdict import Verdict
from tests.unit.cluster import worlds
from tests.unit.guard.restarts import judged, only

FIVE = (1, 2, 3, 4, 5)
TP = TopicPartition("calm", 0)
ROWS = (
    worlds.partition("calm", 0, (4, 5), leader=None, leaderEpoch=None),
    worlds.partition("orders", 0, (1, 2, 3)),
)


def told_by(*ahead, other=()):
    """The controller and whoever is not in `ahead` tell epoch 5; `other`: of epoch 6 too, and another leader."""
    accounts = {**dict.fromkeys(FIVE, (4, 5)), **dict.fromkeys(ahead, (5, 6)), **dict.fromkeys(other, (4, 6))}
    views = tuple(worlds.view(n, ROWS, members=FIVE, told={tuple(TP): accounts[n]}) for n in FIVE)
    return worlds.healthy(rows=ROWS, views=views, brokers=tuple(worlds.broker(n) for n in FIVE))


def test_two_that_give_the_latest_account_are_beyond_doubt_and_the_others_are_not():
    snapshot = told_by(2, 3)
    assert agreement(snapshot).undecided == (TP,)
    assert set(agreement(snapshot).doubted) == {1, 4, 5}


def test_one_alone_with_a_larger_epoch_is_in_doubt_like_everybody():
    assert set(agreement(told_by(2)).doubted) == set(FIVE)


def test_rivals_of_the_same_epoch_are_in_doubt():
    assert set(agreement(told_by(2, 3, other=(4, 5))).doubted) == set(FIVE)


def test_who_does_not_report_a_partition_may_be_right():
    snapshot = told_by(2, 3)
    views = (worlds.view(1, ROWS[1:], members=FIVE), *snapshot.views[1:])
    assert set(agreement(worlds.healthy(rows=ROWS, views=views, brokers=snapshot.brokers)).doubted) == set(FIVE)


def test_nobody_in_doubt_receives_anything_whatever_the_partition():
    (told,) = fit_to_receive(told_by(2, 3), [1, 2], [TopicPartition("orders", 0)])
    assert told.verdict is Verdict.UNKNOWN
    assert "the view of broker 1 may be stale" in told.message
    assert "leader 4 epoch 5 of topic id id-calm (brokers 1, 4, 5)" in told.message
    assert fit_to_receive(told_by(2, 3), [2, 3])[0].verdict is Verdict.ALLOW


def test_no_restart_leaves_a_partition_to_somebody_in_doubt():
    """Broker 2 is next for what broker 1 leads."""
    told = "broker 2 would then lead orders-0, but its view may be stale: accounts of calm-0 differ: leader"
    only(told_by(3, 4), "ViewsAgree", Verdict.UNKNOWN, told, 1)
    assert judged(told_by(2, 3), 1).verdict is Verdict.ALLOW


def test_where_it_is_open_who_is_registered_any_account_may_be_an_earlier_one():
    """Broker 3 does not answer. Of the others one has heard that it has gone, or one has not heard that it is back."""
    views = (worlds.view(1), worlds.view(2, members=(1, 2)))
    brokers = worlds.brokers(b3={"registered": None, "reachable": False})
    told = fit_to_receive(worlds.healthy(views=views, brokers=brokers), [1])
    assert "the view of broker 1 may be stale: accounts differ on whether broker 3 is registered" in told[0].message
    same = tuple(worlds.view(n) for n in (1, 2))
    assert agreement(worlds.healthy(views=same, brokers=brokers)).doubted == {}
