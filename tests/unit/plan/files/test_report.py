"""report.html: what it shows is what was counted, and it is bounded and stands alone."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from kafka_medic.plan.bounds import RAISE
from kafka_medic.plan.estimate import busiest_per_wave
from kafka_medic.plan.files.report import plan_page, render_report
from kafka_medic.plan.files.report_data import About, report_data
from kafka_medic.plan.model import TopicSpread
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.wave_limits import WaveLimits
from kafka_medic.report.model import Bars, Steps, Table
from tests.unit.plan.cluster_tables import problem


def many_topics():
    rng = np.random.default_rng(3)
    rows = {f"t{n}": [[int(b)] for b in rng.integers(0, 1 + n % 7, 5 + n)] for n in range(30)}
    rows["<b>&"] = [[int(b)] for b in rng.integers(0, 2, 60)]
    return problem({**rows, "full": [[0, 1]]}, "aabbccd", 2)


def counted_one_by_one(request, plan):
    """Every topic that the plan changes."""
    planned = {(move.topic, move.partition): move.preferred_order for move in plan.moves()}
    before, after, led_before, led_after, led_given, size = {}, {}, {}, {}, {}, Counter()
    for row in request.partitions.to_pylist():
        name, here = row["topic"], (row["topic"], row["partition"])
        order = planned.get(here, row["replicas"])
        size[name] += 1
        for counted, brokers in (
            (before, row["replicas"]), (after, order), (led_before, row["replicas"][:1]), (led_after, order[:1]),
            (led_given, [] if here in planned else order[:1]),
        ):  # fmt: skip
            counted.setdefault(name, Counter()).update(brokers)
    brokers = len(request.brokers)
    return [
        TopicSpread(
            name, size[name], after[name].total(),
            max(before[name].values()), max(after[name].values()),
            max([-(-after[name].total() // brokers), *before[name].values()]),
            max(led_before[name].values()), max(led_after[name].values()),
            max([-(-size[name] // brokers), *led_given[name].values()]),
        )
        for name in {topic for topic, _ in planned}
    ]  # fmt: skip


def test_the_worst_topics_are_those_that_counting_one_by_one_finds():
    request = many_topics()
    plan = plan_local(request)
    left = counted_one_by_one(request, plan)
    assert "full" not in {spread.topic for spread in left}
    left.sort(key=lambda t: (t.bound - t.after, -t.replicas, t.topic))
    worst, left = left[:10], left[10:]
    left.sort(key=lambda t: (t.led_bound - t.led_after, -t.replicas, t.topic))
    assert list(plan.topics) == worst + left[:10]


def test_the_summary_names_the_topics_that_lie_least_evenly():
    request = many_topics()
    plan = plan_local(request)
    every = counted_one_by_one(request, plan)
    by_replicas = min(every, key=lambda t: (t.bound - t.after, -t.replicas, t.topic))
    by_leaders = min(every, key=lambda t: (t.led_bound - t.led_after, -t.replicas, t.topic))
    summary = plan.summary.to_json()
    expected = {"topic": by_replicas.topic, "max": by_replicas.after, "ownBound": by_replicas.bound}
    assert summary["replicasOfOneTopic"].pop("bound") >= by_replicas.bound
    assert summary["replicasOfOneTopic"] == expected
    expected = {"topic": by_leaders.topic, "max": by_leaders.led_after, "ownBound": by_leaders.led_bound}
    assert summary["leadersOfOneTopic"].pop("bound") >= by_leaders.led_bound
    assert summary["leadersOfOneTopic"] == expected


def test_waves_are_shown_over_time():
    sizes = pa.array([100] * 10)
    request = problem({"t": [[0]] * 10}, 3, 2, sizeBytes=sizes)
    plan = plan_local(request, WaveLimits(records=4))
    assert busiest_per_wave(plan).tolist() == [400, 400, 200]
    leaders = request.leaders_of_changed(plan)
    waves = block(plan_page(report_data(request, plan, leaders, throttle=10)), "waves", Table)
    assert waves.rows == [
        ("0", "4", "4", "400 B", "40 s"), ("1", "4", "4", "400 B", "40 s"), ("2", "2", "2", "200 B", "20 s")
    ]  # fmt: skip
    drawn = block(plan_page(report_data(request, plan, leaders, throttle=10)), "waves", Steps)
    assert (drawn.width, drawn.height, drawn.end) == ([400, 400, 200], [4, 4, 2], "1 min 40 s")
    assert "10 B/s" in drawn.what
    untimed = block(plan_page(report_data(request, plan, leaders)), "waves", Steps)
    assert untimed.end == "3 waves"


def test_the_page_is_bounded_and_shows_names_as_they_are():
    request = many_topics()
    plan = plan_local(request)
    data = report_data(request, plan, request.leaders_of_changed(plan))
    page = render_report(data)
    assert not [word for word in ("src=", "http:", "https:", "<link", "@import", "url(") if word in page]
    assert "<b>&" not in page
    assert "&lt;b&gt;&amp;" in page
    assert len(block(plan_page(data), "topics", Table).rows) <= 20
    titles = [chart.title for chart in section(plan_page(data), "brokers").blocks if isinstance(chart, Bars)]
    assert titles == [
        "Replicas per broker", "Replicas per rack", "Preferred leaders per broker", "Preferred leaders per rack"
    ]  # fmt: skip


def test_the_page_says_whose_plan_it_is_and_how_much_it_copies():
    request = problem({"t": [[0]] * 10}, 3, 2, sizeBytes=pa.array([28_487_348_331] * 10))
    plan = plan_local(request)
    planned_at = datetime(2026, 1, 31, 8, tzinfo=UTC)
    about = About("orders", "abc", "2026-01-31T07:59:00Z", planned_at, "ann on laptop", "0123")
    data = report_data(request, plan, request.leaders_of_changed(plan), 50_000_000, about=about)
    page = plan_page(data)
    facts = {fact.name: fact.value for fact in page.facts}
    assert facts == {
        "Cluster": "orders (id abc)", "Partitions observed": "2026-01-31 07:59:00 UTC",
        "Planned": "2026-01-31 08:00:00 UTC", "Requested by": "ann on laptop", "Data to copy": "284.9 GB",
        "SHA-256 of reassignment.json": "0123",
    }  # fmt: skip
    assert page.lead[0] == "Changes 10 partitions and copies 10 replicas (284.9 GB) in 2 waves."
    assert page.lead[1].startswith("At 50.0 MB/s per broker, the copying takes at least 1 h 34 min")


def test_sizes_that_are_not_known_are_not_taken_for_nothing():
    request = problem({"t": [[0]] * 2}, 2, 2, sizeBytes=pa.array([None, 1000]))
    plan = plan_local(request)
    data = report_data(request, plan, request.leaders_of_changed(plan))
    assert "1.0 kB and 1 partition of unknown size" in plan_page(data).lead[0]
    request = problem({"t": [[0]] * 2}, 2, 2)
    plan = plan_local(request)
    assert "(unknown)" in plan_page(report_data(request, plan, request.leaders_of_changed(plan))).lead[0]


def test_the_page_claims_the_best_of_all_plans_only_where_a_figure_is_the_mean():
    # Three partitions keep broker 0 as their leader, so its 3 are the bound; who reorders them comes to 2.
    claims = claimed(problem({"t": [[0, 1], [0, 1], [0, 1]], "u": [[2], [2]]}, "aaa", 2))
    among_all = "Best possible: no lower among all plans. The fewest on a broker are"
    assert claims["Most replicas on a broker"] == ["4", "4", f"{among_all} 2."]
    over = RAISE["leadersPerBroker"].over
    words = f"Best possible: no lower among {over}. The fewest on a broker are 1."
    assert claims["Most preferred leaders on a broker"] == ["3", "3", words]
    claims = claimed(problem({"t": [[0], [1], [2]]}, "abc", 2))
    assert claims["Most replicas on a broker"] == ["2", "2", f"{among_all} 2."]


def claimed(request):
    """The figures on the page, by name: value, bound, and in words."""
    plan = plan_local(request)
    page = plan_page(report_data(request, plan, request.leaders_of_changed(plan)))
    return {name: cells for name, *cells in block(page, "figures", Table).rows}


def section(page, wanted):
    return next(section for section in page.sections if section.id == wanted)


def block(page, of, kind):
    """The first block of that kind."""
    return next(block for block in section(page, of).blocks if isinstance(block, kind))
