"""report.html: one file without a script or a link, to look at before a plan is approved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

from kafka_medic.plan.arrow import Column, Int64s, integers, list_lengths
from kafka_medic.plan.estimate import busiest_per_wave
from kafka_medic.plan.lists import Lists, flatten, place_among
from kafka_medic.plan.model import Fullest, Plan, Summary, TopicSpread
from kafka_medic.plan.problem import Broker, rack_names

__all__ = ["Picture", "picture", "render_report"]

WIDTH, HEIGHT, MARGIN = 960, 180, 48
SHOWN_WAVES = 500
WEIGHTED = "brokers differ in weight: the figures above are those of a broker of average weight"
BEFORE, AFTER = "#9aa5b1", "#1f6feb"
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:#1b1f24}"
    "table{border-collapse:collapse}td,th{padding:.2rem .9rem .2rem 0;text-align:right}"
    "th:first-child,td:first-child{text-align:left}svg{width:100%;height:auto}"
    "text{font:11px system-ui,sans-serif;fill:#57606a}"
    f".key b{{color:{BEFORE}}}.key i{{color:{AFTER};font-style:normal;font-weight:bold}}"
)


class Asked(Protocol):
    """What the page has to know of the question: the partitions as they are, and the brokers by id."""

    @property
    def partitions(self) -> pa.Table: ...

    @property
    def brokers(self) -> tuple[Broker, ...]: ...


@dataclass(frozen=True, eq=False)
class Picture:
    """What the page shows. Per broker (all of `brokers`, in their order): replicas and preferred leaders, before and
    after. Per wave: partitions, replicas, and, None where not counted, bytes that are known, in all and of the broker
    that sends or receives most. topics: the worst spread ones, None where not counted. throttle: bytes per second."""

    brokers: tuple[Broker, ...]
    summary: Summary
    replicas: tuple[Int64s, Int64s]
    leaders: tuple[Int64s, Int64s]
    partitions: Int64s
    added: Int64s
    moved: Int64s | None
    busiest: Int64s | None = None
    topics: tuple[TopicSpread, ...] = ()
    throttle: int | None = None
    title: str = "Raise replication factor"
    uncounted: int = 0


def picture(
    problem: Asked, plan: Plan, leaders: Column, throttle: int | None = None, title: str = Picture.title
) -> Picture:
    """The picture of a plan that is in memory; leaders: of its rows, by id, null where not known."""
    ids = np.array([broker.id for broker in problem.brokers], dtype=np.int64)
    everywhere = flatten(problem.partitions.column("replicas"))
    leave, come, order = (flatten(plan.table.column(n)) for n in ("replicasBefore", "replicas", "preferredOrder"))
    held, first = (_on_brokers(ids, everywhere, first=first) for first in (False, True))
    replicas = held, held - _on_brokers(ids, leave, first=False) + _on_brokers(ids, come, first=False)
    led = first, first - _on_brokers(ids, leave, first=True) + _on_brokers(ids, order, first=True)
    wave, gain = integers(plan.table.column("wave")), _gains(plan)
    count, added = np.bincount(wave), np.bincount(wave, weights=gain).astype(np.int64)
    moved = np.zeros(len(count), dtype=np.int64)
    np.add.at(moved, wave, gain * integers(plan.sizes, 0))
    return Picture(
        problem.brokers, plan.summary, replicas, led, count, added, moved, busiest_per_wave(plan, leaders),
        plan.topics, throttle, title,
    )  # fmt: skip


def render_report(shown: Picture) -> str:
    """The whole page. Bars are per live broker (by id) and per rack, before and after; waves by size."""
    live = [at for at, broker in enumerate(shown.brokers) if broker.alive]
    labels = [str(shown.brokers[at].id) for at in live]
    racks = rack_names(shown.brokers)
    weighted = len({shown.brokers[at].weight for at in live}) > 1
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Plan</title>",
        f"<style>{STYLE}</style><h1>{escape(shown.title[:1].upper() + shown.title[1:])}</h1>",
        _figures(shown.summary),
        "<p class=key><b>■</b> before &nbsp; <i>■</i> after the plan; "
        + (WEIGHTED if weighted else "the dashed line is the bound")
        + "</p>",
    ]
    summary = shown.summary
    for title, (old, new), bound in (
        ("Replicas per broker", shown.replicas, summary.replicas_per_broker.bound),
        ("Preferred leaders per broker", shown.leaders, summary.leaders_per_broker.bound),
    ):
        pairs = [(int(old[at]), int(new[at])) for at in live]
        parts.append(f"<h2>{title}</h2>{_bars(labels, pairs, None if weighted else bound)}")
        if racks:
            of_rack = {rack: [at for at in live if shown.brokers[at].rack == rack] for rack in racks}
            by_rack = [(int(old[of].sum()), int(new[of].sum())) for of in of_rack.values()]
            parts.append(f"<h2>{title.replace('broker', 'rack')}</h2>{_bars(racks, by_rack, None)}")
    parts.append(f"<h2>Waves</h2>{_over_time(shown)}{_waves(shown)}")
    parts.append(f"<h2>Topics that are spread worst</h2>{_topics(shown)}</html>\n")
    return "\n".join(parts)


def _figures(summary: Summary) -> str:
    replicas, leaders = summary.replicas_per_broker, summary.leaders_per_broker
    rows = [
        ("Partitions changed", f"{summary.partitions:,}", ""),
        ("Replicas copied", f"{summary.moves:,}", f"{summary.lower_bound_moves:,}"),
        ("Most replicas on a broker", f"{replicas.max:,}", f"{replicas.bound:,}"),
        ("Most preferred leaders on a broker", f"{leaders.max:,}", f"{leaders.bound:,}"),
        ("Rack violations", f"{summary.rack_violations:,}", f"{summary.rack_violations_bound:,}"),
        *_of_one_topic("Most replicas of one topic on a broker", summary.topic_replicas),
        *_of_one_topic("Most preferred leaders of one topic on a broker", summary.topic_leaders),
        ("Waves", f"{summary.waves:,}", ""),
    ]
    body = "".join(f"<tr><td>{name}<td>{value}<td>{bound}" for name, value, bound in rows)
    return f"<table><tr><th>Figure<th>This plan<th>No plan can do better than{body}</table>"


def _of_one_topic(name: str, found: Fullest | None) -> list[tuple[str, str, str]]:
    """The topic that is furthest above its bound."""
    return [] if found is None else [(f"{name} ({escape(found.topic)})", f"{found.max:,}", f"{found.bound:,}")]


def _bars(labels: Sequence[str], pairs: Sequence[tuple[int, int]], bound: int | None) -> str:
    top = max([1, bound or 0, *(max(pair) for pair in pairs)])
    slot = (WIDTH - MARGIN) / max(len(pairs), 1)
    bar = slot * 0.42
    scale = (HEIGHT - 24) / top
    shapes = [f'<text x="0" y="12">{top:,}</text><text x="0" y="{HEIGHT}">0</text>']
    step = max(1, len(labels) * 40 // WIDTH)
    for number, (label, (old, new)) in enumerate(zip(labels, pairs, strict=True)):
        x = MARGIN + number * slot
        for offset, value, colour in ((0.0, old, BEFORE), (bar, new, AFTER)):
            shapes.append(
                f'<rect x="{x + offset:.1f}" y="{HEIGHT - value * scale:.1f}" width="{max(bar, 0.4):.1f}" '
                f'height="{value * scale:.1f}" fill="{colour}"><title>{escape(label)}: {old:,} → {new:,}'
                "</title></rect>"
            )
        if number % step == 0:
            shapes.append(f'<text x="{x:.1f}" y="{HEIGHT + 14}">{escape(label)}</text>')
    if bound is not None:
        y = HEIGHT - bound * scale
        shapes.append(f'<path d="M{MARGIN} {y:.1f}H{WIDTH}" stroke="#cf222e" stroke-dasharray="5 4"/>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 20}" role="img">{"".join(shapes)}</svg>'


def _over_time(shown: Picture) -> str:
    """The waves one after another, each as wide as it takes and as high as it has partitions."""
    count = len(shown.partitions)
    if not count:
        return ""
    timed = shown.busiest is not None and shown.busiest.any()
    width = shown.busiest.astype(np.float64) if timed and shown.busiest is not None else np.ones(count)
    end = np.cumsum(width)
    edges = np.unique(np.linspace(0, count, min(count, SHOWN_WAVES) + 1).astype(np.int64))
    scale = (WIDTH - MARGIN) / float(end[-1])
    groups = [(int(a), int(b)) for a, b in pairwise(edges.tolist())]
    height = [int(shown.partitions[a:b].max()) for a, b in groups]
    top = max(height)
    shapes = [f'<text x="0" y="12">{top:,}</text><text x="0" y="{HEIGHT}">0</text>']
    for (a, b), high in zip(groups, height, strict=True):
        left, right = (float(end[a - 1]) if a else 0.0), float(end[b - 1])
        tall = high * (HEIGHT - 24) / top
        name = f"wave {a}" if b - a == 1 else f"waves {a} to {b - 1}"
        told = f"{name}: {int(shown.partitions[a:b].sum()):,} partitions"
        if timed and shown.throttle:
            told += f", from {_clock(left / shown.throttle)} to {_clock(right / shown.throttle)}"
        wide = max((right - left) * scale, 0.4)
        shapes.append(
            f'<rect x="{MARGIN + left * scale:.1f}" y="{HEIGHT - tall:.1f}" width="{wide:.1f}" '
            f'height="{tall:.1f}" fill="{AFTER}" stroke="#fff" stroke-width=".5"><title>{told}</title></rect>'
        )
    if timed and shown.throttle:
        axis = f"{_clock(float(end[-1]) / shown.throttle)} at {shown.throttle:,} bytes per second and broker"
    else:
        axis = "each as wide as its busiest broker has bytes" if timed else "each of the same width"
    shapes.append(f'<text x="{WIDTH}" y="{HEIGHT + 14}" text-anchor="end">{axis}</text>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 20}" role="img">{"".join(shapes)}</svg>'


def _clock(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02} h"


def _topics(shown: Picture) -> str:
    scattered = (
        f"<p>{shown.uncounted:,} topics, whose partitions are scattered over the input, were not counted.</p>"
        if shown.uncounted
        else ""
    )
    if not shown.topics:
        return scattered or "<p>Nothing has to be moved.</p>"
    head = (
        "<tr><th>Topic<th>Partitions<th>Replicas<th>Most on a broker, before<th>after<th>at least<th>"
        "<th>Most preferred leaders, before<th>after<th>at least<th>"
    )
    top = max(max(t.before, t.after) for t in shown.topics)
    led = max(max(t.led_before, t.led_after) for t in shown.topics)
    rows = "".join(
        f"<tr><td>{escape(t.topic)}<td>{t.partitions:,}<td>{t.replicas:,}<td>{t.before:,}<td>{t.after:,}<td>{t.bound:,}"
        f"<td>{_spread(t.before, t.after, t.bound, top)}<td>{t.led_before:,}<td>{t.led_after:,}<td>{t.led_bound:,}"
        f"<td>{_spread(t.led_before, t.led_after, t.led_bound, led)}"
        for t in shown.topics
    )
    told = f"Of those that the plan changes {len(shown.topics)}: by replicas, then by preferred leaders."
    return f"<p>{told}</p><table>{head}{rows}</table>{scattered}"


def _spread(before: int, after: int, bound: int, top: int) -> str:
    """Two bars, before over after, and a mark at the bound."""
    scale = 120 / max(top, 1)
    return (
        f'<svg viewBox="0 0 120 14" style="width:120px" role="img">'
        f'<rect width="{before * scale:.1f}" height="6" fill="{BEFORE}"/>'
        f'<rect y="7" width="{after * scale:.1f}" height="6" fill="{AFTER}"/>'
        f'<path d="M{bound * scale:.1f} 0V14" stroke="#cf222e"/></svg>'
    )


def _waves(shown: Picture) -> str:
    if not len(shown.partitions):
        return "<p>Nothing has to be moved.</p>"
    head = "<tr><th>Wave<th>Partitions<th>Replicas" + ("" if shown.moved is None else "<th>Bytes known")
    rows = "".join(
        f"<tr><td>{n}<td>{shown.partitions[n]:,}<td>{shown.added[n]:,}"
        + ("" if shown.moved is None else f"<td>{shown.moved[n]:,}")
        for n in range(min(len(shown.partitions), SHOWN_WAVES))
    )
    hidden = len(shown.partitions) - SHOWN_WAVES
    return f"<table>{head}{rows}</table>" + (f"<p>and {hidden:,} more waves</p>" if hidden > 0 else "")


def _gains(plan: Plan) -> Int64s:
    """int64[n] replicas added to each partition."""
    return list_lengths(plan.table.column("replicas")) - plan.kept()


def _on_brokers(ids: Int64s, replicas: Lists, *, first: bool) -> Int64s:
    """int64[B]: how often each broker stands in the lists, or first in them."""
    there = replicas.values[replicas.start] if first else replicas.values
    return np.bincount(place_among(ids, there), minlength=len(ids))
