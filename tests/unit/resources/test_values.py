"""Durations, digests and phases: the small pure parts."""

from __future__ import annotations

from enum import StrEnum

import pytest

from kafka_medic.resources.digest import canonical_json, sha256_digest
from kafka_medic.resources.durations import format_duration, parse_duration
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.phases import (
    ACTING_PHASES,
    LEGAL_TRANSITIONS,
    TERMINAL_PHASES,
    Phase,
    may_transition,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15s", 15), ("5m", 300), ("1h30m", 5400), ("0s", 0), ("250ms", 0.25), ("1h1m1s1ms", 3661.001), ("90m", 5400)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "s", "5 s", "-5s", "1.5h", "1m1h", "1m1m", "5d", "5s\n", "5S", "9" * 40 + "s"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ResourceError, match=r"spec\.for: is not a duration"):
        parse_duration(text, path="spec.for")


def test_durations_have_bounds() -> None:
    assert parse_duration("1h", maximum=3600) == 3600
    with pytest.raises(ResourceError, match="write a duration from 1s to 1h"):
        parse_duration("1h1ms", minimum=1, maximum=3600)


@pytest.mark.parametrize("text", ["0s", "15s", "1h30m", "250ms", "9999h59m59s999ms"])
def test_durations_survive_a_round_trip(text: str) -> None:
    assert format_duration(parse_duration(text)) == text


class _Word(StrEnum):
    A = "a"


def test_the_canonical_form_has_sorted_keys_no_white_space_and_utf_8() -> None:
    value = {"b": [1, True, None, "é"], "a": {"y": 2, "x": ""}, "_": (_Word.A,)}
    assert canonical_json(value) == '{"_":["a"],"a":{"x":"","y":2},"b":[1,true,null,"é"]}'.encode()


def test_the_digest_is_that_of_sha256sum() -> None:
    # printf '{"a":1}' | sha256sum
    assert sha256_digest({"a": 1}) == "sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"


def test_the_order_of_keys_does_not_count_and_the_order_of_lists_does() -> None:
    assert sha256_digest({"a": 1, "b": 2}) == sha256_digest({"b": 2, "a": 1})
    assert sha256_digest([1, 2]) != sha256_digest([2, 1])


def test_types_count() -> None:
    assert len({sha256_digest(value) for value in (1, "1", True, None, [1], {"1": 1}, [], {})}) == 8


@pytest.mark.parametrize(
    "value", [1.0, {"a": [1.5]}, float("nan"), {1: "a"}, b"a", {"a": {1}}, 2**63, "\ud800", {"\U00010000": 1}, object()]
)
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(ResourceError):
        sha256_digest(value)


def test_the_refusal_names_the_path() -> None:
    with pytest.raises(ResourceError, match=r"moves\[1\].bytes: is a float"):
        sha256_digest({"moves": [{"bytes": 1}, {"bytes": 1.0}]})


def test_each_phase_has_its_row_and_nothing_leaves_an_end() -> None:
    assert set(LEGAL_TRANSITIONS) == set(Phase)
    assert {phase for phase, after in LEGAL_TRANSITIONS.items() if not after} == TERMINAL_PHASES


def test_each_phase_can_be_reached_and_can_end() -> None:
    reached, todo = {Phase.PLANNING}, [Phase.PLANNING]
    while todo:
        new = LEGAL_TRANSITIONS[todo.pop()] - reached
        reached |= new
        todo += new
    assert reached == set(Phase)
    for phase in set(Phase) - TERMINAL_PHASES:
        assert LEGAL_TRANSITIONS[phase] & TERMINAL_PHASES, f"{phase} never ends"


def test_nothing_runs_unapproved_and_nothing_succeeds_unverified() -> None:
    into = {phase: {before for before, after in LEGAL_TRANSITIONS.items() if phase in after} for phase in Phase}
    assert into[Phase.RUNNING] == {Phase.APPROVED, Phase.VERIFYING, Phase.PAUSED, Phase.BLOCKED}
    assert into[Phase.APPROVED] == {Phase.AWAITING_APPROVAL}
    assert into[Phase.SUCCEEDED] == {Phase.VERIFYING}


def test_a_run_that_may_have_acted_is_never_planned_anew() -> None:
    for phase in ACTING_PHASES:
        assert not LEGAL_TRANSITIONS[phase] & {Phase.PLANNING, Phase.AWAITING_APPROVAL, Phase.APPROVED}


def test_transitions_are_looked_up() -> None:
    assert may_transition(None, Phase.PLANNING)
    assert not may_transition(None, Phase.RUNNING)
    assert may_transition(Phase.RUNNING, Phase.RUNNING)
    assert may_transition(Phase.RUNNING, Phase.VERIFYING)
    assert not may_transition(Phase.SUCCEEDED, Phase.RUNNING)
