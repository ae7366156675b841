"""The planner on Spark: partitions come as a DataFrame and the plan leaves as one; between them, blocks of bytes.

1 pack: the partitions are shuffled into blocks by topic. 2 survey: each block is checked and counted. 3 lay out: each
block carries out its share, and the verifier checks it. 4 write: Spark's committer stores the plan, which is then
compared with what was planned. The driver solves for the whole between 2 and 3; partitions and topics never come to
it. A table of one block needs no survey.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_medic.plan.broker import with_least_disk
from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.problem import ProblemError
from kafka_medic.plan.solver.disk_capacity import refuse_overfull
from kafka_medic.plan.spark import frames
from kafka_medic.plan.spark.blocks import (
    Laid,
    Refused,
    Share,
    Survey,
    lay_out,
    let_in,
    lower,
    place,
    plan_whole,
    survey,
)  # fmt: skip
from kafka_medic.plan.spark.conclude import SparkPlan, conclude, wrong_numbers
from kafka_medic.plan.spark.packed import block_count, by_block, pack, unpack
from kafka_medic.plan.spark.place import Place
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.spark.share import LETTING_IN, exchanges, grants, placed_bound, rooms, shares
from kafka_medic.plan.spark.wire import laid_of, survey_of, text_of

__all__ = ["BLOCK_ROWS", "plan_frame", "plan_spark"]

BLOCK_ROWS = 1 << 18
"""Partitions that are planned together. A table that is no larger is planned as one, exactly as `local` plans it."""
SLACKS = (1.3, 2.0, 4.0, 16.0)
"""Waves kept for a block over what its busiest broker needs; the next one where that was too few."""
_FIELDS: Any = [("block", pa.int32()), ("found", pa.string()), ("data", pa.binary()), ("left", pa.binary())]
_FOUND: pa.Schema = pa.schema(_FIELDS)
CHANGED = "the partitions have changed while they were being planned"
ROWS_OUT = 1 << 16
"""Rows that go to Spark's writer at a time."""
Say = Callable[[str], None]


def _nothing(_: str) -> None:
    pass


def plan_spark(
    spark: Any,
    source: Place,
    question: Question,
    target: Place,
    say: Say = _nothing,
    leave_out: Callable[[Iterator[pa.Table]], None] | None = None,
) -> SparkPlan:
    """Plan the partitions at `source` and write the plan to `target`, unless it breaks a rule. say: hears which pass
    begins. leave_out: gets the partitions that are left out, where there are any, as LEFT_OUT_SCHEMA and one block at a
    time. Raises ProblemError; what PySpark raises passes through."""
    frame = frames.partitions(spark, source)
    say("counting partitions")
    return plan_frame(spark, frame, frames.count(frame, source), question, target, say, leave_out)


def plan_frame(
    spark: Any,
    frame: Any,
    rows: int,
    question: Question,
    target: Place,
    say: Say = _nothing,
    leave_out: Callable[[Iterator[pa.Table]], None] | None = None,
) -> SparkPlan:
    """The same for partitions that are a DataFrame already, of so many rows."""
    kept = frames.blocks(frame, block_count(rows, BLOCK_ROWS))
    planned = None
    try:
        if rows > BLOCK_ROWS:
            # What comes to a log directory is only known of all blocks together.
            question = replace(question, brokers=with_least_disk(question.brokers))
        laid, planned, bound = (_one if rows <= BLOCK_ROWS else _several)(question, kept, say)
        done = _concluded(question, laid, rows, bound)
        if done.problems:
            return done
        say("writing the plan")
        written = frames.write(planned, _unpacking({found.block: found.digest for found in laid}), target)
        if leave_out is not None and any(done.summary.left_out.values()):
            say("listing what is left out")
            leave_out(unpack(data) for data in frames.left(planned))
        say("reading the plan back")
        stored = frames.read_back(spark, target)
        if stored != written or written[0] != done.summary.partitions:
            wrong = f"{target} holds {stored[0]} partitions that are not the {done.summary.partitions} planned"
            return replace(done, problems=(wrong,))
        return done
    finally:
        for held in (kept, planned):
            if held is not None:
                held.unpersist()


def _concluded(question: Question, laid: list[Laid], rows: int, bound: int | None) -> SparkPlan:
    """What the blocks come to; rows: partitions that they should hold. Raises ProblemError."""
    if sum(found.rows for found in laid) != rows:
        raise ProblemError(None, CHANGED)
    done = conclude(laid, question, bound)
    if not done.problems:
        nothing = np.zeros(len(question.standing), dtype=np.int64)
        refuse_overfull(nothing + sum(found.counts.arriving for found in laid if found.counts), question.standing)
    return done


def _one(question: Question, kept: Any, say: Say) -> tuple[list[Laid], Any, int | None]:
    """The plan of a table of one block."""
    say("planning")

    def work(batches: frames.Batches) -> Iterator[Any]:
        for number, table in by_block(batches):
            yield from _answered(number, *plan_whole(table, question))

    return (*_laid(kept, work), None)


def _several(question: Question, kept: Any, say: Say) -> tuple[list[Laid], Any, int | None]:
    """The plan of a table of several blocks, and the bound on replicas per broker."""
    say("counting blocks")
    given, kept, surveys, bound = kept, *_prepared(question, kept, say)
    placed = bound is not None
    try:
        for slack in SLACKS:
            parts, proven = shares(surveys, question, slack, placed=placed)
            bound = bound if proven is None else proven
            say("planning blocks")
            laid, planned = _laid(
                kept, _laying_out(question, {f.block: p for f, p in zip(surveys, parts, strict=True)})
            )
            if all(found.counts is not None for found in laid) or slack == SLACKS[-1]:
                return laid, planned, bound
            planned.unpersist()
    finally:
        if kept is not given:
            kept.unpersist()
    raise AssertionError("there is a last slack")


def _prepared(question: Question, given: Any, say: Say) -> tuple[Any, list[Survey], int | None]:
    """(the blocks, their surveys, the bound on replicas per broker where replicas were placed already), after what has
    to come before all blocks are laid out at once: replicas that move, and limits."""
    kept, surveys = given, _surveys(question, given)

    def passed(work: frames.Work) -> list[Survey]:
        nonlocal kept
        following = frames.kept(frames.worked(kept, work))
        found = _surveyed(following)
        if kept is not given:
            kept.unpersist()
        kept = following
        return found

    if question.lowers is not None:
        say("moving replicas")
        lowering, bound = _lowering(question, surveys, question.lowers)
        surveys = passed(lowering)
        return kept, surveys, bound
    for turn in range(LETTING_IN):
        if (granted := grants(surveys, question, first=not turn)) is None:
            break
        say("keeping to the limits")
        surveys = passed(_letting_in(question, surveys, granted))
    if not question.allowed.limits_brokers or not any(found.changed for found in surveys):
        return kept, surveys, None
    say("placing replicas")
    surveys = passed(_placing(question, surveys))
    return kept, surveys, placed_bound(surveys, question)


def _surveys(question: Question, kept: Any) -> list[Survey]:
    """What every block holds, in their order. Raises ProblemError."""

    def work(batches: frames.Batches) -> Iterator[Any]:
        for number, table in by_block(batches):
            yield _row(number, text_of(survey(table, question, number)))

    return _surveyed(frames.worked(kept, work))


def _lowering(question: Question, surveys: list[Survey], moves: int) -> tuple[frames.Work, int]:
    """(the work of making each block's part of the moves, the bound on replicas per broker)."""
    parts, bound = exchanges(surveys, question, moves)
    divided = {found.block: part for found, part in zip(surveys, parts, strict=True)}

    def work(batches: frames.Batches) -> Iterator[Any]:
        for number, table in by_block(batches):
            yield from _changed(number, *lower(table, question, *divided[number], number))

    return work, bound


def _letting_in(question: Question, surveys: list[Survey], granted: list[tuple[int, int]]) -> frames.Work:
    of = {found.block: part for found, part in zip(surveys, granted, strict=True)}

    def work(batches: frames.Batches) -> Iterator[Any]:
        for number, table in by_block(batches):
            yield from _changed(number, *let_in(table, question, *of[number], number))

    return work


def _placing(question: Question, surveys: list[Survey]) -> frames.Work:
    """The work of placing what each block adds, within what its brokers may receive."""
    parts, _ = shares(surveys, question, SLACKS[0])
    both = zip(surveys, parts, rooms(surveys, parts, question), strict=True)
    of = {found.block: (part, room) for found, part, room in both}

    def work(batches: frames.Batches) -> Iterator[Any]:
        for number, table in by_block(batches):
            yield from _changed(number, *place(table, question, *of[number], number))

    return work


def _changed(number: int, table: pa.Table, found: Survey | Refused) -> Iterator[Any]:
    """The rows of a task that goes on with other blocks than it got."""
    yield _row(number, text_of(found))
    yield _row(number, None, pack(table))


def _surveyed(answered: Any) -> list[Survey]:
    found = sorted(map(survey_of, frames.answers(answered)), key=lambda one: one.block)
    surveys = [one for one in found if isinstance(one, Survey)]
    _refuse([one for one in found if isinstance(one, Refused)])
    if wrong := wrong_numbers(piece for one in surveys for piece in one.pieces):
        raise ProblemError(None, wrong)
    return surveys


def _laying_out(question: Question, divided: dict[int, Share]) -> frames.Work:
    def work(batches: frames.Batches) -> Iterator[Any]:
        for number, table in by_block(batches):
            if number not in divided:
                raise RuntimeError(CHANGED)
            yield from _answered(number, *lay_out(table, question, divided[number], number))

    return work


def _laid(kept: Any, work: frames.Work) -> tuple[list[Laid], Any]:
    """What the driver has to know of each block's plan, in their order, and the plans, kept where they were made.
    Raises ProblemError."""
    planned = frames.kept(frames.worked(kept, work))
    found = sorted(map(laid_of, frames.answers(planned)), key=lambda one: one.block)
    _refuse([one for one in found if isinstance(one, Refused)])
    return [one for one in found if isinstance(one, Laid)], planned


def _refuse(refused: list[Refused]) -> None:
    if refused:
        raise ProblemError(None, refused[0].reason, refused[0].table)


def _answered(number: int, plan: pa.Table, left: pa.Table, laid: Laid | Refused) -> Iterator[Any]:
    """The rows of a task's answer: what the driver reads, then the plan and what it leaves out as bytes."""
    if left.num_rows:
        yield _row(number, None, None, pack(left))
    if not plan.num_rows or isinstance(laid, Refused):
        yield _row(number, text_of(laid))
        return
    data = pack(plan)
    yield _row(number, text_of(replace(laid, digest=_digest(data))))
    yield _row(number, None, data)


def _unpacking(digests: dict[int, str]) -> frames.Work:
    """The rows of each block's plan, which has to be the one that was counted."""

    def work(batches: frames.Batches) -> Iterator[Any]:
        for batch in batches:
            for number, data in zip(batch.column("block").to_pylist(), batch.column("data"), strict=True):
                if _digest(data.as_buffer()) != digests[number]:
                    raise RuntimeError("a block that was planned again came to another plan")
                yield from unpack(data.as_buffer()).cast(PLAN_SCHEMA).to_batches(max_chunksize=ROWS_OUT)

    return work


def _digest(data: Any) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _row(number: int, found: str | None, data: bytes | None = None, left: bytes | None = None) -> Any:
    row: Any = {"block": [number], "found": [found], "data": [data], "left": [left]}
    return pa.RecordBatch.from_pydict(row, _FOUND)
