"""The data behind report.html and report.png: brokers, racks, waves and topics, before and after a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from kafka_medic.plan.arrow import Column, Int64s, integers, list_lengths
from kafka_medic.plan.estimate import busiest_per_wave
from kafka_medic.plan.lists import Lists, flatten, place_among
from kafka_medic.plan.model import Plan, Summary, TopicSpread
from kafka_medic.plan.problem import Broker

__all__ = ["ReportData", "report_data"]


class ReportInput(Protocol):
    """What the report needs of the input: the partitions as they are, and the brokers by id."""

    @property
    def partitions(self) -> pa.Table: ...

    @property
    def brokers(self) -> tuple[Broker, ...]: ...


@dataclass(frozen=True, eq=False)
class ReportData:
    """What the report has. Per broker (all of `brokers`, in their order): replicas and preferred leaders, before and
    after. Per wave: partitions, replicas, and, None where not counted, bytes that are known, in all and of the broker
    that sends or receives most. topics: the worst spread ones, None where not counted. throttle: bytes per second."""

    brokers: tuple[Broker, ...]
    summary: Summary
    replicas: tuple[Int64s, Int64s]
    leaders: tuple[Int64s, Int64s]
    partitions: Int64s
    added: Int64s
    moved: Int64s | None
    busiest: Int64s | None = None
    topics: tuple[TopicSpread, ...] = ()
    throttle: int | None = None
    title: str = "Raise replication factor"
    uncounted: int = 0


def report_data(
    problem: ReportInput, plan: Plan, leaders: Column, throttle: int | None = None, title: str = ReportData.title
) -> ReportData:
    """The data of a plan that is in memory; leaders: of its rows, by id, null where not known."""
    ids = np.array([broker.id for broker in problem.brokers], dtype=np.int64)
    everywhere = flatten(problem.partitions.column("replicas"))
    leave, come, order = (flatten(plan.table.column(n)) for n in ("replicasBefore", "replicas", "preferredOrder"))
    held, first = (_on_brokers(ids, everywhere, first=first) for first in (False, True))
    replicas = held, held - _on_brokers(ids, leave, first=False) + _on_brokers(ids, come, first=False)
    led = first, first - _on_brokers(ids, leave, first=True) + _on_brokers(ids, order, first=True)
    wave, gain = integers(plan.table.column("wave")), _gains(plan)
    count, added = np.bincount(wave), np.bincount(wave, weights=gain).astype(np.int64)
    moved = np.zeros(len(count), dtype=np.int64)
    np.add.at(moved, wave, gain * integers(plan.sizes, 0))
    return ReportData(
        problem.brokers, plan.summary, replicas, led, count, added, moved, busiest_per_wave(plan, leaders),
        plan.topics, throttle, title,
    )  # fmt: skip


def _gains(plan: Plan) -> Int64s:
    """int64[n] replicas added to each partition."""
    return list_lengths(plan.table.column("replicas")) - plan.kept()


def _on_brokers(ids: Int64s, replicas: Lists, *, first: bool) -> Int64s:
    """int64[B]: how often each broker stands in the lists, or first in them."""
    there = replicas.values[replicas.start] if first else replicas.values
    return np.bincount(place_among(ids, there), minlength=len(ids))
