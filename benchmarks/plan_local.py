"""How long the in-process planner takes: Parquet in, plan, verification, all four files out.

    python benchmarks/plan_local.py [--runs 3] [--only 200k]

Each run is a process of its own, so start-up and memory are those of the command. Prints medians.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SOURCE = Path(__file__).resolve().parent.parent / "operator"
CASES = {
    "200k": {"partitions": 200_000, "brokers": 300, "racks": 3, "held": 2, "skewed": False},
    "1m": {"partitions": 1_000_000, "brokers": 1_000, "racks": 10, "held": 1, "skewed": True},
}
FACTOR = 3


def cluster(case: dict, seed: int = 1) -> tuple[pa.Table, list[dict]]:
    """A cluster with replicas in different racks; skewed: uneven racks and uneven load as well."""
    rng = np.random.default_rng(seed)
    count, brokers, racks = case["partitions"], case["brokers"], case["racks"]
    rack, share = np.arange(brokers) % racks, None
    if case["skewed"]:
        weight = np.arange(1, racks + 1)
        rack = np.sort(rng.choice(racks, size=brokers, p=weight / weight.sum()))
        rack[:racks] = np.arange(racks)
        share = rng.gamma(8.0, size=brokers)
        share /= share.sum()
    held = [rng.choice(brokers, size=count, p=share)]
    while len(held) < case["held"]:
        more = rng.choice(brokers, size=count, p=share)
        while (bad := np.any([rack[more] == rack[other] for other in held], axis=0)).any():
            more[bad] = rng.choice(brokers, size=int(bad.sum()), p=share)
        held.append(more)
    flat = np.stack(held, axis=1).astype(np.int32).ravel()
    replicas = pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32) * len(held)), pa.array(flat))
    table = pa.table(
        {
            "topic": pa.array([f"topic-{number // 100}" for number in range(count)]),
            "partition": pa.array(np.arange(count) % 100, pa.int32()),
            "replicas": replicas,
            "leader": pa.array(held[0].astype(np.int32)),
            "isr": replicas,
            "sizeBytes": pa.array(rng.integers(0, 1 << 30, count)),
        }
    )
    return table, [{"id": broker, "rack": f"rack-{rack[broker]}"} for broker in range(brokers)]


def measure(case: dict, runs: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        table, brokers = cluster(case)
        pq.write_table(table, work / "partitions.parquet")
        (work / "brokers.json").write_text(json.dumps(brokers))
        del table
        walls, summaries, peaks = [], [], []
        for run in range(runs):
            command = [
                "/usr/bin/env", "time", "-f", "peak %M", sys.executable, "-m", "kafka_medic.cli.main",
                "plan", "raise-replication-factor", "--partitions", str(work / "partitions.parquet"),
                "--brokers", str(work / "brokers.json"), "--replication-factor", str(FACTOR),
                "--output", str(work / f"plan-{run}"), "-o", "json",
            ]  # fmt: skip
            began = time.perf_counter()
            done = subprocess.run(
                command, env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=True
            )
            walls.append(time.perf_counter() - began)
            summaries.append(json.loads(done.stdout))
            peaks.append(int(re.findall(r"peak (\d+)", done.stderr)[-1]) / 1024)
        summary = summaries[-1]
        print(f"{case['partitions']:>9,} x {case['brokers']:,} x {case['racks']} racks, {case['held']} to {FACTOR}: ")
        print(f"  whole command {statistics.median(walls):.2f} s, of it read+plan+verify", end=" ")
        print(f"{statistics.median(s['seconds'] for s in summaries):.2f} s; peak {statistics.median(peaks):.0f} MB")
        for name in ("moves", "lowerBoundMoves", "replicasPerBroker", "leadersPerBroker", "rackViolations", "waves"):
            print(f"  {name}: {summary[name]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=sorted(CASES))
    args = parser.parse_args()
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "pyarrow"))
    print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, {versions}, {args.runs} runs"
    )
    for name, case in CASES.items():
        if args.only in (None, name):
            measure(case, args.runs)


if __name__ == "__main__":
    main()
