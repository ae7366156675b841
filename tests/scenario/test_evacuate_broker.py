"""A broker is emptied: copies first, and nothing is removed before every replica that remains is in sync."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from kafka_medic.clients.answers import LogDir, LogDirs
from kafka_medic.clients.failures import FailureKind, WriteFailed
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import ReplicaMoves, ReplicaRemovals
from tests.scenario.four_brokers import LAST, QUIET, four_brokers, held, lose, throttles
from tests.simulation.brokers import MIN_ISR
from tests.simulation.deaths import Interrupted, Moments
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BASE, BROKERS, World
from tests.thorough import THOROUGH, only

EVERY = 1 if THOROUGH else 40
BEFORE = [[3, 1, 2], [1, 2, 3], [2, 0, 1]]


def asked(*, zookeeper: bool = False, batch: str = "1", apart: bool = False) -> World:
    world = four_brokers(zookeeper=zookeeper, controllers={100, 101, 102} if apart else ())
    world.ask("evacuate-broker", brokers="3", batchSize=batch)
    return world


def emptied(world: World) -> None:
    assert world.run().status.phase == "Succeeded"
    assert held(world) == []
    assert all(len(p.replicas) == len(p.isr) == 3 and p.leader in p.isr for p in world.kafka.partitions.values())
    assert throttles(world) == []
    assert all(e.state == "Done" for e in world.run().status.journal)
    assert world.run().status.message.endswith(f"; broker 3 holds no replica any more, {go(world)}")


def go(world: World) -> str:
    if world.kafka.apart or world.kafka.zookeeper:
        return "so its Pod may go"
    return "but is a voter of the KRaft quorum: its Pod has to stay as long as it is"


@pytest.mark.parametrize("zookeeper", [False, True])
def test_every_replica_is_copied_before_the_first_one_goes(zookeeper: bool) -> None:
    world = asked(zookeeper=zookeeper)
    run = world.until_phase("AwaitingApproval")
    plan = run.status.plan
    assert plan is not None
    assert plan.moves == plan.part(ReplicaMoves).lower_bound_moves == 3
    assert {len(c.replicas) for c in plan.part(ReplicaMoves).changes} == {4}
    assert {len(c.replicas) for c in plan.part(ReplicaRemovals).each()} == {3}
    assert [c.wave for c in plan.part(ReplicaRemovals).each()] == [0, 1, 2]
    assert "move every replica off broker 3 in 3 partitions of 2 topics" in plan.summary
    world.approve(run)
    least: dict[TopicPartition, int] = {}

    def watched() -> bool:
        for tp, part in world.kafka.partitions.items():
            least[tp] = min(least.get(tp, 9), len(part.isr))
        return world.run().status.phase == "Succeeded"

    world.until(watched, reconciles=120)
    emptied(world)
    assert min(least.values()) == 3
    kinds = [w.split(" ")[0] for w in world.kafka.writes]
    assert kinds == ["configs", "reassign", "configs", "reassign", "reassign", "reassign"]


def test_the_pod_of_a_broker_that_is_a_controller_as_well_has_to_stay() -> None:
    """Without it the quorum has a voter less that is up."""
    both, apart = asked(), asked(apart=True)
    for world in (both, apart):
        world.approve(world.until_phase("AwaitingApproval"))
        world.until_phase("Succeeded")
        emptied(world)
    assert "Pod may go" not in str(both.run().status.message)
    assert "Pod may go" in str(apart.run().status.message)


def test_nothing_goes_while_a_copy_is_behind() -> None:
    world = asked(batch="50")
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: [s.name for s in world.run().status.steps if s.phase == "Succeeded"][-1:] == ["copy-replicas"])
    behind = world.kafka.partitions[TopicPartition("orders", 0)]
    added = next(b for b in behind.replicas if b not in BEFORE[0])
    world.kafka.copies_per_tick = 0
    behind.isr.remove(added)
    for _ in range(10):
        world.step()
    assert len(held(world)) == 3
    waits = world.run().status.waiting_for
    assert "ReplacementsInSync" in {w.guard for w in waits}, waits
    world.kafka.copies_per_tick = 2
    world.until_phase("Succeeded")
    emptied(world)


@pytest.mark.parametrize("zookeeper", [False, True])
def test_replicas_that_are_only_to_be_removed_keep_nobody_from_curing_the_broker_that_refuses_it(
    zookeeper: bool,
) -> None:
    """A stale broker refuses the removal, which is all that the run has left to do, and its restart is the cure."""
    world = asked(zookeeper=zookeeper, batch="50")
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: [s.name for s in world.run().status.steps if s.phase == "Succeeded"][-1:] == ["copy-replicas"])
    kafka = world.kafka
    assert world.pods is not None
    world.pods.stopped = kafka.heal
    kafka.stale[1] = kafka.view()
    kafka.partitions[TopicPartition("orders", 1)].elect(2)
    evacuation = world.run().name
    world.until(lambda: any(r.status.phase == "AwaitingApproval" for r in world.runs()), reconciles=60)
    assert of(world, evacuation).status.holds == ""
    cure = next(r for r in world.runs() if r.status.phase == "AwaitingApproval")
    assert cure.status.cures is not None
    assert cure.status.cures.finding_id == "ViewDiverged/broker-1"
    world.approve(cure)
    world.until(lambda: of(world, cure.name).status.phase == "Running", reconciles=20)
    assert held(world) != [], "nothing is removed meanwhile"
    world.until(lambda: of(world, cure.name).status.phase == "Succeeded", reconciles=150)
    world.until(lambda: of(world, evacuation).status.phase == "Succeeded", reconciles=60)
    assert held(world) == []


def of(world: World, name: str) -> Remediation:
    return next(r for r in world.runs() if r.name == name)


def test_an_abort_while_copies_are_in_flight_and_after_them_goes_back_to_what_was() -> None:
    for copies, until in (
        (0, lambda w: any(p.adding for p in w.kafka.partitions.values())),
        (2, lambda w: all(len(p.isr) == 4 for tp, p in w.kafka.partitions.items() if str(tp) in held(w))),
    ):
        world = asked()
        world.kafka.copies_per_tick = copies
        world.approve(world.until_phase("AwaitingApproval"))
        world.until(lambda until=until, world=world: until(world))  # type: ignore[misc]
        world.approve(world.run(), decision="Reject")
        world.until_phase("Aborted")
        found = [sorted(world.kafka.partitions[TopicPartition("orders", n)].replicas) for n in range(3)]
        assert found == [sorted(replicas) for replicas in BEFORE]
        assert all(len(p.isr) == 3 for p in world.kafka.partitions.values())
        assert throttles(world) == []


@pytest.mark.parametrize("zookeeper", [False, True])
def test_a_request_that_is_carried_out_after_the_reject_is_taken_back(zookeeper: bool) -> None:
    """Its answer was lost, and the controller is busy. Ended before, the run would leave copies without a throttle."""
    world = asked(zookeeper=zookeeper)
    late: list[dict[TopicPartition, list[int] | None]] = []

    class Busy:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.kafka, name)

        def alter_reassignments(self, targets: dict[TopicPartition, list[int] | None]) -> None:
            late.append(targets)
            raise WriteFailed(FailureKind.UNREACHABLE, "no answer")

    world.approve(world.until_phase("AwaitingApproval"))
    world.wrap_kafka = lambda _: Busy()
    world.operator()
    world.until(lambda: bool(late))
    world.wrap_kafka = lambda kafka: kafka
    world.operator()
    world.approve(world.run(), decision="Reject")
    for _ in range(5):
        world.step()
    assert "may still be carried out" in world.run().status.message
    assert throttles(world)
    world.kafka.copies_per_tick = 0
    world.kafka.alter_reassignments(late[0])
    world.until_phase("Aborted")
    assert {tuple(p.replicas) for p in world.kafka.partitions.values()} >= {tuple(each) for each in BEFORE}
    assert not any(p.adding for p in world.kafka.partitions.values())
    assert throttles(world) == []


@pytest.mark.parametrize("zookeeper", [False, True])
def test_a_broker_that_dies_meanwhile_is_replaced_once_the_run_is_rejected(zookeeper: bool) -> None:
    """Its own throttle cannot be read any more. To wait for it would keep its replicas where they are for ever."""
    world = four_brokers(zookeeper=zookeeper, racks={0: "a", 1: "b", 2: "c", 3: "a", 4: "b"})
    world.ask("evacuate-broker", brokers="3")
    world.kafka.copies_per_tick = 0
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: any(part.adding for part in world.kafka.partitions.values()))
    lose(world)
    for _ in range(3):
        world.step(60)
    world.approve(world.run(), decision="Reject")
    for _ in range(25):
        world.step(60)
    assert "the throttle of broker 3 is still set" in world.run().status.message, "it may only restart"
    world.kafka.copies_per_tick = 2
    ended = world.until_phase("Aborted", 60, 60)
    assert "broker 3 is down and keeps its throttle" in ended.status.message
    assert {key[1] for key in throttles(world)} == {"3"}
    world.approve(world.until_phase("AwaitingApproval", 60, 60))
    world.until_phase("Succeeded", 200, 30)
    assert held(world) == []


def test_a_replica_that_somebody_gives_back_is_theirs() -> None:
    world = asked(batch="1")
    world.approve(world.until_phase("AwaitingApproval"))
    first = "remove-replicas/remove-0"
    world.until(lambda: any(e.id == first and e.state == "Done" for e in world.run().status.journal), seconds=1)
    tp = next(tp for tp, part in sorted(world.kafka.partitions.items()) if LAST not in part.replicas)
    world.kafka.alter_reassignments({tp: [*world.kafka.partitions[tp].replicas, LAST]})
    world.kafka.tick()
    world.until(world.finished, 80)
    assert f"another client changed the replicas of {tp}" in (world.run().status.message or "")
    assert LAST in world.kafka.partitions[tp].replicas, "at most what this run added is taken back"


def test_a_run_that_is_deleted_between_copy_and_removal_goes_back_to_what_was() -> None:
    world = asked(batch="50")
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: [s.name for s in world.run().status.steps if s.phase == "Succeeded"][-1:] == ["copy-replicas"])
    behind = world.kafka.partitions[TopicPartition("orders", 0)]
    behind.isr.remove(next(b for b in behind.replicas if b not in BEFORE[0]))
    world.kafka.copies_per_tick = 0
    for _ in range(5):
        world.step()
    assert len(held(world)) == 3
    assert world.run().status.restore_owed
    path = f"{BASE}/namespaces/ns/remediations/{world.run().name}"
    world.api.delete(path)
    world.until(lambda: path not in world.api.objects)
    found = [sorted(world.kafka.partitions[TopicPartition("orders", n)].replicas) for n in range(3)]
    assert found == [sorted(replicas) for replicas in BEFORE]


def test_what_every_other_broker_holds_stays_and_is_named() -> None:
    kafka = SimKafka()
    kafka.topic("orders", [2, 1, 0])
    kafka.topic("logs", [2, 1], [0, 2])
    for topic in ("orders", "logs"):
        kafka.dynamic["TOPIC", topic, MIN_ISR] = "1"
    world = World(kafka)
    expected = {"topics": [{"pattern": "logs", "replicationFactor": 2}]}
    world.install(brokers=BROKERS, remediation=QUIET, expectations=expected)
    world.with_pods()
    world.ask("evacuate-broker", brokers="2")
    run = world.until_phase("AwaitingApproval")
    assert run.status.plan is not None
    assert "every broker that is up holds a replica already: orders" in run.status.plan.summary
    world.approve(run)
    world.until_phase("Succeeded")
    assert held(world, 2) == ["orders-0"]


def test_a_named_broker_gets_the_replicas_and_others_may_lead_what_the_broker_led() -> None:
    kafka = SimKafka(racks={0: "a", 1: "b", 2: "c", 3: "a", 4: "b"})
    kafka.topic("orders", [3, 1, 2], [3, 2, 1], [3, 1, 2], [1, 2, 3], size=5_000_000)
    kafka.dynamic["TOPIC", "orders", MIN_ISR] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=QUIET)
    world.with_pods()
    world.ask("evacuate-broker", brokers="3", onto="4")
    world.approve(world.until_phase("AwaitingApproval"))
    world.until_phase("Succeeded")
    emptied(world)
    assert len(held(world, 4)) == 4


def all_copied(world: World) -> bool:
    return [s.name for s in world.run().status.steps if s.phase == "Succeeded"][-1:] == ["copy-replicas"]


def cut_off(world: World, *brokers: int) -> None:
    """They go on fetching, and hear of nothing any more; something happens that they do not hear of."""
    for broker in brokers:
        world.kafka.stale[broker] = world.kafka.image(broker).view
    world.kafka.topic("news", [0])


@pytest.mark.parametrize("zookeeper", [False, True])
def test_nothing_goes_while_a_follower_that_remains_would_not_hear_of_it(zookeeper: bool) -> None:
    """It would not know the leader's new epoch, and fall out of the ISR."""
    world = asked(zookeeper=zookeeper, batch="50")
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: all_copied(world))
    cut_off(world, 1, 2)
    for _ in range(10):
        world.step()
    assert all(world.kafka.acknowledges(tp) for tp in world.kafka.partitions)
    assert len(held(world)) == 3
    assert "ReplacementsInSync" in {w.guard for w in world.run().status.waiting_for}
    for broker in (1, 2):
        world.kafka.heal(broker)
    world.until_phase("Succeeded")
    assert held(world) == []


@pytest.mark.parametrize("zookeeper", [False, True])
def test_what_was_added_is_not_given_back_to_who_would_not_know_that_it_leads(zookeeper: bool) -> None:
    world = asked(zookeeper=zookeeper, batch="50")
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: all_copied(world))
    for part in world.kafka.partitions.values():
        if len(part.replicas) == 4:
            part.elect(part.replicas[-1])
    cut_off(world, 1)
    world.approve(world.run(), decision="Reject")
    ended = world.until_phase("Aborted")
    assert all(world.kafka.served(tp) and world.kafka.acknowledges(tp) for tp in world.kafka.partitions)
    assert "keeps its added replicas" in ended.status.message
    assert throttles(world) == []


def emptying(*replicas: list[list[int]], batch: str) -> World:
    """Topics of which broker 3 holds replicas, and a run that is to move all of them."""
    kafka = SimKafka(racks={0: "a", 1: "b", 2: "c", 3: "a"}, copies_per_tick=1000)
    for number, ids in enumerate(replicas):
        kafka.topic(f"t{number}", *ids)
        kafka.dynamic["TOPIC", f"t{number}", MIN_ISR] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=QUIET)
    world.with_pods()
    world.ask("evacuate-broker", brokers="3", batchSize=batch)
    return world


def test_small_batches_of_many_partitions_fit_into_the_journal() -> None:
    world = emptying([[3, 1, 2]] * 230, batch="1")
    run = world.until_phase("AwaitingApproval")
    assert run.status.plan is not None
    assert len(run.status.plan.part(ReplicaRemovals).each()) == 149
    assert "81 more partitions in a later plan" in run.status.plan.summary


def test_brokers_that_lose_replicas_are_among_the_settings_that_one_entry_saves() -> None:
    world = emptying(*([[[3, 1, 2]]] * 126), batch="50")
    run = world.until_phase("AwaitingApproval")
    assert run.status.plan is not None
    assert len(run.status.plan.part(ReplicaMoves).changes) == 124
    world.approve(run)
    world.until_phase("Succeeded")
    assert len(held(world)) == 2


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", only([1, 4], range(6)))
def test_killed_at_a_write_to_kafka(nth: int, when: str) -> None:
    world = asked()
    world.wrap_kafka = lambda kafka: Interrupted(kafka, ("alter_reassignments", "alter_configs"), nth, when)
    world.operator()
    assert world.to_the_end() == 1
    emptied(world)


def test_killed_at_any_write_to_the_api_server() -> None:
    whole = asked()
    moments = Moments(whole)
    whole.wrap_api = lambda _: moments
    whole.to_the_end()
    emptied(whole)
    for told, world in moments.worlds(range(0, len(moments.kept), EVERY)):
        world.to_the_end()
        try:
            emptied(world)
        except AssertionError as problem:
            raise AssertionError(f"{told}: {problem}") from problem


def test_a_replica_that_is_behind_on_the_broker_that_leaves_is_named_before_anything_is_copied() -> None:
    """With ZooKeeper no copy would ever end beside it."""
    world = asked()
    world.kafka.copies_per_tick = 0
    world.kafka.partitions[TopicPartition("orders", 1)].isr.remove(LAST)
    for _ in range(5):
        world.step()
    assert world.run().status.plan is None
    assert "the replicas on broker 3 of orders-1 are not in sync" in world.run().status.message
    world.kafka.copies_per_tick = 2
    world.to_the_end()
    emptied(world)


def test_a_topic_that_is_made_anew_loses_nothing() -> None:
    world = asked()
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: [s.name for s in world.run().status.steps if s.phase == "Succeeded"][-1:] == ["copy-replicas"])
    replicas = [list(world.kafka.partitions[TopicPartition("orders", n)].replicas) for n in range(3)]
    world.kafka.delete("orders")
    world.kafka.topic("orders", *replicas)
    world.until_phase("Succeeded")
    found = [world.kafka.partitions[TopicPartition("orders", n)].replicas for n in range(3)]
    assert found == replicas


def test_a_run_that_leaves_a_replica_on_the_broker_says_so_at_its_end() -> None:
    world = asked()
    world.kafka.topic("everywhere", [0, 1, 2, 3])
    world.kafka.dynamic["TOPIC", "everywhere", MIN_ISR] = "2"
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    done = world.until_phase("Succeeded")
    assert held(world) == ["everywhere-0"]
    assert done.status.message.endswith("; 1 replica is still on broker 3, which has to stay for everywhere-0")


SIX: dict[int, str | None] = {0: "a", 1: "b", 2: "c", 3: "a", 4: "a", 5: "b"}


def emptied_3(spec: dict[str, object] | None = None) -> World:
    """Broker 3 is empty. Broker 0 has so many replicas that a plan would rather fill broker 3."""
    kafka = SimKafka(racks=SIX)
    kafka.topic("orders", [3, 1, 2], *[[0, 1, 2], [0, 5, 2]] * 6, [4, 1, 2], size=5_000_000)
    kafka.topic("single", [1, 2], [5, 2])
    for topic, least in (("orders", "2"), ("single", "1")):
        kafka.dynamic["TOPIC", topic, MIN_ISR] = least
    world = World(kafka)
    low = {"topics": [{"pattern": "single", "exempt": True}]}
    world.install(brokers=BROKERS, **({"remediation": QUIET, "expectations": low} | (spec or {})))
    world.with_pods()
    world.ask("evacuate-broker", brokers="3", onto="0")
    world.approve(world.until_phase("AwaitingApproval"))
    world.until_phase("Succeeded")
    assert held(world) == []
    return world


def planned(world: World, playbook: str) -> Remediation:
    world.until(lambda: any(r.spec.playbook.name == playbook and r.status.plan for r in world.runs()[1:]), 400)
    return next(r for r in reversed(world.runs()) if r.spec.playbook.name == playbook)


def receivers(run: Remediation) -> set[int]:
    assert run.status.plan is not None
    return {b for c in run.status.plan.part(ReplicaMoves).changes for b in set(c.replicas) - set(c.replicas_before)}


def test_nothing_that_is_proposed_fills_the_broker_again() -> None:
    """Its Pod may be deleted at any moment."""
    world = emptied_3()
    world.kafka.disk_fails(4, {TopicPartition("orders", 13)})
    run = planned(world, "restore-log-dir")
    assert receivers(run) == {0}
    assert run.status.plan is not None
    assert f"broker 3 gets no replica: Remediation {world.runs()[0].name} emptied it" in run.status.plan.summary


def test_a_plan_from_before_that_fills_it_is_planned_again() -> None:
    kafka = SimKafka(racks=SIX)
    kafka.topic("orders", [3, 1, 2], *[[0, 1, 2], [0, 5, 2]] * 6, [4, 1, 2], size=5_000_000)
    kafka.dynamic["TOPIC", "orders", MIN_ISR] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=QUIET)
    world.with_pods()
    kafka.disk_fails(4, {TopicPartition("orders", 13)})
    world.until(lambda: any(r.status.plan for r in world.runs()), 200)
    (cure,) = world.runs()
    assert receivers(cure) == {3}
    world.ask("evacuate-broker", brokers="3", onto="0")
    world.until(lambda: all(r.status.plan for r in world.runs()) and len(world.runs()) == 2)
    empties = next(r for r in world.runs() if r.name != cure.name)
    world.approve(empties)
    world.until(lambda: any(r.status.phase == "Succeeded" for r in world.runs()), 200)
    for _ in range(5):
        world.step()
    again = next(r for r in world.runs() if r.name == cure.name)
    assert receivers(again) == {0}
    assert f"broker 3 is to hold nothing: Remediation {empties.name} empt" in str(again.status.message)


def test_factors_are_raised_beside_it() -> None:
    world = emptied_3({"expectations": {"minInSyncReplicas": 1}})
    assert receivers(planned(world, "raise-replication-factor")) <= {0, 4}


def test_the_next_broker_is_not_moved_onto_the_one_that_is_empty_unless_a_person_names_it() -> None:
    world = emptied_3()
    world.ask("evacuate-broker", brokers="4")
    assert receivers(planned(world, "evacuate-broker")) == {0}
    world.ask("evacuate-broker", brokers="4", onto="3")
    world.until(lambda: len(world.runs()) == 3 and all(r.status.plan for r in world.runs()))
    assert sorted(receivers(r) for r in world.runs()[1:]) == [{0}, {3}]


def test_where_only_the_empty_broker_could_take_a_replica_the_run_says_so() -> None:
    world = emptied_3()
    for broker in (0, 5):
        world.kafka.topic(f"x{broker}", [broker, 4])
    world.kafka.topic("all", [0, 1, 2, 4, 5])
    world.ask("evacuate-broker", brokers="4", onto="any")
    run = planned(world, "evacuate-broker")
    assert run.status.plan is not None
    assert "left out, because every broker that may get a replica holds one already: all" in run.status.plan.summary


def of_two_waves() -> World:
    kafka = SimKafka(racks=dict.fromkeys(range(4)))
    kafka.topic("first", [3, 1, 2], size=4_000_000)
    kafka.topic("second", [3, 1, 2], size=3_000_000)
    for topic in ("first", "second"):
        kafka.dynamic["TOPIC", topic, MIN_ISR] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=QUIET)
    world.with_pods()
    world.ask("evacuate-broker", brokers="3", waveBytesPerBroker="4000000")
    world.approve(world.until_phase("AwaitingApproval"))
    return world


def test_a_follower_of_an_earlier_wave_that_lags_is_no_client_that_removed_a_throttle() -> None:
    world = of_two_waves()
    parts = list(world.kafka.partitions.values())
    world.until(lambda: (world.run().status.message or "").startswith("wave 2 of 2: throttling"))
    world.kafka.copies_per_tick = 0  # the second wave takes long
    world.until(lambda: any(e.id.endswith("wave-1") for e in world.run().status.journal))
    early = next(p for p in parts if not p.adding and len(p.replicas) == 4)
    for _ in range(2):
        early.isr.remove(0)
        for _ in range(3):
            world.step()
        early.isr.append(0)
        for _ in range(3):
            world.step()
    assert [e.detail for e in world.run().status.journal if "throttle-again" in e.id] == []


def test_a_replica_stays_while_the_one_in_its_place_is_about_to_go() -> None:
    kafka = SimKafka(racks=dict.fromkeys(range(4)))
    kafka.topic("orders", [1, 2, 3], size=1_000_000)
    kafka.dynamic["TOPIC", "orders", MIN_ISR] = "3"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=QUIET)
    world.with_pods()
    world.ask("evacuate-broker", brokers="3")
    world.approve(world.until_phase("AwaitingApproval"))
    ((tp, part),) = kafka.partitions.items()
    world.until(lambda: len(part.isr) == 4 and not part.adding)
    world.api.touch("/api/v1/nodes/node-0")["spec"]["unschedulable"] = True  # kubectl drain begins with that
    world.until(lambda: (world.run().status.current_step or "") == "remove-replicas")
    for _ in range(8):
        world.step()
    kafka.stop(0)  # and goes on with the Pod
    assert kafka.acknowledges(tp), (part.replicas, part.isr, world.run().status.message)


def test_the_time_left_is_of_the_rate_in_force() -> None:
    kafka = SimKafka(racks=dict.fromkeys(range(4)))
    kafka.topic("orders", [3, 1, 2], size=8_000_000_000)
    kafka.topic("other", [0, 1, 2], size=1000)
    for topic in ("orders", "other"):
        kafka.dynamic["TOPIC", topic, MIN_ISR] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=QUIET)
    world.with_pods()
    world.ask("evacuate-broker", brokers="3", throttleBytesPerSecond="8000000")
    world.approve(world.until_phase("AwaitingApproval"))
    kafka.copies_per_tick = 0
    world.until(lambda: any(p.adding for p in kafka.partitions.values()))
    kafka.partitions[TopicPartition("other", 0)].isr.remove(2)  # falls behind, and stays so
    for _ in range(20):
        world.step()
    rate = int(kafka.dynamic["BROKER", "0", "follower.replication.throttled.rate"])
    progress = next(s.progress for s in world.run().status.steps if s.name == "copy-replicas")
    assert rate == 1_000_000
    assert progress.seconds_left >= 8_000_000_000 // rate, (progress.seconds_left, rate)


def test_a_broker_that_reports_a_replica_does_not_hold_none() -> None:
    world = four_brokers(controllers={100, 101, 102})
    listed = world.kafka._directories

    def with_secret(broker: int) -> LogDirs:
        """DescribeLogDirs lists every replica, and Metadata the topics that one may see."""
        found = listed(broker)
        return LogDirs(tuple(_and_secret(d) if broker == 3 else d for d in found.directories))

    world.kafka._directories = with_secret  # type: ignore[method-assign]
    world.ask("evacuate-broker", brokers="3")
    world.approve(world.until_phase("AwaitingApproval"))
    world.until_phase("Succeeded")
    assert "so its Pod may go" not in world.run().status.message, world.run().status.message
    assert "lists replicas of topic secret: its Pod has to stay" in world.run().status.message


def test_a_broker_whose_log_directories_cannot_be_read_is_not_said_to_be_empty() -> None:
    world = four_brokers(controllers={100, 101, 102})
    world.ask("evacuate-broker", brokers="3")
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: held(world) == [], seconds=1.0)
    listed = world.kafka._directories

    def unreadable(broker: int) -> LogDirs:
        return (
            LogDirs((LogDir("/data/0", None, error="CLUSTER_AUTHORIZATION_FAILED"),)) if broker == 3 else listed(broker)
        )

    world.kafka._directories = unreadable  # type: ignore[method-assign]
    world.until_phase("Succeeded")
    assert "directories could not be read: its Pod has to stay" in world.run().status.message


def _and_secret(directory: LogDir) -> LogDir:
    rows = directory.replicas
    assert rows is not None
    more = (
        pa.table({"topic": ["secret"], "partition": [0], "bytes": [5 * 10**9]})
        .select(rows.column_names)
        .cast(rows.schema)
    )
    return replace(directory, replicas=pa.concat_tables([rows, more]))
