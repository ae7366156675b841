"""The passes of the Spark engine over the blocks of a table, without Spark."""

from __future__ import annotations

import pyarrow as pa

from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.solver.disk_capacity import refuse_overfull
from kafka_medic.plan.spark.blocks import Refused, lay_out, survey
from kafka_medic.plan.spark.conclude import conclude, wrong_numbers
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.spark.report_data import scattered
from kafka_medic.plan.spark.share import shares
from kafka_medic.plan.spark.wire import laid_of, plan_checksum_of, survey_of, text_of
from kafka_medic.plan.verify.input_checksum import plan_checksum


def surveyed(table, question, rows):
    blocks = [table.slice(begin, rows) for begin in range(0, table.num_rows, rows)]
    found = [survey(block, question, 0, number, alone=False) for number, block in enumerate(blocks)]
    return blocks, [survey_of(text_of(one)) for one in found]


def shared(found, question, slack):
    marks, _ = scattered([one.topics for one in found], [one.topic_rows for one in found], len(question.brokers))
    return shares(found, marks, question, slack)


def planned_in_blocks(table, question: Question, rows: int, slacks=(1.3, 4.0, 16.0, 64.0)):
    """(plan table, SparkPlan) of a table in blocks of so many rows."""
    blocks, surveys = surveyed(table, question, rows)
    assert not [found for found in surveys if isinstance(found, Refused)]
    assert wrong_numbers(surveys) is None
    for slack in slacks:
        parts, bound = shared(surveys, question, slack)
        both = [lay_out(block, question, part) for block, part in zip(blocks, parts, strict=True)]
        plans, laid = [plan for plan, _ in both], [laid_of(text_of(one)) for _, one in both]
        if all((plan.column("wave").to_numpy() >= 0).all() for plan in plans):
            break
    refuse_overfull(sum(one.arriving for one in laid), question.brokers)
    found = [plan_checksum(plan, question.brokers, question.wanted.of) for plan in plans if plan.num_rows]
    return pa.concat_tables([PLAN_SCHEMA.empty_table(), *plans]), conclude(
        surveys, laid, [plan_checksum_of(text_of(one)) for one in found], question, bound, 0
    )
