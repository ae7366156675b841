"""What a plan is written as: files in a directory, all of them or none."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.csv import CSVWriter

from kafka_medic.plan.arrow import Column, compute, names
from kafka_medic.plan.files.png import render_png
from kafka_medic.plan.files.report import render_report
from kafka_medic.plan.files.report_data import ReportData
from kafka_medic.plan.files.saved_report import report_document
from kafka_medic.plan.lists import flatten
from kafka_medic.plan.model import LEFT_OUT_SCHEMA, PLAN_SCHEMA, PREFERRED_ORDER, Plan

__all__ = [
    "FIGURES", "LEFT_OUT", "PLAN", "REASSIGNMENT", "SUMMARY", "NotPlacedError", "digest_of", "plan_batches",
    "plan_directory", "refuse_directory", "reordered", "write_left_out",
    "write_reassignment", "write_rows", "write_summary",
]  # fmt: skip

PLAN, REASSIGNMENT, SUMMARY, REPORT = "plan.parquet", "reassignment.json", "summary.json", "report.html"
FIGURES = "report.json"
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
            write_left_out(work, [plan.left_out])
    parquet.result()


class NotPlacedError(OSError):
    """A plan that is whole, but not where it is wanted. `kept`: the directory that has it."""

    def __init__(self, kept: Path, problem: OSError) -> None:
        super().__init__(problem.errno, problem.strerror or str(problem))
        self.kept = kept


def refuse_directory(directory: Path, *, overwrite: bool) -> str | None:
    """Why a plan cannot be written there, or None: found out by writing there, before anything is computed."""
    try:
        if directory.is_dir() and not overwrite and any(directory.iterdir()):
            return "exists and is not empty"
        if directory.exists() and not directory.is_dir():
            return "is no folder"
        if (file := next((p for p in directory.parents if p.exists() and not p.is_dir()), None)) is not None:
            return f"cannot be written: {file} is no folder"
        directory.parent.mkdir(parents=True, exist_ok=True)
        for place in filter(Path.is_dir, (directory.parent, directory)):
            tempfile.TemporaryDirectory(prefix=f".{directory.name}.", dir=place).cleanup()
    except OSError as problem:
        return f"cannot be written: {problem.strerror or problem}"
    return None


def write_left_out(work: Path, tables: Iterable[pa.Table]) -> None:
    """left-out.csv, a piece at a time."""
    with CSVWriter(work / LEFT_OUT, LEFT_OUT_SCHEMA) as out:
        for table in tables:
            out.write_table(table)


@contextmanager
def plan_directory(directory: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A new directory beside the one wanted, which takes its place when all went well and is removed if not: all of its
    files or none. `overwrite`: a directory that holds something keeps its other files. Raises OSError, and
    NotPlacedError for a plan that is whole."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    kept = False
    try:
        work.chmod(0o755)
        yield work
        try:
            work.rename(directory)
        except OSError as problem:
            kept = not overwrite
            if kept:
                raise NotPlacedError(work, problem) from None
            _replace_files(work, directory)
    finally:
        if not kept:
            shutil.rmtree(work, ignore_errors=True)


def write_summary(work: Path, data: ReportData, *, png: bool = False) -> None:
    """summary.json, report.html, its figures in report.json and, where wanted, report.png. Raises PngError."""
    data = replace(data, about=replace(data.about, digest=digest_of(work)))
    (work / SUMMARY).write_text(json.dumps(data.summary.to_json(), indent=2) + "\n", "utf-8")
    (work / FIGURES).write_text(json.dumps(report_document(data)) + "\n", "utf-8")
    (work / REPORT).write_text(render_report(data), "utf-8")
    if png:
        (work / PICTURE).write_bytes(render_png(data))


def digest_of(directory: Path) -> str:
    """SHA-256 of reassignment.json, which `sha256sum` prints as well; empty where there is none."""
    path = directory / REASSIGNMENT
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def plan_batches(path: Path) -> Iterator[pa.Table]:
    """The rows of a written plan a piece at a time, in the order of the files."""
    # Imported here and not before it is known whether pandas is to be left out, which it would load.
    from pyarrow import dataset  # noqa: PLC0415

    for batch in dataset.dataset(path, schema=PLAN_SCHEMA, format="parquet").to_batches(batch_size=BLOCK):
        yield pa.Table.from_batches([batch])


def _replace_files(work: Path, directory: Path) -> None:
    """The directory exists and is not empty: replace file by file, the summary last, as it vouches for the rest."""
    directory.mkdir(exist_ok=True)
    for name in (PLAN, REASSIGNMENT, PREFERRED_ORDER, LEFT_OUT, REPORT, FIGURES, PICTURE, SUMMARY):
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
