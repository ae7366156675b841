"""How far another machine's clock is ahead, by the dates of its answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kafka_medic.cluster.clock import EXACT, Skew, measured, remark

SENT = datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)


def date(moment: datetime) -> str:
    return moment.strftime("%a, %d %b %Y %H:%M:%S GMT")


@pytest.mark.parametrize("ahead", [-3600.0, -60.25, -0.4, 0.0, 0.7, 60.5, 3600.0])
@pytest.mark.parametrize("trip", [0.0, 0.02, 4.0])
@pytest.mark.parametrize("when", [0.0, 0.5, 1.0], ids=["at once", "half-way", "at last"])
def test_the_true_difference_lies_within_what_was_measured(ahead, trip, when):
    answered = SENT + timedelta(seconds=trip)
    dated = SENT + timedelta(seconds=trip * when + ahead)
    skew = measured(date(dated), SENT, answered)
    assert skew is not None
    assert skew.least <= ahead <= skew.most
    assert skew.width == pytest.approx(trip + 1.0)


@pytest.mark.parametrize("text", [None, "", "yesterday", "Sun, 99 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37"])
def test_an_answer_without_a_date_measures_nothing(text):
    assert measured(text, SENT, SENT) is None
    assert measured(date(SENT), SENT, SENT - timedelta(seconds=1)) is None, "our own clock was set back meanwhile"


def test_a_time_of_the_other_clock_was_no_later_than_this_by_ours():
    skew, theirs = Skew(59.5, 60.5), SENT.replace(microsecond=0)
    for true in (59.5, 60.0, 60.5):
        for cut in (0.0, 0.999):
            assert theirs + timedelta(seconds=cut - true) <= skew.latest(theirs)
    assert EXACT.latest(theirs) == theirs + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("skew", "said"),
    [
        (None, None),
        (EXACT, None),
        (Skew(4.0, 5.0), None),
        (Skew(-5.0, -4.0), None),
        (Skew(-3.0, 7.0), None),  # a slow answer proves nothing
        (Skew(59.6, 60.6), "about 60 s behind the API server's (limit 5 s)"),
        (Skew(-61.0, -60.0), "about 60 s ahead of the API server's"),
    ],
)
def test_what_is_surely_beyond_the_bound_is_named(skew, said):
    assert remark(skew) is None if said is None else said in remark(skew)


def test_measurements_that_contradict_each_other():
    assert Skew(0.0, 1.0).agrees(Skew(1.0, 2.0))
    assert not Skew(0.0, 1.0).agrees(Skew(59.0, 60.0))
