"""When a log directory's volume will be full, from what its broker reported of it (KIP-827)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_medic.fleet.robust import DAY, daily, trend
from kafka_medic.fleet.whole import moment

__all__ = ["Disk", "disks"]

OTHER_SIZE = 0.01
"""Of the total: a volume whose size differs by more is another one, and what was used before says nothing of it."""
HORIZON = 730
"""Days ahead for which a rate of some weeks is believed."""
FULL, NOT_SO, UNKNOWN = "full", "not at this rate", "unknown"


@dataclass(frozen=True)
class Disk:
    """A log directory's volume. growth: bytes per day, None where not known. state: "full" at `full` (a day),
    "not at this rate", or "unknown", with the reason in `why`."""

    broker: int
    path: str
    total: int | None
    free: int | None
    growth: float | None
    state: str
    full: str | None
    why: str


def disks(brokers: pa.Table) -> tuple[Disk, ...]:
    """The volumes of the brokers of the last Snapshot that has brokers, the first to be full first.

    brokers: rows of BROKERS of one cluster, `time` as microseconds.
    """
    times: list[Any] = brokers["time"].to_pylist()
    last = max(times, default=0)
    reports: dict[int, list[tuple[int, list[dict[str, Any]] | None]]] = {}
    columns = (brokers[name].to_pylist() for name in ("id", "time", "directories"))
    for number, time, directories in sorted(zip(*columns, strict=True), key=lambda row: row[:2]):
        reports.setdefault(number, []).append((time, directories))
    found: list[Disk] = []
    for number, own in reports.items():
        if own[-1][0] < last:
            continue  # the broker is gone
        told = [(time, d) for time, d in own if d is not None]
        if not told:
            why = "the broker reports no log directories"
            found.append(Disk(number, "", None, None, None, UNKNOWN, None, why))
            continue
        found += [_disk(number, directory, told) for directory in told[-1][1]]
    order = {FULL: 0, UNKNOWN: 1, NOT_SO: 2}
    return tuple(sorted(found, key=lambda d: (order[d.state], d.full or "", d.broker, d.path)))


def _disk(number: int, now: dict[str, Any], reports: list[tuple[int, list[dict[str, Any]]]]) -> Disk:
    path, total, free = now["path"] or "", now["totalBytes"], now["usableBytes"]
    if now["error"]:
        return Disk(number, path, total, free, None, UNKNOWN, None, f"the directory reports {now['error']}")
    if total is None or free is None:
        return Disk(
            number, path, total, free, None, UNKNOWN, None, "the broker reports no size: Kafka 3.3 or later does"
        )
    points = [
        (time, float(d["totalBytes"] - d["usableBytes"]), d["totalBytes"])
        for time, directories in reports
        for d in directories
        if d["path"] == now["path"] and d["totalBytes"] is not None and d["usableBytes"] is not None
    ]
    other = [at for at, (_, _, size) in enumerate(points) if abs(size - total) > OTHER_SIZE * total]
    points = points[other[-1] + 1 if other else 0 :]
    time = np.array([time for time, _, _ in points], dtype=np.int64)
    days, used = daily(time, np.array([[value for _, value, _ in points]]))
    found = trend(days, used)
    growth = float(found.slope[0])
    if np.isnan(growth):
        changed = bool(other) or int(found.since[0]) > int(days[0])
        since = f" since its level or size changed, on {moment(int(found.since[0]) * DAY)[:10]}" if changed else ""
        why = f"fewer than 3 days are known{since}"
        return Disk(number, path, total, free, None, UNKNOWN, None, why)
    left = free / growth if growth > 0 else np.inf
    if left > HORIZON:
        return Disk(number, path, total, free, growth, NOT_SO, None, "")
    return Disk(number, path, total, free, growth, FULL, moment(int(time[-1]) + int(left * DAY))[:10], "")
