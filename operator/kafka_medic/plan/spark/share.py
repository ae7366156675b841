"""The driver's part: solve for the whole once, then divide the answer among the blocks, to the last replica.

The size of all this depends on the numbers of kinds, brokers and blocks, not of partitions. A division in
proportion is fractional; rounding it down and giving the rest to those with the largest fractions keeps rows and
columns whole (Gale, 1957, and Ryser, 1957: it fails for no matrix of noughts and ones that exists, and the
fractions are a witness that one does).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kafka_medic.plan.broker import refuse_overflow
from kafka_medic.plan.columns import Ints
from kafka_medic.plan.relocation import SpreadRacks
from kafka_medic.plan.solver.aggregate import merge
from kafka_medic.plan.solver.disk_capacity import capacity_of
from kafka_medic.plan.solver.expand import GOLDEN
from kafka_medic.plan.solver.limits import ENDLESS, Room, in_all, room_within
from kafka_medic.plan.solver.quotas import Quotas, broker_quotas, solve_pooled, solve_quotas, too_many
from kafka_medic.plan.solver.rebalance import exchange_quotas
from kafka_medic.plan.solver.relocate import levels, spread_bound
from kafka_medic.plan.solver.sites import Sites, sites_of
from kafka_medic.plan.solver.transport import transport
from kafka_medic.plan.spark.blocks import Classes, Share, Survey
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.water_filling import Basin, water_fill
from kafka_medic.plan.wave_limits import WaveLimits
from kafka_medic.plan.weight import Handicap, handicap

__all__ = ["LETTING_IN", "divide", "exchanges", "grants", "placed_bound", "rooms", "shares"]

LETTING_IN = 4
"""Passes in which partitions are let in until limits are used up; one does, but for a few large partitions."""
FEW = 100
"""A part of the limits that is not worth another pass over all blocks."""
STEPS = 64
"""Groups of rows whose rests are divided with an eye to what those before have come to."""


def shares(
    surveys: Sequence[Survey], question: Question, slack: float, *, placed: bool = False
) -> tuple[list[Share], int | None]:
    """(what each block is to do, the bound on the fullest broker, None if nothing changes or it was proven before).

    slack: how many waves to keep for a block, over what its busiest broker needs at least. placed: replicas were placed
    already.
    """
    if not any(found.changed for found in surveys):
        return [_idle(found) for found in surveys], None
    if placed:
        return _moved(surveys, question, slack), None
    held, missing = np.sum([found.load for found in surveys], axis=0), sum(found.missing for found in surveys)
    fair = handicap(question.standing, held, missing)
    sites = sites_of(question.standing, held + fair.extra)
    bound, due = None, np.zeros((len(surveys), 0), dtype=np.int64)
    if question.by_bytes:
        able = sites.rack >= 0
        bound = max(int(sites.load[sites.stands >= 0].max()), Basin(sites.load[able]).level(missing))
        sites, due = _by_bytes(surveys, sites, missing, question)
    quotas, places = _solve(surveys, sites)
    bound = quotas.bound if bound is None else bound
    if isinstance(question.ask, SpreadRacks):
        least = np.sum([found.least for found in surveys], axis=0)
        bound = spread_bound(bound, least, held, missing, missing, question.standing)
    return _divided(surveys, question, slack, sites, quotas, places, due), bound - fair.average


def exchanges(surveys: Sequence[Survey], question: Question, moves: int) -> tuple[list[tuple[Ints, int, Room]], int]:
    """(what each block sees brokers hold, int64[B], so that to make them even is its part of the moves, how many it may
    make, and what may come to its brokers; the bound on the fullest broker). surveys: of the blocks as they are."""
    held = np.sum([found.load for found in surveys], axis=0)
    fair = _whole_load(question, held)
    alive = np.array([broker.alive for broker in question.standing], dtype=bool)
    excluded = np.array([broker.id in question.allowed.exclude_brokers for broker in question.standing], dtype=bool)
    takes = alive & np.array([broker.takes for broker in question.standing], dtype=bool)
    give, take = exchange_quotas(held + fair.extra, alive & ~excluded, takes, moves)
    bound = levels((held + fair.extra)[alive], moves)[0] - fair.average
    rows = np.array([[found.rows] for found in surveys], dtype=np.int64)
    own, spare = _apportioned(int(give.sum()), rows), _apportioned(moves - int(give.sum()), rows)
    gives, taken = (divide(quota[None, :], own, own)[:, 0] for quota in (give, take))
    loads = int(take.max(initial=0)) + gives - taken
    made = (own + spare)[:, 0].tolist()
    room = _divided_room(question, taken, np.broadcast_to(rows, taken.shape), disks=True)
    return list(zip(loads, made, room, strict=True)), bound


def grants(surveys: Sequence[Survey], question: Question, *, first: bool) -> list[tuple[int, int]] | None:
    """How many moves and bytes of partitions that wait each block may let in, the most exposed first; None where that
    is nothing, or where as good as all was let in. Blocks come one after another, so that only the last of them has to
    leave out part of a class. first: none was let in yet, all that is wanted waits."""
    moves, total = in_all(question.allowed, question.standing)
    wanted, size = sum(found.missing for found in surveys), sum(int(found.sent.sum()) for found in surveys)
    if first and wanted <= moves and size <= total:
        return None
    if not first:
        moves, total = moves - wanted, total - size
        if moves * FEW < wanted or total * FEW < size:
            return None
    given = [[0, 0] for _ in surveys]
    cells = sorted(
        (int(key), block, place) for block, found in enumerate(surveys) for place, key in enumerate(found.waiting.key)
    )
    for _, block, place in cells:
        waits = surveys[block].waiting
        part = min(int(waits.moves[place]), moves), min(int(waits.bytes[place]), total)
        moves, total = moves - part[0], total - part[1]
        given[block] = [given[block][0] + part[0], given[block][1] + part[1]]
    return [(one, other) for one, other in given] if any(one for one, _ in given) else None


def rooms(surveys: Sequence[Survey], parts: Sequence[Share], question: Question) -> list[Room]:
    """What may come to the brokers of each block, where they may receive so much in all."""
    quota = np.array([share.quota for share in parts])
    missing = np.array([found.missing for found in surveys], dtype=np.int64)
    return _divided_room(question, quota, np.broadcast_to(missing[:, None], quota.shape), disks=False)


def placed_bound(surveys: Sequence[Survey], question: Question) -> int:
    """What the fullest broker holds at least once so many replicas are placed, wherever they may go."""
    held, moves = np.sum([found.load for found in surveys], axis=0), sum(int(found.gained.sum()) for found in surveys)
    fair = handicap(question.standing, held, moves)
    sites = sites_of(question.standing, held + fair.extra)
    bound = int(sites.load[sites.stands >= 0].max(initial=0))
    if moves:
        bound = max(bound, Basin(sites.load[sites.rack >= 0]).level(moves))
    return bound - fair.average


def _divided_room(question: Question, wanted: Ints, rest: Ints, *, disks: bool) -> list[Room]:
    """What may come to each broker, divided among the blocks: what they want of it (int64[b, B] replicas), and what is
    left in proportion to `rest` (int64[b, B]). disks: with what fits on them."""
    whole = room_within(question.allowed, wanted.shape[1])
    most, total = whole.bytes, ENDLESS
    if disks:
        capacity = capacity_of(question.standing)
        most = np.where(capacity < 0, most, np.minimum(most, capacity))
        total = ENDLESS if question.allowed.bytes is None else question.allowed.bytes
    asked = wanted.sum(axis=0)
    base = np.where(asked <= whole.moves, wanted, 0)
    moves = base + _split(whole.moves - base.sum(axis=0), np.where(asked <= whole.moves, rest, wanted))
    moves = np.where(whole.moves == ENDLESS, ENDLESS, moves)
    weight = np.where(asked > 0, wanted, rest)
    bytes_ = np.where(most == ENDLESS, ENDLESS, _split(most, weight))
    totals = np.full(len(wanted), ENDLESS) if total == ENDLESS else _split(np.array([total]), rest[:, :1])[:, 0]
    return [Room(*part) for part in zip(moves, bytes_, totals.tolist(), strict=True)]


def _split(whole: Ints, weights: Ints) -> Ints:
    """int64[b, B]: each of whole (int64[B]) divided in proportion to its column of weights (int64[b, B])."""
    exact: Any = weights.astype(object) * whole.astype(object) // np.maximum(weights.sum(axis=0), 1).astype(object)
    parts: Ints = exact.astype(np.int64)
    rest = np.where(weights.sum(axis=0) > 0, whole - parts.sum(axis=0), 0)
    # The rest is less than the blocks that want some; each broker begins with another one of them.
    turn = (np.arange(len(weights))[:, None] + np.arange(weights.shape[1])) % len(weights)
    rank = np.argsort(np.argsort(np.where(weights > 0, turn, len(weights)), axis=0, kind="stable"), axis=0)
    return parts + (rank < rest)


def _whole_load(question: Question, held: Ints) -> Handicap:
    """What brokers count for besides what they hold, where all of it may move."""
    alive = np.array([broker.alive for broker in question.standing], dtype=bool)
    return handicap(question.standing, np.zeros_like(held), int(held[alive].sum()))


def _apportioned(whole: int, rows: Ints) -> Ints:
    """int64[b, 1]: a number divided in proportion to int64[b, 1] rows."""
    part = whole * rows // max(int(rows.sum()), 1)
    part[: whole - int(part.sum())] += 1
    return part


def _moved(surveys: Sequence[Survey], question: Question, slack: float) -> list[Share]:
    """What is left to do for blocks whose replicas were moved already: leaders and waves."""
    sites = sites_of(question.standing, np.sum([found.load for found in surveys], axis=0))
    quota = np.array([found.gained for found in surveys])
    lead = _leaders(surveys, quota, sites, question)
    waves = [_kept(found.classes, part, question.limits, slack) for found, part in zip(surveys, quota, strict=True)]
    first = _first_waves(surveys, waves)
    none = np.zeros(0, dtype=np.int64)
    return [
        Share(
            found.rows, found.changed, none, none, False, quota[b], lead[b], none, none, found.classes.key, first[b],
            waves[b],
        )
        for b, found in enumerate(surveys)
    ]  # fmt: skip


def _idle(found: Survey) -> Share:
    """The share of a block when nothing changes in any."""
    none = np.zeros(0, dtype=np.int64)
    return Share(found.rows, 0, none, none, False, none, none, none, none, none, none, none)


def _divided(
    surveys: Sequence[Survey],
    question: Question,
    slack: float,
    sites: Sites,
    quotas: Quotas,
    places: Sequence[Ints],
    due: Ints,
) -> list[Share]:
    """The quotas of the whole, divided among the blocks; places: which rows of the quotas each block's kinds are; due:
    int64[b, B] bytes that each block should bring to each broker."""
    chosen = _chosen(surveys, quotas, places)
    forced = [quotas.forced[place] for place in places]
    poured = np.array([_poured(*part, quotas.pooled) for part in zip(surveys, chosen, forced, strict=True)])
    quota = _per_broker(sites, poured)
    lead = _leaders(surveys, quota, sites, question)
    capacity = _capacity(surveys, quota, capacity_of(question.standing))
    waves = [_kept(found.classes, part, question.limits, slack) for found, part in zip(surveys, quota, strict=True)]
    first = _first_waves(surveys, waves)
    return [
        Share(
            found.rows, found.changed, forced[b], chosen[b], quotas.pooled, quota[b], lead[b],
            capacity[b], due[b], found.classes.key, first[b], waves[b],
        )
        for b, found in enumerate(surveys)
    ]  # fmt: skip


def divide(whole: Ints, weights: Ints, need: Ints) -> Ints:
    """int64[b, T, R]: each row whole[t] (int64[T, R]) divided among b blocks in proportion to weights (int64[b, T]).

    need: int64[b, T], the sum of each block's part of each row; over the blocks it is the row's own sum.
    """
    total = np.maximum(weights.sum(axis=0), 1)[:, None]
    parts = np.array([whole * weight[:, None] // total for weight in weights]).reshape(len(weights), *whole.shape)
    # Of equals each row begins with another one, and each block takes what it is owed by the rows before: else the
    # first block gets the same ones of every row, and the topics that lie in it with them.
    places, number = np.arange(whole.shape[1]), np.arange(len(whole))[:, None]
    turned = (places + (number * GOLDEN % 1 * whole.shape[1]).astype(np.int64)) % whole.shape[1]
    owed = np.zeros((len(weights), whole.shape[1]))
    for rows in np.array_split(np.arange(len(whole)), max(min(len(whole), STEPS), 1)):
        left = whole[rows] - parts[:, rows].sum(axis=0)
        for block, wanted in enumerate(need[:, rows]):
            owed[block] += (whole[rows] * (weights[block, rows, None] / total[rows])).sum(axis=0)
            short = wanted - parts[block, rows].sum(axis=1)
            due = np.broadcast_to(np.floor(owed[block] - parts[block, rows].sum(axis=0)), left.shape)
            rank = np.empty_like(left)
            order = np.lexsort((turned[rows], -due, -left), axis=1)
            np.put_along_axis(rank, order, np.broadcast_to(places, left.shape), axis=1)
            more = rank < short[:, None]
            parts[block, rows] += more
            left -= more
            owed[block] -= parts[block, rows].sum(axis=0)
    return parts


def _poured(found: Survey, chosen: Ints, forced: Ints, pooled: bool) -> Ints:
    """int64[R] replicas that a block adds in each rack."""
    poured: Ints = chosen.sum(axis=0)
    if not pooled and found.kinds is not None:
        poured = poured + (forced * found.kinds.count[:, None]).sum(axis=0)
    return poured


def _by_bytes(surveys: Sequence[Survey], sites: Sites, missing: int, question: Question) -> tuple[Sites, Ints]:
    """(what each broker holds in replicas of average size, int64[b, B] bytes that each block should bring to it)."""
    base, live = np.sum([found.stored for found in surveys], axis=0), np.flatnonzero(sites.rack >= 0)
    coming = np.array([found.sent.sum() for found in surveys], dtype=np.int64)
    total = int(coming.sum())
    refuse_overflow(question.standing, int(base.sum()) + total)
    base = base + handicap(question.standing, base, total).extra
    wish = np.zeros(len(base))
    wish[live] = water_fill(base[live], total)
    due = np.floor(wish[None, :] * (coming / max(total, 1))[:, None]).astype(np.int64)
    each = max(total // missing, 1)
    return replace(sites, load=(base + each // 2) // each), due


def _solve(surveys: Sequence[Survey], sites: Sites) -> tuple[Quotas, list[Ints]]:
    """The quotas of the whole, and which of their rows the kinds of each block are."""
    listed = [found.kinds for found in surveys]
    known = [kinds for kinds in listed if kinds is not None]
    if len(known) == len(listed):
        kinds, places = merge(known, sites.places)
        if not too_many(kinds, sites.racks):
            return solve_quotas(kinds, sites), places
    able = np.sum([found.takers for found in surveys], axis=0)
    missing = sum(found.missing for found in surveys)
    return solve_pooled(able, missing, sites), [np.zeros(1, dtype=np.int64) for _ in surveys]


def _chosen(surveys: Sequence[Survey], quotas: Quotas, places: Sequence[Ints]) -> list[Ints]:
    if quotas.pooled:
        missing = np.array([[found.missing] for found in surveys], dtype=np.int64)
        return list(divide(quotas.chosen, missing, missing))
    kinds = len(quotas.chosen)
    count = np.zeros((len(surveys), kinds), dtype=np.int64)
    for row, found, place in zip(count, surveys, places, strict=True):
        row[place] = found.kinds.count if found.kinds else 0
    choose = quotas.chosen.sum(axis=1) // np.maximum(count.sum(axis=0), 1)
    parts = divide(quotas.chosen, count, count * choose)
    return [part[place] for part, place in zip(parts, places, strict=True)]


def _per_broker(sites: Sites, poured: Ints) -> Ints:
    """int64[b, B] replicas that each block adds to each broker; poured: int64[b, R]."""
    whole = broker_quotas(sites, poured.sum(axis=0))
    quota = np.zeros((len(poured), len(sites.rack)), dtype=np.int64)
    for rack in range(sites.racks):
        brokers, part = sites.members(rack), poured[:, [rack]]
        quota[:, brokers] = divide(whole[None, brokers], part, part)[:, 0]
    return quota


def _leaders(surveys: Sequence[Survey], quota: Ints, sites: Sites, question: Question) -> Ints:
    """int64[b, B] preferred leaderships that each block hands out; it can give a broker no more than it has replicas
    on it."""
    live = np.flatnonzero(sites.stands >= 0)
    held = np.array([found.held for found in surveys])
    changed = np.array([found.changed for found in surveys], dtype=np.int64)
    first = np.sum([found.first for found in surveys], axis=0)
    fixed = (first + handicap(question.standing, first, int(changed.sum())).extra)[live]
    wish = water_fill(fixed, int(changed.sum()))
    basins = [Basin(np.array([count])) for count in fixed.tolist()]
    lead = np.zeros(quota.shape, dtype=np.int64)
    none = np.zeros(len(live), dtype=np.int64)
    # Else a broker would lead where it has most, and that is one topic perhaps.
    lead[:, live] = transport(changed, (held + quota)[:, live], basins, none, wish, alike=True)
    return lead


def _capacity(surveys: Sequence[Survey], quota: Ints, capacity: Ints) -> Ints:
    """int64[b, B] bytes of each broker's capacity for each block: what it may bring on average, and of the rest most
    where the largest partitions are; -1 unknown."""
    each = np.array([found.sent.sum() / max(found.missing, 1) for found in surveys])
    largest = np.array([found.largest for found in surveys], dtype=np.float64)
    due = quota * each[:, None]
    total = due.sum(axis=0)
    part = due * np.minimum(capacity / np.maximum(total, 1), 1)
    part += np.maximum(capacity - total, 0) * (largest / max(largest.sum(), 1))[:, None]
    return np.where(capacity < 0, -1, np.floor(part)).astype(np.int64)


def _kept(classes: Classes, quota: Ints, limits: WaveLimits, slack: float) -> Ints:
    """int64[C] waves for each class of a block: as few as its records need, or more where a broker is the limit."""
    share = quota.max() / max(int(quota.sum()), 1)
    least = -(-classes.rows // limits.records)
    if not len(least):
        return least
    busiest = np.max(
        [
            classes.sending.max(axis=1) / limits.bytes_out,
            classes.arriving * share / limits.bytes_in,
            (classes.sends.max(axis=1) + classes.copies * share) / limits.partitions_per_broker,
        ],
        axis=0,
    )
    ample = np.ceil(busiest * slack + least * 0.1 + 1).astype(np.int64)
    kept: Ints = np.where(busiest * slack + 1 > least, np.minimum(np.maximum(ample, least), classes.rows), least)
    return kept


def _first_waves(surveys: Sequence[Survey], waves: Sequence[Ints]) -> list[Ints]:
    """Number of the first wave of each class of each block: class after class, block after block."""
    first = [np.zeros(len(kept), dtype=np.int64) for kept in waves]
    cells = sorted(
        (int(key), block, place) for block, found in enumerate(surveys) for place, key in enumerate(found.classes.key)
    )
    number = 0
    for _, block, place in cells:
        first[block][place] = number
        number += int(waves[block][place])
    return first
