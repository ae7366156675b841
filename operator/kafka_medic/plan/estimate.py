"""How much a plan moves, and how long that takes at a given throttle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_medic.plan.arrow import Column, Int64s, flat_values, integers, list_lengths
from kafka_medic.plan.model import Plan

__all__ = ["Estimate", "estimate"]

DENSE_IDS = 1 << 20
"""Below this, broker ids index a table as they are."""


@dataclass(frozen=True)
class Estimate:
    """bytes_total: bytes to copy. busiest_in, busiest_out: most that one broker receives or sends.

    seconds: the larger of both over the throttle, which bounds each of them apart; None without a throttle.
    unknown: partitions whose size is not known and counts as nothing here.
    """

    bytes_total: int
    busiest_in: int
    busiest_out: int
    seconds: float | None
    unknown: int


def estimate(plan: Plan, leaders: Column | None = None, throttle: int | None = None) -> Estimate:
    """Bytes and time of a plan.

    leaders: broker ids parallel to the plan's rows (null: the first replica sends); throttle: bytes per
    second that each broker may receive, and may send. Raises ValueError if the throttle is below 1.
    """
    if throttle is not None and throttle < 1:
        raise ValueError(f"throttle {throttle} is below 1 byte per second")
    size = integers(plan.sizes, 0)
    before, after = plan.table.column("replicasBefore"), plan.table.column("replicas")
    held, wanted, kept = list_lengths(before), list_lengths(after), plan.kept()
    row = np.repeat(np.arange(len(size)), wanted)
    position = np.arange(len(row)) - (np.cumsum(wanted) - wanted)[row]
    new = position >= kept[row]
    receiver = flat_values(after)[new]
    first = flat_values(before)[np.cumsum(held) - held]
    sender = first
    if leaders is not None:
        leader = integers(leaders)
        sender = np.where(leader >= 0, leader, first)
    copied = size * (wanted - kept)
    busiest_in, busiest_out = _busiest(receiver, size[row[new]]), _busiest(sender, copied)
    seconds = None if throttle is None else max(busiest_in, busiest_out) / throttle
    return Estimate(int(copied.sum()), busiest_in, busiest_out, seconds, plan.sizes.null_count)


def _busiest(broker: Int64s, cost: Int64s) -> int:
    if not len(broker):
        return 0
    dense = int(broker.max()) < DENSE_IDS
    place = broker if dense else np.unique(broker, return_inverse=True)[1]
    total = np.zeros(int(place.max()) + 1, dtype=np.int64)
    np.add.at(total, place, cost)
    return int(total.max())
