"""What a task does with one block of partitions: count it, and later lay out its share of the quotas.

A block is planned by the kernel that plans a whole cluster in one process; only what it should aim at is decided
elsewhere. Loads are made so that "as even as can be" means "exactly the block's share": a broker due q of the block's
replicas starts at max(q) - q. Leaderships likewise. The verifier checks each block beside its partitions, and counts
it, before anything is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_medic.plan.arrow import integers, list_column
from kafka_medic.plan.columns import Bools, Columns, Ints
from kafka_medic.plan.leaders.balance import balance_leaders
from kafka_medic.plan.leaders.topic_leaders import spread_leaders
from kafka_medic.plan.leaders.topic_spread import REPORTED_TOPICS, after_plan, worst
from kafka_medic.plan.lists import place_among
from kafka_medic.plan.model import LEFT_OUT_SCHEMA, PLAN_SCHEMA, TopicSpread
from kafka_medic.plan.problem import ProblemError, rows_of
from kafka_medic.plan.relocation import Relocation
from kafka_medic.plan.solver.aggregate import Kinds
from kafka_medic.plan.solver.conflict_resolution import resolve_conflicts
from kafka_medic.plan.solver.disk_capacity import even_bytes, fit, fit_or_pack
from kafka_medic.plan.solver.expand import expand
from kafka_medic.plan.solver.limits import ENDLESS, Room, beyond, fitting
from kafka_medic.plan.solver.quotas import Quotas, takers, too_many
from kafka_medic.plan.solver.racks import least_in_racks
from kafka_medic.plan.solver.relocate import lowered
from kafka_medic.plan.solver.rows import append, candidates, lead_first, left_out_table, plan_table, sizes_or_null
from kafka_medic.plan.solver.sites import Sites, count_per_broker, kinds_of, racks_of, sites_of
from kafka_medic.plan.solver.topic_replicas import spread_replicas, standing
from kafka_medic.plan.solver.waves import assign_waves, exposure, exposure_order
from kafka_medic.plan.spark.packed import PIECE_BITS
from kafka_medic.plan.spark.question import AFTER, LEFT, Demand, Question
from kafka_medic.plan.spark.report_data import WaveBytes, wave_bytes
from kafka_medic.plan.verify.part import PartCounts, count_part
from kafka_medic.plan.verify.rules import Check

__all__ = [
    "Classes", "Laid", "Piece", "Refused", "Share", "Survey", "Waiting", "lay_out", "let_in", "lower", "place",
    "plan_whole", "survey",
]  # fmt: skip

WHOLE_PIECE = 1 << PIECE_BITS


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
    """A block with a row that cannot be planned: why, and of which table, as in ProblemError."""

    block: int
    reason: str
    table: str = "partitions"


@dataclass(frozen=True)
class Piece:
    """Of a topic that may be too large for one block: partitions number * WHOLE_PIECE and the rows - 1 after it."""

    topic: str
    number: int
    rows: int


@dataclass(frozen=True, eq=False)
class Waiting:
    """Partitions that wait for a limit, in C classes of equal exposure: int64[C] key, moves and bytes of each."""

    key: Ints
    moves: Ints
    bytes: Ints


@dataclass(frozen=True, eq=False)
class Survey:
    """What the driver has to know of one block.

    kinds: None if there are too many, then takers (int64[R]) and missing stand for them. changed: partitions to be
    changed; held: int64[B] replicas that they keep; load: int64[B] those that all keep; first: int64[B] preferred
    leaders of the others; stored: int64[B] known bytes. gained: int64[B] replicas that were placed already. least:
    as in Demand. sent: int64[B] bytes that each broker will send; unknown: partitions of unknown size; largest: bytes
    of the largest one to be changed. waiting: for a limit, of what `missing` counts where none was applied yet. pieces:
    of large topics.
    """

    block: int
    rows: int
    kinds: Kinds | None
    takers: Ints
    changed: int
    missing: int
    held: Ints
    load: Ints
    first: Ints
    stored: Ints
    gained: Ints
    least: Ints
    classes: Classes
    sent: Ints
    unknown: int
    largest: int
    waiting: Waiting
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, eq=False)
class Share:
    """What one block is to do: its part of the quotas.

    rows, changed: what it must hold, or the partitions are not those that were counted. forced, chosen: as in Quotas,
    for its own kinds. quota, lead: int64[B] replicas to add and leaderships to hand out per broker; capacity: int64[B]
    bytes for them, -1 unknown; due: int64[B] bytes that would make it even, empty where bytes are not balanced.
    classes: int64[C] exposures, first_wave and waves: int64[C] the numbers of the waves kept for each.
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


@dataclass(frozen=True, eq=False)
class Laid:
    """What the driver has to know of a block's plan. counts: None where too few waves were kept for it, and there is
    no plan. unknown: partitions of unknown size that it changes; sent: int64[B] bytes that each broker sends. summary:
    as JSON, of the whole, where the block is all there is. digest: of the plan's bytes, where there are any. The rest
    as `report_data` has it."""

    block: int
    rows: int
    counts: PartCounts | None
    waves: WaveBytes
    topics: tuple[TopicSpread, ...]
    sent: Ints
    unknown: int
    pieces: tuple[Piece, ...] = ()
    summary: dict[str, Any] | None = None
    digest: str = ""


def survey(table: pa.Table, question: Question, block: int) -> Survey | Refused:
    """Count a block."""
    try:
        demand = question.demand(table, whole=False)
        pieces = _pieces(demand.columns)
    except ProblemError as error:
        return _refused(table, block, error)
    columns, missing = demand.columns, demand.missing
    brokers = len(demand.brokers)
    # Before limits are applied, all that is wanted waits for them.
    applied = LEFT in table.column_names or not question.allowed.limited
    waiting = demand.waiting if applied else missing
    sites = sites_of(demand.brokers, np.zeros(brokers, dtype=np.int64))
    racks = sites.racks
    rows = np.flatnonzero(missing)
    kinds, _ = kinds_of(columns.held[rows], missing[rows], sites)
    untouched = np.ones(len(columns.topic), dtype=bool)
    untouched[rows] = False
    return Survey(
        block,
        table.num_rows,
        kinds=None if too_many(kinds, racks) else kinds,
        takers=takers(kinds, racks),
        changed=len(rows),
        missing=int(missing.sum()),
        held=count_per_broker(columns.held[rows], brokers),
        load=count_per_broker(columns.held, brokers),
        first=count_per_broker(columns.held[untouched, 0], brokers),
        stored=_stored(columns, brokers) if question.by_bytes else np.zeros(brokers, dtype=np.int64),
        gained=count_per_broker(np.zeros((0, 1), np.int32) if demand.added is None else demand.added, brokers),
        least=demand.least,
        classes=_classes(demand, rows, question),
        sent=_sent(demand, rows, missing[rows]),
        unknown=int((columns.size[rows] < 0).sum()),
        largest=int(columns.size[rows].max(initial=0)),
        waiting=_waiting(columns, waiting),
        pieces=pieces,
    )


def plan_whole(table: pa.Table, question: Question) -> tuple[pa.Table, pa.Table, Laid | Refused]:
    """(the plan of a block that is all there is, PLAN_SCHEMA; what it leaves out, LEFT_OUT_SCHEMA; and what the driver
    needs of it): the very plan that is made in one process."""
    try:
        demand = question.demand(table, whole=True)
        done = demand.plan(question.limits)
    except ProblemError as error:
        return PLAN_SCHEMA.empty_table(), LEFT_OUT_SCHEMA.empty_table(), _refused(table, 0, error)
    columns = demand.columns
    rows = rows_of(done, columns)
    check = demand.check(done.table.combine_chunks())
    counts = count_part(check, done.sizes, question.limits)
    new = _new(check, demand)
    waves = _copied(demand, rows, new, integers(done.table.column("wave")))
    summary = done.summary.to_json()
    unknown = int((columns.size[rows] < 0).sum())
    sent = _sent(demand, rows, (new >= 0).sum(axis=1))
    laid = Laid(0, table.num_rows, counts, waves, done.topics, sent, unknown, (), summary)
    return done.table, done.left_out, laid


def lower(
    table: pa.Table, question: Question, load: Ints, moves: int, room: Room, block: int
) -> tuple[pa.Table, Survey | Refused]:
    """(the block with what each partition holds in the end, its survey). load: int64[B] what brokers seem to hold, so
    that even means what this block is to give and take; moves: that it may make; room: what may come to its brokers."""
    request = question.demand(table, whole=False).request
    if not isinstance(request, Relocation):
        raise TypeError("the question does not move replicas")
    table = _placed_in(table, lowered(request, load.copy(), moves, room))
    return table, survey(table, question, block)


def let_in(
    table: pa.Table, question: Question, moves: int, total: int, block: int
) -> tuple[pa.Table, Survey | Refused]:
    """(the block in which as many more partitions as fit into these moves and bytes no longer wait, its survey). The
    most exposed come first."""
    bare = table.drop_columns([LEFT]) if LEFT in table.column_names else table
    demand = question.demand(bare, whole=False)
    waits = np.asarray(demand.missing > 0)
    if bare is not table:
        waits &= integers(table.column(LEFT)) > 0
    rows = exposure_order(demand.columns, np.flatnonzero(waits))
    fits = fitting(demand.missing[rows], demand.columns.size[rows], moves, total)
    waits[rows[fits]] = False
    table = bare.append_column(LEFT, pa.array(waits.astype(np.int8)))
    return table, survey(table, question, block)


def place(
    table: pa.Table, question: Question, share: Share, room: Room, block: int
) -> tuple[pa.Table, Survey | Refused]:
    """(the block with what each partition holds in the end, none of its brokers with more than its room, its survey).
    What finds no room waits."""
    demand = question.demand(table, whole=False)
    rows = np.flatnonzero(demand.missing)
    sites = sites_of(demand.brokers, share.quota.max(initial=0) - share.quota)
    columns, waits = demand.columns, demand.waiting > 0
    after = demand.before
    if len(rows):
        added, _ = _placed(demand, rows, question, share, sites)
        held, size = columns.held[rows], columns.size[rows]
        added = fit(held, added, sites, np.ones_like(size), _limit(room.moves))
        added = fit(held, added, sites, size, _least(room.bytes, share.capacity))
        turn = np.empty(len(rows), dtype=np.int64)
        turn[np.searchsorted(rows, exposure_order(columns, rows))] = np.arange(len(rows))
        over = beyond(turn, added, size, room)
        waits[rows[over]] = True
        rows, added = rows[~over], added[~over]
        width = max(after.shape[1], columns.held.shape[1] + added.shape[1])
        after = np.pad(after, ((0, 0), (0, width - after.shape[1])), constant_values=-1)
        both = np.concatenate([columns.held[rows], added], axis=1)
        after[rows] = np.pad(both, ((0, 0), (0, width - both.shape[1])), constant_values=-1)
    bare = table.drop_columns([LEFT]) if LEFT in table.column_names else table
    table = _placed_in(bare.append_column(LEFT, pa.array(waits.astype(np.int8))), after)
    return table, survey(table, question, block)


def _placed_in(table: pa.Table, after: Ints) -> pa.Table:
    """The table with the column AFTER; after: int32[N, F], -1 padded."""
    inside = after >= 0
    return table.append_column(AFTER, list_column(inside.sum(axis=1), after[inside]))


def _limit(most: Ints) -> Ints:
    """int64[B] as `fit` takes it: -1 for no limit."""
    return np.where(most == ENDLESS, -1, most)


def _least(most: Ints, capacity: Ints) -> Ints:
    """The same, of a limit and of what disks have room for (-1 unknown)."""
    return _limit(np.where(capacity < 0, most, np.minimum(most, capacity)))


def lay_out(table: pa.Table, question: Question, share: Share, block: int) -> tuple[pa.Table, pa.Table, Laid]:
    """(the plan of a block, PLAN_SCHEMA; what it leaves out, LEFT_OUT_SCHEMA; and what the driver needs of it). Raises
    RuntimeError if the block is not the one that was counted, or if its plan does not keep the rules."""
    demand = question.demand(table, whole=False)
    columns, rows = demand.columns, np.flatnonzero(demand.missing)
    if (table.num_rows, len(rows)) != (share.rows, share.changed):
        raise RuntimeError("the partitions have changed while they were being planned")
    sent, unknown = _sent(demand, rows, demand.missing[rows]), int((columns.size[rows] < 0).sum())
    sites = sites_of(demand.brokers, share.quota.max(initial=0) - share.quota)
    least = np.zeros(len(columns.topics), dtype=np.int64)
    added, order, wave = np.zeros((0, 1), np.int32), np.zeros((0, 1), np.int32), np.zeros(0, np.int32)
    if len(rows):
        added, least = _placed(demand, rows, question, share, sites)
        wave = _waves(columns, rows, added, share, question)
        if (wave < 0).any():
            none = np.zeros(0, dtype=np.int64)
            nothing = Laid(
                block, table.num_rows, None, WaveBytes(none, none, none, np.zeros_like(sent)), (), sent, unknown
            )
            return PLAN_SCHEMA.empty_table(), LEFT_OUT_SCHEMA.empty_table(), nothing
    replicas = append(columns.held[rows], columns.held_count[rows], added) if len(rows) else added
    if len(rows):
        order = _ordered(columns, rows, replicas, share, sites)
    plan = plan_table(columns, demand.before, rows, replicas, order, wave, _ids(demand).astype(np.int32))
    plan = plan.combine_chunks()
    counts = count_part(demand.check(plan), sizes_or_null(columns.size[rows]), question.limits)
    pieces = _pieces(columns)
    topics = _topics(columns, demand.before, rows, order, sites.stands >= 0, least, {piece.topic for piece in pieces})
    waves = _copied(demand, rows, added, wave)
    return (
        plan,
        left_out_table(columns, demand.left_out),
        Laid(block, table.num_rows, counts, waves, topics, sent, unknown, pieces),
    )


def _refused(table: pa.Table, block: int, error: ProblemError) -> Refused:
    """A row's number means nothing in a table: the partition's name does."""
    if error.row is None:
        return Refused(block, error.reason, error.table)
    at = [table.column(name)[error.row - 1].as_py() for name in ("topic", "partition")]
    if not at[0]:
        return Refused(block, f"of a row: {error.reason}")
    name = "-".join("?" if value is None else str(value) for value in at)
    return Refused(block, error.reason if error.reason.startswith(name) else f"{name}: {error.reason}")


def _pieces(columns: Columns) -> tuple[Piece, ...]:
    """The pieces of large topics; a topic of which the whole is here has the numbers 0, 1, 2, ... Raises
    ProblemError."""
    if not len(columns.topic):
        return ()
    key = columns.topic.astype(np.int64) << 32 | columns.partition >> PIECE_BITS
    begin = np.flatnonzero(np.diff(key, prepend=-1))
    rows = np.diff(begin, append=len(key))
    within = np.arange(len(key)) - np.repeat(begin, rows)
    expected = (columns.partition >> PIECE_BITS << PIECE_BITS) + within
    wrong = np.flatnonzero(columns.partition != expected)
    if len(wrong):
        at = int(wrong[0])
        topic, found = columns.topics[int(columns.topic[at])], int(columns.partition[at])
        if found < expected[at]:
            raise ProblemError(None, f"{topic}-{found} is listed twice")
        raise ProblemError(None, f"{topic}-{int(expected[at])} is missing, though {topic}-{found} is here")
    number = columns.partition[begin] >> PIECE_BITS
    large = np.flatnonzero((number > 0) | (rows == WHOLE_PIECE))
    return tuple(Piece(columns.topics[columns.topic[begin[n]]], int(number[n]), int(rows[n])) for n in large.tolist())


def _placed(demand: Demand, rows: Ints, question: Question, share: Share, sites: Sites) -> tuple[Ints, Ints]:
    """(int32[n, M] the brokers that each changed partition is given, -1 padded; int64[T] as of `least_in_racks`)."""
    topics = len(demand.columns.topics)
    if demand.added is not None:
        return demand.added, np.zeros(topics, dtype=np.int64)
    columns, missing = demand.columns, demand.missing[rows]
    held, size = columns.held[rows], columns.size[rows]
    kinds, kind = kinds_of(held, missing, sites)
    quotas = Quotas(share.forced, share.chosen, share.pooled, int(share.quota.max()))
    added, even = expand(kind, missing, racks_of(held, sites), quotas, sites)
    added, _ = resolve_conflicts(held, added, sites, quotas.bound, even=even)
    topic = columns.topic[rows]
    least = least_in_racks(kinds, kind, topic, topics, sites)
    added = spread_replicas(held, added, topic, standing(columns, sites), sites, least)
    if question.by_bytes:
        added = even_bytes(held, added, sites, size, share.capacity, share.due.max() - share.due)
    return fit_or_pack(held, added, sites, size, share.capacity), least


def _ordered(columns: Columns, rows: Ints, replicas: Ints, share: Share, sites: Sites) -> Ints:
    """int32[n, F] the replicas of the changed partitions, preferred leader first."""
    live, may_lead = sites.stands >= 0, candidates(replicas, sites.rack >= 0)
    lead, _ = balance_leaders(may_lead, share.lead.max() - share.lead, live)
    untouched = np.ones(len(columns.topic), dtype=bool)
    untouched[rows] = False
    rest = columns.topic[untouched], columns.held[untouched, 0]
    return lead_first(replicas, spread_leaders(may_lead, lead, columns.topic[rows], rest, live))


def _topics(
    columns: Columns, before: Ints, rows: Ints, order: Ints, live: Bools, least: Ints, large: set[str]
) -> tuple[TopicSpread, ...]:
    """The worst spread of the topics that the plan of the block changes, but for those that lie in several."""
    changed = np.zeros(len(columns.topics), dtype=bool)
    changed[columns.topic[rows]] = True
    if large:
        changed &= [name not in large for name in columns.topics]
    after = after_plan(columns.topic, columns.held, rows, order, live, least).among(changed)
    return worst(after, columns.topic, before, columns.topics, live, REPORTED_TOPICS)


def _new(check: Check, demand: Demand) -> Ints:
    """int32[n, M] the replicas that come in a plan that is made, -1 padded."""
    after, staying = check.after, check.staying
    width = int(after.length.max(initial=0))
    new = np.full((len(after.length), max(width, 1)), -1, dtype=np.int32)
    there = np.arange(new.shape[1]) < after.length[:, None]
    new[there] = place_among(_ids(demand), after.values)
    return np.where(np.arange(new.shape[1]) < staying.length[:, None], -1, new)


def _ids(demand: Demand) -> Ints:
    """int64[B] broker ids."""
    return np.array([broker.id for broker in demand.brokers], dtype=np.int64)


def _copied(demand: Demand, rows: Ints, added: Ints, wave: Ints) -> WaveBytes:
    columns = demand.columns
    return wave_bytes(wave, added, columns.senders()[rows], columns.size[rows], len(demand.brokers))


def _sent(demand: Demand, rows: Ints, copies: Ints) -> Ints:
    """int64[B] known bytes that each broker sends; copies: int[n] of each of the rows."""
    columns = demand.columns
    sent = np.zeros(len(demand.brokers), dtype=np.int64)
    np.add.at(sent, columns.senders()[rows], np.maximum(columns.size[rows], 0) * copies)
    return sent


def _stored(columns: Columns, brokers: int) -> Ints:
    """int64[B] known bytes of the replicas that stay."""
    stored, size = np.zeros(brokers, dtype=np.int64), np.maximum(columns.size, 0)
    for column in columns.held.T:
        there = column >= 0
        np.add.at(stored, column[there], size[there])
    return stored


def _waiting(columns: Columns, waiting: Ints) -> Waiting:
    """Those of these partitions that wait; waiting: int32[N] replicas to add to them."""
    rows = np.flatnonzero(waiting)
    key, of = np.unique(exposure(columns, rows), return_inverse=True)
    moves, total = np.zeros(len(key), dtype=np.int64), np.zeros(len(key), dtype=np.int64)
    np.add.at(moves, of, waiting[rows])
    np.add.at(total, of, waiting[rows] * np.maximum(columns.size[rows], 0))
    return Waiting(key, moves, total)


def _classes(demand: Demand, rows: Ints, question: Question) -> Classes:
    columns, limits = demand.columns, question.limits
    key, of, count = np.unique(exposure(columns, rows), return_inverse=True, return_counts=True)
    missing = demand.missing[rows].astype(np.int64)
    size, sender = np.maximum(columns.size[rows], 0), columns.senders()[rows]
    shape = (len(key), len(demand.brokers))
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
        found = assign_waves(added[of], sender[of], columns.size[rows[of]], len(share.quota), question.limits)
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
