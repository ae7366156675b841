"""A stored plan on Spark: what the question asks of all rows is asked there as in one process."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from kafka_medic.plan.files.read_back import verify_read_back
from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.problem import Broker, Problem
from kafka_medic.plan.relocation import LowerImbalance, Relocation
from kafka_medic.plan.spark import read_back
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.verify.moves import MovesCheck
from kafka_medic.plan.verify.rules import Check
from kafka_medic.plan.wanted import Wanted
from tests.unit.plan.cluster_tables import partitions


def table(changes: dict[int, tuple[list[int], list[int]]]) -> pa.Table:
    """A plan of topic t: by partition, its replicas before and after."""
    before, after = zip(*changes.values(), strict=True)
    lists = (before, after, after)
    columns = [["t"] * len(changes), list(changes), *lists, [0] * len(changes)]
    return pa.table(
        [pa.array(each, field.type) for each, field in zip(columns, PLAN_SCHEMA, strict=True)], schema=PLAN_SCHEMA
    )


def on_spark(question: Question, held: list[list[int]], plan: pa.Table, blocks: int) -> list[str]:
    """What is found broken, of partitions that are dealt to so many blocks."""
    found = []
    for block in range(blocks):
        rows = [n for n in range(len(held)) if n % blocks == block]
        mine = pa.table(
            {
                "topic": ["t"] * len(rows),
                "partition": pa.array(rows, pa.int32()),
                "replicas": pa.array([held[n] for n in rows], pa.list_(pa.int32())),
            }
        )
        changed = plan.filter(pa.array([n in rows for n in plan.column("partition").to_pylist()]))
        first, *_ = read_back._checked(mine, changed, question, whole=blocks == 1)
        found.append(json.loads(first.column("found")[0].as_py()))
    assert all(one["broken"] == [] for one in found), "each row is right by itself"
    return read_back._owed(question, found)


@pytest.mark.parametrize("blocks", [1, 3])
def test_racks_that_are_shared_without_need_are_named(blocks: int) -> None:
    brokers = tuple(Broker(n, rack) for n, rack in enumerate("aabb"))
    held = [[0]] * 6
    bad, good = (table({n: ([0], [0, to]) for n in range(6)}) for to in (1, 2))
    question = Question(brokers, Wanted(2))
    check = Check(Problem(partitions({"t": held}), brokers, 2), bad)
    (told,) = verify_read_back(check, waved=False)
    assert on_spark(question, held, bad, blocks) == [told]
    assert told == "6 partitions are spread over fewer racks than they could be, 0 of them with no choice"
    assert on_spark(question, held, good, blocks) == []


@pytest.mark.parametrize("blocks", [1, 3])
def test_an_imbalance_that_grows_is_named(blocks: int) -> None:
    brokers = tuple(Broker(n) for n in range(6))
    held = [[n % 6] for n in range(12)]
    bad = table({n: (held[n], [0]) for n in range(12) if n % 6})
    question = LowerImbalance(20)
    check = MovesCheck(Relocation(partitions({"t": held}), brokers, question), bad)
    (told,) = verify_read_back(check, waved=False)
    assert on_spark(Question(brokers, question), held, bad, blocks) == [told]
    assert told == "replicas per broker were 2..2 and become 0..12"
    uneven = [[0]] * 4 + [[1]] * 2 + [[2]] * 2
    good = table({0: ([0], [1])})
    assert on_spark(Question(brokers[:3], question), uneven, good, blocks) == []
