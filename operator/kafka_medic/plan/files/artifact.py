"""What a plan is written as: four files in a directory, or five with a picture, all of them or none."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.csv import write_csv

from kafka_medic.plan.arrow import Column, compute, names
from kafka_medic.plan.files.png import render_png
from kafka_medic.plan.files.report import render_report
from kafka_medic.plan.files.report_data import ReportData
from kafka_medic.plan.lists import flatten
from kafka_medic.plan.model import PLAN_SCHEMA, PREFERRED_ORDER, Plan

__all__ = [
    "PLAN", "REASSIGNMENT", "plan_batches", "plan_directory", "reordered", "write_reassignment", "write_rows",
    "write_summary",
]  # fmt: skip

PLAN, REASSIGNMENT, SUMMARY, REPORT = "plan.parquet", "reassignment.json", "summary.json", "report.html"
PICTURE, LEFT_OUT = "report.png", "left-out.csv"

ROWS = 1 << 17
"""Of one row group of plan.parquet, which is held as a whole while it is encoded."""
BLOCK = 16_384
"""Partitions per piece of reassignment.json, so that a large plan is not held as text at once."""


def write_rows(work: Path, plan: Plan) -> None:
    """plan.parquet and reassignment.json, side by side; preferred-order.json where another replica is to lead, and
    left-out.csv where partitions were left out."""
    with ThreadPoolExecutor(1, "parquet") as beside:  # Arrow leaves the interpreter to the others meanwhile
        parquet = beside.submit(pq.write_table, plan.table, work / PLAN, compression="zstd", row_group_size=ROWS)
        write_reassignment(work / REASSIGNMENT, [plan.table])
        if plan.summary.reordered:
            write_reassignment(work / PREFERRED_ORDER, [reordered(plan.table)])
        if plan.left_out.num_rows:
            write_csv(plan.left_out, work / LEFT_OUT)
    parquet.result()


@contextmanager
def plan_directory(directory: Path) -> Iterator[Path]:
    """A new directory beside the one wanted, which takes its place when all went well and is removed if not: all of its
    files or none. A directory that exists keeps its other files. Raises OSError."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        work.chmod(0o755)
        yield work
        try:
            work.rename(directory)
        except OSError:
            _replace_files(work, directory)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_summary(work: Path, data: ReportData, *, png: bool = False) -> None:
    """summary.json, report.html and, where wanted, report.png. Raises PngError."""
    (work / SUMMARY).write_text(json.dumps(data.summary.to_json(), indent=2) + "\n", "utf-8")
    (work / REPORT).write_text(render_report(data), "utf-8")
    if png:
        (work / PICTURE).write_bytes(render_png(data))


def plan_batches(path: Path) -> Iterator[pa.Table]:
    """The rows of a written plan a piece at a time, in the order of the files."""
    # Imported here and not before it is known whether pandas is to be left out, which it would load.
    from pyarrow import dataset  # noqa: PLC0415

    for batch in dataset.dataset(path, schema=PLAN_SCHEMA, format="parquet").to_batches(batch_size=BLOCK):
        yield pa.Table.from_batches([batch])


def _replace_files(work: Path, directory: Path) -> None:
    """The directory exists and is not empty: replace file by file, the summary last, as it vouches for the rest."""
    directory.mkdir(exist_ok=True)
    for name in (PLAN, REASSIGNMENT, PREFERRED_ORDER, LEFT_OUT, REPORT, PICTURE, SUMMARY):
        old, new = directory / name, work / name
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        if new.is_dir() and old.exists():
            old.unlink()
        if new.exists():
            os.replace(new, old)
        else:
            old.unlink(missing_ok=True)


def write_reassignment(path: Path, tables: Iterable[pa.Table]) -> None:
    """Kafka's format. Only names are quoted by a JSON writer; the rest is digits, joined by Arrow."""
    with path.open("wb") as out:
        out.write(b'{"version":1,"partitions":[')
        comma = b"\n"
        for table in tables:
            for begin in range(0, table.num_rows, BLOCK):
                out.write(comma)
                out.write(_lines(table.slice(begin, BLOCK)))
                comma = b",\n"
        out.write(b"\n]}\n")


def reordered(table: pa.Table) -> pa.Table:
    """Of a plan the partitions whose preferred order is another one, with that order as their replicas."""
    now, order = (flatten(table.column(name)) for name in ("replicas", "preferredOrder"))
    other = table.filter(pa.array(now.values[now.start] != order.values[order.start]))
    at = other.column_names.index("replicas")
    return other.set_column(at, PLAN_SCHEMA.field("replicas"), other.column("preferredOrder"))


def _lines(part: pa.Table) -> pa.Buffer:
    topics = _whole(part, "topic").dictionary_encode()
    quoted = pa.array([json.dumps(name) for name in names(topics.dictionary)], pa.string())
    replicas = _whole(part, "replicas")
    digits = pa.ListArray.from_arrays(_offsets(replicas), replicas.flatten().cast(pa.string()))
    lines = compute.binary_join_element_wise(
        '{"topic":', quoted.take(topics.indices), ',"partition":',
        _whole(part, "partition").cast(pa.string()), ',"replicas":[',
        compute.binary_join(digits, ","), "]}", "",
    )  # fmt: skip
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    text: pa.Buffer = compute.binary_join(whole, ",\n")[0].as_buffer()
    return text


def _whole(table: pa.Table, name: str) -> Column:
    return table.column(name).combine_chunks()


def _offsets(lists: Column) -> Column:
    """Offsets that start at 0, also for a slice."""
    return compute.subtract(lists.offsets, lists.offsets[0]) if len(lists) else lists.offsets
