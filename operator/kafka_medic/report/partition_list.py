"""A list of partitions in a page: columns as text, packed with zlib, unpacked and searched by the page's own script.

A million partitions would make a page of tens of megabytes as a table. Packed they take about five bytes each.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Sequence
from itertools import groupby

from kafka_medic.cluster.names import printable
from kafka_medic.report.model import PartitionList, PartitionRow
from kafka_medic.resources.durations import format_bytes

__all__ = ["FIRST", "MOST_PACKED", "MOST_ROWS", "Columns", "listed", "of_columns"]

LEVEL = 4
"""Of zlib: a tenth larger than at its default, in a sixth of the time."""
FIRST = 25
"""Partitions that are in the page as a table, for print and for browsers without a script."""
MOST_ROWS = 300_000
MOST_PACKED = 2_400_000
"""Characters of the packed list in a page."""

Columns = dict[str, object]
"""topics: names; counts: partitions of each, in order; and texts with a value for each partition between spaces:
partition; before, the broker ids; after, the same, or with a plus only those that follow the ones before; leads, the
place of the preferred leader among those after; wave; size in bytes, or nothing where not known."""


def of_columns(
    columns: Callable[[int], Columns], total: int, first: Sequence[PartitionRow], rest: str
) -> PartitionList:
    """The list of `total` partitions, of which `columns(n)` has the first n. As many as fit are listed."""
    size = min(total, MOST_ROWS)
    while True:
        found = columns(size)
        packed = _packed(found)
        if len(packed) <= MOST_PACKED or size < 2:
            break
        size //= 2
    return PartitionList(total, size, first, packed, bool(found.get("size")), rest if size < total else "")


def listed(
    rows: Sequence[tuple[str, int, Sequence[int], Sequence[int], int, int, int | None]], rest: str = ""
) -> PartitionList:
    """Of rows (topic, partition, before, after, broker that is to lead, wave, bytes)."""
    sized = any(row[6] is not None for row in rows)

    def columns(size: int) -> Columns:
        some = rows[:size]
        groups = [(topic, sum(1 for _ in of)) for topic, of in groupby(row[0] for row in some)]
        found: Columns = {
            "topics": [printable(topic) for topic, _ in groups],
            "counts": [number for _, number in groups],
            "partition": " ".join(str(row[1]) for row in some),
            "before": " ".join(_ids(row[2]) for row in some),
            "after": " ".join(_after(row[2], row[3]) for row in some),
            "leads": " ".join(str(row[3].index(row[4])) if row[4] in row[3] else "" for row in some),
            "wave": " ".join(str(row[5]) for row in some),
        }
        return found | ({"size": " ".join("" if row[6] is None else str(row[6]) for row in some)} if sized else {})

    first = [
        PartitionRow(
            topic, f"{number:,}", _shown(before), _shown(after), str(leader), f"{wave:,}",
            "unknown" if size is None else format_bytes(size),
        )
        for topic, number, before, after, leader, wave, size in rows[:FIRST]
    ]  # fmt: skip
    return of_columns(columns, len(rows), first, rest)


def _packed(columns: Columns) -> str:
    return base64.b64encode(zlib.compress(json.dumps(columns, separators=(",", ":")).encode(), LEVEL)).decode()


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _after(before: Sequence[int], after: Sequence[int]) -> str:
    kept = len(before)
    return f"+{_ids(after[kept:])}" if kept and list(after[:kept]) == list(before) else _ids(after)


def _shown(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"
