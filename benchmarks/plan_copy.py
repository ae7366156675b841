"""What it costs to read partitions and to write as much as a plan has, with nothing planned or checked.

    python -m benchmarks.plan_copy PARTITIONS OUTPUT FACTOR {local,spark} [SPARK_CONF]...

Every partition is given FACTOR replicas, the same broker several times, and its own list twice more.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_medic.plan.arrow import leave_pandas_out, list_column
from kafka_medic.plan.files.artifact import ROWS, write_reassignment
from kafka_medic.plan.files.inputs import read_partitions
from kafka_medic.plan.model import PLAN_SCHEMA

READ = ("topic", "partition", "replicas", "leader", "isr", "sizeBytes")


def padded(partitions: Any, factor: int) -> pa.Table:
    """Rows that look like a plan's."""
    count = partitions.num_rows
    lists = list_column(np.full(count, factor), np.repeat(np.arange(count, dtype=np.int32) % 1000, factor))
    columns = [partitions.column(name) for name in READ[:3]] + [lists, lists, pa.array(np.zeros(count, dtype=np.int32))]
    return pa.table([column.cast(field.type) for column, field in zip(columns, PLAN_SCHEMA, strict=True)], PLAN_SCHEMA)


def here(partitions: Path, output: Path, factor: int) -> None:
    leave_pandas_out()
    table = padded(read_partitions(partitions), factor)
    output.mkdir()
    pq.write_table(table, output / "plan.parquet", compression="zstd", row_group_size=ROWS)
    write_reassignment(output / "reassignment.json", [table])


def on_spark(partitions: Path, output: Path, factor: int, settings: dict[str, str]) -> None:
    from kafka_medic.plan.spark.frames import PLAN_COLUMNS  # noqa: PLC0415
    from kafka_medic.plan.spark.session import session  # noqa: PLC0415

    def work(batches: Any) -> Any:
        for batch in batches:
            yield from padded(batch, factor).to_batches()

    with session("local[2]", None, settings) as spark:
        rows = spark.read.parquet(partitions.absolute().as_uri()).select(*READ)
        rows.mapInArrow(work, PLAN_COLUMNS).write.option("compression", "zstd").parquet(output.absolute().as_uri())


def main() -> None:
    partitions, output, factor, engine, *settings = sys.argv[1:]
    if engine == "local":
        here(Path(partitions), Path(output), int(factor))
    else:
        on_spark(Path(partitions), Path(output), int(factor), dict(pair.split("=", 1) for pair in settings))


if __name__ == "__main__":
    main()
