"""Slopes that one odd day, a new retention or a weekly batch does not turn."""

from __future__ import annotations

import numpy as np
import pytest

from kafka_medic.fleet.robust import DAY, daily, percentile, trend

T = 30
DAYS = np.arange(T)


def slope(values):
    return float(trend(DAYS[: len(values)], np.array([values], dtype=float)).slope[0])


def test_steady_growth_and_an_outlier():
    assert slope(100 + 5 * DAYS) == 5
    odd = 100.0 + 5 * DAYS
    odd[[3, 20]] = 10_000
    assert slope(odd) == pytest.approx(5)
    assert slope(100 - 3 * DAYS) == -3


def test_a_lowered_retention_is_no_negative_growth():
    """A line through all days falls by 30 a day; what the topic does since then is what counts."""
    values = np.where(DAYS < 18, 1000.0 + 5 * DAYS, 400.0 + 5 * DAYS)
    assert np.polyfit(DAYS, values, 1)[0] < -20
    assert slope(values) == pytest.approx(5)
    found = trend(DAYS, values[None])
    assert (found.since[0], found.used[0]) == (18, 12)


def test_replicas_that_moved_in_are_no_growth():
    assert slope(np.where(DAYS < 20, 100.0, 900.0)) == 0


def test_a_weekly_batch_is_no_new_level():
    saw = 1000.0 + 100 * (DAYS % 7)
    assert abs(slope(saw)) < 15
    assert trend(DAYS, saw[None]).since[0] == 0


def test_fewer_than_three_days_have_no_slope_and_missing_days_no_value():
    assert np.isnan(slope([1.0, 2.0]))
    assert np.isnan(slope([np.nan] * 10))
    holes = 7.0 * DAYS
    holes[::2] = np.nan
    assert slope(holes) == pytest.approx(7)


def test_days_are_medians_whoever_observed_and_how_often():
    time = np.array([0, 1, 2, DAY, DAY + 1]) + 20_000 * DAY
    days, values = daily(time, np.array([[1.0, 100.0, 3.0, np.nan, 8.0], [np.nan] * 5]))
    assert days.tolist() == [20_000, 20_001]
    assert values[0].tolist() == [3.0, 8.0]
    assert np.isnan(values[1]).all()
    assert daily(time, np.array([[1.0, 100.0, 3.0, np.nan, 8.0]]), least=True)[1][0].tolist() == [1.0, 8.0]


def test_a_percentile_is_of_the_time_watched():
    values = np.array([[1.0, 50.0, np.nan], [np.nan] * 3])
    assert percentile(values, np.array([95.0, 5.0, 1000.0]), 0.95)[0] == 1.0
    assert percentile(values, np.array([94.0, 6.0, 1000.0]), 0.95)[0] == 50.0
    assert np.isnan(percentile(values, np.ones(3), 0.95)[1])
