"""The passes of the Spark engine over the blocks of a table, without Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.problem import ProblemError
from kafka_medic.plan.solver.disk_capacity import refuse_overfull
from kafka_medic.plan.spark.blocks import Refused, lay_out, lower, survey
from kafka_medic.plan.spark.conclude import conclude, wrong_numbers
from kafka_medic.plan.spark.packed import canonical
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.spark.share import exchanges, shares
from kafka_medic.plan.spark.wire import laid_of, survey_of, text_of


def in_blocks(table, rows):
    """The table in blocks of at least so many rows, each topic in one, as the engine's hash has it of large tables."""
    table = canonical(table)
    blocks, waiting, last = [], [], None
    for number, topic in enumerate(table.column("topic").to_pylist()):
        if topic != last and len(waiting) >= rows:
            blocks.append(waiting)
            waiting = []
        waiting.append(number)
        last = topic
    return [table.take(of) for of in [*blocks, waiting]]


def surveyed(table, question, rows):
    blocks = in_blocks(table, rows)
    found = [survey(block, question, number) for number, block in enumerate(blocks)]
    return blocks, [survey_of(text_of(one)) for one in found]


def planned_in_blocks(table, question: Question, rows: int, slacks=(1.3, 4.0, 16.0, 64.0)):
    """(plan table, SparkPlan) of a table in blocks of so many rows."""
    blocks, surveys = surveyed(table, question, rows)
    if refused := [found for found in surveys if isinstance(found, Refused)]:
        raise ProblemError(None, refused[0].reason)
    bound = None
    if question.lowers is not None:
        loads, bound = exchanges(surveys, question, question.lowers)
        lowered = [lower(b, question, *load, n) for n, (b, load) in enumerate(zip(blocks, loads, strict=True))]
        blocks, surveys = [block for block, _ in lowered], [survey_of(text_of(found)) for _, found in lowered]
    assert wrong_numbers(piece for one in surveys for piece in one.pieces) is None
    for slack in slacks:
        parts, proven = shares(surveys, question, slack)
        bound = bound if proven is None else proven
        both = [lay_out(block, question, part, n) for n, (block, part) in enumerate(zip(blocks, parts, strict=True))]
        plans, laid = [plan for plan, _ in both], [laid_of(text_of(one)) for _, one in both]
        if all(one.counts is not None for one in laid):
            break
    done = conclude(laid, question, bound)
    refuse_overfull(np.sum([one.counts.arriving for one in laid], axis=0), question.standing)
    return pa.concat_tables([PLAN_SCHEMA.empty_table(), *plans]), done
