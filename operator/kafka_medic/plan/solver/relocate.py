"""The planner's other questions: replicas are released from where they stand, and the kernel places them anew.

Replacing a broker, moving off one and spreading over racks decide which replicas have to leave, as few as can be, and
leave the rest to the same solver, leaders and waves as a raise. Lowering imbalance exchanges replicas along the paths
of `rebalance`, under a budget. A replica that moves is removed where it was: these plans are for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kafka_medic.plan.bounds import LEAVE, LOWER_IMBALANCE, SPREAD_RACKS
from kafka_medic.plan.columns import Bools, Columns, Ints
from kafka_medic.plan.model import Plan
from kafka_medic.plan.problem import Broker, check_reachable
from kafka_medic.plan.relocation import Leave, LowerImbalance, Relocation, SpreadRacks, all_live
from kafka_medic.plan.solver.aggregate import classify
from kafka_medic.plan.solver.disk_capacity import capacity_of, fit
from kafka_medic.plan.solver.local import DEFAULT_LIMITS, Placed, finish, place
from kafka_medic.plan.solver.quotas import best_spread
from kafka_medic.plan.solver.rebalance import exchange, exchange_path
from kafka_medic.plan.solver.sites import Sites, count_per_broker, rack_indexes, racks_of
from kafka_medic.plan.wave_limits import WaveLimits
from kafka_medic.plan.weight import handicap

__all__ = ["plan_relocation"]


def plan_relocation(relocation: Relocation, limits: WaveLimits = DEFAULT_LIMITS) -> Plan:
    """The plan; equal content gives an equal plan. Raises ProblemError where there is none."""
    columns, brokers, question = relocation.columns, relocation.brokers, relocation.question
    match question:
        case LowerImbalance(moves):
            bounds, (after, placed) = LOWER_IMBALANCE, _lower(columns, brokers, moves)
        case Leave(broker):
            released = columns.held == [listed.id for listed in brokers].index(broker)
            bounds, (after, placed, _) = LEAVE, _place_anew(columns, brokers, released)
        case SpreadRacks():
            released, floor = _crowded(columns, brokers)
            bounds, (after, placed, kept) = SPREAD_RACKS, _place_anew(columns, brokers, released)
            # Other replicas might have been released, so what the kernel proves of these is no bound on all plans.
            placed = replace(placed, bound=min(placed.bound, max(floor, _mean(kept, placed, brokers))))
    kept = _keep(columns, _members(columns.held, after))
    new = (after >= 0) & ~_members(after, columns.held)
    rows = np.flatnonzero(new.any(axis=1))
    added = _packed(np.where(new, after, -1)[rows])
    plan = finish(kept, columns.held, brokers, replace(placed, rows=rows, added=added), limits)
    return replace(plan, summary=replace(plan.summary, bounds=bounds))


def _place_anew(columns: Columns, brokers: tuple[Broker, ...], released: Bools) -> tuple[Ints, Placed, Columns]:
    """(int32[N, H] who holds what once the released replicas (bool[N, H]) are placed elsewhere; where they go; the
    columns of those that stay)."""
    kept, missing = _keep(columns, ~released), released.sum(axis=1).astype(np.int32)
    check_reachable(kept, missing, brokers)
    placed = place(kept, missing, brokers)
    none = np.full((len(kept.held), placed.added.shape[1]), -1, dtype=np.int32)
    after = np.concatenate([kept.held, none], axis=1)
    after[placed.rows, kept.held.shape[1] :] = placed.added
    return after, placed, kept


def _packed(brokers: Ints) -> Ints:
    """int32[N, M]: the same rows without gaps, in order, -1 padded."""
    packed = np.take_along_axis(brokers, np.argsort(brokers < 0, axis=1, kind="stable"), axis=1)
    return packed[:, : max(int((brokers >= 0).sum(axis=1).max(initial=0)), 1)]


def _keep(columns: Columns, stays: Bools) -> Columns:
    """The columns with only the replicas that stay (bool[N, H]), in order."""
    held = np.where(stays, columns.held, -1)
    return replace(columns, held=_packed(held), held_count=(held >= 0).sum(axis=1).astype(np.int32))


def _members(held: Ints, after: Ints) -> Bools:
    """bool[N, H]: which replicas are among those of the same row afterwards."""
    return np.asarray((held[:, :, None] == after[:, None, :]).any(axis=2) & (held >= 0))


def _mean(kept: Columns, placed: Placed, brokers: Sequence[Broker]) -> int:
    """Mean load of the live brokers in the end, rounded up: the fullest has at least that."""
    alive = np.array([broker.alive for broker in brokers], dtype=bool)
    load = count_per_broker(kept.held, len(alive)) + placed.fair.extra
    return int(-(-(load[alive].sum() + placed.least) // max(int(alive.sum()), 1)))


def _crowded(columns: Columns, brokers: Sequence[Broker]) -> tuple[Bools, int]:
    """(bool[N, H] replicas to release so that every partition can be spread at best; what the fullest broker holds at
    least, whichever are released)."""
    rack, racks = rack_indexes(brokers)
    load = count_per_broker(columns.held, len(rack))
    sites = Sites(rack, load, racks)
    rows = np.flatnonzero(all_live(columns, brokers))
    held_racks = racks_of(columns.held[rows], sites)
    kinds, kind = classify(held_racks, np.zeros(len(rows), dtype=np.int32), racks)
    leave, over = _surplus(kinds.held_per_rack(racks), sites.sizes())
    crowded = np.flatnonzero(leave.sum(axis=1)[kind])
    at, here = rows[crowded], held_racks[crowded]
    held = columns.held[at]
    released = np.zeros(columns.held.shape, dtype=bool)
    released[at] = _choose(held, here, columns.leader[at], load, leave[kind[crowded]])

    could: Bools = over[kind[crowded][:, None], here]
    could &= here >= 0
    least = load - np.bincount(held[could], minlength=len(load))
    stays = load - count_per_broker(np.where(released, columns.held, -1), len(load))
    fair = handicap(brokers, stays, int(released.sum()))
    return released, int((least + fair.extra)[rack >= 0].max(initial=0))


def _surplus(count: Ints, sizes: Ints) -> tuple[Ints, Bools]:
    """(int64[T, R] replicas that have to leave each rack, bool[T, R] racks that some replica may leave), of kinds with
    count int64[T, R]; sizes: int64[R] live brokers."""
    forced, choose, allowed = best_spread(np.zeros_like(count), count.sum(axis=1), sizes)
    surplus = np.maximum(count - forced, 0)
    over: Bools = np.asarray(surplus > 0)
    # Of the racks that may have one more, those that have it keep it.
    extra = allowed & over
    extra &= np.cumsum(extra, axis=1) <= choose[:, None]
    return surplus - extra, over


def _choose(held: Ints, racks: Ints, leader: Ints, load: Ints, leave: Ints) -> Bools:
    """bool[n, H]: which replicas leave, as many of each rack as `leave` (int64[n, R]) has it. The preferred and the
    present leader stay where they can, and of the others the fullest brokers are relieved."""
    first = (np.arange(held.shape[1]) == 0) | (held == leader[:, None])
    by_turn = np.lexsort((-load[held], first, held < 0), axis=1)
    line, left = np.arange(len(held)), leave.copy()
    chosen = np.zeros(held.shape, dtype=bool)
    for slot in by_turn.T:
        of = racks[line, slot]
        goes = (of >= 0) & (left[line, of] > 0)
        chosen[line[goes], slot[goes]] = True
        left[line[goes], of[goes]] -= 1
    return chosen


def _lower(columns: Columns, brokers: Sequence[Broker], moves: int) -> tuple[Ints, Placed]:
    """(int32[N, H] who holds what in the end, and what that comes to)."""
    rack, racks = rack_indexes(brokers)
    held, alive = count_per_broker(columns.held, len(rack)), rack >= 0
    fair = handicap(brokers, np.zeros_like(held), int(held[alive].sum()))
    load = held + fair.extra
    was = load[alive].copy()
    able = np.flatnonzero(all_live(columns, brokers))
    table = columns.held[able].copy()
    _exchange(table, Sites(rack, load, racks), load, moves)
    new = (table >= 0) & ~_members(table, columns.held[able])
    stay, come = np.where(new, -1, table), np.where(new, table, -1)
    # `fit` reads loads only to choose among brokers with free capacity.
    come = fit(stay, come, Sites(rack, load, racks), columns.size[able], capacity_of(brokers))
    after = columns.held.copy()
    after[able] = np.where(come >= 0, come, stay)
    now = (count_per_broker(after, len(rack)) + fair.extra)[alive]
    least = int(np.maximum(was - now, 0).sum())  # to come to these very loads
    none = np.zeros(0, dtype=np.int64)
    return after, Placed(none, none, _levels(was, moves)[0], fair, least)


def _exchange(table: Ints, sites: Sites, load: Ints, moves: int) -> None:
    """Exchange in place, from the fullest to the emptiest, at most `moves` times."""
    final = sites.rack < 0
    while moves > 0 and not final.all():
        top = int(load[~final].max())
        low = ~final & (load <= top - 2)
        if not low.any():
            return
        # One of the fullest at a time: a search from all of them costs as much, and finds one path.
        source = np.zeros(len(load), dtype=bool)
        source[np.flatnonzero(~final & (load == top))[0]] = True
        path, reached = exchange_path(table, 0, sites, source, low, load)
        hops = len(path) - 1
        if not path or hops > moves:
            final |= reached
            continue
        # No further than the moves left can bring the others as well.
        high, floor = _levels(load[~final], moves)
        bottom = int(load[path[-1]])
        most = max(min(top - high, floor - bottom, moves // hops), 1)
        done = exchange(table, 0, sites, path, load, min(most, (top - bottom) // 2))
        if not done:
            final[path[0]] = True
        moves -= done * hops


def _levels(load: Ints, moves: int) -> tuple[int, int]:
    """(lowest the fullest, highest the emptiest of these brokers can come to with so many moves)."""
    total, count = int(load.sum()), max(len(load), 1)
    return max(_lowest_top(load, moves), -(-total // count)), min(-_lowest_top(-load, moves), total // count)


def _lowest_top(load: Ints, moves: int) -> int:
    """Lowest level above which the brokers hold no more than `moves` together."""
    high = int(load.max(initial=0))
    low = int(load.min(initial=high))
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if int(np.maximum(load - middle, 0).sum()) <= moves else (middle + 1, high)
    return low
