"""report.html: what it shows is what was counted, and it is bounded and stands alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from kafka_medic.plan.bounds import RAISE
from kafka_medic.plan.estimate import busiest_per_wave
from kafka_medic.plan.files.report import render_report
from kafka_medic.plan.files.report_data import report_data
from kafka_medic.plan.model import TopicSpread
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.wave_limits import WaveLimits
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
    page = render_report(report_data(request, plan, request.leaders_of_changed(plan), throttle=10))
    assert "wave 1: 4 partitions, from 0:00:40 h to 0:01:20 h" in page
    assert "0:01:40 h at 10 bytes per second and broker" in page
    assert "each as wide as" in render_report(report_data(request, plan, request.leaders_of_changed(plan)))


def test_the_page_stands_alone_is_bounded_and_shows_names_as_they_are():
    request = many_topics()
    plan = plan_local(request)
    page = render_report(report_data(request, plan, request.leaders_of_changed(plan)))
    assert not [word for word in ("<script", "http:", "https:", "<link", "@import") if word in page]
    assert "<b>&" not in page
    assert "&lt;b&gt;&amp;" in page
    assert page.count("<tr><td>t") <= 20
    for heading in ("Replicas per broker", "Replicas per rack", "Preferred leaders per rack", "Waves", "Topics"):
        assert f"<h2>{heading}" in page


def test_the_page_claims_the_best_of_all_plans_only_where_a_figure_is_the_mean():
    # Three partitions keep broker 0 as their leader, so its 3 are the bound; who reorders them comes to 2.
    claims = claimed(problem({"t": [[0, 1], [0, 1], [0, 1]], "u": [[2], [2]]}, "aaa", 2))
    assert claims["Most replicas on a broker"] == ["4", "4", "all plans (exact)"]
    assert claims["Most preferred leaders on a broker"] == ["3", "3", str(RAISE["leadersPerBroker"])]
    claims = claimed(problem({"t": [[0], [1], [2]]}, "abc", 2))
    assert claims["Most replicas on a broker"] == ["2", "2", "all plans (exact)"]


def claimed(request):
    """The figures on the page, by name: value, bound, and among which plans."""
    plan = plan_local(request)
    page = render_report(report_data(request, plan, request.leaders_of_changed(plan)))
    rows = page[page.index("<table class=figures>") : page.index("</table>")].split("<tr><td>")[1:]
    return {name: cells for name, *cells in (row.split("<td>") for row in rows)}
