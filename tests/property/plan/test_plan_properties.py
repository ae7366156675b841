"""Over random clusters: the verifier passes, nothing is moved that need not be, and every bound is met."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from math import prod
from unittest.mock import patch

import pyarrow as pa
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kafka_medic.plan.problem import Broker, Problem, ProblemError
from kafka_medic.plan.solver import quotas
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.verify.rules import verify
from kafka_medic.plan.wave_limits import WaveLimits
from tests.thorough import THOROUGH

CALM = [HealthCheck.too_slow, HealthCheck.filter_too_much]
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("replicas", pa.list_(pa.int32())),
        ("leader", pa.int32()),
        ("isr", pa.list_(pa.int32())),
        ("sizeBytes", pa.int64()),
    ]
)


def tried(most: int) -> int:
    """So many examples in `make simulate`; a twelfth of them in `make check`."""
    return most if THOROUGH else max(3, most // 12)


@st.composite
def clusters(draw, brokers=(1, 14), topics=(1, 5), partitions=(1, 25)):
    """Uneven racks or none, empty and dead brokers, skewed load, factors 1..5 both held and wanted."""
    count = draw(st.integers(*brokers))
    racks = draw(st.integers(0, 6))
    rack = [f"r{draw(st.integers(0, racks - 1))}" if racks else None for _ in range(count)]
    dead = draw(st.sets(st.integers(0, count - 1), max_size=max(count // 4, 0)))
    ids = draw(st.lists(st.integers(0, 3000), min_size=count, max_size=count, unique=True))
    listed = tuple(Broker(ids[i], rack[i], i not in dead) for i in range(count))
    live = [i for i in range(count) if i not in dead]
    assume(live)
    filled = live[: draw(st.integers(1, len(live)))]  # the rest are new and empty
    skew = draw(st.sampled_from([1.0, 0.4]))
    rows, factors = [], {}
    for number in range(draw(st.integers(*topics))):
        topic = "__consumer_offsets" if number == 0 and draw(st.booleans()) else f"t{number}"
        factors[topic] = draw(st.integers(1, min(5, len(live))))
        width = draw(st.integers(1, min(5, len(filled))))
        for partition in range(draw(st.integers(*partitions))):
            order = list(filled)
            draw(st.randoms(use_true_random=False)).shuffle(order)
            if skew < 1.0:
                order.sort(key=lambda broker: broker > skew * len(filled))
            held = [ids[i] for i in order[:width]]
            if dead and width >= factors[topic] and draw(st.booleans()):
                held[-1] = ids[min(dead)]
            leader = draw(st.sampled_from([held[0], held[-1], None]))
            isr = draw(st.sampled_from([held, held[:1], None]))
            size = draw(st.sampled_from([0, 7, 1000, 10**12, None]))
            rows.append(dict(zip(SCHEMA.names, (topic, partition, held, leader, isr, size), strict=True)))
    return Problem(pa.Table.from_pylist(rows, SCHEMA), listed, 1, factors)


@st.composite
def cramped(draw):
    """A cluster, some of whose brokers say how much room they have."""
    problem = draw(clusters())
    room = st.one_of(st.none(), st.sampled_from([0, 7, 3_000, 10**12, 5 * 10**12, 10**14]))
    return replace(problem, brokers=tuple(replace(broker, disk_free=draw(room)) for broker in problem.brokers))


def planned(problem):
    """The plan; None where it is refused for want of room."""
    with suppress(ProblemError):
        return plan_local(problem)
    return None


def met(summary) -> bool:
    return (
        summary.moves == summary.lower_bound_moves
        and summary.replicas_per_broker.max == summary.replicas_per_broker.bound
        and summary.leaders_per_broker.max == summary.leaders_per_broker.bound
        and summary.rack_violations == summary.rack_violations_bound
    )


@settings(max_examples=tried(120), suppress_health_check=CALM)
@given(clusters())
def test_every_plan_is_valid_and_meets_its_bounds(problem):
    plan = plan_local(problem)
    assert verify(problem, plan) == []
    assert met(plan.summary), plan.summary


@settings(max_examples=tried(40), suppress_health_check=CALM)
@given(clusters(topics=(1, 1), partitions=(60, 200)))
def test_a_single_giant_topic_is_planned_as_well(problem):
    plan = plan_local(problem)
    assert verify(problem, plan) == []
    assert met(plan.summary), plan.summary


@settings(max_examples=tried(18), suppress_health_check=CALM)
@given(clusters(), st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=14, max_size=14))
def test_brokers_of_different_weight_meet_their_bounds_as_well(problem, weights):
    heavier = tuple(replace(b, weight=w) for b, w in zip(problem.brokers, weights, strict=False))
    weighted = replace(problem, brokers=heavier)
    plan = plan_local(weighted)
    assert verify(weighted, plan) == []
    assert met(plan.summary), plan.summary


@settings(max_examples=tried(18), suppress_health_check=CALM)
@given(cramped())
def test_a_balance_by_bytes_is_as_valid_as_one_by_replicas(problem):
    index = problem.partitions.schema.get_field_index("sizeBytes")
    known = problem.partitions.column("sizeBytes").fill_null(50)
    by_bytes = replace(problem, partitions=problem.partitions.set_column(index, "sizeBytes", known), by_bytes=True)
    plan, plain = planned(by_bytes), planned(replace(by_bytes, by_bytes=False))
    if plan is None or plain is None:
        return
    assert verify(by_bytes, plan) == []
    for figure in ("moves", "rack_violations", "rack_violations_bound"):
        assert getattr(plan.summary, figure) == getattr(plain.summary, figure)


@settings(max_examples=tried(18), suppress_health_check=CALM)
@given(cramped())
def test_a_plan_leaves_every_broker_room_or_is_refused_by_broker_and_bytes(problem):
    roomy = plan_local(replace(problem, brokers=tuple(replace(b, disk_free=None) for b in problem.brokers)))
    plan = planned(problem)
    if plan is None:
        assert any("has room for" in rule for rule in verify(problem, roomy))
        return
    assert verify(problem, plan) == []
    for figure in ("moves", "rack_violations", "rack_violations_bound"):
        assert getattr(plan.summary, figure) == getattr(roomy.summary, figure)
    assert plan.summary.replicas_per_broker.bound == roomy.summary.replicas_per_broker.bound


@settings(max_examples=tried(40), suppress_health_check=CALM)
@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_and_of_the_brokers_does_not_matter(problem, random):
    rows = problem.partitions.to_pylist()
    random.shuffle(rows)
    brokers = list(problem.brokers)
    random.shuffle(brokers)
    shuffled = Problem(pa.Table.from_pylist(rows, SCHEMA), tuple(brokers), problem.factor, problem.topic_factors)
    assert plan_local(shuffled).table.equals(plan_local(problem).table)


@settings(max_examples=tried(40), suppress_health_check=CALM)
@given(clusters(), st.integers(1, 4), st.integers(1, 2000), st.integers(1, 9))
def test_waves_keep_to_any_limits(problem, partitions, size, records):
    limits = WaveLimits(bytes_in=size, bytes_out=size, partitions_per_broker=partitions, records=records)
    assert verify(problem, plan_local(problem, limits), limits) == []


@settings(max_examples=tried(60), suppress_health_check=CALM)
@given(clusters())
def test_more_kinds_than_a_table_holds_are_planned_as_well(problem):
    with patch.object(quotas, "LARGEST_TABLE", 0):
        plan = plan_local(problem)
    assert verify(problem, plan) == []
    assert met(plan.summary), plan.summary


@settings(max_examples=tried(100), suppress_health_check=CALM)
@given(clusters(brokers=(2, 5), topics=(1, 2), partitions=(1, 2)), st.booleans())
def test_no_plan_at_all_is_better_on_a_tiny_cluster(problem, pooled):
    violations, loads = best_placement(problem)
    with patch.object(quotas, "LARGEST_TABLE", 0 if pooled else quotas.LARGEST_TABLE):
        plan = plan_local(problem)
    assert plan.summary.rack_violations == violations
    assert plan.summary.replicas_per_broker.bound == loads[0]
    live = [broker.id for broker in problem.brokers if broker.alive]
    reached = Counter(itertools.chain(*final_replicas(problem, plan)))
    assert sorted((reached[broker] for broker in live), reverse=True) == loads

    leaders = best_leaders(problem, plan)
    assert plan.summary.leaders_per_broker.bound == leaders[0]
    led = Counter(first_replicas(problem, plan))
    assert sorted((led[broker] for broker in live), reverse=True) == leaders


def final_replicas(problem, plan):
    planned = {(move.topic, move.partition): move.replicas for move in plan.moves()}
    for row in problem.partitions.to_pylist():
        yield planned.get((row["topic"], row["partition"]), row["replicas"])


def first_replicas(problem, plan):
    planned = {(move.topic, move.partition): move.preferred_order for move in plan.moves()}
    for row in problem.partitions.to_pylist():
        yield planned.get((row["topic"], row["partition"]), row["replicas"])[0]


def best_leaders(problem, plan):
    """The most even loads, fullest broker first, over every order of the planned replica lists."""
    live = [broker.id for broker in problem.brokers if broker.alive]
    planned = {(move.topic, move.partition): move.replicas for move in plan.moves()}
    rows = problem.partitions.to_pylist()
    choices = [planned.get((row["topic"], row["partition"]), row["replicas"][:1]) for row in rows]
    return min(
        sorted((Counter(picked)[broker] for broker in live), reverse=True) for picked in itertools.product(*choices)
    )


def best_placement(problem):
    """(fewest rack violations, then the most even loads, fullest broker first) over every possible plan."""
    live = [broker for broker in problem.brokers if broker.alive]
    rack = {broker.id: broker.rack or str(broker.id) for broker in live}
    held_load: Counter[int] = Counter()
    choices, violations = [], 0

    def unevenness(brokers):
        counts = Counter(rack[broker] for broker in brokers)
        return sum(n * n for n in counts.values())

    for row in problem.partitions.to_pylist():
        held = row["replicas"]
        held_load.update(held)
        missing = problem.topic_factors[row["topic"]] - len(held)
        if missing <= 0:
            continue
        free = [broker.id for broker in live if broker.id not in held]
        options = list(itertools.combinations(free, missing))
        best = min(unevenness([*held, *option]) for option in options)
        anywhere = itertools.combinations(sorted(rack), missing + len(held))
        violations += best > min(unevenness(brokers) for brokers in anywhere)
        choices.append([option for option in options if unevenness([*held, *option]) == best])
    assume(prod(map(len, choices)) <= 2000)
    loads = []
    for picked in itertools.product(*choices):
        load = held_load + Counter(itertools.chain(*picked))
        loads.append(sorted((load[broker] for broker in rack), reverse=True))
    return violations, min(loads)
