"""What a task does with one block of partitions: count it, and later lay out its share of the quotas.

A block is a run of rows of one task. It is planned by the kernel that plans a whole cluster in one process;
only what it should aim at is decided elsewhere. Loads are made so that "as even as can be" means "exactly
the block's share": a broker due q of the block's replicas starts at max(q) - q. Leaderships likewise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_medic.plan.arrow import integers
from kafka_medic.plan.columns import Columns, Ints
from kafka_medic.plan.leaders.balance import balance_leaders
from kafka_medic.plan.leaders.topic_leaders import spread_leaders
from kafka_medic.plan.lists import place_among
from kafka_medic.plan.model import PLAN_SCHEMA, TopicSpread
from kafka_medic.plan.problem import Problem, ProblemError
from kafka_medic.plan.solver.aggregate import Kinds
from kafka_medic.plan.solver.conflict_resolution import resolve_conflicts
from kafka_medic.plan.solver.disk_capacity import even_bytes, fit
from kafka_medic.plan.solver.expand import expand
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.solver.quotas import Quotas, takers, too_many
from kafka_medic.plan.solver.rows import append, candidates, lead_first, plan_table, sizes_or_null
from kafka_medic.plan.solver.sites import Sites, count_per_broker, kinds_of, racks_of, sites_of
from kafka_medic.plan.solver.waves import assign_waves, exposure
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.spark.report_data import Part, WaveBytes, spread_of_topics, wave_bytes
from kafka_medic.plan.verify.input_checksum import InputChecksum, input_checksum, mix
from kafka_medic.plan.verify.rules import Check

__all__ = ["Classes", "Laid", "Refused", "Share", "Survey", "lay_out", "survey"]


@dataclass(frozen=True, eq=False)
class Classes:
    """C classes of equal exposure. key, rows: int64[C]; copies: replicas to add; arriving: bytes of them, each replica
    at most a wave's allowance; sends, sending: int64[C, B] partitions and bytes per sender."""

    key: Ints
    rows: Ints
    copies: Ints
    arriving: Ints
    sends: Ints
    sending: Ints


@dataclass(frozen=True)
class Refused:
    """A block with a row that cannot be planned: which (from 1, None if none in particular), why, and of which table,
    as in ProblemError."""

    task: int
    block: int
    row: int | None
    reason: str
    table: str = "partitions"


@dataclass(frozen=True, eq=False)
class Survey:
    """What the driver has to know of one block.

    kinds: None if there are too many, then takers (int64[R]) and missing stand for them. held: int64[B] replicas of
    the changed partitions. topics with rows, last (highest number) and checksum (sum of hashes of the numbers), for the
    check that no partition is missing or twice. sent: int64[B] bytes that each broker will send; unknown: partitions
    of unknown size. summary: of the whole plan, where the block is all there is.
    """

    task: int
    block: int
    rows: int
    summary: dict[str, Any] | None
    kinds: Kinds | None
    takers: Ints
    changed: int
    missing: int
    held: Ints
    classes: Classes
    topics: tuple[str, ...]
    topic_rows: Ints
    topic_last: Ints
    topic_checksum: Ints
    sent: Ints
    unknown: int
    input: InputChecksum


@dataclass(frozen=True, eq=False)
class Share:
    """What one block is to do: its part of the quotas.

    rows, changed: what it must hold, or the partitions are not those that were counted. forced, chosen: as in Quotas,
    for its own kinds. quota, lead: int64[B] replicas to add and leaderships to hand out per broker; capacity: int64[B]
    bytes for them, -1 unknown; due: int64[B] bytes that would make it even, empty where bytes are not balanced.
    classes: int64[C] exposures, first_wave and waves: int64[C] the numbers of the waves kept for each. scattered:
    int8[T] as in `spread_of_topics`.
    """

    rows: int
    changed: int
    forced: Ints
    chosen: Ints
    pooled: bool
    quota: Ints
    lead: Ints
    capacity: Ints
    due: Ints
    classes: Ints
    first_wave: Ints
    waves: Ints
    scattered: Ints


@dataclass(frozen=True, eq=False)
class Laid:
    """What the driver has to know of a block's plan. arriving: int64[B] bytes that come to each broker, as the verifier
    counts them; the rest as `report_data` has it."""

    arriving: Ints
    waves: WaveBytes
    topics: tuple[TopicSpread, ...]
    parts: tuple[Part, ...]


def survey(table: pa.Table, question: Question, task: int, block: int, *, alone: bool) -> Survey | Refused:
    """Count a block; alone: it is all there is."""
    try:
        problem = question.problem(table, whole=alone)
        summary = plan_local(problem, question.limits).summary.to_json() if alone else None
    except ProblemError as error:
        return Refused(task, block, error.row, error.reason, error.table)
    columns, missing = problem.columns, problem.missing
    brokers = len(question.brokers)
    sites = sites_of(question.brokers, np.zeros(brokers, dtype=np.int64))
    racks = sites.racks
    rows = np.flatnonzero(missing)
    kinds, _ = kinds_of(columns.held[rows], missing[rows], sites)
    size, sender = np.maximum(columns.size[rows], 0), columns.senders()[rows]
    sent = np.zeros(brokers, dtype=np.int64)
    np.add.at(sent, sender, size * missing[rows])
    # Rows are sorted, so each topic is a run.
    topic_rows = np.bincount(columns.topic, minlength=len(columns.topics))
    end = np.cumsum(topic_rows)
    checksum = np.add.reduceat(mix(columns.partition), end - topic_rows) if len(end) else np.zeros(0, dtype=np.uint64)
    pooled = too_many(kinds, racks)
    return Survey(
        task,
        block,
        table.num_rows,
        summary=summary,
        kinds=None if pooled else kinds,
        takers=takers(kinds, racks),
        changed=len(rows),
        missing=int(missing.sum()),
        held=count_per_broker(columns.held[rows], brokers),
        classes=_classes(problem, rows, question),
        topics=columns.topics,
        topic_rows=topic_rows,
        topic_last=columns.partition[end - 1].astype(np.int64),
        topic_checksum=checksum.view(np.int64),
        sent=sent,
        unknown=int((columns.size[rows] < 0).sum()),
        input=input_checksum(table, question.brokers, question.wanted.of),
    )


def lay_out(table: pa.Table, question: Question, share: Share | None) -> tuple[pa.Table, Laid]:
    """(the plan of a block, PLAN_SCHEMA, and what the driver needs of it); share None: the block is all there is. A
    class of partitions for which too few waves were kept has wave -1. Raises RuntimeError if the block is not the one
    that was counted."""
    problem = question.problem(table, whole=share is None)
    if share is None:
        return _lay_out_whole(problem, question)
    rows = np.flatnonzero(problem.missing)
    if (table.num_rows, len(rows)) != (share.rows, share.changed):
        raise RuntimeError("the partitions have changed while they were being planned")
    return _lay_out_share(problem, rows, question, share) if len(rows) else _lay_out_nothing(problem, question, share)


def _lay_out_whole(problem: Problem, question: Question) -> tuple[pa.Table, Laid]:
    """The block is all there is, so it is planned as in one process."""
    columns, rows = problem.columns, np.flatnonzero(problem.missing)
    done = plan_local(problem, question.limits)
    check = Check(problem, done.table.combine_chunks())
    after = np.full((len(rows), int(check.after.length.max(initial=0))), -1, dtype=np.int32)
    after[np.arange(after.shape[1]) < check.after.length[:, None]] = place_among(_ids(question), check.after.values)
    new = np.where(np.arange(after.shape[1]) < columns.held_count[rows][:, None], -1, after)
    waves = _copied(columns, rows, new, integers(done.table.column("wave")), question)
    return done.table, Laid(check.arriving(done.sizes), waves, done.topics, ())


def _lay_out_nothing(problem: Problem, question: Question, share: Share) -> tuple[pa.Table, Laid]:
    """No partition of the block changes, but its topics may have partitions elsewhere that do."""
    columns, rows = problem.columns, np.zeros(0, dtype=np.int64)
    none, nothing = np.zeros((0, 1), dtype=np.int32), np.zeros(len(question.brokers), dtype=np.int64)
    topics, parts = spread_of_topics(columns, rows, none, share.scattered, question)
    return PLAN_SCHEMA.empty_table(), Laid(nothing, _copied(columns, rows, none, rows, question), topics, parts)


def _lay_out_share(problem: Problem, rows: Ints, question: Question, share: Share) -> tuple[pa.Table, Laid]:
    """The changed partitions (int64[n] rows) by the block's share of the quotas."""
    columns = problem.columns
    sites = sites_of(question.brokers, share.quota.max() - share.quota)
    alive = sites.stands >= 0
    added = _placed(problem, rows, question, share, sites)
    replicas = append(columns.held[rows], columns.held_count[rows], added)
    may_lead = candidates(replicas, sites.rack >= 0)
    lead, _ = balance_leaders(may_lead, share.lead.max() - share.lead, alive)
    untouched = np.ones(len(columns.topic), dtype=bool)
    untouched[rows] = False
    rest = columns.topic[untouched], columns.held[untouched, 0]
    lead = spread_leaders(may_lead, lead, columns.topic[rows], rest, alive, share.scattered == 1)
    wave = _waves(columns, rows, added, share, question)
    order = lead_first(replicas, lead)
    plan = plan_table(columns, columns.held, rows, replicas, order, wave, _ids(question).astype(np.int32))
    topics, parts = spread_of_topics(columns, rows, order, share.scattered, question)
    waves = _copied(columns, rows, added, wave, question)
    return plan, Laid(_check(problem, plan, rows, question), waves, topics, parts)


def _placed(problem: Problem, rows: Ints, question: Question, share: Share, sites: Sites) -> Ints:
    """int32[n, M] the brokers that each changed partition is given, -1 padded."""
    columns, missing = problem.columns, problem.missing[rows]
    held, size = columns.held[rows], columns.size[rows]
    _, kind = kinds_of(held, missing, sites)
    quotas = Quotas(share.forced, share.chosen, share.pooled, int(share.quota.max()))
    added, even = expand(kind, missing, racks_of(held, sites), quotas, sites)
    added, _ = resolve_conflicts(held, added, sites, quotas.bound, even=even)
    if question.by_bytes:
        added = even_bytes(held, added, sites, size, share.capacity, share.due.max() - share.due)
    return fit(held, added, sites, size, share.capacity)


def _ids(question: Question) -> Ints:
    """int64[B] broker ids."""
    return np.array([broker.id for broker in question.brokers], dtype=np.int64)


def _copied(columns: Columns, rows: Ints, added: Ints, wave: Ints, question: Question) -> WaveBytes:
    return wave_bytes(wave, added, columns.senders()[rows], columns.size[rows], len(question.brokers))


def _classes(problem: Problem, rows: Ints, question: Question) -> Classes:
    columns, limits = problem.columns, question.limits
    key, of, count = np.unique(exposure(columns, rows), return_inverse=True, return_counts=True)
    missing = problem.missing[rows].astype(np.int64)
    size, sender = np.maximum(columns.size[rows], 0), columns.senders()[rows]
    shape = (len(key), len(question.brokers))
    cell = of * shape[1] + sender

    def total(where: Ints, length: int, amount: Ints) -> Ints:
        # Sums of whole numbers past 2**53 would lose their end as bincount's weights.
        found = np.zeros(length, dtype=np.int64)
        np.add.at(found, where, amount)
        return found

    return Classes(
        key,
        count,
        total(of, len(key), missing),
        total(of, len(key), np.minimum(size, limits.bytes_in) * missing),
        np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape),
        total(cell, shape[0] * shape[1], np.minimum(size * missing, limits.bytes_out)).reshape(shape),
    )


def _waves(columns: Columns, rows: Ints, added: Ints, share: Share, question: Question) -> Ints:
    """int32[n] waves out of those kept for the block, each of them used."""
    key, sender = exposure(columns, rows), columns.senders()[rows]
    wave = np.full(len(rows), -1, dtype=np.int32)
    for value, first, kept in zip(share.classes, share.first_wave, share.waves, strict=True):
        of = np.flatnonzero(key == value)
        found = assign_waves(added[of], sender[of], columns.size[rows[of]], len(question.brokers), question.limits)
        if int(found.max()) < kept:
            wave[of] = first + _stretch(found, int(kept))
    return wave


def _stretch(wave: Ints, count: int) -> Ints:
    """The same waves cut into `count`, at most as many as there are partitions: the fullest in halves."""
    wave, records = wave.copy(), np.bincount(wave, minlength=count)
    for number in range(int(wave.max()) + 1, count):
        fullest = int(records.argmax())
        later = np.flatnonzero(wave == fullest)[records[fullest] // 2 :]
        wave[later] = number
        records[fullest] -= len(later)
        records[number] = len(later)
    return wave


def _check(problem: Problem, plan: pa.Table, rows: Ints, question: Question) -> Ints:
    """The verifier's check of what depends on sizes, which are not in the plan: the waves, and what it returns,
    int64[B] bytes that come to each broker."""
    kept = np.flatnonzero(plan.column("wave").to_numpy() >= 0)
    columns = problem.columns
    ids = _ids(question)
    sizes, senders = sizes_or_null(columns.size[rows[kept]]), ids[columns.senders()[rows[kept]]]
    whole = len(kept) == len(rows)
    check = Check(problem, (plan if whole else plan.take(kept)).combine_chunks())
    if broken := check.waves(sizes, senders, question.limits):
        raise RuntimeError(f"a defect in the plan: {'; '.join(broken)}")
    if not question.by_bytes and all(broker.disk_free is None for broker in question.brokers):
        return np.zeros(len(question.brokers), dtype=np.int64)
    # A plan of which waves are missing is made again, and then it is what counts.
    return check.arriving(sizes)
