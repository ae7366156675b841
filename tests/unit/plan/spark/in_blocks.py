"""The passes of the Spark engine over the blocks of a table, without Spark."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.problem import ProblemError
from kafka_medic.plan.solver.disk_capacity import refuse_overfull
from kafka_medic.plan.spark.blocks import Refused, lay_out, let_in, lower, place, survey
from kafka_medic.plan.spark.conclude import conclude, wrong_numbers
from kafka_medic.plan.spark.packed import canonical
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.spark.share import LETTING_IN, exchanges, grants, placed_bound, rooms, shares
from kafka_medic.plan.spark.wire import laid_of, survey_of, text_of


def in_blocks(table, rows):
    """The table in blocks of at least so many rows, each topic in one, as the engine's hash has it of large tables; or
    in blocks of these very rows."""
    if not isinstance(rows, int):
        return [canonical(table.take(of)) for of in rows]
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


def planned_in_blocks(table, question: Question, rows: int | list[list[int]], slacks=(1.3, 4.0, 16.0, 64.0)):
    """(plan table, SparkPlan) of a table in blocks, as `in_blocks` has them."""
    blocks, surveys = surveyed(table, question, rows)
    if refused := [found for found in surveys if isinstance(found, Refused)]:
        raise ProblemError(None, refused[0].reason)
    bound = None

    def passed(work, parts):
        nonlocal blocks, surveys
        made = [work(b, question, *part, n) for n, (b, part) in enumerate(zip(blocks, parts, strict=True))]
        blocks, surveys = [block for block, _ in made], [survey_of(text_of(found)) for _, found in made]

    if question.lowers is not None:
        loads, bound = exchanges(surveys, question, question.lowers)
        passed(lower, loads)
    else:
        for turn in range(LETTING_IN):
            if (granted := grants(surveys, question, first=not turn)) is None:
                break
            passed(let_in, granted)
        if question.allowed.limits_brokers and any(found.changed for found in surveys):
            parts, _ = shares(surveys, question, slacks[0])
            passed(place, list(zip(parts, rooms(surveys, parts, question), strict=True)))
            bound = placed_bound(surveys, question)
    placed = bound is not None
    assert wrong_numbers(piece for one in surveys for piece in one.pieces) is None
    for slack in slacks:
        parts, proven = shares(surveys, question, slack, placed=placed)
        bound = bound if proven is None else proven
        both = [lay_out(block, question, part, n) for n, (block, part) in enumerate(zip(blocks, parts, strict=True))]
        plans, laid = [plan for plan, _, _ in both], [laid_of(text_of(one)) for _, _, one in both]
        if all(one.counts is not None for one in laid):
            break
    done = conclude(laid, question, bound)
    listed = Counter(reason for _, left, _ in both for reason in left.column("reason").to_pylist())
    assert listed == {why.sentence: count for why, count in done.summary.left_out.items()}
    refuse_overfull(np.sum([one.counts.arriving for one in laid], axis=0), question.standing)
    return pa.concat_tables([PLAN_SCHEMA.empty_table(), *plans]), done
