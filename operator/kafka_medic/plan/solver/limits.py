"""Limits on what is copied: in all, and to each broker. The most exposed partitions come first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kafka_medic.plan.allowed import Allowed, LeftOut
from kafka_medic.plan.broker import Broker
from kafka_medic.plan.columns import Bools, Columns, Ints
from kafka_medic.plan.solver.waves import exposure_order

__all__ = ["over_limits", "within_totals"]

ENDLESS = 1 << 62


def within_totals(
    columns: Columns, missing: Ints, brokers: Sequence[Broker], allowed: Allowed, left_out: Ints
) -> tuple[Ints, Ints]:
    """(int32[N] replicas to add within the limits in all, int8[N] as `left_out` with the rest): in order of exposure,
    each partition that still fits."""
    missing, left_out = missing.copy(), left_out.copy()
    if allowed.by_bytes:
        unknown = (missing > 0) & (columns.size < 0)
        left_out[unknown], missing[unknown] = LeftOut.UNKNOWN_SIZE, 0
    rows = exposure_order(columns, np.flatnonzero(missing))
    takers = sum(broker.alive and broker.takes for broker in brokers)
    need = missing[rows].astype(np.int64)
    # What all brokers together may receive is a limit in all as well.
    moves = min(ENDLESS, _or_endless(allowed.moves), _or_endless(allowed.moves_per_broker) * takers)
    total = min(ENDLESS, _or_endless(allowed.bytes), _or_endless(allowed.bytes_per_broker) * takers)
    cost = np.stack([need, need * np.maximum(columns.size[rows], 0)], axis=1)
    line = np.arange(len(rows))
    what = np.zeros(len(rows), dtype=np.int64)
    fits = _taken(np.concatenate([line, line]), np.concatenate([what, what + 1]), cost.T.ravel(), [moves, total])
    left_out[rows[~fits]], missing[rows[~fits]] = LeftOut.OVER_LIMIT, 0
    return missing, left_out


def over_limits(
    order: Ints,
    added: Ints,
    size: Ints,
    allowed: Allowed,
    brokers: int,
    capacity: Ints | None = None,
    *,
    total: bool = False,
) -> Bools:
    """bool[n]: partitions to leave out, so that no broker receives more than it may.

    order: int64[n], the place of each partition among those that are served first. added: int32[n, M] broker indexes,
    -1 padded; size: int64[n] bytes, -1 unknown; capacity: int64[B] bytes, -1 unknown. total: the limit on all bytes
    counts as well.
    """
    most = np.full(brokers, _or_endless(allowed.bytes_per_broker))
    if capacity is not None:
        most = np.where(capacity < 0, most, np.minimum(capacity, most))
    moves = allowed.moves_per_broker
    if moves is None and (most == ENDLESS).all() and not (total and allowed.bytes is not None):
        return np.zeros(len(added), dtype=bool)
    row, slot = np.nonzero(added >= 0)
    to, cost, line = added[row, slot].astype(np.int64), np.maximum(size, 0)[row], order[row]
    limits = [_or_endless(moves)] * brokers + most.tolist() + [_or_endless(allowed.bytes) if total else ENDLESS]
    fits = _taken(
        np.concatenate([line, line, line]),
        np.concatenate([to, to + brokers, np.full(len(to), 2 * brokers)]),
        np.concatenate([np.ones_like(cost), cost, cost]),
        limits,
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
