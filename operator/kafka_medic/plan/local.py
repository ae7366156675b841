"""The planner in one process: aggregate, solve, expand, settle, then leaders and waves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kafka_medic.plan.aggregate import classify
from kafka_medic.plan.arrow import Column, list_column
from kafka_medic.plan.columns import Columns, Ints
from kafka_medic.plan.expand import expand
from kafka_medic.plan.leaders import balance_leaders
from kafka_medic.plan.model import PLAN_SCHEMA, Plan, Spread, Summary
from kafka_medic.plan.problem import Problem
from kafka_medic.plan.racks import rack_violations
from kafka_medic.plan.settle import settle
from kafka_medic.plan.solve import Sites, solve
from kafka_medic.plan.waves import WaveLimits, assign_waves, exposure_order

__all__ = ["plan_local"]

DEFAULT_LIMITS = WaveLimits()


@dataclass(frozen=True, eq=False)
class _Placed:
    """The changed rows (int64[n] into the columns), what they gain (int32[n, M]), the bound it proves."""

    rows: Ints
    added: Ints
    bound: int


def plan_local(problem: Problem, limits: WaveLimits = DEFAULT_LIMITS) -> Plan:
    """The plan for a problem. Equal content gives an equal plan, whatever the order of its rows."""
    columns = problem.columns
    sites = _sites(problem)
    placed = _place(columns, problem.missing, sites)
    rows, added = placed.rows, placed.added
    replicas = _append(columns.held[rows], columns.held_count[rows], added)
    alive = sites.rack >= 0

    untouched = np.ones(len(columns.topic), dtype=bool)
    untouched[rows] = False
    fixed = np.bincount(columns.held[untouched, 0], minlength=len(alive)).astype(np.int64)
    lead, leader_bound = balance_leaders(replicas, fixed, alive)

    order = exposure_order(columns, rows)
    place = np.searchsorted(rows, order)
    source = np.where(columns.leader >= 0, columns.leader, columns.held[:, 0])
    wave = np.zeros(len(rows), dtype=np.int32)
    wave[place] = assign_waves(added[place], source[order], columns.size[order], len(alive), limits)

    load = sites.load + _count(added, len(alive))
    led = fixed + np.bincount(replicas[np.arange(len(rows)), lead], minlength=len(alive))
    violations, unavoidable = rack_violations(_racks(columns.held[rows], sites), _racks(replicas, sites), sites.sizes())
    summary = Summary(
        partitions=len(rows),
        moves=int((added >= 0).sum()),
        lower_bound_moves=int(problem.missing.sum()),
        replicas_per_broker=_spread(load[alive], placed.bound),
        leaders_per_broker=_spread(led[alive], leader_bound),
        rack_violations=violations,
        rack_violations_bound=unavoidable,
        waves=int(wave.max(initial=-1)) + 1,
    )
    ids = np.array([broker.id for broker in problem.brokers], dtype=np.int32)
    return Plan(_table(columns, rows, replicas, lead, wave, ids), _sizes(columns.size[rows]), summary)


def _sites(problem: Problem) -> Sites:
    load = _count(problem.columns.held, len(problem.brokers))
    alive = np.array([broker.alive for broker in problem.brokers], dtype=bool)
    rack = np.full(len(alive), -1, dtype=np.int32)
    if problem.racks:
        number = {name: index for index, name in enumerate(problem.racks)}
        rack[alive] = [number[b.rack or ""] for b in problem.brokers if b.alive]
    else:
        rack[alive] = np.arange(int(alive.sum()))
    return Sites(rack, load, int(rack.max(initial=-1)) + 1)


def _place(columns: Columns, missing: Ints, sites: Sites) -> _Placed:
    rows = np.flatnonzero(missing)
    most = int(sites.load[sites.rack >= 0].max(initial=0))
    if not len(rows):
        return _Placed(rows, np.zeros((0, 1), dtype=np.int32), most)
    held, missing = columns.held[rows], missing[rows]
    held_racks = _racks(held, sites)
    kinds, kind = classify(held_racks, missing, sites.racks)
    quotas = solve(kinds, sites)
    added, even = expand(kind, missing, held_racks, quotas, sites)
    added, bound = settle(held, added, sites, quotas.bound, even=even)
    return _Placed(rows, added, bound)


def _append(held: Ints, held_count: Ints, added: Ints) -> Ints:
    """int32[n, F]: each row's replicas held, then those added, without a gap, -1 padded."""
    count = held_count + (added >= 0).sum(axis=1)
    joined = np.full((len(held), max(int(count.max(initial=0)), 1)), -1, dtype=np.int32)
    width = min(held.shape[1], joined.shape[1])
    joined[:, :width] = held[:, :width]
    for slot in range(added.shape[1]):
        rows = np.flatnonzero(added[:, slot] >= 0)
        joined[rows, held_count[rows] + slot] = added[rows, slot]
    return joined


def _count(brokers: Ints, length: int) -> Ints:
    flat = brokers.ravel()
    return np.bincount(flat[flat >= 0], minlength=length).astype(np.int64)


def _spread(load: Ints, bound: int) -> Spread:
    return Spread(int(load.min(initial=int(load.max(initial=0)))), int(load.max(initial=0)), bound)


def _racks(brokers: Ints, sites: Sites) -> Ints:
    return np.where(brokers >= 0, sites.rack[brokers], -1).astype(np.int32)


def _table(columns: Columns, rows: Ints, replicas: Ints, lead: Ints, wave: Ints, ids: Ints) -> pa.Table:
    names = pa.array(columns.topics, pa.string())
    order = _lead_first(replicas, lead)
    arrays = [
        names.take(pa.array(columns.topic[rows], pa.int32())),
        pa.array(columns.partition[rows], pa.int32()),
        _lists(columns.held[rows], ids),
        _lists(replicas, ids),
        _lists(order, ids),
        pa.array(wave, pa.int32()),
    ]
    return pa.table(arrays, schema=PLAN_SCHEMA)


def _lead_first(replicas: Ints, lead: Ints) -> Ints:
    """Each row with the chosen leader moved to the front, the others in their order."""
    order = replicas.copy()
    for column in range(1, replicas.shape[1]):
        behind = np.flatnonzero(lead >= column)
        order[behind, column] = replicas[behind, column - 1]
    order[:, 0] = replicas[np.arange(len(replicas)), lead]
    return order


def _lists(brokers: Ints, ids: Ints) -> Column:
    """list<int32> of broker ids from a matrix of indexes, -1 padded at the end."""
    inside = brokers >= 0
    return list_column(inside.sum(axis=1), ids[brokers[inside]])


def _sizes(size: Ints) -> Column:
    return pa.array(size, pa.int64(), mask=size < 0)
