"""What all topics together are forced to, beside the exact optimum of tiny clusters: it never claims too much.

The plans meant are those that bring each broker as many as the plan made, and spread each partition over racks at best;
for leaders the orders of the replicas that were chosen.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from ortools.sat.python import cp_model

from kafka_medic.plan.problem import Problem
from kafka_medic.plan.solver.local import plan_local
from tests.property.plan.exact_optima import best_spread, completions, racks
from tests.property.plan.test_bounds_exact import Cluster, cluster, planned
from tests.thorough import THOROUGH

CLUSTERS = 2_000 if THOROUGH else 80


def lowest_excess(choices, topic, own, live, given, totals):
    """How far above its own bound the worst topic is at least. choices: of each partition the sets of brokers it may
    count on; given: Counter of (topic, broker); totals: what each broker is to count in all."""
    model = cp_model.CpModel()
    picked = [[model.new_bool_var("") for _ in sets] for sets in choices]
    for of in picked:
        model.add_exactly_one(of)
    flat = [(place, set(one), pick) for place, sets in enumerate(choices)
            for one, pick in zip(sets, picked[place], strict=True)]  # fmt: skip
    most = model.new_int_var(-1_000, 1_000, "")
    for broker in live:
        here = [(topic[place], pick) for place, one, pick in flat if broker in one]
        model.add(sum(pick for _, pick in here) == totals[broker])
        for name, bound in own.items():
            model.add(most >= given[name, broker] + sum(pick for of, pick in here if of == name) - bound)
    model.minimize(most)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return round(solver.objective_value)


def lopsided(draw: random.Random) -> Cluster:
    """A cluster some of whose brokers are new and empty, so that they get most."""
    found = cluster(draw, whole=False)
    last = max(len(found.brokers) - draw.randint(1, 2), 1)
    rows = tuple((t, n, r) for t, n, r in found.rows if max(r) < last)
    return replace(
        found, rows=tuple((t, sum(row[0] == t for row in rows[:at]), r) for at, (t, _, r) in enumerate(rows))
    )


@pytest.mark.parametrize("make", [lambda draw: cluster(draw, whole=False), lopsided], ids=["any", "lopsided"])
def test_what_all_topics_are_forced_to_is_so(make):
    tight = 0
    for seed in range(CLUSTERS):
        found = make(random.Random(seed))
        grows = [at for at, row in enumerate(found.rows) if len(row[2]) < found.factor[row[0]]]
        if not grows:
            continue
        plan = plan_local(Problem(found.table(), found.brokers, 1, found.factor))
        after, rack = planned(plan.table), racks(found.brokers)
        order = dict(zip(after, plan.table.column("preferredOrder").to_pylist(), strict=True))
        rows = [found.rows[at] for at in grows]
        topic, ends = [row[0] for row in rows], [after[row[:2]] for row in rows]
        rest = [row for at, row in enumerate(found.rows) if at not in grows]

        options = [best_spread(completions(row[2], found.factor[row[0]], found.live), rack) for row in rows]
        given = Counter((row[0], broker) for row in rest for broker in row[2])
        own = {spread.topic: spread.bound for spread in plan.topics}
        totals = Counter(broker for replicas in ends for broker in replicas)
        optimum = lowest_excess(options, topic, own, found.live, given, totals)
        worst = plan.summary.topic_replicas
        assert worst.bound - worst.own <= max(optimum, 0)
        tight += worst.bound > worst.own

        orders = [[(broker,) for broker in replicas] for replicas in ends]
        given = Counter((row[0], row[2][0]) for row in rest)
        own = {spread.topic: spread.led_bound for spread in plan.topics}
        totals = Counter(order[row[:2]][0] for row in rows)
        optimum = lowest_excess(orders, topic, own, found.live, given, totals)
        worst = plan.summary.topic_leaders
        assert worst.bound - worst.own <= max(optimum, 0)
        assert worst.max - worst.own == max(optimum, 0) or worst.max - worst.own <= max(optimum, 0) + 1
        tight += worst.bound > worst.own
    assert tight
