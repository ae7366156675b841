"""Committed offsets as a file: what `backup` writes, and what `restore` reads. Nothing in it is trusted."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from kafka_medic.cli.documents import named, parsed, text_of
from kafka_medic.cli.exits import UnusableInputError
from kafka_medic.cluster.document import timestamp
from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.names import shown
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.playbook.offsets.offset_step import set_by
from kafka_medic.playbook.preconditions import CLUSTER_ID
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import OffsetChange
from kafka_medic.resources.vocabulary import API_VERSION

KIND = "CommittedOffsets"
MAX_BYTES = 64 << 20
"""Of one file: about 350,000 committed offsets as `backup` writes them."""
_WAY_OUT = "make one with `kafka-medic offsets backup --bootstrap-servers HOST:PORT > FILE`"
_LINES = "write group,topic,partition,offset, or topic,partition,offset with --group"
_PARTS = "make several backups, each of fewer groups: `kafka-medic offsets backup --group PATTERN`"
_FIELDS = {
    "group": "group",
    "topic": "topic",
    "partition": "partition",
    "offset": "before",
    "leaderEpoch": "before_epoch",
    "metadata": "before_metadata",
}
"""Of a row, and where it goes."""
_KIND = re.compile(r"^kind:\s", re.MULTILINE)
_NUMBER = re.compile(r"[0-9]{1,19}")
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
        raise UnusableInputError(file, "already exists", "name a new file; kafka-medic overwrites no backup") from None
    except OSError as problem:
        raise UnusableInputError(file, f"cannot be written: {problem.strerror or problem}") from None


def read(file: str, group: str | None) -> Wanted:
    """A backup, JSON or YAML; a Remediation that has set offsets, as `kubectl get -o yaml` has it; or CSV:
    topic,partition,offset of `group`, or group,topic,partition,offset. Raises UnusableInputError."""
    text = text_of(file, _PARTS, MAX_BYTES)
    if not text.lstrip().startswith("{") and not _KIND.search(text):
        return _csv(text, named(file), group)
    if group is not None:
        raise UnusableInputError(
            "--group", f"conflicts with {named(file)}, which already names its groups", "leave it out"
        )
    document = parsed(text, file, _WAY_OUT, yaml_too=not text.lstrip().startswith("{"))
    if isinstance(document, dict) and document.get("kind") == Remediation.KIND:
        return _of_run(document, named(file))
    return _backup(document, named(file))


def _csv(text: str, file: str, group: str | None) -> Wanted:
    found: dict[str, OffsetChange] = {}
    reader = csv.reader(io.StringIO(text))
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            where = f"line {reader.line_num}"
            if any(cells):
                found[where] = _of_line([group, *cells] if group is not None else cells, file, where, given=group)
    except csv.Error as problem:
        raise UnusableInputError(file, f"line {reader.line_num}: {problem}", _LINES) from None
    return Wanted(_once(found, file), False, None)


def _of_line(cells: list[str], file: str, where: str, given: str | None) -> OffsetChange:
    if given is not None and len(cells) == 5:
        raise UnusableInputError(file, f"{where} already names its group", "leave out --group")
    if len(cells) != 4:
        raise UnusableInputError(file, f"{where} does not have four values", _LINES)
    for name, cell in (("partition", cells[2]), ("offset", cells[3])):
        if not _NUMBER.fullmatch(cell):
            raise UnusableInputError(file, f"{where}.{name} is {shown(cell)!r}, not a number of 0 or more", _LINES)
    row = {"group": cells[0], "topic": cells[1], "partition": int(cells[2]), "offset": int(cells[3])}
    return _row(row, file, where)


def _backup(document: Any, file: str) -> Wanted:
    if not isinstance(document, dict) or document.get("kind") != KIND or document.get("apiVersion") != API_VERSION:
        raise UnusableInputError(file, f"is not a {KIND} document of {API_VERSION}", _WAY_OUT)
    offsets, cluster = document.get("offsets"), document.get("cluster")
    if not isinstance(offsets, list) or not all(isinstance(row, dict) for row in offsets):
        raise UnusableInputError(file, "offsets is not a list of objects", _WAY_OUT)
    found = {f"offsets[{n}]": _row(row, file, f"offsets[{n}]") for n, row in enumerate(offsets)}
    cluster_id = cluster.get("id") if isinstance(cluster, dict) else None
    return Wanted(_once(found, file), True, cluster_id if isinstance(cluster_id, str) else None)


def _of_run(document: dict[str, Any], file: str) -> Wanted:
    """What a run found before it set offsets: of the groups that it has begun with."""
    try:
        run = Remediation.parse(document)
    except ResourceError as problem:
        message = "; ".join(str(p) for p in problem.problems)
        raise UnusableInputError(file, f"not a usable Remediation: {message}", _WAY_OUT) from None
    before = set_by(run)
    if not before:
        raise UnusableInputError(file, f"Remediation {run.name} set no offset, so there is nothing to restore")
    assert run.status.plan is not None  # it holds them
    ids = [p.value for p in run.status.plan.preconditions if p.name == CLUSTER_ID]
    return Wanted(before, True, ids[0] if ids else None)


def _row(row: dict[str, Any], file: str, where: str) -> OffsetChange:
    """What was, in the place of what is before: that is what is put back."""
    if unknown := sorted(row.keys() - _FIELDS.keys()):
        raise UnusableInputError(file, f"{where}.{shown(unknown[0])}: no such field", _WAY_OUT)
    values = {_FIELDS[name]: value for name, value in row.items()}
    values["before_metadata"] = values.get("before_metadata") or ""
    try:
        return OffsetChange.model_validate(values | {"after": row.get("offset")})
    except ValidationError as problem:
        first = problem.errors()[0]
        field = next((name for name, ours in _FIELDS.items() if ours == first["loc"][0]), "offset")
        raise UnusableInputError(file, f"{where}.{field}: {first['msg']}", _WAY_OUT) from None


def _once(found: Mapping[str, OffsetChange], file: str) -> tuple[OffsetChange, ...]:
    """`found`: by where it stands in the file."""
    if not found:
        raise UnusableInputError(file, "holds no committed offset", _WAY_OUT)
    first: dict[tuple[str, str, int], str] = {}
    for where, c in found.items():
        key = (c.group, c.topic, c.partition)
        if key in first:
            message = f"repeats the offset of {shown(c.group)} on {c.topic}-{c.partition} from {first[key]}"
            raise UnusableInputError(file, f"{where} {message}", "remove one of them")
        first[key] = where
    return tuple(sorted(found.values(), key=lambda c: (c.group, c.topic, c.partition)))
