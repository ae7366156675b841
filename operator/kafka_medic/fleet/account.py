"""One cluster's account: what grows, what fills, what is hot, who falls behind, and what is owed.

Pure: `account` gets a cluster's rows of a history and gives one row of ACCOUNT. The engines differ in how they bring
the rows here and in nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_medic.fleet.condense import condense_offsets, condense_partitions
from kafka_medic.fleet.debts import Debts, debts, led
from kafka_medic.fleet.disks import FULL, UNKNOWN, Disk, disks
from kafka_medic.fleet.lag import LEAST_DAYS, FallingBehind, falling_behind
from kafka_medic.fleet.robust import Floats, Trend, daily, percentile, trend
from kafka_medic.fleet.traffic import Topics, Traffic, complete, rates, read_topics, read_usage
from kafka_medic.fleet.whole import Whole, moment, whole
from kafka_medic.plan.arrow import compute
from kafka_medic.plan.wanted import Wanted

__all__ = ["ACCOUNT", "Account", "BrokerLoad", "TopicLoad", "account"]

HOT = 0.95
"""Of the time watched a rate was no higher."""
LISTED = 20
"""Topics, disks and groups that are named of each kind."""

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("clusterId", pa.string()),
    ("cluster", pa.string()),
    ("firstSnapshot", pa.string()),
    ("lastSnapshot", pa.string()),
    ("snapshots", pa.int64()),
    ("brokers", pa.int64()),
    ("topics", pa.int64()),
    ("partitions", pa.int64()),
    ("bytes", pa.int64()),
    ("growthPerDay", pa.int64()),
    ("bytesInP95", pa.float64()),
    ("bytesOutP95", pa.float64()),
    ("firstDiskFull", pa.string()),
    ("disksFilling", pa.int64()),
    ("disksUnknown", pa.int64()),
    ("hottestTopic", pa.string()),
    ("hottestTopicInP95", pa.float64()),
    ("hottestBroker", pa.int32()),
    ("hottestBrokerInP95", pa.float64()),
    ("hottestBrokerSource", pa.string()),
    ("groupsFallingBehind", pa.int64()),
    ("partitionsBelowFactor", pa.int64()),
    ("replicasMissing", pa.int64()),
    ("bytesToCopy", pa.int64()),
    ("partitionsSharingRacks", pa.int64()),
    ("notes", pa.list_(pa.string())),
    ("details", pa.string()),
]
ACCOUNT: pa.Schema = pa.schema(_FIELDS)
"""One row a cluster. `details` is JSON: topics, brokers, disks, groups. null: not known."""


@dataclass(frozen=True)
class TopicLoad:
    """A topic. bytes: of one copy. growth: bytes per day of one copy. bytes_in, bytes_out: p95 per second. None: not
    known."""

    topic: str
    partitions: int
    bytes: int | None
    growth: float | None
    bytes_in: float | None
    bytes_out: float | None


@dataclass(frozen=True)
class BrokerLoad:
    """A broker: p95 per second. source: "measured" by its exporter, or "derived" from log ends, for bytes_in; bytes_out
    is always derived."""

    broker: int
    rack: str | None
    alive: bool
    bytes_in: float | None
    source: str | None
    bytes_out: float | None


@dataclass(frozen=True)
class Account:
    """What is known of a cluster over the days that were read."""

    kept: Whole
    partitions: int
    bytes: int | None
    growth: float | None
    bytes_in: float | None
    bytes_out: float | None
    topics: tuple[TopicLoad, ...]
    brokers: tuple[BrokerLoad, ...]
    disks: tuple[Disk, ...]
    behind: tuple[FallingBehind, ...] | None
    debts: Debts | None
    notes: tuple[str, ...]


def account(tables: Mapping[str, pa.Table], cluster_id: str, wanted: Wanted, now: datetime) -> pa.Table:
    """A row of ACCOUNT. tables: rows of `snapshots` and `brokers` in the window, `topics` and `groups` condensed, and
    `last`, the rows of `partitions` of the last Snapshot that counts, all of one cluster; now: the reader's clock."""
    snapshots = tables["snapshots"]
    kept = whole(snapshots, now)
    found = _account(tables, kept, wanted)
    return pa.Table.from_pylist([_row(found, snapshots, cluster_id)], ACCOUNT)


def _account(tables: Mapping[str, pa.Table], kept: Whole, wanted: Wanted) -> Account:
    condensed = condense_partitions(tables["topics"])
    kept, lacking = complete(condensed, kept)
    if not kept.ids:
        why = (*kept.notes, *lacking) or ("no snapshot has partitions",)
        return Account(kept, 0, None, None, None, None, (), (), (), None, None, why)
    topics = read_topics(condensed, kept)
    usage = read_usage(condense_offsets(tables["groups"]), topics, kept)
    traffic = rates(topics, usage, kept)
    brokers = _counted(tables["brokers"], kept)
    last, now = (_of(rows, kept.ids[-1]) for rows in (tables["last"], brokers))
    last = _distinct(last, ("topic", "partition"))
    notes = [*kept.notes, *lacking, *traffic.notes]
    if len(kept.ids) < 2:
        notes.append("one snapshot shows no growth, rate or lag: append more")
    days, sizes = daily(kept.time, topics.bytes)
    total, growth = _whole_cluster(topics, days, sizes)
    return Account(
        kept,
        int(kept.partitions[-1]),
        total,
        growth,
        _known(_p95(_sum(traffic.bytes_in), traffic)[0]),
        _known(_p95(_sum(traffic.bytes_out), traffic)[0]),
        _topic_loads(topics, traffic, trend(days, sizes)),
        _broker_loads(brokers, now, last, topics, traffic),
        disks(brokers),
        falling_behind(usage, topics, kept) if any(kept.offsets) and len(days) >= LEAST_DAYS else None,
        debts(last, now, wanted) if last.num_rows and now.num_rows else None,
        tuple(notes),
    )


def _whole_cluster(topics: Topics, days: Any, sizes: Floats) -> tuple[int | None, float | None]:
    """(bytes of one copy of all topics now, their growth per day). A topic that was not there yet counts as nothing."""
    now = topics.bytes[:, -1]
    if np.isnan(now).any():
        return None, None
    there = np.where(np.isnan(sizes) & (np.cumsum(~np.isnan(sizes), axis=1) == 0), 0.0, sizes)
    return int(now.sum()), _known(trend(days, _sum(there)).slope[0])


def _topic_loads(topics: Topics, traffic: Traffic, grown: Trend) -> tuple[TopicLoad, ...]:
    columns = (topics.bytes[:, -1], grown.slope, _p95(traffic.bytes_in, traffic), _p95(traffic.bytes_out, traffic))
    size, slope, come, leave = (np.asarray(column, dtype=np.float64) for column in columns)
    return tuple(
        TopicLoad(
            name, int(topics.partitions[at]), None if np.isnan(size[at]) else int(size[at]), _known(slope[at]),
            _known(come[at]), _known(leave[at]),
        )
        for at, name in enumerate(topics.names)
    )  # fmt: skip


def _broker_loads(
    brokers: pa.Table, now: pa.Table, last: pa.Table, topics: Topics, traffic: Traffic
) -> tuple[BrokerLoad, ...]:
    """What the layout of the last Snapshot brings to each broker; by its exporter where that is known."""
    ids = np.array(now["id"].to_pylist(), dtype=np.int64)
    share = led(last, topics.names, ids)
    if not last.num_rows:
        share = np.full(share.shape, np.nan)
    come, leave = (_p95(_shared(share, rate), traffic) for rate in (traffic.bytes_in, traffic.bytes_out))
    measured: dict[int, list[float]] = {}
    for row in brokers.select(["id", "bytesInRate"]).to_pylist():
        if row["bytesInRate"] is not None:
            measured.setdefault(row["id"], []).append(row["bytesInRate"])
    found = []
    for at, row in enumerate(now.select(["id", "rack", "alive"]).to_pylist()):
        own = measured.get(row["id"])
        if own:
            value, source = _known(percentile(np.array([own]), np.ones(len(own)), HOT)[0]), "measured"
        else:
            value, source = _known(come[at]), "derived"
        found.append(
            BrokerLoad(row["id"], row["rack"], row["alive"], value, source if value is not None else None,
                       _known(leave[at]))
        )  # fmt: skip
    return tuple(found)


def _shared(share: Floats, rate: Floats) -> Floats:
    """float64[B, I]; not known where the rate of a topic that the broker leads is not, or who leads."""
    found: Floats = share @ np.nan_to_num(rate)
    found[((share > 0).astype(np.float64) @ np.isnan(rate).astype(np.float64)) > 0] = np.nan
    return found


def _counted(brokers: pa.Table, kept: Whole) -> pa.Table:
    """The brokers of Snapshots that count, each once; times as microseconds."""
    named = {name: brokers[name] for name in brokers.column_names} | {"time": brokers["time"].cast(pa.int64())}
    ids = set(kept.ids)
    mask = [name in ids for name in brokers["snapshot"].to_pylist()]
    return _distinct(pa.table(named).filter(pa.array(mask, pa.bool_())), ("snapshot", "id"))


def _of(table: pa.Table, snapshot: str) -> pa.Table:
    return table.filter(compute.equal(table["snapshot"].cast(pa.string()), snapshot))


def _distinct(table: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Each row once: a file may have been copied."""
    numbered = table.select(list(key)).append_column("at", pa.array(np.arange(table.num_rows)))
    first = numbered.group_by(list(key)).aggregate([("at", "min")])["at_min"]
    if len(first) == table.num_rows:
        return table.combine_chunks()
    return table.take(first.combine_chunks().sort()).combine_chunks()


def _p95(rate: Floats, traffic: Traffic) -> Floats:
    return percentile(rate, traffic.seconds, HOT)


def _sum(values: Floats) -> Floats:
    return np.asarray(values.sum(axis=0, keepdims=True))


def _known(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _row(found: Account, snapshots: pa.Table, cluster_id: str) -> dict[str, Any]:
    kept, owed = found.kept, found.debts
    names = dict(zip(snapshots["snapshot"].to_pylist(), snapshots["cluster"].to_pylist(), strict=True))
    topic = max(found.topics, key=lambda t: t.bytes_in or 0.0, default=None)
    topic = topic if topic is not None and topic.bytes_in is not None else None
    broker = max(found.brokers, key=lambda b: b.bytes_in or 0.0, default=None)
    broker = broker if broker is not None and broker.bytes_in is not None else None
    filling = [disk for disk in found.disks if disk.state == FULL]
    times = kept.time.tolist() or snapshots["time"].cast(pa.int64()).to_pylist()
    return {
        "clusterId": cluster_id,
        "cluster": names[kept.ids[-1]] if kept.ids else next(iter(names.values())),
        "firstSnapshot": moment(min(times)),
        "lastSnapshot": moment(max(times)),
        "snapshots": len(kept.ids),
        "brokers": len(found.brokers) or None,
        "topics": len(found.topics) or None,
        "partitions": found.partitions if kept.ids else None,
        "bytes": found.bytes,
        "growthPerDay": None if found.growth is None else round(found.growth),
        "bytesInP95": found.bytes_in,
        "bytesOutP95": found.bytes_out,
        "firstDiskFull": filling[0].full if filling else None,
        "disksFilling": len(filling),
        "disksUnknown": sum(disk.state == UNKNOWN for disk in found.disks),
        "hottestTopic": topic and topic.topic,
        "hottestTopicInP95": topic and topic.bytes_in,
        "hottestBroker": broker and broker.broker,
        "hottestBrokerInP95": broker and broker.bytes_in,
        "hottestBrokerSource": broker and broker.source,
        "groupsFallingBehind": None if found.behind is None else len({behind.group for behind in found.behind}),
        "partitionsBelowFactor": owed and owed.partitions,
        "replicasMissing": owed and owed.replicas,
        "bytesToCopy": owed and owed.bytes,
        "partitionsSharingRacks": owed and owed.racks,
        "notes": list(found.notes),
        "details": json.dumps(_details(found)),
    }


def _details(found: Account) -> dict[str, Any]:
    """What the page shows: of topics and disks those that matter most, each group that falls behind."""

    def most(key: str) -> list[TopicLoad]:
        known = [topic for topic in found.topics if (getattr(topic, key) or 0) > 0]
        return sorted(known, key=lambda topic: -getattr(topic, key))[:LISTED]

    topics = {"growing": most("growth"), "in": most("bytes_in"), "out": most("bytes_out")}
    hot = sorted(found.brokers, key=lambda b: (-(b.bytes_in or 0.0), b.broker))
    return {
        "topics": {key: [asdict(topic) for topic in listed] for key, listed in topics.items()},
        "brokers": [asdict(broker) for broker in hot],
        "disks": [asdict(disk) for disk in found.disks],
        "groups": [asdict(behind) | {"per_day": behind.per_day} for behind in (found.behind or ())[: 5 * LISTED]],
        "debts": None if found.debts is None else asdict(found.debts),
    }
