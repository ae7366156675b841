"""Removing replicas: only where what remains is in sync, by the word of a leader that knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.guard.removal import judge_removal
from kafka_medic.guard.verdict import Verdict
from kafka_medic.resources.vocabulary import Guard
from tests.unit.cluster import worlds

FOUR = (1, 2, 3, 4)
TP, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
REMOVALS = {
    TP: (frozenset({4, 1, 2, 3}), frozenset({1, 2, 3})),
    OTHER: (frozenset({1, 2, 3, 4}), frozenset({1, 2, 3})),
}
ROWS = (worlds.partition("orders", 0, (4, 1, 2, 3)), worlds.partition("orders", 1, (1, 2, 3, 4)))


def of_four(rows=ROWS, views=None, **b2):
    told = views or tuple(worlds.view(n, rows, members=FOUR) for n in FOUR)
    return worlds.healthy(rows=rows, brokers=(*worlds.brokers(b2=b2), worlds.broker(4)), views=told)


def refusals(snapshot, removals=None, now=worlds.NOW):
    return {r.guard: r.verdict for r in judge_removal(snapshot, removals or REMOVALS, now).refusals}


def row(number=0, **changes):
    return tuple({**r, **changes} if n == number else r for n, r in enumerate(ROWS))


def test_replicas_whose_place_others_have_taken_may_go():
    judgement = judge_removal(of_four(), REMOVALS, worlds.NOW)
    assert judgement.verdict is Verdict.ALLOW, judgement.refusals
    assert {r.guard for r in judgement.reasons} == {
        Guard.SOURCES_FRESH, Guard.CLUSTER_REACHABLE, Guard.BROKERS_STABLE, Guard.NO_FOREIGN_REASSIGNMENT,
        Guard.REPLACEMENTS_IN_SYNC, Guard.FIT_TO_RECEIVE, Guard.PRECONDITIONS_HOLD,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"isr": [4, 1, 2]}, Verdict.WAIT),
        ({"isr": [4]}, Verdict.WAIT),
        ({"isr": None}, Verdict.UNKNOWN),
        ({"leader": None}, Verdict.UNKNOWN),
        ({"leader": -1}, Verdict.UNKNOWN),
        ({"minIsr": None}, Verdict.UNKNOWN),
        ({"minIsr": 4}, Verdict.DENY),
    ],
)
def test_what_remains_has_to_be_in_sync_and_enough(changes, verdict):
    assert refusals(of_four(row(**changes)))["ReplacementsInSync"] is verdict


@pytest.mark.parametrize(("minimum", "verdict"), [(3, Verdict.WAIT), (2, None)])
def test_what_is_about_to_go_does_not_count_for_the_minimum(minimum, verdict):
    going = of_four(row(minIsr=minimum), pod=replace(worlds.broker(2).pod, cordoned=True))
    assert refusals(going).get("ReplacementsInSync") is verdict


def test_one_that_has_lost_its_replicas_is_not_asked_about_again():
    rows = row(replicas=[1, 2, 3], isr=[1, 2], leader=1)
    assert judge_removal(of_four(rows), REMOVALS, worlds.NOW).verdict is Verdict.ALLOW


def test_the_leader_whose_isr_it_is_has_current_metadata():
    views = tuple(worlds.view(n, ROWS, members=FOUR, told={("orders", 0): (1, 4)} if n == 4 else None) for n in FOUR)
    assert refusals(of_four(views=views))["ReplacementsInSync"] is Verdict.DENY
    assert refusals(of_four(views=views[:3]))["ReplacementsInSync"] is Verdict.UNKNOWN


def test_where_the_leader_goes_its_heirs_are_fit():
    """Broker 2 does not lead, and may come to lead orders-0 when broker 4 loses it."""
    views = tuple(worlds.view(n, ROWS, members=FOUR, told={("orders", 1): (1, 4)} if n == 2 else None) for n in FOUR)
    assert refusals(of_four(views=views))["FitToReceive"] is Verdict.DENY
    stays = {OTHER: REMOVALS[OTHER]}
    assert refusals(of_four(views=views), stays) == {"ReplacementsInSync": Verdict.DENY}


def test_a_follower_that_remains_has_current_metadata_too():
    """Otherwise it does not learn the epoch that comes with the removal, and falls out of the ISR."""
    views = tuple(worlds.view(n, ROWS, members=FOUR, told={("orders", 0): (4, 4)} if n == 3 else None) for n in FOUR)
    stays = {OTHER: REMOVALS[OTHER]}
    assert refusals(of_four(views=views), stays) == {"ReplacementsInSync": Verdict.DENY}


@pytest.mark.parametrize(
    "changes",
    [
        {"replicas": [4, 1, 2]},
        {"replicas": [4, 1, 2, 3, 5]},
        {"replicas": [4, 1, 2, 3], "adding": [3]},
        {"replicas": [4, 1, 2, 3], "removing": [1]},
    ],
)
def test_what_somebody_else_has_changed(changes):
    found = refusals(of_four(row(**changes)))
    assert found["PreconditionsHold"] is Verdict.DENY


@pytest.mark.parametrize(("before", "remain"), [((4, 1), ()), ((4, 1, 2, 3), (1, 2, 5))])
def test_a_plan_that_is_no_removal(before, remain):
    removals = {TP: (frozenset(before), frozenset(remain))}
    assert refusals(of_four(), removals)["PreconditionsHold"] is Verdict.DENY


def test_others_hold_it_up():
    assert refusals(of_four(reachable=False))["BrokersStable"] is Verdict.WAIT
    foreign = (*ROWS, worlds.partition("other", 0, (1, 2), adding=[2]))
    assert refusals(of_four(foreign)) == {"NoForeignReassignment": Verdict.WAIT}
    assert refusals(of_four(), now=worlds.later(31)) == {"SourcesFresh": Verdict.UNKNOWN}
    assert refusals(replace(of_four(), partitions=None))["PreconditionsHold"] is Verdict.UNKNOWN
