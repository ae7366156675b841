"""Limits on what is copied: in all, and to each broker. The most exposed partitions come first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kafka_medic.plan.allowed import Allowed, LeftOut
from kafka_medic.plan.broker import Broker
from kafka_medic.plan.columns import Bools, Columns, Ints
from kafka_medic.plan.solver.waves import exposure_order

__all__ = ["ENDLESS", "Room", "beyond", "fitting", "hopeless", "in_all", "over_limits", "room_within", "within_totals"]

ENDLESS = 1 << 62
"""No limit."""


@dataclass(frozen=True, eq=False)
class Room:
    """What may come. moves, bytes: int64[B] to each broker. total: bytes in all. ENDLESS: no limit."""

    moves: Ints
    bytes: Ints
    total: int = ENDLESS

    @property
    def endless(self) -> bool:
        """Whether nothing is limited."""
        return bool((self.moves == ENDLESS).all() and (self.bytes == ENDLESS).all() and self.total == ENDLESS)


def room_within(allowed: Allowed, brokers: int) -> Room:
    """What may come to each broker; the limits in all are not in it."""
    moves, most = _or_endless(allowed.moves_per_broker), _or_endless(allowed.bytes_per_broker)
    return Room(np.full(brokers, moves, dtype=np.int64), np.full(brokers, most, dtype=np.int64))


def within_totals(
    columns: Columns, missing: Ints, brokers: Sequence[Broker], allowed: Allowed, left_out: Ints
) -> tuple[Ints, Ints]:
    """(int32[N] replicas to add within the limits in all, int8[N] as `left_out` with the rest): in order of exposure,
    each partition that still fits."""
    missing, left_out = missing.copy(), left_out.copy()
    unknown, alone = hopeless(columns, missing, brokers, allowed)
    left_out[unknown], left_out[alone] = LeftOut.UNKNOWN_SIZE, LeftOut.OVER_LIMIT
    missing[unknown | alone] = 0
    rows = exposure_order(columns, np.flatnonzero(missing))
    fits = fitting(missing[rows], columns.size[rows], *in_all(allowed, brokers))
    left_out[rows[~fits]], missing[rows[~fits]] = LeftOut.OVER_LIMIT, 0
    return missing, left_out


def in_all(allowed: Allowed, brokers: Sequence[Broker]) -> tuple[int, int]:
    """(moves, bytes) that may be copied in all. What all brokers together may receive is a limit in all as well."""
    takers = sum(broker.alive and broker.takes for broker in brokers)
    return (
        min(ENDLESS, _or_endless(allowed.moves), _or_endless(allowed.moves_per_broker) * takers),
        min(ENDLESS, _or_endless(allowed.bytes), _or_endless(allowed.bytes_per_broker) * takers),
    )


def fitting(need: Ints, size: Ints, moves: int, total: int) -> Bools:
    """bool[n]: the partitions that fit, each in order if what it costs is left. need: int32[n] replicas that each gets;
    size: int64[n] bytes, -1 unknown; moves, total: moves and bytes that are left."""
    need = need.astype(np.int64)
    line, what = np.arange(len(need)), np.zeros(len(need), dtype=np.int64)
    cost = np.concatenate([need, need * np.maximum(size, 0)])
    return _taken(np.concatenate([line, line]), np.concatenate([what, what + 1]), cost, [moves, total], len(need))


def hopeless(columns: Columns, missing: Ints, brokers: Sequence[Broker], allowed: Allowed) -> tuple[Bools, Bools]:
    """(bool[N] partitions whose size is not known, bool[N] those that fit no limit even alone), which miss some
    replicas (int32[N]); for limits alone."""
    size = np.maximum(columns.size, 0)
    unknown = (missing > 0) & (columns.size < 0) & allowed.by_bytes
    moves, total = in_all(allowed, brokers)
    alone = (missing > moves) | (missing * size > total) | (size > _or_endless(allowed.bytes_per_broker))
    return unknown, np.asarray((missing > 0) & ~unknown & alone)


def over_limits(
    order: Ints,
    added: Ints,
    size: Ints,
    allowed: Allowed,
    brokers: int,
) -> Bools:
    """bool[n]: partitions to leave out, so that no broker receives more than it may.

    order: int64[n], the place of each partition among those that are served first. added: int32[n, M] broker indexes,
    -1 padded; size: int64[n] bytes, -1 unknown.
    """
    return beyond(order, added, size, room_within(allowed, brokers))


def beyond(order: Ints, added: Ints, size: Ints, room: Room) -> Bools:
    """The same for any limits."""
    if room.endless:
        return np.zeros(len(added), dtype=bool)
    brokers = len(room.moves)
    row, slot = np.nonzero(added >= 0)
    to, cost, line = added[row, slot].astype(np.int64), np.maximum(size, 0)[row], order[row]
    fits = _taken(
        np.concatenate([line, line, line]),
        np.concatenate([to, to + brokers, np.full(len(to), 2 * brokers)]),
        np.concatenate([np.ones_like(cost), cost, cost]),
        [*room.moves.tolist(), *room.bytes.tolist(), room.total],
        len(added),
    )
    over: Bools = ~fits[order]
    return over


def _or_endless(limit: int | None) -> int:
    return ENDLESS if limit is None else limit


def _taken(row: Ints, what: Ints, cost: Ints, limits: Sequence[int], rows: int | None = None) -> Bools:
    """bool[n]: which rows fit, each in order if what it costs is left. row, what, cost: int64[E] entries: of which row,
    of which of the limits, how much. rows: n."""
    left = np.array(limits, dtype=np.int64)
    count = int(row.max(initial=-1)) + 1 if rows is None else rows
    taken = np.zeros(count, dtype=bool)
    offered = np.ones(count, dtype=bool)
    while offered.any():
        alone = np.ones(count, dtype=bool)
        alone[row[cost > left[what]]] = False
        offered &= alone
        here = np.flatnonzero(offered[row])
        here = here[np.lexsort((row[here], what[here]))]
        running = np.cumsum(cost[here])
        first = np.flatnonzero(np.diff(what[here], prepend=-1))
        before = np.repeat(np.concatenate(([0], running))[first], np.diff(first, append=len(here)))
        fits = offered.copy()
        fits[row[here[running - before > left[what[here]]]]] = False
        taken |= fits
        np.subtract.at(left, what[here], np.where(fits[row[here]], cost[here], 0))
        offered &= ~fits
    return taken
