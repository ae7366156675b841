"""Leadership given back in batches that have to serve, beside one election of everything at once, in one run.

A broker of three is stopped and comes back to a cluster of many partitions under load. Then its leaderships go home:
once by the playbook elect-preferred-leaders, from its approval on, and once by a single request for all of them, as
Kafka's own tool sends it. Idempotent acks=all producers write to every partition all the while, and once a second to
some of those that move; for how long such a partition had no leader that serves is how long a record to it waited for
its acknowledgement. Both times are watched equally long, so that the percentiles are of as many records, and what the
same machine does while nothing is elected is told beside them. Before that all of it is done once unwatched, so that
neither finds the brokers' code cold.

    make bench-elect            both kinds of cluster
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import statistics
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection
from kafka_medic.cluster.snapshot import TopicPartition
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, Shape, deploy_kafka, get, wait_for

TOPIC = "orders"
AWAY = 1
PRODUCERS = 8
SLOTS_PER_SECOND = 20
"""In which each producer sends, so that records are spread over the second."""
OTHERS_PER_SECOND = 16
WATCHED = 40
"""Partitions that a record goes to each second, of those that get another leader."""
EVEN_SECONDS = 1.0
EVEN_FOR = 15.0
SLOTS: dict[Shape, int] = {"kraft": 5, "zookeeper": 6}
SETTINGS = {
    "default.replication.factor": 3,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "min.insync.replicas": 2,
    "auto.leader.rebalance.enable": "false",
    # Each record has every follower's fetch look through all partitions of it: with one fetcher a broker that is a
    # thousand, and two cores can do nothing else.
    "num.replica.fetchers": 8,
}

HEAP = "-Xms1g -Xmx1g -Xmn512m"
"""With a quarter of it, as the tests have, a broker of 2,000 partitions stops for seconds to collect garbage when
leaders change, and it would be that what is measured."""


@dataclass
class Load:
    """Records to every partition: one a second to each of `watched`, and OTHERS_PER_SECOND over all the others. By
    several producers as several applications have them: an idempotent one has five requests to a broker on their way,
    each for one partition, and would else measure its own queue."""

    bootstrap: str
    partitions: int
    watched: Collection[int]
    waited: dict[int, float] = field(default_factory=dict)
    """Longest time that a record to a watched partition waited for its acknowledgement, in seconds."""
    latencies: list[float] = field(default_factory=list)
    """Of every record to a watched partition, in seconds."""
    failed: int = 0
    _stopping: threading.Event = field(default_factory=threading.Event)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        partition, latency = message.partition(), message.latency()
        if error is not None or partition is None or latency is None:
            self.failed += 1
        elif partition in self.watched:
            self.latencies.append(latency)
            self.waited[partition] = max(self.waited.get(partition, 0.0), latency)

    def _run(self, first: int) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "queue.buffering.max.messages": 200_000,
                "log_level": 0,
            }
        )
        mine = [p for p in sorted(self.watched) if p % PRODUCERS == first]
        others = itertools.cycle([p for p in range(first, self.partitions, PRODUCERS) if p not in self.watched])
        for slot in itertools.count():
            if self._stopping.is_set():
                break
            end = time.monotonic() + 1 / SLOTS_PER_SECOND
            due = mine[slot % SLOTS_PER_SECOND :: SLOTS_PER_SECOND]
            if slot % SLOTS_PER_SECOND < OTHERS_PER_SECOND // PRODUCERS:
                due = [*due, next(others)]
            for partition in due:
                producer.produce(TOPIC, b"x" * 100, partition=partition, on_delivery=self._delivered)
            while (left := end - time.monotonic()) > 0:
                producer.poll(left)  # comes back with the first reports that are there
        producer.flush(60)

    def _even(self) -> bool:
        """Whether all but one of a hundred records were taken in time for a while. A broker that has just come back is
        slow at first, and what that costs is nobody's election."""
        self.waited.clear()
        self.latencies.clear()
        time.sleep(EVEN_FOR)
        return len(self.waited) == len(self.watched) and statistics.quantiles(self.latencies, n=100)[98] < EVEN_SECONDS

    @contextmanager
    def running(self) -> Iterator[Load]:
        """What happens before the load is even is not counted."""
        threads = [threading.Thread(target=self._run, args=(n,)) for n in range(PRODUCERS)]
        for thread in threads:
            thread.start()
        try:
            wait_for("an even load", self._even, 400)
            self.waited.clear()
            self.latencies.clear()
            yield self
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join()


def away(kafka: RealKafka) -> list[TopicPartition]:
    """Partitions that their first replica does not lead."""
    view = kafka.views([0])[0]
    if not isinstance(view, BrokerView):
        return [TopicPartition("?", 0)]
    return [TopicPartition(p.topic, p.partition) for p in view.partitions if p.leader != p.replicas[0]]


def leave_and_return(deployment: KafkaDeployment, kafka: RealKafka) -> None:
    deployment.stop_broker(AWAY)
    deployment.start_broker(AWAY)

    def in_sync() -> bool:
        view = kafka.views([0])[0]
        there = isinstance(view, BrokerView) and all(set(p.isr) == set(p.replicas) for p in view.partitions)
        return there and bool(away(kafka))  # a broker that is told late still sees all as it was before

    wait_for("every replica in sync, and others to lead for it", in_sync, 180)


def at_once(kafka: RealKafka) -> None:
    assert kafka.elect_preferred(away(kafka)) == {}
    wait_for("every leader home", lambda: not away(kafka), 120)


@dataclass(frozen=True)
class Run:
    """A Remediation that somebody asked for."""

    namespace: str
    name: str

    def now(self) -> dict[str, Any]:
        return get("remediations", self.name, namespace=self.namespace)

    def carried_out(self) -> None:
        assert operator.approve(self.now(), "alice").returncode == 0
        # kubectl takes a third of a processor's second, of which the brokers have two: seldom.
        wait_for("its end", lambda: operator.phase(self.now()) == "Succeeded", 900, every=5)

    def batches(self) -> str:
        """Partitions of each, and the seconds until it was seen to serve."""
        told = []
        for entry in self.now()["status"]["journal"]:
            intended, done = (datetime.fromisoformat(entry[name]) for name in ("intendedAt", "doneAt"))
            count = next(word for word in entry["detail"].split() if word.isdigit())
            told.append(f"{count} in {(done - intended).total_seconds():.0f} s")
        return ", ".join(told)


def planned(deployment: KafkaDeployment) -> Run:
    """A run of elect-preferred-leaders whose plan waits for its approval."""
    cluster = get("kafkaclusters", "bench", namespace=deployment.namespace)
    run = Run(deployment.namespace, f"elect-{uuid.uuid4().hex[:5]}")
    playbook = get("playbooks", "elect-preferred-leaders")
    spec = {
        "clusterRef": {"name": "bench", "uid": cluster["metadata"]["uid"]},
        "playbook": {"name": "elect-preferred-leaders", "digest": playbook["status"]["digest"]},
        "requestedBy": "admin",
    }
    meta = {"name": run.name, "namespace": run.namespace}
    operator.apply([{"apiVersion": operator.API_VERSION, "kind": "Remediation", "metadata": meta, "spec": spec}])
    wait_for("a plan", lambda: operator.phase(run.now()) == "AwaitingApproval", 240)
    return run


@dataclass(frozen=True)
class Measured:
    """Of records to partitions that got another leader, in seconds until the acknowledgement: the longest time, and the
    99th percentile."""

    longest: float
    p99: float
    lasted: float


def measured(what: str, load: Load, act: Callable[[], Any], at_least: float) -> Measured:
    with load.running():
        began = time.monotonic()
        act()
        took = time.monotonic() - began
        time.sleep(max(2.0, at_least - took))
        lasted = time.monotonic() - began
    waited = sorted(load.waited.values())
    p99 = statistics.quantiles(load.latencies, n=100)[98]
    print(
        f"  {what:<24} longest wait for a leader {waited[-1]:.2f} s, median {statistics.median(waited):.2f} s of "
        f"{len(waited)} partitions; producer p99 {1000 * p99:.0f} ms, at most {1000 * max(load.latencies):.0f} ms of "
        f"{len(load.latencies)} records; {load.failed} failed; took {took:.0f} s of {lasted:.0f} s watched",
        flush=True,
    )
    return Measured(waited[-1], p99, lasted)


def bench(shape: Shape, partitions: int) -> None:
    namespace = f"bench-elect-{shape}"
    deployment = deploy_kafka(namespace, shape, SETTINGS, SLOTS[shape], heap=HEAP)
    kafka = RealKafka(Connection(deployment.bootstrap, timeout_seconds=60.0))
    order = ([AWAY, 2, 0], [2, 0, AWAY], [0, AWAY, 2])
    moving = range(0, partitions, 3)
    watched = frozenset(moving[:: max(len(moving) // WATCHED, 1)])

    def load() -> Load:
        return Load(deployment.bootstrap, partitions, watched)

    try:
        operator.people(namespace)
        records.create_topic(deployment.bootstrap, TOPIC, [order[n % 3] for n in range(partitions)])
        quick = {"limits": {"cooldown": "0s"}}
        probes = {"interval": "60s", "timeout": "5s"}
        operator.apply([operator.kafka_cluster(deployment, "bench", remediation=quick, probes=probes)])
        print(f"{shape}: {partitions} partitions, three brokers; broker {AWAY} was away and is back", flush=True)
        leave_and_return(deployment, kafka)
        with load().running():
            at_once(kafka)
        leave_and_return(deployment, kafka)
        run = planned(deployment)
        ours = measured("elect-preferred-leaders", load(), run.carried_out, 0)
        assert not away(kafka)
        print(f"  its batches: {run.batches()}", flush=True)
        leave_and_return(deployment, kafka)
        theirs = measured("everything at once", load(), lambda: at_once(kafka), ours.lasted)
        measured("nothing elected", load(), lambda: None, ours.lasted)
        print(
            f"  factor: longest wait for a leader {theirs.longest / ours.longest:.1f}, producer p99 "
            f"{theirs.p99 / ours.p99:.1f}",
            flush=True,
        )
    finally:
        kafka.close()
        deployment.undeploy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--mode", choices=("kraft", "zookeeper"), action="append")
    options = parser.parse_args()
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    operator.uninstall()
    operator.install()
    try:
        for shape in options.mode or ("kraft", "zookeeper"):
            bench(shape, options.partitions)
    finally:
        operator.uninstall()


if __name__ == "__main__":
    main()
