"""A small history: three clusters, two weeks, two snapshots a day.

    python examples/fleet/make_history.py history/

payments fills its disks and has a group that falls behind. logs has factor 1. events lowered its retention on
January 8, and could not be read on January 12. docs/fleet.md shows how to begin a history of your own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafka_medic.cluster.groups import GROUPS_SCHEMA
from kafka_medic.cluster.snapshot import (
    PARTITIONS_SCHEMA,
    Broker,
    ClusterInfo,
    Controller,
    Directory,
    Mode,
    Snapshot,
    Source,
    SourceState,
)
from kafka_medic.fleet.history import append

FIRST = datetime(2026, 1, 1, 6, tzinfo=UTC)
DAYS = 14
GIB = 1 << 30
RECORD = 100
"""Bytes."""


def main(directory: Path) -> None:
    """Append all snapshots of all clusters."""
    for half in range(2 * DAYS):
        time = FIRST + timedelta(hours=12 * half)
        for snapshot in snapshots(half / 2, time):
            append(directory, snapshot, "kafka-medic snapshot")


def snapshots(day: float, time: datetime) -> Iterator[Snapshot]:
    """The three clusters, `day` days after the first."""
    orders = topic("orders", 12, day, per_day=400_000)
    late = 20_000 * day
    groups = [("billing", "Stable", r["topic"], r["partition"], r["logEnd"] - int(late)) for r in orders]
    groups += [("audit", "Stable", r["topic"], r["partition"], r["logEnd"]) for r in orders]
    rows = orders + topic("refunds", 6, day, per_day=5_000)
    yield cluster("payments", time, rows, groups, used=40 + 4 * day, rate=60_000.0)

    rows = topic("clicks", 24, day, per_day=900_000, factor=1) + topic("errors", 6, day, per_day=2_000, factor=1)
    yield cluster("logs", time, rows, [], used=30)

    rows = topic("sensors", 12, day, per_day=50_000, kept=60 if day < 7 else 20)
    if day >= 11 and day < 12:
        yield unread("events", time)
    else:
        yield cluster("events", time, rows, [], used=55 if day < 7 else 25)


def topic(
    name: str, partitions: int, day: float, *, per_day: int, factor: int = 3, kept: int = 60
) -> list[dict[str, Any]]:
    """A topic that is 60 days old on the first day and keeps its records for `kept` days."""
    end = int(per_day * (60 + day))
    start = end - per_day * kept if kept < 60 else 0
    rows = []
    for number in range(partitions):
        replicas = [1 + (number + n) % 6 for n in range(factor)]
        rows.append({
            "topic": name, "partition": number, "leader": replicas[0], "leaderEpoch": 1, "replicas": replicas,
            "isr": replicas, "adding": [], "removing": [], "logStart": start, "logEnd": end,
            "sizeBytes": (end - start) * RECORD, "minIsr": 1, "topicId": f"id-of-{name}",
        })  # fmt: skip
    return rows


def cluster(
    name: str, time: datetime, rows: list[dict[str, Any]], groups: list[Any], *, used: float, rate: float | None = None
) -> Snapshot:
    """Six brokers in three racks with a disk of 100 GiB each. rate: bytes per second from each broker's exporter."""
    free = int((100 - used) * GIB)
    disk = (Directory("/var/lib/kafka", None, 100 * GIB, free),)
    brokers = tuple(
        Broker(
            n, f"zone-{'abc'[n % 3]}", f"{name}-{n}.example.com", 9092, registered=True, reachable=True,
            bytes_in_rate=None if rate is None else rate + 1000 * n, disk_free=free, directories=disk,
        )
        for n in range(1, 7)
    )  # fmt: skip
    committed = [dict(zip(GROUPS_SCHEMA.names, group, strict=False)) for group in groups]
    return Snapshot(
        ClusterInfo(name, f"id-of-{name}", Mode.KRAFT, "4.1.0"), time, (), brokers, Controller(1, 3),
        partitions=pa.Table.from_pylist(rows, PARTITIONS_SCHEMA),
        groups=pa.Table.from_pylist(committed, GROUPS_SCHEMA),
    )  # fmt: skip


def unread(name: str, time: datetime) -> Snapshot:
    """A snapshot of which no source but the cluster's id was read."""
    why = Source("kafka", None, SourceState.UNKNOWN, "no broker answered")
    return Snapshot(ClusterInfo(name, f"id-of-{name}", Mode.KRAFT, None), time, (why,))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
