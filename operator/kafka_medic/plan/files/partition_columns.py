"""The changed partitions of a plan as a page's list, column by column: rows as objects would take seconds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from kafka_medic.cluster.names import printable
from kafka_medic.plan.arrow import Column, Int64s, compute, integers, names
from kafka_medic.plan.lists import Array, Lists, flatten
from kafka_medic.report.model import PartitionList, PartitionRow
from kafka_medic.report.partition_list import FIRST, MOST_ROWS, Columns, of_columns

__all__ = ["listed_of", "listed_of_batches"]

REST = "The plan's other files have all of them."


def listed_of(table: pa.Table, total: int | None = None) -> PartitionList:
    """Of PLAN_SCHEMA. total: rows of the whole plan, where `table` has its first ones."""
    first = [
        PartitionRow(
            row["topic"], f"{row['partition']:,}", _shown(row["replicasBefore"]), _shown(row["replicas"]),
            str(row["preferredOrder"][0]), f"{row['wave']:,}",
        )
        for row in table.slice(0, FIRST).to_pylist()
    ]  # fmt: skip
    whole = table.num_rows if total is None else total
    return of_columns(lambda size: _columns(table.slice(0, min(size, table.num_rows))), whole, first, REST)


def listed_of_batches(batches: Iterator[pa.Table], total: int) -> PartitionList:
    """Of a plan that is not in memory: no more of it is read than the list holds."""
    kept, rows = list[pa.Table](), 0
    for batch in batches:
        kept.append(batch)
        rows += batch.num_rows
        if rows >= MOST_ROWS:
            break
    table = pa.concat_tables(kept).slice(0, MOST_ROWS) if kept else None
    return PartitionList(total, 0, (), "", rest=REST) if table is None else listed_of(table, total)


def _columns(table: pa.Table) -> Columns:
    topic = table.column("topic").combine_chunks()
    if isinstance(topic, pa.ChunkedArray):
        topic = pa.concat_arrays(topic.chunks) if topic.num_chunks else pa.array([], pa.string())
    runs = compute.run_end_encode(topic)
    ends = np.asarray(runs.run_ends, dtype=np.int64)
    before, after = (flatten(table.column(name)) for name in ("replicasBefore", "replicas"))
    order = flatten(table.column("preferredOrder"))
    return {
        "topics": [printable(name) for name in names(runs.values)],
        "counts": np.diff(ends, prepend=0).tolist(),
        "partition": _joined(integers(table.column("partition"))),
        "before": _lists(before.values, before.length),
        "after": _after(before, after),
        "leads": _joined(_place_of(after, order.values[order.start])),
        "wave": _joined(integers(table.column("wave"))),
    }


def _after(before: Lists, after: Lists) -> str:
    """Where the old replicas come first, a plus and the others."""
    extends = (before.length > 0) & (after.length >= before.length)
    held = before.each(extends)
    start = before.each(after.start)
    place = np.where(held, start + before.position, 0)
    differs = held & (after.values[place] != before.values)
    extends &= np.bincount(before.row[differs], minlength=len(before.length)) == 0
    skip = np.where(extends, before.length, 0)
    rest = after.position >= after.each(skip)
    texts = _texts(after.values[rest], after.length - skip)
    marks = pa.array(np.where(extends, "+", ""))
    return _spaced(compute.binary_join_element_wise(marks, texts, ""))


def _place_of(lists: Lists, broker: Array) -> Int64s:
    """int64[N]: the place of one broker in each list that holds it."""
    found = np.zeros(len(lists.length), dtype=np.int64)
    hit = lists.values == lists.each(broker)
    found[lists.row[hit]] = lists.position[hit]
    return found


def _lists(values: Array, length: Array) -> str:
    return _spaced(_texts(values, length))


def _texts(values: Array, length: Array) -> Column:
    offsets = pa.array(np.concatenate(([0], np.cumsum(length))), pa.int32())
    digits = pa.ListArray.from_arrays(offsets, pa.array(values).cast(pa.string()))
    return compute.binary_join(digits, ",")


def _joined(numbers: Int64s) -> str:
    return _spaced(pa.array(numbers).cast(pa.string()))


def _spaced(texts: Column) -> str:
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    text: str = compute.binary_join(whole, " ")[0].as_py()
    return text


def _shown(brokers: list[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"
