"""report.html: one file without a script or a link, to look at before a plan is approved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from kafka_medic.plan.arrow import Column, Int64s, compute, integers, list_lengths
from kafka_medic.plan.model import Plan
from kafka_medic.plan.problem import Problem

__all__ = ["render_report"]

WIDTH, HEIGHT, MARGIN = 960, 180, 48
BEFORE, AFTER = "#9aa5b1", "#1f6feb"
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:#1b1f24}"
    "table{border-collapse:collapse}td,th{padding:.2rem .9rem .2rem 0;text-align:right}"
    "th:first-child,td:first-child{text-align:left}svg{width:100%;height:auto}"
    "text{font:11px system-ui,sans-serif;fill:#57606a}"
    f".key b{{color:{BEFORE}}}.key i{{color:{AFTER};font-style:normal;font-weight:bold}}"
)


def render_report(problem: Problem, plan: Plan) -> str:
    """The whole page. Bars are per live broker (by id) and per rack, before and after; waves by size."""
    live = [broker for broker in problem.brokers if broker.alive]
    before, after = _replicas(problem, plan)
    led_before, led_after = _leaders(problem, plan)
    labels = [str(broker.id) for broker in live]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Plan: raise replication factor</title>",
        f"<style>{STYLE}</style><h1>Raise replication factor</h1>",
        _figures(plan),
        "<p class=key><b>■</b> before &nbsp; <i>■</i> after the plan; the dashed line is the bound</p>",
    ]
    bounds = (plan.summary.replicas_per_broker.bound, plan.summary.leaders_per_broker.bound)
    for title, old, new, bound in (
        ("Replicas per broker", before, after, bounds[0]),
        ("Preferred leaders per broker", led_before, led_after, bounds[1]),
    ):
        pairs = [(old[b.id], new[b.id]) for b in live]
        parts.append(f"<h2>{title}</h2>{_bars(labels, pairs, bound)}")
        if problem.racks:
            by_rack = [
                (sum(old[b.id] for b in live if b.rack == rack), sum(new[b.id] for b in live if b.rack == rack))
                for rack in problem.racks
            ]
            parts.append(f"<h2>{title.replace('broker', 'rack')}</h2>{_bars(problem.racks, by_rack, None)}")
    parts.append(f"<h2>Waves</h2>{_waves(plan)}</html>\n")
    return "\n".join(parts)


def _figures(plan: Plan) -> str:
    summary = plan.summary
    replicas, leaders = summary.replicas_per_broker, summary.leaders_per_broker
    rows = [
        ("Partitions changed", f"{summary.partitions:,}", ""),
        ("Replicas added", f"{summary.moves:,}", f"{summary.lower_bound_moves:,}"),
        ("Most replicas on a broker", f"{replicas.max:,}", f"{replicas.bound:,}"),
        ("Most preferred leaders on a broker", f"{leaders.max:,}", f"{leaders.bound:,}"),
        ("Rack violations", f"{summary.rack_violations:,}", f"{summary.rack_violations_bound:,}"),
        ("Waves", f"{summary.waves:,}", ""),
    ]
    body = "".join(f"<tr><td>{name}<td>{value}<td>{bound}" for name, value, bound in rows)
    return f"<table><tr><th>Figure<th>This plan<th>No plan can do better than{body}</table>"


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


def _waves(plan: Plan) -> str:
    wave = integers(plan.table.column("wave"))
    if not len(wave):
        return "<p>Nothing has to be moved.</p>"
    gain = _gains(plan)
    size = integers(plan.sizes, 0)
    count, added = np.bincount(wave), np.bincount(wave, weights=gain)
    moved = np.zeros(len(count), dtype=np.int64)
    np.add.at(moved, wave, gain * size)
    shown = range(min(len(count), 500))
    rows = "".join(f"<tr><td>{n}<td>{count[n]:,}<td>{int(added[n]):,}<td>{moved[n]:,}" for n in shown)
    more = f"<p>and {len(count) - 500:,} more waves</p>" if len(count) > 500 else ""
    return f"<table><tr><th>Wave<th>Partitions<th>Replicas<th>Bytes known{rows}</table>{more}"


def _gains(plan: Plan) -> Int64s:
    """int64[n] replicas added to each partition."""
    return list_lengths(plan.table.column("replicas")) - list_lengths(plan.table.column("replicasBefore"))


def _tally(ids: Column) -> Counter[int]:
    found = compute.value_counts(ids)
    return Counter(dict(zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True)))


def _replicas(problem: Problem, plan: Plan) -> tuple[Mapping[int, int], Mapping[int, int]]:
    before = _tally(compute.list_flatten(problem.partitions.column("replicas")))
    after = Counter(before)
    after.update(_tally(compute.list_flatten(plan.table.column("replicas"))))
    after.subtract(_tally(compute.list_flatten(plan.table.column("replicasBefore"))))
    return before, after


def _leaders(problem: Problem, plan: Plan) -> tuple[Mapping[int, int], Mapping[int, int]]:
    before = _tally(compute.list_element(problem.partitions.column("replicas"), 0))
    after = Counter(before)
    after.subtract(_tally(compute.list_element(plan.table.column("replicasBefore"), 0)))
    after.update(_tally(compute.list_element(plan.table.column("preferredOrder"), 0)))
    return before, after
