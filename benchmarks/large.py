"""Three runs on a cluster of many stub brokers, with two operators of which one is stopped in each run.

    make bench-large                                        # 500 brokers, 200,000 partitions
    python3 -m tests.testbed run .venv/bin/python -m benchmarks.large --brokers 9 --partitions 300
    ... -m benchmarks.large --runs roll --restart 3,5,7 --json

The stub brokers follow orders (tests/stub_cluster), and each has a Pod object on a real API server. The two operators
are processes of the operator's own, with the rights that the chart gives. The runs, one after the other:

    roll    a rolling restart of the brokers of --restart
    raise   the replication factor of one new topic from 2 to 3
    abort   the same of another topic; the plan is rejected while the second wave copies

In each run the operator that holds the Lease is stopped (SIGSTOP) for 45 s, and the other one has to finish.

Columns: `seconds` from the approval to the end. `takeover` from the stop until the other operator held the Lease.
`due` is the longest time, and the median, from the entry of an effect in the run's journal until the cluster got that
effect. `lost` counts reconciles that were thrown away because of the Lease (without the takeover) or because of data
that was too old. `twice` counts effects that came twice, and `left` what a run left behind in Kafka. `wire` is what the
stub brokers sent.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.large_runs import Large, Run, Stage, operators
from benchmarks.observing import Report
from benchmarks.stub_pods import Keeper, StubPods
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from tests.incident.operator import lists_namespaces
from tests.integration.operated_cluster import Person
from tests.integration.people import RELEASE, RELEASE_NAMESPACE, WITHOUT_AN_IMAGE, definitions, helm, people
from tests.stub_cluster import Size, StubProcess
from tests.testbed import kubectl, own_state

ROOT = Path(__file__).resolve().parent.parent
NAMESPACE, PORTS = "bench-large", 18180
RUNS = ("roll", "raise", "abort")
GOOD = {"roll": "Succeeded", "raise": "Succeeded", "aborted raise": "Aborted"}


@contextmanager
def chart() -> Iterator[None]:
    """Roles, policies, CRDs and people. The operator's Pod has no image here, and does not run."""
    kubectl("delete", "namespace", NAMESPACE, RELEASE_NAMESPACE, "--ignore-not-found", "--timeout=120s", timeout=130)
    folder = str(ROOT / "charts" / "kafka-medic")
    definitions()
    helm("install", RELEASE, folder, "-n", RELEASE_NAMESPACE, "--create-namespace", *WITHOUT_AN_IMAGE)
    try:
        with people(NAMESPACE, RELEASE), lists_namespaces(RELEASE, RELEASE_NAMESPACE):
            yield
    finally:
        helm("uninstall", RELEASE, "-n", RELEASE_NAMESPACE)
        kubectl("delete", "namespace", RELEASE_NAMESPACE, "--wait=false")


def measured(args: argparse.Namespace, report: Report) -> Iterator[Run]:
    with ExitStack() as stack:
        folder = args.logs or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        stub = stack.enter_context(StubProcess(Size(args.brokers, args.partitions), args.groups))
        stub.pace(args.copying, args.returning)
        report(f"{stub.size}: stub brokers up after {stub.place.seconds:.0f} s, with {stub.place.megabytes:.0f} MB")
        stack.enter_context(chart())
        admin = Keeper.named(own_state().kubeconfig("admin"))
        assert isinstance(admin, Keeper)
        pods = StubPods(admin, stub, NAMESPACE, min(args.nodes, args.brokers), args.away)
        began = time.monotonic()
        stack.enter_context(pods.present())
        report(f"{args.brokers} Pods after {time.monotonic() - began:.0f} s")
        persons = {name: Person.named(own_state().kubeconfig(name)) for name in ("alice", "bob")}
        place = Large(admin, NAMESPACE, stub.place.bootstrap, args.interval)
        stack.callback(place.leave)
        kafka = RealKafka(Connection(stub.place.bootstrap, timeout_seconds=30.0))
        stack.callback(kafka.close)
        both = stack.enter_context(operators(folder, NAMESPACE, PORTS))
        stage = Stage(place, persons, stub, kafka, pods, both, args.give_up, report)
        seen = lambda: bool(admin.get(place.path("kafkaclusters", place.name)).get("status") or {})  # noqa: E731
        stage.until("the first observation", seen)
        runs = {
            "roll": lambda: stage.roll(args.restart),
            "raise": lambda: stage.raised(args.moved),
            "abort": lambda: stage.aborted(max(4, args.moved)),
        }
        for name in args.runs:
            yield runs[name]()


def line(run: Run) -> str:
    due = [effect.due for effect in run.effects if effect.due is not None]
    took, took_over = (f"{n:.0f} s" if n is not None else "-" for n in (run.seconds, run.takeover))
    waits = f"{max(due):.0f} / {statistics.median(due):.0f} s" if due else "-"
    lost = f"{run.lost.get('lease', 0)} + {run.lost.get('freshness', 0)}"
    return (
        f"{run.name:<14} {run.phase:<10} {took:>8} {took_over:>9} {len(run.effects):>8} {waits:>11} {lost:>7} "
        f"{run.reconciles or 0:>10} {len(run.twice):>6} {len(run.left):>5} {run.sent / 1e6:>9.0f} MB"
    )


def good(run: Run) -> bool:
    return (
        run.error is None
        and run.phase == GOOD[run.name]
        and not (run.twice or run.left)
        and not (run.lost.get("lease") or run.lost.get("freshness"))
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.large", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brokers", type=int, default=500, help="default: 500; at least 6")
    parser.add_argument("--partitions", type=int, default=200_000, help="default: 200000; of three replicas each")
    parser.add_argument("--groups", type=int, default=0, help="consumer groups (default: 0)")
    parser.add_argument("--runs", type=_runs, default=RUNS, help="which of roll,raise,abort (default: all)")
    parser.add_argument("--restart", type=_ids, help="ids of brokers, as 3,5,7 (default: three of different racks)")
    parser.add_argument("--moved", type=int, default=4, help="partitions of the topic that is raised (default: 4)")
    parser.add_argument("--nodes", type=int, default=30, help="Node objects that the Pods share (default: 30)")
    parser.add_argument("--interval", type=float, default=15.0, help="seconds, probes.interval (default: 15)")
    parser.add_argument("--away", type=float, default=10.0, help="seconds that a broker is away (default: 10)")
    parser.add_argument("--copying", type=float, default=5.0, help="seconds that a new replica copies (default: 5)")
    parser.add_argument("--returning", type=float, default=5.0, help="seconds that a returned one does (default: 5)")
    parser.add_argument("--give-up", type=float, default=1800.0, help="seconds for one run (default: 1800)")
    parser.add_argument("--logs", type=Path, help="a folder that keeps the operators' logs")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    args = parser.parse_args()
    if args.brokers < 6 or args.partitions < 1:
        parser.error("--brokers must be at least 6 and --partitions at least 1")
    if args.restart is None:
        args.restart = [args.brokers // 3, args.brokers // 2, args.brokers - 1]
    if strange := [broker for broker in args.restart if not 0 <= broker < args.brokers]:
        parser.error(f"--restart {strange[0]}: the brokers are 0 to {args.brokers - 1}")
    return args


def _ids(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _runs(text: str) -> list[str]:
    found = text.split(",")
    if strange := [name for name in found if name not in RUNS]:
        raise argparse.ArgumentTypeError(f"{strange[0]!r}: name some of {', '.join(RUNS)}")
    return found


def main() -> int:
    args = arguments()
    began = time.monotonic()

    def report(text: str) -> None:
        print(f"[{time.monotonic() - began:6.1f}s] {text}", file=sys.stderr, flush=True)

    if not args.json:
        print(
            f"machine {platform.machine()}, {os.cpu_count()} CPUs, {args.brokers} brokers, {args.partitions} partitions"
        )
        print(f"{'run':<14} {'phase':<10} {'seconds':>8} {'takeover':>9} {'effects':>8} {'due':>11} {'lost':>7} "
              f"{'reconciles':>10} {'twice':>6} {'left':>5} {'wire':>12}")  # fmt: skip
    found: list[Run] = []
    try:
        for run in measured(args, report):
            found.append(run)
            if not args.json:
                print(line(run), flush=True)
                for text in (*run.twice, *run.left, *([run.error] if run.error else [])):
                    print(f"  {text}", flush=True)
    except KeyboardInterrupt:
        report("interrupted")
    if args.json:
        document: dict[str, Any] = {
            "brokers": args.brokers,
            "partitions": args.partitions,
            "runs": [run.document() for run in found],
        }
        print(json.dumps(document, indent=2))
    fits = len(found) == len(args.runs) and all(map(good, found))
    print(f"within bounds: {fits}", file=sys.stderr)
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
