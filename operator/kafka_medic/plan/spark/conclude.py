"""What the driver makes of the counts that come back: is the input whole, and what is the plan worth?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kafka_medic.plan.census import Asking, Outcome, mix
from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.local import bytes_spread
from kafka_medic.plan.model import Spread, Summary
from kafka_medic.plan.spark.blocks import Laid, Survey
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.spark.shown import Shown, together
from kafka_medic.plan.topic_spread import fullest
from kafka_medic.plan.water import Basin, level_with_caps
from kafka_medic.plan.weight import Handicap, handicap

__all__ = ["SparkPlan", "conclude", "wrong_numbers"]

STEP = 1 << 18
"""Numbers hashed at a time."""


@dataclass(frozen=True, eq=False)
class SparkPlan:
    """summary, and the rules that the plan breaks (none, or it is a defect). Per broker by id, int64[B]: replicas
    before and after, preferred leaders before and after. Per wave: partitions and replicas. copied, sent, unknown:
    bytes to copy, most that one broker sends, partitions of unknown size. shown: what the page shows besides."""

    summary: Summary
    problems: tuple[str, ...]
    replicas: tuple[Ints, Ints]
    leaders: tuple[Ints, Ints]
    waves: tuple[Ints, Ints]
    copied: int
    sent: int
    unknown: int
    shown: Shown


def wrong_numbers(surveys: Sequence[Survey]) -> tuple[str, int] | None:
    """A topic whose partitions are not 0, 1, 2, ... over all blocks, with its highest number; None if all are."""
    names = sorted({topic for found in surveys for topic in found.topics})
    place = {topic: number for number, topic in enumerate(names)}
    rows, last = np.zeros(len(names), dtype=np.int64), np.full(len(names), -1, dtype=np.int64)
    mark = np.zeros(len(names), dtype=np.uint64)
    for found in surveys:
        of = np.array([place[topic] for topic in found.topics], dtype=np.int64)
        rows[of] += found.topic_rows
        last[of] = np.maximum(last[of], found.topic_last)
        mark[of] += found.topic_mark.view(np.uint64)
    wrong = np.flatnonzero((last != rows - 1) | (mark != _marks(rows)))
    return (names[int(wrong[0])], int(last[wrong[0]])) if len(wrong) else None


def conclude(
    surveys: Sequence[Survey],
    laid: Sequence[Laid],
    outcomes: Sequence[Outcome],
    question: Question,
    bound: int | None,
    uncounted: int,
) -> SparkPlan:
    """Put the verifier's counts of what went in and what came out beside each other. bound: on replicas per broker,
    None if they stay as they are; uncounted: topics whose spread was not counted."""
    asked = [found.asking for found in surveys]
    brokers = len(question.brokers)
    nothing = np.zeros(brokers, dtype=np.int64)
    alive = np.array([broker.alive for broker in question.brokers], dtype=bool)
    load, fixed = nothing + sum(a.load for a in asked), nothing + sum(a.first for a in asked)
    after = load + sum(found.gained for found in outcomes)
    led = fixed + sum(found.lead for found in outcomes)
    numbers = np.concatenate([np.zeros(0, dtype=np.int64), *(found.wave for found in outcomes)])
    records, added = (np.zeros(int(numbers.max(initial=-1)) + 1, dtype=np.int64) for _ in range(2))
    for found in outcomes:
        kept = found.wave >= 0
        records[found.wave[kept]] += found.records[kept]
        added[found.wave[kept]] += found.added[kept]
    fair = handicap(question.brokers, load, sum(a.missing for a in asked))
    fair_lead = handicap(question.brokers, fixed, sum(a.below for a in asked))
    below, missing = sum(a.below for a in asked), sum(a.missing for a in asked)
    rows, moves = sum(found.rows for found in outcomes), int(sum(int(found.gained.sum()) for found in outcomes))
    shown = together(
        [found.waves for found in laid],
        [topic for found in laid for topic in found.topics],
        [part for found in laid for part in found.parts],
        alive,
        uncounted,
    )
    topic_replicas, topic_leaders = fullest(shown.topics)
    summary = Summary(
        partitions=rows,
        moves=moves,
        lower_bound_moves=missing,
        replicas_per_broker=_spread(after, _most(load, fair, alive) if bound is None else bound, fair, alive),
        leaders_per_broker=_spread(
            led,
            _leader_bound(surveys, outcomes, fixed + fair_lead.extra, alive, rows) - fair_lead.average,
            fair_lead,
            alive,
        ),
        rack_violations=sum(found.violations for found in outcomes),
        rack_violations_bound=sum(found.unavoidable for found in outcomes),
        waves=len(records),
        room_unknown=sum(b.disk_free is None for b, more in zip(question.brokers, after - load, strict=True) if more),
        bytes_per_broker=_bytes(asked, laid, question) if question.by_bytes else None,
        topic_replicas=topic_replicas,
        topic_leaders=topic_leaders,
        engine="spark",
    )
    if len(surveys) == 1 and (told := surveys[0].summary) is not None:
        bounds = (told["replicasPerBroker"]["bound"], told["leadersPerBroker"]["bound"])
        summary = replace(
            summary,
            replicas_per_broker=replace(summary.replicas_per_broker, bound=bounds[0]),
            leaders_per_broker=replace(summary.leaders_per_broker, bound=bounds[1]),
        )
    problems = [problem for found in outcomes for problem in found.problems]
    if rows != below or sum(a.mark for a in asked) % (1 << 64) != sum(found.mark for found in outcomes) % (1 << 64):
        problems.append("the partitions planned are not those that lack replicas")
    if moves != missing:
        problems.append(f"{moves} moves where {missing} would do")
    if (numbers < 0).any() or (records == 0).any() or (records > question.limits.records).any():
        problems.append("a wave is missing, empty, or has too many records")
    led_before = fixed + sum(found.before for found in outcomes)
    sent = nothing + sum(found.sent for found in surveys)
    return SparkPlan(
        summary,
        tuple(problems),
        (load, after),
        (led_before, led),
        (records, added),
        int(sent.sum()),
        int(sent.max(initial=0)),
        sum(found.unknown for found in surveys),
        shown,
    )


def _marks(rows: Ints) -> Any:
    """uint64: for each number of partitions the sum of the hashes of 0, 1, ... below it."""
    most = int(rows.max(initial=0))
    wanted, before = np.zeros(len(rows), dtype=np.uint64), np.uint64(0)
    for begin in range(0, most, STEP):
        running = np.cumsum(mix(np.arange(begin, min(begin + STEP, most))), dtype=np.uint64) + before
        here = (rows > begin) & (rows <= begin + STEP)
        wanted[here] = running[rows[here] - begin - 1]
        before = running[-1]
    return wanted


def _leader_bound(surveys: Sequence[Survey], outcomes: Sequence[Outcome], fixed: Ints, alive: Any, rows: int) -> int:
    """No order of the lists has its fullest broker below this: each broker can lead at most what it has replicas of."""
    held = sum(found.held for found in surveys)
    reach = held + sum(found.gained for found in outcomes)
    most = int(fixed[alive].max(initial=0))
    if not rows:
        return most
    level, _ = level_with_caps([Basin(np.array([n])) for n in fixed[alive].tolist()], np.asarray(reach)[alive], rows)
    return max(most, level)


def _bytes(asked: Sequence[Asking], laid: Sequence[Laid], question: Question) -> Spread:
    nothing = np.zeros(len(question.brokers), dtype=np.int64)
    stored = nothing + sum(found.stored for found in asked)
    return bytes_spread(stored, nothing + sum(found.arriving for found in laid), question.brokers)


def _most(load: Ints, fair: Handicap, alive: Bools) -> int:
    return int((load + fair.extra)[alive].max(initial=0)) - fair.average


def _spread(load: Ints, bound: int, fair: Handicap, alive: Bools) -> Spread:
    most, shown = _most(load, fair, alive), (load + fair.extra)[alive] - fair.average
    return Spread(int(shown.min(initial=most)), most, bound)
