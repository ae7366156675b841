"""Committed offsets as a file: what `backup` writes, and what `restore` reads. Nothing in it is trusted."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from kafka_medic.cli.documents import named, parsed, text_of
from kafka_medic.cli.exits import UnusableInputError
from kafka_medic.cluster.document import timestamp
from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.resources.remediation_plan import OffsetChange
from kafka_medic.resources.vocabulary import API_VERSION

KIND = "CommittedOffsets"
_WAY_OUT = "make one with `kafka-medic offsets backup --bootstrap-servers HOST:PORT > FILE`"
Row = tuple[str, TopicPartition, Committed]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a file says. `exact`: it is a backup, to be put back as it is, wherever that lies. `cluster_id`: None where
    it does not say of which cluster."""

    rows: tuple[OffsetChange, ...]
    exact: bool
    cluster_id: str | None


def backup(snapshot: Snapshot, rows: Iterable[Row]) -> dict[str, Any]:
    """The document."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "cluster": {"name": snapshot.cluster.name, "id": snapshot.cluster.id},
        "takenAt": timestamp(snapshot.taken_at),
        "offsets": [
            {
                "group": group,
                "topic": tp.topic,
                "partition": tp.partition,
                "offset": committed.offset,
                "leaderEpoch": committed.leader_epoch,
                "metadata": committed.metadata,
            }
            for group, tp, committed in rows
        ],
    }


def write_new(file: str, document: Any) -> None:
    """On disk when this returns; a file that is there already is left alone. Raises UnusableInputError."""
    try:
        with open(file, "x", encoding="utf-8") as opened:
            json.dump(document, opened, indent=2)
            opened.write("\n")
            opened.flush()
            os.fsync(opened.fileno())
    except FileExistsError:
        raise UnusableInputError(file, "is there already", "name a new file: a backup is not overwritten") from None
    except OSError as problem:
        raise UnusableInputError(file, f"cannot be written: {problem.strerror or problem}") from None


def read(file: str, group: str | None) -> Wanted:
    """A backup, or CSV: topic,partition,offset of `group`, or group,topic,partition,offset. Raises
    UnusableInputError."""
    text = text_of(file, _WAY_OUT)
    if text.lstrip().startswith("{"):
        return _backup(parsed(text, file, _WAY_OUT), named(file))
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    found = []
    for number, row in enumerate(rows, 1):
        full = [group, *row] if len(row) == 3 and group is not None else row
        where = f"line {number}"
        if len(full) != 4 or not all(str(cell).strip().isdecimal() for cell in full[2:]):
            way_out = "write group,topic,partition,offset, or topic,partition,offset and --group"
            raise UnusableInputError(named(file), f"{where} is not four values", way_out)
        name, topic, partition, offset = (str(cell).strip() for cell in full)
        told = {"group": name, "topic": topic, "partition": int(partition), "offset": int(offset)}
        found.append(_row(told, named(file), where))
    return Wanted(_once(found, named(file)), False, None)


def _backup(document: Any, file: str) -> Wanted:
    if not isinstance(document, dict) or document.get("kind") != KIND or document.get("apiVersion") != API_VERSION:
        raise UnusableInputError(file, f"is not a {KIND} document of {API_VERSION}", _WAY_OUT)
    offsets, cluster = document.get("offsets"), document.get("cluster")
    if not isinstance(offsets, list) or not all(isinstance(row, dict) for row in offsets):
        raise UnusableInputError(file, "offsets is not a list of objects", _WAY_OUT)
    found = [_row(row, file, f"offsets[{n}]") for n, row in enumerate(offsets)]
    told = cluster.get("id") if isinstance(cluster, dict) else None
    return Wanted(_once(found, file), True, told if isinstance(told, str) else None)


def _row(row: dict[str, Any], file: str, where: str) -> OffsetChange:
    """What was, in the place of what is before: that is what is put back."""
    try:
        return OffsetChange.model_validate(
            {
                "group": row.get("group"),
                "topic": row.get("topic"),
                "partition": row.get("partition"),
                "before": row.get("offset"),
                "before_epoch": row.get("leaderEpoch"),
                "before_metadata": row.get("metadata") or "",
                "after": row.get("offset"),
            }
        )
    except ValidationError as problem:
        field = str(problem.errors()[0]["loc"][0]).replace("before_", "").replace("before", "offset")
        message = f"{where}.{field}: {problem.errors()[0]['msg']}"
        raise UnusableInputError(file, message, _WAY_OUT) from None


def _once(rows: Sequence[OffsetChange], file: str) -> tuple[OffsetChange, ...]:
    keys = [(c.group, c.topic, c.partition) for c in rows]
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise UnusableInputError(file, f"says twice what {twice[0]} has committed on {twice[1]}-{twice[2]}")
    return tuple(sorted(rows, key=lambda c: (c.group, c.topic, c.partition)))
