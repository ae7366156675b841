"""Guards of a restart over what the cluster says of itself: views, replicas, quorum, controller."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import Controller, Mode, Quorum, View, Voter
from kafka_medic.guard.verdict import Verdict
from tests.unit.cluster import worlds
from tests.unit.guard.restarts import diverged, judged, only, refusals


def test_views_that_differ():
    only(diverged(), "ViewsAgree", Verdict.DENY, "orders-0 leader 2 epoch 4, decided is leader 1 epoch 5")


def test_the_cure_of_exactly_this_divergence_may_go_on():
    assert judged(diverged(), broker=3, cures=frozenset({3})).verdict is Verdict.ALLOW
    assert judged(diverged(), broker=2, cures=frozenset({3})).verdict is not Verdict.ALLOW
    assert judged(diverged(), broker=2, cures=frozenset({2})).verdict is not Verdict.ALLOW


def test_views_with_gaps_are_unknown():
    for views in (
        None,
        (worlds.view(1), worlds.view(2)),
        (worlds.view(1), worlds.view(2), View(3)),
        (worlds.view(1), worlds.view(2), worlds.view(3, members=None)),
        (worlds.view(1), worlds.view(2), worlds.view(3), worlds.view(3)),
    ):
        assert refusals(worlds.healthy(views=views))["ViewsAgree"][0] is Verdict.UNKNOWN


def test_members_and_topics_count_and_order_does_not():
    views = (worlds.view(1), worlds.view(2), worlds.view(3, members=(3,)))
    only(worlds.healthy(views=views), "ViewsAgree", Verdict.DENY, "members 3, registered are 1, 2, 3")
    views = (worlds.view(1), worlds.view(2), worlds.view(3, worlds.ROWS[:-1]))
    only(worlds.healthy(views=views), "ViewsAgree", Verdict.DENY, "__consumer_offsets-0 not reported")
    views = (worlds.view(1), worlds.view(2), worlds.view(3, worlds.ROWS[::-1]))
    assert judged(worlds.healthy(views=views)).verdict is Verdict.ALLOW


def test_the_controller_in_a_view_counts_with_zookeeper_only():
    views = (worlds.view(1), worlds.view(2), worlds.view(3, controller=2))
    assert judged(worlds.healthy(Mode.KRAFT, views=views)).verdict is Verdict.ALLOW
    only(worlds.healthy(Mode.ZOOKEEPER, views=views), "ViewsAgree", Verdict.DENY, "controller 2")
    views = (worlds.view(1), worlds.view(2), worlds.view(3, controller=None))
    only(worlds.healthy(Mode.ZOOKEEPER, views=views), "ViewsAgree", Verdict.UNKNOWN, "controller")


def test_no_replica_to_spare_names_the_topic_and_the_way_out():
    rows = [*worlds.ROWS, worlds.partition("payments", 0, (2, 1), minIsr=2)]
    only(worlds.healthy(rows=rows), "IsrStaysAboveMin", Verdict.DENY, "payments (2 replicas, min.insync.replicas 2)")
    only(worlds.healthy(rows=rows), "IsrStaysAboveMin", Verdict.DENY, "raise-replication-factor")
    assert judged(worlds.healthy(rows=rows), broker=3).verdict is Verdict.ALLOW


def test_a_single_replica_is_refused_whatever_min_isr_says():
    for least in (0, 1):
        rows = [*worlds.ROWS, worlds.partition("solo", 0, (2,), minIsr=least)]
        only(worlds.healthy(rows=rows), "IsrStaysAboveMin", Verdict.DENY, "solo")


def test_the_isr_would_fall_below():
    rows = [worlds.partition("orders", 0, (1, 2, 3), isr=[1, 2])]
    found = refusals(worlds.healthy(rows=rows))
    assert found["IsrStaysAboveMin"][0] is Verdict.DENY
    assert "orders-0 would have 1 in sync (required: 2)" in found["IsrStaysAboveMin"][1]


def test_internal_topics_count():
    rows = [*worlds.ROWS[:-1], worlds.partition("__consumer_offsets", 0, (2, 1), minIsr=2)]
    only(worlds.healthy(rows=rows), "IsrStaysAboveMin", Verdict.DENY, "__consumer_offsets")


@pytest.mark.parametrize("key", ["minIsr", "isr", "replicas", "adding", "removing", "leader", "leaderEpoch"])
def test_a_null_in_a_partition_is_unknown(key):
    rows = [{**worlds.partition("orders", 0), key: None}, *worlds.ROWS[1:]]
    assert judged(worlds.healthy(rows=rows)).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("key", ["replicas", "isr", "adding", "removing"])
def test_a_null_inside_a_list_is_unknown(key):
    rows = [{**worlds.partition("orders", 0), key: [1, None]}, *worlds.ROWS[1:]]
    assert Verdict.UNKNOWN in {r.verdict for r in judged(worlds.healthy(rows=rows)).refusals}


def test_a_reassignment_blocks_and_counts_with_its_target():
    row = worlds.partition("orders", 0, (1, 2, 3), isr=[1, 2, 3], removing=[1, 3])
    found = refusals(worlds.healthy(rows=[row]))
    assert found["NoReassignment"] == (Verdict.WAIT, "being reassigned with broker 2 in it: orders-0")
    # Only broker 2 is to stay, so there is nothing to spare although three are in sync.
    assert found["IsrStaysAboveMin"][0] is Verdict.DENY


def test_a_reassignment_elsewhere_waits_as_well():
    rows = [worlds.partition("orders", 0, (1, 3), adding=[3], minIsr=1)]
    assert "elsewhere" in refusals(worlds.healthy(rows=rows))["NoReassignment"][1]


@pytest.mark.parametrize(
    ("quorum", "verdict", "words"),
    [
        (None, Verdict.UNKNOWN, "could not be read"),
        (Quorum(1, ()), Verdict.UNKNOWN, "could not be read"),
        (Quorum(1, (Voter(1, 0, 0),)), Verdict.DENY, "one voter"),
        (Quorum(1, (Voter(1, 0, 0), Voter(2, 0, 0))), Verdict.DENY, "1 of 2 voters"),
        (Quorum(1, (Voter(1, 0, 0), Voter(2, 0, 0), Voter(3, 9, 2000))), Verdict.DENY, "1 of 3 voters"),
        (Quorum(1, (Voter(1, 0, 0), Voter(2, 0, 0), Voter(3, None, 0))), Verdict.UNKNOWN, "voters 3"),
        (Quorum(1, (Voter(1, 0, 0), Voter(2, 0, 0), Voter(3, 0, None))), Verdict.UNKNOWN, "voters 3"),
    ],
)
def test_the_kraft_quorum(quorum, verdict, words):
    only(worlds.healthy(quorum=quorum), "QuorumKeepsMajority", verdict, words)


def test_the_target_itself_may_lag_and_the_limit_is_a_setting():
    lagging = Quorum(1, (Voter(1, 0, 0), Voter(2, 9, 9000), Voter(3, 0, 1999)))
    assert judged(worlds.healthy(quorum=lagging)).verdict is Verdict.ALLOW
    slow = Quorum(1, (Voter(1, 0, 0), Voter(2, 0, 0), Voter(3, 9, 2500)))
    assert judged(worlds.healthy(quorum=slow), fetch_timeout_ms=3000).verdict is Verdict.ALLOW


def test_separate_voters_keep_their_majority():
    apart = Quorum(100, (Voter(100, 0, 0), Voter(101, 0, 0), Voter(102, 9, 60000)))
    assert judged(worlds.healthy(quorum=apart, controller=Controller(100))).verdict is Verdict.ALLOW


def test_a_quorum_without_leader():
    leaderless = worlds.healthy(quorum=Quorum(None, tuple(Voter(n, 0, 0) for n in worlds.IDS)))
    assert refusals(leaderless)["QuorumKeepsMajority"][0] is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("serving", "leader", "verdict"),
    [((0, None, None), 1, Verdict.DENY), ((0, 0, None), 1, None), ((0, 0, 0), None, Verdict.UNKNOWN)],
)
def test_the_ensemble(serving, leader, verdict):
    voters = tuple(Voter(n, lag) for n, lag in enumerate(serving, start=1))
    found = refusals(worlds.healthy(Mode.ZOOKEEPER, quorum=Quorum(leader, voters)))
    assert found.get("QuorumKeepsMajority", (None,))[0] is verdict


def test_the_active_controller_comes_last():
    only(worlds.healthy(), "ControllerLast", Verdict.WAIT, "restarts last, after 2, 3", 1, remaining=frozenset({2, 3}))
    assert judged(worlds.healthy(), broker=1, remaining=frozenset({1})).verdict is Verdict.ALLOW
    assert judged(worlds.healthy(), broker=2, remaining=frozenset({1, 3})).verdict is Verdict.ALLOW


def test_the_controller_not_known_or_told_two_ways():
    for controller in (None, Controller(None), Controller(-1), Controller(2)):
        only(worlds.healthy(controller=controller), "ControllerLast", Verdict.UNKNOWN, "")


def test_the_mode_not_known():
    snapshot = worlds.healthy()
    snapshot = replace(snapshot, cluster=replace(snapshot.cluster, mode=None))
    assert refusals(snapshot)["QuorumKeepsMajority"][0] is Verdict.UNKNOWN
