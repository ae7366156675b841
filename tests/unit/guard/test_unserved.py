"""A controller has elected a broker whose view is stale: nobody serves those partitions before its restart."""

from __future__ import annotations

import pytest

from kafka_medic.cluster.snapshot import STORAGE_ERROR, Directory, TopicPartition
from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook.restart.restart_step import not_back
from tests.unit.cluster import worlds
from tests.unit.guard.restarts import judged, only, refusals

CURE = {"cures": frozenset({2})}
BEHIND = (1, 3)
"""What broker 2 reports of orders-0: led by broker 1, since leader epoch 3."""


def elected(told=BEHIND, *, isr=(2, 3), replicas=(1, 2, 3), views=None, rows=None, **changes):
    """Broker 1 was away and is back. Broker 2 has led orders-0 since, which it does not know."""
    row = worlds.partition("orders", 0, replicas, leader=2, isr=list(isr), logEnd=None)
    rows = [row, *worlds.ROWS[1:]] if rows is None else rows
    views = views or tuple(worlds.view(n, rows, told={("orders", 0): told} if n == 2 else {}) for n in worlds.IDS)
    return worlds.healthy(rows=rows, views=views, **changes)


def test_its_restart_is_permitted_as_the_cure_though_too_few_stay_in_sync():
    found = judged(elected(), 2, **CURE)
    assert found.verdict is Verdict.ALLOW, found.refusals
    (told,) = (r.message for r in found.reasons if r.guard == "IsrStaysAboveMin")
    assert (
        told
        == "3 partitions on broker 2 keep min.insync.replicas without it; no broker serves orders-0 before it restarts"
    )


@pytest.mark.parametrize("context", [{}, {"cures": frozenset({3})}, {**CURE, "together": frozenset({3})}])
def test_nothing_else_may_restart_it(context):
    assert "IsrStaysAboveMin" in refusals(elected(), 2, **context)


def test_nor_may_another_broker_go():
    found = refusals(elected(), 3, cures=frozenset({2, 3}))
    assert found["IsrStaysAboveMin"][0] is Verdict.DENY


@pytest.mark.parametrize(
    "told",
    [(2, 3), (2, 5), (3, 5)],
    ids=["leads, as it believes", "knows that it leads", "another leader of the same epoch"],
)
def test_a_broker_that_may_have_taken_records_is_judged_as_any_other(told):
    """Followers of a leader that knows it are behind for a reason of their own."""
    found = refusals(elected(told), 2, **CURE)
    assert {"IsrStaysAboveMin", "NoOtherBrokerDisturbed"} <= set(found)


def test_the_only_replica_in_sync_stays():
    found = refusals(elected(isr=(2,)), 2, **CURE)
    assert "orders-0 would have 0 in sync (required: 2)" in found["IsrStaysAboveMin"][1]


def test_who_leads_next_has_to_be_fit():
    """Broker 3 is as stale as broker 2."""
    rows = [worlds.partition("orders", 0, leader=2, isr=[2, 3], logEnd=None), *worlds.ROWS[1:]]
    views = tuple(
        worlds.view(n, rows, members=(1, 2, 3, 4, 5), told={("orders", 0): BEHIND} if n in (2, 3) else {})
        for n in (1, 2, 3, 4, 5)
    )
    brokers = tuple(worlds.broker(n) for n in (1, 2, 3, 4, 5))
    found = refusals(elected(rows=rows, views=views, brokers=brokers), 2, cures=frozenset({2, 3}))
    assert "orders-0 would have 1 in sync (required: 2)" in found["IsrStaysAboveMin"][1]


def test_a_topic_without_a_replica_to_spare_is_refused_all_the_same():
    found = elected(replicas=(1, 2), isr=(2, 1))
    only(found, "IsrStaysAboveMin", Verdict.DENY, "topics without a spare replica: orders", 2, **CURE)


def test_followers_elsewhere_are_waited_for():
    rows = [
        worlds.partition("orders", 0, leader=2, isr=[2, 3], logEnd=None),
        worlds.partition("orders", 1, (2, 3, 1)),
        worlds.partition("orders", 2, (3, 1, 2), isr=[3, 2]),
    ]
    found = refusals(elected(rows=rows), 2, **CURE)
    assert "broker 1 (1 partition)" in found["NoOtherBrokerDisturbed"][1]


def test_what_its_leader_serves_is_no_such_partition():
    """An end of its log was read from it, under the decided epoch."""
    row = worlds.partition("orders", 0, leader=2, isr=[2, 3], logEnd=100)
    found = refusals(elected(rows=[row, *worlds.ROWS[1:]]), 2, **CURE)
    assert {"IsrStaysAboveMin", "NoOtherBrokerDisturbed"} <= set(found)


def test_nor_is_one_whose_successor_has_it_on_a_failed_disk():
    directories = (Directory("/data/0", None, 100, 40), Directory("/data/1", STORAGE_ERROR))
    lost = {"directories": directories, "offline_replicas": (TopicPartition("orders", 0),)}
    found = refusals(elected(brokers=worlds.brokers(b3=lost)), 2, **CURE)
    assert "IsrStaysAboveMin" in found


def test_of_two_that_serve_nobody_either_may_go_first():
    """Broker 1 was away: it cannot catch up with what brokers 2 and 3 were elected for."""
    rows = [
        worlds.partition("orders", 0, (1, 2, 4), leader=2, isr=[2, 4], logEnd=None),
        worlds.partition("orders", 1, (1, 3, 4), leader=3, isr=[3, 4], logEnd=None),
    ]
    ids = (1, 2, 3, 4, 5)
    told = {("orders", 0): BEHIND, ("orders", 1): BEHIND}
    views = tuple(worlds.view(n, rows, members=ids, told=told if n in (2, 3) else {}) for n in ids)
    snapshot = worlds.healthy(rows=rows, views=views, brokers=tuple(worlds.broker(n) for n in ids))
    for broker in (2, 3):
        found = judged(snapshot, broker, cures=frozenset({2, 3}))
        assert found.verdict is Verdict.ALLOW, found.refusals


def test_a_leader_that_only_knows_the_topic_of_before_serves_nobody_of_this_one():
    """The end of a log that it tells is the old one's."""
    rows = [worlds.partition("orders", 0, leader=2, isr=[2, 3], logEnd=21, leaderEpoch=0), *worlds.ROWS[1:]]
    views = tuple(
        worlds.view(n, [{**rows[0], "topicId": "id-before"}, *rows[1:]] if n == 2 else rows) for n in worlds.IDS
    )
    found = judged(elected(rows=rows, views=views), 2, **CURE)
    assert found.verdict is Verdict.ALLOW, found.refusals


def test_what_comes_back_is_not_kept_from_the_isr_by_itself_where_a_stale_broker_is_to_lead():
    rows = [worlds.partition("orders", 0, (2, 1, 3), leader=2, isr=[2, 3], logEnd=None), *worlds.ROWS[1:]]
    snapshot = elected(rows=rows)
    assert not_back(snapshot, 1, frozenset({2})) is None
    assert not_back(snapshot, 1, frozenset()) == "not in the ISR of 1 partition yet: orders-0"


def test_nor_does_what_another_stale_broker_would_inherit():
    """Two are left to be cured, each of which would leave something to the other."""
    rows = [worlds.partition("orders", 0, (2, 3, 1)), worlds.partition("orders", 1, (3, 2, 1))]
    ids = (1, 2, 3, 4, 5)
    calm = worlds.partition("calm", 0, (1, 4, 5), leader=4, leaderEpoch=6)
    told = {("calm", 0): (1, 5)}
    views = tuple(worlds.view(n, [calm, *rows], members=ids, told=told if n in (2, 3) else {}) for n in ids)
    snapshot = worlds.healthy(rows=[calm, *rows], views=views, brokers=tuple(worlds.broker(n) for n in ids))
    assert not_back(snapshot, 1, frozenset({2, 3})) is None
    assert "the views do not agree yet" in (not_back(snapshot, 1, frozenset({3})) or "")


def two_cut_off(isr=(4,)):
    """Broker 2 led orders-0 and takes itself for the leader still; broker 3 follows it. Broker 4 leads."""
    five = (1, 2, 3, 4, 5)
    rows = [worlds.partition("orders", 0, (2, 3, 4), leader=4, isr=list(isr)), worlds.partition("calm", 0, (1, 4, 5))]
    views = tuple(worlds.view(n, rows, members=five, told={("orders", 0): (2, 4)} if n in (2, 3) else {}) for n in five)
    return worlds.healthy(rows=rows, views=views, brokers=tuple(worlds.broker(n) for n in five))


BOTH = {"cures": frozenset({2, 3})}


def test_a_partition_below_its_minimum_loses_nothing_by_the_restart_of_who_cannot_catch_up_before():
    """Nor does the one wait for the other, which is to be restarted as well."""
    assert judged(two_cut_off(), 2, **BOTH).verdict is Verdict.ALLOW
    found = refusals(two_cut_off(), 2, cures=frozenset({2}))
    assert "broker 3 (1 partition)" in found["NoOtherBrokerDisturbed"][1]
    assert "IsrStaysAboveMin" in refusals(two_cut_off(), 2)


def test_it_loses_one_that_is_in_sync_and_the_last_one_that_has_the_log():
    told = "without broker 2, orders-0 would have 1 in sync (required: 2)"
    only(two_cut_off((2, 4)), "IsrStaysAboveMin", Verdict.DENY, told, 2, **BOTH)
    told = "without broker 2, orders-0 would have 0 in sync (required: 2)"
    assert told in refusals(two_cut_off(()), 2, **BOTH)["IsrStaysAboveMin"][1]
