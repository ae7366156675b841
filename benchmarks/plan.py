"""How long the planner takes: Parquet in, plan, verification, everything written.

    python -m benchmarks.plan [--runs 3] [--only 200k]... [--also 100m]

Each run is a process of its own, so start-up and memory are those of the command. Prints medians. With Spark the
JVM is driver and executor at once; its workers are the Python processes that the blocks are planned in. Beside each
stands what it takes to read the partitions and write as much as the plan has, on the same engine. `peers` is one run
beside other planners, each installed in an environment of its own in the user's cache.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.plan_peers import Outcome, compare

SOURCE = Path(__file__).resolve().parent.parent / "operator"
FEW = {"partitions": 200_000, "brokers": 300, "racks": 3, "held": 2, "skewed": False}
FULL = FEW | {"held": 3}
MANY = {"partitions": 1_000_000, "brokers": 1_000, "racks": 10, "held": 1, "skewed": True}
SPARK = ("--engine", "spark", "--spark-master", "local[2]", "--spark-conf", "spark.driver.memory=2g")
DEFAULTS = ("--engine", "spark", "--spark-master", "local[2]")
"""With the memory that Spark gives a driver by itself: 1 GB."""
CASES = {
    "200k": (FEW, ()),
    "replace": (FULL, ()),
    "lower": (FULL | {"racks": 10, "skewed": True}, ("--engine", "local")),
    "replace-1m": (MANY | {"held": 3}, ("--engine", "local")),
    "replace-1m-spark": (MANY | {"held": 3}, SPARK),
    "1m": (MANY, ("--engine", "local")),
    "1m-spark": (MANY, SPARK),
    "5m-spark": (MANY | {"partitions": 5_000_000}, SPARK),
    "20m-spark": (MANY | {"partitions": 20_000_000}, SPARK),
    "100m-spark": (MANY | {"partitions": 100_000_000}, SPARK),
    "10m-topics-spark": (MANY | {"partitions": 10_000_000, "of_a_topic": 1}, DEFAULTS),
}
PEERS = "peers"
LONG = ("100m-spark", "10m-topics-spark")
"""Only on request."""
AS_INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""What is installed is compiled. Where nothing may be kept, each start compiles 250 modules anew: 0.4 s."""
FACTOR = 3
PER_TOPIC = 100
PIECE = 1_000_000


def cluster(case: dict, seed: int = 1) -> tuple[np.ndarray, np.ndarray | None]:
    """(rack of each broker, share of replicas of each, None: even); skewed: uneven racks and uneven load."""
    rng = np.random.default_rng(seed)
    brokers, racks = case["brokers"], case["racks"]
    if not case["skewed"]:
        return np.arange(brokers) % racks, None
    weight = np.arange(1, racks + 1)
    rack = np.sort(rng.choice(racks, size=brokers, p=weight / weight.sum()))
    rack[:racks] = np.arange(racks)
    share = rng.gamma(8.0, size=brokers)
    return rack, share / share.sum()


def partitions(case: dict, first: int, count: int) -> pa.Table:
    """Partitions first.. of the cluster, replicas in different racks."""
    rack, share = cluster(case)
    rng = np.random.default_rng([2, first])
    held = [rng.choice(len(rack), size=count, p=share)]
    while len(held) < case["held"]:
        more = rng.choice(len(rack), size=count, p=share)
        while (bad := np.any([rack[more] == rack[other] for other in held], axis=0)).any():
            more[bad] = rng.choice(len(rack), size=int(bad.sum()), p=share)
        held.append(more)
    flat = np.stack(held, axis=1).astype(np.int32).ravel()
    replicas = pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32) * len(held)), pa.array(flat))
    number, each = np.arange(first, first + count), case.get("of_a_topic", PER_TOPIC)
    names = pa.array([f"topic-{topic:07}" for topic in range(first // each, (first + count - 1) // each + 1)])
    topics = pa.DictionaryArray.from_arrays(pa.array((number // each - first // each).astype(np.int32)), names)
    return pa.table(
        {
            "topic": topics.cast(pa.string()),
            "partition": pa.array(number % each, pa.int32()),
            "replicas": replicas,
            "leader": pa.array(held[0].astype(np.int32)),
            "isr": replicas,
            "sizeBytes": pa.array(rng.integers(0, 1 << 30, count)),
        }
    )


def write(case: dict, work: Path) -> None:
    rack, _ = cluster(case)
    (work / "brokers.json").write_text(json.dumps([{"id": i, "rack": f"rack-{r}"} for i, r in enumerate(rack)]))
    writer = None
    for first in range(0, case["partitions"], PIECE):
        table = partitions(case, first, min(PIECE, case["partitions"] - first))
        writer = writer or pq.ParquetWriter(work / "partitions.parquet", table.schema, compression="zstd")
        writer.write_table(table, row_group_size=1 << 17)
    writer.close()


def raising(work: Path, *options: str) -> list[str]:
    """The command for what `write` has written."""
    return asking(work, "raise-replication-factor", "--replication-factor", str(FACTOR), *options)


def asking(work: Path, *question: str) -> list[str]:
    return [
        sys.executable, "-m", "kafka_medic.cli.main", "plan", *question,
        "--partitions", str(work / "partitions.parquet"), "--brokers", str(work / "brokers.json"),
        "--output", str(work / "plan"), "--overwrite", "-o", "json",
    ]  # fmt: skip


def copying(work: Path, options: tuple[str, ...]) -> float:
    """Seconds that it takes to read as much and write as much on the same engine."""
    settings = [value for option, value in pairwise(options) if option == "--spark-conf"]
    engine = ("spark", *settings) if "spark" in options else ("local",)
    shutil.rmtree(work / "copy", ignore_errors=True)
    line = [sys.executable, "-m", "benchmarks.plan_copy", str(work / "partitions.parquet"), str(work / "copy")]
    return watched([*line, str(FACTOR), *engine])[0]


def watched(command: list[str]) -> tuple[float, float, dict[str, float], str]:
    """(seconds, processor seconds, peak MB of the largest process of each kind, output) of a command, all it starts."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, env={**AS_INSTALLED, "PYTHONPATH": str(SOURCE)}, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    used: dict[int, float] = {}
    peak: dict[str, float] = {}
    ended, told, errors = began, "", ""

    def wait() -> None:
        nonlocal ended, told, errors
        told, errors = process.communicate()
        ended = time.perf_counter()

    waiting = threading.Thread(target=wait)
    waiting.start()
    while waiting.is_alive():
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):
                _, _, rest = (folder / "stat").read_text().rpartition(")")
                fields = rest.split()
                if int(fields[3]) != process.pid:
                    continue
                used[int(folder.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                own = int(folder.name) == process.pid
                # By its program: what the JVM forks has a thread's name, and the JVM's memory, until it is a worker.
                program = (folder / "exe").readlink().name
                kind = "command" if own else "worker" if "python" in program else "JVM"
                high = re.findall(r"VmHWM:\s+(\d+)", (folder / "status").read_text())
                peak[kind] = max(peak.get(kind, 0), int(high[0]) / 1024)
        waiting.join(0.1)
    if process.returncode:
        raise SystemExit(f"exit {process.returncode}\n{errors[-3000:]}")
    return ended - began, sum(used.values()), peak, told


def _question(name: str) -> tuple[str, ...]:
    if name.startswith("replace"):
        return "replace-broker", "--broker", "7"
    if name == "lower":
        return "lower-imbalance", "--max-moves", "10000"
    return "raise-replication-factor", "--replication-factor", str(FACTOR)


def measure(name: str, runs: int) -> None:
    case, options = CASES[name]
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        write(case, work)
        walls, cpus, peaks, summaries, copies = [], [], [], [], []
        command = asking(work, *_question(name), *options)
        for _ in range(runs):
            shutil.rmtree(work / "plan", ignore_errors=True)
            copies.append(copying(work, options))
            wall, cpu, peak, told = watched(command)
            walls.append(wall)
            cpus.append(cpu)
            peaks.append(peak)
            summaries.append(json.loads(told))
        summary = summaries[-1]
        print(
            f"{name}: {case['partitions']:,} partitions, {case['brokers']:,} brokers, {case['racks']} racks,", end=" "
        )
        print(" ".join(_question(name)))
        print(f"  {statistics.median(walls):.2f} s, of it until the plan is checked", end=" ")
        print(f"{statistics.median(s['seconds'] for s in summaries):.2f} s;", end=" ")
        print(f"processor {statistics.median(cpus):.1f} s; reading and writing alone", end=" ")
        print(f"{statistics.median(copies):.2f} s; memory", end=" ")
        print(", ".join(f"{kind} {statistics.median(p[kind] for p in peaks):.0f} MB" for kind in peaks[-1]))
        for figure in ("replicasPerBroker", "leadersPerBroker"):
            print(f"  {figure}: {summary[figure]['min']} to {summary[figure]['max']}, bound {summary[figure]['bound']}")
        print(f"  moves: {summary['moves']:,}, bound {summary['lowerBoundMoves']:,};", end=" ")
        print(f"rack violations {summary['rackViolations']}; waves {summary['waves']:,}", flush=True)


def planned(case: dict, work: Path) -> tuple[float, dict]:
    """(processor seconds, summary) of one plan by the command, of a cluster that is written first."""
    write(case, work)
    _, seconds, _, told = watched(raising(work))
    return seconds, json.loads(told)


def beside(count: int) -> None:
    """The first case with so many partitions, beside what peers make of it; and as large as it is, for what one
    partition costs: of 20,000, most of ours is the start of the command."""
    case = FEW | {"partitions": count}
    print(
        f"{PEERS}: {count:,} partitions, {case['brokers']:,} brokers, {case['racks']} racks, {case['held']} to {FACTOR}"
    )
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        seconds, _ = planned(case, work)
        rows = pq.read_table(work / "partitions.parquet", columns=["topic", "partition", "replicas"]).to_pylist()
        plan = pq.read_table(work / "plan" / "plan.parquet").to_pylist()
        ours = {(row["topic"], row["partition"]): row["preferredOrder"] for row in plan}
        brokers = json.loads((work / "brokers.json").read_text())
        took = compare({"brokers": brokers, "partitions": rows}, Outcome(seconds, ours))
        whole, summary = planned(FEW, work)
    checked = summary["seconds"]
    print(f"  kafka-medic, {FEW['partitions']:,} partitions: whole command {whole:.2f} s of a processor,", end=" ")
    print(f"of it planned and checked in {checked:.2f} s; a partition takes others so many times what it takes us")
    for name in list(took)[1:]:
        each = took[name] / count * FEW["partitions"]
        print(f"    {name}: {each / whole:,.1f}, of our planning and checking alone {each / checked:,.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", action="append", choices=sorted([*CASES, PEERS]), help="(repeat it)")
    parser.add_argument("--peers-partitions", type=int, default=20_000, metavar="N", help="(one of them takes minutes)")
    parser.add_argument("--also", action="append", choices=LONG, default=[])
    args = parser.parse_args()
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "pyarrow", "pyspark"))
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f},", end=" ")
    print(f"Python {platform.python_version()}, {versions}, {args.runs} runs", flush=True)
    for name in args.only or [*(name for name in CASES if name not in LONG or name in args.also), PEERS]:
        if name == PEERS:
            beside(args.peers_partitions)
        else:
            measure(name, args.runs)


if __name__ == "__main__":
    main()
