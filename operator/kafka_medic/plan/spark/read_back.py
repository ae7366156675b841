"""A plan that is stored, beside the partitions as they are now: the verifier's rules, block by block on Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_medic.plan.arrow import compute
from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.problem import ProblemError
from kafka_medic.plan.relocation import SpreadRacks
from kafka_medic.plan.solver.disk_capacity import refuse_overfull
from kafka_medic.plan.spark import frames
from kafka_medic.plan.spark.packed import block_count, by_block, canonical
from kafka_medic.plan.spark.place import Place
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.verify.moves import less_even
from kafka_medic.plan.verify.part import LOADS, replicas_of_brokers, wave_loads
from kafka_medic.plan.verify.rules import over_allowed, shared_racks

__all__ = ["ReadBack", "verify_on_spark"]

PARTITIONS, PLAN = 0, 1
EXAMPLES = 20
"""Broken rules that are named."""
_FIELDS: Any = [("found", pa.string()), *((name, pa.int64()) for name in LOADS)]
_SCHEMA: pa.Schema = pa.schema(_FIELDS)


@dataclass(frozen=True)
class ReadBack:
    """broken: rules that the plan breaks, none if it keeps all. rows, moves: partitions and replicas of the plan."""

    broken: tuple[str, ...]
    rows: int
    moves: int


def verify_on_spark(
    spark: Any, source: Place, plan: Place, question: Question, rows: int, say: Callable[[str], None]
) -> ReadBack:
    """Check the plan at `plan` against the partitions at `source`. rows: of a block. Raises ProblemError for partitions
    that cannot be planned; what PySpark raises passes through."""
    frame = frames.partitions(spark, source)
    say("counting partitions")
    count = block_count(frames.count(frame, source), rows)
    both = frames.side_by_side(frame, frames.plan(spark, plan), count)
    say("checking the plan")
    checked = frames.kept(frames.mapped(both, _checking(question, whole=count == 1), frames.LOADS))
    try:
        found = [json.loads(text) for text in frames.answers(checked)]
        if refused := sorted(one["refused"] for one in found if "refused" in one):
            raise ProblemError(None, refused[0])
        broken = [rule for one in found for rule in one["broken"]]
        if not broken:
            broken = frames.over_limits(checked, question.limits)
    finally:
        checked.unpersist()
    none = np.zeros(len(question.standing), dtype=np.int64)
    arriving, come = (np.sum([none, *(one[name] or none for one in found)], axis=0) for name in ("arriving", "come"))
    moves = sum(one["moves"] for one in found)
    if question.lowers is not None and moves > question.lowers:
        broken.append(f"{moves} moves where {question.lowers} are allowed")
    broken += _owed(question, found)
    broken += over_allowed(come.astype(np.int64), arriving.astype(np.int64), question.allowed)
    try:
        refuse_overfull(arriving.astype(np.int64), question.standing)
    except ProblemError as error:
        broken.append(error.reason)
    return ReadBack(tuple(broken[:EXAMPLES]), sum(one["rows"] for one in found), moves)


def _owed(question: Question, found: list[dict[str, Any]]) -> list[str]:
    """What the question asks of all rows together, as `Check.owed` has it in one process."""
    none = np.zeros(len(question.standing), dtype=np.int64)
    if question.lowers is not None:
        alive = np.array([broker.alive for broker in question.standing], dtype=bool)
        before, after = (np.sum([none, *(one[name] or none for one in found)], axis=0) for name in ("before", "after"))
        live = [broker for broker in question.standing if broker.alive]
        return less_even(live, before[alive].astype(np.int64), after[alive].astype(np.int64))
    if isinstance(question.ask, SpreadRacks):
        return []  # each row was held to its racks
    bad, unavoidable = (sum((one["racks"] or (0, 0))[n] for one in found) for n in (0, 1))
    return shared_racks(bad, unavoidable)


def _checking(question: Question, *, whole: bool) -> frames.Work:
    def work(batches: frames.Batches) -> Iterator[Any]:
        sides: tuple[dict[int, pa.Table], ...] = ({}, {})
        held = list(batches)
        for side in (PARTITIONS, PLAN):
            mine = (batch.filter(compute.equal(batch.column("side"), side)) for batch in held)
            sides[side].update(by_block(mine))
        for number in sorted(sides[PARTITIONS].keys() | sides[PLAN].keys()):
            table = sides[PARTITIONS].pop(number, None)
            yield from _checked(table, sides[PLAN].pop(number, None), question, whole=whole)

    return work


def _checked(table: pa.Table | None, plan: pa.Table | None, question: Question, *, whole: bool) -> Iterator[Any]:
    """What is found in a block, then what its waves load brokers with."""
    if table is None:
        yield _row({"broken": ["the plan names topics that are not among the partitions"]})
        return
    plan = canonical(PLAN_SCHEMA.empty_table()) if plan is None else plan
    try:
        demand = question.demand(table, whole=whole)
    except ProblemError as error:
        yield _row({"refused": error.reason})
        return
    check = demand.check(plan.combine_chunks())
    if broken := check.placement():
        yield _row({"broken": broken})
        return
    loads, arriving = wave_loads(check, question.limits)
    come = check.come()
    before, after = replicas_of_brokers(check)
    found = {"rows": plan.num_rows, "moves": int(come.sum()), "racks": list(map(int, check.rack_figures()))}
    found |= {"arriving": arriving.tolist(), "come": come.tolist(), "before": before.tolist(), "after": after.tolist()}
    yield _row({"broken": [], **found})
    yield from loads.add_column(0, "found", pa.nulls(loads.num_rows, pa.string())).cast(_SCHEMA).to_batches()


def _row(found: dict[str, Any]) -> Any:
    nothing = dict.fromkeys(("rows", "moves", "racks", "arriving", "come", "before", "after"), 0)
    text = json.dumps(nothing | found)
    row: Any = {"found": [text], **{name: [None] for name in LOADS}}
    return pa.RecordBatch.from_pydict(row, _SCHEMA)
