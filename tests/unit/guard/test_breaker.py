"""The circuit breaker: every order of ends, a cure that did not cure, and the two ways to try again."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kafka_medic.guard.breaker import RELAPSE, BreakerState, breaker
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.resources.kafkacluster_remediation import Breaker
from kafka_medic.resources.phases import ACTING_PHASES, TERMINAL_PHASES, Phase
from kafka_medic.resources.remediation_plan import Plan

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CLOSED, OPEN, HALF = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN


def plan(**touches) -> Plan:
    base = {"digest": "sha256:" + "0" * 64, "proposedAt": NOW, "expiresAt": NOW}
    return Plan.model_validate(base | touches, by_alias=True, by_name=False)


def moves(*partitions: int) -> Plan:
    return plan(
        changes=[{"topic": "orders", "partition": n, "replicasBefore": [1], "replicas": [1, 2]} for n in partitions]
    )


def run(name, ago, phase=Phase.SUCCEEDED, *, cause=None, created=None, touches=None, playbook="p"):
    """One that ended so many minutes ago; `created` minutes ago, an hour before its end if nothing is said."""
    end = NOW - timedelta(minutes=ago) if phase in TERMINAL_PHASES else None
    made = NOW - timedelta(minutes=created if created is not None else ago + 60)
    return OtherRun(name, phase, made, end, made, playbook, cause, touches)


def state(runs, now=NOW, **policy):
    return breaker(Breaker.model_validate(policy), runs, now).state


ENDS = (Phase.SUCCEEDED, Phase.FAILED, Phase.ABORTED, Phase.SUPERSEDED)


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_every_order_of_ends(failures):
    """Open is: so many failures since the last success, whatever people stopped in between."""
    for length in range(6):
        for ends in itertools.product(ENDS, repeat=length):
            word = "".join("F" if e is Phase.FAILED else "S" if e is Phase.SUCCEEDED else "" for e in ends)
            row = len(word) - len(word.rstrip("F"))
            runs = [run(f"r{i}", 10 * (length - i), end) for i, end in enumerate(ends)]
            expected = OPEN if row >= failures else CLOSED
            assert state(runs, failures=failures) is expected, word
            assert state(runs[::-1], failures=failures) is expected, "in whatever order they are read"


def test_one_that_never_began_is_no_failure():
    ended = NOW - timedelta(minutes=1)
    assert state([OtherRun(str(n), Phase.FAILED, None, ended) for n in range(5)]) is CLOSED


@pytest.mark.parametrize("phase", sorted(ACTING_PHASES))
def test_one_that_goes_on_says_nothing_yet(phase):
    bad = [run("a", 30, Phase.FAILED), run("b", 20, Phase.FAILED)]
    assert state([*bad, run("c", 0, phase)]) is CLOSED
    assert state([*bad, run("c", 10, Phase.FAILED), run("d", 0, phase)]) is OPEN


FAILED = [run(str(n), ago, Phase.FAILED) for n, ago in enumerate((30, 20, 10))]


def test_after_a_time_one_is_tried_and_its_end_decides():
    end = NOW - timedelta(minutes=10)
    almost, due = end + timedelta(hours=24, seconds=-1), end + timedelta(hours=24)
    assert state(FAILED, almost) is OPEN
    assert state(FAILED, due) is HALF
    tried = due + timedelta(minutes=5)
    failed = OtherRun("trial", Phase.FAILED, due, tried)
    assert state([*FAILED, failed], tried) is OPEN, "as if nothing had been forgiven"
    assert state([*FAILED, failed], tried + timedelta(hours=24)) is HALF
    assert state([*FAILED, OtherRun("trial", Phase.SUCCEEDED, due, tried)], tried) is CLOSED
    stopped = OtherRun("trial", Phase.ABORTED, due, tried)
    assert state([*FAILED, stopped], tried) is HALF, "who stopped the trial may have another"


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (-20, OPEN),  # said before the last failure: it did not know of it
        (-10, HALF),
        (-5, HALF),
        (0, HALF),
        (1, OPEN),  # not yet said
        (10**6, OPEN),  # nobody gives their word for all time to come
    ],
)
def test_at_a_persons_word_one_is_tried_once(minutes, expected):
    at = (NOW + timedelta(minutes=minutes)).isoformat()
    assert state(FAILED, tryAgainAt=at) is expected
    again = OtherRun("trial", Phase.FAILED, NOW, NOW + timedelta(minutes=2))
    assert state([*FAILED, again], NOW + timedelta(minutes=3), tryAgainAt=at) is (HALF if minutes == 3 else OPEN)


@pytest.mark.parametrize(
    ("cause", "created", "touches", "playbook", "relapse"),
    [
        ("f", 9, moves(0), "p", True),
        ("f", 10, moves(1, 0), "p", True),  # in the very second
        ("f", 9, moves(2), "p", False),  # goes on where the last one had no more room
        ("f", 9, None, "p", False),  # there is nothing to do, or no plan yet
        ("g", 9, moves(0), "p", False),
        (None, 9, moves(0), "p", False),  # a person asks as often as they like
        ("f", 9, moves(0), "q", False),
        ("f", 71, moves(0), "p", False),  # was there before
    ],
)
def test_a_cure_that_is_proposed_again_did_not_cure(cause, created, touches, playbook, relapse):
    first = run("a", 10, cause="f", touches=moves(0, 1))
    second = run("b", 0, Phase.AWAITING_APPROVAL, cause=cause, created=created, touches=touches, playbook=playbook)
    assert state([first, second], failures=1) is (OPEN if relapse else CLOSED)


@pytest.mark.parametrize("ahead", [-60, 0, 60])
def test_the_api_servers_clock_need_not_be_the_operators(ahead):
    """Creations are dated by the one, ends by the other. It is proposed again five seconds after its end."""
    skew = timedelta(seconds=ahead)
    first = run("a", 10, cause="f", touches=moves(0))
    first = replace(first, created_at=first.created_at + skew)
    created = first.finished_at + timedelta(seconds=5) + skew
    second = OtherRun("b", Phase.AWAITING_APPROVAL, None, None, created, "p", "f", moves(0))
    assert state([first, second], failures=1) is OPEN


def test_long_after_it_is_another_illness():
    late = timedelta(minutes=10) + RELAPSE
    first = run("a", late.total_seconds() / 60, cause="f", touches=moves(0))
    for minutes, expected in ((10, OPEN), (9, CLOSED)):
        second = run("b", 0, Phase.APPROVED, cause="f", created=minutes, touches=moves(0))
        assert state([first, second], failures=1) is expected


@pytest.mark.parametrize(
    ("before", "after", "relapse"),
    [
        (plan(restarts=[{"broker": 1, "pod": "k-1", "podUid": "a"}]),
         plan(restarts=[{"broker": 1, "pod": "k-1", "podUid": "b"}]), True),
        (plan(restarts=[{"broker": 1, "pod": "k-1", "podUid": "a"}]),
         plan(restarts=[{"broker": 2, "pod": "k-2", "podUid": "b"}]), False),
        (plan(elections=[{"broker": 1, "topic": "t", "partitions": [0, 1]}]),
         plan(elections=[{"broker": 1, "topic": "t", "partitions": [1]}]), True),
        (plan(elections=[{"broker": 1, "topic": "t", "partitions": [0, 1]}]),
         plan(elections=[{"broker": 1, "topic": "u", "partitions": [0, 1]}]), False),
        (plan(reorders=[{"topic": "t", "partition": 3, "replicasBefore": [1, 2], "replicas": [2, 1]}]),
         plan(reorders=[{"topic": "t", "partition": 3, "replicasBefore": [1, 2], "replicas": [2, 1]}]), True),
    ],
)  # fmt: skip
def test_what_is_touched_again(before, after, relapse):
    first = run("a", 10, cause="f", touches=before)
    second = run("b", 0, Phase.AWAITING_APPROVAL, cause="f", created=9, touches=after)
    assert state([first, second], failures=1) is (OPEN if relapse else CLOSED)


def exchanged(before, after):
    """Copies first, then removals."""
    both = [*before, *(b for b in after if b not in before)]
    one = {"topic": "t", "partition": 0}
    return plan(
        changes=[one | {"replicasBefore": before, "replicas": both}],
        removals=[one | {"replicasBefore": both, "replicas": after}],
    )


@pytest.mark.parametrize(
    ("after", "relapse"),
    [
        (exchanged([3, 1, 2], [3, 4, 2]), False),  # goes on with another replica of the partition
        (exchanged([0, 1, 2], [3, 1, 2]), True),  # it was undone
        (exchanged([0, 1, 2], [4, 1, 2]), True),
        (exchanged([3, 1, 2], [0, 1, 2]), True),  # it goes back
        (exchanged([3, 1, 2], [4, 1, 2]), True),
    ],
)
def test_a_move_is_made_again_where_the_same_replica_moves(after, relapse):
    first = run("a", 10, cause="f", touches=exchanged([0, 1, 2], [3, 1, 2]))
    second = run("b", 0, Phase.AWAITING_APPROVAL, cause="f", created=9, touches=after)
    assert state([first, second], failures=1) is (OPEN if relapse else CLOSED)


def test_what_shows_the_relapse_may_itself_have_been_dropped():
    """Otherwise dropping it would close the breaker, and it would be proposed and dropped for ever."""
    chain = [run(f"r{n}", 50 - 10 * n, cause="f", created=55 - 10 * n, touches=moves(0)) for n in range(3)]
    for phase in (Phase.AWAITING_APPROVAL, Phase.SUPERSEDED):
        last = run("last", 25, phase, cause="f", created=25, touches=moves(0))
        last = OtherRun(last.name, phase, None, last.finished_at, last.created_at, "p", "f", moves(0))
        assert state([*chain, last]) is OPEN
    assert state(chain) is CLOSED, "the third one may have cured"


def test_it_says_which_runs_until_when_and_what_to_do():
    told = breaker(Breaker(), FAILED, NOW).describe()
    assert "(0, 1, 2)" in told
    assert "open until 2026-01-02 11:50:00 UTC" in told
    assert "tryAgainAt" in told


def minimums(*topics: str) -> Plan:
    changes = [
        {"resourceType": "TOPIC", "resourceName": t, "name": "min.insync.replicas", "after": "2"} for t in topics
    ]
    return plan(configChanges=changes)


@pytest.mark.parametrize(("cause", "playbook"), [("F", "p"), ("MinInsyncReplicasLow", "raise-min-insync-replicas")])
def test_a_setting_that_has_to_be_set_again_was_undone_whatever_the_finding_is_called(cause, playbook):
    first = run("first", 30, cause="F", touches=minimums("orders", "payments"))
    again = run(
        "again", 0, Phase.AWAITING_APPROVAL, cause=cause, playbook=playbook, created=20, touches=minimums("orders")
    )
    other = run(
        "other", 0, Phase.AWAITING_APPROVAL, cause=cause, playbook=playbook, created=20, touches=minimums("logs")
    )
    asked = replace(again, cause=None)
    assert state([first, again], failures=1) is OPEN
    assert state([first, other], failures=1) is CLOSED
    assert state([first, asked], failures=1) is CLOSED, "a person's wish says nothing of it"
    late = replace(again, created_at=first.finished_at + RELAPSE + timedelta(seconds=1))
    assert state([first, late], failures=1) is CLOSED


def test_a_plan_that_was_made_before_the_setting_was_set_says_nothing_of_it():
    first = run("first", 30, cause="F", touches=minimums("orders", "payments"))
    before = minimums("orders", "logs").model_copy(update={"proposed_at": NOW - timedelta(minutes=40)})
    beside = run(
        "beside", 35, Phase.REJECTED, cause="G", playbook="raise-min-insync-replicas", created=45, touches=before
    )
    assert state([first, beside], failures=1) is CLOSED
    after = before.model_copy(update={"proposed_at": NOW - timedelta(minutes=20)})
    assert state([first, replace(beside, plan=after)], failures=1) is OPEN, "planned again"
