"""The edge of the planner: read partitions and brokers from files, write a plan into a directory."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from kafka_medic.plan.arrow import Column, compute, names
from kafka_medic.plan.model import PLAN_SCHEMA, Plan
from kafka_medic.plan.problem import Broker, Problem
from kafka_medic.plan.report import Picture, picture, render_report

__all__ = [
    "PLAN", "REASSIGNMENT", "InputError", "is_parquet", "parquet_rows", "plan_batches", "plan_directory",
    "read_brokers", "read_partitions", "write_plan", "write_reassignment", "write_summary",
]  # fmt: skip

PLAN, REASSIGNMENT, SUMMARY, REPORT = "plan.parquet", "reassignment.json", "summary.json", "report.html"

PARTITION_TYPES: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "partition": pa.int64(),
    "replicas": pa.list_(pa.int64()),
    "leader": pa.int64(),
    "isr": pa.list_(pa.int64()),
    "sizeBytes": pa.int64(),
}
REQUIRED = ("topic", "partition", "replicas")
BLOCK = 16_384
"""Partitions per piece of reassignment.json, so that a large plan is not held as text at once."""


class InputError(Exception):
    """A file that cannot be used: which, the row from 1 (None: the file as a whole), and why."""

    def __init__(self, path: Path, row: int | None, reason: str) -> None:
        self.path, self.row, self.reason = path, row, reason
        super().__init__(f"{path}: {reason}" if row is None else f"{path}: row {row}: {reason}")


def read_partitions(path: Path) -> pa.Table:
    """Partition table from Parquet, a JSON list, JSON lines, or Kafka's reassignment JSON.

    Columns that the planner does not know are left out. Raises InputError.
    """
    if is_parquet(path):
        present = _parquet(lambda: pyarrow.dataset.dataset(path, format="parquet").schema.names, path)
        known = [name for name in PARTITION_TYPES if name in present]
        table: pa.Table = _parquet(lambda: pq.read_table(path, columns=known), path)
        return table
    rows = _json_rows(path, "partitions")
    return _tabulate(rows, path)


def read_brokers(path: Path) -> tuple[Broker, ...]:
    """Brokers with id and, where given, rack and alive (default true). Raises InputError."""
    packed = is_parquet(path)
    rows = _parquet(lambda: pq.read_table(path).to_pylist(), path) if packed else _json_rows(path, "brokers")
    brokers = []
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict) or not _is_int(row.get("id")):
            raise InputError(path, number, "a broker needs a whole number as its id")
        rack, alive = row.get("rack"), row.get("alive")
        if rack is not None and not isinstance(rack, str):
            raise InputError(path, number, f"rack {rack!r} is not a string")
        if alive is not None and not isinstance(alive, bool):
            raise InputError(path, number, f"alive {alive!r} is neither true nor false")
        brokers.append(Broker(row["id"], rack or None, alive is not False))
    return tuple(brokers)


def write_plan(directory: Path, problem: Problem, plan: Plan) -> None:
    """plan.parquet, reassignment.json, summary.json and report.html, all of them or none.

    A directory that exists keeps its other files. Raises OSError.
    """
    with plan_directory(directory) as work:
        pq.write_table(plan.table, work / PLAN, compression="zstd")
        write_reassignment(work / REASSIGNMENT, [plan.table])
        write_summary(work, picture(problem, plan))


@contextmanager
def plan_directory(directory: Path) -> Iterator[Path]:
    """A new directory beside the one wanted, which takes its place when all went well and is removed if not."""
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


def write_summary(work: Path, shown: Picture) -> None:
    """summary.json and report.html."""
    (work / SUMMARY).write_text(json.dumps(shown.summary.to_json(), indent=2) + "\n", "utf-8")
    (work / REPORT).write_text(render_report(shown), "utf-8")


def plan_batches(path: Path) -> Iterator[pa.Table]:
    """The rows of a written plan a piece at a time, in the order of the files."""
    for batch in pyarrow.dataset.dataset(path, schema=PLAN_SCHEMA, format="parquet").to_batches(batch_size=BLOCK):
        yield pa.Table.from_batches([batch])


def _replace_files(work: Path, directory: Path) -> None:
    """The directory exists and is not empty: replace file by file, the summary last, as it vouches for the rest."""
    directory.mkdir(exist_ok=True)
    for name in (PLAN, REASSIGNMENT, REPORT, SUMMARY):
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
    with path.open("w", encoding="utf-8") as out:
        out.write('{"version":1,"partitions":[')
        comma = "\n"
        for table in tables:
            for begin in range(0, table.num_rows, BLOCK):
                out.write(comma + ",\n".join(_lines(table.slice(begin, BLOCK))))
                comma = ",\n"
        out.write("\n]}\n")


def _lines(part: pa.Table) -> list[str]:
    topics = _whole(part, "topic").dictionary_encode()
    quoted = pa.array([json.dumps(name) for name in names(topics.dictionary)], pa.string())
    replicas = _whole(part, "replicas")
    digits = pa.ListArray.from_arrays(_offsets(replicas), replicas.flatten().cast(pa.string()))
    lines: list[str] = compute.binary_join_element_wise(
        '{"topic":', quoted.take(topics.indices), ',"partition":',
        _whole(part, "partition").cast(pa.string()), ',"replicas":[',
        compute.binary_join(digits, ","), "]}", "",
    ).to_pylist()  # fmt: skip
    return lines


def _whole(table: pa.Table, name: str) -> Column:
    return table.column(name).combine_chunks()


def _offsets(lists: Column) -> Column:
    """Offsets that start at 0, also for a slice."""
    return compute.subtract(lists.offsets, lists.offsets[0]) if len(lists) else lists.offsets


def parquet_rows(path: Path) -> int:
    """How many rows the Parquet file or directory says it has. Raises InputError."""
    rows: int = _parquet(lambda: pyarrow.dataset.dataset(path, format="parquet").count_rows(), path)
    return rows


def is_parquet(path: Path) -> bool:
    """Whether it is, or says it is, a Parquet file or a directory of them. Raises InputError."""
    if path.is_dir():
        return True
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1" or path.suffix == ".parquet"
    except OSError as error:
        raise InputError(path, None, error.strerror or str(error)) from None


def _parquet(read: Callable[[], Any], path: Path) -> Any:
    try:
        return read()
    except (pa.ArrowException, OSError) as error:
        raise InputError(path, None, f"not readable as Parquet: {str(error).splitlines()[0]}") from None


def _json_rows(path: Path, key: str) -> list[Any]:
    """The records of a JSON list, of an object that has such a list under `key`, or of JSON lines."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, None, f"not readable: {error}") from None
    try:
        content = json.loads(text)
    except ValueError as error:
        if text.lstrip().startswith("{") and "\n" in text.strip():
            return _json_lines(path, text)
        raise InputError(path, None, f"not valid JSON: {error}") from None
    if isinstance(content, dict):
        # One record alone is a file of one JSON line.
        content = content.get(key, [content])
    if not isinstance(content, list):
        raise InputError(path, None, "neither a JSON list nor JSON lines")
    return content


def _json_lines(path: Path, text: str) -> list[Any]:
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise InputError(path, number, f"not valid JSON: {error}") from None
    return rows


def _tabulate(rows: Sequence[Any], path: Path) -> pa.Table:
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise InputError(path, number, "not a JSON object")
        for name in REQUIRED:
            if row.get(name) is None:
                raise InputError(path, number, f"{name} is missing")
    columns = {}
    for name, kind in PARTITION_TYPES.items():
        values = [row.get(name) for row in rows]
        if name in REQUIRED or any(value is not None for value in values):
            columns[name] = _column(values, kind, name, path)
    return pa.table(columns)


def _column(values: list[Any], kind: pa.DataType, name: str, path: Path) -> Column:
    """Values of one type; JSON's true is no 1 and 1.0 no broker. The first that is not is named."""
    for number, value in enumerate(values, start=1):
        if value is not None and not _fits(value, kind):
            raise InputError(path, number, f"{name} {json.dumps(value)[:60]} is not {_WORDS[name]}")
    return pa.array(values, kind)


_WORDS = {
    "topic": "a string",
    "partition": "a whole number",
    "replicas": "a list of broker ids",
    "leader": "a broker id",
    "isr": "a list of broker ids",
    "sizeBytes": "a whole number",
}


def _fits(value: Any, kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return isinstance(value, list) and all(_is_int(item) for item in value)
    return isinstance(value, str) if pa.types.is_string(kind) else _is_int(value)


def _is_int(value: Any) -> bool:
    return type(value) is int and abs(value) < 1 << 63
