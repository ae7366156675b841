"""report.html of a plan, to read before it is carried out: its figures and bounds, before and after, its partitions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from kafka_medic.plan.bounds import Bound
from kafka_medic.plan.files.report_data import Chart, ReportData
from kafka_medic.plan.model import PREFERRED_ORDER, Fullest, Spread, Summary, TopicSpread
from kafka_medic.report.model import (
    Bars,
    Block,
    Cell,
    Column,
    Fact,
    Page,
    Row,
    Section,
    Steps,
    Table,
    Text,
)
from kafka_medic.report.model import Spread as SpreadCell
from kafka_medic.report.render import render
from kafka_medic.report.units import UNKNOWN, bytes_text, duration, many, moment, rate

__all__ = ["CARRY_OUT", "figure_rows", "headline", "plan_page", "render_report"]

LISTED_WAVES = 500
CARRY_OUT = "carry-out"
"""The section for whoever carries the plan out."""
LISTED_BROKERS = 2000
WEIGHTED = "Brokers differ in weight. The figures per broker are those of a broker of average weight."
REASSIGNMENT = "reassignment.json"


def render_report(data: ReportData) -> str:
    """The whole file."""
    return render(plan_page(data))


def plan_page(data: ReportData) -> Page:
    """The page of a plan that nobody has carried out."""
    sections = [
        Section("figures", "Figures and bounds", list(_figures(data))),
        Section("brokers", "Before and after, by broker and rack", list(_charts(data))),
        Section("topics", "Before and after, by topic", list(_topics(data))),
        Section("waves", "Waves", list(_waves(data))),
    ]
    if data.listed is not None and data.listed.total:
        sections.append(Section("partitions", "Partitions", [data.listed]))
    sections.append(Section(CARRY_OUT, "How to carry it out", list(_carry_out(data))))
    return Page(
        kind="Plan",
        title=data.title[:1].upper() + data.title[1:] + (f": {data.about.cluster}" if data.about.cluster else ""),
        lead=headline(data),
        state="Not carried out",
        facts=list(_facts(data)),
        sections=sections,
        foot=["kafka-medic checked this plan with a second, independent program before it wrote it."],
    )


def headline(data: ReportData) -> list[str]:
    """What the plan comes to, in a sentence or two."""
    summary = data.summary
    if not summary.partitions:
        return ["Nothing has to be moved."]
    lines = [
        f"Changes {many(summary.partitions, 'partition')} and copies {many(summary.moves, 'replica')} "
        f"({_size(data)}) in {many(summary.waves, 'wave')}."
    ]
    if (seconds := _seconds(data)) is not None:
        lines.append(f"At {rate(data.throttle)} per broker, the copying takes at least {duration(seconds)}.")
    return lines


def _facts(data: ReportData) -> Iterator[Fact]:
    about = data.about
    name = about.cluster or "not named in the input"
    yield Fact("Cluster", f"{name} (id {about.cluster_id})" if about.cluster_id else name)
    if about.observed_at:
        yield Fact("Partitions observed", about.observed_at.replace("T", " ").replace("Z", " UTC"))
    yield Fact("Planned", moment(about.planned_at))
    yield Fact("Requested by", about.requester or UNKNOWN)
    yield Fact("Data to copy", _size(data))
    if about.digest:
        yield Fact(f"SHA-256 of {REASSIGNMENT}", about.digest, code=True)


def _size(data: ReportData) -> str:
    if data.moved is None:
        return UNKNOWN
    unknown = data.sizes_unknown
    if unknown and unknown == data.summary.partitions:
        return UNKNOWN
    text = bytes_text(int(data.moved.sum()))
    return f"{text} and {many(unknown, 'partition')} of unknown size" if unknown else text


def _seconds(data: ReportData) -> float | None:
    """What the copying takes at the throttle, wave after wave."""
    return None if data.timed is None or not data.throttle else float(data.timed.sum()) / data.throttle


def _figures(data: ReportData) -> Iterator[Block]:
    columns = [
        Column("Figure"), Column("This plan", numeric=True), Column("Bound", numeric=True),
        Column("What that means", prose=True),
    ]  # fmt: skip
    yield Table("", columns, [(name, value, bound, words) for name, value, bound, words in figure_rows(data.summary)])
    notes = [
        "A bound is proven: no plan of the named kind is below it. The planner reaches most bounds exactly.",
        *([WEIGHTED] if data.weighted else []),
    ]
    yield Text(notes)


def figure_rows(summary: Summary) -> list[tuple[str, str, str, str]]:
    """Name, value, bound, and what that means."""
    of = summary.bounds
    moves = _judged(summary.moves, summary.lower_bound_moves, of["moves"])
    racks = _judged(summary.rack_violations, summary.rack_violations_bound, of["rackViolations"])
    rows = [
        ("Partitions changed", f"{summary.partitions:,}", "", ""),
        ("Replicas copied", f"{summary.moves:,}", f"{summary.lower_bound_moves:,}", moves),
        _per_broker("Most replicas on a broker", summary.replicas_per_broker, of["replicasPerBroker"]),
        *(
            []
            if summary.bytes_per_broker is None
            else [_of_bytes("Most bytes on a broker", summary.bytes_per_broker, of["bytesPerBroker"])]
        ),
        _per_broker("Most preferred leaders on a broker", summary.leaders_per_broker, of["leadersPerBroker"]),
        *_without_order(summary),
        ("Rack violations", f"{summary.rack_violations:,}", f"{summary.rack_violations_bound:,}", racks),
        *_of_one_topic("Most replicas of one topic on a broker", summary.topic_replicas, of["replicasOfOneTopic"]),
        *_of_one_topic(
            "Most preferred leaders of one topic on a broker", summary.topic_leaders, of["leadersOfOneTopic"]
        ),
    ]
    rows += [
        (f"Left out: {why.words}", f"{number:,}", "", f"Each {why.sentence}.")
        for why, number in summary.left_out.items()
        if number
    ]
    if summary.capacity_unknown:
        rows.append(
            (
                "Brokers of unknown disk space",
                f"{summary.capacity_unknown:,}",
                "",
                "The plan did not check their space.",
            )
        )
    return rows


def _judged(value: int, bound: int, among: Bound) -> str:
    """A figure and its bound, in words."""
    if value <= bound:
        return f"Best possible: no lower among {among.over}."
    more = f"{value - bound:,} above the bound for {among.over}."
    return f"{more} Some plan reaches the bound." if among.exact else f"{more} It may be that no plan reaches it."


def _per_broker(name: str, spread: Spread, among: Bound) -> tuple[str, str, str, str]:
    """A maximum that is the mean is the best of all plans, whatever its own bound says."""
    over = Bound("all plans", exact=True) if spread.max == spread.any_plan else among
    words = f"{_judged(spread.max, spread.bound, over)} The fewest on a broker are {spread.min:,}."
    return name, f"{spread.max:,}", f"{spread.bound:,}", words


def _of_bytes(name: str, spread: Spread, among: Bound) -> tuple[str, str, str, str]:
    if spread.max <= spread.bound:
        words = f"Best possible: no lower among {among.over}."
    else:
        words = f"{(spread.max / spread.bound - 1) * 100:.1f} % above the bound for {among.over}."
    return name, bytes_text(spread.max), bytes_text(spread.bound), words


def _without_order(summary: Summary) -> list[tuple[str, str, str, str]]:
    """What reassignment.json alone comes to, where it is not the same."""
    reassigned = summary.leaders_reassigned
    if reassigned is None or not summary.reordered:
        return []
    words = f"{REASSIGNMENT} keeps the preferred leaders. {summary.order_name} changes them."
    return [(f"Most preferred leaders before {summary.order_name}", f"{reassigned.max:,}", "", words)]


def _of_one_topic(name: str, found: Fullest | None, among: Bound) -> list[tuple[str, str, str, str]]:
    """The topic that is furthest above its bound."""
    if found is None:
        return []
    words = f"Topic {found.topic}, the one furthest above its bound. {_judged(found.max, found.bound, among)}"
    return [(name, f"{found.max:,}", f"{found.bound:,}", words)]


def _charts(data: ReportData) -> Iterator[Block]:
    charts = [chart for both in data.charts() for chart in both if chart is not None]
    if not any(len(chart.labels) for chart in charts):
        yield Text(["No figures per broker were written with this plan."])
        return
    for chart in charts:
        each = "rack" if chart.title.endswith("rack") else "broker"
        what = "preferred leaders" if "leaders" in chart.title else "replicas"
        yield Bars(
            chart.title, what, each, chart.labels, chart.before.tolist(), chart.after.tolist(), chart.bound
        )  # fmt: skip
    yield _brokers(data, charts)


def _brokers(data: ReportData, charts: list[Chart]) -> Table:
    """The charts' figures, for those who do not see them."""
    per_broker = [chart for chart in charts if chart.title.endswith("per broker")]
    racks = {str(broker.id): broker.rack or "" for broker in data.brokers}
    rows: list[Row] = [
        (label, racks[label], *(f"{int(side[at]):,}" for chart in per_broker for side in (chart.before, chart.after)))
        for at, label in enumerate(per_broker[0].labels[:LISTED_BROKERS])
    ]
    columns = [
        Column("Broker"), Column("Rack"), Column("Replicas before", numeric=True), Column("after", numeric=True),
        Column("Preferred leaders before", numeric=True), Column("after", numeric=True),
    ]  # fmt: skip
    hidden = len(per_broker[0].labels) - LISTED_BROKERS
    note = f"{hidden:,} more brokers are in report.json." if hidden > 0 else ""
    return Table(f"Figures of each broker ({len(rows):,})", columns, rows, note, folded=True)


def _topics(data: ReportData) -> Iterator[Block]:
    if data.uncounted:
        one = data.uncounted == 1
        yield Text(
            [f"{many(data.uncounted, 'topic')}, too large for one block, {'was' if one else 'were'} not counted."]
        )
    if not data.topics:
        if not data.uncounted:
            yield Text(["No topic changes." if not data.summary.partitions else "No topic was counted."])
        return
    yield Text([f"The {many(len(data.topics), 'topic')} that the plan spreads least evenly over the brokers."])
    first = [Column("Topic"), Column("Partitions", numeric=True)]
    last = [
        Column("Before", numeric=True),
        Column("After", numeric=True),
        Column("At least", numeric=True),
        Column("Chart"),
    ]
    most = max(max(t.before, t.after) for t in data.topics)
    led = max(max(t.led_before, t.led_after) for t in data.topics)
    yield Table(
        "Most replicas of the topic on one broker",
        [*first, Column("Replicas", numeric=True), *last],
        [(*_named(t), f"{t.replicas:,}", *_sides(t.before, t.after, t.bound, most)) for t in data.topics],
    )
    yield Table(
        "Most preferred leaders of the topic on one broker",
        [*first, *last],
        [(*_named(t), *_sides(t.led_before, t.led_after, t.led_bound, led)) for t in data.topics],
    )


def _named(topic: TopicSpread) -> tuple[str, str]:
    return topic.topic, f"{topic.partitions:,}"


def _sides(before: int, after: int, bound: int, top: int) -> tuple[str | Cell, str | Cell, str, SpreadCell]:
    return f"{before:,}", f"{after:,}", f"{bound:,}", SpreadCell(before, after, bound, top)


def _waves(data: ReportData) -> Iterator[Block]:
    count = len(data.partitions)
    if not count:
        yield Text(["No waves: nothing has to be moved."])
        return
    yield Text(["A wave begins once the replicas of the wave before are in sync."])
    width = np.ones(count) if data.timed is None else data.timed.astype(np.float64)
    edges = np.unique(np.linspace(0, count, min(count, LISTED_WAVES) + 1).astype(np.int64)).tolist()
    groups = list(pairwise(edges))
    if count > 1:
        yield Steps(
            "Partitions of each wave, over time",
            _time_axis(data),
            [float(width[a:b].sum()) for a, b in groups],
            [int(data.partitions[a:b].max()) for a, b in groups],
            _end(data, count),
        )
    timed = data.timed is not None and bool(data.throttle)
    columns = [Column("Wave"), Column("Partitions", numeric=True), Column("Replicas", numeric=True)]
    columns += [Column("Data", numeric=True)] if data.moved is not None else []
    columns += [Column("At least", numeric=True)] if timed else []
    rows: list[Row] = [tuple(_wave(data, at, timed=timed)) for at in range(min(count, LISTED_WAVES))]
    hidden = count - LISTED_WAVES
    note = f"{many(hidden, 'more wave')} in plan.parquet." if hidden > 0 else ""
    yield Table(f"Figures of each wave ({len(rows):,})", columns, rows, note, folded=len(rows) > 12)


def _wave(data: ReportData, at: int, *, timed: bool) -> Iterator[str]:
    yield f"{at:,}"
    yield f"{data.partitions[at]:,}"
    yield f"{data.added[at]:,}"
    if data.moved is not None:
        yield bytes_text(int(data.moved[at]))
    if timed and data.timed is not None and data.throttle:
        yield duration(int(data.timed[at]) / data.throttle)


def _time_axis(data: ReportData) -> str:
    if data.timed is None:
        return "Each wave has the same width: no sizes are known."
    if not data.throttle:
        return "Each wave is as wide as its busiest broker has bytes to send or receive."
    return f"Each wave is as wide as its busiest broker needs at {rate(data.throttle)}."


def _end(data: ReportData, count: int) -> str:
    seconds = _seconds(data)
    return many(count, "wave") if seconds is None else duration(seconds)


def _carry_out(data: ReportData) -> Iterator[Block]:
    if not data.summary.partitions:
        yield Text(["Nothing has to be done."])
        return
    lines = [
        "Check the plan again right before: kafka-medic plan verify compares it with the partitions as they are then.",
        f"{REASSIGNMENT} is in Kafka's own format, for kafka-reassign-partitions.sh. plan.parquet has the waves.",
    ]
    if data.summary.reordered and not data.summary.order_file:
        lines.append(
            f"The column {data.summary.order_name} of the plan has another preferred leader for "
            f"{many(data.summary.reordered, 'partition')}."
        )
    elif data.summary.reordered:
        lines.append(
            f"Carry out {PREFERRED_ORDER} after it, then elect the preferred leaders. It changes the order of "
            f"{many(data.summary.reordered, 'partition')}."
        )
    yield Text(lines)
