"""No restart leaves a partition to a broker that would not know that it leads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import Mode
from kafka_medic.guard.succession import harmless_first
from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook.restart.order import next_broker, restart_order, why
from tests.unit.cluster import worlds
from tests.unit.guard.restarts import judged, only, refusals

FIVE = (1, 2, 3, 4, 5)
CALM = worlds.partition("calm", 0, (1, 4, 5), leader=4, leaderEpoch=6)
"""Brokers 2 and 3 have not heard that broker 4 leads it."""


def two_stale(*orders, mode=Mode.KRAFT, controller=1):
    rows = [CALM, *(worlds.partition("orders", n, ids) for n, ids in enumerate(orders))]
    told = {("calm", 0): (1, 5)}
    views = tuple(
        worlds.view(n, rows, members=FIVE, controller=controller, told=told if n in (2, 3) else {}) for n in FIVE
    )
    brokers = tuple(worlds.broker(n) for n in FIVE)
    return worlds.healthy(mode, rows=rows, views=views, brokers=brokers)


@pytest.mark.parametrize("mode", [Mode.KRAFT, Mode.ZOOKEEPER])
def test_the_one_whose_successor_is_stale_too_has_to_wait(mode):
    snapshot = two_stale((2, 3, 4), mode=mode)
    told = "broker 3 would then lead orders-0 without serving: its view is stale"
    only(snapshot, "ViewsAgree", Verdict.DENY, told, 2, cures=frozenset({2, 3}))


def test_the_other_one_goes_first():
    snapshot = two_stale((2, 3, 4))
    assert judged(snapshot, 3, cures=frozenset({2, 3})).verdict is Verdict.ALLOW
    assert harmless_first(snapshot, (2, 3)) == [3, 2]
    assert restart_order(snapshot, FIVE)[:2] == (3, 2)
    assert next_broker(snapshot, FIVE, {2, 3}) == 3


def test_one_that_has_been_cured_by_somebody_else_comes_after_those_that_are_stale():
    snapshot = two_stale((4, 3, 2))
    cures = frozenset({1, 2, 3})
    assert next_broker(snapshot, FIVE, cures) == 2
    assert refusals(snapshot, 1, cures=cures)["ViewsAgree"][0] is Verdict.DENY
    assert judged(snapshot, 2, cures=cures).verdict is Verdict.ALLOW


def test_with_a_fit_successor_it_may_go():
    assert judged(two_stale((2, 4, 3)), 2, cures=frozenset({2, 3})).verdict is Verdict.ALLOW


def of_version(snapshot, version):
    return replace(snapshot, brokers=tuple(replace(b, version=version) for b in snapshot.brokers))


@pytest.mark.parametrize(("mode", "version"), [(Mode.ZOOKEEPER, "3.9.1"), (Mode.KRAFT, "3.5.2"), (Mode.KRAFT, "7.5-x")])
def test_what_a_stale_broker_leads_must_not_get_another_epoch(mode, version):
    """Broker 2 follows there, and leaves the ISR by its end."""
    told = "broker 3 would then lead orders-0 without serving: its view is stale"
    led_by_3 = of_version(two_stale((3, 4, 2), mode=mode), version)
    only(led_by_3, "ViewsAgree", Verdict.DENY, told, 2, cures=frozenset({2, 3}))
    assert judged(led_by_3, 3, cures=frozenset({2, 3})).verdict is Verdict.ALLOW


@pytest.mark.parametrize("version", ["3.6.0", "4.3.1"])
def test_where_the_epoch_does_not_rise_it_may_go(version):
    assert judged(of_version(two_stale((3, 4, 2)), version), 2, cures=frozenset({2, 3})).verdict is Verdict.ALLOW


def stale_controller():
    views = tuple(worlds.view(n, told={("orders", 1): (3, 4)} if n == 1 else {}) for n in worlds.IDS)
    return worlds.healthy(views=views)


def test_a_stale_active_controller_goes_before_brokers_that_may_not_go_before_it():
    snapshot = stale_controller()
    assert restart_order(snapshot, worlds.IDS)[0] == 1
    assert next_broker(snapshot, worlds.IDS, {1}) == 1
    assert judged(snapshot, 1, remaining=frozenset({2, 3}), cures=frozenset({1})).verdict is Verdict.ALLOW
    assert "ViewsAgree" in refusals(snapshot, 2, remaining=frozenset({1, 3}), cures=frozenset({1}))
    assert "it restarts first" in why(snapshot, 1)


def test_it_waits_for_others_that_are_stale():
    snapshot = stale_controller()
    found = refusals(snapshot, 1, remaining=frozenset({2, 3}), cures=frozenset({1, 2}))
    assert found["ControllerLast"][0] is Verdict.WAIT
    assert "restarts last, after 2" in found["ControllerLast"][1]


def test_a_healthy_active_controller_is_last():
    snapshot = worlds.healthy()
    assert next_broker(snapshot, worlds.IDS, set()) == 2
    assert refusals(snapshot, 1, remaining=frozenset({2, 3}))["ControllerLast"][0] is Verdict.WAIT
