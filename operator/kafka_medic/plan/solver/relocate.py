"""The planner's other questions: replicas are released from where they stand, and the kernel places them anew.

Replacing a broker, moving off one, relieving one of bytes and spreading over racks decide which replicas have to leave,
as few as can be, and leave the rest to the same solver, leaders and waves as a raise. Lowering imbalance exchanges
replicas along the paths of `rebalance`, under a budget. A replica that moves is removed where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kafka_medic.plan.bounds import LEAVE, LOWER_BYTES, LOWER_IMBALANCE, RELIEVE, SPREAD_RACKS, SPREAD_RACKS_RELAXED
from kafka_medic.plan.columns import Bools, Columns, Ints
from kafka_medic.plan.model import Plan, Spread
from kafka_medic.plan.problem import Broker, check_reachable
from kafka_medic.plan.relocation import Leave, LowerImbalance, Relieve, Relocation, SpreadRacks
from kafka_medic.plan.solver.aggregate import classify
from kafka_medic.plan.solver.disk_capacity import arriving, capacity_of, fit
from kafka_medic.plan.solver.even_bytes import bytes_evened
from kafka_medic.plan.solver.limits import ENDLESS, Room, beyond, hopeless, room_within
from kafka_medic.plan.solver.local import DEFAULT_LIMITS, Placed, beside_disks, finish, place_allowed
from kafka_medic.plan.solver.quotas import best_spread
from kafka_medic.plan.solver.rebalance import Holders, change_kept, even_out, exchange, exchange_path, hand_over
from kafka_medic.plan.solver.relief import to_relieve
from kafka_medic.plan.solver.sites import Sites, count_per_broker, racks_of, sites_of
from kafka_medic.plan.wave_limits import WaveLimits
from kafka_medic.plan.weight import handicap

__all__ = ["keep", "levels", "lowered", "moved", "plan_relocation", "room_of_brokers", "spread_bound", "to_release"]

CHUNKS = 64
"""Parts of the partitions that are relieved one after another; each sees what the fullest brokers are by then."""


def plan_relocation(relocation: Relocation, limits: WaveLimits = DEFAULT_LIMITS) -> Plan:
    """The plan; equal content gives an equal plan. Raises ProblemError where there is none."""
    columns, brokers, question = relocation.columns, relocation.brokers, relocation.question
    left_out = relocation.left_out
    match question:
        case LowerImbalance(moves, by_bytes):
            bounds, (after, placed) = LOWER_IMBALANCE, _lower(relocation, moves, by_bytes=by_bytes)
        case Leave() | SpreadRacks() | Relieve():
            released, least = to_release(relocation)
            bounds = RELIEVE if isinstance(question, Relieve) else LEAVE
            after, placed, kept, left_out = _place_anew(relocation, released)
            if isinstance(question, SpreadRacks):
                bounds, bound = SPREAD_RACKS, _relieve(relocation, after, placed)
                if bound is None:
                    load, leaving = (count_per_broker(at, len(brokers)) for at in (kept.held, columns.held[released]))
                    bounds = SPREAD_RACKS_RELAXED
                    bound = spread_bound(placed.bound, least, load, placed.least, int(leaving.sum()), brokers)
                placed = replace(placed, bound=bound)
    kept, rows, added = moved(columns, after)
    plan = finish(kept, columns.held, brokers, replace(placed, rows=rows, added=added), limits, left_out)
    even = None
    if isinstance(question, LowerImbalance) and question.by_bytes:
        bounds, even = LOWER_BYTES, _bytes_lowered(relocation, after, question.moves)
    bounds = beside_disks(relocation.allowed.among(bounds), plan, brokers)
    return replace(plan, summary=replace(plan.summary, bytes_per_broker=even, bounds=bounds))


def to_release(relocation: Relocation) -> tuple[Bools, Ints]:
    """(bool[N, H] replicas that leave their brokers, int64[B] what each broker holds at least, whichever leave), where
    the question says which, or which kind."""
    if isinstance(relocation.question, SpreadRacks):
        return _crowded(relocation)
    columns = relocation.columns
    if isinstance(relocation.question, Relieve):
        return to_relieve(relocation, relocation.question), np.zeros(len(relocation.brokers), dtype=np.int64)
    changes = relocation.may_change() & relocation.asked()
    released = relocation.leaving[columns.held] & (columns.held >= 0) & changes[:, None]
    return released, np.zeros(len(relocation.brokers), dtype=np.int64)


def moved(columns: Columns, after: Ints) -> tuple[Columns, Ints, Ints]:
    """(the columns of what stays, int64[n] the partitions that change, int32[n, M] what comes), where `after` (int32[N,
    F]) holds them in the end."""
    kept = keep(columns, _members(columns.held, after))
    new = (after >= 0) & ~_members(after, columns.held)
    rows = np.flatnonzero(new.any(axis=1))
    return kept, rows, _packed(np.where(new, after, -1)[rows])


def spread_bound(proven: int, least: Ints, load: Ints, moves: int, released: int, brokers: Sequence[Broker]) -> int:
    """What the fullest broker holds in every plan that spreads racks; proven: of the replicas released, which might
    have been others. least: int64[B] as in `to_release`; load: int64[B] what stays."""
    alive = np.array([broker.alive for broker in brokers], dtype=bool)
    fair = handicap(brokers, load, released)
    floor = int((least + fair.extra)[alive].max(initial=0))
    fair = handicap(brokers, load, moves)
    mean = int(-(-((load + fair.extra)[alive].sum() + moves) // max(int(alive.sum()), 1)))
    return min(proven, max(floor, mean))


def _place_anew(relocation: Relocation, released: Bools) -> tuple[Ints, Placed, Columns, Ints]:
    """(int32[N, H] who holds what once the released replicas (bool[N, H]) are placed elsewhere; where they go; the
    columns of those that stay; int8[N] why others stay, as in `LeftOut`)."""
    columns, brokers = relocation.columns, relocation.brokers
    kept, missing = keep(columns, ~released), released.sum(axis=1).astype(np.int32)
    due = missing
    if relocation.allowed.limited and any(broker.alive and broker.takes for broker in brokers):
        unknown, alone = hopeless(kept, missing, brokers, relocation.allowed)
        due = np.where(unknown | alone, 0, missing)
    check_reachable(kept, due, brokers)
    placed, left_out = place_allowed(kept, missing, brokers, relocation.allowed, relocation.left_out)
    if relocation.allowed.limited:
        released = released & np.isin(np.arange(len(released)), placed.rows)[:, None]
        kept = keep(columns, ~released)
        placed = _of_these_shares(placed, kept, brokers)
    none = np.full((len(kept.held), placed.added.shape[1]), -1, dtype=np.int32)
    after = np.concatenate([kept.held, none], axis=1)
    after[placed.rows, kept.held.shape[1] :] = placed.added
    return after, placed, kept, left_out


def _of_these_shares(placed: Placed, kept: Columns, brokers: Sequence[Broker]) -> Placed:
    """With shares and a bound that count replicas which were released and stay after all. The placement knew nothing of
    those. With weights it proved its bound for other shares, so only the mean is left."""
    load, moves = count_per_broker(kept.held, len(brokers)), int((placed.added >= 0).sum())
    fair = handicap(brokers, load, moves)
    alive = np.array([broker.alive for broker in brokers], dtype=bool)
    mean = -(-(int((load + fair.extra)[alive].sum()) + moves) // max(int(alive.sum()), 1))
    weighed = placed.fair.extra.any() or fair.extra.any()
    return replace(placed, fair=fair, bound=mean if weighed else max(placed.bound, mean))


def _relieve(relocation: Relocation, after: Ints, placed: Placed) -> int | None:
    """Even out which replicas leave and where they go, in place of int32[N, H] after, with as many moves; the bound on
    the fullest broker that this proves, None if it proves none.

    The sets of brokers on which a partition can end with so few moves, spread at best, have between k and k + 1 members
    in each rack, of those that it may use there, and so many in all: the bases of a matroid, as `rebalance` needs them.
    """
    columns, brokers = relocation.columns, relocation.brokers
    if relocation.allowed.limited or placed.fair.extra.any():
        return None
    load = count_per_broker(after, len(brokers))
    sites, rows = sites_of(brokers, load), placed.rows
    before, table = columns.held[rows], after[rows]
    change_kept(table, before, sites, load)
    proven = even_out(table, 0, sites, load, before)
    new = (table >= 0) & ~_members(table, before)
    stay, come = np.where(new, -1, table), np.where(new, table, -1)
    come = fit(stay, come, sites, columns.size[rows], capacity_of(brokers))
    after[rows] = np.where(come >= 0, come, stay)
    return None if proven is None or sites.standing is not None else max(proven, int(load[sites.stands >= 0].max()))


def _packed(brokers: Ints) -> Ints:
    """int32[N, M]: the same rows without gaps, in order, -1 padded."""
    packed = np.take_along_axis(brokers, np.argsort(brokers < 0, axis=1, kind="stable"), axis=1)
    return packed[:, : max(int((brokers >= 0).sum(axis=1).max(initial=0)), 1)]


def keep(columns: Columns, stays: Bools) -> Columns:
    """The columns with only the replicas that stay (bool[N, H]), in order."""
    held = np.where(stays, columns.held, -1)
    return replace(columns, held=_packed(held), held_count=(held >= 0).sum(axis=1).astype(np.int32))


def _members(held: Ints, after: Ints) -> Bools:
    """bool[N, H]: which replicas are among those of the same row afterwards."""
    return np.asarray((held[:, :, None] == after[:, None, :]).any(axis=2) & (held >= 0))


def _crowded(relocation: Relocation) -> tuple[Bools, Ints]:
    """(bool[N, H] replicas to release so that every partition can be spread at best; int64[B] what each broker holds at
    least, whichever are released)."""
    columns, brokers = relocation.columns, relocation.brokers
    load = count_per_broker(columns.held, len(brokers))
    sites = sites_of(brokers, load)
    racks = sites.racks
    rows = np.flatnonzero(relocation.may_change())
    if not racks:
        return np.zeros(columns.held.shape, dtype=bool), load
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
    return released, load - np.bincount(held[could], minlength=len(load))


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
    left, load = leave.copy(), load.copy()
    chosen = np.zeros(held.shape, dtype=bool)
    for line in np.array_split(np.arange(len(held)), min(CHUNKS, max(len(held), 1))):
        by_turn = np.lexsort((-load[held[line]], first[line], held[line] < 0), axis=1)
        for slot in by_turn.T:
            of = racks[line, slot]
            goes = (of >= 0) & (left[line, of] > 0)
            chosen[line[goes], slot[goes]] = True
            left[line[goes], of[goes]] -= 1
        load -= count_per_broker(np.where(chosen[line], held[line], -1), len(load))
    return chosen


def _lower(relocation: Relocation, moves: int, *, by_bytes: bool) -> tuple[Ints, Placed]:
    """(int32[N, H] who holds what in the end, and what that comes to)."""
    columns, brokers = relocation.columns, relocation.brokers
    held, alive = count_per_broker(columns.held, len(brokers)), np.array([b.alive for b in brokers], dtype=bool)
    fair = handicap(brokers, np.zeros_like(held), int(held[alive].sum()))
    was = (held + fair.extra)[alive]
    room = room_of_brokers(relocation)
    if by_bytes:
        bytes_held = stored(columns.held, columns.size, brokers)
        after = bytes_evened(relocation, bytes_held, held + fair.extra, moves, room)
    else:
        after = lowered(relocation, held + fair.extra, moves, room)
    now = (count_per_broker(after, len(brokers)) + fair.extra)[alive]
    least = int(np.maximum(was - now, 0).sum())  # to come to these very loads
    none = np.zeros(0, dtype=np.int64)
    return after, Placed(none, none, levels(was, moves)[0], fair, least)


def stored(held: Ints, size: Ints, brokers: Sequence[Broker]) -> Ints:
    """int64[B] bytes on each broker, where one of small weight counts as holding more."""
    there = arriving(held, size, len(brokers))
    alive = np.array([broker.alive for broker in brokers], dtype=bool)
    return there + handicap(brokers, np.zeros_like(there), int(there[alive].sum())).extra


def _bytes_lowered(relocation: Relocation, after: Ints, moves: int) -> Spread:
    """Bytes per broker in the end. The bound: so many moves, each of the largest partition, could bring no broker
    lower; and some broker has to hold the largest."""
    columns, brokers = relocation.columns, relocation.brokers
    alive = np.array([broker.alive for broker in brokers], dtype=bool)
    was, now = (stored(held, columns.size, brokers)[alive] for held in (columns.held, after))
    total = int(arriving(columns.held, columns.size, len(brokers))[alive].sum())
    average = handicap(brokers, np.zeros(len(brokers), dtype=np.int64), total).average
    there = ((columns.held >= 0) & alive[columns.held]).any(axis=1)
    largest = int(columns.size[there].max(initial=0))
    bound = max(levels(was, min(moves * largest, ENDLESS))[0], largest)
    mean = -(-int(now.sum()) // max(len(now), 1))
    most = int(now.max(initial=0))
    least = max(int(now.min(initial=most)) - average, 0)
    return Spread(least, most - average, bound - average, mean - average)


def room_of_brokers(relocation: Relocation) -> Room:
    """What may come to the brokers of a cluster whose imbalance is lowered, their disks included."""
    allowed, capacity = relocation.allowed, capacity_of(relocation.brokers)
    room = room_within(allowed, len(capacity))
    most = np.where(capacity < 0, room.bytes, np.minimum(room.bytes, capacity))
    return replace(room, bytes=most, total=ENDLESS if allowed.bytes is None else allowed.bytes)


def lowered(relocation: Relocation, load: Ints, moves: int, room: Room) -> Ints:
    """int32[N, H]: who holds what once at most `moves` replicas were moved to make loads even; load: int64[B], changed
    as they move; room: what may come."""
    columns, brokers, allowed = relocation.columns, relocation.brokers, relocation.allowed
    alive = np.array([broker.alive for broker in brokers], dtype=bool)
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
    come = fit(stay, come, sites, np.ones_like(size), _limit(room.moves))
    come = fit(stay, come, sites, size, _limit(room.bytes))
    # The more of them fit into the limits on bytes, the more even it gets.
    smallest_first = np.empty(len(able), dtype=np.int64)
    smallest_first[np.argsort(size, kind="stable")] = np.arange(len(able))
    over = beyond(smallest_first, come, size, room)
    table = np.where(over[:, None], before, np.where(come >= 0, come, stay))
    after = columns.held.copy()
    after[able] = table
    return after


def _limit(most: Ints) -> Ints:
    """int64[B] as `fit` takes it: -1 for no limit."""
    return np.where(most == ENDLESS, -1, most)


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
        high, floor = levels(load[~final], moves)
        bottom = int(load[path[-1]])
        most = max(min(top - high, floor - bottom, moves // hops), 1)
        done = exchange(holders, sites, path, load, min(most, (top - bottom) // 2))
        if not done:
            final[path[0]] = True
        moves -= done * hops


def levels(load: Ints, moves: int) -> tuple[int, int]:
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
