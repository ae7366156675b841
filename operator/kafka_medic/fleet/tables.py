"""The tables of a history, and what one Snapshot adds to them.

A cluster is its id. Its name is only what people call it. What a source did not report stays null. Every row carries
its cluster, its Snapshot and the Snapshot's time, so that each table can be read alone, by any tool that reads Parquet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute

from kafka_medic.cluster.partition_rows import NOWHERE, Rows
from kafka_medic.cluster.snapshot import Broker, Snapshot

__all__ = ["BROKERS", "OFFSETS", "PARTITIONS", "SCHEMAS", "SNAPSHOTS", "day_of", "rows_of", "snapshot_id"]

compute: Any = pyarrow.compute
TIME = pa.timestamp("us", tz="UTC")


def _field(name: str, kind: pa.DataType, nullable: bool = True) -> pa.Field[pa.DataType]:
    return pa.field(name, kind, nullable=nullable)


_WHERE: list[Any] = [
    _field("cluster", pa.string(), nullable=False),
    _field("clusterId", pa.string()),
    _field("snapshot", pa.string(), nullable=False),
    _field("time", TIME, nullable=False),
]
_DIRECTORY: list[Any] = [
    _field("path", pa.string()),
    _field("error", pa.string()),
    _field("totalBytes", pa.int64()),
    _field("usableBytes", pa.int64()),
]

SNAPSHOTS: pa.Schema = pa.schema(
    [
        *_WHERE,
        _field("writer", pa.string(), nullable=False),
        _field("mode", pa.string()),
        _field("version", pa.string()),
        _field("controllerEpoch", pa.int32()),
        _field("brokers", pa.int64()),
        _field("partitions", pa.int64()),
        _field("offsets", pa.int64()),
        _field("unknownSources", pa.list_(pa.string())),
    ]
)
"""One row a Snapshot, written last: a Snapshot without it is not there. `time` is `takenAt`, by the writer's clock.
`writer` names that clock. `brokers`, `partitions`, `offsets`: rows in the other tables, null where not known."""

BROKERS: pa.Schema = pa.schema(
    [
        *_WHERE,
        _field("id", pa.int32(), nullable=False),
        _field("rack", pa.string()),
        _field("alive", pa.bool_(), nullable=False),
        _field("bytesInRate", pa.float64()),
        _field("diskFree", pa.int64()),
        _field("version", pa.string()),
        _field("directories", pa.list_(pa.struct(_DIRECTORY))),
    ]
)
"""One row a broker. `alive`: known to be registered and to answer. `bytesInRate`: bytes per second from clients, by the
broker's exporter. `directories`: log directories and their volumes (KIP-827)."""

PARTITIONS: pa.Schema = pa.schema(
    [
        *_WHERE,
        _field("topic", pa.string(), nullable=False),
        _field("topicId", pa.string()),
        _field("partition", pa.int32(), nullable=False),
        _field("leader", pa.int32()),
        _field("replicas", pa.list_(pa.int32())),
        _field("isr", pa.list_(pa.int32())),
        _field("moving", pa.bool_()),
        _field("logStart", pa.int64()),
        _field("logEnd", pa.int64()),
        _field("sizeBytes", pa.int64()),
    ]
)
"""One row a partition, as in a Snapshot. `moving`: a reassignment is in flight."""

OFFSETS: pa.Schema = pa.schema(
    [
        *_WHERE,
        _field("group", pa.string(), nullable=False),
        _field("state", pa.string()),
        _field("topic", pa.string(), nullable=False),
        _field("topicId", pa.string()),
        _field("partition", pa.int32(), nullable=False),
        _field("committed", pa.int64()),
        _field("logEnd", pa.int64()),
    ]
)
"""One row a committed offset, beside the partition's log end in the same Snapshot."""

SCHEMAS: Mapping[str, pa.Schema] = {
    "partitions": PARTITIONS,
    "brokers": BROKERS,
    "offsets": OFFSETS,
    "snapshots": SNAPSHOTS,
}
"""In the order in which a Snapshot is written."""


def rows_of(snapshot: Snapshot, writer: str) -> dict[str, pa.Table]:
    """The rows of each table; a table whose source is Unknown has none, and `snapshots` counts null for it.

    writer: whose clock `taken_at` is. The same Snapshot of the same writer gives the same rows.
    """
    where = {
        "cluster": snapshot.cluster.name,
        "clusterId": snapshot.cluster.id,
        "snapshot": snapshot_id(snapshot, writer),
        "time": snapshot.taken_at.astimezone(UTC),
    }
    brokers, controller = snapshot.brokers, snapshot.controller
    tables = {
        "partitions": _partitions(snapshot),
        "brokers": None if brokers is None else pa.Table.from_pylist([_broker(b) for b in brokers], _rest(BROKERS)),
        "offsets": _offsets(snapshot),
    }
    counts = {name: None if table is None else table.num_rows for name, table in tables.items()}
    one = {
        "writer": writer,
        "mode": snapshot.cluster.mode.value if snapshot.cluster.mode else None,
        "version": snapshot.cluster.version,
        "controllerEpoch": controller.epoch if controller else None,
        "unknownSources": [f"{s.name}: {s.error or 'no reason given'}" for s in snapshot.sources if not s.known],
    }
    tables["snapshots"] = pa.Table.from_pylist([one | counts], _rest(SNAPSHOTS))
    return {name: _placed(tables[name], SCHEMAS[name], where) for name in SCHEMAS}


def snapshot_id(snapshot: Snapshot, writer: str) -> str:
    """16 hex digits. They tell what is written twice from what was observed twice."""
    parts = (snapshot.cluster.id or "", snapshot.cluster.name, snapshot.taken_at.astimezone(UTC).isoformat(), writer)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def day_of(time: datetime) -> str:
    """The day in UTC, as in the folder's name: 2026-01-31."""
    return time.astimezone(UTC).date().isoformat()


def _rest(schema: pa.Schema) -> pa.Schema:
    return pa.schema([schema.field(n) for n in range(len(_WHERE), len(schema.names))])


def _placed(table: pa.Table | None, schema: pa.Schema, where: Mapping[str, Any]) -> pa.Table:
    rest = table if table is not None else _rest(schema).empty_table()
    columns: list[Any] = [pa.repeat(pa.scalar(where[f.name], f.type), rest.num_rows) for f in _WHERE]
    return pa.Table.from_arrays([*columns, *rest.columns], schema=schema)


def _partitions(snapshot: Snapshot) -> pa.Table | None:
    table = snapshot.partitions
    if table is None:
        return None
    lengths = [compute.list_value_length(table[name]) for name in ("adding", "removing")]
    moving = compute.greater(compute.add(*lengths), 0)
    named = {name: table[name] for name in table.column_names} | {"moving": moving}
    schema = _rest(PARTITIONS)
    return pa.Table.from_arrays([named[name] for name in schema.names], schema=schema).sort_by(
        [("topic", "ascending"), ("partition", "ascending")]
    )


def _broker(broker: Broker) -> dict[str, Any]:
    directories = broker.directories
    return {
        "id": broker.id,
        "rack": broker.rack,
        "alive": broker.live,
        "bytesInRate": broker.bytes_in_rate,
        "diskFree": broker.disk_free,
        "version": broker.version,
        "directories": None
        if directories is None
        else [{"path": d.path, "error": d.error, "totalBytes": d.total, "usableBytes": d.usable} for d in directories],
    }


def _offsets(snapshot: Snapshot) -> pa.Table | None:
    groups, partitions = snapshot.groups, snapshot.partitions
    if groups is None:
        return None
    nothing = pa.nulls(groups.num_rows)
    ends: Any = nothing.cast(pa.int64())
    ids: Any = nothing.cast(pa.string())
    if partitions is not None:
        at = Rows.of(partitions).find(groups)
        index = pa.array(at, pa.int64(), mask=at == NOWHERE)
        ends, ids = partitions["logEnd"].take(index), partitions["topicId"].take(index)
    named: dict[str, Any] = {name: groups[name] for name in groups.column_names} | {"logEnd": ends, "topicId": ids}
    schema = _rest(OFFSETS)
    return pa.Table.from_arrays([named[name] for name in schema.names], schema=schema)
