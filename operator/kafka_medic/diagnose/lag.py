"""How far consumer groups are behind the log ends. Below zero where a group committed beyond the log end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.columns import numbers, partitions_of, strings


@dataclass(frozen=True, slots=True)
class Lag:
    """Records behind the log end, over the partitions of one group or of all groups. Never clamped to zero."""

    lowest: int
    highest: int
    total: int


@dataclass(frozen=True, slots=True)
class Lags:
    """`overall` is None where no group has a committed offset on a partition with a known log end."""

    overall: Lag | None
    groups: dict[str, Lag]


def lags(snapshot: Snapshot) -> Lags | None:
    """None where committed offsets or partitions are not known. Entries without a known log end are left out."""
    p, groups = partitions_of(snapshot), snapshot.groups
    if p is None or groups is None:
        return None
    if not len(p) or not groups.num_rows:
        return Lags(None, {})
    row_of = p.rows_of(groups["topic"], numbers(groups["partition"]).values)
    committed = numbers(groups["committed"])
    use = np.flatnonzero((row_of >= 0) & committed.known & (committed.values >= 0) & p.log_end.known[row_of])
    if not use.size:
        return Lags(None, {})
    behind = p.log_end.values[row_of[use]] - committed.values[use]
    every = strings(groups["group"])
    names, index = np.unique(np.array([every[i] for i in use.tolist()], dtype=object).astype(str), return_inverse=True)
    lowest = np.full(names.size, np.iinfo(np.int64).max)
    highest = np.full(names.size, np.iinfo(np.int64).min)
    total = np.zeros(names.size, np.int64)
    np.minimum.at(lowest, index, behind)
    np.maximum.at(highest, index, behind)
    np.add.at(total, index, behind)
    of_groups = {
        str(name): Lag(int(low), int(high), int(whole))
        for name, low, high, whole in zip(names, lowest, highest, total, strict=True)
    }
    return Lags(Lag(int(behind.min()), int(behind.max()), int(behind.sum())), of_groups)
