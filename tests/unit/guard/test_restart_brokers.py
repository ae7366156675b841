"""Guards of a restart over the other brokers, their Pods and nodes, and who else is at work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import Rollout
from kafka_medic.guard.verdict import Verdict
from tests.unit.cluster import worlds
from tests.unit.guard.restarts import judged, only, refusals


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
    only(worlds.healthy(rows=rows), "NoOtherBrokerDisturbed", Verdict.WAIT, "broker 3 (1 partition)")


def test_a_replica_on_a_broker_nobody_knows():
    rows = [*worlds.ROWS, worlds.partition("elsewhere", 0, (1, 9), minIsr=1)]
    assert refusals(worlds.healthy(rows=rows))["NoOtherBrokerDisturbed"][0] is Verdict.DENY


def test_the_target_may_be_out_of_its_isrs():
    rows = [worlds.partition("orders", 0, (1, 2, 3, 4), isr=[1, 3, 4])]
    four = (*worlds.brokers(), worlds.broker(4))
    views = tuple(worlds.view(n, rows, members=(1, 2, 3, 4)) for n in (1, 2, 3, 4))
    assert judged(worlds.healthy(rows=rows, brokers=four, views=views)).verdict is Verdict.ALLOW


def test_the_target_is_a_broker_and_not_recovering():
    assert refusals(worlds.healthy(), broker=9)["TargetMayBeTouched"][0] is Verdict.DENY
    snapshot = worlds.healthy(brokers=worlds.brokers(b2={"recovering": True}))
    only(snapshot, "TargetMayBeTouched", Verdict.WAIT, "begin the recovery again")
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
    assert judged(snapshot, cures=frozenset({2})).verdict is Verdict.ALLOW
    assert judged(snapshot).verdict is not Verdict.ALLOW


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
    assert judged(cordoned, cordon_is_cause=True).verdict is Verdict.ALLOW
    going = worlds.pod(2, maintenance=("node n2 has the taint karpenter.sh/disrupted",))
    assert (
        judged(worlds.healthy(brokers=worlds.brokers(b2={"pod": going})), cordon_is_cause=True).verdict is Verdict.ALLOW
    )


def test_somebody_elses_rollout_is_waited_for():
    rollout = Rollout("StatefulSet", "kafka", "1 of 3 Pods at revision b")
    only(worlds.healthy(rollouts=(rollout,)), "NoForeignRollout", Verdict.WAIT, "StatefulSet kafka is being rolled out")


def test_a_restart_that_somebody_else_asked_strimzi_for_is_waited_for_and_not_ones_own():
    world = worlds.healthy()
    asked = tuple(
        replace(b, pod=replace(b.pod, restart_asked=True)) if b.id == 2 and b.pod else b for b in world.brokers or ()
    )
    world = replace(world, brokers=asked)
    only(world, "NoForeignRollout", Verdict.WAIT, "so Strimzi will restart it")
    own = next(b.pod.uid for b in asked if b.id == 2 and b.pod)
    assert "NoForeignRollout" not in refusals(world, asked_for=frozenset({own}))


@pytest.mark.parametrize("field", ["unplaced", "unplaced_controllers"])
def test_a_pod_that_has_not_answered_is_restarted_by_strimzi_all_the_same(field):
    world = worlds.healthy(**{field: (worlds.pod(9, restart_asked=True),)})
    only(world, "NoForeignRollout", Verdict.WAIT, "Pod kafka-9 has the annotation")


def test_a_rebalance_is_not_called_a_rollout():
    rollout = Rollout("KafkaRebalance", "full", "Cruise Control is moving replicas (Rebalancing)")
    assert str(rollout) == "KafkaRebalance full is in progress"
    assert str(Rollout("Kafka", "events", "2 of 3 Pods")) == "Kafka events is being rolled out"


def test_rollouts_that_could_not_be_read_are_not_none():
    only(worlds.healthy(rollouts=None), "NoForeignRollout", Verdict.UNKNOWN, "is not known")
    failed = refusals(worlds.healthy(rollouts=None, sources=worlds.sources(rollouts="403")))
    assert {g: v for g, (v, _) in failed.items()} == {
        "NoForeignRollout": Verdict.UNKNOWN, "SourcesFresh": Verdict.UNKNOWN,
    }  # fmt: skip


def test_a_snapshot_of_another_writer_that_does_not_speak_of_rollouts():
    silent = tuple(s for s in worlds.sources() if s.name != "rollouts")
    reasons = judged(worlds.healthy(rollouts=None, sources=silent))
    assert reasons.verdict is Verdict.ALLOW
    told = next(r.message for r in reasons.reasons if r.guard == "NoForeignRollout")
    assert "its writer must check for rollouts" in told


def test_a_pod_not_known():
    snapshot = worlds.healthy(brokers=worlds.brokers(b3={"pod": None}))
    only(snapshot, "PodsReadyNodeSchedulable", Verdict.UNKNOWN, "the Pod of broker 3")


def test_outside_kubernetes_is_a_statement_that_must_be_true():
    podless = worlds.brokers(**{f"b{n}": {"pod": None} for n in worlds.IDS})
    no_kubernetes = tuple(s for s in worlds.sources() if s.name != "kubernetes")
    snapshot = worlds.healthy(brokers=podless, sources=no_kubernetes)
    assert judged(snapshot).verdict is Verdict.UNKNOWN
    assert judged(snapshot, outside_kubernetes=True).verdict is Verdict.ALLOW
    only(
        worlds.healthy(), "PodsReadyNodeSchedulable", Verdict.DENY, "but the snapshot has Pods", outside_kubernetes=True
    )
