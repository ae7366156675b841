"""The example of docs/planner-algorithm.md is what the planner does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.solver.quotas import broker_quotas, solve_quotas
from kafka_medic.plan.solver.sites import count_per_broker, kinds_of, sites_of
from tests.unit.plan.cluster_tables import problem

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "planner-algorithm.md").read_text()
RACKS = "aabbcc"


def rows(beginning):
    """The cells of the page's table rows that begin so."""
    return [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith(f"| {beginning}")]


def example():
    held = {"orders": [], "users": []}
    for name, before, *_ in rows("orders-") + rows("users-"):
        held[name.partition("-")[0]].append([int(before)])
    return problem(held, RACKS, 2)


def test_the_plan_on_the_page_is_the_planners():
    told = {name: (int(new.split()[0]), order) for name, _, _, new, order in rows("orders-") + rows("users-")}
    plan = plan_local(example())
    found = {f"{m.topic}-{m.partition}": (m.replicas[1], ", ".join(map(str, m.preferred_order))) for m in plan.moves()}
    assert told == found
    assert (plan.summary.replicas_per_broker.bound, plan.summary.replicas_per_broker.any_plan) == (5, 4)
    assert (plan.summary.leaders_per_broker.max, plan.summary.waves) == (2, 1)


def test_the_quotas_on_the_page_are_the_planners():
    request = example()
    columns = request.columns
    sites = sites_of(request.brokers, count_per_broker(columns.held, 6))
    kinds, _ = kinds_of(columns.held, request.missing, sites)
    quotas = solve_quotas(kinds, sites)
    told = [[int(n) for n in cells] for first in ("8 in a", "3 in b", "1 in c") for _, *cells in rows(first)]
    assert quotas.chosen.tolist() == told
    assert broker_quotas(sites, quotas.chosen.sum(axis=0)).tolist() == [0, 1, 2, 3, 3, 3]
    assert np.array_equal(kinds.count, [8, 3, 1])
