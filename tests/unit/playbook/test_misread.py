"""A restarted broker that is back, and has or has not read what the plan says it is to read."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from kafka_medic.cluster.clock import EXACT, Skew
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.playbook.effects import RestartPod
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.playbook.restart.parameters import RestartParameters
from kafka_medic.playbook.restart.restart_step import Watch, assess, context
from kafka_medic.playbook.restart.static_settings import JOURNAL, approved_again
from kafka_medic.resources.remediation_plan import BrokerRestart, Plan, StaticSetting
from kafka_medic.resources.remediation_status import ApprovalRecord, IntentState, JournalEntry
from kafka_medic.resources.vocabulary import Decision
from tests.unit.cluster import worlds

STEP, FACTOR = "restart-brokers", "default.replication.factor"
PLAN = Plan(
    digest="sha256:" + "0" * 64,
    proposed_at=worlds.NOW,
    expires_at=worlds.NOW,
    restarts=tuple(BrokerRestart(broker=n, pod=f"kafka-{n}", pod_uid=f"uid-{n}") for n in (2, 3, 1)),
    static_settings=(StaticSetting(name=FACTOR, before="1", after="3", brokers=(1, 2, 3)),),
)
SEEN = worlds.NOW - timedelta(seconds=10, microseconds=500)


def entry(suffix: str = "", state: IntentState = IntentState.INTENDED, uid: str = "uid-2") -> JournalEntry:
    return JournalEntry(
        id=f"{STEP}/restart-2{suffix}",
        step=STEP,
        kind="RestartPod",
        state=state,
        target_uid=uid,
        intended_at=worlds.NOW - timedelta(seconds=40),
        done_at=None if state is IntentState.INTENDED else SEEN,
    )


def world(read: str | None, uid: str = "uid-2b", **changes) -> Snapshot:
    """Broker 2 is back in another Pod and has read this; the others have not been restarted."""
    pod = worlds.pod(2, uid=uid)
    brokers = tuple(replace(b, pod=pod, **changes) if b.id == 2 else b for b in worlds.brokers())
    told = [("BROKER", str(n), FACTOR, "1", False) for n in (1, 3)]
    told += [("BROKER", "2", FACTOR, read, False)] if read is not None else []
    return worlds.healthy(brokers=brokers, configs=worlds.configs(*told))


def word(who: str, seconds: float, decision: Decision = Decision.APPROVE, counted: bool = True) -> ApprovalRecord:
    """Said so long after it was seen that the broker is as it was; creation timestamps are in whole seconds."""
    at = SEEN.replace(microsecond=0) + timedelta(seconds=seconds)
    uid = f"{who}-{seconds}"
    return ApprovalRecord(name=uid, uid=uid, approver=who, decision=decision, at=at, counted=counted)


FIRST = word("a", -60)


def looked(
    snapshot: Snapshot, *journal: JournalEntry, seen: int = 0, said: tuple[ApprovalRecord, ...] = ()
) -> StepReport:
    watch = Watch(seen, 3, worlds.NOW, SEEN, (FIRST, *said), 1, EXACT)
    entries = {e.id: e for e in (journal or (entry(),))}
    return assess(STEP, PLAN, entries, snapshot, RestartParameters(broker_within=60.0), watch)


VOID = entry(state=IntentState.VOID)


def test_one_that_has_read_it_is_back_like_any_other():
    assert looked(world("3"), seen=2).observed == (f"{STEP}/restart-2",)
    assert looked(world("5"), seen=2).observed, "more than was wanted is its owner's to want"


def test_in_the_second_look_that_says_so_it_has_not_read_it_and_a_person_is_told():
    first = looked(world("1"))
    assert (first.state, first.streak, first.stuck, first.void) == (StepState.WAIT, 1, None, ())
    second = looked(world("1"), seen=1)
    assert (second.state, second.intent, second.void) == (StepState.WAIT, None, (f"{STEP}/restart-2",))
    assert second.stuck is not None
    assert second.stuck.startswith(
        f"broker 2 came back with {FACTOR}=1: its configuration still has the old value. Change it"
    )


def test_what_it_has_read_and_nobody_told_is_neither():
    report = looked(world(None), seen=2)
    assert (report.state, report.streak, report.observed, report.void) == (StepState.WAIT, 0, (), ())
    assert "unknown settings" in report.message
    assert looked(world("nonsense"), seen=2).observed == ()


def test_it_is_not_asked_before_it_is_back():
    assert "does not answer yet" in looked(world("1", reachable=False), seen=1).message


def test_from_then_on_it_waits_for_a_word_that_came_after():
    for said in ((), (word("a", -1),)):
        report = looked(world("1"), VOID, said=said)
        assert (report.state, report.intent, report.void) == (StepState.WAIT, None, ())
        assert report.stuck
        assert report.streak is None, "nobody hurries"


@pytest.mark.parametrize("earlier", [(VOID,), (VOID, entry("-again-1", IntentState.VOID, "uid-2a"))])
def test_with_that_word_the_same_broker_is_restarted_once_more_in_the_pod_that_it_has_by_now(earlier):
    report = looked(world("1"), *earlier, said=tuple(word("a", n) for n in range(1, 1 + len(earlier))))
    assert report.state is StepState.ACT
    assert report.intent == RestartPod(f"{STEP}/restart-2-again-{len(earlier)}", 2, "kafka-2", "uid-2b")


def test_that_one_is_asked_for_again_while_its_pod_is_there_and_never_twice():
    again = entry("-again-1", uid="uid-2b")
    report = looked(world("1"), VOID, again)
    assert report.intent == RestartPod(f"{STEP}/restart-2-again-1", 2, "kafka-2", "uid-2b")
    assert looked(world("1", uid="uid-2c"), VOID, again, seen=1).void == (f"{STEP}/restart-2-again-1",)
    assert looked(world("3", uid="uid-2c"), VOID, again, seen=2).observed == (f"{STEP}/restart-2-again-1",)


def test_restarted_by_hand_it_is_done_once_it_has_been_seen_so():
    away = looked(world("1", reachable=False), VOID)
    assert "came back with the old configuration, and is down again: it does not answer yet" in (away.stuck or "")
    assert looked(world("3"), VOID).streak == 1
    done = looked(world("3"), VOID, seen=2)
    assert done.observed == (f"{STEP}/restart-2",)
    assert done.intent is not None
    assert done.intent.broker == 3, "and the next one is due"


def test_a_full_journal_has_no_room_for_one_more():
    others = [entry(f"-x{n}", IntentState.DONE) for n in range(JOURNAL - 1)]
    assert looked(world("1"), VOID, *others, said=(word("a", 1),)).intent is None


def test_it_goes_before_the_others_though_it_is_the_controller_by_then():
    journal = {VOID.id: VOID}
    assert context(STEP, PLAN, journal, 2, worlds.NOW, replaces_controller=False).remaining == frozenset()
    assert context(STEP, PLAN, {}, 2, worlds.NOW, replaces_controller=False).remaining == {1, 3}


@pytest.mark.parametrize(
    ("words", "required", "so"),
    [
        ([], 1, False),
        ([FIRST], 1, False),
        ([FIRST, word("a", 1)], 1, True),
        ([FIRST, word("a", 0)], 1, True),  # in the second in which it was seen
        ([FIRST, word("a", -1)], 1, False),  # before it was seen
        ([word("a", 5)], 1, False),  # the first word, of a server whose clock is ahead
        ([FIRST, word("a", 1)], 2, False),
        ([FIRST, word("a", 1), word("b", 1)], 2, False),
        ([FIRST, word("b", -59), word("a", 1), word("b", 1)], 2, True),
        ([FIRST, word("a", 1, counted=False)], 1, False),
        ([FIRST, word("a", 1, Decision.REJECT)], 1, False),
        ([FIRST, word("a", 1)], 0, True),
    ],
)
def test_as_many_as_a_plan_needs_have_to_say_so_since(words, required, so):
    assert approved_again([VOID], words, required, EXACT) is so


def test_one_word_is_for_one_restart():
    void = [VOID, entry("-again-1", IntentState.VOID)]
    assert not approved_again(void, [FIRST, word("a", 3)], 1, EXACT)
    assert approved_again(void, [FIRST, word("a", -3), word("a", 3)], 1, EXACT)


@pytest.mark.parametrize("ahead", [-60, -2, 0, 2, 60])
def test_the_clock_that_dates_words_need_not_be_the_operators(ahead):
    """What was said before and after it was seen, by an API server whose clock is so far ahead, known to a second."""
    skew, first = Skew(ahead - 0.5, ahead + 0.5), word("a", ahead - 120)
    assert approved_again([VOID], [first, word("a", ahead + 2)], 1, skew)
    assert not approved_again([VOID], [first, word("a", ahead - 2)], 1, skew)
    assert not approved_again([VOID], [first, word("a", ahead + 2)], 1, None)
