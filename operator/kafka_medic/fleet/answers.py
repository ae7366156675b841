"""From an engine's Parquet to the folder that people get: pages, one summary, and the rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_medic.fleet.account import ACCOUNT
from kafka_medic.fleet.pages import cluster_page, fleet_page, page_name, plans_page
from kafka_medic.fleet.whole import Chosen

__all__ = ["ACCOUNTS", "PLANS", "write_plans", "write_report"]

ACCOUNTS, PLANS, INDEX, PAGES = "accounts.parquet", "plans.parquet", "index.html", "clusters"
SUMMARY = "fleet.json"


def write_report(work: Path, clusters: Sequence[Chosen], window: str) -> list[dict[str, Any]]:
    """Pages and summary beside ACCOUNTS; the rows of ACCOUNT without details, by name. One row is held at a time,
    but for what stands in the summary."""
    by_id = {cluster.cluster_id: cluster for cluster in clusters}
    rows = []
    for row in _rows(work / ACCOUNTS):
        row["notes"] = [*by_id[row["clusterId"]].notes, *row["notes"]]
        _page(work, row, cluster_page(row, window))
        rows.append({name: row[name] for name in ACCOUNT.names if name != "details"})
    rows.sort(key=lambda row: (row["cluster"], row["clusterId"]))
    (work / INDEX).write_text(fleet_page(rows, window), "utf-8")
    _summary(work, rows)
    return rows


def write_plans(
    work: Path, clusters: Sequence[Chosen], more: Sequence[Mapping[str, Any]], title: str
) -> list[dict[str, Any]]:
    """Pages and summary beside PLANS; the rows of OUTCOME, by name. more: those of clusters that were not planned."""
    notes = {cluster.cluster_id: cluster.notes for cluster in clusters}
    rows = []
    for found in _rows(work / PLANS / "of=cluster"):
        row = json.loads(found["outcome"])
        if found["page"]:
            _page(work, row, found["page"])
        rows.append(row)
    rows = sorted([*rows, *map(dict, more)], key=lambda row: (row["cluster"], row["clusterId"]))
    for row in rows:
        row["reason"] = "; ".join(filter(None, (row["reason"], *notes[row["clusterId"]]))) or None
    (work / INDEX).write_text(plans_page(rows, title), "utf-8")
    _summary(work, rows)
    return rows


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Row by row: a page may be long."""
    for path in sorted(folder.glob("*.parquet")):
        file = pq.ParquetFile(path)
        names = [name for name in file.schema_arrow.names if name in {*ACCOUNT.names, "outcome", "page"}]
        for batch in file.iter_batches(batch_size=16, columns=names):
            yield from pa.Table.from_batches([batch]).to_pylist()


def _page(work: Path, row: Mapping[str, Any], text: str) -> None:
    (work / PAGES).mkdir(exist_ok=True)
    (work / PAGES / page_name(row)).write_text(text, "utf-8")


def _summary(work: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    (work / SUMMARY).write_text(json.dumps({"clusters": list(rows)}, indent=2) + "\n", "utf-8")
