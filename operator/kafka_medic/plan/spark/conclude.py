"""What the driver makes of the counts that come back: is the input whole, and what is the plan worth?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kafka_medic.plan.allowed import LeftOut
from kafka_medic.plan.bounds import BY_BYTES, IN_BLOCKS, RAISE
from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.leaders.topic_spread import fullest
from kafka_medic.plan.model import Spread, Summary
from kafka_medic.plan.solver.local import bytes_spread
from kafka_medic.plan.spark.blocks import Laid, Survey
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.spark.report_data import ReportDetails, together
from kafka_medic.plan.verify.input_checksum import InputChecksum, PlanChecksum, mix
from kafka_medic.plan.water_filling import Basin, level_with_caps
from kafka_medic.plan.weight import Handicap, handicap

__all__ = ["SparkPlan", "conclude", "wrong_numbers"]

STEP = 1 << 18
"""Numbers hashed at a time."""


@dataclass(frozen=True, eq=False)
class SparkPlan:
    """summary, and the rules that the plan breaks (none, or it is a defect). Per broker by id, int64[B]: replicas
    before and after, preferred leaders before and after. Per wave: partitions and replicas. copied, sent, unknown:
    bytes to copy, most that one broker sends, partitions of unknown size. details: what the report has besides."""

    summary: Summary
    problems: tuple[str, ...]
    replicas: tuple[Ints, Ints]
    leaders: tuple[Ints, Ints]
    waves: tuple[Ints, Ints]
    copied: int
    sent: int
    unknown: int
    details: ReportDetails


def wrong_numbers(surveys: Sequence[Survey]) -> tuple[str, int] | None:
    """A topic whose partitions are not 0, 1, 2, ... over all blocks, with its highest number; None if all are."""
    names = sorted({topic for found in surveys for topic in found.topics})
    place = {topic: number for number, topic in enumerate(names)}
    rows, last = np.zeros(len(names), dtype=np.int64), np.full(len(names), -1, dtype=np.int64)
    checksum = np.zeros(len(names), dtype=np.uint64)
    for found in surveys:
        of = np.array([place[topic] for topic in found.topics], dtype=np.int64)
        rows[of] += found.topic_rows
        last[of] = np.maximum(last[of], found.topic_last)
        checksum[of] += found.topic_checksum.view(np.uint64)
    wrong = np.flatnonzero((last != rows - 1) | (checksum != _checksums(rows)))
    return (names[int(wrong[0])], int(last[wrong[0]])) if len(wrong) else None


@dataclass(frozen=True, eq=False)
class _Totals:
    """Sums over all blocks. Per broker, int64[B]: load, after: replicas before and after; fixed: first replicas of the
    partitions that stay; led_before, led: preferred leaders before and after. Per wave, int64[W]: records, added.
    below, missing: partitions that lack replicas, and the replicas they lack; rows, moves: those of the plan. numbers:
    the wave numbers of every block."""

    load: Ints
    after: Ints
    fixed: Ints
    led_before: Ints
    led: Ints
    records: Ints
    added: Ints
    numbers: Ints
    below: int
    missing: int
    rows: int
    moves: int


def conclude(
    surveys: Sequence[Survey],
    laid: Sequence[Laid],
    outcomes: Sequence[PlanChecksum],
    question: Question,
    bound: int | None,
    uncounted: int,
) -> SparkPlan:
    """Put the verifier's counts of what went in and what came out beside each other. bound: on replicas per broker,
    None if they stay as they are; uncounted: topics whose spread was not counted."""
    alive = np.array([broker.alive for broker in question.brokers], dtype=bool)
    total = _add_up([found.input for found in surveys], outcomes, len(question.brokers))
    details = together(
        [found.waves for found in laid],
        [topic for found in laid for topic in found.topics],
        [part for found in laid for part in found.parts],
        alive,
        uncounted,
    )
    summary = _summarise(surveys, laid, outcomes, question, total, bound, alive)
    topic_replicas, topic_leaders = fullest(details.topics)
    sent = np.zeros(len(alive), dtype=np.int64) + sum(found.sent for found in surveys)
    return SparkPlan(
        replace(summary, topic_replicas=topic_replicas, topic_leaders=topic_leaders),
        tuple(_broken_rules(surveys, outcomes, total, question)),
        (total.load, total.after),
        (total.led_before, total.led),
        (total.records, total.added),
        int(sent.sum()),
        int(sent.max(initial=0)),
        sum(found.unknown for found in surveys),
        details,
    )


def _add_up(inputs: Sequence[InputChecksum], outcomes: Sequence[PlanChecksum], brokers: int) -> _Totals:
    nothing = np.zeros(brokers, dtype=np.int64)
    load, fixed = nothing + sum(found.load for found in inputs), nothing + sum(found.first for found in inputs)
    numbers = np.concatenate([np.zeros(0, dtype=np.int64), *(found.wave for found in outcomes)])
    records, added = (np.zeros(int(numbers.max(initial=-1)) + 1, dtype=np.int64) for _ in range(2))
    for found in outcomes:
        kept = found.wave >= 0
        records[found.wave[kept]] += found.records[kept]
        added[found.wave[kept]] += found.added[kept]
    return _Totals(
        load,
        load + sum(found.gained for found in outcomes),
        fixed,
        fixed + sum(found.before for found in outcomes),
        fixed + sum(found.lead for found in outcomes),
        records,
        added,
        numbers,
        below=sum(found.below for found in inputs),
        missing=sum(found.missing for found in inputs),
        rows=sum(found.rows for found in outcomes),
        moves=int(sum(int(found.gained.sum()) for found in outcomes)),
    )


def _summarise(
    surveys: Sequence[Survey],
    laid: Sequence[Laid],
    outcomes: Sequence[PlanChecksum],
    question: Question,
    total: _Totals,
    bound: int | None,
    alive: Bools,
) -> Summary:
    """The summary, but for its topics. The summary of a single block has the bounds that its own plan proved."""
    fair = handicap(question.brokers, total.load, total.missing)
    fair_lead = handicap(question.brokers, total.fixed, total.below)
    replicas_bound = _most(total.load, fair, alive) if bound is None else bound
    fixed_leaders = total.fixed + fair_lead.extra
    leader_bound = _leader_bound(surveys, outcomes, fixed_leaders, alive, total.rows) - fair_lead.average
    if len(surveys) == 1 and (planned := surveys[0].summary) is not None:
        replicas_bound = planned["replicasPerBroker"]["bound"]
        leader_bound = planned["leadersPerBroker"]["bound"]
    gained = total.after - total.load
    return Summary(
        partitions=total.rows,
        moves=total.moves,
        lower_bound_moves=total.missing,
        replicas_per_broker=_spread(total.after, replicas_bound, fair, alive),
        leaders_per_broker=_spread(total.led, leader_bound, fair_lead, alive),
        rack_violations=sum(found.violations for found in outcomes),
        rack_violations_bound=sum(found.unavoidable for found in outcomes),
        waves=len(total.records),
        capacity_unknown=sum(b.disk_free is None for b, more in zip(question.brokers, gained, strict=True) if more),
        bytes_per_broker=_bytes(surveys, laid, question) if question.by_bytes else None,
        left_out={LeftOut.DEAD_REPLICA: sum(found.input.stuck for found in surveys)},
        bounds=BY_BYTES if question.by_bytes else RAISE if len(surveys) == 1 else IN_BLOCKS,
        engine="spark",
    )


def _broken_rules(
    surveys: Sequence[Survey], outcomes: Sequence[PlanChecksum], total: _Totals, question: Question
) -> list[str]:
    """Every rule that the plan breaks, of single rows and of the whole."""
    problems = [problem for found in outcomes for problem in found.problems]
    lacking, planned = sum(found.input.checksum for found in surveys), sum(found.checksum for found in outcomes)
    if total.rows != total.below or lacking % (1 << 64) != planned % (1 << 64):
        problems.append("the partitions planned are not those that lack replicas")
    if total.moves != total.missing:
        problems.append(f"{total.moves} moves where {total.missing} would do")
    empty, largest = (total.records == 0).any(), total.records.max(initial=0)
    if (total.numbers < 0).any() or empty or largest > question.limits.records:
        problems.append("a wave is missing, empty, or has too many records")
    return problems


def _checksums(rows: Ints) -> Any:
    """uint64: for each number of partitions the sum of the hashes of 0, 1, ... below it."""
    most = int(rows.max(initial=0))
    wanted, before = np.zeros(len(rows), dtype=np.uint64), np.uint64(0)
    for begin in range(0, most, STEP):
        running = np.cumsum(mix(np.arange(begin, min(begin + STEP, most))), dtype=np.uint64) + before
        here = (rows > begin) & (rows <= begin + STEP)
        wanted[here] = running[rows[here] - begin - 1]
        before = running[-1]
    return wanted


def _leader_bound(
    surveys: Sequence[Survey], outcomes: Sequence[PlanChecksum], fixed: Ints, alive: Any, rows: int
) -> int:
    """No order of the lists has its fullest broker below this: each broker can lead at most what it has replicas of."""
    held = sum(found.held for found in surveys)
    reach = held + sum(found.gained for found in outcomes)
    most = int(fixed[alive].max(initial=0))
    if not rows:
        return most
    level, _ = level_with_caps([Basin(np.array([n])) for n in fixed[alive].tolist()], np.asarray(reach)[alive], rows)
    return max(most, level)


def _bytes(surveys: Sequence[Survey], laid: Sequence[Laid], question: Question) -> Spread:
    nothing = np.zeros(len(question.brokers), dtype=np.int64)
    stored = nothing + sum(found.input.stored for found in surveys)
    return bytes_spread(stored, nothing + sum(found.arriving for found in laid), question.brokers)


def _most(load: Ints, fair: Handicap, alive: Bools) -> int:
    return int((load + fair.extra)[alive].max(initial=0)) - fair.average


def _spread(load: Ints, bound: int, fair: Handicap, alive: Bools) -> Spread:
    most, counted = _most(load, fair, alive), (load + fair.extra)[alive] - fair.average
    return Spread(int(counted.min(initial=most)), most, bound, -(-int(counted.sum()) // max(len(counted), 1)))
