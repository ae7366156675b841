"""What the driver makes of the counts that come back: is the input whole, and what is the plan worth?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kafka_medic.plan.allowed import LeftOut
from kafka_medic.plan.bounds import BY_BYTES, IN_BLOCKS, LOWER_IMBALANCE, SPREAD_RACKS_RELAXED, Bound, Bounds
from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.leaders.topic_spread import fullest
from kafka_medic.plan.model import Fullest, Spread, Summary
from kafka_medic.plan.relocation import LowerImbalance, SpreadRacks
from kafka_medic.plan.solver.disk_capacity import room_of
from kafka_medic.plan.solver.local import bytes_spread
from kafka_medic.plan.spark.blocks import WHOLE_PIECE, Laid, Piece
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.spark.report_data import ReportDetails, together
from kafka_medic.plan.verify.part import PartCounts
from kafka_medic.plan.verify.rules import over_allowed
from kafka_medic.plan.water_filling import Basin, level_with_caps
from kafka_medic.plan.weight import Handicap, handicap

__all__ = ["SparkPlan", "conclude", "wrong_numbers"]


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


def wrong_numbers(pieces: Iterable[Piece]) -> str | None:
    """What is wrong with a topic that lies in several blocks: all its pieces but the last have to be whole, and none
    may be missing; what each holds was checked there."""
    of: dict[str, dict[int, int]] = {}
    for piece in pieces:
        of.setdefault(piece.topic, {})[piece.number] = piece.rows
    for topic, rows in sorted(of.items()):
        last = max(rows)
        for number in range(last):
            if rows.get(number, 0) < WHOLE_PIECE:
                first = number * WHOLE_PIECE
                among = f"{topic}-{first} to {topic}-{first + WHOLE_PIECE - 1}"
                return f"one of {among} is missing, though {topic}-{last * WHOLE_PIECE} is here"
    return None


_PER_BROKER = (
    "before", "after", "given", "reach", "led_before", "led", "led_reassigned", "fixed", "stored", "arriving",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Totals:
    """Sums over all blocks, as in PartCounts; records, added: int64[W], of each wave. numbers: the wave numbers of
    every block."""

    before: Ints
    after: Ints
    given: Ints
    reach: Ints
    led_before: Ints
    led: Ints
    led_reassigned: Ints
    fixed: Ints
    stored: Ints
    arriving: Ints
    records: Ints
    added: Ints
    numbers: Ints
    rows: int
    moves: int
    least: int
    violations: int
    unavoidable: int
    reordered: int
    left_out: Counter[str]


def conclude(laid: Sequence[Laid], question: Question, bound: int | None) -> SparkPlan:
    """Put the verifier's counts of the blocks together. bound: on replicas per broker, None if they stay as they
    are."""
    alive = np.array([broker.alive for broker in question.standing], dtype=bool)
    counts = [found.counts for found in laid if found.counts is not None]
    problems = [problem for found in counts for problem in found.problems]
    if len(counts) < len(laid):
        problems.append("too few waves were kept for a block")
    brokers = len(alive)
    large = {piece.topic for found in laid for piece in found.pieces if piece.number}
    details = together(
        [found.waves for found in laid], [topic for found in laid for topic in found.topics], brokers, len(large)
    )
    if problems:  # nothing else of a block that breaks a rule is counted
        counts = []
    total = _add_up(counts, brokers)
    summary = _summarise(laid, question, total, bound, alive)
    topic_replicas, topic_leaders = fullest(details.topics)
    if len(laid) == 1 and (planned := laid[0].summary) is not None:
        topic_replicas, topic_leaders = (_fullest(planned.get(f"{what}OfOneTopic")) for what in ("replicas", "leaders"))
    sent = np.zeros(brokers, dtype=np.int64) + sum(found.sent for found in laid)
    return SparkPlan(
        replace(summary, topic_replicas=topic_replicas, topic_leaders=topic_leaders),
        tuple(problems or _broken_rules(total, question)),
        (total.before, total.after),
        (total.led_before, total.led),
        (total.records, total.added),
        int(sent.sum()),
        int(sent.max(initial=0)),
        sum(found.unknown for found in laid),
        details,
    )


def _add_up(counts: Sequence[PartCounts], brokers: int) -> _Totals:
    nothing = np.zeros(brokers, dtype=np.int64)
    per_broker: dict[str, Any] = {
        name: nothing + sum(getattr(found, name) for found in counts)
        for name in (
            "before",
            "after",
            "given",
            "reach",
            "led_before",
            "led",
            "led_reassigned",
            "fixed",
            "stored",
            "arriving",
        )
    }
    numbers = np.concatenate([np.zeros(0, dtype=np.int64), *(found.wave for found in counts)])
    records, added = (np.zeros(int(numbers.max(initial=-1)) + 1, dtype=np.int64) for _ in range(2))
    for found in counts:
        records[found.wave] += found.records
        added[found.wave] += found.added
    single: dict[str, Any] = {
        name: int(sum(getattr(found, name) for found in counts))
        for name in ("rows", "moves", "least", "violations", "unavoidable", "reordered")
    }
    left_out: Counter[str] = Counter()
    for found in counts:
        left_out.update(found.left_out)
    return _Totals(**per_broker, records=records, added=added, numbers=numbers, left_out=left_out, **single)


def _summarise(laid: Sequence[Laid], question: Question, total: _Totals, bound: int | None, alive: Bools) -> Summary:
    """The summary, but for its topics. That of a single block has the bounds that its own plan proved."""
    lowers = question.lowers is not None
    # Where everything may move, everything is divided by weight.
    given = np.zeros_like(total.given) if lowers else total.given
    fair = handicap(question.standing, given, int(total.before[alive].sum()) if lowers else total.least)
    fair_lead = handicap(question.standing, total.fixed, total.rows)
    replicas_bound = _most(total.given, fair, alive) if bound is None else bound
    leader_bound = _leader_bound(total, total.fixed + fair_lead.extra, alive) - fair_lead.average
    if len(laid) == 1 and (planned := laid[0].summary) is not None:
        replicas_bound = planned["replicasPerBroker"]["bound"]
        leader_bound = planned["leadersPerBroker"]["bound"]
    come = total.after - total.given
    return Summary(
        partitions=total.rows,
        moves=total.moves,
        lower_bound_moves=_least_moves(total, alive) if lowers else total.least,
        replicas_per_broker=_spread(total.after, replicas_bound, fair, alive),
        leaders_per_broker=_spread(total.led, leader_bound, fair_lead, alive),
        leaders_reassigned=_spread(total.led_reassigned, -1, fair_lead, alive),
        reordered=total.reordered,
        rack_violations=total.violations,
        rack_violations_bound=total.unavoidable,
        waves=len(total.records),
        capacity_unknown=int(((room_of(question.standing) < 0) & (come > 0)).sum()),
        bytes_per_broker=_bytes(total, question, laid),
        left_out={why: count for why in LeftOut if (count := total.left_out.get(why.key, 0))},
        bounds=_bounds(question, laid),
        engine="spark",
    )


def _broken_rules(total: _Totals, question: Question) -> list[str]:
    """Every rule of the whole that the plan breaks; those of single partitions were checked in their blocks."""
    problems = []
    allowed = total.least if question.lowers is None else question.lowers
    if total.moves > allowed:
        problems.append(
            f"{total.moves} moves where {allowed} {'would do' if question.lowers is None else 'are allowed'}"
        )
    problems += over_allowed(total.after - total.given, total.arriving, question.allowed)
    empty, largest = (total.records == 0).any(), total.records.max(initial=0)
    if (total.numbers < 0).any() or empty or largest > question.limits.records:
        problems.append("a wave is missing, empty, or has too many records")
    return problems


def _bytes(total: _Totals, question: Question, laid: Sequence[Laid]) -> Spread | None:
    """Bytes per broker, where they were to be even."""
    if not question.by_bytes:
        return None
    spread = bytes_spread(total.stored, total.arriving, question.standing)
    if len(laid) == 1 and (planned := laid[0].summary) is not None:
        return replace(spread, bound=planned["bytesPerBroker"]["bound"])
    return spread


def _fullest(found: dict[str, Any] | None) -> Fullest | None:
    return None if found is None else Fullest(found["topic"], found["max"], found["bound"], found["ownBound"])


def _bounds(question: Question, laid: Sequence[Laid]) -> Bounds:
    """Among which plans the bounds are ones; who stands where is seen in each block alone."""
    if len(laid) == 1 and (planned := laid[0].summary) is not None:
        return {name: Bound(**bound) for name, bound in planned["bounds"].items()}
    ask, bounds = question.ask, BY_BYTES
    if not question.by_bytes:
        bounds = LOWER_IMBALANCE if isinstance(ask, LowerImbalance) else IN_BLOCKS
    if isinstance(ask, SpreadRacks):
        bounds = SPREAD_RACKS_RELAXED
    relaxed = {name: Bound(b.over, exact=b.exact and not name.endswith("PerBroker")) for name, b in bounds.items()}
    return question.allowed.among(relaxed)


def _least_moves(total: _Totals, alive: Bools) -> int:
    """Moves that it takes to come to these very loads."""
    return int(np.maximum(total.before - total.after, 0)[alive].sum())


def _leader_bound(total: _Totals, fixed: Ints, alive: Any) -> int:
    """No order of the lists has its fullest broker below this: each broker can lead at most what it has replicas of."""
    most = int(fixed[alive].max(initial=0))
    if not total.rows:
        return most
    level, _ = level_with_caps([Basin(np.array([n])) for n in fixed[alive].tolist()], total.reach[alive], total.rows)
    return max(most, level)


def _most(load: Ints, fair: Handicap, alive: Bools) -> int:
    return int((load + fair.extra)[alive].max(initial=0)) - fair.average


def _spread(load: Ints, bound: int, fair: Handicap, alive: Bools) -> Spread:
    most, counted = _most(load, fair, alive), (load + fair.extra)[alive] - fair.average
    return Spread(max(int(counted.min(initial=most)), 0), most, bound, -(-int(counted.sum()) // max(len(counted), 1)))
