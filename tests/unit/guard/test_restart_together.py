"""Restarts of several brokers at once, and of a controller that is stuck."""

from __future__ import annotations

from dataclasses import replace

from kafka_medic.cluster.snapshot import Mode, Quorum, Voter
from kafka_medic.guard.context import RestartContext, RestartQuestion
from kafka_medic.guard.stuck import undeclared
from kafka_medic.guard.verdict import Verdict
from tests.unit.cluster import worlds
from tests.unit.guard.restarts import judged

FIVE = tuple(worlds.broker(n) for n in range(1, 6))


def of_five(*rows, **changes):
    """Five brokers, all voters; `rows` are (topic, replicas)."""
    listed = [worlds.partition(topic, 0, replicas) for topic, replicas in rows]
    changes = {"brokers": FIVE, "quorum": Quorum(1, tuple(Voter(n, 0, 0) for n in range(1, 6)))} | changes
    views = tuple(worlds.view(n, listed, members=(1, 2, 3, 4, 5)) for n in range(1, 6))
    return worlds.healthy(rows=listed, **{"views": views, **changes})


def test_two_at_once_that_share_no_partition_are_permitted_by_the_same_guards():
    apart = of_five(("a", (1, 2, 4)), ("b", (3, 5, 1)))
    assert judged(apart, 2, together=frozenset({3})).verdict is Verdict.ALLOW
    shared = of_five(("a", (1, 2, 3)), ("b", (3, 5, 1)))
    assert judged(shared, 2).verdict is Verdict.ALLOW
    assert "without broker 2, 3, a-0 would have 1 in sync" in message(shared, 2, "IsrStaysAboveMin", {3})


def test_those_away_do_not_count_for_the_quorum():
    apart = of_five(("a", (1, 2, 5)))
    assert judged(apart, 2, together=frozenset({3})).verdict is Verdict.ALLOW
    told = message(apart, 2, "QuorumKeepsMajority", {3, 4})
    assert "without broker 2, 3, 4, 2 of 5 voters caught up (required: 3)" in told


def test_a_broker_that_the_run_has_away_disturbs_nobody_and_another_one_does():
    gone = {"registered": False, "reachable": False, "recovering": None}
    down = tuple(replace(b, **gone, pod=worlds.pod(b.id, ready=False)) if b.id == 3 else b for b in FIVE)
    listed = [worlds.partition("a", 0, (1, 2, 4)), worlds.partition("b", 0, (5, 3, 1), isr=[5, 1])]
    views = tuple(worlds.view(n, listed, members=(1, 2, 4, 5)) for n in (1, 2, 4, 5))
    snapshot = of_five(brokers=down, partitions=worlds.partitions(listed), views=views)
    assert judged(snapshot, 2, together=frozenset({3})).verdict is Verdict.ALLOW
    refused = {r.guard for r in judged(snapshot, 2).refusals}
    assert refused == {"NoOtherBrokerDisturbed", "PodsReadyNodeSchedulable"}


def test_the_node_of_one_that_is_away_still_has_to_take_it_back():
    cordoned = tuple(replace(b, pod=worlds.pod(3, cordoned=True)) if b.id == 3 else b for b in FIVE)
    snapshot = of_five(("a", (1, 2, 4)), ("b", (5, 3, 1)), brokers=cordoned)
    assert [r.guard for r in judged(snapshot, 2, together=frozenset({3})).refusals] == ["PodsReadyNodeSchedulable"]


def message(snapshot, broker, guard, together):
    found = judged(snapshot, broker, together=frozenset(together)).refusals
    assert [r.guard for r in found] == [guard]
    return found[0].message


def stuck(**last):
    """With ZooKeeper: broker 1 is the controller; 3 is gone and still leads, and all views still count it."""
    gone = {"registered": False, "reachable": False, "recovering": None, "pod": worlds.pod(3, ready=False)}
    rows = [worlds.partition("orders", 0, (3, 1, 2)), worlds.partition("orders", 1, (1, 2, 3), **last)]
    views = tuple(worlds.view(n, rows) for n in (1, 2))
    return worlds.healthy(Mode.ZOOKEEPER, rows=rows, brokers=worlds.brokers(b3=gone), views=views)


def test_a_stuck_controller_may_be_restarted_though_a_broker_is_down_that_only_another_can_declare_gone():
    assert judged(stuck(), 1, replaces_controller=True).verdict is Verdict.ALLOW
    refused = {r.guard for r in judged(stuck(), 1).refusals}
    assert refused == {"ViewsAgree", "NoOtherBrokerDisturbed", "PodsReadyNodeSchedulable"}
    assert judged(stuck(), 2, replaces_controller=True).verdict is not Verdict.ALLOW, "only the controller itself"


def test_a_controller_that_did_its_work_is_not_stuck():
    """The broker that is down leads nothing any more, so that it is down as any other."""
    gone = {"registered": False, "reachable": False, "recovering": None, "pod": worlds.pod(3, ready=False)}
    rows = [worlds.partition("orders", 0, (1, 2, 3), isr=[1, 2])]
    views = tuple(worlds.view(n, rows, members=(1, 2)) for n in (1, 2))
    snapshot = worlds.healthy(Mode.ZOOKEEPER, rows=rows, brokers=worlds.brokers(b3=gone), views=views)
    assert judged(snapshot, 1, replaces_controller=True).verdict is not Verdict.ALLOW


def test_a_pod_in_which_another_broker_answers_does_not_show_that_a_broker_is_gone():
    rows = [worlds.partition("orders", 0, (3, 1, 2))]

    def silent(**pod):
        gone = {"registered": True, "reachable": False, "pod": worlds.pod(3, ready=False, **pod)}
        views = tuple(worlds.view(n, rows) for n in (1, 2))
        return worlds.healthy(rows=rows, brokers=worlds.brokers(b3=gone), views=views)

    asked = RestartQuestion(1, RestartContext(replaces_controller=True), ())
    assert undeclared(silent(), asked) == {3}
    assert undeclared(silent(answers_as=2), asked) == frozenset()


def test_a_stuck_controller_that_alone_is_live_in_an_isr_stays():
    refused = judged(stuck(isr=[1, 3]), 1, replaces_controller=True).refusals
    assert "orders-1 would have no live replica in sync" in "; ".join(r.message for r in refused)


def test_a_stuck_controller_of_a_quorum_that_would_lose_its_majority_stays():
    gone = {"registered": False, "reachable": False, "recovering": None, "pod": worlds.pod(3, ready=False)}
    rows = [worlds.partition("orders", 0, (3, 1, 2))]
    voters = (Voter(1, 0, 0), Voter(2, 0, 0), Voter(3, 90, 60_000))
    views = tuple(worlds.view(n, rows) for n in (1, 2))
    snapshot = worlds.healthy(rows=rows, brokers=worlds.brokers(b3=gone), views=views, quorum=Quorum(1, voters))
    refused = judged(snapshot, 1, replaces_controller=True).refusals
    assert [r.guard for r in refused] == ["QuorumKeepsMajority"]
