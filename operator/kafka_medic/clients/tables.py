"""The Arrow tables that cross the port to Kafka, and how a few single rows become one."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


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


def table_of(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    """From single rows, for callers with a handful of them."""
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * len(schema)
    return pa.table(columns, schema=schema)
