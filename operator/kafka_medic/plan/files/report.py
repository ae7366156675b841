"""report.html: one file without a script or a link, to read before a plan is approved."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

import numpy as np

from kafka_medic.plan.bounds import Bound
from kafka_medic.plan.files.report_data import Chart, ReportData
from kafka_medic.plan.model import PREFERRED_ORDER, Fullest, Spread, Summary

__all__ = ["AFTER", "BEFORE", "render_report"]

WIDTH, HEIGHT, MARGIN = 960, 180, 48
LISTED_WAVES = 500
WEIGHTED = "brokers differ in weight: the figures above are those of a broker of average weight"
BEFORE, AFTER = "#9aa5b1", "#1f6feb"
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:#1b1f24}"
    "table{border-collapse:collapse}td,th{padding:.2rem .9rem .2rem 0;text-align:right}"
    "th:first-child,td:first-child,.figures :last-child{text-align:left}svg{width:100%;height:auto}"
    "text{font:11px system-ui,sans-serif;fill:#57606a}"
    f".key b{{color:{BEFORE}}}.key i{{color:{AFTER};font-style:normal;font-weight:bold}}"
)


def render_report(data: ReportData) -> str:
    """The whole page. Bars are per live broker (by id) and per rack, before and after; waves by size."""
    bound = WEIGHTED if data.weighted else "the dashed line is the bound"
    charts = [chart for both in data.charts() for chart in both if chart is not None]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Plan</title>",
        f"<style>{STYLE}</style><h1>{escape(data.title[:1].upper() + data.title[1:])}</h1>",
        _figures(data.summary),
        f"<p class=key><b>■</b> before &nbsp; <i>■</i> after the plan; {bound}</p>",
        *(f"<h2>{chart.title}</h2>{_bars(chart)}" for chart in charts),
        f"<h2>Waves</h2>{_over_time(data)}{_waves(data)}",
        f"<h2>Topics that are spread worst</h2>{_topics(data)}</html>\n",
    ]
    return "\n".join(parts)


def _figures(summary: Summary) -> str:
    of = summary.bounds
    rows = [
        ("Partitions changed", f"{summary.partitions:,}", "", ""),
        ("Replicas copied", f"{summary.moves:,}", f"{summary.lower_bound_moves:,}", str(of["moves"])),
        _per_broker("Most replicas on a broker", summary.replicas_per_broker, of["replicasPerBroker"]),
        _per_broker("Most preferred leaders on a broker", summary.leaders_per_broker, of["leadersPerBroker"]),
        *_without_order(summary),
        (
            "Rack violations",
            f"{summary.rack_violations:,}",
            f"{summary.rack_violations_bound:,}",
            str(of["rackViolations"]),
        ),
        *_of_one_topic("Most replicas of one topic on a broker", summary.topic_replicas, of["replicasOfOneTopic"]),
        *_of_one_topic(
            "Most preferred leaders of one topic on a broker", summary.topic_leaders, of["leadersOfOneTopic"]
        ),
        *((f"Left out: {why.words}", f"{count:,}", "", "") for why, count in summary.left_out.items() if count),
        ("Waves", f"{summary.waves:,}", "", ""),
    ]
    if summary.bytes_per_broker is not None:
        rows.insert(3, _per_broker("Most bytes on a broker", summary.bytes_per_broker, of["bytesPerBroker"]))
    body = "".join(f"<tr><td>{name}<td>{value}<td>{bound}<td>{over}" for name, value, bound, over in rows)
    return f"<table class=figures><tr><th>Figure<th>This plan<th>Bound<th>of{body}</table>"


def _without_order(summary: Summary) -> list[tuple[str, str, str, str]]:
    """What reassignment.json alone comes to, where it is not the same."""
    reassigned = summary.leaders_reassigned
    if reassigned is None or not summary.reordered:
        return []
    return [(f"The same before {PREFERRED_ORDER} is carried out", f"{reassigned.max:,}", "", "")]


def _per_broker(name: str, spread: Spread, bound: Bound) -> tuple[str, str, str, str]:
    """A maximum that is the mean is the best of all plans, whatever its own bound says."""
    over = "all plans (exact)" if spread.max == spread.any_plan else str(bound)
    return name, f"{spread.max:,}", f"{spread.bound:,}", over


def _of_one_topic(name: str, found: Fullest | None, bound: Bound) -> list[tuple[str, str, str, str]]:
    """The topic that is furthest above its bound."""
    if found is None:
        return []
    return [(f"{name} ({escape(found.topic)})", f"{found.max:,}", f"{found.bound:,}", str(bound))]


def _bars(chart: Chart) -> str:
    pairs = list(zip(chart.before.tolist(), chart.after.tolist(), strict=True))
    top = max([1, chart.bound or 0, *(max(pair) for pair in pairs)])
    slot = (WIDTH - MARGIN) / max(len(pairs), 1)
    bar = slot * 0.42
    scale = (HEIGHT - 24) / top
    shapes = [_axis(top)]
    step = max(1, len(pairs) * 40 // WIDTH)
    for number, (label, (old, new)) in enumerate(zip(chart.labels, pairs, strict=True)):
        x = MARGIN + number * slot
        for offset, value, colour in ((0.0, old, BEFORE), (bar, new, AFTER)):
            shapes.append(
                f'<rect x="{x + offset:.1f}" y="{HEIGHT - value * scale:.1f}" width="{max(bar, 0.4):.1f}" '
                f'height="{value * scale:.1f}" fill="{colour}"><title>{escape(label)}: {old:,} → {new:,}'
                "</title></rect>"
            )
        if number % step == 0:
            shapes.append(f'<text x="{x:.1f}" y="{HEIGHT + 14}">{escape(label)}</text>')
    if chart.bound is not None:
        y = HEIGHT - chart.bound * scale
        shapes.append(f'<path d="M{MARGIN} {y:.1f}H{WIDTH}" stroke="#cf222e" stroke-dasharray="5 4"/>')
    return _svg(shapes)


def _over_time(data: ReportData) -> str:
    """The waves one after another, each as wide as it takes and as high as it has partitions."""
    count = len(data.partitions)
    if not count:
        return ""
    width = np.ones(count) if data.timed is None else data.timed.astype(np.float64)
    end = np.cumsum(width)
    edges = np.unique(np.linspace(0, count, min(count, LISTED_WAVES) + 1).astype(np.int64))
    scale = (WIDTH - MARGIN) / float(end[-1])
    groups = [(int(a), int(b)) for a, b in pairwise(edges.tolist())]
    height = [int(data.partitions[a:b].max()) for a, b in groups]
    top = max(height)
    shapes = [_axis(top)]
    for (a, b), high in zip(groups, height, strict=True):
        left, right = (float(end[a - 1]) if a else 0.0), float(end[b - 1])
        tall = high * (HEIGHT - 24) / top
        wide = max((right - left) * scale, 0.4)
        shapes.append(
            f'<rect x="{MARGIN + left * scale:.1f}" y="{HEIGHT - tall:.1f}" width="{wide:.1f}" '
            f'height="{tall:.1f}" fill="{AFTER}" stroke="#fff" stroke-width=".5">'
            f"<title>{_group(data, a, b, left, right)}</title></rect>"
        )
    shapes.append(f'<text x="{WIDTH}" y="{HEIGHT + 14}" text-anchor="end">{_time_axis(data, float(end[-1]))}</text>')
    return _svg(shapes)


def _group(data: ReportData, a: int, b: int, left: float, right: float) -> str:
    """Waves a to b, without b, which begin after `left` bytes and end after `right`."""
    name = f"wave {a}" if b - a == 1 else f"waves {a} to {b - 1}"
    label = f"{name}: {int(data.partitions[a:b].sum()):,} partitions"
    if data.timed is None or not data.throttle:
        return label
    return f"{label}, from {_clock(left / data.throttle)} to {_clock(right / data.throttle)}"


def _time_axis(data: ReportData, end: float) -> str:
    if data.timed is None:
        return "each of the same width"
    if not data.throttle:
        return "each as wide as its busiest broker has bytes"
    return f"{_clock(end / data.throttle)} at {data.throttle:,} bytes per second and broker"


def _axis(top: int) -> str:
    return f'<text x="0" y="12">{top:,}</text><text x="0" y="{HEIGHT}">0</text>'


def _svg(shapes: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 20}" role="img">{"".join(shapes)}</svg>'


def _clock(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02} h"


def _topics(data: ReportData) -> str:
    too_large = (
        f"<p>{data.uncounted:,} topics, too large for one block, were not counted.</p>" if data.uncounted else ""
    )
    if not data.topics:
        return too_large or "<p>Nothing has to be moved.</p>"
    head = (
        "<tr><th>Topic<th>Partitions<th>Replicas<th>Most on a broker, before<th>after<th>at least<th>"
        "<th>Most preferred leaders, before<th>after<th>at least<th>"
    )
    top = max(max(t.before, t.after) for t in data.topics)
    led = max(max(t.led_before, t.led_after) for t in data.topics)
    rows = "".join(
        f"<tr><td>{escape(t.topic)}<td>{t.partitions:,}<td>{t.replicas:,}<td>{t.before:,}<td>{t.after:,}<td>{t.bound:,}"
        f"<td>{_spread(t.before, t.after, t.bound, top)}<td>{t.led_before:,}<td>{t.led_after:,}<td>{t.led_bound:,}"
        f"<td>{_spread(t.led_before, t.led_after, t.led_bound, led)}"
        for t in data.topics
    )
    lead = f"Of those that the plan changes {len(data.topics)}: by replicas, then by preferred leaders."
    return f"<p>{lead}</p><table>{head}{rows}</table>{too_large}"


def _spread(before: int, after: int, bound: int, top: int) -> str:
    """Two bars, before over after, and a mark at the bound."""
    scale = 120 / max(top, 1)
    return (
        f'<svg viewBox="0 0 120 14" style="width:120px" role="img">'
        f'<rect width="{before * scale:.1f}" height="6" fill="{BEFORE}"/>'
        f'<rect y="7" width="{after * scale:.1f}" height="6" fill="{AFTER}"/>'
        f'<path d="M{bound * scale:.1f} 0V14" stroke="#cf222e"/></svg>'
    )


def _waves(data: ReportData) -> str:
    if not len(data.partitions):
        return "<p>Nothing has to be moved.</p>"
    head = "<tr><th>Wave<th>Partitions<th>Replicas" + ("" if data.moved is None else "<th>Bytes known")
    rows = "".join(
        f"<tr><td>{n}<td>{data.partitions[n]:,}<td>{data.added[n]:,}"
        + ("" if data.moved is None else f"<td>{data.moved[n]:,}")
        for n in range(min(len(data.partitions), LISTED_WAVES))
    )
    hidden = len(data.partitions) - LISTED_WAVES
    return f"<table>{head}{rows}</table>" + (f"<p>and {hidden:,} more waves</p>" if hidden > 0 else "")
