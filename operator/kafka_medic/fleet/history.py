"""A history on disk: folders of Parquet, one folder a table and day, one file a Snapshot.

    DIR/partitions/day=2026-01-31/payments-120000-5b0c...parquet

A day's folder is what a reader that wants thirty days of ten years opens. A file appears under its name whole. The row
in `snapshots` comes last, so a writer that dies leaves rows that no reader counts. A Snapshot that is appended again
takes the place of itself.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.fleet.tables import SCHEMAS, day_of, rows_of, snapshot_id

__all__ = ["HistoryError", "Window", "append", "file_of", "folders", "last_day", "scan"]

NAME = re.compile(r"[^A-Za-z0-9_-]+")
LONGEST_NAME = 64
PARTITION = "day="
DAY = re.compile(r"day=[0-9]{4}-[0-9]{2}-[0-9]{2}")


class HistoryError(Exception):
    """A history that cannot be used: the folder, and why."""


@dataclass(frozen=True)
class Window:
    """Days of a history, the first and the last one included, in UTC."""

    first: date
    last: date

    @classmethod
    def until(cls, last: date, days: int) -> Window:
        """`days` days, of which `last` is the last one."""
        return cls(last - timedelta(days=days - 1), last)

    def days(self) -> list[str]:
        """2026-01-30, 2026-01-31."""
        count = (self.last - self.first).days + 1
        return [(self.first + timedelta(days=n)).isoformat() for n in range(count)]

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"


def append(directory: Path, snapshot: Snapshot, writer: str) -> Path:
    """Append a Snapshot; the file that vouches for it. writer: as in `rows_of`. Raises OSError."""
    tables = rows_of(snapshot, writer)
    identity, path = snapshot_id(snapshot, writer), directory
    for name, table in tables.items():
        path = file_of(directory, name, snapshot.cluster.name, identity, snapshot.taken_at)
        if table.num_rows:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(table, path)
    return path


def file_of(directory: Path, table: str, cluster: str, snapshot: str, time: datetime) -> Path:
    """Where the rows of a Snapshot are. The name is for people: readers take what is in the file."""
    plain = NAME.sub("_", cluster)[:LONGEST_NAME] or "_"
    folder = directory / table / f"{PARTITION}{day_of(time)}"
    return folder / f"c-{plain}-{time:%H%M%S}-{snapshot}.parquet"


def scan(directory: Path, table: str, days: Iterable[str], columns: Iterable[str]) -> Iterator[pa.Table]:
    """The rows of a table on these days, file by file; a column that a file lacks is null. Raises HistoryError."""
    schema = SCHEMAS[table]
    narrow = pa.schema([schema.field(name).with_nullable(True) for name in columns])
    for folder in folders(directory, table, days):
        for file in _files(folder):
            yield _read_file(file, narrow)


def folders(directory: Path, table: str, days: Iterable[str]) -> list[Path]:
    """The folders of these days that are there."""
    wanted = [directory / table / f"{PARTITION}{day}" for day in days]
    return [folder for folder in wanted if folder.is_dir()]


def last_day(directory: Path) -> str | None:
    """The last day of which there is a Snapshot; None for a folder that holds no history."""
    try:
        found = [f.name.removeprefix(PARTITION) for f in (directory / "snapshots").iterdir() if DAY.fullmatch(f.name)]
    except OSError:
        return None
    return max(found, default=None)


def _files(folder: Path) -> list[Path]:
    """What Spark would read too: no name that begins with a dot or an underscore."""
    return sorted(f for f in folder.iterdir() if f.suffix == ".parquet" and not f.name.startswith((".", "_")))


def _read_file(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        file = pq.ParquetFile(path)
        present: Any = [name for name in schema.names if name in file.schema_arrow.names]
        table = file.read(columns=present)
        columns = [
            table[f.name].cast(f.type) if f.name in present else pa.nulls(table.num_rows, f.type) for f in schema
        ]
        return pa.Table.from_arrays(columns, schema=schema)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise HistoryError(f"{path}: not readable as Parquet: {reason}; move the file out of the history") from None


def _write_whole(table: pa.Table, path: Path) -> None:
    """Under another name first, which readers pass over, and on the disk before it gets its own."""
    handle, name = tempfile.mkstemp(prefix=f".{path.stem[:LONGEST_NAME]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            pq.write_table(table, out, compression="zstd")
            out.flush()
            os.fsync(out.fileno())
        Path(name).chmod(0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
