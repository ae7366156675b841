from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kafka_medic.report.units import bytes_text, count, duration, many, milliseconds, moment, rate


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "unknown"), (0, "0 s"), (0.25, "0.2 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.6, "1 min"),
        (61, "1 min 1 s"), (3600, "1 h"), (3661, "1 h 1 min"), (90_000, "1 d 1 h"), (5_698, "1 h 34 min"), (-5, "-5 s"),
    ],
)  # fmt: skip
def test_durations_have_two_units_at_most(seconds, text):
    assert duration(seconds) == text


def test_what_is_not_known_is_unknown():
    assert {count(None), bytes_text(None), rate(None), milliseconds(None), moment(None)} == {"unknown"}


def test_figures_are_for_people():
    assert bytes_text(284_873_483_314) == "284.9 GB"
    assert rate(50_000_000) == "50.0 MB/s"
    assert (milliseconds(340), milliseconds(2100)) == ("340 ms", "2.1 s")
    assert (many(1, "wave"), many(2, "wave"), many(2000, "reply", "replies")) == ("1 wave", "2 waves", "2,000 replies")
    assert moment(datetime(2026, 1, 31, 8, tzinfo=UTC)) == "2026-01-31 08:00:00 UTC"
