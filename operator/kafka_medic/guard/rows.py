"""The partitions that a question about one broker turns on, found on columns, so that a healthy
200,000-partition cluster costs a few passes over arrays and only a handful of row objects."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import PartitionRow, Snapshot

_Mask: TypeAlias = npt.NDArray[np.bool_]
_COLUMNS = "columns of brokers"
"""Where a Snapshot keeps them (`Snapshot.worked_out`)."""


def troubled_rows(snapshot: Snapshot, broker: int | None = None) -> tuple[PartitionRow, ...] | None:
    """Every partition with a replica on `broker` (if one is named), and every one that is not plainly at
    rest: where replicas, ISR or reassignment are not known, a reassignment is in flight, the ISR is not the
    whole replica set, or a replica is on a broker that is not listed. What is left out is known, at rest,
    fully in sync and not on the broker. None when partitions are not known."""
    table = snapshot.partitions
    if table is None:
        return None
    if _COLUMNS not in snapshot.worked_out:
        snapshot.worked_out[_COLUMNS] = _not_at_rest(snapshot, table)
    columns, restless = snapshot.worked_out[_COLUMNS]
    wanted: _Mask = restless.copy()
    if broker is not None:
        for column in columns:
            wanted[column.rows[column.ids == broker]] = True
    if not wanted.any():
        return ()
    chosen = table.filter(pa.array(wanted))
    return tuple(Snapshot(snapshot.cluster, snapshot.taken_at, partitions=chosen).rows())


def _not_at_rest(snapshot: Snapshot, table: pa.Table) -> tuple[list[_Ids], _Mask]:
    """The columns of brokers, and what of `troubled_rows` is the same whatever broker is asked about."""
    columns = [_Ids(table[name]) for name in ("replicas", "isr", "adding", "removing")]
    replicas, isr, adding, removing = columns
    wanted: _Mask = np.zeros(table.num_rows, dtype=np.bool_)
    for column in columns:
        wanted |= ~column.known
    wanted |= (adding.counts > 0) | (removing.counts > 0)
    wanted |= replicas.counts != isr.counts
    wanted[replicas.rows[~replicas.within(isr)]] = True
    if snapshot.brokers is not None:
        listed = np.fromiter((b.id for b in snapshot.brokers), dtype=np.int64)
        wanted[replicas.rows[~np.isin(replicas.ids, listed)]] = True
    return columns, wanted


def led_by(snapshot: Snapshot, leaders: Collection[int]) -> Iterator[PartitionRow]:
    """The partitions whose leader is one of these; -1 stands for nobody."""
    if snapshot.partitions is None:
        return
    wanted: Any = pc.is_in(snapshot.partitions["leader"], value_set=pa.array(sorted(leaders), pa.int32()))
    yield from Snapshot(snapshot.cluster, snapshot.taken_at, partitions=snapshot.partitions.filter(wanted)).rows()


def known_ids(values: Sequence[int | None] | None) -> frozenset[int] | None:
    """The ids of a list, or None when the list, or any one of them, is not known."""
    if values is None:
        return None
    ids = frozenset(v for v in values if v is not None)
    return None if any(v is None for v in values) else ids


def target_of(row: PartitionRow) -> frozenset[int] | None:
    """The replica set that a partition has, or will have once its reassignment is through (KIP-455); None
    when any part of that is not known."""
    replicas, adding, removing = known_ids(row.replicas), known_ids(row.adding), known_ids(row.removing)
    if replicas is None or adding is None or removing is None:
        return None
    return (replicas | adding) - removing


class _Ids:
    """A column of id lists, flattened."""

    def __init__(self, column: pa.ChunkedArray[Any]) -> None:
        if not column.null_count and column.num_chunks == 1:  # by far the usual case
            lists: Any = column.chunk(0)
            values = lists.flatten()
            if not values.null_count:
                self.counts = np.diff(lists.offsets.to_numpy())
                self.rows = np.repeat(np.arange(len(lists), dtype=np.int64), self.counts)
                self.known = np.ones(len(lists), dtype=np.bool_)
                self.ids = np.asarray(values.to_numpy(), dtype=np.int64)
                return
        flat: Any = pc.list_flatten(column)
        self.rows = np.asarray(pc.list_parent_indices(column).to_numpy(), dtype=np.int64)
        self.known = np.array(pc.is_valid(column).to_numpy(), dtype=np.bool_)
        present = np.asarray(pc.is_valid(flat).to_numpy(zero_copy_only=False), dtype=np.bool_)
        self.known[self.rows[~present]] = False
        filled: Any = pc.fill_null(flat, pa.scalar(-1, pa.int32()))
        self.ids = np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)
        self.counts = np.bincount(self.rows, minlength=len(self.known))

    def within(self, other: _Ids) -> _Mask:
        if np.array_equal(self.rows, other.rows) and np.array_equal(self.ids, other.ids):
            return np.ones(len(self.rows), dtype=np.bool_)
        mine, others = ((c.rows << 32) | (c.ids & 0xFFFFFFFF) for c in (self, other))
        found: Any = pc.is_in(pa.array(mine), value_set=pa.array(others))
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)
