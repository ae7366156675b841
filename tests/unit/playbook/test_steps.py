"""What a step says of itself when it looks at the world: throttle lists, waves in order, drift, and the clean end."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from kafka_medic.cluster.snapshot import ClusterInfo, Mode, TopicPartition
from kafka_medic.plan.model import PLAN_SCHEMA, Spread, Summary
from kafka_medic.plan.model import Plan as Placement
from kafka_medic.playbook.effects import ChangeSettings, Reassign, setting_text
from kafka_medic.playbook.holding import renewed
from kafka_medic.playbook.leadership import reorder_step
from kafka_medic.playbook.portions import ZOOKEEPER_AT_ONCE
from kafka_medic.playbook.reassign import reassign_step
from kafka_medic.playbook.reassign.reassign_step import RATES
from kafka_medic.playbook.reassign.throttle_lists import FOLLOWER_LIST, LEADER_LIST, MAX_LIST_CHARACTERS, cut, listed
from kafka_medic.playbook.report import StepState
from kafka_medic.playbook.restart import drain_first
from kafka_medic.resources.remediation_plan import BrokerRestart, Drain, PartitionChange, Restarts
from kafka_medic.resources.remediation_status import IntentState
from tests.unit.cluster import worlds
from tests.unit.playbook.adding_replicas import (
    BEFORE,
    CHANGES,
    DONE,
    MOVING,
    NOW,
    STEP,
    assess,
    entry,
    journal,
    plan,
    row,
    seen,
    throttled,
    undo,
)


def test_first_the_throttle_on_who_sends_and_who_receives_and_what_was_there_is_saved():
    report = assess(seen(BEFORE, BEFORE, BEFORE))
    assert report.state is StepState.ACT
    assert isinstance(report.intent, ChangeSettings)
    wanted = dict(report.intent.settings)
    assert {k: v for k, v in wanted.items() if k[0] == "BROKER"} == {
        ("BROKER", b, rate): "1000" for b in "123" for rate in RATES
    }
    assert wanted["TOPIC", "orders", LEADER_LIST] == "0:1,1:2,1:1"
    assert wanted["TOPIC", "orders", FOLLOWER_LIST] == "0:2,0:3,1:3"
    later = [("TOPIC", "logs", name) for name in (LEADER_LIST, FOLLOWER_LIST)]
    assert not wanted.keys() & set(later), "the next wave's turn has not come"
    assert report.saved == dict.fromkeys(map(setting_text, [*wanted, *later]))


def test_what_somebody_else_throttled_is_kept_and_saved():
    theirs = {
        ("TOPIC", "orders", LEADER_LIST): "7:1",
        ("TOPIC", "logs", LEADER_LIST): "*",
        ("BROKER", "1", RATES[0]): "777",
    }
    wanted, saved = throttled(theirs)
    assert wanted["TOPIC", "orders", LEADER_LIST] == "7:1,0:1,1:2,1:1"
    assert wanted["BROKER", "1", RATES[0]] == "1000"
    assert {k: v for k, v in saved.saved_values().items() if v} == {setting_text(k): v for k, v in theirs.items()}


def test_a_list_that_would_be_too_long_is_a_star():
    many = tuple(
        PartitionChange(topic="orders", partition=n, replicas_before=(1,), replicas=(1, 2, 3)) for n in range(480)
    )
    report = assess(seen(*[BEFORE] * 480, changes=many), of=plan(many))
    assert isinstance(report.intent, ChangeSettings)
    lists = {k[2]: v or "" for k, v in report.intent.settings.items() if k[0] == "TOPIC"}
    assert lists[FOLLOWER_LIST] == "*"
    assert max(map(len, lists.values())) <= MAX_LIST_CHARACTERS


def test_an_effect_half_done_is_asked_for_again_with_what_was_there_at_first():
    was = {("BROKER", "1", RATES[0]): "777"}
    wanted, saved = throttled(was)
    half = {**wanted, ("BROKER", "3", RATES[1]): None}
    report = assess(seen(BEFORE, BEFORE, BEFORE, settings={k: v for k, v in half.items() if v}), saved)
    assert report.state is StepState.ACT
    assert isinstance(report.intent, ChangeSettings)
    assert dict(report.intent.settings) == wanted
    assert report.saved == saved.saved_values(), "and not what we set ourselves"


def test_wave_after_wave():
    wanted, saved = throttled()
    first = assess(seen(BEFORE, BEFORE, BEFORE, settings=wanted), saved)
    assert isinstance(first.intent, Reassign)
    assert first.intent.id == "add/wave-0"
    assert first.intent.targets == {TopicPartition("orders", 0): (1, 2, 3), TopicPartition("orders", 1): (2, 1, 3)}
    sent = (saved, entry("wave-0"))
    rest = assess(seen(MOVING, BEFORE, BEFORE, settings=wanted), *sent)
    assert isinstance(rest.intent, Reassign)
    assert set(rest.intent.targets) == {TopicPartition("orders", 1)}, "what a request did not reach is asked for again"
    for states in ((MOVING, DONE, BEFORE), ("behind", DONE, BEFORE)):
        wait = assess(seen(*states, settings=wanted), *sent)
        assert wait.state is StepState.WAIT
        assert "add/wave-0" in wait.observed
    lists = {("TOPIC", "logs", LEADER_LIST): "0:3", ("TOPIC", "logs", FOLLOWER_LIST): "0:1,0:2"}
    next_ = {key: value for key, value in wanted.items() if key[0] == "BROKER"} | lists
    second = assess(seen(DONE, DONE, BEFORE, settings=next_), *sent)
    assert isinstance(second.intent, Reassign)
    assert second.intent.id == "add/wave-1"
    assert set(second.intent.targets) == {TopicPartition("logs", 0)}


def test_the_lists_follow_the_waves_and_a_persons_stays():
    """A replica that has caught up would take of the rate, and be held back by it, for nothing."""
    was = {("TOPIC", "orders", LEADER_LIST): "7:1", ("TOPIC", "logs", LEADER_LIST): "*"}
    wanted, saved = throttled(was)
    placed = saved.model_copy(update={"state": IntentState.DONE})
    mine = was | wanted
    between = assess(seen(DONE, DONE, BEFORE, settings=mine), placed, entry("wave-0"))
    assert between.state is StepState.ACT
    assert not between.restores, "a next wave is asked about as any going on is"
    assert between.intent == ChangeSettings(
        "add/throttle",
        {
            ("TOPIC", "orders", LEADER_LIST): "7:1",
            ("TOPIC", "orders", FOLLOWER_LIST): None,
            ("TOPIC", "logs", FOLLOWER_LIST): "0:1,0:2",
        },
    )
    assert between.saved == saved.saved_values(), "and not what we set ourselves"
    theirs = mine | {("TOPIC", "orders", FOLLOWER_LIST): "5:5", ("BROKER", "1", RATES[0]): "5"}
    left = assess(seen(DONE, DONE, BEFORE, settings=theirs), placed, entry("wave-0")).intent.settings
    assert set(left) == {("TOPIC", "orders", LEADER_LIST), ("TOPIC", "logs", FOLLOWER_LIST)}
    moved = {key: value for key, value in (mine | between.intent.settings).items() if value is not None}
    second = assess(seen(DONE, DONE, BEFORE, settings=moved), placed, entry("wave-0"))
    assert isinstance(second.intent, Reassign)
    begun = (placed, entry("wave-0"), entry("wave-1"))
    without = {key: value for key, value in moved.items() if key[1] != "logs"}
    assert assess(seen(DONE, DONE, MOVING, settings=without), *begun).restores, "what vanishes is set again"
    over = assess(seen(DONE, DONE, DONE, settings=moved), *begun).intent.settings
    assert {key: value for key, value in over.items() if key[0] == "TOPIC"} == {("TOPIC", "logs", FOLLOWER_LIST): None}
    given_up = undo(seen(DONE, DONE, BEFORE, settings=mine), placed, entry("wave-0")).intent.settings
    assert {key: value for key, value in given_up.items() if key[0] == "TOPIC"} == {
        ("TOPIC", "orders", LEADER_LIST): "7:1",
        ("TOPIC", "orders", FOLLOWER_LIST): None,
    }


def test_of_a_large_topic_so_many_go_at_a_time_that_no_list_is_long():
    rows = {
        "topic": ["large"] * 2000 + ["small"],
        "partition": [*range(2000), 0],
        "replicasBefore": [[100]] * 2001,
        "replicas": [[100, 101, 102]] * 2001,
        "preferredOrder": [[100, 101, 102]] * 2001,
        "wave": [0] * 1000 + [1] * 1000 + [1],
    }
    table = pa.table(rows, schema=PLAN_SCHEMA)
    figures = Summary(2001, 4002, 4002, Spread(0, 1, 1), Spread(0, 1, 1), 0, 0, 2)
    shorter = cut(Placement(table, pa.array([None] * 2001, pa.int64()), figures))
    waves: dict[int, list[PartitionChange]] = {}
    for move in shorter.moves():
        change = PartitionChange(
            topic=move.topic, partition=move.partition, replicas_before=move.replicas_before, replicas=move.replicas
        )
        waves.setdefault(move.wave, []).append(change)
    assert sorted(waves) == list(range(shorter.summary.waves))
    assert shorter.summary.waves < 12
    for changes in waves.values():
        large = [c for c in changes if c.topic == "large"]
        assert len(listed(large, FOLLOWER_LIST, "7:1")) > 1000 or changes is waves[max(waves)]
        assert listed(large, FOLLOWER_LIST, "7:1") != "*" != listed(large, LEADER_LIST, "7:1")
    assert max(c.partition for c in waves[0]) < min(c.partition for c in waves[max(waves)]), "the order stays"
    small = Placement(table.slice(1900), pa.array([None] * 101, pa.int64()), figures)
    assert cut(small) is small


MANY = tuple(
    PartitionChange(topic="orders", partition=n, replicas_before=(1,), replicas=(1, 2, 3))
    for n in range(2 * ZOOKEEPER_AT_ONCE + 1)
)
ON_ZOOKEEPER = {"cluster": ClusterInfo("prod", "id-1", Mode.ZOOKEEPER, "3.9")}


def test_zookeepers_controller_is_given_a_part_of_a_wave_at_a_time():
    """It would have no time for a broker that dies meanwhile."""
    throttle = assess(seen(*[BEFORE] * len(MANY), changes=MANY), of=plan(MANY)).intent.settings
    sent, begun = 0, [entry("throttle", saved=dict.fromkeys(map(setting_text, throttle)), kind="ChangeSettings")]
    while sent < len(MANY):
        states = [MOVING] * sent + [BEFORE] * (len(MANY) - sent)
        now = {"settings": throttle, "changes": MANY}
        report = assess(seen(*states, **now, **ON_ZOOKEEPER), *begun, of=plan(MANY))
        assert report.intent.id == "add/wave-0"
        assert min(report.intent.targets).partition == sent
        assert len(report.intent.targets) == min(ZOOKEEPER_AT_ONCE, len(MANY) - sent)
        assert report.message.endswith("more follow") == (sent + ZOOKEEPER_AT_ONCE < len(MANY))
        assert "add/wave-0" not in report.observed, "one that is back where it was may be one that was not asked for"
        at_once = assess(seen(*states, **now), *begun, of=plan(MANY))
        assert len(at_once.intent.targets) == len(MANY) - sent, "KRaft's writes all in one go"
        begun, sent = [begun[0], entry("wave-0")], sent + len(report.intent.targets)
    cancelling = reassign_step.undo(
        STEP, plan(MANY), journal(*begun), seen(*[MOVING] * len(MANY), changes=MANY, **ON_ZOOKEEPER)
    )
    assert len(cancelling.intent.targets) == ZOOKEEPER_AT_ONCE


@pytest.mark.parametrize(("more", "asked"), [({}, len(MANY)), (ON_ZOOKEEPER, ZOOKEEPER_AT_ONCE)])
def test_new_orders_are_given_to_zookeepers_controller_in_parts_too(more, asked):
    orders = {TopicPartition("orders", c.partition): ((1, 2, 3), (2, 1, 3)) for c in MANY}
    report = reorder_step.reorder("r", orders, {}, seen(*[DONE] * len(MANY), changes=MANY, **more))
    assert len(report.intent.orders) == asked
    drains = (
        Drain(
            broker=1,
            topic="orders",
            replicas_before=(2, 1, 3),
            replicas=(1, 2, 3),
            partitions=tuple(c.partition for c in MANY),
        ),
    )
    away = journal(entry("order-away-1", kind="Reorder"))
    going_back = drain_first.undo(
        STEP,
        plan(()).with_parts(Restarts(drains=drains, restarts=(BrokerRestart(broker=1, pod="p", pod_uid="u"),))),
        away,
        seen(*[DONE] * len(MANY), changes=MANY, **more),
    )
    assert len(going_back.intent.orders) == asked


def test_progress_counts_bytes_and_the_time_of_the_busiest_broker():
    sized = tuple(c.model_copy(update={"size_bytes": size}) for c, size in zip(CHANGES, (5000, 300, 70), strict=True))
    whole = assess(seen(BEFORE, BEFORE, BEFORE, changes=sized), of=plan(sized)).progress
    assert (whole.bytes_done, whole.bytes_total, whole.share) == (0, 10440, 0)
    # Broker 1 sends both copies of orders-0, 10,000 bytes at 1,000 a second; orders-1 is led by broker 2.
    assert whole.seconds_left == 10
    part = assess(seen(DONE, "behind", MOVING, changes=sized), of=plan(sized)).progress
    assert (part.done, part.bytes_done, part.seconds_left) == (1, 10000, 1)
    assert part.describe() == "1/3 partitions, 10.0 kB of 10.4 kB, at least 1s left"
    over = assess(seen(DONE, DONE, DONE, changes=sized), of=plan(sized)).progress
    assert (over.share, over.seconds_left) == (1, None)
    assert assess(seen(BEFORE, DONE, BEFORE)).progress.describe() == "1/3 partitions", "sizes are not known"


def test_without_a_throttle_the_waves_come_first():
    report = assess(seen(BEFORE, BEFORE, BEFORE), of=plan(throttle=None))
    assert isinstance(report.intent, Reassign)
    done = assess(seen(DONE, DONE, DONE), of=plan(throttle=None))
    assert done.state is StepState.REACHED


def test_done_is_done_only_with_the_throttle_as_it_was():
    was = {("BROKER", "1", RATES[0]): "777", ("TOPIC", "logs", LEADER_LIST): "*"}
    wanted, saved = throttled(was)
    report = assess(seen(DONE, DONE, DONE, settings=wanted), saved)
    assert report.state is StepState.ACT
    assert report.restores
    assert isinstance(report.intent, ChangeSettings)
    changed = {key: was.get(key) for key in wanted if wanted[key] != was.get(key)}
    assert report.intent.settings == changed, "what we did not change is not touched"
    assert assess(seen(DONE, DONE, DONE, settings=was), saved).state is StepState.REACHED


def test_a_setting_that_cannot_be_read_is_not_called_restored():
    wanted, saved = throttled()
    silent = worlds.brokers(b3={"reachable": False})
    report = assess(seen(DONE, DONE, DONE, brokers=silent), saved)
    assert report.state is StepState.UNKNOWN
    assert report.restores
    others = assess(seen(DONE, DONE, DONE, settings=wanted, brokers=silent), saved)
    assert others.state is StepState.ACT, "one silent broker does not leave the throttle on all the others"
    assert isinstance(others.intent, ChangeSettings)
    assert {key[1] for key in others.intent.settings if key[0] == "BROKER"} == {"1", "2"}


def test_what_somebody_set_since_is_theirs():
    wanted, saved = throttled()
    rate = next(key for key in wanted if key[0] == "BROKER")
    report = assess(seen(DONE, DONE, DONE, settings=wanted | {rate: "5"}), saved)
    assert isinstance(report.intent, ChangeSettings)
    assert rate not in report.intent.settings
    done = entry("restore-throttle", IntentState.DONE)
    assert assess(seen(DONE, DONE, DONE, settings=wanted), saved, done).state is StepState.REACHED


def test_what_was_restored_is_not_set_again_for_a_replica_that_falls_behind_afterwards():
    """Nobody would take it away: it has been restored."""
    _, saved = throttled()
    placed = saved.model_copy(update={"state": IntentState.DONE})
    over = entry("restore-throttle", IntentState.DONE)
    report = assess(seen(DONE, "behind", DONE), placed, entry("wave-0", IntentState.DONE), over)
    assert report.state is StepState.WAIT
    assert assess(seen(DONE, "behind", DONE), placed, entry("wave-0", IntentState.DONE)).state is StepState.ACT


def test_one_cancelled_by_somebody_is_drift_and_one_not_sent_yet_is_not():
    wanted, saved = throttled()
    world = seen(BEFORE, MOVING, BEFORE, settings=wanted)
    assert assess(world, saved, entry("wave-0")).state is StepState.ACT
    cancelled = assess(world, saved, entry("wave-0", IntentState.DONE))
    assert cancelled.state is StepState.DRIFTED
    assert "another client cancelled the reassignment of orders-0" in cancelled.message


@pytest.mark.parametrize(
    "changes",
    [
        {"replicas": [1, 9]},
        {"replicas": [1, 2, 3, 9], "adding": [9]},
        {"replicas": [1, 2, 3], "removing": [1]},
        {"replicas": [2]},
    ],
)
def test_any_other_replicas_are_drift(changes):
    rows = [{**row(CHANGES[0], BEFORE), **changes}, row(CHANGES[1], BEFORE), row(CHANGES[2], BEFORE)]
    assert assess(worlds.healthy(rows=rows)).state is StepState.DRIFTED


@pytest.mark.parametrize("column", ["replicas", "isr", "adding", "removing"])
def test_what_is_not_known_is_not_acted_on(column):
    rows = [{**row(CHANGES[0], BEFORE), column: None}, row(CHANGES[1], BEFORE), row(CHANGES[2], BEFORE)]
    assert assess(worlds.healthy(rows=rows)).state is StepState.UNKNOWN
    assert assess(worlds.healthy(partitions=None)).state is StepState.UNKNOWN
    assert assess(seen(BEFORE, BEFORE, BEFORE, configs=None)).state is StepState.UNKNOWN


def test_undo_cancels_ours_then_restores_and_leaves_what_was_added():
    wanted, saved = throttled()
    sent = (saved, entry("wave-0"))
    report = undo(seen(MOVING, DONE, BEFORE, settings=wanted), *sent)
    assert isinstance(report.intent, Reassign)
    assert report.intent.targets == {TopicPartition("orders", 0): None}
    assert report.restores
    then = undo(seen(BEFORE, DONE, BEFORE, settings=wanted), *sent)
    assert isinstance(then.intent, ChangeSettings)
    assert set(then.intent.settings.values()) == {None}
    assert undo(seen(BEFORE, DONE, BEFORE), *sent).state is StepState.REACHED


def test_undo_touches_nobody_elses_reassignment_and_nothing_where_nothing_was_sent():
    assert undo(seen(MOVING, BEFORE, BEFORE)).state is StepState.REACHED
    wanted, saved = throttled()
    rows = [
        {**row(CHANGES[0], BEFORE), "replicas": [1, 9], "adding": [9]},
        row(CHANGES[1], DONE),
        row(CHANGES[2], DONE),
    ]
    table = worlds.configs(*((*k, v, True) for k, v in wanted.items()))
    report = undo(worlds.healthy(rows=rows, configs=table), saved, entry("wave-0"))
    assert isinstance(report.intent, ChangeSettings), "theirs goes on, our throttle goes"


def test_a_removal_that_is_due_again_is_seen_anew_and_the_throttle_says_nothing_of_it():
    """Others wait for what is Intended. A setting that was seen once is not fought over, so its entry stays."""
    _, saved = throttled()
    asked = entry("give-back", kind="DropReplicas")
    report = undo(seen(DONE, DONE, DONE), saved, entry("wave-0"), asked)
    assert report.state is StepState.REACHED
    assert asked.id not in report.observed
    over = {"state": IntentState.DONE, "done_at": NOW}
    for later in (NOW, NOW + timedelta(minutes=1)):
        again = renewed(asked.model_copy(update=over), later)
        assert (again.state, again.done_at, again.last_asked) == (IntentState.INTENDED, None, later)
        assert renewed(saved.model_copy(update=over), later).state is IntentState.DONE


def test_undo_waits_while_it_cannot_see():
    _, saved = throttled()
    assert undo(worlds.healthy(partitions=None), saved, entry("wave-0")).state is StepState.UNKNOWN
    assert undo(seen(BEFORE, BEFORE, BEFORE, configs=None), saved).state is StepState.UNKNOWN
