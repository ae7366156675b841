"""A fleet's history and what `kafka-medic fleet` takes for it: seconds, processor and memory.

    python -m benchmarks.fleet_history make --directory H --clusters 1000 --sampled 50
    python -m benchmarks.fleet_history run plan --directory H --engine spark --balance replicas
    python -m benchmarks.fleet_history compare --directory H --plans OUT --sample 20

`make` appends to each cluster one snapshot of the last day, and to the sampled ones one of each day before as well.
`compare` plans a sample of the clusters by `plan_local`, from their files alone, and compares row by row.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from benchmarks.plan import watched
from kafka_medic.cluster.snapshot import (
    PARTITIONS_SCHEMA,
    Broker,
    ClusterInfo,
    Controller,
    Directory,
    Mode,
    Snapshot,
)
from kafka_medic.fleet.history import append
from kafka_medic.plan.arrow import list_column
from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.problem import Broker as PlanBroker
from kafka_medic.plan.problem import Problem
from kafka_medic.plan.solver.local import plan_local

LAST = datetime(2026, 1, 30, 12, tzinfo=UTC)
DAYS, BROKERS, RACKS, TOPICS = 30, 30, 3, 500
TIB = 1 << 40


def snapshot(cluster: int, partitions: int, day: int) -> Snapshot:
    """A cluster on a day before LAST: 30 brokers in 3 racks, factor 2, traffic of a heavy tail, disks that fill."""
    rng = np.random.default_rng(cluster)
    per_topic = partitions // TOPICS
    topic = np.repeat(np.arange(TOPICS), per_topic)
    number = np.tile(np.arange(per_topic, dtype=np.int32), TOPICS)
    first = rng.integers(0, BROKERS, len(topic))
    second = (first + 1 + rng.integers(0, BROKERS - 1, len(topic))) % BROKERS
    replicas = np.stack([first, second], axis=1).astype(np.int32).ravel()
    rate = np.rint(np.exp(rng.normal(9, 1.5, TOPICS)))[topic] * rng.uniform(0.8, 1.2, len(topic))
    age = 40 + day
    end = (rate * age).astype(np.int64)
    start = (rate * max(age - 60, 0)).astype(np.int64)
    pairs = list_column(np.full(len(topic), 2), replicas)
    empty = list_column(np.zeros(len(topic), dtype=np.int64), np.zeros(0, dtype=np.int32))
    names = pa.array([f"topic-{n:05}" for n in range(TOPICS)]).take(pa.array(topic))
    ids = pa.array([f"{cluster:08x}{n:014x}" for n in range(TOPICS)]).take(pa.array(topic))
    ints = pa.array(np.full(len(topic), 7, dtype=np.int32))
    table = pa.table(
        [names, pa.array(number), pa.array(first.astype(np.int32)), ints, pairs, pairs, empty, empty, pa.array(start),
         pa.array(end), pa.array((end - start) * 500), ints, ids],
        schema=PARTITIONS_SCHEMA,
    )  # fmt: skip
    used = [(0.5 + 0.01 * day * (1 + n % 3)) * 4 * TIB for n in range(BROKERS)]
    brokers = tuple(
        Broker(n, f"rack-{n % RACKS}", f"b{n}", 9092, registered=True, reachable=True, disk_free=int(8 * TIB - used[n]),
               directories=(Directory("/data", None, 8 * TIB, int(8 * TIB - used[n])),))
        for n in range(BROKERS)
    )  # fmt: skip
    return Snapshot(
        cluster=ClusterInfo(f"cluster-{cluster:04}", f"id-{cluster:018}", Mode.KRAFT, "4.1.0"),
        taken_at=LAST - timedelta(days=DAYS - 1 - day), brokers=brokers, controller=Controller(1, 9), partitions=table,
    )  # fmt: skip


def make(directory: Path, clusters: int, partitions: int, sampled: int) -> None:
    """Append the history, in two processes."""
    work = [(c, day) for c in range(clusters) for day in range(DAYS) if c < sampled or day == DAYS - 1]
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(_append, ((directory, c, partitions, day) for c, day in work), chunksize=20))
    size = sum(path.stat().st_size for path in directory.rglob("*.parquet"))
    print(f"{len(work):,} snapshots, {len(work) * partitions:,} rows of partitions, {size / 1e6:,.0f} MB")


def _append(one: tuple[Path, int, int, int]) -> None:
    directory, cluster, partitions, day = one
    append(directory, snapshot(cluster, partitions, day), "benchmark")


def run(question: str, directory: Path, engine: str, more: list[str], output: Path | None) -> None:
    """One command, and what it took, all that it starts included."""
    with tempfile.TemporaryDirectory() as folder:
        target = output or Path(folder) / "out"
        line = ["fleet", question, "--history", str(directory), "--until", LAST.date().isoformat(), "--engine", engine]
        command = [sys.executable, "-m", "kafka_medic.cli.main", *line, "--output", str(target), "-o", "json", *more]
        # A thousand clusters fill the pipe, which nobody empties before the command has ended.
        seconds, busy, peak, _ = watched(["sh", "-c", 'exec "$@" > /dev/null', "sh", *command])
        written = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
        rows = json.loads((target / "fleet.json").read_text())["clusters"]
    partitions = sum(row["partitions"] or 0 for row in rows)
    memory = ", ".join(f"{kind} {most:.0f} MB" for kind, most in sorted(peak.items()))
    print(
        f"{question} {engine} {' '.join(more)}: {len(rows):,} clusters, {partitions:,} partitions, {seconds:.1f} s, "
        f"{busy:.1f} s of a processor, {memory}, {written / 1e6:,.0f} MB written"
    )


def compare(directory: Path, plans: Path, sample: int) -> None:
    """Plan for plan: what the job wrote beside `plan_local` of the cluster's own file. Exits with 1 if they differ."""
    rows = json.loads((plans / "fleet.json").read_text())["clusters"]
    chosen = rows[:: max(len(rows) // sample, 1)][:sample]
    written = pyarrow.dataset.dataset(plans / "plans.parquet", partitioning="hive")
    wrong = 0
    for row in chosen:
        (file,) = (directory / "partitions").rglob(f"*-{row['snapshot']}.parquet")
        (brokers,) = (directory / "brokers").rglob(f"*-{row['snapshot']}.parquet")
        listed = [PlanBroker(b["id"], b["rack"], b["alive"], b["diskFree"]) for b in pq.read_table(brokers).to_pylist()]
        names = ["topic", "partition", "replicas", "leader", "isr", "sizeBytes"]
        here = plan_local(Problem(pq.ParquetFile(file).read(columns=names), tuple(listed), 3)).table
        field = pyarrow.dataset.field
        there = written.to_table(
            columns=PLAN_SCHEMA.names, filter=(field("clusterId") == row["clusterId"]) & (field("of") == "partition")
        )
        there = there.cast(PLAN_SCHEMA).sort_by([("topic", "ascending"), ("partition", "ascending")])
        same = there.combine_chunks().equals(here.combine_chunks())
        wrong += not same
    print(f"{len(chosen)} clusters compared, {wrong} differ")
    if wrong:
        sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "run", "compare"))
    parser.add_argument("question", nargs="?", choices=("report", "plan"), default="plan")
    parser.add_argument("--directory", type=Path, required=True, help="the history")
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=20_000, help="of each cluster")
    parser.add_argument("--sampled", type=int, default=50, help="clusters with 30 days of history")
    parser.add_argument("--engine", choices=("local", "spark"), default="spark")
    parser.add_argument("--output", type=Path, help="of run: keep what is written")
    parser.add_argument("--plans", type=Path, help="of compare: what `run plan --balance replicas --output` kept")
    parser.add_argument("--sample", type=int, default=20)
    args, more = parser.parse_known_args()
    if args.what == "make":
        shutil.rmtree(args.directory, ignore_errors=True)
        make(args.directory, args.clusters, args.partitions, args.sampled)
    elif args.what == "run":
        run(args.question, args.directory, args.engine, more, args.output)
    else:
        compare(args.directory, args.plans, args.sample)


if __name__ == "__main__":
    main()
