"""The throttle follows the cluster: lower while others fall behind, never above what was approved, then gone."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from kafka_medic.cluster.snapshot import (
    CANARY_SCHEMA,
    STORAGE_ERROR,
    Directory,
    Source,
    SourceState,
    TopicPartition,
)
from kafka_medic.playbook.effects import ChangeSettings
from kafka_medic.playbook.reassign.rate import (
    CALM_SECONDS,
    FAILURES,
    FOR_THE_WAY_BACK,
    MOST_CHANGES,
    RATES,
    SETTLE_SECONDS,
    SLOW_MS,
)
from kafka_medic.playbook.report import StepState
from kafka_medic.resources.remediation_plan import ReplicaMoves
from kafka_medic.resources.remediation_status import IntentState
from tests.simulation.deaths import Interrupted
from tests.simulation.world import Killed, World, factor_one_cluster
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
    row,
    throttled,
    undo,
)

OTHER = TopicPartition("other", 0)
BEHIND, WELL = worlds.partition("other", 0, (1, 2, 3), isr=(1, 3)), worlds.partition("other", 0, (1, 2, 3))


def copying(beside, rate="1000", state=MOVING, *, at=None, **more):
    """at: rates of single brokers that differ."""
    wanted, saved = throttled()
    settings = {key: (at or {}).get(key[1], rate) if key[2] in RATES else value for key, value in wanted.items()}
    rows = [*(row(c, s) for c, s in zip(CHANGES, (state, "behind", BEFORE), strict=True)), beside]
    table = worlds.configs(*((*key, value, True) for key, value in settings.items()))
    views = tuple(worlds.view(n, rows) for n in worlds.IDS)
    placed = saved.model_copy(update={"state": IntentState.DONE})
    return worlds.healthy(rows=rows, **{"views": views, "configs": table, **more}), placed, entry("wave-0")


def changed(name, seconds_ago=None):
    made = entry(name, kind="ChangeSettings")
    if seconds_ago is None:
        return made
    return made.model_copy(update={"state": IntentState.DONE, "done_at": NOW - timedelta(seconds=seconds_ago)})


def rates(report):
    assert isinstance(report.intent, ChangeSettings)
    assert {key[0] for key in report.intent.settings} == {"BROKER"}
    assert {key[1] for key in report.intent.settings} == {"1", "2", "3"}
    return report.intent.id, set(report.intent.settings.values())


def test_it_is_halved_while_a_replica_of_somebody_else_is_out_of_its_isr():
    report = assess(*copying(BEHIND))
    assert rates(report) == (f"{STEP}/rate-0-500", {"500"})
    assert "other-0" in report.message
    assert report.restores, "no guard of going on holds it up"
    assert "other-0" in report.intent.describe(), "the journal and the event tell why"
    noted = changed("rate-0-500").model_copy(update={"detail": report.intent.describe()})
    assert assess(*copying(BEHIND), noted).intent.describe() == report.intent.describe()
    # Not seen in place yet: the same again. Then it is, and has its time to help.
    assert rates(assess(*copying(BEHIND), changed("rate-0-500"))) == (f"{STEP}/rate-0-500", {"500"})
    in_place = assess(*copying(BEHIND, "500"), changed("rate-0-500"))
    assert in_place.state is StepState.WAIT
    assert f"{STEP}/rate-0-500" in in_place.observed
    soon = assess(*copying(BEHIND, "500"), changed("rate-0-500", SETTLE_SECONDS - 1))
    assert soon.state is StepState.WAIT
    then = assess(*copying(BEHIND, "500"), changed("rate-0-500", SETTLE_SECONDS))
    assert rates(then) == (f"{STEP}/rate-1-250", {"250"})
    least = assess(*copying(BEHIND, "125"), changed("rate-2-125", 1000))
    assert least.state is StepState.WAIT, "an eighth is the least"


def test_a_raise_that_reached_only_some_brokers_is_asked_for_again_like_the_first_time():
    """To lower needs no guard of going on, and to raise does, also when half of it is done."""
    lowered = changed("rate-0-500", CALM_SECONDS)
    whole = assess(*copying(WELL, "500"), lowered)
    half = assess(*copying(WELL, "500", at={"2": "1000"}), lowered, changed("rate-1-1000"))
    assert rates(half) == rates(whole) == (f"{STEP}/rate-1-1000", {"1000"})
    for report in (half, whole):
        assert not report.restores
        assert report.otherwise is not None
    down = assess(*copying(BEHIND, "1000", at={"2": "500"}), changed("rate-0-500"))
    assert rates(down) == (f"{STEP}/rate-0-500", {"500"})
    assert down.restores


def test_a_replica_on_a_failed_disk_is_not_waited_for():
    """It does not catch up, however slowly others are copied."""
    directories = (Directory("/data/0", None, 100, 40), Directory("/data/1", STORAGE_ERROR))
    lost = worlds.broker(2, directories=directories, offline_replicas=(OTHER,))
    brokers = (worlds.broker(1), lost, worlds.broker(3))
    assert assess(*copying(BEHIND, brokers=brokers)).state is StepState.WAIT
    elsewhere = worlds.broker(2, directories=directories, offline_replicas=())
    brokers = (worlds.broker(1), elsewhere, worlds.broker(3))
    assert rates(assess(*copying(BEHIND, brokers=brokers))) == (f"{STEP}/rate-0-500", {"500"})


def canary(produce_ms=20, leader=2, failures=0):
    probed = {"topic": "canary", "partition": 0, "leader": leader, "produceMs": produce_ms}
    return pa.Table.from_pylist([probed | {"consecutiveFailures": failures}], schema=CANARY_SCHEMA)


def test_it_is_halved_while_records_of_the_canary_wait_for_a_broker_of_the_plan():
    report = assess(*copying(WELL, canary=canary(SLOW_MS)))
    assert rates(report) == (f"{STEP}/rate-0-500", {"500"})
    assert f"canary-0 took {SLOW_MS} ms" in report.message
    assert rates(assess(*copying(WELL, canary=canary(None, failures=FAILURES))))[0] == f"{STEP}/rate-0-500"
    in_place = changed("rate-0-500", CALM_SECONDS)
    assert assess(*copying(WELL, "125", canary=canary(SLOW_MS)), changed("rate-2-125", 9999)).state is StepState.WAIT
    assert rates(assess(*copying(WELL, "500", canary=canary()), in_place))[1] == {"1000"}


@pytest.mark.parametrize(
    "table",
    [canary(), canary(SLOW_MS - 1), canary(SLOW_MS, leader=9), canary(None), canary(None, failures=1)],
    ids=["quick", "nearly-slow", "elsewhere", "not-measured", "one-lost"],
)
def test_a_canary_that_is_well_or_tells_nothing_of_the_plan_changes_no_rate(table):
    assert assess(*copying(WELL, canary=table)).state is StepState.WAIT


def test_a_canary_that_could_not_be_read_raises_no_rate():
    """Whether clients wait is not known then."""
    sources = (*worlds.sources(), Source("canary", NOW, SourceState.UNKNOWN, "timed out"))
    assert assess(*copying(WELL, "500", sources=sources), changed("rate-0-500", CALM_SECONDS)).state is StepState.WAIT


def test_the_journal_has_room_for_the_way_back():
    changes = [changed(f"rate-{n}-{500 if n % 2 else 1000}", 1000) for n in range(MOST_CHANGES - FOR_THE_WAY_BACK)]
    assert assess(*copying(BEHIND, "500"), *changes).state is StepState.WAIT, "no lower any more"
    assert rates(assess(*copying(WELL, "500"), *changes))[1] == {"1000"}


def test_it_comes_back_when_nothing_falls_behind_and_never_above_the_plans():
    assert assess(*copying(WELL, "500"), changed("rate-0-500", CALM_SECONDS - 1)).state is StepState.WAIT
    report = assess(*copying(WELL, "500"), changed("rate-0-500", CALM_SECONDS))
    assert rates(report) == (f"{STEP}/rate-1-1000", {"1000"})
    assert not report.restores, "more copying is asked about as any going on is"
    assert report.otherwise is not None
    assert report.otherwise.state is StepState.WAIT
    assert assess(*copying(WELL), changed("rate-1-1000", 9999)).state is StepState.WAIT


@pytest.mark.parametrize(
    ("beside", "rate", "more"),
    [
        (WELL, "1000", {}),
        (BEHIND, "777", {}),  # a person's
        (BEHIND, "1000", {"configs": None}),
        (BEHIND, "1000", {"brokers": worlds.brokers(b3={"reachable": False})}),  # it does not tell what it has
        (worlds.partition("other", 0, (1, 2, 4), isr=(1, 2)), "1000", {}),  # not a broker of this plan
        ({**BEHIND, "isr": None}, "1000", {}),
    ],
)
def test_otherwise_it_stays_as_it_is(beside, rate, more):
    assert not isinstance(assess(*copying(beside, rate, **more)).intent, ChangeSettings)


def test_a_lowered_rate_is_ours_to_take_back():
    state, *saved = copying(BEHIND, "500", state=DONE)
    taken = undo(state, *saved, changed("rate-0-500", 5)).intent
    assert isinstance(taken, ChangeSettings)
    assert {key[2] for key in taken.settings} >= set(RATES)
    assert set(taken.settings.values()) == {None}


def test_a_run_is_slower_while_somebody_is_behind_and_leaves_nothing_also_if_the_operator_dies_of_it():
    kafka = factor_one_cluster()
    kafka.copies_per_tick = 0
    kafka.topic("other", [0, 1, 2])
    world = World(kafka)
    world.install()
    world.approve(world.until_phase("AwaitingApproval"))
    plan = world.run().status.plan
    before = {k: v for k, v in kafka.dynamic.items() if "throttled" in k[2]}
    world.until(lambda: any(p.adding for p in kafka.partitions.values()))
    kafka.partitions[OTHER].isr.remove(2)
    world.wrap_kafka = lambda inner: Interrupted(inner, ("alter_configs",), 0, "after")
    world.operator()
    with pytest.raises(Killed):
        world.until(lambda: False)
    world.wrap_kafka = lambda inner: inner
    world.operator()
    half = str(plan.part(ReplicaMoves).throttle_bytes_per_second // 2)
    world.until(lambda: {v for k, v in kafka.dynamic.items() if k[2] in RATES} == {half})
    kafka.copies_per_tick = 1000
    assert world.until_phase("Succeeded").status.journal[-1].state is IntentState.DONE
    assert {k: v for k, v in kafka.dynamic.items() if "throttled" in k[2]} == before
