"""KRaft controllers that are no brokers: judged by the quorum, by their Pods and nodes, and in their own order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import Controller, Quorum, Voter
from kafka_medic.guard.context import RestartContext
from kafka_medic.guard.restart import judge_restart
from kafka_medic.guard.verdict import Verdict
from tests.unit.cluster import worlds


def judged(snapshot, broker, **context):
    return judge_restart(snapshot, broker, worlds.NOW, context=RestartContext(**context))


def with_controllers(leader=11, caught_up=0, **target):
    """Controllers 10, 11, 12 beside the three brokers."""
    pods = {n: replace(worlds.pod(1), name=f"controller-{n}", uid=f"uid-{n}", answers_as=n) for n in (10, 11, 12)}
    pods[10] = replace(pods[10], **target)
    voters = tuple(Voter(n, 0, caught_up if n == 12 else 0, pods[n]) for n in (10, 11, 12))
    return worlds.healthy(quorum=Quorum(leader, voters), controller=Controller(leader))


def test_a_controller_that_is_no_broker_holds_nothing_and_is_judged_by_the_quorum():
    assert judged(with_controllers(), 10).verdict is Verdict.ALLOW
    refused = judged(with_controllers(caught_up=60_000), 10).refusals
    assert [r.guard for r in refused] == ["QuorumKeepsMajority"]
    assert judged(with_controllers(caught_up=60_000), 2).verdict is Verdict.ALLOW, (
        "a broker that is no voter takes none away"
    )


def test_the_active_controller_waits_for_the_other_controllers_and_not_for_the_brokers():
    waits = judged(with_controllers(leader=10), 10, remaining=frozenset({12, 1, 2})).refusals
    assert [(r.guard, r.message) for r in waits] == [
        ("ControllerLast", "broker 10 is the active controller and restarts last, after 12")
    ]
    assert judged(with_controllers(leader=10), 10, remaining=frozenset({1, 2})).verdict is Verdict.ALLOW


@pytest.mark.parametrize("pod", [{"uid": None}, {"cordoned": True}, {"cordoned": None}])
def test_the_pod_and_node_of_a_controller_count_as_a_brokers_do(pod):
    refused = judged(with_controllers(**pod), 10).refusals
    assert [r.guard for r in refused] == ["PodsReadyNodeSchedulable"]


def test_a_controllers_pod_that_is_not_ready_holds_a_brokers_restart():
    refused = judged(with_controllers(ready=False), 2).refusals
    assert [r.message for r in refused] == ["Pod controller-10 of broker 10 is not Ready"]
