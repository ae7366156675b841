"""What it costs to observe Kafka clusters: large ones over the wire, and many small ones side by side.

    python benchmarks/observe.py                                # four sizes, three modes, and diagnosis
    python benchmarks/observe.py --sizes 3x300,30x20000 --runs 5
    python benchmarks/observe.py --sizes 500x200000 --modes quiet --give-up 600 --json > figures.json
    python benchmarks/observe.py --bootstrap HOST:PORT          # 10 and 20 KafkaClusters of a real Kafka
    python benchmarks/observe.py --testbed                      # the same with a Kafka of its own, inside the testbed

Large clusters: stub brokers listen on the loopback in a process of their own and speak Kafka's protocol
(`python -m tests.stub_cluster`). The operator's real clients read from them in another process, which then diagnoses
and builds the status. A size is BROKERSxPARTITIONS, with replication factor 3, 20 partitions a topic and one consumer
group for each topic, at least 10 and at most 10,000.

Modes: `quiet` reads the whole view of 3 to 5 brokers and the membership of the others. `suspicion` adds a stale broker
among those, so that the operator asks the others too, for 30 s at most. `acting` is the observation before the restart
of one broker: every whole view, for 120 s at most, or in large clusters what concerns that broker.

Columns: `wall` and `processor` are seconds of one observation, `processor` of the operator's process alone. `memory` is
the highest resident size. `wire` and `requests` are what the stub brokers counted, answers and requests together.
`views` is how many brokers gave their whole view. Figures are medians of --runs observations after a first one, which
connects and is in the JSON alone. An observation that leaves sources unread says so below the table.

Bounds: `copy` moves as many bytes in memory, and `read` reads as many from a socket. `decoder` is kafka-python's own,
for as many whole views, without connections, columns or checks.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "operator"), str(ROOT)]

from benchmarks.diagnosis_cases import INCIDENTS, JSON, QUIET  # noqa: E402
from benchmarks.observer import MODES, SUSPICION  # noqa: E402
from benchmarks.observing import Failed, GaveUp, Row, measured, observed, saved  # noqa: E402
from tests.stub_cluster import Size, StubProcess  # noqa: E402

SIZES = "3x300,30x20000,100x50000,500x200000"
FULL_SIZE = 200_000
STALE = 0
"""The broker that is stale in the mode `suspicion`."""
PATIENT = 120.0
"""Seconds for one request of the observation that the diagnosis cases are made from."""
BOUNDS = {"diagnose": {"seconds": 1.0, "megabytes": 600.0}, JSON: {"seconds": 15.0}}
"""Of `FULL_SIZE` partitions."""
WATCHING = {"megabytes per 10 more": 150.0, "% of a core": 5.0}


def report(line: str) -> None:
    """Progress goes to the standard error."""
    print(f"... {line}", file=sys.stderr, flush=True)


def groups_of(size: Size) -> int:
    return min(10_000, max(10, size.partitions // 20))


class Bench:
    """Runs what the arguments ask for and keeps it for JSON. Prints each line of the tables as it is known."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.document: dict[str, Any] = {"machine": machine(), "runs": args.runs, "timeout": args.timeout}
        self.notes: list[str] = []

    def say(self, line: str = "") -> None:
        if not self.args.json:
            print(line, flush=True)

    def run(self) -> None:
        self.say(", ".join(f"{name} {value}" for name, value in self.document["machine"].items()))
        self.say(f"medians of {self.args.runs}, timeout of a request {self.args.timeout:g} s")
        self.say()
        self.say(
            f"{'size':<12} {'mode':<10} {'wall':>8} {'processor':>10} {'memory':>9} {'wire':>10} {'requests':>9}  views"
        )
        self.document |= {"sizes": [], "diagnosis": []}
        cases: list[str] = []
        for size in self.args.sizes:
            with tempfile.TemporaryDirectory(prefix="bench-observe-") as folder:
                self.size(size, Path(folder), cases)
        for line in self.notes:
            self.say(f"  {line}")
        if cases:
            self.say()
            self.say(f"{'size':<12} {'diagnosis of':<22} {'wall':>8} {'processor':>10} {'memory':>9}")
            for line in cases:
                self.say(line)
        if self.args.json:
            print(json.dumps(self.document, indent=1))

    def size(self, size: Size, folder: Path, cases: list[str]) -> None:
        groups = self.args.groups if self.args.groups is not None else groups_of(size)
        found: dict[str, Any] = {"size": str(size), "groups": groups, "modes": []}
        self.document["sizes"].append(found)
        report(f"{size}: the stub brokers start")
        try:
            with StubProcess(size, groups, stale=[STALE]) as stub:
                found["stub"] = stub.place._asdict()
                stub.make_stale(STALE, stale=False)
                found["bounds"] = bounds = self.bounds(stub)
                for mode in self.args.modes:
                    stub.make_stale(STALE, stale=mode == SUSPICION)
                    row = observed(stub, mode, self.args.runs, self.args.timeout, self.args.give_up, report)
                    found["modes"].append(row.document())
                    self.row(row, bounds)
                stub.make_stale(STALE, stale=False)
                if self.args.diagnosis:
                    cases += self.diagnosis(stub, size, folder / "snapshot")
        except (RuntimeError, TimeoutError) as problem:
            found["error"] = str(problem)
            self.say(f"{size!s:<12} not measured: {problem}")

    def bounds(self, stub: StubProcess) -> dict[str, Any] | None:
        report(f"{stub.size}: lower bounds")
        try:
            return measured("benchmarks.lower_bounds", "--bootstrap", stub.place.bootstrap, give_up=self.args.give_up)
        except (GaveUp, Failed) as problem:
            self.notes.append(f"{stub.size}: no lower bounds: {problem}")
            return None

    def row(self, row: Row, bounds: dict[str, Any] | None) -> None:
        name = f"{row.size:<12} {row.mode:<10}"
        if not row.found:
            self.say(f"{name} {row.error}")
            return
        wall, processor, memory = (row.median(key) or 0.0 for key in ("wall", "processor", "megabytes"))
        wire = ((row.median("wire", "sent") or 0.0) + (row.median("wire", "received") or 0.0)) / 1e6
        views, requests = row.median("views") or 0.0, row.median("wire", "requests") or 0.0
        self.say(
            f"{name} {wall:>6.2f} s {processor:>8.2f} s {memory:>6.0f} MB {wire:>7.1f} MB {requests:>9,.0f}  "
            f"{views:.0f} of {row.brokers}"
        )
        if bounds is not None:
            copy = wire * 1e6 / bounds["copy_bytes_a_second"]
            read = bounds["read"]["wall"] * wire * 1e6 / bounds["view_bytes"]
            decoder = bounds["decode"]["processor"] * views
            self.say(f"{'':<12} {'bounds':<10} copy {copy:.3f} s, read {read:.3f} s, decoder {decoder:.2f} s")
        if row.error:
            self.notes.append(f"{row.size} {row.mode}: {len(row.found)} observations, then {row.error}")
        for one in (row.found[-1],):
            if one["uncovered"] is not None:
                self.notes.append(f"{row.size} {row.mode}: {one['uncovered']}")
            for source, why in {**one["unknown"], **one["partly"]}.items():
                self.notes.append(f"{row.size} {row.mode}: {source}: {str(why)[:160]}")

    def diagnosis(self, stub: StubProcess, size: Size, path: Path) -> list[str]:
        """Every case at full size, else the quiet one and the JSON document."""
        report(f"{size}: an observation for the diagnosis")
        try:
            saved(stub, path, PATIENT, max(self.args.give_up, PATIENT))
        except (GaveUp, Failed) as problem:
            return [f"{size!s:<12} not measured: {problem}"]
        every = size.partitions >= FULL_SIZE
        lines = []
        for case in (QUIET, *(INCIDENTS if every else ()), JSON):
            report(f"{size}: diagnosis of {case}")
            lines.append(self.case(size, case, path))
        return lines

    def case(self, size: Size, case: str, path: Path) -> str:
        name = f"{size!s:<12} {case:<22}"
        try:
            found = [
                measured(
                    "benchmarks.diagnosis_cases", "--snapshot", str(path), "--case", case, give_up=self.args.give_up
                )
                for _ in range(self.args.runs)
            ]
        except (GaveUp, Failed) as problem:
            return f"{name} {problem}"
        middle = {key: statistics.median(f[key] for f in found) for key in ("wall", "processor", "megabytes")}
        self.document["diagnosis"].append({"size": str(size), "case": case, "medians": middle, "runs": found})
        bound = BOUNDS[JSON if case == JSON else "diagnose"] if size.partitions == FULL_SIZE else {}
        words = f"  (bound: {', '.join(f'{v:g} {k}' for k, v in bound.items())})" if bound else ""
        within = middle["wall"] <= bound.get("seconds", middle["wall"])
        within = within and middle["megabytes"] <= bound.get("megabytes", middle["megabytes"])
        return (
            f"{name} {middle['wall']:>6.2f} s {middle['processor']:>8.2f} s {middle['megabytes']:>6.0f} MB"
            f"{words}{'' if within else '  BEYOND'}"
        )


def machine() -> dict[str, str]:
    versions = {name: version(name) for name in ("numpy", "pyarrow", "confluent-kafka", "kafka-python")}
    load = f"{os.getloadavg()[0]:.1f}"
    return {"machine": f"{platform.machine()}, {os.cpu_count()} CPUs", "load": load} | {
        "Python": platform.python_version(),
        **versions,
    }


def apart(*arguments: str) -> dict[str, float]:
    """What this program measures in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def steady(bootstrap: str, seconds: float, runs: int) -> None:
    print(f"steady, every 15 s, {seconds:g} s measured")
    sizes = {}
    for clusters in (10, 20):
        found = [
            apart("--watch", str(clusters), "--bootstrap", bootstrap, "--seconds", str(seconds)) for _ in range(runs)
        ]
        middle = {key: statistics.median(f[key] for f in found) for key in found[0]}
        sizes[clusters] = middle["megabytes"]
        print(
            f"{clusters:>8} clusters, {middle['watched']:g} of them reachable: {middle['megabytes']:.0f} MB resident, "
            f"{middle['threads']:g} threads, {middle['core']:.1f} % of a core"
        )
    print(
        f"10 more cost {sizes[20] - sizes[10]:.0f} MB (bound: {WATCHING['megabytes per 10 more']:g} MB; "
        f"CPU with 10: {WATCHING['% of a core']:g} % of a core)"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wire = parser.add_argument_group("large clusters, over the wire")
    wire.add_argument("--sizes", type=_sizes, default=SIZES, help=f"BROKERSxPARTITIONS,... (default: {SIZES})")
    wire.add_argument("--modes", type=_modes, default=",".join(MODES), help=f"of {', '.join(MODES)} (default: all)")
    wire.add_argument("--groups", type=int, help="consumer groups of each size, instead of one for each topic")
    wire.add_argument("--timeout", type=float, default=10.0, help="spec.probes.timeout in seconds (default: 10)")
    wire.add_argument(
        "--give-up", type=float, default=300.0, help="seconds for one observation, or one diagnosis (default: 300)"
    )
    wire.add_argument("--no-diagnosis", dest="diagnosis", action="store_false", help="observations only")
    wire.add_argument("--json", action="store_true", help="print one JSON document with every figure instead of tables")
    small = parser.add_argument_group("small clusters, on a real Kafka")
    small.add_argument("--bootstrap", help="a Kafka to watch")
    small.add_argument("--testbed", action="store_true", help="deploy one in the testbed, which has to be up")
    small.add_argument("--seconds", type=float, default=60.0, help="how long to watch it (default: 60)")
    parser.add_argument("--runs", type=int, default=3, help="measurements of each figure (default: 3)")
    parser.add_argument("--watch", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def _sizes(text: str) -> list[Size]:
    return [Size.parse(one) for one in text.split(",")]


def _modes(text: str) -> list[str]:
    found = text.split(",")
    if unknown := set(found) - set(MODES):
        raise argparse.ArgumentTypeError(f"no mode {', '.join(sorted(unknown))}; there are {', '.join(MODES)}")
    return found


def main() -> None:
    args = arguments()
    if args.watch:
        from benchmarks.watching import watching  # noqa: PLC0415 - of the small clusters alone

        print(json.dumps(watching(args.bootstrap, args.watch, args.seconds)))
    elif args.testbed:
        from benchmarks.watching import hung  # noqa: PLC0415
        from tests.testbed import deployed  # noqa: PLC0415

        with deployed("bench", "kraft") as kafka:
            hung(kafka)
            steady(kafka.bootstrap, args.seconds, args.runs)
        with deployed("bench", "zookeeper") as kafka:
            hung(kafka)
    elif args.bootstrap:
        steady(args.bootstrap, args.seconds, args.runs)
    else:
        Bench(args).run()


if __name__ == "__main__":
    main()
