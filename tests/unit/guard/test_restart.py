"""Every guard of a restart: what it refuses, in which words, and that only a wholly known, healthy cluster passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import Broker, Controller, Mode, Quorum, Rollout, Source, SourceState, View, Voter
from kafka_medic.guard import restart
from kafka_medic.guard.context import RestartContext
from kafka_medic.guard.evaluate import GuardFaultError, evaluate
from kafka_medic.guard.restart import RESTART_GUARDS, judge_restart
from kafka_medic.guard.verdict import Reason, Verdict
from tests.unit.cluster import worlds


def judged(snapshot, broker=2, now=worlds.NOW, **context):
    return judge_restart(snapshot, broker, now, context=RestartContext(**context))


def refusals(snapshot, broker=2, **context):
    """guard -> the worst of its refusals and all its words."""
    found = {}
    for reason in judged(snapshot, broker, **context).refusals:
        verdict, words = found.get(reason.guard, (reason.verdict, ""))
        found[reason.guard] = (verdict, f"{words} {reason.message}".strip())
    return found


def only(snapshot, guard, verdict, words, broker=2, **context):
    found = refusals(snapshot, broker, **context)
    assert set(found) == {guard}, found
    assert found[guard][0] is verdict
    assert words in found[guard][1]


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("broker", worlds.IDS)
def test_a_healthy_cluster_permits_and_every_guard_was_asked(mode, broker):
    judgement = judged(worlds.healthy(mode), broker)
    assert judgement.permits, judgement.refusals
    assert [r.guard for r in judgement.reasons] == ["SourcesFresh", *(name for name, _ in RESTART_GUARDS)]


def test_all_refusals_are_reported_together():
    row = worlds.partition("orders", 0, (1, 2), isr=[1, 2], minIsr=2, adding=[2])
    snapshot = worlds.healthy(
        rows=[row],
        brokers=worlds.brokers(b3={"reachable": False}),
        quorum=Quorum(1, (Voter(1, 0, 0),)),
        sources=worlds.sources(groups="refused"),
    )
    assert set(refusals(snapshot)) >= {
        "SourcesFresh", "IsrStaysAboveMin", "NoReassignment", "QuorumKeepsMajority", "NoOtherBrokerDisturbed",
    }  # fmt: skip


# 1 SourcesFresh


def test_a_source_that_did_not_answer():
    snapshot = worlds.healthy(sources=worlds.sources(groups="not authorized"))
    only(snapshot, "SourcesFresh", Verdict.UNKNOWN, "groups did not answer: not authorized")


@pytest.mark.parametrize("seconds", [31, -31])
def test_a_source_too_old_or_from_the_future(seconds):
    judgement = judge_restart(worlds.healthy(), 2, worlds.later(seconds))
    assert judgement.verdict is Verdict.UNKNOWN
    assert {r.guard for r in judgement.refusals} == {"SourcesFresh"}
    assert judge_restart(worlds.healthy(), 2, worlds.later(30)).permits
    assert judge_restart(worlds.healthy(), 2, worlds.later(31), max_age=60).permits


@pytest.mark.parametrize("name", ["kafka", "views", "reassignments", "quorum", "kubernetes"])
def test_a_needed_source_that_was_not_read(name):
    sources = tuple(s for s in worlds.sources() if s.name != name)
    only(worlds.healthy(sources=sources), "SourcesFresh", Verdict.UNKNOWN, f"no source {name}")


def test_a_source_without_a_time_and_a_snapshot_without_sources():
    timeless = (Source("kafka", None, SourceState.KNOWN), *worlds.sources()[1:])
    only(worlds.healthy(sources=timeless), "SourcesFresh", Verdict.UNKNOWN, "does not say when")
    only(worlds.healthy(sources=()), "SourcesFresh", Verdict.UNKNOWN, "no source")


def test_another_writers_coarser_sources_stand_for_what_is_not_null():
    coarse = tuple(Source(n, worlds.NOW, SourceState.KNOWN) for n in ("metadata", "pods"))
    assert judged(worlds.healthy(sources=coarse)).permits
    stale = (coarse[0], Source("pods", worlds.later(-60), SourceState.KNOWN))
    assert judged(worlds.healthy(sources=stale)).verdict is Verdict.UNKNOWN


# 2 ViewsAgree


def _diverged():
    stale = worlds.view(3, told={("orders", 0): (2, 4)})
    return worlds.healthy(views=(worlds.view(1), worlds.view(2), stale))


def test_views_that_differ():
    only(_diverged(), "ViewsAgree", Verdict.DENY, "orders-0 leader 2 epoch 4, authority leader 1 epoch 5")


def test_the_cure_of_exactly_this_divergence_may_go_on():
    assert judged(_diverged(), broker=3, cures=frozenset({3})).permits
    assert not judged(_diverged(), broker=2, cures=frozenset({3})).permits
    assert not judged(_diverged(), broker=2, cures=frozenset({2})).permits


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
    only(worlds.healthy(views=views), "ViewsAgree", Verdict.DENY, "__consumer_offsets-0 not known there")
    views = (worlds.view(1), worlds.view(2), worlds.view(3, worlds.ROWS[::-1]))
    assert judged(worlds.healthy(views=views)).permits


def test_the_controller_in_a_view_counts_with_zookeeper_only():
    views = (worlds.view(1), worlds.view(2), worlds.view(3, controller=2))
    assert judged(worlds.healthy(Mode.KRAFT, views=views)).permits
    only(worlds.healthy(Mode.ZOOKEEPER, views=views), "ViewsAgree", Verdict.DENY, "controller 2")
    views = (worlds.view(1), worlds.view(2), worlds.view(3, controller=None))
    only(worlds.healthy(Mode.ZOOKEEPER, views=views), "ViewsAgree", Verdict.UNKNOWN, "controller")


# 3 and 4 IsrStaysAboveMin, NoReassignment


def test_no_replica_to_spare_names_the_topic_and_the_way_out():
    rows = [*worlds.ROWS, worlds.partition("payments", 0, (2, 1), minIsr=2)]
    only(worlds.healthy(rows=rows), "IsrStaysAboveMin", Verdict.DENY, "payments (2 replicas, min.insync.replicas 2)")
    only(worlds.healthy(rows=rows), "IsrStaysAboveMin", Verdict.DENY, "raise-replication-factor")
    assert judged(worlds.healthy(rows=rows), broker=3).permits


def test_a_single_replica_is_refused_whatever_min_isr_says():
    for least in (0, 1):
        rows = [*worlds.ROWS, worlds.partition("solo", 0, (2,), minIsr=least)]
        only(worlds.healthy(rows=rows), "IsrStaysAboveMin", Verdict.DENY, "solo")


def test_the_isr_would_fall_below():
    rows = [worlds.partition("orders", 0, (1, 2, 3), isr=[1, 2])]
    found = refusals(worlds.healthy(rows=rows))
    assert found["IsrStaysAboveMin"][0] is Verdict.DENY
    assert "orders-0 would have 1 in sync and needs 2" in found["IsrStaysAboveMin"][1]


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


# 5 and 6 QuorumKeepsMajority, ControllerLast


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
    assert judged(worlds.healthy(quorum=lagging)).permits
    slow = Quorum(1, (Voter(1, 0, 0), Voter(2, 0, 0), Voter(3, 9, 2500)))
    assert judged(worlds.healthy(quorum=slow), fetch_timeout_ms=3000).permits


def test_separate_voters_keep_their_majority():
    apart = Quorum(100, (Voter(100, 0, 0), Voter(101, 0, 0), Voter(102, 9, 60000)))
    assert judged(worlds.healthy(quorum=apart, controller=Controller(100))).permits


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
    only(worlds.healthy(), "ControllerLast", Verdict.WAIT, "brokers 2, 3 come first", 1, remaining=frozenset({2, 3}))
    assert judged(worlds.healthy(), broker=1, remaining=frozenset({1})).permits
    assert judged(worlds.healthy(), broker=2, remaining=frozenset({1, 3})).permits


def test_the_controller_not_known_or_told_two_ways():
    for controller in (None, Controller(None), Controller(-1), Controller(2)):
        only(worlds.healthy(controller=controller), "ControllerLast", Verdict.UNKNOWN, "")


def test_the_mode_not_known():
    snapshot = worlds.healthy()
    snapshot = replace(snapshot, cluster=replace(snapshot.cluster, mode=None))
    assert refusals(snapshot)["QuorumKeepsMajority"][0] is Verdict.UNKNOWN


# 7 NoOtherBrokerDisturbed and the target


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"registered": False, "reachable": False}, Verdict.DENY),
        ({"reachable": False}, Verdict.DENY),
        ({"recovering": True}, Verdict.WAIT),
        ({"recovering": None}, Verdict.UNKNOWN),
        ({"reachable": None}, Verdict.UNKNOWN),
        ({"registered": None}, Verdict.UNKNOWN),
    ],
)
def test_another_broker_is_disturbed(change, verdict):
    found = refusals(worlds.healthy(brokers=worlds.brokers(b3=change)))
    assert found["NoOtherBrokerDisturbed"][0] is verdict


def test_another_broker_out_of_an_isr_that_the_target_is_not_in():
    rows = [*worlds.ROWS, worlds.partition("elsewhere", 0, (1, 3), isr=[1], minIsr=1)]
    only(worlds.healthy(rows=rows), "NoOtherBrokerDisturbed", Verdict.WAIT, "broker 3 (1 partitions)")


def test_a_replica_on_a_broker_nobody_knows():
    rows = [*worlds.ROWS, worlds.partition("elsewhere", 0, (1, 9), minIsr=1)]
    assert refusals(worlds.healthy(rows=rows))["NoOtherBrokerDisturbed"][0] is Verdict.DENY


def test_the_target_may_be_out_of_its_isrs():
    rows = [worlds.partition("orders", 0, (1, 2, 3, 4), isr=[1, 3, 4])]
    four = (*worlds.brokers(), worlds.broker(4))
    views = tuple(worlds.view(n, rows, members=(1, 2, 3, 4)) for n in (1, 2, 3, 4))
    assert judged(worlds.healthy(rows=rows, brokers=four, views=views)).permits


def test_the_target_is_a_broker_and_not_recovering():
    assert refusals(worlds.healthy(), broker=9)["TargetMayBeTouched"][0] is Verdict.DENY
    snapshot = worlds.healthy(brokers=worlds.brokers(b2={"recovering": True}))
    only(snapshot, "TargetMayBeTouched", Verdict.WAIT, "begin that again")
    snapshot = worlds.healthy(brokers=worlds.brokers(b2={"recovering": None}))
    only(snapshot, "TargetMayBeTouched", Verdict.UNKNOWN, "not known")
    snapshot = worlds.healthy(brokers=(*worlds.brokers(), worlds.broker(2)))
    only(snapshot, "TargetMayBeTouched", Verdict.UNKNOWN, "more than once")


def test_a_zombie_that_answers_may_be_restarted_as_the_cure():
    rows = [worlds.partition("orders", 0, (1, 2, 3), isr=[1, 3])]
    zombie = worlds.brokers(b2={"registered": False, "recovering": None})
    views = (
        worlds.view(1, rows, members=(1, 3)),
        worlds.view(2, rows, told={("orders", 0): (2, 4)}),
        worlds.view(3, rows, members=(1, 3)),
    )
    snapshot = worlds.healthy(rows=rows, brokers=zombie, views=views)
    assert judged(snapshot, cures=frozenset({2})).permits
    assert not judged(snapshot).permits


# 8 PodsReadyNodeSchedulable


@pytest.mark.parametrize(
    ("number", "pod", "verdict"),
    [
        (3, {"ready": False}, Verdict.WAIT),
        (3, {"ready": None}, Verdict.UNKNOWN),
        (3, {"cordoned": True}, Verdict.WAIT),
        (3, {"cordoned": None}, Verdict.UNKNOWN),
        (2, {"cordoned": True}, Verdict.DENY),
        (2, {"cordoned": None}, Verdict.UNKNOWN),
        (3, {"maintenance": ("node n3 has the taint karpenter.sh/disrupted",)}, Verdict.WAIT),
        (2, {"maintenance": ("node n2 has the taint karpenter.sh/disrupted",)}, Verdict.DENY),
        (3, {"maintenance": None}, None),
        (2, {"uid": None}, Verdict.UNKNOWN),
        (2, {"ready": False}, None),
    ],
)
def test_pods_and_nodes(number, pod, verdict):
    changed = worlds.brokers(**{f"b{number}": {"pod": worlds.pod(number, **pod)}})
    found = refusals(worlds.healthy(brokers=changed))
    assert {g: v for g, (v, _) in found.items()} == ({"PodsReadyNodeSchedulable": verdict} if verdict else {})


def test_a_cordon_that_is_the_cause():
    cordoned = worlds.healthy(brokers=worlds.brokers(b2={"pod": worlds.pod(2, cordoned=True)}))
    assert judged(cordoned, cordon_is_cause=True).permits
    going = worlds.pod(2, maintenance=("node n2 has the taint karpenter.sh/disrupted",))
    assert judged(worlds.healthy(brokers=worlds.brokers(b2={"pod": going})), cordon_is_cause=True).permits


# 9 NoForeignRollout


def test_somebody_elses_rollout_is_waited_for():
    rollout = Rollout("StatefulSet", "kafka", "1 of 3 Pods have the revision b")
    only(worlds.healthy(rollouts=(rollout,)), "NoForeignRollout", Verdict.WAIT, "StatefulSet kafka is being rolled out")


def test_rollouts_that_could_not_be_read_are_not_none():
    only(worlds.healthy(rollouts=None), "NoForeignRollout", Verdict.UNKNOWN, "is not known")
    failed = refusals(worlds.healthy(rollouts=None, sources=worlds.sources(rollouts="403")))
    assert {g: v for g, (v, _) in failed.items()} == {
        "NoForeignRollout": Verdict.UNKNOWN, "SourcesFresh": Verdict.UNKNOWN,
    }  # fmt: skip


def test_a_snapshot_of_another_writer_that_does_not_speak_of_rollouts():
    silent = tuple(s for s in worlds.sources() if s.name != "rollouts")
    reasons = judged(worlds.healthy(rollouts=None, sources=silent))
    assert reasons.permits
    told = next(r.message for r in reasons.reasons if r.guard == "NoForeignRollout")
    assert "does not speak of rollouts" in told


def test_a_pod_not_known():
    snapshot = worlds.healthy(brokers=worlds.brokers(b3={"pod": None}))
    only(snapshot, "PodsReadyNodeSchedulable", Verdict.UNKNOWN, "the Pod of broker 3")


def test_outside_kubernetes_is_a_statement_that_must_be_true():
    podless = worlds.brokers(**{f"b{n}": {"pod": None} for n in worlds.IDS})
    no_kubernetes = tuple(s for s in worlds.sources() if s.name != "kubernetes")
    snapshot = worlds.healthy(brokers=podless, sources=no_kubernetes)
    assert judged(snapshot).verdict is Verdict.UNKNOWN
    assert judged(snapshot, outside_kubernetes=True).permits
    only(worlds.healthy(), "PodsReadyNodeSchedulable", Verdict.DENY, "told of Pods", outside_kubernetes=True)


# Several at once, and a controller that is stuck


FIVE = tuple(worlds.broker(n) for n in range(1, 6))


def of_five(*rows, **changes):
    """Five brokers, all voters; `rows` are (topic, replicas)."""
    listed = [worlds.partition(topic, 0, replicas) for topic, replicas in rows]
    changes = {"brokers": FIVE, "quorum": Quorum(1, tuple(Voter(n, 0, 0) for n in range(1, 6)))} | changes
    views = tuple(worlds.view(n, listed, members=(1, 2, 3, 4, 5)) for n in range(1, 6))
    return worlds.healthy(rows=listed, **{"views": views, **changes})


def test_two_at_once_that_share_no_partition_are_permitted_by_the_same_guards():
    apart = of_five(("a", (1, 2, 4)), ("b", (3, 5, 1)))
    assert judged(apart, 2, together=frozenset({3})).permits
    shared = of_five(("a", (1, 2, 3)), ("b", (3, 5, 1)))
    assert judged(shared, 2).permits
    assert "without broker 2, 3, a-0 would have 1 in sync" in message(shared, 2, "IsrStaysAboveMin", {3})


def test_those_away_do_not_count_for_the_quorum():
    apart = of_five(("a", (1, 2, 5)))
    assert judged(apart, 2, together=frozenset({3})).permits
    told = message(apart, 2, "QuorumKeepsMajority", {3, 4})
    assert "without broker 2, 3, 4, 2 of 5 voters are caught up and 3 are needed" in told


def test_a_broker_that_the_run_has_away_disturbs_nobody_and_another_one_does():
    gone = {"registered": False, "reachable": False, "recovering": None}
    down = tuple(replace(b, **gone, pod=worlds.pod(b.id, ready=False)) if b.id == 3 else b for b in FIVE)
    listed = [worlds.partition("a", 0, (1, 2, 4)), worlds.partition("b", 0, (5, 3, 1), isr=[5, 1])]
    views = tuple(worlds.view(n, listed, members=(1, 2, 4, 5)) for n in (1, 2, 4, 5))
    snapshot = of_five(brokers=down, partitions=worlds.partitions(listed), views=views)
    assert judged(snapshot, 2, together=frozenset({3})).permits
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
    assert judged(stuck(), 1, replaces_controller=True).permits
    refused = {r.guard for r in judged(stuck(), 1).refusals}
    assert refused == {"ViewsAgree", "NoOtherBrokerDisturbed", "PodsReadyNodeSchedulable"}
    assert not judged(stuck(), 2, replaces_controller=True).permits, "only the controller itself"


def test_a_controller_that_did_its_work_is_not_stuck():
    """The broker that is down leads nothing any more, so that it is down as any other."""
    gone = {"registered": False, "reachable": False, "recovering": None, "pod": worlds.pod(3, ready=False)}
    rows = [worlds.partition("orders", 0, (1, 2, 3), isr=[1, 2])]
    views = tuple(worlds.view(n, rows, members=(1, 2)) for n in (1, 2))
    snapshot = worlds.healthy(Mode.ZOOKEEPER, rows=rows, brokers=worlds.brokers(b3=gone), views=views)
    assert not judged(snapshot, 1, replaces_controller=True).permits


def test_a_stuck_controller_that_alone_is_live_in_an_isr_stays():
    refused = judged(stuck(isr=[1, 3]), 1, replaces_controller=True).refusals
    assert "orders-1 would have nobody live in sync" in "; ".join(r.message for r in refused)


def test_a_stuck_controller_of_a_quorum_that_would_lose_its_majority_stays():
    gone = {"registered": False, "reachable": False, "recovering": None, "pod": worlds.pod(3, ready=False)}
    rows = [worlds.partition("orders", 0, (3, 1, 2))]
    voters = (Voter(1, 0, 0), Voter(2, 0, 0), Voter(3, 90, 60_000))
    views = tuple(worlds.view(n, rows) for n in (1, 2))
    snapshot = worlds.healthy(rows=rows, brokers=worlds.brokers(b3=gone), views=views, quorum=Quorum(1, voters))
    refused = judged(snapshot, 1, replaces_controller=True).refusals
    assert [r.guard for r in refused] == ["QuorumKeepsMajority"]


# Whatever is missing as a whole


@pytest.mark.parametrize("field", ["brokers", "controller", "quorum", "views", "partitions"])
def test_a_part_that_is_not_known_is_unknown(field):
    assert judged(worlds.healthy(**{field: None})).verdict is Verdict.UNKNOWN


def test_an_empty_list_of_brokers_is_refused():
    assert not judged(worlds.healthy(brokers=())).permits
    assert not judged(worlds.healthy(brokers=(Broker(2),))).permits


# The machinery


def test_a_guard_that_fails_is_an_internal_fault_and_never_skipped(monkeypatch):
    def broken(*_):
        raise KeyError("leader")

    guards = tuple((n, broken if n == "ViewsAgree" else g) for n, g in RESTART_GUARDS)
    monkeypatch.setattr(restart, "RESTART_GUARDS", guards)
    with pytest.raises(GuardFaultError, match="ViewsAgree") as fault:
        judged(worlds.healthy())
    assert isinstance(fault.value.__cause__, KeyError)


def test_a_guard_that_says_nothing_or_speaks_for_another_is_a_fault():
    with pytest.raises(GuardFaultError, match="no answer"):
        evaluate([("A", tuple)])
    with pytest.raises(GuardFaultError, match="in the name of B"):
        evaluate([("A", lambda: Reason("B", Verdict.ALLOW, "fine"))])


def test_no_guard_at_all_permits_nothing():
    assert evaluate([]).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("missing", range(len(RESTART_GUARDS)))
def test_each_guard_is_the_only_one_to_refuse_something(monkeypatch, missing):
    """With any one guard gone, at least one of these snapshots would pass: none is there for show."""
    worlds_refused = [
        (worlds.healthy(brokers=worlds.brokers(b2={"recovering": True})), {}),
        (_diverged(), {}),
        (worlds.healthy(rows=[*worlds.ROWS, worlds.partition("t", 0, (2, 1))]), {}),
        (worlds.healthy(rows=[*worlds.ROWS, worlds.partition("t", 0, (1, 3, 2), removing=[2], minIsr=1)]), {}),
        (worlds.healthy(quorum=Quorum(1, (Voter(1, 0, 0),))), {}),
        (worlds.healthy(controller=None), {}),
        (worlds.healthy(brokers=worlds.brokers(b3={"recovering": True})), {}),
        (worlds.healthy(brokers=worlds.brokers(b3={"pod": worlds.pod(3, ready=False)})), {}),
        (worlds.healthy(rollouts=(Rollout("StatefulSet", "kafka", "it updates"),)), {}),
    ]
    assert not any(judged(s, **c).permits for s, c in worlds_refused)
    monkeypatch.setattr(restart, "RESTART_GUARDS", tuple(g for i, g in enumerate(RESTART_GUARDS) if i != missing))
    assert any(judged(s, **c).permits for s, c in worlds_refused), RESTART_GUARDS[missing][0]
