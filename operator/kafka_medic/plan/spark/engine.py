"""The planner on Spark: three passes over the partitions, none of which shuffles them or brings them to the driver.

1 survey: count each block, and check its rows. 2 lay out: each block carries out its share, straight into
Parquet. 3 audit: the verifier counts what was written. Between them the driver solves for the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_medic.plan.census import Outcome, outcome
from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.problem import Problem, ProblemError
from kafka_medic.plan.spark.blocks import Refused, Share, Survey, lay_out, survey
from kafka_medic.plan.spark.conclude import SparkPlan, conclude, wrong_numbers
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.spark.share import shares
from kafka_medic.plan.spark.wire import outcome_of, survey_of, text_of

__all__ = ["BLOCK_ROWS", "plan_spark"]

BLOCK_ROWS = 1 << 18
"""Partitions that are planned together. A table that is no larger is planned as one, exactly as `local` plans it."""
SLACKS = (1.3, 2.0, 4.0, 16.0)
"""Waves kept for a block over what its busiest broker needs; the next one where that was too few."""
COLUMNS = ("topic", "partition", "replicas", "leader", "isr", "sizeBytes")
BATCH = 1 << 16
Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]


def plan_spark(spark: Any, source: str, question: Question, target: str) -> SparkPlan:
    """Plan the partitions in the Parquet at `source` and write plan.parquet, a directory, at `target`; both are places
    that every executor sees. Raises ProblemError; whatever PySpark raises passes through."""
    question = _checked(question)
    frame = spark.read.parquet(source)
    frame = frame.select(*[name for name in COLUMNS if name in frame.columns])
    alone = frame.count() <= BLOCK_ROWS
    frame = frame.coalesce(1) if alone else frame
    answers = _surveys(frame, question, alone=alone)
    surveys = [found for found in answers if isinstance(found, Survey)]
    if len(surveys) < len(answers):
        refused = next(found for found in answers if isinstance(found, Refused))
        raise _bad_row(spark, source, refused, alone=alone)
    if (wrong := wrong_numbers(surveys)) is not None:
        raise _bad_number(frame, *wrong)
    schema = _spark_schema(PLAN_SCHEMA)
    divided: dict[tuple[int, int], Share] | None = None
    bound: int | None = None
    for slack in SLACKS:
        if not alone:
            parts, bound = shares(surveys, question, slack)
            divided = {(found.task, found.block): part for found, part in zip(surveys, parts, strict=True)}
        frame.mapInArrow(_lay_out_task(question, divided), schema).write.mode("overwrite").parquet(target)
        outcomes = _audit(spark.read.schema(schema).parquet(target), question)
        if all((found.wave >= 0).all() for found in outcomes):
            break
    return conclude(surveys, outcomes, question, bound)


def _checked(question: Question) -> Question:
    """The question with its brokers by id; raises ProblemError for what needs no partition to be wrong."""
    wanted = question.wanted
    named = {pattern: factor for pattern, factor in wanted.factors if factor < 1}
    nothing = pa.table({"topic": pa.array([], pa.string()), "partition": pa.array([], pa.int32()),
                        "replicas": pa.array([], pa.list_(pa.int32()))})  # fmt: skip
    problem = Problem(nothing, question.brokers, wanted.factor, named)
    return replace(question, brokers=problem.brokers)


def _blocks(batches: Batches, size: int | None) -> Iterator[pa.Table]:
    """The rows of a task in runs of `size` (None: all in one)."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        while size is not None and rows >= size:
            table = pa.Table.from_batches(waiting)
            yield table.slice(0, size)
            waiting, rows = table.slice(size).to_batches(), rows - size
    if rows or (size is None and waiting):
        yield pa.Table.from_batches(waiting)


def _task_number() -> int:
    from pyspark import TaskContext  # noqa: PLC0415 - in the executor

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def _survey_task(question: Question, *, alone: bool, size: int | None) -> Task:
    def run(batches: Batches) -> Batches:
        task = _task_number()
        for block, table in enumerate(_blocks(batches, size)):
            yield _one_text(text_of(survey(table, question, task, block, alone=alone)))

    return run


def _lay_out_task(question: Question, divided: dict[tuple[int, int], Share] | None) -> Task:
    size = None if divided is None else BLOCK_ROWS

    def run(batches: Batches) -> Batches:
        task = _task_number()
        for block, table in enumerate(_blocks(batches, size)):
            if divided is not None and (task, block) not in divided:
                raise RuntimeError("the partitions have changed while they were being planned")
            share = None if divided is None else divided[task, block]
            yield from lay_out(table, question, share).to_batches(max_chunksize=BATCH)

    return run


def _audit_task(question: Question) -> Task:
    def run(batches: Batches) -> Batches:
        for table in _blocks(batches, BLOCK_ROWS):
            yield _one_text(text_of(outcome(table, question.brokers, question.wanted.of)))

    return run


def _one_text(text: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"found": pa.array([text], pa.string())})


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

    return from_arrow_schema(schema)


def _surveys(frame: Any, question: Question, *, alone: bool) -> list[Survey | Refused]:
    task = _survey_task(question, alone=alone, size=None if alone else BLOCK_ROWS)
    rows = frame.mapInArrow(task, "found string").toArrow().column("found").to_pylist()
    return sorted((survey_of(row) for row in rows), key=lambda found: (found.task, found.block))


def _audit(frame: Any, question: Question) -> list[Outcome]:
    rows = frame.mapInArrow(_audit_task(question), "found string").toArrow().column("found").to_pylist()
    return [outcome_of(row) for row in rows]


def _bad_row(spark: Any, source: str, bad: Refused, *, alone: bool) -> ProblemError:
    """What is wrong, with the row's number in its file."""
    if bad.row is None:
        return ProblemError(None, bad.reason)
    place = bad.block * BLOCK_ROWS + bad.row - 1

    def pick(batches: Batches) -> Batches:
        before = 0
        here = alone or _task_number() == bad.task
        for batch in batches:
            if here and before <= place < before + batch.num_rows:
                yield batch.slice(place - before, 1)
            before += batch.num_rows

    frame = spark.read.parquet(source)
    several = len(set(frame.inputFiles())) > 1
    frame = frame.select("_metadata.file_name", "_metadata.row_index")
    frame = frame.coalesce(1) if alone else frame
    found = frame.mapInArrow(pick, "file_name string, row_index long").toArrow().to_pylist()
    if not found:
        return ProblemError(None, bad.reason)
    where = f"{found[0]['file_name']}: " if several else ""
    return ProblemError(found[0]["row_index"] + 1, where + bad.reason)


def _bad_number(frame: Any, topic: str, last: int) -> ProblemError:
    """Which partition of a topic is missing or listed twice."""
    numbers = frame.where(frame["topic"] == topic).select("partition")
    twice = numbers.groupBy("partition").count().where("count > 1").orderBy("partition").limit(1).toArrow().to_pylist()
    if twice:
        return ProblemError(None, f"{topic}-{twice[0]['partition']} is listed {twice[0]['count']} times")
    gap = np.setdiff1d(np.arange(last), numbers.toArrow().column("partition").to_numpy())
    return ProblemError(None, f"{topic}-{int(gap[0])} is missing, though {topic}-{last} is here")
