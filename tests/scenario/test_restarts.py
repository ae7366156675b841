"""A roll through the operator's own reconciles: one broker at a time, each back in everything before the next."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.phases import TERMINAL_PHASES
from kafka_medic.resources.remediation_plan import Restarts
from tests.simulation.deaths import Interrupted
from tests.simulation.kafka import SimKafka
from tests.simulation.pods import OWNER, PODS, STRIMZI
from tests.simulation.world import BASE, BROKERS, NO_ELECTIONS, World
from tests.thorough import only, thorough


def rolling(**how) -> World:
    kafka = SimKafka()
    kafka.topic("orders", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    kafka.topic("__consumer_offsets", [1, 0, 2])
    world = World(kafka)
    world.install(brokers=BROKERS, remediation={"limits": {"cooldown": "0s"}, **NO_ELECTIONS})
    world.with_pods(**how)
    world.ask("rolling-restart")
    return world


def approved(world: World) -> World:
    world.approve(world.until_phase("AwaitingApproval"))
    return world


def paused(world: World, so: bool) -> None:
    world.api.touch(f"{BASE}/namespaces/ns/kafkaclusters/c")["spec"]["remediation"]["paused"] = so


def one_away_at_most(world: World) -> None:
    """And no partition below two in sync by us."""
    assert len(world.pods.down()) <= 1
    assert all(len(p.isr) >= 2 for p in world.kafka.partitions.values())


def watched(world: World) -> int:
    return world.to_the_end(reconciles=250, meanwhile=lambda: one_away_at_most(world))


def test_the_cluster_is_rolled_controller_last():
    world = approved(rolling())
    plan = world.run().status.plan
    assert [r.broker for r in plan.part(Restarts).restarts] == [1, 2, 0]
    assert "active controller" in plan.part(Restarts).restarts[-1].reason
    watched(world)
    assert world.run().status.phase == "Succeeded", world.run().status.message
    assert world.pods.restarts == [1, 2, 0]
    assert [(e.id, e.state) for e in world.run().status.journal] == [
        (f"restart-brokers/restart-{b}", "Done") for b in (1, 2, 0)
    ]
    assert plan.part(Restarts).drains == ()
    assert world.kafka.writes == [], "leaderships go by themselves unless drainFirst is asked for"


@thorough
def test_the_controller_is_read_before_each_restart():
    world = approved(rolling())
    world.kafka.voted = 2  # another broker takes over after the plan was made
    watched(world)
    assert world.pods.restarts == [1, 0, 2]


def test_a_broker_that_stays_away_holds_the_run():
    """A broker does not come back. The run waits, and no other broker is restarted."""
    world = approved(rolling(never_back={1}))
    run = world.until_phase("Paused", seconds=240)
    assert world.pods.restarts == [1]
    assert "broker 1 is not back" in run.status.message
    assert "not registered yet" in run.status.message
    world.pods.never_back.clear()
    watched(world)
    assert world.run().status.phase == "Succeeded"
    assert world.pods.restarts == [1, 2, 0]


def test_a_starting_broker_is_left_its_processors():
    """Reconciles without a pause took a third of two processors, and a broker beside them started in twice the time."""
    world = approved(rolling(never_back={1}))
    world.until(lambda: world.pods.restarts == [1], seconds=0.1)
    assert world.reconciler.reconcile() < 0.2, "an effect may be over in milliseconds"
    world.now += timedelta(seconds=15)
    assert 0.5 < world.reconciler.reconcile() <= 1.0
    world.now += timedelta(seconds=15)
    assert world.reconciler.reconcile() == 1.0
    world.pods.never_back.clear()
    world.until(lambda: "seen 1 of" in world.run().status.message, seconds=5)
    assert world.reconciler.reconcile() < 0.2, "it is back: the next broker waits for this one"


@thorough
def test_a_crash_looping_broker_holds_the_run():
    """A broker crashes again and again. The run waits, and no other broker is restarted."""
    world = approved(rolling(crashing={1}))
    run = world.until_phase("Paused", seconds=240)
    assert world.pods.restarts == [1], "it is never evicted again, and nobody else is"
    assert "broker 1 is not back" in run.status.message
    world.pods.crashing.clear()
    watched(world)
    assert world.pods.restarts == [1, 2, 0]


@thorough
def test_a_reject_while_paused_ends_the_run():
    world = approved(rolling(never_back={1}))
    run = world.until_phase("Paused", seconds=240)
    world.approve(run, decision="Reject")
    watched(world)
    assert world.run().status.phase == "Aborted"
    assert world.pods.restarts == [1]
    (entry,) = world.run().status.journal[:1]
    assert (entry.id, entry.state, entry.target_uid) == ("restart-brokers/restart-1", "Intended", "pod-1-2")


@thorough
def test_a_pause_holds_the_roll_between_brokers():
    """A pause holds the roll between two brokers. The roll continues afterwards."""
    world = approved(rolling())
    world.until(lambda: world.pods.restarts == [1])
    paused(world, True)
    for _ in range(8):
        world.step(60)
    assert world.pods.restarts == [1]
    assert world.run().status.phase == "Blocked"
    assert [(w.guard, w.verdict) for w in world.run().status.waiting_for] == [("NotPaused", "Wait")]
    paused(world, False)
    watched(world)
    assert world.pods.restarts == [1, 2, 0]


def test_that_a_pod_goes_which_the_run_evicts_is_no_news():
    world = approved(rolling())
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    world.until(lambda: world.pods.restarts == [1])
    world.api.touch(f"{PODS}/kafka-1")["status"]["conditions"] = conditions
    world.step(1)
    (told,) = [message for reason, message in world.api.events if reason == "NodeMaintenance"]
    assert told.endswith("; Remediation asked-0 is restarting it")


def apart(by: dict[str, str] | None = None, **parameters) -> World:
    """Brokers 0, 1, 2 and, by themselves, the controllers 10, 11, 12, of which 11 is active. by: how each of both kinds
    is restarted."""
    how = by or {}
    kafka = SimKafka(controllers={10, 11, 12}, voted=11)
    kafka.topic("orders", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    world = World(kafka)
    controllers = {
        "podSelector": {"matchLabels": {"app": "controller"}},
        "restart": how.get("controllers", "DeletePod"),
    }
    brokers = {**BROKERS, "restart": how.get("brokers", "DeletePod")}
    world.install(brokers=brokers, controllers=controllers, remediation={"limits": {"cooldown": "0s"}, **NO_ELECTIONS})
    owners = {kind: STRIMZI if method == "StrimziAnnotation" else OWNER for kind, method in how.items()}
    apart_owner = owners.get("controllers", OWNER)
    world.with_pods(owners.get("brokers", OWNER), apart_owner=apart_owner, strimzi_ticks=1 if by else None)
    world.ask("rolling-restart", **parameters)
    return world


@pytest.mark.parametrize(("by_strimzi", "evicted"), [("controllers", [0, 1, 2]), ("brokers", [10, 12, 11])])
def test_controllers_and_brokers_are_each_restarted_as_their_own_pods_are(by_strimzi, evicted):
    world = approved(apart({by_strimzi: "StrimziAnnotation"}))
    world.until(lambda: world.run().status.phase in TERMINAL_PHASES, reconciles=300, seconds=5)
    assert world.run().status.phase == "Succeeded", world.run().status.message
    assert world.pods.restarts == [10, 12, 11, 0, 1, 2]
    assert [broker for broker, _ in world.pods.evicted] == evicted


@thorough
def test_separate_controllers_restart_first():
    """Controllers that are no brokers restart first, the active controller last of them."""
    world = approved(apart())
    plan = world.run().status.plan
    assert [r.broker for r in plan.part(Restarts).restarts] == [10, 12, 11, 0, 1, 2]
    assert [r.pod for r in plan.part(Restarts).restarts][:3] == ["controller-10", "controller-12", "controller-11"]
    watched(world)
    assert world.run().status.phase == "Succeeded", world.run().status.message
    assert world.pods.restarts == [10, 12, 11, 0, 1, 2]


@thorough
def test_the_active_controller_is_read_before_each_restart():
    """Before each restart the operator reads which of the separate controllers is active."""
    world = approved(apart())
    world.kafka.voted = 10
    watched(world)
    assert world.pods.restarts == [12, 11, 10, 0, 1, 2]


@thorough
def test_a_lagging_controller_holds_the_next_restart():
    world = approved(apart(brokers="10,12"))
    world.pods.never_back.add(10)
    run = world.until_phase("Paused", seconds=240)
    assert world.pods.restarts == [10]
    assert "broker 10 is not back" in run.status.message


def test_controllers_without_named_pods_are_left_alone():
    world = apart()
    del world.api.touch(f"{BASE}/namespaces/ns/kafkaclusters/c")["spec"]["controllers"]
    run = world.until_phase("AwaitingApproval")
    assert [r.broker for r in run.status.plan.part(Restarts).restarts] == [0, 1, 2]


def six(**parameters) -> World:
    """Two racks' worth of partitions that have nothing in common: 0, 1, 2 and 3, 4, 5."""
    kafka = SimKafka(racks={b: "abc"[b % 3] for b in range(6)})
    kafka.topic("left", [0, 1, 2], [1, 2, 0])
    kafka.topic("right", [3, 4, 5], [4, 5, 3])
    for topic in ("left", "right"):
        kafka.dynamic["TOPIC", topic, "min.insync.replicas"] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation={"limits": {"cooldown": "0s"}, **NO_ELECTIONS})
    world.with_pods()
    world.ask("rolling-restart", **parameters)
    return world


@thorough
@pytest.mark.parametrize(("most", "down"), only([2], [("1", 1), ("2", 2), ("6", 2)]))
def test_brokers_that_share_no_partition_are_restarted_together(most: str, down: int):
    """Of six voters four have to be left, so that never more than two are away. More brokers than tell their whole
    view in a look at rest: all are asked as soon as the run is approved."""
    world = six(maxParallel=most)
    world.approve(world.until_phase("AwaitingApproval"))
    for _ in range(200):
        if world.finished():
            break
        world.step()
        assert all(len(p.isr) >= 2 for p in world.kafka.partitions.values())
    assert world.run().status.phase == "Succeeded", world.run().status.message
    assert sorted(world.pods.restarts) == list(range(6))
    assert world.pods.restarts[-1] == 0, "the active controller last"
    assert world.pods.most_down == down


@thorough
def test_brokers_that_share_a_partition_restart_apart():
    """Brokers that share a partition never restart together, whatever the parameters say."""
    world = rolling()
    world.api.objects = {p: o for p, o in world.api.objects.items() if "/remediations/" not in p}
    world.kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    world.ask("rolling-restart", maxParallel="3")
    watched(approved(world))
    assert world.pods.most_down == 1
    assert world.run().status.phase == "Succeeded"


@thorough
def test_a_replica_out_of_sync_holds_the_next_restart():
    """A replica stays out of the ISR. The next restart waits."""
    world = approved(rolling())
    world.kafka.copies_per_tick = 0
    for _ in range(10):
        world.step(60)
    assert world.pods.restarts == [1]
    assert "not in the ISR of" in world.run().status.message
    world.kafka.copies_per_tick = 2
    watched(world)
    assert world.pods.restarts == [1, 2, 0]


def test_a_replaced_pod_voids_the_plan():
    world = rolling()
    before = world.until_phase("AwaitingApproval").status.plan.digest
    world.pods.replace(2)
    world.until(lambda: (p := world.run().status.plan) is not None and p.digest != before)
    assert world.run().status.phase == "AwaitingApproval"
    assert world.pods.restarts == []


def test_a_pod_replaced_in_mid_run_ends_the_run():
    world = approved(rolling())
    world.until(lambda: world.pods.restarts == [1])
    world.pods.replace(2)
    watched(world)
    assert world.run().status.phase == "Superseded"
    assert "another Pod than planned" in world.run().status.message
    assert world.pods.restarts == [1]


def test_no_plan_where_topics_have_no_spare_replica():
    """Topics without a spare replica are reported, and there is no plan."""
    world = rolling()
    world.kafka.topic("thin", [2])
    world.until(lambda: "thin" in world.run().status.message, reconciles=5)
    run = world.run()
    assert run.status.phase == "Planning"
    assert run.status.plan is None
    assert "raise-replication-factor" in run.status.message


def test_a_replica_out_of_sync_does_not_void_the_plan():
    """A replica that is out of sync now does not void the later restarts of the plan. It is the first one's own, and is
    back before anybody else's turn comes."""
    world = rolling()
    world.kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    world.kafka.copies_per_tick = 0
    world.kafka.partitions[TopicPartition("orders", 0)].isr.remove(1)
    run = world.until_phase("AwaitingApproval", reconciles=4)
    assert [r.broker for r in run.status.plan.part(Restarts).restarts] == [1, 2, 0]


def test_a_reject_in_mid_roll_ends_it_between_brokers():
    world = approved(rolling())
    world.until(lambda: world.pods.restarts == [1])
    world.approve(world.run(), decision="Reject")
    watched(world)
    assert world.run().status.phase == "Aborted"
    assert world.pods.restarts == [1]


def test_a_plan_whose_cause_has_gone_is_superseded():
    world = rolling()
    run = world.until_phase("AwaitingApproval")
    path = f"/apis/kafkamedic.dev/v1alpha1/namespaces/ns/remediations/{run.name}"
    del world.api.touch(path)["spec"]["requestedBy"]
    world.api.objects[path]["spec"]["cause"] = {"findingId": "ViewDiverged/broker-1", "findingType": "ViewDiverged"}
    ended = world.until_phase("Superseded", reconciles=5)
    assert "ViewDiverged/broker-1" in ended.status.message


@pytest.mark.parametrize(
    ("brokers", "words"), [("7", "broker 7 does not exist"), ("one", "write all"), ("cause", "no finding")]
)
def test_unknown_brokers_are_refused_by_number(brokers, words):
    world = rolling()
    world.api.objects = {p: o for p, o in world.api.objects.items() if "/remediations/" not in p}
    world.ask("restart-broker", brokers=brokers)
    run = world.until_phase("Failed", reconciles=5)
    assert words in run.status.message


DEATHS = [(nth, when) for nth in range(3) for when in ("before", "after")]


@pytest.mark.parametrize(("nth", "when"), only([1], DEATHS))
def test_killed_at_an_eviction(nth: int, when: str):
    world = approved(rolling())
    world.wrap_api = lambda api: Interrupted(api, ("create",), nth, when, ending="/eviction")
    world.operator()
    assert watched(world) == 1
    assert world.run().status.phase == "Succeeded"
    assert world.pods.restarts == [1, 2, 0]
