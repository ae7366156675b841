"""The planner in one process: aggregate, solve, expand, settle, then leaders and waves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_medic.plan.aggregate import classify
from kafka_medic.plan.columns import Columns, Ints
from kafka_medic.plan.expand import expand
from kafka_medic.plan.leaders import balance_leaders
from kafka_medic.plan.model import Plan, Spread, Summary
from kafka_medic.plan.problem import Problem
from kafka_medic.plan.racks import rack_violations
from kafka_medic.plan.room import arriving, fit, refuse_overfull, room_of
from kafka_medic.plan.rows import append, count_per_broker, plan_table, rack_indexes, racks_of, sizes_or_null
from kafka_medic.plan.settle import settle
from kafka_medic.plan.solve import Sites, solve
from kafka_medic.plan.waves import WaveLimits, assign_waves, exposure_order
from kafka_medic.plan.weight import handicap

__all__ = ["plan_local"]

DEFAULT_LIMITS = WaveLimits()


@dataclass(frozen=True, eq=False)
class _Placed:
    """The changed rows (int64[n] into the columns), what they gain (int32[n, M]), the bound it proves."""

    rows: Ints
    added: Ints
    bound: int


def plan_local(problem: Problem, limits: WaveLimits = DEFAULT_LIMITS) -> Plan:
    """The plan for a problem. Equal content gives an equal plan, whatever the order of its rows. Raises ProblemError
    where no plan was found that leaves every broker room on its disks."""
    columns, room = problem.columns, room_of(problem.brokers)
    rack, racks = rack_indexes(problem.brokers)
    held = count_per_broker(columns.held, len(rack))
    fair = handicap(problem.brokers, held, int(problem.missing.sum()))
    sites = Sites(rack, held + fair.extra, racks)
    placed = _place(columns, problem.missing, sites, room)
    rows, added = placed.rows, placed.added
    refuse_overfull(arriving(added, columns.size[rows], len(room)), problem.brokers)
    replicas = append(columns.held[rows], columns.held_count[rows], added)
    alive = sites.rack >= 0

    untouched = np.ones(len(columns.topic), dtype=bool)
    untouched[rows] = False
    fixed = np.bincount(columns.held[untouched, 0], minlength=len(alive)).astype(np.int64)
    fair_lead = handicap(problem.brokers, fixed, len(rows))
    fixed += fair_lead.extra
    lead, leader_bound = balance_leaders(replicas, fixed, alive)

    order = exposure_order(columns, rows)
    place = np.searchsorted(rows, order)
    wave = np.zeros(len(rows), dtype=np.int32)
    sender = columns.senders()[order]
    wave[place] = assign_waves(added[place], sender, columns.size[order], len(alive), limits)

    load = sites.load + count_per_broker(added, len(alive))
    led = fixed + np.bincount(replicas[np.arange(len(rows)), lead], minlength=len(alive))
    violations, unavoidable = rack_violations(
        racks_of(columns.held[rows], sites), racks_of(replicas, sites), sites.sizes()
    )
    summary = Summary(
        partitions=len(rows),
        moves=int((added >= 0).sum()),
        lower_bound_moves=int(problem.missing.sum()),
        replicas_per_broker=_spread(load[alive], placed.bound, fair.average),
        leaders_per_broker=_spread(led[alive], leader_bound, fair_lead.average),
        rack_violations=violations,
        rack_violations_bound=unavoidable,
        waves=int(wave.max(initial=-1)) + 1,
        room_unknown=int(((count_per_broker(added, len(room)) > 0) & (room < 0)).sum()),
    )
    ids = np.array([broker.id for broker in problem.brokers], dtype=np.int32)
    return Plan(plan_table(columns, rows, replicas, lead, wave, ids), sizes_or_null(columns.size[rows]), summary)


def _place(columns: Columns, missing: Ints, sites: Sites, room: Ints) -> _Placed:
    rows = np.flatnonzero(missing)
    most = int(sites.load[sites.rack >= 0].max(initial=0))
    if not len(rows):
        return _Placed(rows, np.zeros((0, 1), dtype=np.int32), most)
    held, missing = columns.held[rows], missing[rows]
    held_racks = racks_of(held, sites)
    kinds, kind = classify(held_racks, missing, sites.racks)
    quotas = solve(kinds, sites)
    added, even = expand(kind, missing, held_racks, quotas, sites)
    added, bound = settle(held, added, sites, quotas.bound, even=even)
    return _Placed(rows, fit(held, added, sites, columns.size[rows], room), bound)


def _spread(load: Ints, bound: int, average: int) -> Spread:
    most = int(load.max(initial=0))
    return Spread(int(load.min(initial=most)) - average, most - average, bound - average)
