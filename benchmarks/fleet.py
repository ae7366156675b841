"""What one operator costs that watches a hundred KafkaClusters, and what sick ones among them cost the others.

    make bench-fleet                              # 100 clusters, then the same with three sick ones
    python -m benchmarks.fleet --clusters 20 --seconds 60 --json

Runs in the testbed: the operator's own process, on the real API server, with the rights that the chart gives it. The
KafkaClusters have `probes.interval` 15 s and the mode Observe. All well ones are of one Kafka of stub brokers (3
brokers, 300 partitions, 15 groups). Sick ones: the brokers of one hang, nobody listens for another, and one has 100
brokers and 50,000 partitions.

Columns: `core` is the operator's share of one processor. `alone` is its bound: what the same observations, diagnoses
and statuses take in a process with one cluster, measured right before, without the API server, Leases and other
threads. A machine that is slower that day shows in both. `memory` is the operator's resident size at the end, the
processes of librdkafka included. `every` is the mean time between two reconciles of the well cluster that had the
fewest. `oldest` is the greatest age that `status.lastObservedAt` of a well cluster reached: a status of which nothing
else changed is written less often. `writes` are those of statuses and Leases that the API server took, a second.
`alive` is what /healthz answered all the time.
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
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.observer import QUIET
from benchmarks.observing import ObserverProcess
from kafka_medic.controller.pace import rewritten_after
from tests.incident.operator import kubeconfig, lists_namespaces
from tests.integration.people import RELEASE, RELEASE_NAMESPACE, WITHOUT_AN_IMAGE, definitions, helm
from tests.simulation.world import API_VERSION
from tests.stub_cluster import Conduct, Size, StubProcess
from tests.testbed import apply, kubectl

ROOT = Path(__file__).resolve().parent.parent
NAMESPACE, PORT, METRICS = "bench-fleet", 18080, 18081
WELL, HUGE, GROUPS = Size(3, 300), Size(100, 50_000), 15
INTERVAL, SETTLED = 15.0, 90.0
"""Seconds between two observations of a cluster, and until the measurement begins."""
LATE = 1.35
"""How much longer than `INTERVAL` a well cluster may wait: a window of two minutes cuts off up to one reconcile."""
OBSERVED = 50
CORE, MEGABYTES = 25.0, 500.0
"""What 100 well ones may take: % of a processor, and megabytes."""
TICKS = os.sysconf("SC_CLK_TCK")
WRITTEN = re.compile(
    r'apiserver_request_total\{[^}]*resource="(?:kafkaclusters|leases)"[^}]*verb="(?:PUT|POST)"[^}]*\} (\S+)'
)

RECONCILES = re.compile(r'^kafka_medic_reconciles_total\{cluster="([^"]+)"[^}]*\} (\S+)$', re.MULTILINE)


def body(name: str, bootstrap: str) -> dict[str, Any]:
    spec = {"bootstrapServers": bootstrap, "probes": {"interval": f"{INTERVAL:g}s"}, "remediation": {"mode": "Observe"}}
    meta = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": API_VERSION, "kind": "KafkaCluster", "metadata": meta, "spec": spec}


@contextmanager
def chart() -> Iterator[None]:
    """Roles, policies and CRDs. The operator's Pod has no image here, and does not run."""
    kubectl("delete", "namespace", NAMESPACE, RELEASE_NAMESPACE, "--ignore-not-found", "--timeout=120s", timeout=130)
    chart_folder = str(ROOT / "charts" / "kafka-medic")
    definitions()
    helm("install", RELEASE, chart_folder, "-n", RELEASE_NAMESPACE, "--create-namespace", *WITHOUT_AN_IMAGE)
    kubectl("create", "namespace", NAMESPACE)
    try:
        yield
    finally:
        kubectl("delete", "namespace", NAMESPACE, "--timeout=120s", timeout=130)
        helm("uninstall", RELEASE, "-n", RELEASE_NAMESPACE)
        kubectl("delete", "namespace", RELEASE_NAMESPACE, "--wait=false")


@contextmanager
def operator(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    path = kubeconfig(folder / "kubeconfig", RELEASE, RELEASE_NAMESPACE)
    environment = os.environ | {"KUBECONFIG": str(path), "POD_NAME": "bench", "POD_IP": "127.0.0.1"}
    line = [sys.executable, "-m", "kafka_medic.controller", "--watch-namespaces", NAMESPACE]
    line += ["--liveness-port", str(PORT), "--metrics-port", str(METRICS), "--loopback-destinations"]
    line += ["--rules", str(path.with_name("rules.json"))]
    with (folder / "operator.log").open("wb") as log, lists_namespaces(RELEASE, RELEASE_NAMESPACE):
        process = subprocess.Popen(line, env=environment, stdout=log, stderr=log, cwd=ROOT)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def family(pid: int) -> dict[int, list[str]]:
    """The process and all that come from it: by id, what /proc/ID/stat has after the name."""
    every = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            every[int(path.parent.name)] = path.read_text().rpartition(") ")[2].split()
    found, parents = {pid: every[pid]}, {pid}
    while parents:
        found |= (
            children := {one: stat for one, stat in every.items() if int(stat[1]) in parents and one not in found}
        )
        parents = set(children)
    return found


def used(process: subprocess.Popen[bytes]) -> float:
    """Processor seconds so far, those of ended children included."""
    return sum(int(number) for stat in family(process.pid).values() for number in stat[11:15]) / TICKS


def megabytes(process: subprocess.Popen[bytes]) -> float:
    """What is resident; pages that several processes share count once."""
    kilobytes = 0
    for pid in family(process.pid):
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes / 1024


def written() -> float:
    """Changes of statuses and Leases that the API server has taken so far, by whomever."""
    return sum(float(count) for count in WRITTEN.findall(kubectl("get", "--raw", "/metrics").stdout))


def alive() -> str | None:
    """What is wrong; None: nothing."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/healthz", timeout=10) as answer:
            return None if answer.status == 200 else f"status {answer.status}"
    except OSError as problem:
        return str(problem)


def reconciles() -> dict[str, float]:
    """Of each cluster, so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{METRICS}/metrics", timeout=30) as answer:
        return {name: float(count) for name, count in RECONCILES.findall(answer.read().decode())}


def observed(names: set[str]) -> tuple[int, float]:
    """How many of these clusters are Reachable, and for how many seconds the one was not observed that was not for the
    longest."""
    items = json.loads(kubectl("get", "kafkaclusters", "-n", NAMESPACE, "-o", "json").stdout)["items"]
    reachable, oldest = 0, 0.0
    for item in items:
        if item["metadata"]["name"] not in names:
            continue
        status = item.get("status", {})
        conditions = {c["type"]: c["status"] for c in status.get("conditions", ())}
        reachable += conditions.get("Reachable") == "True"
        seen = status.get("lastObservedAt", "1970-01-01T00:00:00Z")
        oldest = max(oldest, (datetime.now(UTC) - datetime.fromisoformat(seen)).total_seconds())
    return reachable, oldest


def observation(bootstrap: str) -> float:
    """Processor seconds of one observation, with its diagnosis and its status. The median of OBSERVED."""
    with ObserverProcess(bootstrap, 10.0, QUIET) as observer:
        observer.do("observe", 60.0)  # which also connects
        return statistics.median(observer.do("observe", 60.0)["processor"] for _ in range(OBSERVED))


def measured(clusters: int, seconds: float, *, sick: bool) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        well = stack.enter_context(StubProcess(WELL, GROUPS))
        names = {f"well-{n}" for n in range(clusters - 3 * sick)}
        bodies = [body(name, well.place.bootstrap) for name in sorted(names)]
        if sick:
            hung, huge = (stack.enter_context(StubProcess(size, GROUPS)) for size in (WELL, HUGE))
            for broker in range(WELL.brokers):
                hung.conduct(broker, Conduct.HANGS)
            others = (("hangs", hung.place.bootstrap), ("away", "127.0.0.1:1"), ("huge", huge.place.bootstrap))
            bodies += [body(name, bootstrap) for name, bootstrap in others]
        alone = 100 * clusters * observation(well.place.bootstrap) / INTERVAL
        stack.enter_context(chart())
        apply(bodies)
        process = stack.enter_context(operator(folder))
        time.sleep(SETTLED)
        before = reconciles()
        began, processor, writes = time.monotonic(), used(process), written()
        oldest, problems = 0.0, set[str]()
        while time.monotonic() < began + seconds:
            time.sleep(INTERVAL / 3)
            reachable, age = observed(names)
            oldest = max(oldest, age)
            problems |= {problem} if (problem := alive()) else set()
        took, processor, writes = time.monotonic() - began, used(process) - processor, written() - writes
        after = reconciles()
        fewest = min(after.get(name, 0.0) - before.get(name, 0.0) for name in names)
        resident = megabytes(process)
        return {
            "clusters": clusters,
            "sick": 3 * sick,
            "reachable": reachable,
            "core": 100 * processor / took,
            "alone": alone,
            "megabytes": resident,
            "threads": len(os.listdir(f"/proc/{process.pid}/task")),
            "every": took / max(fewest, 0.1),
            "oldest": oldest,
            "writes": writes / took,
            "alive": sorted(problems) or "ok",
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=120.0, help="of each measurement (default: 120)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    args = parser.parse_args()
    found = []
    if not args.json:
        names = ("numpy", "pyarrow", "confluent-kafka", "kafka-python", "kopf")
        versions = ", ".join(f"{name} {version(name)}" for name in names)
        print(f"machine {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, {versions}")
        print(f"{'clusters':>8} {'sick':>5} {'well':>5} {'core':>7} {'alone':>7} {'memory':>8} "
              f"{'threads':>8} {'every':>7} {'oldest':>7} {'writes':>7}  alive")  # fmt: skip
    for sick in (False, True):
        row = measured(args.clusters, args.seconds, sick=sick)
        found.append(row)
        if not args.json:
            counts = f"{row['clusters']:8} {row['sick']:5} {row['reachable']:5}"
            costs = f"{row['core']:5.1f} % {row['alone']:5.1f} % {row['megabytes']:5.0f} MB {row['threads']:8}"
            pace = f"{row['every']:5.1f} s {row['oldest']:5.0f} s {row['writes']:5.1f}/s"
            print(f"{counts} {costs} {pace}  {row['alive']}", flush=True)
    if args.json:
        print(json.dumps(found, indent=2))
    first = found[0]
    fits = first["core"] <= CORE and first["megabytes"] <= MEGABYTES
    fresh = all(row["oldest"] <= rewritten_after(INTERVAL).total_seconds() + 3 * INTERVAL for row in found)
    fresh = fresh and all(row["every"] <= LATE * INTERVAL for row in found)
    well = all(row["reachable"] == row["clusters"] - row["sick"] and row["alive"] == "ok" for row in found)
    print(f"within bounds: {fits and fresh and well}", file=sys.stderr)
    return 0 if fits and fresh and well else 1


if __name__ == "__main__":
    sys.exit(main())
