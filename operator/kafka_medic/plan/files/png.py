"""report.png: what report.html shows, in one picture, to put into a ticket or to send around."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from kafka_medic.plan.arrow import Int64s
from kafka_medic.plan.files.report import AFTER, BEFORE
from kafka_medic.plan.files.report_data import ReportData
from kafka_medic.plan.problem import rack_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PngError", "can_draw", "render_png"]

WIDTH, DPI = 12.0, 100
LABELS = 40
"""Names on an axis, at most."""
BOUND = "#cf222e"


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

    topics = data.topics or ()
    rows = 2 + bool(racks := rack_names(data.brokers)) + bool(len(data.partitions)) + bool(topics)
    tall = [2.4] * (rows - bool(topics)) + ([0.7 + 0.22 * len(topics)] if topics else [])
    figure = Figure(figsize=(WIDTH, sum(tall) + 1.2), dpi=DPI, layout="constrained")
    summary = data.summary
    figure.suptitle(
        f"{data.title[:1].upper() + data.title[1:]}: {summary.partitions:,} partitions, {summary.moves:,} replicas "
        f"copied (at least {summary.lower_bound_moves:,}), {summary.rack_violations:,} on fewer racks than they could "
        f"be (at least {summary.rack_violations_bound:,})",
        parse_math=False, wrap=True, fontsize=11,
    )  # fmt: skip
    grid = figure.add_gridspec(rows, 2, height_ratios=tall)
    live = [at for at, broker in enumerate(data.brokers) if broker.alive]
    weighted = len({data.brokers[at].weight for at in live}) > 1
    of_rack = {rack: [at for at in live if data.brokers[at].rack == rack] for rack in racks}
    for row, (title, (old, new), bound) in enumerate(
        (
            ("Replicas per broker", data.replicas, summary.replicas_per_broker.bound),
            ("Preferred leaders per broker", data.leaders, summary.leaders_per_broker.bound),
        )
    ):
        ids = [str(data.brokers[at].id) for at in live]
        axes = figure.add_subplot(grid[row, :])
        _pairs(axes, title, ids, (old[live], new[live]), None if weighted else bound)
        if racks:
            sums = tuple(np.array([int(side[of].sum()) for of in of_rack.values()]) for side in (old, new))
            axes = figure.add_subplot(grid[2, row])
            _pairs(axes, title.replace("broker", "rack"), racks, (sums[0], sums[1]), None)
    row = 2 + bool(racks)
    if len(data.partitions):
        _waves(figure.add_subplot(grid[row, :]), data)
    if topics:
        _topics(figure.add_subplot(grid[-1, :]), data)
    out = BytesIO()
    figure.savefig(out, format="png", metadata={"Software": "kafka-medic"})
    return out.getvalue()


def _pairs(axes: Axes, title: str, labels: Sequence[str], sides: tuple[Int64s, Int64s], bound: int | None) -> None:
    """Bars before and after; with hundreds of them their outline, which can still be read."""
    place = np.arange(len(labels))
    if len(labels) > 3 * LABELS:
        edges = np.arange(len(labels) + 1) - 0.5
        axes.stairs(sides[0], edges, fill=True, color=BEFORE, alpha=0.6, label="before")
        axes.stairs(sides[1], edges, color=AFTER, linewidth=1.2, label="after")
    else:
        axes.bar(place - 0.21, sides[0], 0.4, color=BEFORE, label="before")
        axes.bar(place + 0.21, sides[1], 0.4, color=AFTER, label="after")
    if bound is not None:
        axes.axhline(bound, color=BOUND, linestyle="--", linewidth=1, label=f"bound {bound:,}")
    step = -(-len(labels) // LABELS) or 1
    axes.set_xticks(place[::step], labels=labels[::step], parse_math=False, fontsize=8)
    axes.set_xlim(-0.6, max(len(labels) - 0.4, 0.6))
    _finish(axes, title)


def _waves(axes: Axes, data: ReportData) -> None:
    timed = data.busiest is not None and data.busiest.any()
    width = data.busiest if timed and data.busiest is not None else np.ones(len(data.partitions))
    edges = np.concatenate(([0.0], np.cumsum(width.astype(np.float64))))
    under = "waves one after another, each as wide as its busiest broker has bytes" if timed else "wave"
    if timed and data.throttle:
        hours = edges[-1] / data.throttle >= 7200
        edges = edges / data.throttle / (3600 if hours else 60)
        under = f"{'hours' if hours else 'minutes'} at {data.throttle:,} bytes per second and broker"
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
    axes.set_xlabel(under, fontsize=8)
    axes.set_xlim(0, edges[-1])
    _finish(axes, f"Waves over time: {len(data.partitions):,}")


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
