"""How long a look at 10,000 consumer groups with 10 committed offsets each takes, on a real Kafka, and what it holds.

    make bench-offsets                # MODE=kraft or zookeeper, RUNS=3

Eleven of the groups have committed an offset that no log has: each scan has to find exactly these. A scan is the whole
look (views, sizes, settings, groups, log ends) and the diagnosis of it, from a process of its own that has no
connection yet; of its seconds the reading of the offsets alone is told too.
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
from importlib.metadata import version
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as RdTopicPartition
from confluent_kafka.admin import AdminClient

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from tests.incident import records
from tests.testbed import Shape, deployed

TOPIC, WRITTEN = "orders", 100
GROUPS, PARTITIONS, BEYOND = 10_000, 10, 11
SECONDS, MEGABYTES = 60.0, 600.0
"""What a scan may take, and hold."""
SLOTS: dict[Shape, int] = {"kraft": 5, "zookeeper": 6}


def fill(bootstrap: str, groups: int) -> None:
    """The topic, its records and the groups' offsets: halfway, and in some groups one that no log has."""
    records.create_topic(bootstrap, TOPIC, [[n % 3, (n + 1) % 3, (n + 2) % 3] for n in range(PARTITIONS)])
    for partition in range(PARTITIONS):
        assert records.write(bootstrap, TOPIC, ["x"] * WRITTEN, partition) == WRITTEN
    admin, high = AdminClient({"bootstrap.servers": bootstrap}), wrong(groups)

    def offsets(*, impossible: bool, at: int) -> list[RdTopicPartition]:
        return [RdTopicPartition(TOPIC, p, 5000 if impossible and p == at else WRITTEN // 2) for p in range(PARTITIONS)]

    for start in range(0, groups, 100):
        wanted = [
            ConsumerGroupTopicPartitions(f"group-{n}", offsets(impossible=n in high, at=n % PARTITIONS))
            for n in range(start, min(start + 100, groups))
        ]
        while wanted:  # a coordinator that is still loading refuses
            asked = [(w, future) for w in wanted for future in admin.alter_consumer_group_offsets([w]).values()]
            wanted = [w for w, future in asked if any(tp.error for tp in future.result(30).topic_partitions)]


def wrong(groups: int) -> set[int]:
    """The groups that have one impossible offset."""
    return set(range(0, groups, groups // (BEYOND - 1))) | {groups - 1}


def scan(bootstrap: str) -> dict[str, Any]:
    """Everything measured in this process."""
    began = time.perf_counter()
    kafka = RealKafka(Connection(bootstrap))
    snapshot = observe_cluster("bench", ClusterReaders(kafka))
    looked = time.perf_counter()
    findings = diagnose(snapshot)
    ended = time.perf_counter()
    alone = time.perf_counter()
    read = kafka.groups(lambda name: name.startswith("group-")).offsets
    alone = time.perf_counter() - alone
    kafka.close()
    unknown = [f"{s.name}: {s.error}" for s in snapshot.sources if s.error]
    return {
        "seconds": ended - began,
        "diagnose": ended - looked,
        "offsets alone": alone,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "groups": len(read),
        "offsets": sum(len(g.committed) for g in read),
        "rows": 0 if snapshot.groups is None else snapshot.groups.num_rows,
        "found": sorted(f.id for f in findings if f.type == "OffsetBeyondLogEnd"),
        "unknown": unknown,
    }


def bench(shape: Shape, groups: int, runs: int) -> bool:
    with deployed(f"bench-offsets-{shape}", shape, slot=SLOTS[shape]) as kafka:
        began = time.monotonic()
        fill(kafka.bootstrap, groups)
        print(f"{shape}: {groups:,} groups filled in {time.monotonic() - began:.0f} s", flush=True)
        found = [_apart(kafka.bootstrap) for _ in range(runs)]
    expected = sorted(f"OffsetBeyondLogEnd/group-{n}" for n in wrong(groups))
    for one in found:
        assert one["found"] == expected, f"found {one['found']}; could not read {one['unknown']}"
        assert one["rows"] >= one["offsets"] == groups * PARTITIONS, one
    middle = {k: statistics.median(f[k] for f in found) for k in ("seconds", "diagnose", "offsets alone", "megabytes")}
    within = middle["seconds"] <= SECONDS and middle["megabytes"] <= MEGABYTES
    seconds, megabytes = middle["seconds"], middle["megabytes"]
    print(
        f"{shape}: {groups:,} groups x {PARTITIONS}, medians of {runs}: a look and its diagnosis {seconds:.1f} s (the "
        f"diagnosis {middle['diagnose']:.2f}), reading the offsets alone {middle['offsets alone']:.1f} s, at most "
        f"{megabytes:.0f} MB, {len(expected)} of {len(expected)} impossible offsets found "
        f"(bound: {SECONDS:g} s, {MEGABYTES:g} MB){'' if within else '  BEYOND'}",
        flush=True,
    )
    return within


def _apart(bootstrap: str) -> dict[str, Any]:
    line = [sys.executable, "-m", "benchmarks.offsets", "--scan", bootstrap]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=("kraft", "zookeeper"), default="kraft")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("--scan", metavar="BOOTSTRAP", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.scan:
        print(json.dumps(scan(options.scan)))
        return
    versions = ", ".join(f"{n} {version(n)}" for n in ("numpy", "pyarrow", "confluent-kafka", "kafka-python"))
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}"
    print(f"{machine}, Python {platform.python_version()}, {versions}, {options.runs} runs", flush=True)
    if not bench(options.mode, options.groups, options.runs):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
