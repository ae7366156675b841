"""Partitions and offsets of any part of a history, condensed to sums per Snapshot and topic.

Sums of parts add up to those of the whole, so a part may end anywhere. Beside each sum stands how many rows it has:
a sum over fewer rows than there are is not known, and is never taken for a smaller one.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

__all__ = [
    "GROUP_COLUMNS", "GROUP_SUMS", "TOPIC_COLUMNS", "TOPIC_SUMS", "condense_offsets", "condense_partitions",
]  # fmt: skip

compute: Any = pyarrow.compute

TOPIC_COLUMNS = ("clusterId", "snapshot", "topic", "topicId", "logStart", "logEnd", "sizeBytes")
"""What `condense_partitions` reads."""
TOPIC_KEYS = ("snapshot", "topic", "topicId")
TOPIC_SUMS = ("rows", "ends", "end", "kept", "records", "sizes", "bytes")
"""rows: partitions. end: sum of the `ends` log ends that are known. records: sum of the `kept` differences of log end
and log start. bytes: sum of the `sizes` sizes of leaders' logs."""
GROUP_COLUMNS = ("clusterId", "snapshot", "group", "topic", "topicId", "committed", "logEnd")
"""What `condense_offsets` reads."""
GROUP_KEYS = ("snapshot", "group", "topic", "topicId")
GROUP_SUMS = ("rows", "commits", "committed", "lags", "lag")
"""rows: committed offsets. committed: sum of the `commits` that are known. lag: sum of the `lags` that are known, each
0 or more."""


def condense_partitions(rows: pa.Table) -> pa.Table:
    """(snapshot, topic, topicId, TOPIC_SUMS), of rows with TOPIC_COLUMNS or of what this made before."""
    if "rows" in rows.column_names:
        return _sums(rows, TOPIC_KEYS, TOPIC_SUMS)
    records = compute.subtract(rows["logEnd"], rows["logStart"])
    named = {
        **{key: rows[key] for key in TOPIC_KEYS},
        "rows": _ones(rows["topic"]), "ends": _known(rows["logEnd"]), "end": rows["logEnd"],
        "kept": _known(records), "records": records, "sizes": _known(rows["sizeBytes"]), "bytes": rows["sizeBytes"],
    }  # fmt: skip
    return _sums(pa.table(named), TOPIC_KEYS, TOPIC_SUMS)


def condense_offsets(rows: pa.Table) -> pa.Table:
    """(snapshot, group, topic, topicId, GROUP_SUMS), of rows with GROUP_COLUMNS or of what this made before."""
    if "rows" in rows.column_names:
        return _sums(rows, GROUP_KEYS, GROUP_SUMS)
    # Log ends and commits are read moments apart, so a group that is at the end may be ahead of it.
    lag = compute.max_element_wise(compute.subtract(rows["logEnd"], rows["committed"]), 0, skip_nulls=False)
    named = {
        **{key: rows[key] for key in GROUP_KEYS},
        "rows": _ones(rows["topic"]), "commits": _known(rows["committed"]), "committed": rows["committed"],
        "lags": _known(lag), "lag": lag,
    }  # fmt: skip
    return _sums(pa.table(named), GROUP_KEYS, GROUP_SUMS)


def _sums(rows: pa.Table, keys: tuple[str, ...], sums: tuple[str, ...]) -> pa.Table:
    added = rows.group_by(list(keys)).aggregate([(name, "sum") for name in sums])
    columns = [added[key] for key in keys] + [compute.fill_null(added[f"{name}_sum"], 0) for name in sums]
    return pa.table(columns, names=[*keys, *sums])


def _known(column: Any) -> Any:
    return column.is_valid().cast(pa.int64())


def _ones(column: Any) -> Any:
    return pa.repeat(pa.scalar(1, pa.int64()), len(column))
