"""A plan's figures for people, each beside its bound."""

from __future__ import annotations

from kafka_medic.cli import output
from kafka_medic.plan.estimate import Estimate
from kafka_medic.plan.model import Fullest, Spread, Summary
from kafka_medic.report.units import bytes_text

__all__ = ["figures"]


def figures(summary: Summary, cost: Estimate, done: str) -> str:
    """The summary as a table; done: what was done to the replicas that are counted as moves."""
    rows = [
        ("partitions changed", f"{summary.partitions:,}", ""),
        (f"replicas {done}", f"{summary.moves:,}", f"{summary.lower_bound_moves:,}"),
        ("replicas per broker", *_spread(summary.replicas_per_broker)),
        ("preferred leaders per broker", *_spread(summary.leaders_per_broker)),
        *_without_order(summary),
        *([("bytes per broker", *_spread(summary.bytes_per_broker))] if summary.bytes_per_broker else []),
        *_of_one_topic("a topic's replicas on a broker", summary.topic_replicas),
        *_of_one_topic("a topic's leaders on a broker", summary.topic_leaders),
        ("rack violations", f"{summary.rack_violations:,}", f"{summary.rack_violations_bound:,}"),
        *((f"left out: {why.words}", f"{count:,}", "") for why, count in summary.left_out.items() if count),
        ("waves", f"{summary.waves:,}", ""),
        *([("brokers of unknown room", f"{summary.capacity_unknown:,}", "")] * bool(summary.capacity_unknown)),
        ("bytes to copy", _bytes(cost), ""),
    ]
    if cost.seconds is not None:
        rows.append(("time at the throttle, at least", _duration(cost.seconds), ""))
    rows.append(("planned in", f"{summary.seconds:.2f} s ({summary.engine})", ""))
    return output.table(("FIGURE", "THIS PLAN", "BOUND"), rows)


def _of_one_topic(name: str, found: Fullest | None) -> list[tuple[str, str, str]]:
    """The topic that is furthest above its bound."""
    return [] if found is None else [(name, f"{found.max:,} of {found.topic}", f"at least {found.bound:,}")]


def _without_order(summary: Summary) -> list[tuple[str, str, str]]:
    """What reassignment.json alone comes to, where it is not the same."""
    reassigned = summary.leaders_reassigned
    if reassigned is None or not summary.reordered:
        return []
    return [(f"  before {summary.order_name}", f"{reassigned.min:,} to {reassigned.max:,}", "")]


def _spread(spread: Spread) -> tuple[str, str]:
    return f"{spread.min:,} to {spread.max:,}", f"at most {spread.bound:,}"


def _bytes(cost: Estimate) -> str:
    size = bytes_text(cost.bytes_total)
    return f"{size} and {cost.unknown:,} partitions of unknown size" if cost.unknown else size


def _duration(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
