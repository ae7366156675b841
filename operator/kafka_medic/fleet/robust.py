"""Statistics that one odd day does not move: medians of days, level shifts, slopes, percentiles of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["DAY", "Trend", "daily", "percentile", "trend"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DAY = 86_400_000_000
"""Microseconds."""
LEAST_DAYS = 3
"""Below this there is no slope: two days are one difference."""
NEAR, FAR = 3, 7
"""Days on each side that make a level, and days on each side that must not reach the other: a weekly batch is none."""
SHIFT = 0.25
"""Of the larger level: what a new level differs by at least."""
AT_ONCE = 0.6
"""Of the difference: what comes from one day to the next. Steady growth brings a third of it."""
CELLS = 4_000_000
"""Pairwise slopes that are held at a time."""


@dataclass(frozen=True, eq=False)
class Trend:
    """Of K series. slope: float64[K] per day, NaN where not known. since: int64[K] the day (number) from which it was
    taken, after the last level shift. used: int64[K] days with a value since then."""

    slope: Floats
    since: Ints
    used: Ints


def daily(time: Ints, values: Floats, *, least: bool = False) -> tuple[Ints, Floats]:
    """(int64[D] the days in UTC, as numbers since 1970, ascending; float64[K, D] the median of each, or its least).

    time: int64[S] microseconds. values: float64[K, S], NaN unknown.
    """
    number = time // DAY
    days = np.unique(number)
    found = np.full((len(values), len(days)), np.nan)
    for at, day in enumerate(days.tolist()):
        part = np.sort(values[:, number == day], axis=1)  # NaN last
        found[:, at] = part[:, 0] if least and part.shape[1] else _middle(part)
    return days, found


def trend(days: Ints, values: Floats) -> Trend:
    """Growth of each series per day: the median of the slopes between all pairs of days (Theil, 1950; Sen, 1968).

    A level shift (retention was lowered, replicas were moved) is no growth, so only the days after the last one count.
    days: int64[D]. values: float64[K, D], NaN unknown.
    """
    start = _last_shift(values)
    known = ~np.isnan(values) & (np.arange(len(days)) >= start[:, None])
    used = known.sum(axis=1)
    slope = np.full(len(values), np.nan)
    first, second = np.triu_indices(len(days), 1)
    apart = (days[second] - days[first]).astype(np.float64)
    step = max(CELLS // max(len(first), 1), 1)
    for begin in range(0, len(values), step):
        rows = slice(begin, begin + step)
        y = np.where(known[rows], values[rows], np.nan)
        slope[rows] = _middle(np.sort((y[:, second] - y[:, first]) / apart, axis=1))
    slope[used < LEAST_DAYS] = np.nan
    since = days[np.minimum(start, len(days) - 1)] if len(days) else np.zeros(len(values), dtype=np.int64)
    return Trend(slope, since, used.astype(np.int64))


def percentile(values: Floats, weight: Floats, share: float) -> Floats:
    """float64[K]: what each series did not exceed for `share` of its known time; NaN where nothing is known.

    values: float64[K, I], NaN unknown. weight: float64[I] seconds.
    """
    if not values.size:
        return np.full(len(values), np.nan)
    order = np.argsort(values, axis=1)
    held = np.where(np.isnan(values), 0.0, weight)
    total = np.cumsum(np.take_along_axis(held, order, axis=1), axis=1)
    wanted = total[:, -1:] * share
    at = (total >= wanted * (1 - 1e-12)).argmax(axis=1)
    found = np.take_along_axis(np.take_along_axis(values, order, axis=1), at[:, None], axis=1)[:, 0]
    return np.where(total[:, -1] > 0, found, np.nan)


def _middle(ordered: Floats) -> Floats:
    """float64[K] medians of rows that are sorted, NaN last."""
    count = (~np.isnan(ordered)).sum(axis=1)
    if not ordered.shape[1]:
        return np.full(len(ordered), np.nan)
    low, high = np.maximum(count - 1, 0) // 2, np.maximum(count, 1) // 2
    high = np.minimum(high, np.maximum(count - 1, 0))
    pick: Any = [np.take_along_axis(ordered, at[:, None], axis=1)[:, 0] for at in (low, high)]
    return np.asarray(np.where(count > 0, (pick[0] + pick[1]) / 2, np.nan))


def _last_shift(values: Floats) -> Ints:
    """int64[K] the column in which each series' present level begins."""
    count = values.shape[1]
    start = np.zeros(len(values), dtype=np.int64)
    for at in range(2, count - 1):
        before, after = values[:, max(at - NEAR, 0) : at], values[:, at : at + NEAR]
        old, new = _middle(np.sort(before, axis=1)), _middle(np.sort(after, axis=1))
        jump = values[:, at] - values[:, at - 1]
        change = new - old
        was, held = values[:, max(at - FAR, 0) : at], values[:, at : at + FAR]
        with np.errstate(invalid="ignore"):
            apart = np.where(
                change < 0,
                np.fmax.reduce(held, axis=1) < np.fmin.reduce(was, axis=1),
                np.fmin.reduce(held, axis=1) > np.fmax.reduce(was, axis=1),
            )
            large = np.abs(change) > SHIFT * np.fmax(np.abs(old), np.abs(new))
            sudden = (np.abs(jump) > AT_ONCE * np.abs(change)) & (np.sign(jump) == np.sign(change))
        start[apart & large & sudden] = at
    return start
