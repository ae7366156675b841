"""The changed partitions as matrices of broker indexes, and as the table that a plan is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kafka_medic.plan.allowed import LeftOut
from kafka_medic.plan.arrow import Column, list_column
from kafka_medic.plan.columns import Bools, Columns, Ints
from kafka_medic.plan.model import LEFT_OUT_SCHEMA, PLAN_SCHEMA

__all__ = ["append", "candidates", "lead_first", "left_out_table", "plan_table", "sizes_or_null"]


def append(held: Ints, held_count: Ints, added: Ints) -> Ints:
    """int32[n, F]: each row's replicas held, then those added, without a gap, -1 padded."""
    if (held_count == held.shape[1]).all() and held.dtype == added.dtype:  # by far the most frequent
        return np.concatenate([held, added], axis=1)
    count = held_count + (added >= 0).sum(axis=1)
    joined = np.full((len(held), max(int(count.max(initial=0)), 1)), -1, dtype=np.int32)
    width = min(held.shape[1], joined.shape[1])
    joined[:, :width] = held[:, :width]
    for slot in range(added.shape[1]):
        rows = np.flatnonzero(added[:, slot] >= 0)
        joined[rows, held_count[rows] + slot] = added[rows, slot]
    return joined


def candidates(replicas: Ints, takes: Bools) -> Ints:
    """int32[n, F]: the replicas that may lead, -1 in place of others. A broker that takes nothing (takes: bool[B])
    keeps what it leads and leads nothing else."""
    if takes.all():
        return replicas
    may = takes[replicas] & (replicas >= 0)
    may[:, 0] = True
    return np.where(may, replicas, -1).astype(replicas.dtype)


def plan_table(
    columns: Columns, before: Ints, rows: Ints, replicas: Ints, order: Ints, wave: Ints, ids: Ints
) -> pa.Table:
    """The plan of these rows of the columns: PLAN_SCHEMA. before: int32[N, H] replicas as they are; ids: int32[B];
    order: int32[n, F] the preferred order."""
    names = pa.array(columns.topics, pa.string())
    arrays = [
        names.take(pa.array(columns.topic[rows], pa.int32())),
        pa.array(columns.partition[rows], pa.int32()),
        _lists(before[rows], ids),
        _lists(replicas, ids),
        _lists(order, ids),
        pa.array(wave, pa.int32()),
    ]
    return pa.table(arrays, schema=PLAN_SCHEMA)


def left_out_table(columns: Columns, left_out: Ints) -> pa.Table:
    """The partitions that stay as they are though the question concerns them: LEFT_OUT_SCHEMA. left_out: int8[N] as in
    `LeftOut`."""
    rows = np.flatnonzero(left_out)
    names, reasons = pa.array(columns.topics, pa.string()), pa.array([why.sentence for why in LeftOut], pa.string())
    arrays = [
        names.take(pa.array(columns.topic[rows], pa.int32())),
        pa.array(columns.partition[rows], pa.int32()),
        reasons.take(pa.array(left_out[rows], pa.int8())),
    ]
    return pa.table(arrays, schema=LEFT_OUT_SCHEMA)


def sizes_or_null(size: Ints) -> Column:
    """int64 array of bytes, null for -1."""
    return pa.array(size, pa.int64(), mask=size < 0)


def lead_first(replicas: Ints, lead: Ints) -> Ints:
    """Each row with the chosen leader (int32[n] its column) moved to the front, the others in their order."""
    order = replicas.copy()
    for column in range(1, replicas.shape[1]):
        behind = np.flatnonzero(lead >= column)
        order[behind, column] = replicas[behind, column - 1]
    order[:, 0] = replicas[np.arange(len(replicas)), lead]
    return order


def _lists(brokers: Ints, ids: Ints) -> Column:
    """list<int32> of broker ids from a matrix of indexes, -1 padded at the end."""
    if brokers.size and brokers.min() >= 0:  # by far the most frequent, and half the work
        return list_column(np.full(len(brokers), brokers.shape[1]), ids[brokers.ravel()])
    inside = brokers >= 0
    return list_column(inside.sum(axis=1), ids[brokers[inside]])
