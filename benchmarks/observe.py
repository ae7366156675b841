"""How long a look at a large cluster takes, what it holds in memory, and what it costs to watch small ones.

    python benchmarks/observe.py                       # 200,000 partitions, 500 brokers, 100,000 offsets, and growth
    python benchmarks/observe.py --bootstrap HOST:PORT # 10 and 20 KafkaClusters of a real Kafka, real clients
    python benchmarks/observe.py --testbed             # the same with a Kafka of its own, inside the testbed

Every figure is from a process of its own: seconds are medians of --runs, memory is the highest resident size. `make
bench-observe` does both, the second against a Kafka in the testbed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "operator"), str(ROOT)]

from kafka_medic.clients.answers import Groups, LogDir, LogDirs  # noqa: E402
from kafka_medic.clients.ports import (  # noqa: E402
    BrokerView,
    ClusterDescription,
    Node,
)
from kafka_medic.cluster.document import from_document, to_document  # noqa: E402
from kafka_medic.cluster.groups import Committed, GroupOffsets  # noqa: E402
from kafka_medic.cluster.snapshot import STATES_SCHEMA, Broker, ConfigValue, Quorum, Snapshot, TopicPartition, Voter  # noqa: E402
from kafka_medic.diagnose.diagnosis import diagnose  # noqa: E402
from kafka_medic.diagnose.memory import Memory, remember  # noqa: E402
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster  # noqa: E402
from kafka_medic.observe.view_reads import ViewRotation  # noqa: E402

if TYPE_CHECKING:
    from tests.testbed import KafkaDeployment

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BROKERS, OFFSETS, PER_TOPIC = 500, 100_000, 100
BOUNDS = {
    "diagnose": {"seconds": 1.0, "megabytes": 600.0},
    "json": {"seconds": 15.0},
    "watching": {"megabytes per 10 more": 150.0, "% of a core": 5.0},
}


class Answers:
    """A port that answers from columns: what the cluster says costs nothing, what is made of it is measured."""

    def __init__(self, partitions: int) -> None:
        rng = np.random.default_rng(1)
        first = rng.integers(0, BROKERS, partitions, dtype=np.int32)
        lists = np.stack([first, (first + 1) % BROKERS, (first + 2) % BROKERS], axis=1).ravel().astype(np.int32)
        replicas = pa.ListArray.from_arrays(pa.array(np.arange(partitions + 1, dtype=np.int32) * 3), pa.array(lists))
        topics = [f"topic-{n // PER_TOPIC:06d}" for n in range(partitions)]
        numbers = np.arange(partitions, dtype=np.int32) % PER_TOPIC
        columns = [pa.array(topics), pa.array(numbers), pa.array(first), pa.array(np.full(partitions, 5, np.int32))]
        ids = pa.array([f"id-{n // PER_TOPIC:020d}" for n in range(partitions)])
        self.states = pa.table([*columns, replicas, replicas, ids], schema=STATES_SCHEMA)
        self.keys = [TopicPartition(t, int(n)) for t, n in zip(topics, numbers, strict=True)]
        self.members = tuple(range(BROKERS))

    def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("bench", tuple(Node(b, f"kafka-{b}", 9092, f"zone-{b % 3}") for b in self.members), 0)

    def views(self, brokers: Any) -> Any:
        return {b: BrokerView(b, self.members, None, self.states) for b in brokers}

    def memberships(self, brokers: Any) -> Any:
        return {b: BrokerView(b, self.members, None) for b in brokers}

    def reassignments(self) -> Any:
        return {}

    def topic_configs(self, topics: Any, among: Any = None) -> Any:  # noqa: ARG002
        return {t: {"min.insync.replicas": ConfigValue("2", False)} for t in topics}

    def broker_configs(self, brokers: Any) -> Any:
        return {b: {"default.replication.factor": ConfigValue("3", False)} for b in brokers}

    def cluster_configs(self, among: Any = None) -> Any:  # noqa: ARG002
        return {}

    def log_dirs(self, brokers: Any) -> Any:
        found: dict[int, dict[TopicPartition, int]] = {b: {} for b in brokers}
        for tp, leader in zip(self.keys, self.states["leader"].to_pylist(), strict=True):
            found[leader][tp] = 1 << 30
        return {b: LogDirs((LogDir("/data", sizes, 1 << 41, 1 << 40),)) for b, sizes in found.items()}

    def log_bounds(self, leaders: Any, epochs: Any = None) -> Any:  # noqa: ARG002
        led: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
        for tp, leader in leaders.items():
            led.setdefault(leader, {})[tp] = (0, 1000)
        return led

    def groups(self, wanted: Any, brokers: Any) -> Any:  # noqa: ARG002
        chosen = self.keys[:OFFSETS]
        told = [
            GroupOffsets(f"group-{n}", "Stable", dict.fromkeys(chosen[n * 10 : n * 10 + 10], Committed(990)))
            for n in range(len(chosen) // 10)
        ]
        return Groups(told)

    def quorum(self) -> Quorum:
        return Quorum(0, tuple(Voter(b, 0, 0) for b in range(3)))

    def version(self) -> str:
        return "4.3"


def incidents(quiet: Snapshot) -> dict[str, tuple[Snapshot, Snapshot]]:
    """(the look before, the look now) of each published incident, at full size."""
    p, later = quiet.partitions, quiet.taken_at + timedelta(seconds=15)
    assert p is not None
    assert quiet.brokers is not None
    assert quiet.views is not None
    leader = p["leader"].to_numpy()

    def put(table: pa.Table, name: str, values: Any) -> pa.Table:
        index = table.schema.get_field_index(name)
        return table.set_column(index, table.schema.field(name), pa.array(values, table.schema.field(name).type))

    now = replace(quiet, taken_at=later)
    told = quiet.views[0].leaders
    assert told is not None
    stale = put(told, "epoch", np.where(leader % 50 == 0, 4, 5).astype(np.int32))
    split = tuple(replace(v, leaders=stale) if v.leaders is not None and v.broker % 2 else v for v in quiet.views)
    gone: tuple[Broker, ...] = tuple(
        replace(b, registered=False, reachable=None) if b.id < 10 else b for b in quiet.brokers
    )
    none = np.where(leader < 10, -1, leader).astype(np.int32)
    lost = np.where(leader < 10, 900, 1000)
    away = np.where(leader % 2 == 0, (leader + 1) % BROKERS, leader).astype(np.int32)
    alone = pa.ListArray.from_arrays(pa.array(np.arange(len(leader) + 1, dtype=np.int32)), pa.array(leader))
    few = put(put(put(p, "replicas", alone), "isr", alone), "leader", none)
    return {
        "quiet": (quiet, now),
        "I1 views differ": (quiet, replace(now, views=split)),
        "I1b logs shorter": (quiet, replace(now, partitions=put(p, "logEnd", lost))),
        "I2 unreachable": (quiet, Snapshot(quiet.cluster, later, quiet.sources, brokers=gone[:10])),
        "I3 leaders gone": (quiet, replace(now, partitions=put(p, "leader", away))),
        "I3 controller stuck": (quiet, replace(now, brokers=gone)),
        "I4 factor one": (quiet, replace(now, partitions=few, brokers=gone)),
    }


def look(partitions: int) -> Snapshot:
    rotation = ViewRotation()
    answers: Any = Answers(partitions)
    return observe_cluster("bench", ClusterReaders(answers), lambda: NOW, rotation)


def measured(case: str, partitions: int) -> float:
    """Seconds of one case, in this process."""
    if case == "snapshot":
        answers: Any = Answers(partitions)
        return timed(lambda: observe_cluster("bench", ClusterReaders(answers), lambda: NOW, ViewRotation()))
    quiet = look(partitions)
    if case == "json":
        return timed(lambda: from_document(json.loads(json.dumps(to_document(quiet)))))
    before, now = incidents(quiet)[case]
    memory = remember(Memory(), before)
    return timed(lambda: diagnose(now, previous=before, memory=remember(memory, now)))


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def apart(*arguments: str) -> dict[str, float]:
    """What a process of its own measures."""
    line = [sys.executable, __file__, *arguments]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def row(case: str, partitions: int, runs: int) -> None:
    found = [apart("--case", case, "--partitions", str(partitions)) for _ in range(runs)]
    seconds, peak = (statistics.median(f[key] for f in found) for key in ("seconds", "megabytes"))
    kind = case if case in ("snapshot", "json") else "diagnose"
    bound = BOUNDS.get(kind, {}) if partitions == 200_000 else {}
    told = f"  (bound: {', '.join(f'{v:g} {k}' for k, v in bound.items())})" if bound else ""
    within = seconds <= bound.get("seconds", seconds) and peak <= bound.get("megabytes", peak)
    print(
        f"{partitions:>8,} {case:<20} {seconds:6.2f} s {peak:6.0f} MB{told}{'' if within else '  BEYOND'}", flush=True
    )


def watching(bootstrap: str, clusters: int, seconds: float) -> dict[str, float]:
    """The operator's workers over that many KafkaClusters, with the real Kafka clients and an API server in memory."""
    from kafka_medic.clients.kafka import RealKafka  # noqa: PLC0415
    from kafka_medic.controller.events import recorder  # noqa: PLC0415
    from kafka_medic.controller.fleet import Fleet  # noqa: PLC0415
    from kafka_medic.controller.lease import ClusterLease  # noqa: PLC0415
    from kafka_medic.controller.store import Store  # noqa: PLC0415
    from kafka_medic.controller.turn import Clients, Turn  # noqa: PLC0415
    from tests.simulation.api import SimApi  # noqa: PLC0415
    from tests.simulation.world import API_VERSION, BASE  # noqa: PLC0415

    api: Any = SimApi()
    for n in range(clusters):
        meta = {"name": f"c{n}", "namespace": f"ns{n}"}
        spec = {"bootstrapServers": bootstrap, "remediation": {"mode": "Observe"}}
        body = {"apiVersion": API_VERSION, "kind": "KafkaCluster", "metadata": meta, "spec": spec}
        api.put(f"{BASE}/namespaces/ns{n}/kafkaclusters", body)
    unused: Any = None
    clients = Clients(Store(api), recorder(api), RealKafka, unused, unused)

    def turn(key: Any) -> Turn:
        return Turn(key[0], key[1], clients, lambda c: ClusterLease(api, key[0], key[1], c.uid or "", "bench"))

    fleet = Fleet(turn)
    for n in range(clusters):
        fleet.present((f"ns{n}", f"c{n}"), 1)
        time.sleep(15 / clusters)
    time.sleep(20)
    began, used = time.monotonic(), time.process_time()
    time.sleep(seconds)
    share = 100 * (time.process_time() - used) / (time.monotonic() - began)
    reachable = sum(
        any(c["type"] == "Reachable" and c["status"] == "True" for c in o.get("status", {}).get("conditions", ()))
        for o in api.list(f"{BASE}/kafkaclusters")
    )
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    threads = len(os.listdir("/proc/self/task"))
    fleet.stop()
    return {"clusters": clusters, "watched": reachable, "megabytes": resident, "core": share, "threads": threads}


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
    bound = BOUNDS["watching"]
    print(
        f"10 more cost {sizes[20] - sizes[10]:.0f} MB (bound: {bound['megabytes per 10 more']:g} MB; "
        f"CPU with 10: {bound['% of a core']:g} % of a core)"
    )


def hung(kafka: KafkaDeployment) -> None:
    """How long a look takes while one of three brokers hangs."""
    from tests.incident.looks import FAULTS, looks_while, told  # noqa: PLC0415

    for fault in FAULTS:
        print(told(kafka, fault, *looks_while(kafka, fault)), flush=True)
        kafka.wait_ready()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--bootstrap", help="a Kafka to watch")
    parser.add_argument("--testbed", action="store_true", help="deploy one in the testbed, which has to be up")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to watch it")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--partitions", type=int, default=200_000, help=argparse.SUPPRESS)
    parser.add_argument("--watch", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        seconds = measured(args.case, args.partitions)
        print(json.dumps({"seconds": seconds, "megabytes": peak_megabytes()}))
        return
    if args.watch:
        print(json.dumps(watching(args.bootstrap, args.watch, args.seconds)))
        return
    versions = ", ".join(f"{n} {version(n)}" for n in ("numpy", "pyarrow", "confluent-kafka", "kafka-python"))
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}"
    print(f"{machine}, Python {platform.python_version()}, {versions}, {args.runs} runs")
    if args.testbed:
        from tests.testbed import deployed  # noqa: PLC0415

        with deployed("bench", "kraft") as kafka:
            hung(kafka)
            steady(kafka.bootstrap, args.seconds, args.runs)
        with deployed("bench", "zookeeper") as kafka:
            hung(kafka)
        return
    if args.bootstrap:
        steady(args.bootstrap, args.seconds, args.runs)
        return
    for case in ("snapshot", *incidents(look(1000)), "json"):
        row(case, 200_000, args.runs)
    for partitions in (50_000, 100_000, 400_000):
        for case in ("snapshot", "quiet", "json"):
            row(case, partitions, args.runs)


if __name__ == "__main__":
    main()
