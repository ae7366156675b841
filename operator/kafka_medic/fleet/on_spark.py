"""The fleet on Spark: rows are read and condensed where they lie, meet once by cluster, and are worked on there.

Each task packs what a kernel needs of the rows that it read as Arrow's stream format, one value for a cluster and
batch. So one shuffle moves thousands of values and not millions of rows, and the driver gets one row a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafka_medic.fleet.history import folders
from kafka_medic.fleet.request import Job, Part, Request, joined
from kafka_medic.fleet.tables import SCHEMAS, SNAPSHOTS
from kafka_medic.fleet.whole import CHOSEN, Chosen, choose
from kafka_medic.plan.arrow import names
from kafka_medic.plan.spark.place import address, to_read
from kafka_medic.plan.spark.session import BATCH_BYTES

__all__ = ["SparkEngine", "address", "ddl", "quoted"]

PACKED = "clusterId string, kind string, payload binary"
BATCH_ROWS = 65_536
"""Rows that a task gets from Spark at a time."""
MOST_BYTES = 1 << 26
"""Bytes that it gets at a time, a row more or less."""
NAMES = ("topic", "topicId", "snapshot", "group")
"""Columns of few values, which are packed as dictionaries."""
TYPES = {
    pa.string(): "string", pa.int32(): "int", pa.int64(): "bigint", pa.float64(): "double", pa.bool_(): "boolean",
}  # fmt: skip


@dataclass(frozen=True)
class SparkEngine:
    """Its methods are those of Engine. What PySpark raises passes through. The history has to be at the same path for
    the driver and every executor."""

    request: Request
    spark: Any

    def clusters(self) -> list[Chosen]:
        now = self.request.now
        rows = self.read("snapshots", self.request.window.days(), SNAPSHOTS.names)
        if rows is None:
            return []

        def kernel(snapshots: pa.Table) -> pa.Table:
            return choose(snapshots, now)

        named = rows.where("clusterId is not null")
        found = named.groupBy("clusterId").applyInArrow(kernel, ddl(CHOSEN)).toArrow()
        return [Chosen.of(row) for row in found.to_pylist()]

    def run(self, parts: Sequence[Part], clusters: Sequence[Chosen], job: Job, target: Path) -> None:
        ids = sorted(cluster.cluster_id for cluster in clusters)
        self.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH_ROWS))
        # A row holds many: all those of a cluster need not be in the JVM at once.
        self.spark.conf.set(BATCH_BYTES, str(MOST_BYTES))
        # Each task writes as many folders as the output has, side by side and not one after another in sorted order.
        self.spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", "8")
        packed = [frame for part in parts if (frame := self._packed(part, ids)) is not None]

        def kernel(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
            pieces: dict[str, list[pa.Table]] = {}
            payloads: Any = rows["payload"]
            for kind, payload in zip(names(rows["kind"]), payloads, strict=True):
                pieces.setdefault(kind, []).append(pa.ipc.open_stream(payload.as_buffer()).read_all())
            return job.kernel(key[0].as_py(), joined(parts, pieces))

        union = reduce(lambda one, other: one.unionAll(other), packed)
        writer = union.groupBy("clusterId").applyInArrow(kernel, ddl(job.schema)).write.mode("error")
        (writer.partitionBy(job.by) if job.by else writer).option("compression", "zstd").parquet(address(target))

    def read(self, table: str, days: Sequence[str], columns: Sequence[str]) -> Any:
        """The rows of a table on these days as a DataFrame; None where there are none. Other days are not opened, nor
        even listed, and other columns are not read."""
        there = folders(self.request.history, table, days)
        if not there:
            return None
        reader = self.spark.read.schema(ddl(SCHEMAS[table]))
        return reader.parquet(*(to_read(folder) for folder in there)).select(*columns)

    def _packed(self, part: Part, ids: Sequence[str]) -> Any:
        rows = self.read(part.table, part.days, part.columns)
        if rows is None:
            return None
        if self.request.names:
            rows = rows.where("clusterId in ({})".format(", ".join(map(quoted, ids))))
        return rows.mapInArrow(packing(part, frozenset(ids)), PACKED)


def packing(part: Part, ids: frozenset[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does with the rows of a table: one row of PACKED for each cluster of `ids` in a batch."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for cluster_id, rows in part.of_clusters(pa.Table.from_batches([batch])):
                if cluster_id in ids and rows.num_rows:
                    row: Any = {"clusterId": [cluster_id], "kind": [part.kind], "payload": [_stream(rows)]}
                    yield pa.RecordBatch.from_pydict(row)

    return pack


def ddl(schema: pa.Schema) -> str:
    """An Arrow schema as Spark writes it."""
    return ", ".join(f"`{field.name}` {_type(field.type)}" for field in schema)


def _type(kind: Any) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_list(kind):
        return f"array<{_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return f"struct<{', '.join(f'`{field.name}`: {_type(field.type)}' for field in fields)}>"
    return TYPES[kind]


def _stream(rows: pa.Table) -> bytes:
    rows = rows.combine_chunks()
    for name in NAMES:
        if name in rows.column_names:
            rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].dictionary_encode())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue().to_pybytes())


def quoted(text: str) -> str:
    """A text as SQL has it."""
    return "'{}'".format(text.replace("\\", "\\\\").replace("'", "\\'"))
