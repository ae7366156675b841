"""How much a plan moves, and how long that takes at a given throttle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_medic.plan.arrow import Column, Int64s, integers
from kafka_medic.plan.lists import Array, flatten
from kafka_medic.plan.model import Plan

__all__ = ["Estimate", "busiest_per_wave", "estimate"]

MOST_CELLS = 8_000_000
"""Waves x brokers."""

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
    load = _load(plan, leaders)
    busiest_in, busiest_out = _busiest(load.receiver, load.size[load.row]), _busiest(load.sender, load.copied)
    seconds = None if throttle is None else max(busiest_in, busiest_out) / throttle
    return Estimate(int(load.copied.sum()), busiest_in, busiest_out, seconds, plan.sizes.null_count)


def busiest_per_wave(plan: Plan, leaders: Column | None = None) -> Int64s | None:
    """int64[W] bytes of the broker that sends or receives most in each wave, which a throttle lets take its time; None
    where waves and brokers are too many to count."""
    load = _load(plan, leaders)
    wave = integers(plan.table.column("wave"))
    if not len(wave):
        return np.zeros(0, dtype=np.int64)
    brokers = max(int(load.receiver.max(initial=0)), int(load.sender.max())) + 1
    receiver, sender = load.receiver, load.sender
    if brokers > DENSE_IDS:
        ids, place = np.unique(np.concatenate([receiver, sender]), return_inverse=True)
        brokers, receiver, sender = len(ids), place[: len(receiver)], place[len(receiver) :]
    shape = (int(wave.max()) + 1, brokers)
    if shape[0] * shape[1] > MOST_CELLS:
        return None
    most = np.zeros(shape[0], dtype=np.int64)
    for broker, of, cost in (
        (receiver, wave[load.row], load.size[load.row]),
        (sender, wave, load.copied),
    ):
        total = np.zeros(shape[0] * shape[1], dtype=np.int64)
        np.add.at(total, of * shape[1] + broker, cost)
        most = np.maximum(most, total.reshape(shape).max(axis=1))
    return most


@dataclass(frozen=True, eq=False)
class _Load:
    """receiver, row: of each copy who gets it and which row of the plan it is of. sender, size, copied: of each row who
    sends, its bytes, and those of all its copies."""

    receiver: Array
    row: Array
    sender: Array
    size: Int64s
    copied: Array


def _load(plan: Plan, leaders: Column | None) -> _Load:
    size = integers(plan.sizes, 0)
    before, after, kept = (
        flatten(plan.table.column("replicasBefore")),
        flatten(plan.table.column("replicas")),
        plan.kept(),
    )
    new = after.position >= after.each(kept)
    sender = before.values[before.start]
    if leaders is not None:
        leader = integers(leaders)
        sender = np.where(leader >= 0, leader, sender)
    return _Load(after.values[new], after.row[new], sender, size, size * (after.length - kept))


def _busiest(broker: Array, cost: Int64s) -> int:
    if not len(broker):
        return 0
    dense = int(broker.max()) < DENSE_IDS
    place = broker if dense else np.unique(broker, return_inverse=True)[1]
    total = np.zeros(int(place.max()) + 1, dtype=np.int64)
    np.add.at(total, place, cost)
    return int(total.max())
