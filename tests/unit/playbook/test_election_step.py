"""How large the next batch of elections is, from what the last ones took."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kafka_medic.playbook.leadership.election_step import MAX_BATCHES, _places, _ranges, batch_size
from kafka_medic.playbook.leadership.parameters import ElectParameters
from kafka_medic.resources.remediation_plan import MAX_ELECTED_AT_ONCE
from kafka_medic.resources.remediation_status import IntentState, JournalEntry, saved_from

START = datetime(2026, 1, 1, tzinfo=UTC)
BOUND = 10.0


def batch(seconds: float | None, places: str = "0") -> JournalEntry:
    return JournalEntry(
        id="elect/elect-0",
        step="elect",
        kind="ElectPreferred",
        state=IntentState.INTENDED if seconds is None else IntentState.DONE,
        intended_at=START,
        done_at=None if seconds is None else START + timedelta(seconds=seconds),
        saved=saved_from({"places": places}),
    )


@pytest.mark.parametrize(
    ("took", "expected"),
    [
        ([], 50),
        ([1], 100),
        ([1, 1, 1, 1, 1], 400),
        ([3], 50),
        ([6], 25),
        ([6] * 20, 1),
        ([6, 1], 50),
        ([None], 50),
    ],
)
def test_quick_batches_grow_and_slow_ones_shrink(took, expected):
    settings = ElectParameters(batch_size=50, leaderless_within=BOUND)
    assert batch_size([batch(t) for t in took], settings, left=100) == expected


def test_the_journal_has_room_for_all_and_no_request_is_too_large():
    settings = ElectParameters(batch_size=1, leaderless_within=BOUND)
    slow: list[JournalEntry] = []
    left = 20_000
    while left > 0:
        size = batch_size(slow, settings, left)
        assert 1 <= size <= MAX_ELECTED_AT_ONCE
        left -= size
        slow.append(batch(9))
    assert len(slow) <= MAX_BATCHES + 4
    assert batch_size([], ElectParameters(batch_size=9999), 10**6) == MAX_ELECTED_AT_ONCE


@pytest.mark.parametrize(
    ("places", "text"), [([0], "0"), ([0, 1, 2], "0-2"), ([0, 2, 3, 9], "0,2-3,9"), ([7, 8], "7-8")]
)
def test_places_are_written_short_and_read_back(places, text):
    assert _ranges(places) == text
    assert _places(batch(1, text)) == frozenset(places)
