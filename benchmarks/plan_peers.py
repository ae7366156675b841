"""The planner beside others: the same partitions raised from 2 to 3 replicas, each peer in an environment of its own.
Kafka's own tool, which knows nothing of what is there, makes anew what has 3.

Seconds are the processor's. A peer's are those of its own planning functions alone, without start-up, reading, checking
and writing; the planner's own are the whole command. What a plan is worth is counted here, for all in the same way.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.build import kafka

FACTOR = 3
PREPARE = """
import argparse, json, sys, time
asked = json.load(open(sys.argv[1]))
rack = {row["id"]: row["rack"] for row in asked["brokers"]}
held = {(row["topic"], row["partition"]): row["replicas"] for row in asked["partitions"]}
"""
DONE = """
seconds = time.process_time() - began
told = [[topic, number, replicas] for (topic, number), replicas in final.items()]
json.dump({"seconds": seconds, "replicas": told}, open(sys.argv[2], "w"))
"""
YELP = """
from kafka_utils.kafka_cluster_manager.cluster_info.cluster_topology import ClusterTopology
from kafka_utils.kafka_cluster_manager.cluster_info.partition_count_balancer import PartitionCountBalancer
from kafka_utils.kafka_cluster_manager.cluster_info.partition_measurer import UniformPartitionMeasurer
brokers = {number: {"rack": name} for number, name in rack.items()}
measurer = UniformPartitionMeasurer(None, None, None, argparse.Namespace())
topology = ClusterTopology(held, brokers, measurer, lambda broker: rack[broker.id])
began = time.process_time()
balancer = PartitionCountBalancer(topology, argparse.Namespace(balancer_args=[]))
for name, replicas in held.items():
    balancer.add_replica(name, FACTOR - len(replicas))
final = dict(topology.assignment)
"""
LINKEDIN = """
import random
from kafka.tools.assigner.actions.setrf import ActionSetRF
from kafka.tools.models.broker import Broker
from kafka.tools.models.cluster import Cluster, add_topic_with_replicas
random.seed(1)
cluster = Cluster()
for number, name in rack.items():
    broker = Broker("host", id=number)
    broker.rack = name
    cluster.add_broker(broker)
topics = {}
for (topic, number), replicas in held.items():
    topics.setdefault(topic, {})[number] = replicas
for topic, rows in topics.items():
    add_topic_with_replicas(cluster, topic, {"partitions": rows})
args = argparse.Namespace(topics=set(topics), replication_factor=FACTOR, exclude_topics=[])
began = time.process_time()
ActionSetRF(args, cluster).process_cluster()
final = {(p.topic.name, p.num): [b.id for b in p.replicas] for p in cluster.partitions()}
"""
PEERS = {
    "Yelp kafka-utils 4.1.0": (("kafka-utils==4.1.0",), YELP),
    "LinkedIn kafka-tools 0.1.9": (("kafka-tools==0.1.9", "six"), LINKEDIN),
}
GENERATE = "Kafka 4.3.1 --generate"
HEAD = ("PLANNER", "SECONDS", "PER MILLION", "MOVES", "NEEDED", "LOST", "SHARE A RACK", "REPLICAS", "LEADERS")


@dataclass(frozen=True)
class Outcome:
    """seconds of processor; replicas by (topic, partition), the preferred leader first."""

    seconds: float
    replicas: dict[tuple[str, int], list[int]]


def environment(requirements: tuple[str, ...]) -> Path:
    """The Python of an environment that has only these packages, made in the user's cache when it is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-medic" / "peers"
    home = cache / requirements[0].replace("==", "-")
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *requirements], check=True)
    return python


def peer(requirements: tuple[str, ...], body: str, asked: Path, work: Path) -> Outcome:
    """What a peer makes of the partitions."""
    script, told = work / "peer.py", work / "told.json"
    script.write_text(PREPARE + body.replace("FACTOR", str(FACTOR)) + DONE)
    python = environment(requirements)
    subprocess.run([str(python), str(script), str(asked), str(told)], check=True, stdout=subprocess.DEVNULL)
    return _told(told)


def generated(asked: Path, work: Path) -> Outcome:
    """What Kafka's own tool makes of them: its function alone, on a JVM that has just started."""
    told = work / "generated.json"
    line = ["java", "-cp", f"{kafka('kraft')}/*", str(Path(__file__).with_name("KafkaGenerate.java"))]
    subprocess.run([*line, str(asked), str(told), str(FACTOR)], check=True, stdout=subprocess.DEVNULL)
    return _told(told)


def _told(file: Path) -> Outcome:
    found = json.loads(file.read_text())
    return Outcome(found["seconds"], {(topic, number): replicas for topic, number, replicas in found["replicas"]})


def rows_of(outcomes: dict[str, Outcome], asked: Path) -> list[tuple[str, ...]]:
    """One row a planner, every figure counted from its plan."""
    document = json.loads(asked.read_text())
    rack = {row["id"]: row["rack"] for row in document["brokers"]}
    held = {(row["topic"], row["partition"]): row["replicas"] for row in document["partitions"]}
    needed = sum(FACTOR - len(replicas) for replicas in held.values())
    rows = []
    for name, outcome in outcomes.items():
        final = outcome.replicas
        moves = sum(len(set(final[key]) - set(held[key])) for key in held)
        lost = sum(len(set(held[key]) - set(final[key])) for key in held)
        shared = sum(len({rack[b] for b in replicas}) < len(replicas) for replicas in final.values())
        on = Counter(b for replicas in final.values() for b in replicas)
        led = Counter(replicas[0] for replicas in final.values())
        rows.append((
            name, f"{outcome.seconds:.2f}", f"{outcome.seconds / len(held) * 1e6:,.1f}", f"{moves:,}", f"{needed:,}",
            f"{lost:,}", f"{shared:,}", *(f"{min(c[b] for b in rack)}..{max(c[b] for b in rack)}" for c in (on, led)),
        ))  # fmt: skip
    return rows


def show(rows: list[tuple[str, ...]]) -> None:
    """A table of all of them."""
    table = [HEAD, *rows]
    width = [max(len(row[column]) for row in table) for column in range(len(HEAD))]
    for row in table:
        cells = [row[0].ljust(width[0]), *(cell.rjust(width[at]) for at, cell in enumerate(row[1:], start=1))]
        print("  " + "  ".join(cells), flush=True)


def compare(asked: dict[str, list[dict[str, object]]], ours: Outcome) -> dict[str, float]:
    """Run every peer on the same brokers and partitions and print the table. Seconds of a processor of each."""
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        file = work / "asked.json"
        file.write_text(json.dumps(asked))
        outcomes = {"kafka-medic": ours}
        for name, (requirements, body) in PEERS.items():
            outcomes[name] = peer(requirements, body, file, work)
        if shutil.which("java") and shutil.which("mvn"):
            outcomes[GENERATE] = generated(file, work)
        else:
            print(f"  {GENERATE}: left out, needs a JDK and Maven")
        show(rows_of(outcomes, file))
    return {name: outcome.seconds for name, outcome in outcomes.items()}
