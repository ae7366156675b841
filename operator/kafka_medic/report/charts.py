"""Charts as the geometry that the templates draw in SVG. Texts stand beside it in HTML, as phones shrink a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from kafka_medic.report.model import Bars, Spread, Steps

__all__ = ["HEIGHT", "ROWS", "WIDTH", "BarChart", "PairRow", "StepChart", "TopicBars", "bars", "spread", "steps"]

WIDTH, HEIGHT = 1000, 200
ROWS = 16
"""Labels that get a row of their own, with their figures; more become columns of one picture."""
SINGLE = 150
"""Columns that are drawn as bars; more become an area and a line."""
TICKS = 5


@dataclass(frozen=True, slots=True)
class PairRow:
    """Widths are in percent of the longest bar."""

    label: str
    before: int
    after: int
    wide_before: str
    wide_after: str


@dataclass(frozen=True, slots=True)
class BarChart:
    """`rows`, or paths of the columns before and after. `bound`: its place, from the left of a row in percent, or from
    the top of the picture; empty where there is none."""

    rows: Sequence[PairRow]
    before: str
    after: str
    outline: bool
    bound: str
    top: int
    ticks: Sequence[str]
    words: str


@dataclass(frozen=True, slots=True)
class StepChart:
    area: str
    top: int
    words: str


@dataclass(frozen=True, slots=True)
class TopicBars:
    before: str
    after: str
    bound: str
    words: str


def bars(chart: Bars) -> BarChart:
    """Rows for few labels, columns for many."""
    pairs = list(zip(chart.labels, chart.before, chart.after, strict=True))
    top = max([1, chart.bound or 0, *chart.before, *chart.after])
    words = _words(chart)
    if len(pairs) <= ROWS:
        rows = [PairRow(label, old, new, _share(old, top), _share(new, top)) for label, old, new in pairs]
        bound = "" if chart.bound is None else _share(chart.bound, top)
        return BarChart(rows, "", "", outline=False, bound=bound, top=top, ticks=(), words=words)
    outline = len(pairs) > SINGLE
    slot = WIDTH / len(pairs)
    bound = "" if chart.bound is None else f"{_height(chart.bound, top):.1f}"
    if outline:
        before = f"{_stairs(chart.before, slot, top)}V{HEIGHT}Z"
        after = _stairs(chart.after, slot, top)
    else:
        before = _columns(chart.before, slot * 0.08, slot * 0.4, slot, top)
        after = _columns(chart.after, slot * 0.52, slot * 0.4, slot, top)
    places = [round(at * (len(pairs) - 1) / (TICKS - 1)) for at in range(TICKS)]
    ticks = [chart.labels[at] for at in places]
    return BarChart((), before, after, outline=outline, bound=bound, top=top, ticks=ticks, words=words)


def steps(chart: Steps) -> StepChart:
    """One area; each piece as wide as it lasts."""
    end = list(accumulate(chart.width))
    whole, top = (end[-1] if end else 0.0) or 1.0, max([1, *chart.height])
    path, left = [f"M0 {HEIGHT}"], 0.0
    for right, high in zip(end, chart.height, strict=True):
        x = right / whole * WIDTH
        gap = min(1.5, (x - left) * 0.3)
        path.append(f"H{left:.1f}V{_height(high, top):.1f}H{x - gap:.1f}V{HEIGHT}")
        left = x
    return StepChart("".join(path) + "Z", top, f"{chart.title}. {chart.what}.")


def spread(of: Spread) -> TopicBars:
    top = max(of.top, 1)
    words = f"before {of.before:,}, after {of.after:,}, at least {of.bound:,}"
    return TopicBars(_share(of.before, top), _share(of.after, top), _share(of.bound, top), words)


def _words(chart: Bars) -> str:
    """What the picture shows, for those who do not see it."""
    if not chart.before:
        return f"{chart.title}: nothing."
    text = (
        f"{chart.title}: before {min(chart.before):,} to {max(chart.before):,} {chart.what} each, "
        f"after {min(chart.after):,} to {max(chart.after):,}"
    )
    return f"{text}; bound {chart.bound:,}." if chart.bound is not None else f"{text}."


def _share(value: int, top: int) -> str:
    return f"{value / top * 100:.1f}"


def _height(value: int, top: int) -> float:
    """The place of a value, from the top."""
    return HEIGHT - value / top * (HEIGHT - 4)


def _columns(values: Sequence[int], offset: float, wide: float, slot: float, top: int) -> str:
    return "".join(
        f"M{at * slot + offset:.1f} {HEIGHT}V{_height(value, top):.1f}h{wide:.1f}V{HEIGHT}Z"
        for at, value in enumerate(values)
        if value
    )


def _stairs(values: Sequence[int], slot: float, top: int) -> str:
    return f"M0 {HEIGHT}" + "".join(
        f"V{_height(value, top):.1f}H{(at + 1) * slot:.1f}" for at, value in enumerate(values)
    )
