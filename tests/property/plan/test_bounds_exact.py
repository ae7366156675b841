"""Bounds beside the exact optimum, on thousands of tiny clusters: none claims more than is so.

A bound is wrong if a plan of those that `plan.bounds` names is below it. One that is called exact is wrong as well if
none of them reaches it.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pytest

from kafka_medic.plan.bounds import (
    BY_BYTES,
    IN_BLOCKS,
    LEAVE,
    LOWER_BYTES,
    LOWER_IMBALANCE,
    RAISE,
    RELIEVE,
    SPREAD_RACKS,
)
from kafka_medic.plan.problem import Broker, Problem, ProblemError
from kafka_medic.plan.relocation import Leave, LowerImbalance, Relieve, Relocation, SpreadRacks
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.solver.relocate import plan_relocation
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.wanted import Wanted
from tests.property.plan.exact_optima import (
    best_spread,
    completions,
    fewest_moves,
    lowest_leaders,
    lowest_maximum,
    lowest_within,
    racks,
    shared,
)
from tests.thorough import THOROUGH
from tests.unit.plan.spark.in_blocks import planned_in_blocks

CLUSTERS = 2_000 if THOROUGH else 60
"""Of each question."""
SEEDS = [
    pytest.param(range(first, first + CLUSTERS // 4), id=str(first)) for first in range(0, CLUSTERS, CLUSTERS // 4)
]


@dataclass(frozen=True)
class Cluster:
    """rows: (topic, number, replicas); factor: of each topic."""

    brokers: tuple[Broker, ...]
    rows: tuple[tuple[str, int, tuple[int, ...]], ...]
    factor: dict[str, int]

    @property
    def live(self) -> list[int]:
        return [broker.id for broker in self.brokers if broker.alive]

    def table(self, size: list[int] | None = None) -> pa.Table:
        """size: of each partition, which is then in sync everywhere."""
        topics, numbers, replicas = zip(*self.rows, strict=True)
        kinds = pa.int32(), pa.list_(pa.int32())
        columns = pa.array(topics), pa.array(numbers, kinds[0]), pa.array(replicas, kinds[1])
        table = pa.table(dict(zip(("topic", "partition", "replicas"), columns, strict=True)))
        return table if size is None else table.append_column("isr", columns[2]).append_column("sizeBytes", [size])


def cluster(draw: random.Random, *, whole: bool) -> Cluster:
    """2 to 6 brokers, up to 3 racks, up to 15 partitions; whole: every partition has its factor already."""
    count, named = draw.randint(2, 6), draw.choice([0, 1, 2, 3])
    brokers = [Broker(n, "abc"[draw.randrange(named)] if named else None) for n in range(count)]
    factor, rows = {}, []
    skewed = draw.random() < 0.5
    for topic in ("s", "t", "u")[: draw.randint(1, 3)]:
        factor[topic] = draw.randint(1, min(count, 4))
        for number in range(draw.randint(1, 5)):
            held = factor[topic] if whole else draw.randint(1, factor[topic])
            here = range(max(held, draw.randint(1, count)) if skewed else count)
            rows.append((topic, number, tuple(draw.sample(here, held))))
    return Cluster(tuple(brokers), tuple(rows), factor)


def planned(table) -> dict[tuple[str, int], tuple[int, ...]]:
    names = ("topic", "partition", "replicas")
    return {(t, p): tuple(r) for t, p, r in zip(*(table.column(n).to_pylist() for n in names), strict=True)}


def agree(bound: int, optimum: int, *, exact: bool, reached: int) -> None:
    """reached: what the plan came to, which no optimum can be above."""
    assert bound <= optimum <= reached
    if exact:
        assert bound == optimum


def check_spreads(found: Cluster, plan, kept, options, bounds) -> None:
    """Replicas and leaders per broker, in all and of each topic. kept: what every partition keeps; options: what each
    may come to, as spread over racks as can be, by its place."""
    summary, live = plan.summary, found.live
    sets, after = list(options.values()), planned(plan.table)
    given = Counter(b for place, replicas in enumerate(kept) if place not in options for b in replicas)
    led = Counter(row[2][0] for place, row in enumerate(found.rows) if place not in options)
    spread = summary.replicas_per_broker
    optimum = lowest_maximum(sets, live, given)
    agree(spread.bound, optimum, exact=bounds["replicasPerBroker"].exact, reached=spread.max)
    assert spread.any_plan <= optimum
    spread = summary.leaders_per_broker
    orders = [[after[row[:2]]] for place, row in enumerate(found.rows) if place in options]
    optimum = lowest_leaders(orders, live, led)
    agree(spread.bound, optimum, exact=bounds["leadersPerBroker"].exact, reached=spread.max)
    every = [options.get(place, [row[2]]) for place, row in enumerate(found.rows)]
    assert spread.any_plan <= lowest_leaders(every, live, {})
    for topic in plan.topics:
        mine = [sets for place, sets in options.items() if found.rows[place][0] == topic.topic]
        rest = [p for p, row in enumerate(found.rows) if row[0] == topic.topic and p not in options]
        held = Counter(b for place in rest for b in kept[place])
        agree(topic.bound, lowest_maximum(mine, live, held), exact=False, reached=topic.after)
        leads = Counter(found.rows[place][2][0] for place in rest)
        agree(topic.led_bound, lowest_leaders(mine, live, leads), exact=False, reached=topic.led_after)


@pytest.mark.parametrize("seeds", SEEDS)
def test_no_bound_of_a_raise_claims_what_is_not_so(seeds):
    for seed in seeds:
        found = cluster(random.Random(seed), whole=False)
        plan = plan_local(Problem(found.table(), found.brokers, 1, found.factor))
        grows = {n: row for n, row in enumerate(found.rows) if len(row[2]) < found.factor[row[0]]}
        if not grows:
            continue
        rack = racks(found.brokers)
        sets = {n: completions(row[2], found.factor[row[0]], found.live) for n, row in grows.items()}
        options = {n: best_spread(of, rack) for n, of in sets.items()}
        check_spreads(found, plan, [row[2] for row in found.rows], options, RAISE)
        ideal = {
            f: min(shared(one, rack) for one in completions((), f, found.live)) for f in set(found.factor.values())
        }
        uneven = sum(shared(of[0], rack) > ideal[found.factor[grows[n][0]]] for n, of in options.items())
        agree(plan.summary.rack_violations_bound, uneven, exact=True, reached=plan.summary.rack_violations)
        missing = sum(found.factor[row[0]] - len(row[2]) for row in grows.values())
        agree(plan.summary.lower_bound_moves, missing, exact=True, reached=plan.summary.moves)


@pytest.mark.parametrize("seeds", SEEDS)
def test_no_bound_of_a_raise_in_blocks_claims_what_is_not_so(seeds):
    for seed in seeds:
        found = cluster(random.Random(seed), whole=False)
        grows = {n: row for n, row in enumerate(found.rows) if len(row[2]) < found.factor[row[0]]}
        if not grows:
            continue
        question = Question(found.brokers, Wanted(1, tuple(found.factor.items())))
        table, done = planned_in_blocks(found.table(), question, 4)
        rack, summary = racks(found.brokers), done.summary
        options = [best_spread(completions(row[2], found.factor[row[0]], found.live), rack) for row in grows.values()]
        given = Counter(b for place, row in enumerate(found.rows) if place not in grows for b in row[2])
        optimum = lowest_maximum(options, found.live, given)
        exact = IN_BLOCKS["replicasPerBroker"].exact
        agree(summary.replicas_per_broker.bound, optimum, exact=exact, reached=summary.replicas_per_broker.max)
        after = planned(table)
        orders = [[after[row[:2]]] for row in grows.values()]
        led = Counter(row[2][0] for place, row in enumerate(found.rows) if place not in grows)
        optimum = lowest_leaders(orders, found.live, led)
        exact = IN_BLOCKS["leadersPerBroker"].exact
        agree(summary.leaders_per_broker.bound, optimum, exact=exact, reached=summary.leaders_per_broker.max)


@pytest.mark.parametrize("seeds", SEEDS)
def test_no_bound_of_a_broker_that_is_left_claims_what_is_not_so(seeds):
    for seed in seeds:
        draw = random.Random(seed)
        found = cluster(draw, whole=True)
        leaves = draw.choice(found.live)
        try:
            plan = plan_relocation(Relocation(found.table(), found.brokers, Leave((leaves,), gone=False)))
        except ProblemError:
            continue  # fewer brokers are left than a partition has replicas
        rest = Cluster(tuple(b for b in found.brokers if b.id != leaves), found.rows, found.factor)
        kept = [tuple(b for b in row[2] if b != leaves) for row in found.rows]
        rack = racks(rest.brokers)
        options = {
            n: best_spread(completions(kept[n], len(row[2]), rest.live), rack)
            for n, row in enumerate(found.rows)
            if leaves in row[2]
        }
        if options:
            check_spreads(rest, plan, kept, options, LEAVE)


@pytest.mark.parametrize("seeds", SEEDS)
def test_no_bound_of_partitions_spread_over_racks_claims_what_is_not_so(seeds):
    for seed in seeds:
        found = cluster(random.Random(seed), whole=True)
        plan = plan_relocation(Relocation(found.table(), found.brokers, SpreadRacks()))
        rack, options, moves = racks(found.brokers), {}, 0
        for place, row in enumerate(found.rows):
            best = best_spread(completions((), len(row[2]), found.live), rack)
            fewest = min(len(set(one) - set(row[2])) for one in best)
            moves += fewest
            options[place] = [one for one in best if len(set(one) - set(row[2])) == fewest]
        summary = plan.summary
        agree(summary.lower_bound_moves, moves, exact=SPREAD_RACKS["moves"].exact, reached=summary.moves)
        spread = summary.replicas_per_broker
        optimum = lowest_maximum(list(options.values()), found.live, {})
        agree(spread.bound, optimum, exact=SPREAD_RACKS["replicasPerBroker"].exact, reached=spread.max)


@pytest.mark.parametrize("seeds", SEEDS)
def test_no_bound_of_a_lowered_imbalance_claims_what_is_not_so(seeds):
    for seed in seeds:
        draw = random.Random(seed)
        found = cluster(draw, whole=True)
        moves = draw.randint(1, 6)
        plan = plan_relocation(Relocation(found.table(), found.brokers, LowerImbalance(moves)))
        held = [row[2] for row in found.rows]
        every = [completions((), len(replicas), found.live) for replicas in held]
        spread, summary = plan.summary.replicas_per_broker, plan.summary
        optimum = lowest_within(every, held, found.live, moves)
        agree(spread.bound, optimum, exact=LOWER_IMBALANCE["replicasPerBroker"].exact, reached=spread.max)
        after = planned(plan.table)
        load = Counter(b for row in found.rows for b in after.get(row[:2], row[2]))
        fewest = fewest_moves(every, held, found.live, load)
        agree(summary.lower_bound_moves, fewest, exact=LOWER_IMBALANCE["moves"].exact, reached=summary.moves)


def held_by(found: Cluster, rows: list[int], size: list[int]) -> Counter[int]:
    """Bytes of these partitions on each broker."""
    return sum((Counter(dict.fromkeys(found.rows[n][2], size[n])) for n in rows), Counter())


@pytest.mark.parametrize("seeds", SEEDS)
def test_no_bound_of_a_raise_by_bytes_claims_what_is_not_so(seeds):
    for seed in seeds:
        draw = random.Random(seed)
        found = cluster(draw, whole=False)
        size = [draw.randint(1, 100) for _ in found.rows]
        plan = plan_local(Problem(found.table(size), found.brokers, 1, found.factor, by_bytes=True))
        grows = [n for n, row in enumerate(found.rows) if len(row[2]) < found.factor[row[0]]]
        if not grows:
            continue
        rest, rack = [n for n in range(len(size)) if n not in grows], racks(found.brokers)
        every = [completions(found.rows[n][2], found.factor[found.rows[n][0]], found.live) for n in grows]
        spread, exact = plan.summary.replicas_per_broker, BY_BYTES["replicasPerBroker"].exact
        optimum = lowest_maximum(every, found.live, Counter(b for n in rest for b in found.rows[n][2]))
        agree(spread.bound, optimum, exact=exact, reached=spread.max)
        assert spread.bound <= spread.any_plan or plan.summary.bounds["replicasPerBroker"].over != "all plans"
        spread, exact = plan.summary.bytes_per_broker, BY_BYTES["bytesPerBroker"].exact
        best = [best_spread(of, rack) for of in every]
        optimum = lowest_maximum(best, found.live, held_by(found, rest, size), [size[n] for n in grows])
        agree(spread.bound, optimum, exact=exact, reached=spread.max)


@pytest.mark.parametrize("seeds", SEEDS)
def test_no_bound_of_an_imbalance_of_bytes_claims_what_is_not_so(seeds):
    for seed in seeds:
        draw = random.Random(seed)
        found = cluster(draw, whole=True)
        size, moves = [draw.randint(1, 100) for _ in found.rows], draw.randint(1, 6)
        plan = plan_relocation(Relocation(found.table(size), found.brokers, LowerImbalance(moves, by_bytes=True)))
        held = [row[2] for row in found.rows]
        every = [completions((), len(replicas), found.live) for replicas in held]
        spread = plan.summary.bytes_per_broker
        optimum = lowest_within(every, held, found.live, moves, size)
        agree(spread.bound, optimum, exact=LOWER_BYTES["bytesPerBroker"].exact, reached=spread.max)


@pytest.mark.parametrize("seeds", SEEDS)
def test_no_bound_of_a_relieved_disk_claims_what_is_not_so(seeds):
    for seed in seeds:
        draw = random.Random(seed)
        found = cluster(draw, whole=True)
        size, broker = [draw.randint(1, 100) for _ in found.rows], draw.choice(found.live)
        need = max(held_by(found, list(range(len(size))), size)[broker] // 2, 1)
        try:
            plan = plan_relocation(Relocation(found.table(size), found.brokers, Relieve(((broker, need),))))
        except ProblemError:
            continue  # no other broker may take so much
        moves = planned(plan.table)
        leaves = [n for n, row in enumerate(found.rows) if row[:2] in moves]
        kept = [tuple(b for b in row[2] if b != broker) if n in leaves else row[2] for n, row in enumerate(found.rows)]
        takers, rack = [b for b in found.live if b != broker], racks(found.brokers)
        options = {n: best_spread(completions(kept[n], len(found.rows[n][2]), takers), rack) for n in leaves}
        check_spreads(found, plan, kept, options, RELIEVE)
