"""Snapshots of clusters that grow as a test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_medic.cluster.snapshot import Broker, ClusterInfo, Controller, Directory, Mode, Snapshot
from kafka_medic.fleet.history import append
from tests.unit.cluster import worlds

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
GIB = 1 << 30


def cluster(
    name: str = "payments",
    day: float = 0,
    *,
    rows: Iterable[Mapping[str, Any]] | None = None,
    identity: str | None = None,
    groups: Iterable[tuple[Any, ...]] | None = (),
    used: float | None = 10,
    epoch: int = 5,
    rate: float | None = None,
    **changes: Any,
) -> Snapshot:
    """A cluster of three brokers and racks `day` days after NOON. used: GiB on each broker's disk of 100 GiB."""
    directories = None if used is None else (Directory("/data", None, 100 * GIB, int((100 - used) * GIB)),)
    brokers = tuple(
        Broker(n, f"rack-{n}", f"kafka-{n}", 9092, registered=True, reachable=True, bytes_in_rate=rate,
               directories=directories, disk_free=None if used is None else int((100 - used) * GIB))
        for n in (1, 2, 3)
    )  # fmt: skip
    found = Snapshot(
        cluster=ClusterInfo(name, identity or f"id-{name}", Mode.KRAFT, "4.1"),
        taken_at=NOON + timedelta(days=day),
        brokers=brokers,
        controller=Controller(1, epoch),
        partitions=worlds.partitions(topic("orders", 3, day) if rows is None else rows),
        groups=None if groups is None else worlds.groups(*groups),
    )
    return replace(found, **changes)


def topic(
    name: str, partitions: int, day: float, *, per_day: int = 1000, size: int = 10, replicas: Callable | None = None,
    **changes: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    """A topic of which each partition gets `per_day` records of `size` bytes a day, and had as many before NOON."""
    end = int(per_day * (day + 1))
    of = replicas or (lambda n: [1 + (n + k) % 3 for k in range(3)])
    return [
        worlds.partition(name, n, of(n), logStart=0, logEnd=end, sizeBytes=end * size, **changes)
        for n in range(partitions)
    ]


def history(directory, *snapshots: Snapshot, writer: str = "test") -> None:
    for snapshot in snapshots:
        append(directory, snapshot, writer)
