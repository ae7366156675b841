"""Runs that are large, or from under which the cluster moves: each ends, and within what a Remediation can hold."""

from __future__ import annotations

from kafka_medic.playbook.reassign import moves_plan
from kafka_medic.playbook.reassign.moves_plan import MAX_SAVED, MAX_WAVES
from kafka_medic.playbook.reassign.rate import MOST_CHANGES
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation_plan import ReplicaMoves, SettingChanges
from kafka_medic.resources.remediation_status import JournalEntry, RemediationStatus
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World, factor_one_cluster
from tests.thorough import thorough

RATE = "leader.replication.throttled.rate"
LIST = "leader.replication.throttled.replicas"


def started(kafka: SimKafka) -> World:
    world = World(kafka)
    world.install()
    world.approve(world.until_phase("AwaitingApproval"))
    return world


def throttles(world: World) -> list[tuple[str, str, str]]:
    return [k for k in world.kafka.dynamic if "throttled" in k[2]]


def longest(model, name):
    return next(m.max_length for m in model.model_fields[name].metadata if hasattr(m, "max_length"))


def test_the_bounds_of_a_plan_are_those_of_the_journal():
    assert longest(JournalEntry, "saved") == MAX_SAVED
    # throttle, restore-throttle, cancel, give-up and the settings of a later step have their place, too
    assert longest(RemediationStatus, "journal") >= MAX_WAVES + MOST_CHANGES + 10


def test_more_topics_than_one_journal_entry_can_save_are_treated_in_several_runs(monkeypatch):
    monkeypatch.setattr(moves_plan, "MAX_SAVED", 16)
    kafka = SimKafka(copies_per_tick=1000)
    for number in range(8):
        kafka.topic(f"t{number}", [number % 3])
    world = started(kafka)
    first = world.until_phase("Succeeded")
    assert first.status.plan is not None
    assert "more partitions in a later plan" in first.status.plan.summary
    assert 0 < len(first.status.journal[0].saved) <= 16
    assert throttles(world) == []
    world.until(lambda: len(world.runs()) == 2)
    world.until(lambda: all(r.status.plan for r in world.runs()))
    second = next(r for r in world.runs() if r.uid != first.uid)
    assert second.status.plan is not None
    done = {c.topic for c in first.status.plan.part(ReplicaMoves).changes}
    assert done.isdisjoint(c.topic for c in second.status.plan.part(ReplicaMoves).changes)
    assert len(done) + len({c.topic for c in second.status.plan.part(ReplicaMoves).changes}) == 8


def test_more_waves_than_a_journal_holds_are_treated_in_several_runs():
    kafka = SimKafka(copies_per_tick=1000)
    kafka.topic("big", *([number % 3] for number in range(MAX_WAVES + 20)), size=60_000_000_000)
    world = World(kafka)
    faster = {"name": "raise-replication-factor", "parameters": {"throttleBytesPerSecond": 1_000_000_000}}
    world.install(remediation={"playbooks": [faster]})
    plan = world.until_phase("AwaitingApproval").status.plan
    assert plan is not None
    assert plan.part(ReplicaMoves).waves == MAX_WAVES
    assert len(plan.part(ReplicaMoves).changes) < MAX_WAVES + 20


def test_a_topic_that_is_deleted_in_the_middle_does_not_keep_the_throttle_from_being_restored():
    kafka = factor_one_cluster()
    kafka.copies_per_tick = 0
    theirs = {("TOPIC", "orders", LIST): "*", ("BROKER", "1", RATE): "777"}
    kafka.dynamic.update(theirs)
    world = started(kafka)
    world.until(lambda: any(p.adding for p in kafka.partitions.values()))
    kafka.delete("orders")
    kafka.copies_per_tick = 2
    run = world.until_phase("Succeeded")
    assert run.status.deleted_topics == ("orders",)
    assert {k: kafka.dynamic[k] for k in throttles(world)} == {("BROKER", "1", RATE): "777"}


def test_another_order_of_the_same_replicas_is_drift_and_planned_anew():
    kafka = factor_one_cluster()
    kafka.topic("pairs", [0, 1])
    world = started(kafka)
    tp = next(tp for tp in kafka.partitions if tp.topic == "pairs")
    kafka.partitions[tp].replicas = [1, 0]
    old = world.run().status.plan
    world.until(lambda: world.run().status.phase is Phase.AWAITING_APPROVAL and world.run().status.plan != old, 10)
    assert kafka.writes == []
    new = world.run().status.plan
    assert new is not None
    assert next(c for c in new.part(ReplicaMoves).changes if c.topic == "pairs").replicas_before == (1, 0)


@thorough
def test_a_topic_that_grows_in_the_middle_ends_the_run_and_its_new_partitions_are_in_the_next_plan():
    kafka = factor_one_cluster()
    kafka.copies_per_tick = 0
    world = started(kafka)
    first = world.run()
    world.until(lambda: any(p.adding for p in kafka.partitions.values()))
    kafka.add_partitions("orders", 2, [[2]])
    kafka.copies_per_tick = 1000
    world.until(lambda: len(world.runs()) == 2)
    ended = next(r for r in world.runs() if r.uid == first.uid)
    assert ended.status.phase is Phase.SUPERSEDED
    assert "orders-1" in ended.status.message
    assert throttles(world) == []
    world.until(lambda: all(r.status.plan for r in world.runs()))
    plan = next(r.status.plan for r in world.runs() if r.uid != first.uid)
    assert [(c.topic, c.partition) for c in plan.part(ReplicaMoves).changes] == [("orders", 1)]
    assert {c.resource_name for c in plan.part(SettingChanges).config_changes} >= {"orders"}
