"""When a restarted broker is back, seen in one look: in everything, so many times in a row, and through the canary."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from kafka_medic.cluster.snapshot import (
    CANARY_SCHEMA,
    STORAGE_ERROR,
    Directory,
    DivergedLog,
    Mode,
    Quorum,
    Snapshot,
    Source,
    SourceState,
    TopicPartition,
    Voter,
)
from kafka_medic.playbook.effects import CallOffRestarts
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.playbook.restart import strimzi_restart
from kafka_medic.playbook.restart.order import why
from kafka_medic.playbook.restart.parameters import RestartParameters
from kafka_medic.playbook.restart.restart_step import Watch, assess, not_back
from kafka_medic.resources.remediation_plan import BrokerRestart, Plan, PlanStep, Rescue, Rescues, Restarts
from kafka_medic.resources.remediation_status import IntentState, JournalEntry, SavedValue
from kafka_medic.resources.vocabulary import ActionName
from tests.unit.cluster import worlds

STEP = "restart-brokers"
PLAN = Plan(
    digest="sha256:" + "0" * 64,
    proposed_at=worlds.NOW,
    expires_at=worlds.NOW,
    restarts=tuple(BrokerRestart(broker=n, pod=f"kafka-{n}", pod_uid=f"uid-{n}") for n in (2, 3, 1)),
)
AGO = worlds.NOW - timedelta(seconds=20)


@pytest.mark.parametrize("field", ["unplaced", "unplaced_controllers"])
def test_the_annotation_of_a_pod_that_has_not_answered_is_taken_off_too(field: str) -> None:
    """A new operator does not yet know which broker runs in the Pod that the one before had annotated."""
    pod = worlds.pod(2, restart_asked=True, deleting=False)
    entry = JournalEntry(
        id=f"{STEP}/restart-2",
        step=STEP,
        kind="RestartPod",
        state=IntentState.INTENDED,
        intended_at=worlds.NOW - timedelta(seconds=600),
        target=pod.name,
        target_uid=pod.uid,
        saved=(SavedValue(name=strimzi_restart.annotation(pod.name)),),
    )
    unknown = worlds.healthy(brokers=worlds.brokers(b2={"pod": None}), **{field: (pod,)})
    report = strimzi_restart.undo(STEP, PLAN, {entry.id: entry}, unknown)
    assert (report.state, report.intent) == (
        StepState.ACT,
        CallOffRestarts(f"{STEP}/call-off", ((pod.name, pod.uid or ""),)),
    )


def looked(snapshot: Snapshot, seen: int = 2, since=AGO, done=(), within: float = 60.0) -> StepReport:
    """Broker 2 was restarted 40 s ago and is in another Pod."""
    journal = {
        f"{STEP}/restart-{n}": JournalEntry(
            id=f"{STEP}/restart-{n}",
            step=STEP,
            kind="RestartPod",
            state=IntentState.DONE if n in done else IntentState.INTENDED,
            intended_at=worlds.NOW - timedelta(seconds=40),
        )
        for n in (2, *done)
    }
    watch = Watch(seen, 3, worlds.NOW, since)
    return assess(STEP, PLAN, journal, snapshot, RestartParameters(broker_within=within), watch)


def restarted(**changes) -> Snapshot:
    """All is well, and broker 2 is in the Pod that came after the planned one."""
    pod = changes.pop("pod", worlds.pod(2, uid="uid-2b"))
    brokers = tuple(replace(b, pod=pod, **changes) if b.id == 2 else b for b in worlds.brokers())
    return worlds.healthy(brokers=brokers)


def test_back_in_the_last_look_is_done_and_the_next_one_is_due_in_the_same_look():
    report = looked(restarted())
    assert report.observed == (f"{STEP}/restart-2",)
    assert (report.state, report.intent.broker) == (StepState.ACT, 3)
    assert report.streak is None, "the next one's own count begins at nothing"
    assert (report.progress.done, report.progress.total) == (1, 3)


def test_back_once_is_not_enough():
    report = looked(restarted(), seen=0, since=None)
    assert (report.state, report.streak, report.observed) == (StepState.WAIT, 1, ())
    assert report.message == "broker 2 is back, seen 1 of 3 times in a row"


def test_the_last_one_back_is_the_goal_seen_as_often_as_it_has_to_be():
    report = looked(restarted(), done=(3, 1))
    assert (report.state, report.streak) == (StepState.REACHED, 3)


@pytest.mark.parametrize(
    ("lacking", "words"),
    [
        ({"recovering": True, "registered": False, "reachable": False}, "not registered yet"),
        ({"recovering": True}, "recovering its log"),
        ({"recovering": None}, "whether it is recovering its log is not known"),
        ({"reachable": False}, "it does not answer yet"),
        ({"pod": worlds.pod(2, uid="uid-2b", ready=False)}, "Pod kafka-2 is not Ready yet"),
        ({"pod": None}, "it has no Pod yet"),
    ],
)
def test_whatever_it_lacks_begins_the_count_anew_and_is_told(lacking, words):
    report = looked(restarted(**lacking))
    assert (report.state, report.streak, report.stuck) == (StepState.WAIT, 0, None)
    assert report.message == f"broker 2 was restarted: {words}"
    late = looked(restarted(**lacking), within=30.0)
    assert late.state is StepState.WAIT, "and it is never touched again"
    assert late.stuck == f"broker 2 is not back 40 s after the start of its restart (limit 30s): {words}"


def test_a_successor_that_has_not_answered_is_not_told_as_missing():
    silent = replace(restarted(pod=None), unplaced=(worlds.pod(2, uid="uid-2b"),))
    assert looked(silent).message == "broker 2 was restarted: no Pod has answered as it yet (silent: kafka-2)"


def canary(snapshot: Snapshot, *rows: tuple[int, int, str | None], error: str | None = None) -> Snapshot:
    """(partition, failures, last through); partition n of orders stands for the canary's."""
    table = pa.Table.from_pylist(
        [
            {
                "topic": "orders",
                "partition": n,
                "consecutiveFailures": failures,
                "lastOkAt": at,
                "lastError": "too late",
            }
            for n, failures, at in rows
        ],
        schema=CANARY_SCHEMA,
    )
    state = SourceState.UNKNOWN if error else SourceState.KNOWN
    return replace(
        snapshot,
        canary=None if error else table,
        sources=(*snapshot.sources, Source("canary", worlds.NOW, state, error)),
    )


BEFORE, SINCE = "2026-01-31T11:59:30Z", "2026-01-31T11:59:50Z"


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        (((0, 0, SINCE), (1, 0, BEFORE)), None, "no canary record has succeeded on orders-1 since then"),
        (((0, 0, SINCE), (1, 0, None)), None, "no canary record has succeeded on orders-1 since then"),
        (((0, 2, SINCE),), None, "the canary fails through orders-0: too late"),
        ((), None, "the canary has measured no partition yet"),
        ((), "stopped", "the canary could not be read: stopped"),
    ],
)
def test_with_a_canary_a_record_has_to_go_through_since(rows, error, words):
    report = looked(canary(restarted(), *rows, error=error))
    assert (report.state, report.observed) == (StepState.WAIT, ())
    assert words in report.message
    assert words in (looked(canary(restarted(), *rows, error=error), within=30.0).stuck or "")


def test_what_lies_on_a_failed_directory_is_not_waited_for_and_all_else_is():
    """The disk is still the old one: no waiting brings those replicas back into the ISR (KIP-112)."""
    rows = [{**r, "isr": [b for b in r["isr"] if b != 2], "leader": 1} for r in worlds.ROWS[:1]] + list(worlds.ROWS[1:])
    failed = (Directory("/data/0"), Directory("/data/1", STORAGE_ERROR))
    gone = {"directories": failed, "offline_replicas": (TopicPartition("orders", 0),)}
    there = replace(worlds.healthy(rows=rows), brokers=worlds.brokers(b2=gone))
    assert not_back(there, 2, frozenset()) is None
    for change in ({"offline_replicas": None}, {"offline_replicas": ()}, {"directories": failed[:1]}):
        sick = replace(there, brokers=worlds.brokers(b2={**gone, **change}))
        assert not_back(sick, 2, frozenset()) == "not in the ISR of 1 partition yet: orders-0"


def test_with_a_canary_that_went_through_since_it_is_back():
    assert looked(canary(restarted(), (0, 0, SINCE), (1, 0, SINCE))).observed
    assert not looked(canary(restarted(), (0, 0, SINCE)), since=None).observed, "not by a record from before"


@pytest.mark.parametrize(
    ("voter", "leader", "words"),
    [
        (Voter(2, 0, 0, worlds.pod(2, uid="uid-2b")), 1, None),
        (Voter(2, 0, 0, worlds.pod(2, uid="uid-2b")), None, "the quorum's leader is not known"),
        (Voter(2, 9, 60_000, worlds.pod(2, uid="uid-2b")), 1, "not caught up with the quorum's leader yet"),
        (Voter(2, None, None, worlds.pod(2, uid="uid-2b")), 1, "not caught up with the quorum's leader yet"),
        (Voter(2, 0, 0, worlds.pod(2, uid="uid-2b", ready=False)), 1, "Pod kafka-2 is not Ready yet"),
        (Voter(2, 0, 0), 1, "it has no Pod yet"),
    ],
)
def test_a_controller_that_is_no_broker_is_back_when_it_has_caught_up_with_the_quorum(voter, leader, words):
    rows = [worlds.partition("orders", 0, (1, 3))]
    views = tuple(worlds.view(n, rows, members=(1, 3)) for n in (1, 3))
    brokers = tuple(b for b in worlds.brokers() if b.id != 2)
    quorum = Quorum(leader, (Voter(1, 0, 0), voter, Voter(3, 0, 0)))
    snapshot = worlds.healthy(rows=rows, brokers=brokers, views=views, quorum=quorum)
    assert not_back(snapshot, 2, frozenset()) == words


@pytest.mark.parametrize(("mode", "words"), [(Mode.ZOOKEEPER, "3 times 5 s"), (Mode.KRAFT, "by default 30 s")])
def test_the_plan_foresees_that_a_zombie_takes_its_time_to_stop(mode, words):
    zombie = worlds.healthy(mode, brokers=worlds.brokers(b2={"registered": False}))
    assert words in why(zombie, 2)


def stale(*logs, rescues=(), measured=True) -> StepReport:
    """The first broker of the plan is stale, and the plan saves `rescues` of what only it holds before the restart."""
    steps = (PlanStep(name="rescue-records", action=ActionName.RESCUE_RECORDS),)
    restarts = (PLAN.part(Restarts).restarts[0].model_copy(update={"stale": True}), *PLAN.part(Restarts).restarts[1:])
    plan = PLAN.model_copy(update={"steps": steps}).with_parts(Restarts(restarts=restarts), Rescues(rescues=rescues))
    here = worlds.healthy()
    views = tuple(replace(v, diverged=logs if measured else None) if v.broker == 2 else v for v in here.views)
    watch = Watch(0, 3, worlds.NOW, None)
    return assess(STEP, plan, {}, replace(here, views=views), RestartParameters(broker_within=60.0), watch)


def test_records_that_the_plan_does_not_save_are_not_thrown_away():
    """The plan was made when only orders-0 of the stale broker had clients; orders-1 has some since."""
    saved = Rescue(broker=2, topic="orders", partition=0, epoch=5, from_offset=10, to_offset=20)
    report = stale(DivergedLog("orders", 0, 5, 30, 10), DivergedLog("orders", 1, 5, 12, 10), rescues=(saved,))
    assert (report.state, report.intent) == (StepState.DRIFTED, None)
    assert report.message == "only broker 2 holds records of orders-1 (epoch 5), which the plan does not save"


@pytest.mark.parametrize(
    "log", [DivergedLog("orders", 0, 5, 30, 10), DivergedLog("orders", 1, 5, 10, 10)], ids=["saved", "none"]
)
def test_what_the_plan_saves_and_what_holds_nothing_stand_against_no_restart(log):
    saved = Rescue(broker=2, topic="orders", partition=0, epoch=5, from_offset=10, to_offset=20)
    assert stale(log, rescues=(saved,)).state is StepState.ACT


@pytest.mark.parametrize("measured", [True, False])
def test_what_could_not_be_measured_is_not_thrown_away(measured):
    report = stale(DivergedLog("orders", 1, 5, 12, None), measured=measured)
    assert (report.state, report.intent) == (StepState.UNKNOWN, None)
    assert "broker 2" in report.message
