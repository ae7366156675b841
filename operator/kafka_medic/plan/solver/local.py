"""The planner in one process: kinds, quotas, replicas, conflicts, then leaders and waves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kafka_medic.plan.bounds import BY_BYTES
from kafka_medic.plan.columns import Bools, Columns, Ints
from kafka_medic.plan.leaders.balance import balance_leaders
from kafka_medic.plan.leaders.topic_leaders import spread_leaders
from kafka_medic.plan.leaders.topic_spread import REPORTED_TOPICS, after_plan, fullest, shared_excess, worst
from kafka_medic.plan.model import Plan, Spread, Summary, TopicSpread
from kafka_medic.plan.problem import Broker, Problem
from kafka_medic.plan.solver.aggregate import classify
from kafka_medic.plan.solver.conflict_resolution import resolve_conflicts
from kafka_medic.plan.solver.disk_capacity import arriving, capacity_of, even_bytes, fit, refuse_overfull
from kafka_medic.plan.solver.expand import expand
from kafka_medic.plan.solver.quotas import solve_quotas
from kafka_medic.plan.solver.racks import least_in_racks, rack_violations
from kafka_medic.plan.solver.rows import append, lead_first, plan_table, sizes_or_null
from kafka_medic.plan.solver.sites import Sites, count_per_broker, rack_indexes, racks_of
from kafka_medic.plan.solver.topic_replicas import spread_replicas
from kafka_medic.plan.solver.waves import assign_waves, exposure_order
from kafka_medic.plan.topic_cells import cells_of
from kafka_medic.plan.water_filling import Basin
from kafka_medic.plan.wave_limits import WaveLimits
from kafka_medic.plan.weight import Handicap, handicap

__all__ = ["Placed", "bytes_spread", "finish", "place", "plan_local"]

DEFAULT_LIMITS = WaveLimits()


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
    placed = place(columns, problem.missing, problem.brokers, by_bytes=problem.by_bytes)
    plan = finish(columns, columns.held, problem.brokers, placed, limits)
    if not problem.by_bytes:
        return plan
    come = arriving(placed.added, columns.size[placed.rows], len(problem.brokers))
    even = bytes_spread(arriving(columns.held, columns.size, len(problem.brokers)), come, problem.brokers)
    return replace(plan, summary=replace(plan.summary, bytes_per_broker=even, bounds=BY_BYTES))


def place(columns: Columns, missing: Ints, brokers: Sequence[Broker], *, by_bytes: bool = False) -> Placed:
    """Where to put what is missing (int32[N]), whoever leads and whenever it is copied. by_bytes: bytes are
    to be even, not counts; then `bound` is only what counts could come to if there were no racks."""
    rack, racks = rack_indexes(brokers)
    held = count_per_broker(columns.held, len(rack))
    least = int(missing.sum())
    fair = handicap(brokers, held, least)
    sites = Sites(rack, held + fair.extra, racks)
    rows = np.flatnonzero(missing)
    if not len(rows):
        return Placed(
            rows, np.zeros((0, 1), dtype=np.int32), int(sites.load[sites.rack >= 0].max(initial=0)), fair, least
        )
    held, missing, size = columns.held[rows], missing[rows], columns.size[rows]
    bound = max(int(sites.load[rack >= 0].max()), Basin(sites.load[rack >= 0]).level(least))
    stored = np.zeros(len(rack), dtype=np.int64)
    if by_bytes:
        stored, sites = _by_average_size(columns, brokers, sites, int(size @ missing), least)
    held_racks = racks_of(held, sites)
    kinds, kind = classify(held_racks, missing, sites.racks)
    quotas = solve_quotas(kinds, sites)
    added, even = expand(kind, missing, held_racks, quotas, sites)
    added, proven = resolve_conflicts(held, added, sites, quotas.bound, even=even)
    topic, topics = columns.topic[rows], len(columns.topics)
    floor = least_in_racks(kinds, kind, topic, topics, sites.sizes())
    stays = cells_of(columns.topic, columns.held, sites.rack >= 0, topics)
    added = spread_replicas(held, added, topic, stays, sites, floor)
    capacity = capacity_of(brokers)
    if by_bytes:
        added = even_bytes(held, added, sites, size, capacity, stored)
    added = fit(held, added, sites, size, capacity)
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


def bytes_spread(stored: Ints, come: Ints, brokers: Sequence[Broker]) -> Spread:
    """Bytes per broker in the end, in the units of a broker of average share, of int64[B] before and int64[B] added."""
    alive = np.array([broker.alive for broker in brokers], dtype=bool)
    total = int(come.sum())
    fair = handicap(brokers, stored, total)
    base = (stored + fair.extra)[alive]
    bound = max(int(base.max(initial=0)), Basin(base).level(total) if total else 0)
    return _spread(base + come[alive], bound, fair.average)


def finish(columns: Columns, before: Ints, brokers: Sequence[Broker], placed: Placed, limits: WaveLimits) -> Plan:
    """The whole plan: who leads, in which waves, and what it is worth. columns: what every partition keeps; before:
    int32[N, H] what it has. Raises ProblemError where a broker would get more bytes than it has free capacity."""
    rows, added = placed.rows, placed.added
    capacity = capacity_of(brokers)
    if (capacity >= 0).any():
        refuse_overfull(arriving(added, columns.size[rows], len(capacity)), brokers)
    rack, racks = rack_indexes(brokers)
    sites = Sites(rack, count_per_broker(columns.held, len(rack)) + placed.fair.extra, racks)
    alive = sites.rack >= 0
    replicas = append(columns.held[rows], columns.held_count[rows], added)
    order, leaders = _leaders(columns, rows, replicas, brokers)
    wave = _waves(columns, placed, len(alive), limits)

    load = sites.load + count_per_broker(added, len(alive))
    violations, unavoidable = rack_violations(
        racks_of(columns.held[rows], sites), racks_of(replicas, sites), sites.sizes()
    )
    topics, shared = _topics(columns, before, placed, order, alive)
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
    )
    ids = np.array([broker.id for broker in brokers], dtype=np.int32)
    table = plan_table(columns, before, rows, replicas, order, wave, ids)
    return Plan(table, sizes_or_null(columns.size[rows]), summary, topics)


def _leaders(columns: Columns, rows: Ints, replicas: Ints, brokers: Sequence[Broker]) -> tuple[Ints, Spread]:
    """(int32[n, F] the replicas of the changed partitions, preferred leader first; leaders per broker in the end)."""
    alive = np.array([broker.alive for broker in brokers], dtype=bool)
    untouched = np.ones(len(columns.topic), dtype=bool)
    untouched[rows] = False
    rest = columns.topic[untouched], columns.held[untouched, 0]
    fixed = np.bincount(rest[1], minlength=len(alive)).astype(np.int64)
    fair = handicap(brokers, fixed, len(rows))
    fixed += fair.extra
    lead, bound = balance_leaders(replicas, fixed, alive)
    lead = spread_leaders(replicas, lead, columns.topic[rows], rest, alive)
    order = lead_first(replicas, lead)
    led = fixed + np.bincount(order[:, 0], minlength=len(alive))
    return order, _spread(led[alive], bound, fair.average)


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
    columns: Columns, before: Ints, placed: Placed, order: Ints, alive: Bools
) -> tuple[tuple[TopicSpread, ...], tuple[int, int]]:
    """(the worst spread of the topics that the plan changes, what some topic is above its own bounds in any case)."""
    count, rows = len(columns.topics), placed.rows
    least = np.zeros(count, dtype=np.int64) if placed.of_topics is None else placed.of_topics
    after = after_plan(columns.topic, columns.held, rows, order, alive, least)
    shared = shared_excess(after, alive)
    changed = np.zeros(count, dtype=bool)
    changed[columns.topic[rows]] = True
    return worst(after.among(changed), columns.topic, before, columns.topics, alive, REPORTED_TOPICS), shared


def _spread(load: Ints, bound: int, average: int) -> Spread:
    most = int(load.max(initial=0))
    mean = -(-int(load.sum()) // max(len(load), 1))
    return Spread(int(load.min(initial=most)) - average, most - average, bound - average, mean - average)
