"""The guards that a playbook may add, about the whole cluster: each verdict, and nothing unknown that permits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import Controller, Mode, Quorum, Rollout, Snapshot, Voter
from kafka_medic.guard.cluster_wide import CLUSTER_WIDE, judge_cluster
from kafka_medic.guard.verdict import Verdict
from kafka_medic.resources.vocabulary import Guard
from tests.unit.cluster import worlds

A, D, W, U = Verdict.ALLOW, Verdict.DENY, Verdict.WAIT, Verdict.UNKNOWN


def rows(**changes):
    return worlds.healthy(rows=[*worlds.ROWS, worlds.partition("t", 0, **changes)])


def brokers(**of_second):
    return worlds.healthy(brokers=worlds.brokers(b2=of_second))


def pod(**changes):
    return brokers(pod=worlds.pod(2, **changes))


def voters(*lags, mode=Mode.KRAFT, leader=1):
    return worlds.healthy(mode, quorum=Quorum(leader, tuple(Voter(n + 1, lag, lag) for n, lag in enumerate(lags))))


def views(*third):
    return worlds.healthy(views=(worlds.view(1), worlds.view(2), *third))


STALE = worlds.view(3, told={("orders", 0): (2, 4)})
SILENT = replace(worlds.view(3), members=None, leaders=None)
AHEAD = worlds.view(3, told={("orders", 0): (2, 6)})
NOT_KNOWN = worlds.healthy(brokers=None, partitions=None, views=None, quorum=None, controller=None, rollouts=None)
ALL_MUTE = worlds.brokers(**{f"b{n}": {"reachable": False} for n in worlds.IDS})
ALL_UNSURE = worlds.brokers(**{f"b{n}": {"reachable": None} for n in worlds.IDS})

CASES: dict[Guard, list[tuple[Snapshot, Verdict]]] = {
    Guard.CLUSTER_REACHABLE: [
        (worlds.healthy(brokers=ALL_MUTE), W),
        (worlds.healthy(brokers=ALL_UNSURE), U),
        (worlds.healthy(brokers=()), U),
        (brokers(reachable=False), A),
    ],
    Guard.BROKERS_STABLE: [
        (brokers(reachable=False), W),
        (brokers(registered=False), W),
        (brokers(recovering=True), W),
        (brokers(reachable=None), U),
        (brokers(registered=None), U),
        (brokers(recovering=None), U),
    ],
    Guard.NO_OTHER_BROKER_DISTURBED: [
        (brokers(registered=False), D),
        (brokers(reachable=False), D),
        (brokers(recovering=True), W),
        (brokers(recovering=None), U),
        (worlds.healthy(brokers=()), U),
        (worlds.healthy(partitions=None), U),
        (rows(isr=[1, 2]), W),
        (rows(isr=None), U),
        (rows(replicas=(1, 2, 9), isr=[1, 2]), D),
    ],
    Guard.PARTITIONS_KNOWN: [
        (rows(leader=None), U),
        (rows(leader=-1), A),
        (rows(isr=None), U),
        (rows(isr=[1, None]), U),
        (rows(adding=None), U),
        (rows(removing=None), U),
    ],
    Guard.NO_REASSIGNMENT: [
        (rows(adding=[3], isr=[1, 2]), W),
        (rows(removing=[3]), W),
        (rows(adding=None), U),
        (rows(removing=None), U),
    ],
    Guard.CONTROLLER_ACTIVE: [
        (worlds.healthy(controller=Controller(None)), U),
        (worlds.healthy(controller=Controller(-1)), U),
    ],
    Guard.QUORUM_KEEPS_MAJORITY: [
        (voters(0, 0, 0), A),
        (voters(0, 0, 9000), D),
        (voters(0, 0, None), U),
        (voters(0, 0, 0, leader=None), U),
        (voters(0), D),
        (voters(0, 0, 0, 0, 9000), A),
        (voters(0, 0, 0, 9000, 9000), D),
        (replace(voters(0, 0, 0), cluster=replace(worlds.healthy().cluster, mode=None)), U),
        (voters(0, 0, 0, mode=Mode.ZOOKEEPER), A),
        (voters(0, 0, None, mode=Mode.ZOOKEEPER), D),
        (voters(0, None, None, mode=Mode.ZOOKEEPER), D),
        (voters(0, 0, 0, mode=Mode.ZOOKEEPER, leader=None), U),
        (voters(0, mode=Mode.ZOOKEEPER), D),
    ],
    Guard.VIEWS_AGREE: [
        (views(STALE), D),
        (views(SILENT), U),
        (views(), U),
        (views(AHEAD), U),
        (worlds.healthy(views=()), U),
        (worlds.healthy(controller=None, mode=Mode.ZOOKEEPER), U),
    ],
    Guard.NO_FOREIGN_ROLLOUT: [(worlds.healthy(rollouts=(Rollout("StatefulSet", "kafka", "1 of 3"),)), W)],
    Guard.PODS_READY_NODE_SCHEDULABLE: [
        (pod(ready=False), W),
        (pod(ready=None), U),
        (pod(cordoned=True), W),
        (pod(cordoned=None), U),
        (pod(maintenance=("node-2 is about to go",)), W),
        (brokers(pod=None), U),
        (worlds.healthy(brokers=tuple(replace(b, pod=None) for b in worlds.brokers())), U),
    ],
}


def verdict(snapshot, guard, now=worlds.NOW):
    judged = judge_cluster(snapshot, [guard], now)
    assert {r.guard for r in judged.reasons} == {guard, Guard.SOURCES_FRESH}
    return judged.verdict


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("guard", CLUSTER_WIDE)
def test_a_healthy_cluster_permits(guard, mode):
    assert judge_cluster(worlds.healthy(mode), [guard], worlds.NOW).verdict is Verdict.ALLOW


@pytest.mark.parametrize("guard", CLUSTER_WIDE)
def test_what_is_not_known_never_permits(guard):
    assert verdict(NOT_KNOWN, guard) is Verdict.UNKNOWN


@pytest.mark.parametrize("guard", CLUSTER_WIDE)
def test_what_is_not_fresh_never_permits(guard):
    assert verdict(worlds.healthy(), guard, worlds.later(31)) is Verdict.UNKNOWN


def test_each_guard_names_the_sources_that_it_rests_on():
    unread = worlds.healthy(sources=worlds.sources(quorum="refused"))
    assert verdict(unread, Guard.QUORUM_KEEPS_MAJORITY) is Verdict.UNKNOWN
    unread = worlds.healthy(sources=worlds.sources(kubernetes="refused"))
    assert verdict(unread, Guard.PODS_READY_NODE_SCHEDULABLE) is Verdict.UNKNOWN
    assert verdict(unread, Guard.BROKERS_STABLE) is Verdict.ALLOW


def test_every_guard_has_cases():
    assert CASES.keys() == CLUSTER_WIDE.keys()


@pytest.mark.parametrize(
    ("guard", "snapshot", "expected"), [(g, *case) for g, cases in CASES.items() for case in cases]
)
def test_every_verdict(guard, snapshot, expected):
    found = judge_cluster(snapshot, [guard], worlds.NOW)
    assert found.verdict is expected, found.reasons
    if expected is not A:
        assert {r.guard for r in found.refusals} == {guard}, "it is this guard that refuses"


def test_none_added_is_no_answer_and_all_answer_in_their_own_names():
    assert judge_cluster(worlds.healthy(), (), worlds.NOW).reasons == ()
    asked = judge_cluster(NOT_KNOWN, [*CLUSTER_WIDE, *CLUSTER_WIDE], worlds.NOW)
    assert {r.guard for r in asked.reasons} == {*CLUSTER_WIDE, Guard.SOURCES_FRESH}
