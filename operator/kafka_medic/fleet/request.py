"""What is asked of a history, and which columns of it each answer needs: the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from kafka_medic.fleet.account import ACCOUNT, account
from kafka_medic.fleet.condense import GROUP_COLUMNS, TOPIC_COLUMNS, condense_offsets, condense_partitions
from kafka_medic.fleet.history import Window
from kafka_medic.fleet.plans import FIRST_COLUMNS, FOR_TRAFFIC, LAST_COLUMNS, TRAFFIC, Wish, plan_cluster, text_of
from kafka_medic.fleet.tables import BROKERS, SCHEMAS, SNAPSHOTS, day_of
from kafka_medic.fleet.whole import Chosen, time_of
from kafka_medic.plan.arrow import compute, integers
from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.wanted import Wanted

__all__ = [
    "PLAN_ROWS", "Engine", "Job", "Part", "Request", "account_job", "account_parts", "by_cluster", "joined",
    "plan_job", "plan_parts",
]  # fmt: skip

PLAN_ROWS: pa.Schema = pa.schema(
    [
        ("clusterId", pa.string()),
        ("cluster", pa.string()),
        *PLAN_SCHEMA,
        ("outcome", pa.string()),
        ("page", pa.string()),
        ("of", pa.string()),
    ]
)
"""One row each changed partition, of "partition", and one row with `outcome` and `page` each cluster, of "cluster"."""


@dataclass(frozen=True)
class Request:
    """history: its folder. window: the days. names: clusters, by name or id; empty: all. now: the reader's clock."""

    history: Path
    window: Window
    now: datetime
    names: frozenset[str] = frozenset()

    def asks_for(self, cluster: Chosen) -> bool:
        return not self.names or cluster.cluster in self.names or cluster.cluster_id in self.names


@dataclass(frozen=True)
class Part:
    """Rows that a kernel gets as `kind`: of which table, of which days, which columns, and of which Snapshots (None:
    all). condense: what makes fewer of them, wherever they are read."""

    kind: str
    table: str
    days: tuple[str, ...]
    columns: tuple[str, ...]
    snapshots: frozenset[str] | None = None
    condense: Callable[[pa.Table], pa.Table] | None = None

    def empty(self) -> pa.Table:
        """No rows, with the columns that its kernel gets."""
        schema = SCHEMAS[self.table]
        rows = pa.schema([schema.field(name) for name in self.columns]).empty_table()
        return self.condense(rows) if self.condense else rows

    def of_clusters(self, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """(cluster id, what its kernel gets) of rows that were read, of any clusters and any part of them."""
        if self.snapshots is not None:
            wanted = pa.array(sorted(self.snapshots), pa.string())
            rows = rows.filter(compute.is_in(rows["snapshot"], value_set=wanted))
        for cluster_id, own in by_cluster(rows):
            yield cluster_id, self.condense(own) if self.condense else own


Kernel = Callable[[str, Mapping[str, pa.Table]], pa.Table]
"""(cluster id, its rows by kind) -> rows."""


@dataclass(frozen=True)
class Job:
    """kernel: what is done for each cluster. schema: of its rows. by: the column that makes folders of the output."""

    kernel: Kernel
    schema: pa.Schema
    by: str | None = None


class Engine(Protocol):
    """Brings each cluster's rows to a kernel, and writes the answers."""

    def clusters(self) -> list[Chosen]:
        """The clusters that a request finds in its window, as `choose` has them."""

    def run(self, parts: Sequence[Part], clusters: Sequence[Chosen], job: Job, target: Path) -> None:
        """Write what the job makes of each cluster as Parquet into `target`, a new folder."""


def account_parts(request: Request, clusters: Sequence[Chosen]) -> list[Part]:
    """What `account` needs: of the whole window few columns, and of each last Snapshot more."""
    days = tuple(request.window.days())
    last = _days_of(c.last_whole_time for c in clusters)
    ids = frozenset(c.last_whole for c in clusters if c.last_whole is not None)
    now = ("clusterId", "snapshot", "topic", "partition", "leader", "replicas", "moving", "sizeBytes")
    return [
        Part("snapshots", "snapshots", days, tuple(SNAPSHOTS.names)),
        Part("brokers", "brokers", days, tuple(BROKERS.names)),
        Part("topics", "partitions", days, TOPIC_COLUMNS, condense=condense_partitions),
        Part("groups", "offsets", days, GROUP_COLUMNS, condense=condense_offsets),
        Part("last", "partitions", last, now, ids),
    ]


def plan_parts(clusters: Sequence[Chosen], wish: Wish) -> list[Part]:
    """What `plan_cluster` needs: each last Snapshot and, where traffic counts, few columns of each first one."""
    last, ids = _days_of(c.last_whole_time for c in clusters), frozenset(c.last_whole for c in clusters if c.last_whole)
    parts = [
        Part("last", "partitions", last, LAST_COLUMNS + (FOR_TRAFFIC if wish.balance == TRAFFIC else ()), ids),
        Part("brokers", "brokers", last, tuple(BROKERS.names), ids),
    ]
    earlier = [c for c in clusters if wish.balance == TRAFFIC and c.first_whole != c.last_whole]
    first = frozenset(c.first_whole for c in earlier if c.first_whole)
    parts.append(Part("first", "partitions", _days_of(c.first_whole_time for c in earlier), FIRST_COLUMNS, first))
    return parts


def account_job(wanted: Wanted, now: datetime) -> Job:
    """A row of ACCOUNT for each cluster."""

    def kernel(cluster_id: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        return account(tables, cluster_id, wanted, now)

    return Job(kernel, ACCOUNT)


def plan_job(clusters: Sequence[Chosen], wish: Wish) -> Job:
    """Rows of PLAN_ROWS: those of the plan, and one for the cluster."""
    by_id = {cluster.cluster_id: cluster for cluster in clusters}

    def kernel(cluster_id: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        chosen = by_id[cluster_id]
        found = plan_cluster(tables, chosen, wish)
        count = found.plan.num_rows
        named: dict[str, Any] = {name: found.plan[name] for name in PLAN_SCHEMA.names}
        named |= {name: pa.nulls(count, pa.string()) for name in ("outcome", "page")}
        ids = {"clusterId": chosen.cluster_id, "cluster": chosen.cluster, "of": "partition"}
        named |= {name: pa.repeat(pa.scalar(value, pa.string()), count) for name, value in ids.items()}
        rows = pa.Table.from_arrays([named[name] for name in PLAN_ROWS.names], schema=PLAN_ROWS)
        summary = pa.Table.from_pylist(
            [ids | {"outcome": text_of(found.row), "page": found.page, "of": "cluster"}], PLAN_ROWS
        )
        return pa.concat_tables([summary, rows])

    return Job(kernel, PLAN_ROWS, by="of")


def by_cluster(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each cluster id, in order; rows without one are of no cluster."""
    encoded = rows["clusterId"].combine_chunks().dictionary_encode()
    names = [str(name) for name in encoded.dictionary.to_pylist()]
    if len(names) == 1 and not encoded.null_count:
        yield names[0], rows
        return
    code = integers(encoded.indices)
    order = np.argsort(code, kind="stable")
    ends = np.searchsorted(code[order], np.arange(len(names) + 1))
    for at, name in enumerate(names):
        yield name, rows.take(order[ends[at] : ends[at + 1]])


def joined(parts: Sequence[Part], pieces: Mapping[str, Sequence[pa.Table]]) -> dict[str, pa.Table]:
    """A cluster's rows by kind, as its kernel gets them; of a kind without rows an empty table."""
    tables = {part.kind: part.empty() for part in parts}
    for kind, found in pieces.items():
        tables[kind] = _plain(pa.concat_tables(found).unify_dictionaries())
    return tables


def _plain(table: pa.Table) -> pa.Table:
    """Names as strings, however they travelled."""
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(at, field.name, table[field.name].cast(pa.string()))
    return table


def _days_of(times: Any) -> tuple[str, ...]:
    return tuple(sorted({day_of(time_of(time)) for time in times if time is not None}))
