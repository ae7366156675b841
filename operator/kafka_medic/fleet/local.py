"""The fleet in one process: small histories, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_medic.fleet.history import scan
from kafka_medic.fleet.request import Job, Part, Request, by_cluster, joined
from kafka_medic.fleet.tables import SNAPSHOTS
from kafka_medic.fleet.whole import Chosen, choose
from kafka_medic.plan.arrow import compute

__all__ = ["LocalEngine"]


@dataclass(frozen=True)
class LocalEngine:
    """Reads a history file by file, and holds of all clusters what their kernels need. Its methods are those of Engine;
    they raise HistoryError."""

    request: Request

    def clusters(self) -> list[Chosen]:
        request = self.request
        parts = list(scan(request.history, "snapshots", request.window.days(), SNAPSHOTS.names))
        rows = pa.concat_tables(parts) if parts else SNAPSHOTS.empty_table()
        return [Chosen.of(choose(own, request.now).to_pylist()[0]) for _, own in by_cluster(rows)]

    def run(self, parts: Sequence[Part], clusters: Sequence[Chosen], job: Job, target: Path) -> None:
        found: dict[str, dict[str, list[pa.Table]]] = {cluster.cluster_id: {} for cluster in clusters}
        for part in parts:
            for rows in scan(self.request.history, part.table, part.days, part.columns):
                for cluster_id, own in part.of_clusters(rows):
                    if cluster_id in found and own.num_rows:
                        found[cluster_id].setdefault(part.kind, []).append(own)
        with _Output(target, job) as out:
            for cluster_id in sorted(found):
                out.write(job.kernel(cluster_id, joined(parts, found.pop(cluster_id))))


@dataclass(slots=True)
class _Output:
    """A folder of Parquet, as Spark would write it: a folder for each value of the column `by`."""

    target: Path
    job: Job
    open: dict[str, pq.ParquetWriter] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def write(self, rows: pa.Table) -> None:
        by = self.job.by
        if by is None:
            self._write(self.target, rows)
            return
        for value in compute.unique(rows[by]).to_pylist():
            own = rows.filter(compute.equal(rows[by], value)).drop_columns([by])
            self._write(self.target / f"{by}={value}", own)

    def _write(self, folder: Path, rows: pa.Table) -> None:
        if str(folder) not in self.open:
            folder.mkdir(parents=True, exist_ok=True)
            writer = pq.ParquetWriter(folder / "part-00000.parquet", rows.schema, compression="zstd")
            self.open[str(folder)] = self.stack.enter_context(writer)
        self.open[str(folder)].write_table(rows)
