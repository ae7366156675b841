"""The Arrow tables that cross the port to Kafka, and how a few single rows become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.cluster.snapshot import TopicPartition


def schema_of(*columns: tuple[str, pa.DataType, bool]) -> pa.Schema:
    """Of columns with their name, their type and whether they may be null."""
    return pa.schema([pa.field(name, kind, nullable=nullable) for name, kind, nullable in columns])


SIZES_SCHEMA = schema_of(("topic", pa.string(), False), ("partition", pa.int32(), False), ("bytes", pa.int64(), False))
"""One row a replica of a log directory: its size in bytes."""

LED_SCHEMA = schema_of(
    ("topic", pa.string(), False),
    ("partition", pa.int32(), False),
    ("leader", pa.int32(), False),
    ("epoch", pa.int32(), True),
    ("start", pa.bool_(), False),
)
"""One row a partition: its leader, the epoch under which that broker has to lead (null: any), and whether to read where
the log starts as well."""

BOUNDS_SCHEMA = schema_of(
    ("topic", pa.string(), False),
    ("partition", pa.int32(), False),
    ("start", pa.int64(), True),
    ("end", pa.int64(), True),
    ("error", pa.string(), True),
)
"""One row a partition: the offsets at which its log starts and ends, or why the leader reports neither. A start
that was not to be read is null."""


def led_table(leaders: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int] | None = None) -> pa.Table:
    """LED_SCHEMA, from single partitions, to read starts and ends."""
    of = epochs or {}
    return table_of([(tp.topic, tp.partition, leader, of.get(tp), True) for tp, leader in leaders.items()], LED_SCHEMA)


def table_of(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    """From single rows, for callers with a handful of them."""
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * len(schema)
    return pa.table(columns, schema=schema)


def bounds_of(table: pa.Table) -> dict[TopicPartition, tuple[int | None, int] | ReadFailed]:
    """Single partitions of a table with BOUNDS_SCHEMA, for callers with a handful of them."""
    found: dict[TopicPartition, tuple[int | None, int] | ReadFailed] = {}
    for topic, number, start, end, error in zip(*(column.to_pylist() for column in table.columns), strict=True):
        bounds = (start, end) if error is None else ReadFailed(FailureKind.OTHER, error)
        found[TopicPartition(topic, number)] = bounds
    return found
