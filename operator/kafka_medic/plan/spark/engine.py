"""The planner on Spark: three passes over the partitions, none of which shuffles them or brings them to the driver.

1 survey: count each block, and check its rows. 2 lay out: each block carries out its share, straight into
Parquet. 3 audit: the verifier counts what was written. Between them the driver solves for the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs

from kafka_medic.plan.arrow import compute, integers
from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.problem import Problem, ProblemError
from kafka_medic.plan.solver.disk_capacity import refuse_overfull
from kafka_medic.plan.spark.blocks import Refused, Share, Survey, lay_out, survey
from kafka_medic.plan.spark.conclude import SparkPlan, conclude, wrong_numbers
from kafka_medic.plan.spark.parquet import Piece, block_rows, blocks_of, pieces_of, row_in_file, write_piece
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.spark.report_data import scattered
from kafka_medic.plan.spark.share import shares
from kafka_medic.plan.spark.wire import laid_of, plan_checksum_of, survey_of, text_of
from kafka_medic.plan.verify.input_checksum import PlanChecksum, plan_checksum

__all__ = ["BLOCK_ROWS", "plan_spark"]

BLOCK_ROWS = 1 << 18
"""Partitions that are planned together. A table that is no larger is planned as one, exactly as `local` plans it."""
SLACKS = (1.3, 2.0, 4.0, 16.0)
"""Waves kept for a block over what its busiest broker needs; the next one where that was too few."""
READ_BACK_SCHEMA = PLAN_SCHEMA.set(0, pa.field("topic", pa.dictionary(pa.int32(), pa.string())))
"""The plan as `blocks_of` reads it."""
COLUMNS = ("topic", "partition", "replicas", "leader", "isr", "sizeBytes")
Task = tuple[Piece, ...]
Work = Callable[[int, Task], Iterator[str]]


def plan_spark(spark: Any, source: str, question: Question, target: str) -> SparkPlan:
    """Plan the partitions in the Parquet at `source` and write plan.parquet, a directory, at `target`; both are URIs of
    places that the driver and every executor see. Raises ProblemError; what PySpark raises passes through."""
    question = _checked(question)
    pieces = pieces_of(source, BLOCK_ROWS)
    alone = sum(piece.rows for piece in pieces) <= BLOCK_ROWS
    tasks = [tuple(pieces)] if alone else [(piece,) for piece in pieces]
    size = None if alone else BLOCK_ROWS
    surveys = _surveys(spark, tasks, question, size)
    _empty_directory(target)
    marks, uncounted = scattered(
        [found.topics for found in surveys], [found.topic_rows for found in surveys], len(question.brokers)
    )
    divided: dict[tuple[int, int], Share] | None = None
    bound: int | None = None
    for slack in SLACKS:
        if not alone:
            parts, bound = shares(surveys, marks, question, slack)
            divided = {(found.task, found.block): part for found, part in zip(surveys, parts, strict=True)}
        laid = [laid_of(text) for text in _run(spark, tasks, _laying_out(question, divided, size, target))]
        outcomes = _audit(spark, question, target)
        if all((found.wave >= 0).all() for found in outcomes):
            break
    refuse_overfull(np.sum([found.arriving for found in laid], axis=0, dtype=np.int64), question.brokers)
    return conclude(surveys, laid, outcomes, question, bound, uncounted)


def _surveys(spark: Any, tasks: Sequence[Task], question: Question, size: int | None) -> list[Survey]:
    """What every block holds, in their order; size: rows of a block, None where one block is all. Raises
    ProblemError."""

    def count(number: int, task: Task) -> Iterator[str]:
        for block, table in enumerate(blocks_of(task, COLUMNS, size)):
            yield text_of(survey(table, question, number, block, alone=size is None))

    answers = sorted(map(survey_of, _run(spark, tasks, count)), key=lambda found: (found.task, found.block))
    surveys = [found for found in answers if isinstance(found, Survey)]
    if len(surveys) < len(answers):
        refused = next(found for found in answers if isinstance(found, Refused))
        several = len({piece.path for task in tasks for piece in task}) > 1
        raise _bad_row(tasks[refused.task], refused, size, several=several)
    if (wrong := wrong_numbers(surveys)) is not None:
        raise _bad_number(spark, tasks, *wrong)
    return surveys


def _checked(question: Question) -> Question:
    """The question with its brokers by id; raises ProblemError for what needs no partition to be wrong."""
    wanted = question.wanted
    named = {pattern: factor for pattern, factor in wanted.factors if factor < 1}
    nothing = PLAN_SCHEMA.empty_table().select(["topic", "partition", "replicas"])
    return replace(question, brokers=Problem(nothing, question.brokers, wanted.factor, named).brokers)


def _run(spark: Any, tasks: Sequence[Task], work: Work) -> list[str]:
    """Do the work on every task; what they answer. Each is a task of Spark's, and no data moves between them."""
    if not tasks:
        return []

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in integers(batch.column(0)).tolist():
                for text in work(number, tasks[number]):
                    yield pa.RecordBatch.from_pydict({"found": pa.array([text], pa.string())})

    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, "found string")
    answers: list[str] = frame.toArrow().column("found").to_pylist()
    return answers


def _laying_out(
    question: Question, divided: dict[tuple[int, int], Share] | None, size: int | None, target: str
) -> Work:
    def work(number: int, task: Task) -> Iterator[str]:
        answers: list[str] = []

        def plans() -> Iterator[pa.Table]:
            for block, table in enumerate(blocks_of(task, COLUMNS, size)):
                if divided is not None and (number, block) not in divided:
                    raise RuntimeError("the partitions have changed while they were being planned")
                plan, laid = lay_out(table, question, None if divided is None else divided[number, block])
                answers.append(text_of(laid))
                yield plan

        write_piece(target, number, plans())
        yield from answers

    return work


def _audit(spark: Any, question: Question, target: str) -> list[PlanChecksum]:
    tasks = [(piece,) for piece in pieces_of(target, BLOCK_ROWS)]

    def work(_: int, task: Task) -> Iterator[str]:
        for table in blocks_of(task, PLAN_SCHEMA.names, BLOCK_ROWS):
            yield text_of(plan_checksum(table.cast(READ_BACK_SCHEMA), question.brokers, question.wanted.of))

    return [plan_checksum_of(text) for text in _run(spark, tasks, work)]


def _bad_row(task: Task, bad: Refused, size: int | None, *, several: bool) -> ProblemError:
    """What is wrong, with the row's number in its file."""
    if bad.row is None:
        return ProblemError(None, bad.reason, bad.table)
    before = 0 if size is None else bad.block * block_rows(sum(piece.rows for piece in task), size)
    path, row = row_in_file(task, before + bad.row - 1)
    return ProblemError(row, f"{path}: {bad.reason}" if several else bad.reason)


def _bad_number(spark: Any, tasks: Sequence[Task], topic: str, last: int) -> ProblemError:
    """Which partition of a topic is missing or listed twice."""

    def work(_: int, task: Task) -> Iterator[str]:
        for table in blocks_of(task, ("topic", "partition"), BLOCK_ROWS):
            here = table.filter(compute.equal(table.column("topic"), topic)).column("partition")
            yield ",".join(map(str, here.to_pylist()))

    texts = [text for text in _run(spark, tasks, work) if text]
    listed, times = np.unique(
        integers(pa.array([int(n) for text in texts for n in text.split(",")])), return_counts=True
    )
    if (times > 1).any():
        at = int(times.argmax())
        return ProblemError(None, f"{topic}-{listed[at]} is listed {times[at]} times")
    gap = int(np.setdiff1d(np.arange(last), listed)[0])
    return ProblemError(None, f"{topic}-{gap} is missing, though {topic}-{last} is here")


def _empty_directory(uri: str) -> None:
    filesystem, root = pyarrow.fs.FileSystem.from_uri(uri)
    filesystem.create_dir(root)
    filesystem.delete_dir_contents(root)
