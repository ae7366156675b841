"""The data behind report.html and report.png: brokers, racks, waves and topics, before and after a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import numpy as np
import pyarrow as pa

from kafka_medic.plan.arrow import Column, Int64s, integers, list_lengths
from kafka_medic.plan.estimate import busiest_per_wave
from kafka_medic.plan.files.partition_columns import listed_of
from kafka_medic.plan.lists import Lists, flatten, place_among
from kafka_medic.plan.model import Plan, Summary, TopicSpread
from kafka_medic.plan.problem import Broker, rack_names
from kafka_medic.report.model import PartitionList

__all__ = ["About", "Chart", "ReportData", "report_data"]


class ReportInput(Protocol):
    """What the report needs of the input: the partitions as they are, and the brokers by id."""

    @property
    def partitions(self) -> pa.Table: ...

    @property
    def brokers(self) -> tuple[Broker, ...]: ...


@dataclass(frozen=True, eq=False)
class Chart:
    """Bars before and after, one pair for each label, and a line at the bound."""

    title: str
    labels: Sequence[str]
    before: Int64s
    after: Int64s
    bound: int | None


@dataclass(frozen=True)
class About:
    """What a plan is of, and whose. Empty and None: not known. observed_at: when the partitions were so. digest: the
    SHA-256 of reassignment.json."""

    cluster: str = ""
    cluster_id: str = ""
    observed_at: str = ""
    planned_at: datetime | None = None
    requester: str = ""
    digest: str = ""


@dataclass(frozen=True, eq=False)
class ReportData:
    """What the report has. Per broker (all of `brokers`, in their order): replicas and preferred leaders, before and
    after. Per wave: partitions, replicas, and, None where not counted, bytes that are known, in all and of the broker
    that sends or receives most. topics: the worst spread ones, None where not counted. throttle: bytes per second.
    sizes_unknown: changed partitions whose bytes count as nothing; None where not counted. listed: the partitions that
    change; None: the page has no list of them."""

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
    sizes_unknown: int | None = None
    listed: PartitionList | None = None
    about: About = field(default_factory=About)

    @property
    def weighted(self) -> bool:
        """Whether live brokers differ in weight, so that a bound is no line across all of them."""
        return len({broker.weight for broker in self.brokers if broker.alive}) > 1

    @property
    def timed(self) -> Int64s | None:
        """int64[W] bytes that each wave takes its time by; None where none are known."""
        return self.busiest if self.busiest is not None and self.busiest.any() else None

    def charts(self) -> tuple[tuple[Chart, Chart | None], ...]:
        """Replicas, then preferred leaders: per live broker, and per rack where there are racks."""
        summary = self.summary
        return (
            self._both("Replicas per broker", self.replicas, summary.replicas_per_broker.bound),
            self._both("Preferred leaders per broker", self.leaders, summary.leaders_per_broker.bound),
        )

    def _both(self, title: str, sides: tuple[Int64s, Int64s], bound: int) -> tuple[Chart, Chart | None]:
        live = [at for at, broker in enumerate(self.brokers) if broker.alive]
        ids = [str(self.brokers[at].id) for at in live]
        per_broker = Chart(title, ids, sides[0][live], sides[1][live], None if self.weighted else bound)
        racks = rack_names(self.brokers)
        if not racks:
            return per_broker, None
        of_rack = [[at for at in live if self.brokers[at].rack == rack] for rack in racks]
        before, after = (np.array([int(side[of].sum()) for of in of_rack], dtype=np.int64) for side in sides)
        return per_broker, Chart(title.replace("broker", "rack"), racks, before, after, None)


def report_data(
    problem: ReportInput,
    plan: Plan,
    leaders: Column,
    throttle: int | None = None,
    title: str = ReportData.title,
    about: About | None = None,
    *,
    with_list: bool = True,
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
        plan.topics, throttle, title, sizes_unknown=plan.sizes.null_count,
        listed=listed_of(plan.table) if with_list else None, about=about or About(),
    )  # fmt: skip


def _gains(plan: Plan) -> Int64s:
    """int64[n] replicas added to each partition."""
    return list_lengths(plan.table.column("replicas")) - plan.kept()


def _on_brokers(ids: Int64s, replicas: Lists, *, first: bool) -> Int64s:
    """int64[B]: how often each broker stands in the lists, or first in them."""
    there = replicas.values[replicas.start] if first else replicas.values
    return np.bincount(place_among(ids, there), minlength=len(ids))
