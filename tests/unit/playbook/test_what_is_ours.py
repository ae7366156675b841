"""What a run put there it takes away, wherever it can; what somebody else put there it leaves."""

from __future__ import annotations

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.playbook.effects import ChangeSettings, Reassign
from kafka_medic.playbook.reassign.reassign_step import RATES
from kafka_medic.playbook.report import StepState
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation_status import IntentState, SavedValue, saved_from
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World, factor_one_cluster
from tests.thorough import thorough
from tests.unit.cluster import worlds
from tests.unit.playbook.adding_replicas import (
    BEFORE,
    CHANGES,
    DONE,
    MOVING,
    assess,
    entry,
    row,
    seen,
    throttled,
    undo,
)

FOLLOWER = "follower.replication.throttled.replicas"


def throttles(world: World) -> list[tuple[str, str, str]]:
    return [k for k in world.kafka.dynamic if "throttled" in k[2]]


def placed(saved):
    return saved.model_copy(update={"state": IntentState.DONE})


def test_one_broker_that_does_not_answer_keeps_no_throttle_on_the_others():
    wanted, saved = throttled()
    silent = worlds.brokers(b3={"reachable": False})
    first = undo(seen(DONE, DONE, BEFORE, settings=wanted, brokers=silent), saved, entry("wave-0"))
    assert isinstance(first.intent, ChangeSettings)
    assert first.restores
    assert set(first.intent.settings) == {k for k in wanted if k[:2] != ("BROKER", "3")}
    assert set(first.intent.settings.values()) == {None}
    rest = {k: v for k, v in wanted.items() if k[:2] == ("BROKER", "3")}
    then = undo(seen(DONE, DONE, BEFORE, settings=rest, brokers=silent), saved, entry("wave-0"))
    assert then.state is StepState.UNKNOWN
    assert "3" in then.message
    back = undo(seen(DONE, DONE, BEFORE, settings=rest), saved, entry("wave-0"))
    assert isinstance(back.intent, ChangeSettings)
    assert set(back.intent.settings) == set(rest)


def test_a_replica_that_somebody_puts_back_is_not_taken_away():
    """The set is the planned one, as a later step has removed that replica: only what is added tells whose it is."""
    wanted, saved = throttled()
    back = {**row(CHANGES[0], DONE), "isr": [2, 3], "adding": [1]}
    rows = [back, row(CHANGES[1], DONE), row(CHANGES[2], DONE)]
    table = worlds.configs(*((*key, value, True) for key, value in wanted.items()))
    report = undo(worlds.healthy(rows=rows, configs=table), placed(saved), entry("wave-0", IntentState.DONE))
    assert isinstance(report.intent, ChangeSettings), "the throttle alone is its own to take back"


@pytest.mark.parametrize("listed", [True, False])
def test_a_broker_that_is_gone_for_good_is_not_waited_for(listed):
    _, saved = throttled()
    gone = worlds.brokers(b3={"registered": False, "reachable": False, "pod": None})
    rows = [worlds.partition("orders", n, (1 + n, 2 - n)) for n in (0, 1)] + [worlds.partition("logs", 0, (1, 2))]
    here = gone if listed else gone[:2]
    views = tuple(worlds.view(n, rows) for n in (1, 2))
    state = worlds.healthy(rows=rows, brokers=here, configs=worlds.configs(), views=views)
    assert undo(state, saved).state is StepState.REACHED
    named = [*rows, worlds.partition("other", 0, (1, 3))]
    assert undo(worlds.healthy(rows=named, brokers=gone, configs=worlds.configs()), saved).state is StepState.UNKNOWN
    unread = [*rows, {**worlds.partition("other", 0, (1,)), "replicas": None}]
    state = worlds.healthy(rows=unread, brokers=here, configs=worlds.configs())
    assert undo(state, saved).state is StepState.UNKNOWN, "it may be named there"


def test_a_broker_without_replicas_that_is_only_away_is_not_taken_for_gone():
    wanted, saved = throttled()
    rows = [worlds.partition("orders", 0, (1, 2)), worlds.partition("orders", 1, (2, 1))]
    left = worlds.configs(*((*key, value, True) for key, value in wanted.items() if key[:2] == ("BROKER", "3")))
    away = worlds.brokers(b3={"registered": False, "reachable": False})
    with_its_pod = undo(worlds.healthy(rows=rows, brokers=away, configs=left), saved)
    assert with_its_pod.state is StepState.UNKNOWN
    assert "throttle of broker 3" in with_its_pod.message
    nobody_knows = worlds.healthy(rows=rows, brokers=away[:2], configs=left, sources=worlds.sources(kubernetes="403"))
    assert undo(nobody_knows, saved).state is StepState.UNKNOWN


def test_only_a_value_that_is_still_ours_is_put_back():
    was = {("BROKER", "1", RATES[0]): "777"}
    wanted, saved = throttled(was)
    theirs = {("BROKER", "2", RATES[0]): "5", ("TOPIC", "orders", FOLLOWER): "*"}
    report = assess(seen(DONE, DONE, DONE, settings={**wanted, **theirs}), saved)
    assert isinstance(report.intent, ChangeSettings)
    assert set(report.intent.settings) == set(wanted) - set(theirs)
    assert report.intent.settings["BROKER", "1", RATES[0]] == "777"
    assert assess(seen(DONE, DONE, DONE, settings={**was, **theirs}), saved).state is StepState.REACHED


def test_what_was_restored_once_is_not_restored_again():
    wanted, saved = throttled()
    over = entry("restore-throttle", IntentState.DONE, kind="ChangeSettings")
    assert assess(seen(DONE, DONE, DONE, settings=wanted), placed(saved), over).state is StepState.REACHED
    assert undo(seen(DONE, DONE, BEFORE, settings=wanted), placed(saved), over).state is StepState.REACHED


def test_a_throttle_that_a_person_changes_in_the_middle_is_not_fought():
    wanted, saved = throttled()
    changed = {**wanted, ("BROKER", "1", RATES[0]): "9999"}
    before = assess(seen(BEFORE, BEFORE, BEFORE, settings=changed), saved)
    assert isinstance(before.intent, ChangeSettings), "until it was seen once, it is set"
    after = assess(seen(BEFORE, BEFORE, BEFORE, settings=changed), placed(saved))
    assert isinstance(after.intent, Reassign)
    unread = assess(seen(BEFORE, BEFORE, BEFORE, configs=None), placed(saved))
    assert unread.state is StepState.UNKNOWN


def test_only_waves_that_were_sent_are_cancelled():
    wanted, saved = throttled()
    state = seen(MOVING, DONE, MOVING, settings=wanted)
    report = undo(state, saved, entry("wave-0"))
    assert isinstance(report.intent, Reassign)
    assert report.intent.targets == {TopicPartition("orders", 0): None}
    then = undo(seen(BEFORE, DONE, MOVING, settings=wanted), saved, entry("wave-0"))
    assert isinstance(then.intent, ChangeSettings), "theirs goes on"


def test_a_partition_that_moves_before_its_wave_is_somebody_elses():
    wanted, saved = throttled()
    report = assess(seen(MOVING, BEFORE, BEFORE, settings=wanted), placed(saved))
    assert report.state is StepState.DRIFTED
    assert "another client is reassigning orders-0" in report.message
    later = assess(seen(DONE, BEFORE, MOVING, settings=wanted), placed(saved), entry("wave-0"))
    assert later.state is StepState.DRIFTED
    done = assess(seen(DONE, BEFORE, DONE, settings=wanted), placed(saved))
    assert isinstance(done.intent, Reassign), "what is as planned already is accepted"
    assert set(done.intent.targets) == {TopicPartition("orders", 1)}
    assert row(CHANGES[0], DONE)


def test_a_stop_with_a_dead_broker_takes_the_throttle_off_everybody_else():
    world = World(factor_one_cluster())
    world.install()
    world.kafka.copies_per_tick = 0
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    world.until(lambda: any(p.adding for p in world.kafka.partitions.values()))
    world.kafka.stop(2)
    world.approve(run, decision="Reject")
    for _ in range(8):
        world.step()
    assert {k[:2] for k in throttles(world)} == {("BROKER", "2")}
    assert world.run().status.restore_owed
    assert "2" in world.run().status.message
    world.kafka.start(2)
    world.until_phase("Aborted")
    assert throttles(world) == []


def test_what_somebody_else_is_raising_is_waited_for_and_not_called_done():
    kafka = SimKafka(copies_per_tick=0)
    kafka.topic("orders", [0])
    kafka.alter_reassignments({TopicPartition("orders", 0): [0, 1, 2]})
    kafka.writes.clear()
    world = World(kafka)
    world.install()
    for _ in range(12):
        world.step()
    assert len(world.runs()) <= 1
    assert all(r.status.phase is Phase.PLANNING for r in world.runs())
    assert kafka.writes == []


@thorough
def test_the_longest_topic_name_can_be_saved():
    name = f"TOPIC/{'t' * 249}/follower.replication.throttled.replicas"
    assert saved_from({name: None}) == (SavedValue(name=name),)
    kafka = SimKafka()
    kafka.topic("t" * 249, [0])
    world = World(kafka)
    world.install()
    world.approve(world.until_phase("AwaitingApproval"))
    world.until_phase("Succeeded")
    assert throttles(world) == []


def test_a_value_too_long_to_be_saved_is_said_and_nothing_is_done():
    kafka = SimKafka()
    kafka.topic("orders", [0])
    key = ("TOPIC", "orders", FOLLOWER)
    kafka.dynamic[key] = ",".join(f"{n}:1" for n in range(1000))
    assert len(kafka.dynamic[key]) > 4096
    world = World(kafka)
    world.install()
    for _ in range(5):
        world.step()
    assert world.run().status.phase is Phase.PLANNING
    assert "TOPIC/orders/follower.replication.throttled.replicas" in world.run().status.message
    kafka.dynamic[key] = "*"
    world.approve(world.until_phase("AwaitingApproval"))
    world.until_phase("Succeeded")
    assert kafka.dynamic[key] == "*"


def test_a_plan_that_cannot_end_in_time_at_its_throttle_is_not_proposed():
    kafka = SimKafka()
    kafka.topic("orders", [0], size=1_000_000_000_000)
    world = World(kafka)
    world.install()
    for _ in range(5):
        world.step()
    run = world.run()
    assert run.status.phase is Phase.PLANNING
    assert run.status.plan is None
    for part in ("4h", "throttleBytesPerSecond", "within"):
        assert part in run.status.message
    kafka.partitions[TopicPartition("orders", 0)].size = 1000
    world.until_phase("AwaitingApproval")
