"""Which replicas leave brokers whose volumes fill: enough bytes, and as few above that as was found.

A few sizes are tried in every combination. More are taken the largest first, as in subset sum by greed, and then
swapped for others while that leaves less above the need. No replica leaves that could stay.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafka_medic.plan.columns import Bools, Ints
from kafka_medic.plan.problem import ProblemError
from kafka_medic.plan.relocation import Relieve, Relocation
from kafka_medic.plan.solver.disk_capacity import ENDLESS, capacity_of
from kafka_medic.plan.solver.sites import racks_of, sites_of

__all__ = ["EXACT", "fewest_bytes", "to_relieve"]

EXACT = 16
"""So many sizes are tried in every combination."""
STARTS = 4
"""Of more, the largest first; then the same without the largest, and so on."""
TRIES = 32
"""Choices, each without one more that finds no room."""
SWAPS = 64
"""Rounds, each of one swap; most often one or two are enough."""


def to_relieve(relocation: Relocation, question: Relieve) -> Bools:
    """bool[N, H]: the replicas that leave, at most one of each partition. Raises ProblemError where too few bytes can
    leave a broker."""
    columns, capacity = relocation.columns, capacity_of(relocation.brokers)
    released = np.zeros(columns.held.shape, dtype=bool)
    place = {broker.id: at for at, broker in enumerate(relocation.brokers)}
    room = np.where(capacity < 0, ENDLESS, capacity)
    for broker, need in sorted(question.bytes_to_free):
        able_rows = relocation.may_leave_broker(broker) & ~released.any(axis=1)
        here = (columns.held == place[broker]) & able_rows[:, None]
        rows, slots = np.nonzero(here)
        fits = np.zeros(len(rows), dtype=bool)
        for taker, may in _takers(relocation, rows, place[broker]):
            fits |= may & (columns.size[rows] <= room[taker])
        rows, slots = rows[fits], slots[fits]
        own = relocation.size_on(broker)[rows]
        if (able := int(own.sum())) < need:
            reason = (
                f"{need:,} bytes have to leave broker {broker}, and replicas of only {able:,} can: the others are of "
                "unknown size, out of sync or excluded, or no other broker may take them. Add brokers, make room on "
                "disk, or free fewer bytes"
            )
            raise ProblemError(None, reason, "brokers")
        chosen, room = _chosen(relocation, rows, own, place[broker], need, room)
        released[rows[chosen], slots[chosen]] = True
    return released


def _takers(relocation: Relocation, rows: Ints, broker: int) -> Iterator[tuple[int, Bools]]:
    """(broker as an index, bool[n]: whether it may take the partition's replica on `broker`, which leaves the partition
    as well spread over racks as it is). Room is another matter."""
    columns, brokers = relocation.columns, relocation.brokers
    sites = sites_of(brokers, np.zeros(len(brokers), dtype=np.int64))
    held = columns.held[rows]
    racks, own = racks_of(held, sites), int(sites.stands[broker])
    beside = (racks == own).sum(axis=1)
    for taker in np.flatnonzero(sites.rack >= 0).tolist():
        rack = int(sites.rack[taker])
        spread = (racks == rack).sum(axis=1) < beside if rack != own else np.ones(len(rows), dtype=bool)
        yield taker, spread & ~(held == taker).any(axis=1)


def _chosen(relocation: Relocation, rows: Ints, size: Ints, broker: int, need: int, room: Ints) -> tuple[Bools, Ints]:
    """(bool[n]: which replicas of these partitions leave, int64[B] room that is left). size: int64[n], as they are on
    the broker. Those that find no room beside the others stay, where enough is left without them; else the solver has
    to find a way."""
    able, leads = np.ones(len(rows), dtype=bool), relocation.columns.leader[rows] == broker
    best = None
    for _ in range(TRIES):
        if int(size[able].sum()) < need:
            break
        chosen = np.zeros(len(rows), dtype=bool)
        chosen[able] = fewest_bytes(size[able], leads[able], need)
        best = chosen if best is None else best
        left = room.copy()
        misfit = _first_misfit(relocation, rows[chosen], broker, left)
        if misfit is None:
            return chosen, left
        able[np.flatnonzero(chosen)[misfit]] = False
    assert best is not None  # all of them suffice
    return best, room


def _first_misfit(relocation: Relocation, rows: Ints, broker: int, room: Ints) -> int | None:
    """The first of these that finds no room, if the largest first go to who has most of it (int64[B], changed in
    place); None: all do."""
    may = np.zeros((len(rows), len(room)), dtype=bool)
    for taker, able in _takers(relocation, rows, broker):
        may[:, taker] = able
    size = relocation.columns.size[rows]
    for at in np.argsort(-size, kind="stable").tolist():
        taker = int(np.argmax(np.where(may[at], room, -1)))
        if not may[at, taker] or room[taker] < size[at]:
            return int(at)
        room[taker] -= size[at]
    return None


def fewest_bytes(size: Ints, leads: Bools, need: int) -> Bools:
    """bool[n]: which of these sizes (int64[n]) make up `need` together, with as few bytes as was found; of equal sizes
    those that do not lead (bool[n]) first. All of them suffice."""
    if len(size) <= EXACT:
        chosen = _of_all_combinations(size, leads, need)
    else:
        order = np.argsort(-size, kind="stable")
        tries = [_largest_first(size, order[start:], need) for start in range(STARTS)]
        chosen = min((found for found in tries if found is not None), key=lambda found: _cost(size, found))
    return _followers_first(size, leads, chosen)


def _cost(size: Ints, chosen: Bools) -> tuple[int, int]:
    return int(size[chosen].sum()), int(chosen.sum())


def _of_all_combinations(size: Ints, leads: Bools, need: int) -> Bools:
    totals = []
    for each in (size, leads.astype(np.int64), np.ones_like(size)):
        total = np.zeros(1, dtype=np.int64)
        for value in each.tolist():
            total = np.concatenate([total, total + value])
        totals.append(total)
    enough = np.flatnonzero(totals[0] >= need)
    best = int(enough[np.lexsort(tuple(total[enough] for total in reversed(totals)))[0]])
    return np.array([best >> bit & 1 for bit in range(len(size))], dtype=bool)


def _largest_first(size: Ints, order: Ints, need: int) -> Bools | None:
    """None where these do not suffice; order: indexes, the largest size first."""
    if int(size[order].sum()) < need:
        return None
    chosen, left, last = np.zeros(len(size), dtype=bool), need, -1
    for at, each in zip(order.tolist(), size[order].tolist(), strict=True):
        if each <= left:
            chosen[at], left = True, left - each
        else:
            last = at  # the smallest that was passed over, which is more than what is left
    if left:
        chosen[last] = True
    for _ in range(SWAPS):
        over = _give_up(size, chosen, need)
        if not over or not _swap(size, chosen, over):
            break
    _give_up(size, chosen, need)
    return chosen


def _give_up(size: Ints, chosen: Bools, need: int) -> int:
    """Take out in place what can stay, the largest first; the bytes above the need that are left."""
    over = int(size[chosen].sum()) - need
    here = np.flatnonzero(chosen & (size <= over))
    for at in here[np.argsort(-size[here], kind="stable")].tolist():
        if size[at] <= over:
            chosen[at], over = False, over - int(size[at])
    return over


def _swap(size: Ints, chosen: Bools, over: int) -> bool:
    """Swap in place one that leaves for one that stays and is smaller by as much as can be, at most by `over`; whether
    there was one."""
    leave, stay = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    stay = stay[np.argsort(size[stay], kind="stable")]
    if not len(stay):
        return False
    at = np.searchsorted(size[stay], size[leave] - over).clip(max=len(stay) - 1)
    gain = size[leave] - size[stay[at]]
    gain = np.where((gain > 0) & (gain <= over), gain, 0)
    best = int(np.argmax(gain))
    if not gain[best]:
        return False
    chosen[leave[best]], chosen[stay[at[best]]] = False, True
    return True


def _followers_first(size: Ints, leads: Bools, chosen: Bools) -> Bools:
    """The same number of each size, those that do not lead first."""
    order = np.lexsort((leads, size))
    ordered = size[order]
    first = np.searchsorted(ordered, ordered)
    count = np.bincount(first, weights=chosen[order], minlength=len(size)).astype(np.int64)
    found = np.zeros(len(size), dtype=bool)
    found[order] = np.arange(len(size)) - first < count[first]
    return found
