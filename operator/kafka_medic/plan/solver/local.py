"""The planner in one process: kinds, quotas, replicas, conflicts, then leaders and waves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kafka_medic.plan.allowed import Allowed, LeftOut
from kafka_medic.plan.bounds import BY_BYTES, RAISE, Bounds
from kafka_medic.plan.columns import Columns, Ints
from kafka_medic.plan.leaders.balance import balance_leaders
from kafka_medic.plan.leaders.topic_leaders import spread_leaders
from kafka_medic.plan.leaders.topic_spread import REPORTED_TOPICS, after_plan, fullest, worst
from kafka_medic.plan.model import Plan, Spread, Summary, TopicSpread
from kafka_medic.plan.problem import Broker, Problem, rack_names
from kafka_medic.plan.solver.conflict_resolution import resolve_conflicts
from kafka_medic.plan.solver.disk_capacity import (
    arriving,
    evened,
    fit,
    fit_directories,
    overfull,
    refuse_full_directories,
    refuse_overfull,
    room_of,
)
from kafka_medic.plan.solver.expand import expand
from kafka_medic.plan.solver.limits import over_limits, within_totals
from kafka_medic.plan.solver.packing import bytes_bound, needs_more_room
from kafka_medic.plan.solver.quotas import solve_quotas
from kafka_medic.plan.solver.racks import least_in_racks, rack_violations
from kafka_medic.plan.solver.rows import append, candidates, lead_first, left_out_table, plan_table, sizes_or_null
from kafka_medic.plan.solver.sites import Sites, count_per_broker, kinds_of, racks_of, sites_of
from kafka_medic.plan.solver.topic_replicas import spread_replicas, standing
from kafka_medic.plan.solver.waves import assign_waves, exposure_order
from kafka_medic.plan.water_filling import Basin
from kafka_medic.plan.wave_limits import WaveLimits
from kafka_medic.plan.weight import Handicap, handicap

__all__ = ["Placed", "beside_disks", "bytes_spread", "finish", "place", "place_allowed", "plan_local"]

DEFAULT_LIMITS = WaveLimits()
TRIES = 6
"""Placements that are tried until none is over a broker's limit; then what is over it is left out."""


@dataclass(frozen=True, eq=False)
class Placed:
    """Where replicas go. rows: int64[n] into the columns, ascending: the changed partitions. added: int32[n, M] broker
    indexes, -1 padded. bound: on the fullest broker, in the units of `fair`. least: moves no plan can do without.
    of_topics: int64[T] as `least_in_racks` has it, None where replicas need not be spread over racks anew."""

    rows: Ints
    added: Ints
    bound: int
    fair: Handicap
    least: int
    of_topics: Ints | None = None


def plan_local(problem: Problem, limits: WaveLimits = DEFAULT_LIMITS) -> Plan:
    """The plan for a problem. Equal content gives an equal plan, whatever the order of its rows. Raises ProblemError
    where no plan was found that keeps every broker within its disk capacity."""
    columns = problem.columns
    placed, left_out = place_allowed(
        columns, problem.missing, problem.brokers, problem.allowed, problem.left_out, by_bytes=problem.by_bytes
    )
    plan = finish(columns, columns.held, problem.brokers, placed, limits, left_out)
    bounds, even = RAISE, None
    if problem.by_bytes:
        even = _bytes_evened(columns, problem.brokers, placed)
        bounds = BY_BYTES
    bounds = beside_disks(problem.allowed.among(bounds), plan, problem.brokers)
    return replace(plan, summary=replace(plan.summary, bytes_per_broker=even, bounds=bounds))


def beside_disks(bounds: Bounds, plan: Plan, brokers: Sequence[Broker]) -> Bounds:
    """The bounds; that on replicas knows nothing of disks, so where they are known it may be out of reach."""
    replicas, name = plan.summary.replicas_per_broker, "replicasPerBroker"
    if replicas.max <= replicas.bound or (room_of(brokers) < 0).all():
        return bounds
    return {**bounds, name: replace(bounds[name], exact=False)}


def place_allowed(
    columns: Columns,
    missing: Ints,
    brokers: Sequence[Broker],
    allowed: Allowed,
    left_out: Ints,
    *,
    by_bytes: bool = False,
) -> tuple[Placed, Ints]:
    """(`place` within the limits, int8[N] as `left_out` with the partitions that do not fit them). The most exposed
    partitions come first."""
    if not allowed.limited:
        return place(columns, missing, brokers, by_bytes=by_bytes), left_out
    missing, left_out = within_totals(columns, missing, brokers, allowed, left_out)
    for last in [False] * TRIES + [True]:
        placed = place(columns, missing, brokers, allowed, by_bytes=by_bytes)
        order = np.searchsorted(placed.rows, exposure_order(columns, placed.rows))
        place_of = np.empty_like(order)
        place_of[order] = np.arange(len(order))
        over = over_limits(place_of, placed.added, columns.size[placed.rows], allowed, len(brokers))
        if not over.any():
            return placed, left_out
        missing, left_out = missing.copy(), left_out.copy()
        left_out[placed.rows[over]] = LeftOut.OVER_LIMIT
        missing[placed.rows[over]] = 0
        if last:
            placed = replace(
                placed, rows=placed.rows[~over], added=placed.added[~over], least=int(missing.sum()),
                bound=_least_level(columns, brokers, int(missing.sum())),
            )  # fmt: skip
    return placed, left_out


def _least_level(columns: Columns, brokers: Sequence[Broker], amount: int) -> int:
    """What the fullest broker holds at least once so many replicas are added, wherever they may go."""
    held = count_per_broker(columns.held, len(brokers))
    sites = sites_of(brokers, held + handicap(brokers, held, amount).extra)
    least = int(sites.load[sites.stands >= 0].max(initial=0))
    return max(least, Basin(sites.load[sites.rack >= 0]).level(amount)) if amount else least


def place(
    columns: Columns,
    missing: Ints,
    brokers: Sequence[Broker],
    allowed: Allowed | None = None,
    *,
    by_bytes: bool = False,
) -> Placed:
    """Where to put what is missing (int32[N]), whoever leads and whenever it is copied. by_bytes: bytes are
    to be even, not counts; then `bound` is only what counts could come to if there were no racks. allowed: what each
    broker may receive, which is kept as far as a way was found."""
    held = count_per_broker(columns.held, len(brokers))
    least = int(missing.sum())
    fair = handicap(brokers, held, least)
    sites = sites_of(brokers, held + fair.extra)
    rows = np.flatnonzero(missing)
    bound = _least_level(columns, brokers, least)
    if not len(rows):
        return Placed(rows, np.zeros((0, 1), dtype=np.int32), bound, fair, least)
    held, missing, size = columns.held[rows], missing[rows], columns.size[rows]
    stored = np.zeros(len(brokers), dtype=np.int64)
    if by_bytes:
        stored, sites = _by_average_size(columns, brokers, sites, int(size @ missing), least)
    kinds, kind = kinds_of(held, missing, sites)
    quotas = solve_quotas(kinds, sites)
    added, even = expand(kind, missing, racks_of(held, sites), quotas, sites)
    added, proven = resolve_conflicts(held, added, sites, quotas.bound, even=even)
    topic, topics = columns.topic[rows], len(columns.topics)
    floor = least_in_racks(kinds, kind, topic, topics, sites)
    stays = standing(columns, sites)
    added = spread_replicas(held, added, topic, stays, sites, floor)
    capacity = room_of(brokers)
    if allowed is not None and allowed.moves_per_broker is not None:
        most = np.full(len(brokers), allowed.moves_per_broker)
        added = fit(held, added, sites, np.ones_like(size), most)
    if allowed is not None and allowed.bytes_per_broker is not None:
        capacity = np.where(capacity < 0, allowed.bytes_per_broker, np.minimum(capacity, allowed.bytes_per_broker))
    if by_bytes:
        added = evened(held, added, sites, size, capacity, stored)
    added = fit_directories(held, added, sites, size, capacity, brokers)
    return Placed(rows, added, bound if by_bytes else proven, fair, least, floor)


def _by_average_size(
    columns: Columns, brokers: Sequence[Broker], sites: Sites, coming: int, moves: int
) -> tuple[Ints, Sites]:
    """(int64[B] bytes stored, with what a broker's weight has it counted for besides; the sites with the same as
    replicas of average size). A broker with few bytes gets more replicas; which replicas is decided after."""
    stored = arriving(columns.held, columns.size, len(brokers))
    stored = stored + handicap(brokers, stored, coming).extra
    each = max(coming // moves, 1)
    return stored, replace(sites, load=(stored + each // 2) // each)


def _bytes_evened(columns: Columns, brokers: Sequence[Broker], placed: Placed) -> Spread:
    """Bytes per broker in the end, beside a bound that knows racks and the largest partition."""
    rows, missing = placed.rows, (placed.added >= 0).sum(axis=1).astype(np.int32)
    size = columns.size[rows]
    stored, come = arriving(columns.held, columns.size, len(brokers)), arriving(placed.added, size, len(brokers))
    spread, fair = bytes_spread(stored, come, brokers), handicap(brokers, stored, int(come.sum()))
    bound = (
        bytes_bound(columns.held[rows], missing, size, sites_of(brokers, stored), stored + fair.extra) - fair.average
    )
    return replace(spread, bound=max(spread.bound, bound))


def bytes_spread(stored: Ints, come: Ints, brokers: Sequence[Broker]) -> Spread:
    """Bytes per broker in the end, in the units of a broker of average share, of int64[B] before and int64[B] added."""
    alive = np.array([broker.alive for broker in brokers], dtype=bool)
    total = int(come.sum())
    fair = handicap(brokers, stored, total)
    base = (stored + fair.extra)[alive]
    bound = max(int(base.max(initial=0)), Basin(base).level(total) if total else 0)
    return _spread(base + come[alive], bound, fair.average)


def finish(
    columns: Columns, before: Ints, brokers: Sequence[Broker], placed: Placed, limits: WaveLimits, left_out: Ints
) -> Plan:
    """The whole plan: who leads, in which waves, and what it is worth. columns: what every partition keeps; before:
    int32[N, H] what it has; left_out: int8[N] as in `LeftOut`. Raises ProblemError where a broker would get more bytes
    than it has free capacity."""
    rows, added = placed.rows, placed.added
    capacity = room_of(brokers)
    if (capacity >= 0).any():
        coming = arriving(added, columns.size[rows], len(capacity))
        refuse_overfull(coming, brokers, _no_room(columns, rows, added, brokers) if overfull(coming, brokers) else None)
        refuse_full_directories(added, columns.size[rows], brokers)
    sites = sites_of(brokers, count_per_broker(columns.held, len(brokers)) + placed.fair.extra)
    alive = sites.stands >= 0
    replicas = append(columns.held[rows], columns.held_count[rows], added)
    order, leaders, reassigned = _leaders(columns, rows, replicas, brokers)
    wave = _waves(columns, placed, len(alive), limits)

    load = sites.load + count_per_broker(added, len(alive))
    violations, unavoidable = rack_violations(columns.held[rows], replicas, sites)
    topics, shared = _topics(columns, before, placed, order, sites)
    topic_replicas, topic_leaders = fullest(topics, shared)
    summary = Summary(
        partitions=len(rows),
        moves=int((added >= 0).sum()),
        lower_bound_moves=placed.least,
        replicas_per_broker=_spread(load[alive], placed.bound, placed.fair.average),
        leaders_per_broker=leaders,
        rack_violations=violations,
        rack_violations_bound=unavoidable,
        waves=int(wave.max(initial=-1)) + 1,
        capacity_unknown=int(((count_per_broker(added, len(capacity)) > 0) & (capacity < 0)).sum()),
        topic_replicas=topic_replicas,
        topic_leaders=topic_leaders,
        leaders_reassigned=reassigned,
        reordered=int((order[:, 0] != replicas[:, 0]).sum()),
        left_out={why: int(count) for why, count in zip(LeftOut, np.bincount(left_out), strict=False) if why and count},
    )
    ids = np.array([broker.id for broker in brokers], dtype=np.int32)
    table = plan_table(columns, before, rows, replicas, order, wave, ids)
    return Plan(table, sizes_or_null(columns.size[rows]), summary, topics, left_out_table(columns, left_out))


def _no_room(columns: Columns, rows: Ints, added: Ints, brokers: Sequence[Broker]) -> str | None:
    """Why no plan that adds as much to these partitions (int64[n] rows of the columns) fits the disks, None where that
    is not known."""
    sites = sites_of(brokers, np.zeros(len(brokers), dtype=np.int64))
    missing = (added >= 0).sum(axis=1).astype(np.int32)
    alone = [f"broker {broker.id}" for broker in brokers if broker.alive]
    names = [f"rack {name}" for name in rack_names(brokers)] or alone
    return needs_more_room(columns.held[rows], missing, columns.size[rows], sites, room_of(brokers), names)


def _leaders(columns: Columns, rows: Ints, replicas: Ints, brokers: Sequence[Broker]) -> tuple[Ints, Spread, Spread]:
    """(int32[n, F] the replicas of the changed partitions, preferred leader first; leaders per broker in the end; the
    same if every partition keeps its order)."""
    alive = np.array([broker.alive for broker in brokers], dtype=bool)
    untouched = np.ones(len(columns.topic), dtype=bool)
    untouched[rows] = False
    rest = columns.topic[untouched], columns.held[untouched, 0]
    fixed = np.bincount(rest[1], minlength=len(alive)).astype(np.int64)
    fair = handicap(brokers, fixed, len(rows))
    fixed += fair.extra
    may_lead = candidates(replicas, np.array([broker.takes for broker in brokers], dtype=bool))
    lead, bound = balance_leaders(may_lead, fixed, alive)
    lead = spread_leaders(may_lead, lead, columns.topic[rows], rest, alive)
    order = lead_first(replicas, lead)
    led, kept = (fixed + np.bincount(lists[:, 0], minlength=len(alive)) for lists in (order, replicas))
    return order, _spread(led[alive], bound, fair.average), _spread(kept[alive], bound, fair.average)


def _waves(columns: Columns, placed: Placed, brokers: int, limits: WaveLimits) -> Ints:
    """int32[n] the wave of each changed partition."""
    exposed = exposure_order(columns, placed.rows)
    place = np.zeros(len(columns.topic), dtype=np.int64)
    place[placed.rows] = np.arange(len(placed.rows))
    at = place[exposed]
    wave = np.zeros(len(placed.rows), dtype=np.int32)
    wave[at] = assign_waves(placed.added[at], columns.senders()[exposed], columns.size[exposed], brokers, limits)
    return wave


def _topics(
    columns: Columns, before: Ints, placed: Placed, order: Ints, sites: Sites
) -> tuple[tuple[TopicSpread, ...], tuple[int, int]]:
    """(the worst spread of the topics that the plan changes, what some topic is above its own bounds in any case)."""
    count, rows, alive = len(columns.topics), placed.rows, sites.stands >= 0
    least = np.zeros(count, dtype=np.int64) if placed.of_topics is None else placed.of_topics
    after = after_plan(columns.topic, columns.held, rows, order, alive, least, sites.rack >= 0)
    changed = np.zeros(count, dtype=bool)
    changed[columns.topic[rows]] = True
    return worst(after.among(changed), columns.topic, before, columns.topics, alive, REPORTED_TOPICS), after.shared


def _spread(load: Ints, bound: int, average: int) -> Spread:
    most = int(load.max(initial=0))
    mean = -(-int(load.sum()) // max(len(load), 1))
    return Spread(max(int(load.min(initial=most)) - average, 0), most - average, bound - average, mean - average)
