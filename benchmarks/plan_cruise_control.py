"""The planner beside Cruise Control's own analyzer, on the same clusters and in the same run.

    CRUISE_CONTROL_CLASSPATH='out:lib/*' python -m benchmarks.plan_cruise_control [--runs 3] [--only "300"]... [--large]

The class path holds Cruise Control's classes (core, metrics reporter, and the service) and what they need, EasyMock
too. None of it is on Maven Central, so build it from its sources. Both planners run as processes of their own, from
their files to their files, so seconds hold the start of Python and of the JVM. `planning` is the time in the planner
alone. Cruise Control is a service that keeps running, and its goals are content within a threshold of 1.10: it is
slower here than warm, and less even than it could be made.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.plan import watched

CLASSPATH = "CRUISE_CONTROL_CLASSPATH"
GOALS = (
    "RackAwareGoal,ReplicaCapacityGoal,DiskCapacityGoal,ReplicaDistributionGoal,LeaderReplicaDistributionGoal,"
    "TopicReplicaDistributionGoal"
)
RACKS, GONE, PER_TOPIC = 3, 7, 100
JVM = (
    "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+DisableExplicitGC", "-Djava.awt.headless=true",
)  # fmt: skip
"""As its own start script has it."""
HEAD = (
    "cluster", "planner", "seconds", "planning", "memory MB", "moves", "share a rack", "replicas a broker",
    "leaders a broker",
    "most of one topic: replicas, leaders", "goals violated in the end",
)  # fmt: skip
Replicas = dict[tuple[str, int], list[int]]


@dataclass(frozen=True)
class Case:
    """held: replicas of each partition. One broker is dead, or else each partition gets one replica more. heap: of the
    JVM. limit: seconds after which Cruise Control is stopped."""

    brokers: int
    partitions: int
    held: int = 3
    dead: bool = True
    per_topic: int = PER_TOPIC
    heap: str = "6g"
    limit: int = 900

    @property
    def name(self) -> str:
        asked = f"one of {self.brokers:,} dead" if self.dead else f"{self.held} to {self.held + 1} on {self.brokers:,}"
        return f"{asked}, {self.partitions:,} partitions"


CASES = (
    Case(12, 240, per_topic=12),
    Case(15, 2_000),
    Case(30, 20_000),
    Case(300, 200_000),
    Case(300, 20_000, held=2, dead=False),
)
LARGE = (Case(1_000, 1_000_000, held=3, heap="14g", limit=1_800),)


def cluster(case: Case, seed: int = 1) -> tuple[list[tuple[str, int]], np.ndarray, list[int]]:
    """(partitions, int[N, H] brokers, leaders); replicas in different racks, each deck of a rack dealt to its end."""
    rng = np.random.default_rng(seed)
    number = np.arange(case.partitions)
    step = 1 + number // RACKS % 2
    held = np.empty((case.partitions, case.held), dtype=np.int64)
    for slot in range(case.held):
        rack = (number + step * slot) % RACKS
        for one in range(RACKS):
            rows = np.flatnonzero(rack == one)
            members = np.arange(one, case.brokers, RACKS)
            decks = [rng.permutation(members) for _ in range(-(-len(rows) // len(members)))]
            held[rows, slot] = np.concatenate(decks)[: len(rows)]
    names = [(f"topic-{at // case.per_topic:05}", at % case.per_topic) for at in range(case.partitions)]
    leaders = held[:, 0] if not case.dead else np.where(held[:, 0] == GONE, held[:, 1], held[:, 0])
    return names, held, leaders.tolist()


def write(case: Case, work: Path) -> Replicas:
    """The cluster, as both planners read it; the replicas of each partition."""
    names, held, leaders = cluster(case)
    replicas = held.tolist()
    gone = GONE if case.dead else None
    rows = [[broker for broker in row if broker != gone] for row in replicas]
    lists = pa.list_(pa.int32())
    table = pa.table(
        {
            "topic": [topic for topic, _ in names],
            "partition": pa.array([number for _, number in names], pa.int32()),
            "replicas": pa.array(replicas, lists),
            "leader": pa.array(leaders, pa.int32()),
            "isr": pa.array(rows, lists),
        }
    )
    pq.write_table(table, work / "partitions.parquet", compression="zstd")
    listed = [{"id": b, "rack": f"rack-{b % RACKS}", "alive": b != gone} for b in range(case.brokers)]
    (work / "brokers.json").write_text(json.dumps(listed))
    (work / "brokers.csv").write_text("".join(f"{b['id']},{b['rack']},{not b['alive']}\n" for b in listed))
    with (work / "partitions.csv").open("w") as out:
        for (topic, number), leader, row in zip(names, leaders, replicas, strict=True):
            out.write(f"{topic},{number},{leader},{';'.join(map(str, row))}\n")
    return dict(zip(names, replicas, strict=True))


def ours(case: Case, work: Path, held: Replicas) -> tuple[Replicas, str, str]:
    """(what the command makes of it, seconds until the plan is checked, what its bounds say)."""
    asked = ["replace-broker", "--broker", str(GONE)] if case.dead else ["raise-replication-factor"]
    asked += [] if case.dead else ["--replication-factor", str(case.held + 1)]
    line = [
        sys.executable,
        "-m",
        "kafka_medic.cli.main",
        "plan",
        *asked,
        "--partitions",
        str(work / "partitions.parquet"),
    ]
    line += ["--brokers", str(work / "brokers.json"), "--engine", "local", "--output", str(work / "plan"), "-o", "json"]
    seconds, _, peak, told = watched(line)
    summary = json.loads(told)
    plan = pq.read_table(work / "plan" / "plan.parquet").to_pylist()
    after = held | {(row["topic"], row["partition"]): row["preferredOrder"] for row in plan}
    above = [
        name for name in ("replicasPerBroker", "leadersPerBroker") if summary[name]["max"] > summary[name]["bound"]
    ]
    above += ["moves"] if summary["moves"] > summary["lowerBoundMoves"] else []
    above += ["racks"] if summary["rackViolations"] > summary["rackViolationsBound"] else []
    judged = f"above its bound: {', '.join(above)}" if above else "every bound met"
    return after, f"{seconds:.3f} {summary['seconds']:.3f} {peak['command']:.0f}", judged


def theirs(case: Case, work: Path, classes: Path) -> tuple[Replicas, str, str] | None:
    """(what Cruise Control proposes, its seconds, goals that are violated in the end); None: not within its limit."""
    line = ["java", f"-Xmx{case.heap}", *JVM, "-cp", f"{classes}:{os.environ[CLASSPATH]}", "CruiseControl"]
    line += [str(work / name) for name in ("brokers.csv", "partitions.csv", "proposed.csv")]
    line += ["0" if case.dead else str(case.held + 1), GOALS]
    try:
        # A JVM that is stopped by `timeout` has no plan; what it writes about itself is no answer either.
        seconds, _, peak, told = watched(["timeout", "--signal=KILL", str(case.limit), *line])
    except SystemExit as stopped:
        print(f"  Cruise Control ended: {str(stopped)[:200]}", file=sys.stderr)
        return None
    answer = next(row for row in reversed(told.splitlines()) if row[:1].isdigit())
    planning, _, violated = answer.split(" ", 2)
    after = {}
    for row in (work / "proposed.csv").read_text().splitlines():
        topic, number, replicas = row.split(",")
        after[topic, int(number)] = [int(broker) for broker in replicas.split(";")]
    return after, f"{seconds:.3f} {planning} {max(peak.values()):.0f}", violated.strip("[]") or "none"


def counted(case: Case, held: Replicas, after: Replicas) -> tuple[str, ...]:
    """What a plan is worth, counted in the same way for both; the preferred leader is the first replica."""
    live = [b for b in range(case.brokers) if not (case.dead and b == GONE)]
    moves = sum(len(set(after[key]) - set(row)) for key, row in held.items())
    shared = sum(len({b % RACKS for b in row}) < min(len(row), RACKS) for row in after.values())
    on, led = Counter(b for row in after.values() for b in row), Counter(row[0] for row in after.values())
    each = Counter((key[0], b) for key, row in after.items() for b in row)
    each_led = Counter((key[0], row[0]) for key, row in after.items())
    spans = (f"{min(count[b] for b in live):,}..{max(count[b] for b in live):,}" for count in (on, led))
    return f"{moves:,}", f"{shared:,}", *spans, f"{max(each.values())}, {max(each_led.values())}"


def rows(case: Case, runs: int, classes: Path | None) -> Iterator[tuple[str, ...]]:
    """A row for each planner."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        held = write(case, work)
        for name, planner in (("kafka-medic", lambda: ours(case, work, held)), ("Cruise Control", None)):
            if planner is None and classes is None:
                continue
            found = [planner() if planner else theirs(case, work, classes or work) for _ in range(runs)]
            last = found[-1]
            if last is None:
                yield case.name, name, f"no plan within {case.limit} s", *("",) * 8
                continue
            took = [one[1].split() for one in found if one is not None]
            figures = [statistics.median(float(one[at]) for one in took) for at in range(3)]
            seconds = f"{figures[0]:.2f}", f"{figures[1]:.2f}", f"{figures[2]:,.0f}"
            yield case.name, name, *seconds, *counted(case, held, last[0]), last[2]


def compiled(folder: Path) -> Path | None:
    """The harness as classes; None where there is no class path for it."""
    if CLASSPATH not in os.environ:
        print(f"Cruise Control is left out: {CLASSPATH} is not set", file=sys.stderr)
        return None
    source = Path(__file__).with_name("CruiseControl.java")
    line = ["javac", "-nowarn", "-proc:none", "-cp", os.environ[CLASSPATH], "-d", str(folder), str(source)]
    subprocess.run(line, check=True, stderr=subprocess.DEVNULL)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="cases with TEXT in the name")
    parser.add_argument("--large", action="store_true", help="a million partitions on 1,000 brokers too")
    args = parser.parse_args()
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    with tempfile.TemporaryDirectory() as folder:
        classes = compiled(Path(folder))
        for case in (*CASES, *(LARGE if args.large else ())):
            if args.only and not any(text in case.name for text in args.only):
                continue
            for row in rows(case, args.runs, classes):
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
