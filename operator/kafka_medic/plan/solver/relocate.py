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
from kafka_medic.plan.relocation import Leave, LowerImbalance, Relocation, SpreadRacks
from kafka_medic.plan.solver.aggregate import classify
from kafka_medic.plan.solver.disk_capacity import capacity_of, fit
from kafka_medic.plan.solver.limits import over_limits
from kafka_medic.plan.solver.local import DEFAULT_LIMITS, Placed, finish, place_allowed
from kafka_medic.plan.solver.quotas import best_spread
from kafka_medic.plan.solver.rebalance import Holders, exchange, exchange_path, hand_over
from kafka_medic.plan.solver.sites import Sites, count_per_broker, racks_of, sites_of
from kafka_medic.plan.wave_limits import WaveLimits
from kafka_medic.plan.weight import handicap

__all__ = ["plan_relocation"]


def plan_relocation(relocation: Relocation, limits: WaveLimits = DEFAULT_LIMITS) -> Plan:
    """The plan; equal content gives an equal plan. Raises ProblemError where there is none."""
    columns, brokers, question = relocation.columns, relocation.brokers, relocation.question
    left_out = relocation.left_out
    match question:
        case LowerImbalance(moves):
            bounds, (after, placed) = LOWER_IMBALANCE, _lower(relocation, moves)
        case Leave():
            released = relocation.leaving[columns.held] & (columns.held >= 0) & relocation.may_change()[:, None]
            bounds, (after, placed, _, left_out) = LEAVE, _place_anew(relocation, released)
        case SpreadRacks():
            released, floor = _crowded(relocation)
            bounds, (after, placed, kept, left_out) = SPREAD_RACKS, _place_anew(relocation, released)
            # Other replicas might have been released, so what the kernel proves of these is no bound on all plans.
            placed = replace(placed, bound=min(placed.bound, max(floor, _mean(kept, placed, brokers))))
    kept = _keep(columns, _members(columns.held, after))
    new = (after >= 0) & ~_members(after, columns.held)
    rows = np.flatnonzero(new.any(axis=1))
    added = _packed(np.where(new, after, -1)[rows])
    plan = finish(kept, columns.held, brokers, replace(placed, rows=rows, added=added), limits, left_out)
    return replace(plan, summary=replace(plan.summary, bounds=relocation.allowed.among(bounds)))


def _place_anew(relocation: Relocation, released: Bools) -> tuple[Ints, Placed, Columns, Ints]:
    """(int32[N, H] who holds what once the released replicas (bool[N, H]) are placed elsewhere; where they go; the
    columns of those that stay; int8[N] why others stay, as in `LeftOut`)."""
    columns, brokers = relocation.columns, relocation.brokers
    kept, missing = _keep(columns, ~released), released.sum(axis=1).astype(np.int32)
    check_reachable(kept, missing, brokers)
    placed, left_out = place_allowed(kept, missing, brokers, relocation.allowed, relocation.left_out)
    if relocation.allowed.limited:
        released = released & np.isin(np.arange(len(released)), placed.rows)[:, None]
        kept = _keep(columns, ~released)
    none = np.full((len(kept.held), placed.added.shape[1]), -1, dtype=np.int32)
    after = np.concatenate([kept.held, none], axis=1)
    after[placed.rows, kept.held.shape[1] :] = placed.added
    return after, placed, kept, left_out


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


def _crowded(relocation: Relocation) -> tuple[Bools, int]:
    """(bool[N, H] replicas to release so that every partition can be spread at best; what the fullest broker holds at
    least, whichever are released)."""
    columns, brokers = relocation.columns, relocation.brokers
    load = count_per_broker(columns.held, len(brokers))
    sites = sites_of(brokers, load)
    racks = sites.racks
    rows = np.flatnonzero(relocation.may_change())
    held_racks = racks_of(columns.held[rows], sites)
    # 1: it takes no replica, but may give one; 2: it gives none either.
    excluded = np.array([broker.id in relocation.allowed.exclude_brokers for broker in brokers], dtype=bool)
    closed = np.where(excluded, 2, sites.rack < 0)[columns.held[rows]]
    places = np.where(held_racks >= 0, held_racks + closed * racks, -1).astype(np.int32)
    kinds, kind = classify(places, np.zeros(len(rows), dtype=np.int32), 3 * racks)
    count = kinds.held_per_rack(3 * racks).reshape(-1, 3, racks)
    leave, over = _surplus(count.sum(axis=1), count[:, 2], sites.sizes() + count[:, 1] + count[:, 2])
    crowded = np.flatnonzero(leave.sum(axis=1)[kind])
    at, here = rows[crowded], np.where(closed[crowded] == 2, -1, held_racks[crowded])
    held = columns.held[at]
    released = np.zeros(columns.held.shape, dtype=bool)
    released[at] = _choose(held, here, columns.leader[at], load, leave[kind[crowded]])

    could: Bools = over[kind[crowded][:, None], here]
    could &= here >= 0
    least = load - np.bincount(held[could], minlength=len(load))
    stays = load - count_per_broker(np.where(released, columns.held, -1), len(load))
    fair = handicap(brokers, stays, int(released.sum()))
    return released, int((least + fair.extra)[sites.stands >= 0].max(initial=0))


def _surplus(count: Ints, pinned: Ints, room: Ints) -> tuple[Ints, Bools]:
    """(int64[T, R] replicas that have to leave each rack, bool[T, R] racks that some replica may leave), of kinds with
    count int64[T, R], of which pinned stay in any case; room: int64[T, R] brokers that they can stand on."""
    forced, choose, allowed = best_spread(pinned, (count - pinned).sum(axis=1), room)
    surplus = np.maximum(count - pinned - forced, 0)
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


def _lower(relocation: Relocation, moves: int) -> tuple[Ints, Placed]:
    """(int32[N, H] who holds what in the end, and what that comes to)."""
    columns, brokers, allowed = relocation.columns, relocation.brokers, relocation.allowed
    held, alive = count_per_broker(columns.held, len(brokers)), np.array([b.alive for b in brokers], dtype=bool)
    fair = handicap(brokers, np.zeros_like(held), int(held[alive].sum()))
    load = held + fair.extra
    was = load[alive].copy()
    may = relocation.may_change()
    able = np.flatnonzero(may & (columns.size >= 0) if allowed.by_bytes else may)
    before, size = columns.held[able], columns.size[able]
    table, sites = before.copy(), sites_of(brokers, load)
    gives = alive & ~np.array([broker.id in allowed.exclude_brokers for broker in brokers], dtype=bool)
    moves_left = moves - hand_over(table, sites, gives, load, moves)
    _exchange(table, sites, gives, load, moves_left)
    new = (table >= 0) & ~_members(table, before)
    stay, come = np.where(new, -1, table), np.where(new, table, -1)
    # `fit` reads loads only to choose among brokers with free capacity.
    come = fit(stay, come, sites, size, capacity_of(brokers))
    # The more of them fit into the limits on bytes, the more even it gets.
    smallest_first = np.empty(len(able), dtype=np.int64)
    smallest_first[np.argsort(size, kind="stable")] = np.arange(len(able))
    over = over_limits(smallest_first, come, size, allowed, len(brokers), total=True)
    table = np.where(over[:, None], before, np.where(come >= 0, come, stay))
    after = columns.held.copy()
    after[able] = table
    now = (count_per_broker(after, len(brokers)) + fair.extra)[alive]
    least = int(np.maximum(was - now, 0).sum())  # to come to these very loads
    none = np.zeros(0, dtype=np.int64)
    return after, Placed(none, none, _levels(was, moves)[0], fair, least)


def _exchange(table: Ints, sites: Sites, gives: Bools, load: Ints, moves: int) -> None:
    """Exchange in place, from the fullest to the emptiest, at most `moves` times. gives: bool[B]."""
    final = ~gives
    holders = Holders(table, 0, len(load))
    while moves > 0 and not final.all():
        top = int(load[~final].max())
        low = ~final & (sites.rack >= 0) & (load <= top - 2)
        if not low.any():
            return
        # One of the fullest at a time: a search from all of them costs as much, and finds one path.
        source = np.zeros(len(load), dtype=bool)
        source[np.flatnonzero(~final & (load == top))[0]] = True
        path, reached = exchange_path(holders, sites, source, low, load)
        hops = len(path) - 1
        if not path or hops > moves:
            final |= reached
            continue
        # No further than the moves left can bring the others as well.
        high, floor = _levels(load[~final], moves)
        bottom = int(load[path[-1]])
        most = max(min(top - high, floor - bottom, moves // hops), 1)
        done = exchange(holders, sites, path, load, min(most, (top - bottom) // 2))
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
