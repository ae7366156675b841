"""report.png: what report.html shows, in one picture, to put into a ticket or to send around."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kafka_medic.plan.files.report import headline
from kafka_medic.plan.files.report_data import Chart, ReportData
from kafka_medic.report.units import duration, many, moment, rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["AFTER", "BEFORE", "PngError", "can_draw", "render_png"]

WIDTH, DPI = 12.0, 100
LABELS = 40
"""Names on an axis, at most."""
BEFORE, AFTER, BOUND = "#8d99a8", "#1668c4", "#c2410c"
"""As on the page."""
GOOD_TICKS = 6
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
    figure = Figure(figsize=(WIDTH, sum(tall) + 1.6), dpi=DPI, layout="constrained")
    figure.suptitle(_title(data), parse_math=False, wrap=True, fontsize=10, x=0.01, ha="left")
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
    about, summary = data.about, data.summary
    name = f"{data.title[:1].upper()}{data.title[1:]}" + (f": {about.cluster}" if about.cluster else "")
    where = [f"planned {moment(about.planned_at)}" if about.planned_at else "", f"by {about.requester}"]
    lines = [
        name,
        " ".join(part for part, known in zip(where, (about.planned_at, about.requester), strict=True) if known),
        f"SHA-256 of reassignment.json: {about.digest}" if about.digest else "",
        *headline(data),
        f"Copies: bound {summary.lower_bound_moves:,}. Partitions on fewer racks than possible: "
        f"{summary.rack_violations:,}, bound {summary.rack_violations_bound:,}.",
    ]
    return "\n".join(line for line in lines if line)


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
    _finish(axes, f"Partitions of each wave, over time: {many(len(data.partitions), 'wave')}")


def _wave_edges(data: ReportData) -> tuple[Float64s, str]:
    """(where each wave begins, and where the last ends; what the axis stands for)."""
    width = np.ones(len(data.partitions)) if data.timed is None else data.timed
    edges = np.concatenate(([0.0], np.cumsum(width.astype(np.float64))))
    if data.timed is None:
        return edges, "wave"
    if not data.throttle:
        return edges / max(edges[-1], 1) * 100, "% of the bytes that the busiest broker of each wave sends or receives"
    hours = edges[-1] / data.throttle >= 7200
    ends = edges / data.throttle / (3600 if hours else 60)
    return ends, f"{'hours' if hours else 'minutes'} at {rate(data.throttle)} per broker, {_whole(data)} at least"


def _whole(data: ReportData) -> str:
    return duration(float(data.timed.sum()) / data.throttle) if data.timed is not None and data.throttle else ""


def _topics(axes: Axes, data: ReportData) -> None:
    topics = data.topics or ()
    place = np.arange(len(topics))
    axes.barh(place - 0.21, [topic.before for topic in topics], 0.4, color=BEFORE, label="before")
    axes.barh(place + 0.21, [topic.after for topic in topics], 0.4, color=AFTER, label="after")
    axes.plot([topic.bound for topic in topics], place, "|", color=BOUND, markersize=12, label="at least")
    named = [t.topic if len(t.topic) <= 40 else f"{t.topic[:39]}…" for t in topics]
    axes.set_yticks(place, labels=named, parse_math=False, fontsize=8)
    axes.set_ylim(len(topics) - 0.4, -0.6)
    _finish(axes, "Most replicas of a topic on one broker: the topics that are spread least evenly")


def _finish(axes: Axes, title: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: PLC0415

    axes.set_title(title, fontsize=10, loc="left")
    if axes.get_yaxis().get_major_formatter().__class__.__name__ == "ScalarFormatter":
        axes.yaxis.set_major_locator(MaxNLocator(GOOD_TICKS, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False)
