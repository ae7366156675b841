"""How evenly a plan lays each single topic on the brokers: the worst topic beside its bound, on both engines.

    python -m benchmarks.plan_topics [--only kafka]... [--large]

Each row is one cluster whose replication factor is raised. `one process` plans it at once, `blocks` in four blocks as
tasks of Spark do, each topic in the block that a hash of its name gives it. `replicas` is the most replicas of one
topic on one broker, of the topic that is furthest above its bound; `leaders` the same of preferred leaders. Both
engines are counted by the same function, beside the same bounds. The other bounds have to be met as well, or the row
says which is not.
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from kafka_medic.plan.arrow import flat_values, integers, list_lengths
from kafka_medic.plan.leaders.topic_spread import REPORTED_TOPICS, after_plan, fullest, worst
from kafka_medic.plan.lists import codes_among, place_among
from kafka_medic.plan.model import Fullest, Summary
from kafka_medic.plan.problem import Broker, Problem
from kafka_medic.plan.solver.local import place, plan_local
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.wanted import Wanted
from tests.unit.plan.spark.in_blocks import planned_in_blocks

BLOCKS = 4


@dataclass(frozen=True)
class Case:
    """topics: partitions of each. racks: 0 none, else how many; uneven: the last ones have most brokers. layout: how
    what is held lies: as Kafka lays it out itself, at random, skewed (a tenth of the brokers has half of it), or piled
    (the first replica of a topic always on one broker). new: brokers that are empty; dead: brokers that are gone;
    others: topics that hold three already and are left alone. weights: every fourth broker counts double. tail: sizes
    with a heavy tail, and disks with little free capacity."""

    name: str
    brokers: int
    topics: tuple[int, ...]
    held: int = 1
    factor: int = 3
    racks: int = 0
    uneven: bool = False
    layout: str = "kafka"
    new: int = 0
    dead: int = 0
    others: int = 0
    weights: bool = False
    tail: bool = False
    factors: tuple[tuple[str, int], ...] = field(default=())


def racks_of(case: Case, rng: np.random.Generator) -> np.ndarray:
    """int[B] rack of each broker."""
    if not case.uneven:
        return np.arange(case.brokers) % max(case.racks, 1)
    share = np.arange(1, case.racks + 1)
    rack = np.sort(rng.choice(case.racks, size=case.brokers, p=share / share.sum()))
    rack[: case.racks] = np.arange(case.racks)
    return rack


def held_by(case: Case, rack: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """int[N, H] brokers of each partition."""
    full = case.brokers - case.new
    size = np.array(case.topics)
    topic = np.repeat(np.arange(len(size)), size)
    number = np.arange(len(topic)) - np.repeat(np.cumsum(size) - size, size)
    if case.layout == "kafka":
        # AdminUtils: brokers in turn of the racks, consecutive partitions on consecutive brokers, followers shifted.
        place = np.empty(full, dtype=np.int64)
        for one in np.unique(rack[:full]):
            members = np.flatnonzero(rack[:full] == one)
            place[members] = np.arange(len(members))
        listed = np.lexsort((rack[:full], place)) if case.racks else np.arange(full)
        start, shift = rng.integers(0, full, len(size)), rng.integers(0, max(full - 1, 1), len(size))
        first = start[topic] + number
        turn = shift[topic] + first // full
        at = [first % full]
        at += [(first + 1 + (turn + more) % max(full - 1, 1)) % full for more in range(case.held - 1)]
        return listed[np.stack(at, axis=1)]
    share = np.ones(full)
    if case.layout == "skewed":
        share[: max(full // 10, 1)] = full / max(full // 10, 1)
    share /= share.sum()
    if case.layout == "piled":
        at = [rng.integers(0, full, len(size))[topic]]
    else:
        at = [rng.choice(full, size=len(topic), p=share)]
    apart = case.racks and case.held <= case.racks
    while len(at) < case.held:
        more = rng.choice(full, size=len(topic), p=share)
        while (bad := np.any([more == b if not apart else rack[more] == rack[b] for b in at], axis=0)).any():
            more[bad] = rng.choice(full, size=int(bad.sum()), p=share)
        at.append(more)
    return np.stack(at, axis=1)


def problem(case: Case, seed: int = 1) -> Problem:
    """The cluster of a case; equal for equal seeds."""
    rng = np.random.default_rng(seed)
    rack = racks_of(case, rng)
    held = held_by(case, rack, rng)
    size = np.array(case.topics)
    name = [f"t{number:06}" for number in range(len(size))]
    rows = [pa.array(np.repeat(name, size)), np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size), held]
    bytes_ = rng.pareto(1.1, len(held)).clip(max=1e4) * 1e6 if case.tail else rng.integers(0, 1 << 30, len(held))
    lists = list(held.tolist())
    topics, numbers = rows[0].to_pylist(), rows[1].tolist()
    live = case.brokers - case.dead
    for other in range(case.others):
        for number in range(12):
            topics.append(f"other{other:03}")
            numbers.append(number)
            gone = live + other % case.dead if case.dead and number % 2 else None
            here = rng.choice(live, size=3, replace=False).tolist()
            lists.append([*here[:2], gone] if gone is not None else here)
    sizes = [*bytes_.astype(int).tolist(), *[0] * (len(topics) - len(bytes_))]
    table = pa.table(
        {
            "topic": topics,
            "partition": pa.array(numbers, pa.int32()),
            "replicas": pa.array(lists, pa.list_(pa.int32())),
            "sizeBytes": pa.array(sizes, pa.int64()),
        }
    )
    listed = tuple(
        Broker(b, f"r{rack[b]}" if case.racks else None, b < live, weight=2.0 if case.weights and b % 4 == 0 else 1.0)
        for b in range(case.brokers)
    )
    if case.tail:
        coming = int(sum(sizes)) * (case.factor - case.held)
        listed = tuple(replace(b, disk_free=int(1.3 * coming / case.brokers) + 2 * max(sizes)) for b in listed)
    wanted = Wanted(case.factor, case.factors)
    return Problem(table, listed, case.factor, wanted.factors_of(set(topics)))


MIXED = (*[1] * 40, *[12] * 20, *[60] * 12, *[100] * 6)
WIDE = (*[1] * 400, *[12] * 400, *[60] * 200, *[100] * 150, 5000)
LONG = (*[1] * 400, *[12] * 400, *[60] * 200, *[100] * 200, 5000, 5000)

HUGE = (100,) * 2000

CASES = (
    Case("kafka, 12 brokers, no racks", 12, MIXED),
    Case("kafka, 12 brokers, no racks, 2 held", 12, MIXED, held=2),
    Case("kafka, 12 brokers, 3 racks", 12, MIXED, racks=3),
    Case("kafka, 12 brokers, 5,000 partitions", 12, (*MIXED, 5000)),
    Case("kafka, 60 brokers, no racks", 60, (60,) * 40),
    Case("kafka, 60 brokers, no racks, mixed", 60, WIDE),
    Case("kafka, 60 brokers, no racks, 2 held", 60, WIDE, held=2),
    Case("kafka, 60 brokers, 3 racks", 60, WIDE, racks=3),
    Case("kafka, 60 brokers, 6 uneven racks", 60, WIDE, racks=6, uneven=True),
    Case("kafka, 300 brokers, no racks", 300, (50,) * 300),
    Case("kafka, 300 brokers, no racks, mixed", 300, LONG),
    Case("kafka, 300 brokers, 3 racks, 2 held", 300, LONG, racks=3, held=2),
    Case("kafka, 1,000 brokers, no racks", 1000, LONG),
    Case("kafka, 1,000 brokers, 10 uneven racks", 1000, LONG, racks=10, uneven=True),
    Case("random, 12 brokers, no racks", 12, MIXED, layout="random"),
    Case("random, 12 brokers, 3 racks, 2 held", 12, MIXED, racks=3, held=2, layout="random"),
    Case("random, 60 brokers, no racks", 60, WIDE, layout="random"),
    Case("random, 300 brokers, 10 uneven racks", 300, LONG, racks=10, uneven=True, layout="random"),
    Case("skewed, 6 brokers, no racks", 6, (100,) * 10, layout="skewed"),
    Case("skewed, 6 brokers, no racks, 1 to 2", 6, (100,) * 10, factor=2, layout="skewed"),
    Case("skewed, 60 brokers, 3 racks", 60, WIDE, racks=3, layout="skewed"),
    Case("skewed, 300 brokers, 10 uneven racks", 300, LONG, racks=10, uneven=True, layout="skewed"),
    Case("piled, 12 brokers, no racks", 12, MIXED, layout="piled"),
    Case("piled, 60 brokers, 3 racks", 60, WIDE, racks=3, layout="piled"),
    Case("new and empty: 4 of 16 brokers", 16, MIXED, new=4),
    Case("new and empty: 2 of 60, 3 racks", 60, WIDE, racks=3, new=2),
    Case("a rack of one broker, 13 brokers", 13, MIXED, racks=3, uneven=True),
    Case("mixed factors, 60 brokers", 60, WIDE, factors=(("t*1", 2), ("t*2", 5))),
    Case("weights, 60 brokers, 3 racks", 60, WIDE, racks=3, weights=True),
    Case("weights, 12 brokers, no racks", 12, MIXED, weights=True),
    Case("heavy-tailed sizes, 60 brokers, 3 racks", 60, WIDE, racks=3, tail=True),
    Case("2 dead brokers that others hold, 12 left", 14, MIXED, new=2, dead=2, others=20),
    Case("5 dead brokers that others hold, 3 racks", 65, WIDE, racks=3, new=5, dead=5, others=60),
    Case("2 racks and factor 3, 12 brokers", 12, MIXED, racks=2),
    Case("2 racks and factor 4, 60 brokers", 60, WIDE, racks=2, factor=4),
)
LARGE = (
    Case("kafka, 300 brokers, no racks, 200,000", 300, HUGE),
    Case("random, 300 brokers, 3 racks, 200,000, 2 held", 300, HUGE, 2, racks=3, layout="random"),
    Case("kafka, 1,000 brokers, no racks, 200,000", 1000, (50,) * 4000),
    Case("skewed, 1,000 brokers, 10 uneven racks, 200,000", 1000, HUGE, racks=10, uneven=True, layout="skewed"),
    Case("new and empty: 30 of 300, 3 racks, 100,000", 300, (100,) * 1000, racks=3, new=30),
)  # fmt: skip


def hashed(table: pa.Table) -> list[list[int]]:
    """The rows of each block."""
    number = [zlib.crc32(topic.encode()) % BLOCKS for topic in table.column("topic").to_pylist()]
    return [[row for row, block in enumerate(number) if block == wanted] for wanted in range(BLOCKS)]


def counted(request: Problem, plan: pa.Table) -> tuple[Fullest | None, Fullest | None]:
    """The topics whose replicas, and whose leaders, lie least evenly, of any plan for a cluster."""
    columns, ids = request.columns, [broker.id for broker in request.brokers]
    names = list(columns.topics)
    key = columns.topic.astype(np.int64) << 32 | columns.partition
    rows = np.searchsorted(key, codes_among(plan.column("topic"), names) << 32 | integers(plan.column("partition")))
    lists = plan.column("preferredOrder")
    order = np.full((len(rows), int(list_lengths(lists).max(initial=1))), -1, dtype=np.int32)
    order[np.arange(order.shape[1]) < list_lengths(lists)[:, None]] = place_among(np.array(ids), flat_values(lists))
    by_row = np.argsort(rows)
    rows, order = rows[by_row], order[by_row]
    live = np.array([broker.alive for broker in request.brokers])
    least = place(columns, request.missing, request.brokers).of_topics
    changed = np.zeros(len(names), dtype=bool)
    changed[columns.topic[rows]] = True
    after = after_plan(columns.topic, columns.held, rows, order, live, least, live)
    return fullest(worst(after.among(changed), columns.topic, columns.held, names, live, REPORTED_TOPICS), after.shared)


def summaries(request: Problem, case: Case) -> Iterator[tuple[str, Summary, float]]:
    """(engine, summary, processor seconds) of both."""
    began = time.process_time()
    plan = plan_local(request)
    yield "one process", plan.summary, time.process_time() - began
    question = Question(request.brokers, Wanted(case.factor, case.factors))
    began = time.process_time()
    plan, done = planned_in_blocks(request.partitions, question, hashed(request.partitions))
    seconds = time.process_time() - began
    each, led = counted(request, plan)
    yield "blocks", replace(done.summary, topic_replicas=each, topic_leaders=led), seconds


def missed(summary: Summary) -> str:
    """Which of the objectives that go before are not at their bounds."""
    figures = {
        "moves": summary.moves - summary.lower_bound_moves,
        "racks": summary.rack_violations - summary.rack_violations_bound,
        "replicas": summary.replicas_per_broker.max - summary.replicas_per_broker.bound,
        "leaders": summary.leaders_per_broker.max - summary.leaders_per_broker.bound,
    }
    return ", ".join(f"{name} +{above}" for name, above in figures.items() if above)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="cases with TEXT in the name")
    parser.add_argument("--large", action="store_true", help="the large cases too")
    args = parser.parse_args()
    print("| cluster | engine | replicas (bound) | leaders (bound) | above | processor s | misses |")
    print("|---|---|---|---|---|---|---|")
    for case in (*CASES, *(LARGE if args.large else ())):
        if args.only and not any(text in case.name for text in args.only):
            continue
        for engine, found, seconds in summaries(problem(case), case):
            each, led = found.topic_replicas, found.topic_leaders
            assert each is not None
            assert led is not None
            print(
                f"| {case.name} | {engine} | {each.max} ({each.bound}) | {led.max} ({led.bound}) "
                f"| {each.max - each.bound}, {led.max - led.bound} | {seconds:.2f} | {missed(found)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
