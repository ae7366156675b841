"""report.png: what report.html shows, in one picture, to put into a ticket or to send around."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kafka_medic.plan.files.report import AFTER, BEFORE
from kafka_medic.plan.files.report_data import Chart, ReportData

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PngError", "can_draw", "render_png"]

WIDTH, DPI = 12.0, 100
LABELS = 40
"""Names on an axis, at most."""
BOUND = "#cf222e"
Float64s = npt.NDArray[np.float64]


class PngError(Exception):
    """No picture can be drawn: what is missing, and the way out."""


def can_draw() -> None:
    """Raises PngError where matplotlib, an optional part of the package, is not installed."""
    try:
        import matplotlib.figure  # noqa: F401, PLC0415 - an optional part of the command
    except ImportError:
        raise PngError("--png: matplotlib is not installed: pip install 'kafka-medic[png]'") from None


def render_png(data: ReportData) -> bytes:
    """Replicas and preferred leaders per live broker and per rack before and after, waves over time, and the topics
    that are spread worst. No window is opened, and nothing global of matplotlib's is touched. Raises PngError."""
    can_draw()
    from matplotlib.figure import Figure  # noqa: PLC0415

    charts, topics = data.charts(), data.topics or ()
    with_racks, with_waves = any(per_rack is not None for _, per_rack in charts), bool(len(data.partitions))
    rows = 2 + with_racks + with_waves + bool(topics)
    tall = [2.4] * (rows - bool(topics)) + ([0.7 + 0.22 * len(topics)] if topics else [])
    figure = Figure(figsize=(WIDTH, sum(tall) + 1.2), dpi=DPI, layout="constrained")
    figure.suptitle(_title(data), parse_math=False, wrap=True, fontsize=11)
    grid = figure.add_gridspec(rows, 2, height_ratios=tall)
    for row, (per_broker, per_rack) in enumerate(charts):
        _pairs(figure.add_subplot(grid[row, :]), per_broker)
        if per_rack is not None:
            _pairs(figure.add_subplot(grid[2, row]), per_rack)
    if with_waves:
        _waves(figure.add_subplot(grid[2 + with_racks, :]), data)
    if topics:
        _topics(figure.add_subplot(grid[-1, :]), data)
    out = BytesIO()
    figure.savefig(out, format="png", metadata={"Software": "kafka-medic"})
    return out.getvalue()


def _title(data: ReportData) -> str:
    summary = data.summary
    return (
        f"{data.title[:1].upper() + data.title[1:]}: {summary.partitions:,} partitions, {summary.moves:,} replicas "
        f"copied (at least {summary.lower_bound_moves:,}), {summary.rack_violations:,} on fewer racks than they could "
        f"be (at least {summary.rack_violations_bound:,})"
    )


def _pairs(axes: Axes, chart: Chart) -> None:
    """Bars before and after; with hundreds of them their outline, which can still be read."""
    labels = chart.labels
    place = np.arange(len(labels))
    if len(labels) > 3 * LABELS:
        edges = np.arange(len(labels) + 1) - 0.5
        axes.stairs(chart.before, edges, fill=True, color=BEFORE, alpha=0.6, label="before")
        axes.stairs(chart.after, edges, color=AFTER, linewidth=1.2, label="after")
    else:
        axes.bar(place - 0.21, chart.before, 0.4, color=BEFORE, label="before")
        axes.bar(place + 0.21, chart.after, 0.4, color=AFTER, label="after")
    if chart.bound is not None:
        axes.axhline(chart.bound, color=BOUND, linestyle="--", linewidth=1, label=f"bound {chart.bound:,}")
    step = -(-len(labels) // LABELS) or 1
    axes.set_xticks(place[::step], labels=labels[::step], parse_math=False, fontsize=8)
    axes.set_xlim(-0.6, max(len(labels) - 0.4, 0.6))
    _finish(axes, chart.title)


def _waves(axes: Axes, data: ReportData) -> None:
    edges, axis = _wave_edges(data)
    axes.stairs(data.partitions, edges, fill=True, color=AFTER, alpha=0.5, label="partitions in the wave")
    if len(data.partitions) <= 3 * LABELS:
        axes.vlines(edges[1:-1], 0, np.minimum(data.partitions[:-1], data.partitions[1:]), color="w", linewidth=0.8)
    if data.moved is not None and (total := int(data.moved.sum())):
        done = np.concatenate(([0.0], np.cumsum(data.moved) / total * 100))
        other = axes.twinx()
        other.plot(edges, done, color=BOUND, linewidth=1.2)
        other.set_ylabel("% of the bytes copied", fontsize=8, color=BOUND)
        other.set_ylim(0, 105)
        other.tick_params(labelsize=8)
    axes.set_xlabel(axis, fontsize=8)
    axes.set_xlim(0, edges[-1])
    _finish(axes, f"Waves over time: {len(data.partitions):,}")


def _wave_edges(data: ReportData) -> tuple[Float64s, str]:
    """(where each wave begins, and where the last ends; what the axis stands for)."""
    width = np.ones(len(data.partitions)) if data.timed is None else data.timed
    edges = np.concatenate(([0.0], np.cumsum(width.astype(np.float64))))
    if data.timed is None:
        return edges, "wave"
    if not data.throttle:
        return edges, "waves one after another, each as wide as its busiest broker has bytes"
    hours = edges[-1] / data.throttle >= 7200
    unit = "hours" if hours else "minutes"
    return edges / data.throttle / (3600 if hours else 60), f"{unit} at {data.throttle:,} bytes per second and broker"


def _topics(axes: Axes, data: ReportData) -> None:
    topics = data.topics or ()
    place = np.arange(len(topics))
    axes.barh(place - 0.21, [topic.before for topic in topics], 0.4, color=BEFORE, label="before")
    axes.barh(place + 0.21, [topic.after for topic in topics], 0.4, color=AFTER, label="after")
    axes.plot([topic.bound for topic in topics], place, "|", color=BOUND, markersize=12, label="at least")
    named = [t.topic if len(t.topic) <= 40 else f"{t.topic[:39]}…" for t in topics]
    axes.set_yticks(place, labels=named, parse_math=False, fontsize=8)
    axes.set_ylim(len(topics) - 0.4, -0.6)
    _finish(axes, "Most replicas of a topic on one broker: the topics that are spread worst")


def _finish(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=10, loc="left")
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False)
