"""The planner's input from files: partitions and brokers as Parquet or JSON. Nothing in them is trusted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_medic.plan.arrow import Column
from kafka_medic.plan.broker import Broker, Disk

__all__ = ["InputError", "is_parquet", "parquet_rows", "read_brokers", "read_partitions", "read_table"]

PARTITION_TYPES: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "partition": pa.int64(),
    "replicas": pa.list_(pa.int64()),
    "leader": pa.int64(),
    "isr": pa.list_(pa.int64()),
    "sizeBytes": pa.int64(),
}
REQUIRED = ("topic", "partition", "replicas")
SNAPSHOT = "Snapshot"
"""The `kind` of what `kafka-medic snapshot -o json` writes."""


class InputError(Exception):
    """A file that cannot be used: which, the row from 1 (None: the file as a whole), and why."""

    def __init__(self, path: Path, row: int | None, reason: str) -> None:
        self.path, self.row, self.reason = path, row, reason
        super().__init__(f"{path}: {reason}" if row is None else f"{path}: row {row}: {reason}")


def read_partitions(path: Path) -> pa.Table:
    """Partition table from Parquet (a file or a directory of them), a JSON list, JSON lines, Kafka's reassignment JSON,
    or a Snapshot.

    Columns that the planner does not know are left out. Raises InputError.
    """
    if is_parquet(path):
        present = _parquet(lambda: _rows_at(path).schema.names, path)
        known = [name for name in PARTITION_TYPES if name in present]
        if twice := [name for name in known if present.count(name) > 1]:
            raise InputError(path, None, f"there are {present.count(twice[0])} columns {twice[0]!r}")
        table: pa.Table = _parquet(lambda: _rows_at(path).read(known), path)
        return table
    kind, rows = _json_rows(path, "partitions")
    if kind == SNAPSHOT:
        _refuse_moving(rows, path)
    return _tabulate(rows, path)


def read_brokers(path: Path, *, beside: bool = False) -> tuple[Broker, ...]:
    """Brokers with id and, where given, rack, alive (default true), diskFree (bytes) and weight (default 1); those of a
    Snapshot are alive when they are known to be registered and to answer. beside: the file is the partitions', so it
    has to be a Snapshot. Raises InputError."""
    kind, rows = "", []
    if is_parquet(path):
        rows = _parquet(lambda: pq.read_table(path).to_pylist(), path)
    else:
        kind, rows = _json_rows(path, "brokers")
    if beside and kind != SNAPSHOT:
        raise InputError(path, None, "has no brokers, as a Snapshot has: give them with --brokers")
    return tuple(_broker(row, kind, path, number) for number, row in enumerate(rows, start=1))


def parquet_rows(path: Path) -> int:
    """How many rows the footers of a Parquet file or directory count. Raises InputError."""
    rows: int = _parquet(lambda: _rows_at(path).count(), path)
    return rows


def read_table(path: Path) -> pa.Table:
    """All of a Parquet file or directory. Raises InputError."""
    table: pa.Table = _parquet(lambda: pq.read_table(path), path)
    return table


def is_parquet(path: Path) -> bool:
    """Whether it is, or is named as, a Parquet file or a directory of them. Raises InputError."""
    if path.is_dir():
        return True
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1" or path.suffix == ".parquet"
    except (OSError, ValueError) as error:
        raise InputError(path, None, getattr(error, "strerror", None) or str(error)) from None


class _File:
    """One Parquet file, without Arrow's datasets, whose import takes as long as a plan of many partitions."""

    def __init__(self, path: Path) -> None:
        self.file = pq.ParquetFile(path)
        self.schema = self.file.schema_arrow

    def count(self) -> int:
        rows: int = self.file.metadata.num_rows
        return rows

    def read(self, columns: list[str]) -> pa.Table:
        return self.file.read(columns=columns)


class _Folder:
    """A directory of Parquet files."""

    def __init__(self, path: Path) -> None:
        # Imported here and not before it is known whether pandas is to be left out, which it would load.
        from pyarrow import dataset  # noqa: PLC0415

        rows = dataset.dataset(path, format="parquet")
        files = [rows.schema, *(file.physical_schema for file in rows.get_fragments())]
        # By itself a dataset has the columns of its first file, and drops what others have besides.
        self.schema = pa.unify_schemas(files, promote_options="permissive")
        self.path, self.rows = path, dataset.dataset(path, format="parquet", schema=self.schema)

    def count(self) -> int:
        rows: int = self.rows.count_rows()
        return rows

    def read(self, columns: list[str]) -> pa.Table:
        return pq.read_table(self.path, columns=columns, schema=self.schema)


def _rows_at(path: Path) -> _File | _Folder:
    return _Folder(path) if path.is_dir() else _File(path)


def _parquet(read: Callable[[], Any], path: Path) -> Any:
    try:
        return read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(path, None, f"not readable as Parquet: {str(error).splitlines()[0]}") from None


def _broker(row: Any, kind: str, path: Path, number: int) -> Broker:
    """One record as a Broker; number: which it is, for the error."""
    if not isinstance(row, dict) or not _is_int(row.get("id")):
        raise InputError(path, number, "a broker needs a whole number as its id")
    rack, alive, free = row.get("rack"), row.get("alive"), row.get("diskFree")
    if kind == SNAPSHOT:
        alive = row.get("registered") is True and row.get("reachable") is True
    if rack is not None and not isinstance(rack, str):
        raise InputError(path, number, f"rack {rack!r} is not a string")
    if alive is not None and not isinstance(alive, bool):
        raise InputError(path, number, f"alive {alive!r} is neither true nor false")
    if free is not None and not _is_int(free):
        raise InputError(path, number, f"diskFree {_excerpt(free)} is not a whole number of bytes")
    weight = 1.0 if row.get("weight") is None else row["weight"]
    if not _is_number(weight):
        raise InputError(path, number, f"weight {_excerpt(weight)} is not a number")
    disks = _disks(row, kind, path, number)
    if kind == SNAPSHOT and disks:
        free = None  # the least of the directories, each of which is known
    return Broker(row["id"], rack or None, alive is not False, free, float(weight), disks=disks)


def _disks(row: Any, kind: str, path: Path, number: int) -> tuple[Disk, ...]:
    """The log directories of a broker's record; none where they are not known."""
    if kind == SNAPSHOT:
        return _directories(row.get("directories"))
    listed = row.get("disks")
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise InputError(path, number, f"disks {_excerpt(listed)} is not a list")
    disks = []
    for item in listed:
        if not isinstance(item, dict) or not isinstance(item.get("dir"), str) or not _is_int(item.get("free")):
            reason = f"disks {_excerpt(item)} is not an object with a string dir and free, a whole number of bytes"
            raise InputError(path, number, reason)
        count = item.get("partitions")
        if count is not None and not _is_int(count):
            raise InputError(path, number, f"partitions {_excerpt(count)} of {item['dir']} is not a whole number")
        disks.append(Disk(item["dir"], item["free"], count))
    return tuple(disks)


def _directories(listed: Any) -> tuple[Disk, ...]:
    """Those of a Snapshot, unless one of them is not known, or two look like one volume; then the least counts."""
    working = [d for d in listed if isinstance(d, dict) and not d.get("error")] if isinstance(listed, list) else []
    volumes = {(d.get("totalBytes"), d.get("usableBytes")) for d in working}
    known = all(_is_int(d.get("usableBytes")) and isinstance(d.get("path"), str) for d in working)
    if len(working) < 2 or not known or len(volumes) < len(working):
        return ()
    return tuple(Disk(d["path"], d["usableBytes"]) for d in working)


def _json_rows(path: Path, key: str) -> tuple[str, list[Any]]:
    """(kind of document, the records of a JSON list, of an object that has such a list under `key`, or JSON lines)."""
    content = _document(path)
    if isinstance(content, list):
        return "", content
    if not isinstance(content, dict):
        raise InputError(path, None, "neither a JSON list nor JSON lines")
    kind = SNAPSHOT if content.get("kind") == SNAPSHOT else ""
    if kind == SNAPSHOT and content.get(key) is None:
        raise InputError(path, None, f"{key} are not known in this Snapshot: {_why_unknown(content)}")
    if key not in content:
        # One record alone is a file of one JSON line.
        return "", [content]
    if not isinstance(content[key], list):
        raise InputError(path, None, f"{key} is not a list")
    if kind != SNAPSHOT and content.get("version", 1) != 1:
        raise InputError(path, None, f"version {content['version']!r} of the reassignment format is not known")
    return kind, content[key]


def _document(path: Path) -> Any:
    """The file's JSON; the records of JSON lines as a list."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, None, f"not readable: {error}") from None
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        if text.lstrip().startswith("{") and "\n" in text.strip():
            lines = enumerate(text.split("\n"), start=1)
            return [_json(line, path, number) for number, line in lines if line.strip()]
        raise InputError(path, None, f"not valid JSON: {error}") from None
    except (RecursionError, ValueError) as error:
        raise InputError(path, None, _json_fault(error)) from None


def _json(text: str, path: Path, number: int) -> Any:
    """One JSON line."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except (RecursionError, ValueError) as error:
        raise InputError(path, number, _json_fault(error)) from None


def _json_fault(error: RecursionError | ValueError) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return f"not valid JSON: {error}" if isinstance(error, json.JSONDecodeError) else str(error)


def _why_unknown(document: Mapping[str, Any]) -> str:
    sources = document.get("sources")
    failed = [s for s in sources if isinstance(s, dict) and s.get("error")] if isinstance(sources, list) else []
    return "; ".join(f"{s.get('name')}: {s.get('error')}"[:200] for s in failed[:3]) or "no reason given"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a key given twice one value would be lost silently, and it might be the true one."""
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"gives the key {next(key for key in keys if keys.count(key) > 1)!r} twice in one object")
    return found


def _refuse_moving(rows: Sequence[Any], path: Path) -> None:
    """The replicas of a partition in reassignment are about to change."""
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict) or not row.get("topic"):
            continue
        name = f"{row['topic']}-{row.get('partition')}"
        for change in ("adding", "removing"):
            # Absent in a document of another hand; null means that it could not be read.
            if row.get(change, []) is None:
                raise InputError(path, number, f"{name}: whether it is being reassigned is not known")
            if row.get(change):
                raise InputError(
                    path,
                    number,
                    f"{name} is being reassigned; wait for the reassignment or cancel it, then take a new snapshot",
                )


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
    if _of_its_types(values, kind):
        with suppress(pa.ArrowInvalid, OverflowError, UnicodeError):
            return pa.array(values, kind)
    for number, value in enumerate(values, start=1):
        if value is not None and not _fits(value, kind):
            raise InputError(path, number, f"{name} {_excerpt(value)} is not {_WORDS[name]}")
    return pa.array(values, kind)


def _of_its_types(values: list[Any], kind: pa.DataType) -> bool:
    """Most files are right, and to look for the wrong value one by one takes ten times as long."""
    types = set(map(type, values)) - {type(None)}
    if pa.types.is_list(kind):
        return types <= {list} and set(map(type, chain.from_iterable(filter(None, values)))) <= {int}
    return types <= {str if pa.types.is_string(kind) else int}


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
    if pa.types.is_string(kind):
        # JSON can write halves of characters, which no file or topic can hold.
        return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)
    return _is_int(value)


def _is_int(value: Any) -> bool:
    return type(value) is int and abs(value) < 1 << 63


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1 << 63


def _excerpt(value: Any) -> str:
    """The beginning of a value, for an error."""
    return json.dumps(value, default=str)[:60]
