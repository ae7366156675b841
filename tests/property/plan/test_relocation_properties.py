"""Moving replicas, over random clusters: the verifier passes, and nothing is moved that need not be."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import combinations, product

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_medic.plan.allowed import Allowed
from kafka_medic.plan.problem import ProblemError
from kafka_medic.plan.relocation import Leave, LowerImbalance, Relieve, Relocation, SpreadRacks
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.solver.relocate import plan_relocation
from kafka_medic.plan.verify.moves import verify_moves
from kafka_medic.plan.verify.rules import verify
from tests.property.plan.test_plan_properties import CALM, SCHEMA, clusters, cramped, tried
from tests.unit.plan.cluster_tables import brokers, partitions


def planned(problem, question, allowed=None):
    """(question, plan), None where it is refused."""
    with suppress(ProblemError):
        request = Relocation(problem.partitions, problem.brokers, question, allowed or Allowed())
        return request, plan_relocation(request)
    return None


def sized(problem):
    """Without unknown sizes."""
    index = problem.partitions.schema.get_field_index("sizeBytes")
    known = problem.partitions.column("sizeBytes").fill_null(50)
    return replace(problem, partitions=problem.partitions.set_column(index, "sizeBytes", known))


@settings(max_examples=tried(15), suppress_health_check=CALM)
@given(cramped(), st.data())
def test_a_broker_is_left_with_one_move_for_each_of_its_replicas(problem, data):
    broker = data.draw(st.sampled_from(problem.brokers))
    found = planned(problem, Leave((broker.id,), gone=not broker.alive or data.draw(st.booleans())))
    if found is None:
        return
    request, plan = found
    assert verify_moves(request, plan) == []
    dead = {b.id for b in problem.brokers if not b.alive and b.id != broker.id}
    held = [row for row in problem.partitions.column("replicas").to_pylist() if broker.id in row]
    assert plan.summary.moves == sum(dead.isdisjoint(row) for row in held)
    assert sum(plan.summary.left_out.values()) == len(held) - plan.summary.moves
    assert plan.summary.leaders_per_broker.max == plan.summary.leaders_per_broker.bound
    assert plan.summary.rack_violations == plan.summary.rack_violations_bound
    if all(b.disk_free is None for b in problem.brokers):
        assert plan.summary.replicas_per_broker.max == plan.summary.replicas_per_broker.bound


@settings(max_examples=tried(15), suppress_health_check=CALM)
@given(cramped())
def test_racks_are_spread_over_with_the_fewest_moves_and_then_there_is_nothing_left(problem):
    found = planned(problem, SpreadRacks())
    if found is None:
        return
    request, plan = found
    assert verify_moves(request, plan) == []
    assert plan.summary.rack_violations == 0
    again = planned(replace(problem, partitions=carried_out(problem, plan)), SpreadRacks())
    assert again is None or again[1].summary.moves == 0


@settings(max_examples=tried(40), suppress_health_check=CALM)
@given(
    st.randoms(use_true_random=False),
    st.integers(10, 60),
    st.lists(st.sampled_from((1.0, 1.5, 2.0, 3.0)), min_size=5, max_size=5),
    st.integers(1, 6),
)
def test_racks_are_spread_over_within_the_moves_allowed_whatever_brokers_weigh(random, partition_count, weights, moves):
    """Of brokers with weights too, of which more replicas are released than may move in the end."""
    table = partitions({"t": [random.sample(range(5), 2) for _ in range(partition_count)]})
    uneven = tuple(
        replace(broker, rack=f"rack-{broker.id % 2}", weight=weight)
        for broker, weight in zip(brokers(5), weights, strict=True)
    )
    request = Relocation(table, uneven, SpreadRacks(), Allowed(moves=moves))
    plan = plan_relocation(request)
    assert verify_moves(request, plan) == []
    assert plan.summary.moves <= moves


@settings(max_examples=tried(15), suppress_health_check=CALM)
@given(cramped(), st.integers(1, 60), st.booleans())
def test_imbalance_is_lowered_within_the_moves_allowed(problem, moves, weighted):
    if weighted:
        brokers = tuple(replace(b, weight=1.0 + n % 3) for n, b in enumerate(problem.brokers))
        problem = replace(problem, brokers=brokers)
    found = planned(problem, LowerImbalance(moves))
    if found is None:
        return
    request, plan = found
    assert verify_moves(request, plan) == []
    assert plan.summary.moves <= moves


@settings(max_examples=tried(60))
@given(st.lists(st.integers(0, 7), min_size=1, max_size=60), st.integers(1, 40), st.integers(0, 4))
def test_without_racks_imbalance_is_as_low_as_that_many_moves_can_make_it(held, moves, empty):
    table = partitions({"t": [[broker] for broker in held]})
    plan = plan_relocation(Relocation(table, brokers(8 + empty), LowerImbalance(moves)))
    figures = plan.summary.replicas_per_broker
    assert figures.max == figures.bound
    assert plan.summary.moves == plan.summary.lower_bound_moves
    if plan.summary.moves < moves:
        assert figures.max - figures.min <= 1


@settings(max_examples=tried(40), suppress_health_check=CALM)
@given(cramped(), st.integers(1, 60), st.booleans(), st.booleans())
def test_bytes_become_more_even_and_replicas_no_less(problem, moves, weighted, limited):
    problem = sized(problem)
    if weighted:
        brokers = tuple(replace(b, weight=1.0 + n % 3) for n, b in enumerate(problem.brokers))
        problem = replace(problem, brokers=brokers)
    allowed = Allowed(bytes=700, moves_per_broker=4, bytes_per_broker=300) if limited else Allowed()
    found = planned(problem, LowerImbalance(moves, by_bytes=True), allowed)
    if found is None:
        return
    request, plan = found
    assert verify_moves(request, plan) == []
    assert plan.summary.moves <= moves
    still = plan_relocation(replace(request, allowed=Allowed(exclude_topics=("*",))))
    assert still.summary.moves == 0
    assert plan.summary.bytes_per_broker.max <= still.summary.bytes_per_broker.max
    was, now = still.summary.replicas_per_broker, plan.summary.replicas_per_broker
    assert was.min <= now.min <= now.max <= was.max


@settings(max_examples=tried(60), suppress_health_check=CALM)
@given(
    st.lists(st.tuples(st.permutations(range(3)), st.integers(1, 2), st.integers(1, 50)), min_size=1, max_size=5),
    st.integers(1, 3),
)
def test_no_plan_with_so_many_moves_has_fewer_bytes_on_its_fullest_broker_than_the_bound(rows, moves):
    held = [tuple(order[:factor]) for order, factor, _ in rows]
    size = [bytes_ for _, _, bytes_ in rows]
    table = partitions({"t": [list(row) for row in held]}, sizeBytes=size)
    figures = plan_relocation(Relocation(table, brokers(3), LowerImbalance(moves, by_bytes=True))).summary
    best = min(
        max(sum(s for s, row in zip(size, rows_after, strict=True) if broker in row) for broker in range(3))
        for rows_after in product(*(list(combinations(range(3), len(row))) for row in held))
        if sum(len(set(after) - set(row)) for after, row in zip(rows_after, held, strict=True)) <= moves
    )
    assert figures.bytes_per_broker.bound <= best <= figures.bytes_per_broker.max


@settings(max_examples=tried(6), suppress_health_check=CALM)
@given(
    clusters(),
    st.randoms(use_true_random=False),
    st.sampled_from([SpreadRacks(), LowerImbalance(20), LowerImbalance(20, by_bytes=True)]),
)
def test_the_order_of_the_rows_does_not_matter(problem, random, question):
    problem = sized(problem)
    rows = problem.partitions.to_pylist()
    random.shuffle(rows)
    shuffled = replace(problem, partitions=pa.Table.from_pylist(rows, SCHEMA))
    assert planned(shuffled, question)[1].table.equals(planned(problem, question)[1].table)


@settings(max_examples=tried(40), suppress_health_check=CALM)
@given(cramped(), st.data())
def test_every_question_keeps_to_what_is_allowed(problem, data):
    ids = [broker.id for broker in problem.brokers]
    some = st.frozensets(st.sampled_from(ids), max_size=3)
    exclude, only = data.draw(some), data.draw(some)
    number = st.none() | st.integers(1, 12)
    allowed = Allowed(
        exclude, only - exclude, data.draw(st.sampled_from([(), ("t0",)])), data.draw(number), data.draw(number),
        data.draw(number), data.draw(number),
    )  # fmt: skip
    leave = data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=3, unique=True))
    gone = data.draw(st.booleans())
    question = data.draw(st.sampled_from([Leave(tuple(leave), gone, gone), SpreadRacks(), LowerImbalance(9), None]))
    with suppress(ProblemError):
        if question is None:
            request = replace(problem, allowed=allowed)
            assert verify(request, plan_local(request)) == []
        else:
            request = Relocation(problem.partitions, problem.brokers, question, allowed)
            assert verify_moves(request, plan_relocation(request)) == []


@settings(max_examples=tried(60), suppress_health_check=CALM)
@given(cramped(), st.data())
def test_brokers_are_relieved_of_enough_bytes_and_of_no_replica_too_many(problem, data):
    held = {b.id: 0 for b in problem.brokers}
    for row in problem.partitions.to_pylist():
        for broker in row["replicas"]:
            held[broker] += row["sizeBytes"] or 0
    named = data.draw(st.lists(st.sampled_from([b.id for b in problem.brokers]), min_size=1, max_size=2, unique=True))
    need = {broker: max(held[broker] * data.draw(st.integers(1, 90)) // 100, 1) for broker in named}
    found = planned(problem, Relieve(tuple(need.items())))
    if found is None:
        return
    request, plan = found
    assert verify_moves(request, plan) == []
    size = {(r["topic"], r["partition"]): r["sizeBytes"] for r in problem.partitions.to_pylist()}
    come = dict.fromkeys(held, 0)
    left: dict[int, list[int]] = {broker: [] for broker in named}
    for move in plan.moves():
        bytes_ = size[move.topic, move.partition]
        (gone,) = set(move.replicas_before) - set(move.replicas)
        (taker,) = set(move.replicas) - set(move.replicas_before)
        left[gone].append(bytes_)
        come[taker] += bytes_
    for broker, sizes in left.items():
        assert sum(sizes) >= need[broker] > sum(sizes) - min(sizes)
    for broker in problem.brokers:
        assert broker.disk_free is None or come[broker.id] <= broker.disk_free
        assert broker.id not in named or not come[broker.id]
    assert plan.summary.leaders_per_broker.max == plan.summary.leaders_per_broker.bound
    assert plan.summary.rack_violations == plan.summary.rack_violations_bound
    if all(b.disk_free is None for b in problem.brokers):
        assert plan.summary.replicas_per_broker.max == plan.summary.replicas_per_broker.bound


@settings(max_examples=tried(40), suppress_health_check=CALM)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.data())
def test_few_replicas_free_as_few_bytes_as_any_choice_of_them(sizes, data):
    need = data.draw(st.integers(1, sum(sizes)))
    rows = [[0, 1]] * len(sizes)
    isr = pa.array(rows, pa.list_(pa.int32()))
    table = partitions({"t": rows}, isr=isr, sizeBytes=pa.array(sizes, pa.int64()))
    plan = plan_relocation(Relocation(table, brokers(3), Relieve(((0, need),))))
    reached = {0}
    for size in sizes:
        reached |= {one + size for one in reached}
    assert sum(move.size_bytes for move in plan.moves()) == min(one for one in reached if one >= need)


def carried_out(problem, plan):
    moved = {(move.topic, move.partition): list(move.replicas) for move in plan.moves()}
    rows = problem.partitions.select(["topic", "partition", "replicas"]).to_pylist()
    for row in rows:
        row["replicas"] = moved.get((row["topic"], row["partition"]), row["replicas"])
    return pa.Table.from_pylist(rows, pa.schema([SCHEMA.field(name) for name in ("topic", "partition", "replicas")]))
