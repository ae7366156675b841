"""Leadership given back in batches that have to serve, beside one election of everything at once, in one run.

A broker of three is stopped and comes back to a cluster of many partitions under load. Then its leaderships go home:
once by a single request for all of them, as Kafka's own tool sends it, and once by the playbook
elect-preferred-leaders. An idempotent acks=all producer writes to every partition all the while; for how long a
partition took no record is the longest time between two of its acknowledgements.

    make bench-elect            both kinds of cluster
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection
from kafka_medic.cluster.snapshot import TopicPartition
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, Shape, deploy_kafka, get, wait_for

TOPIC = "orders"
AWAY = 1
SLOTS: dict[Shape, int] = {"kraft": 5, "zookeeper": 6}
SETTINGS = {
    "default.replication.factor": 3,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "min.insync.replicas": 2,
    "auto.leader.rebalance.enable": "false",
}


@dataclass
class Load:
    """A record to each partition in turn, all of them about once in `every` seconds."""

    bootstrap: str
    partitions: int
    every: float = 0.5
    gaps: dict[int, float] = field(default_factory=dict)
    """Longest time between two acknowledgements, beyond `every`, in seconds, by partition."""
    latencies: list[float] = field(default_factory=list)
    failed: int = 0
    _last: dict[int, float] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        now = time.monotonic()
        partition, latency = message.partition(), message.latency()
        if error is not None or partition is None or latency is None:
            self.failed += 1
            return
        self.latencies.append(latency)
        before = self._last.get(partition)
        if before is not None:
            self.gaps[partition] = max(self.gaps.get(partition, 0.0), now - before - self.every)
        self._last[partition] = now

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "queue.buffering.max.messages": 200_000,
                "log_level": 0,
            }
        )
        slices = max(int(self.every / 0.05), 1)
        while not self._stopping.is_set():
            for part in range(slices):
                began = time.monotonic()
                for partition in range(part, self.partitions, slices):
                    producer.produce(TOPIC, b"x" * 100, partition=partition, on_delivery=self._delivered)
                producer.poll(0)
                left = self.every / slices - (time.monotonic() - began)
                producer.poll(max(left, 0))
        producer.flush(60)

    @contextmanager
    def running(self, settle: float = 8.0) -> Iterator[Load]:
        """What happens before the first seconds are over (connections, metadata) is not counted."""
        thread = threading.Thread(target=self._run)
        thread.start()
        time.sleep(settle)
        self.gaps.clear()
        self.latencies.clear()
        try:
            yield self
        finally:
            time.sleep(2)
            self._stopping.set()
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
        return isinstance(view, BrokerView) and all(set(p.isr) == set(p.replicas) for p in view.partitions)

    wait_for("every replica in sync", in_sync, 180)
    assert away(kafka), "it came back without its leaderships"


def at_once(kafka: RealKafka) -> None:
    kafka.elect_preferred(away(kafka))
    wait_for("every leader home", lambda: not away(kafka), 120)


def by_playbook(deployment: KafkaDeployment) -> dict[str, Any]:
    cluster = get("kafkaclusters", "bench", namespace=deployment.namespace)
    name = f"elect-{uuid.uuid4().hex[:5]}"
    playbook = get("playbooks", "elect-preferred-leaders")
    spec = {
        "clusterRef": {"name": "bench", "uid": cluster["metadata"]["uid"]},
        "playbook": {"name": "elect-preferred-leaders", "digest": playbook["status"]["digest"]},
        "requestedBy": "admin",
    }
    meta = {"name": name, "namespace": deployment.namespace}
    operator.apply([{"apiVersion": operator.API_VERSION, "kind": "Remediation", "metadata": meta, "spec": spec}])

    def run() -> dict[str, Any]:
        return get("remediations", name, namespace=deployment.namespace)

    wait_for("a plan", lambda: operator.phase(run()) == "AwaitingApproval", 120)
    assert operator.approve(run(), "alice").returncode == 0
    wait_for("its end", lambda: operator.phase(run()) == "Succeeded", 900)
    return run()


def measured(what: str, load: Load, act: Callable[[], Any]) -> tuple[float, float]:
    with load.running():
        began = time.monotonic()
        act()
        took = time.monotonic() - began
    gaps = sorted(load.gaps.values())
    p99 = statistics.quantiles(load.latencies, n=100)[98]
    print(
        f"  {what:<24} longest without a record {gaps[-1]:.2f} s, median of the partitions "
        f"{statistics.median(gaps):.2f} s; producer p99 {1000 * p99:.0f} ms, at most {1000 * max(load.latencies):.0f} "
        f"ms; {load.failed} failed; took {took:.0f} s",
        flush=True,
    )
    return gaps[-1], p99


def bench(shape: Shape, partitions: int) -> None:
    namespace = f"bench-elect-{shape}"
    KafkaDeployment(namespace, shape, {}, {0: ""}).undeploy()
    deployment = deploy_kafka(namespace, shape, SETTINGS, SLOTS[shape])
    try:
        operator.people(namespace)
        order = ([AWAY, 2, 0], [2, 0, AWAY], [0, AWAY, 2])
        records.create_topic(deployment.bootstrap, TOPIC, [order[n % 3] for n in range(partitions)])
        kafka = RealKafka(Connection(deployment.bootstrap))
        operator.apply([operator.kafka_cluster(deployment, "bench")])
        print(f"{shape}: {partitions} partitions, three brokers; broker {AWAY} was away and is back", flush=True)
        leave_and_return(deployment, kafka)
        longest, p99 = measured("everything at once", Load(deployment.bootstrap, partitions), lambda: at_once(kafka))
        leave_and_return(deployment, kafka)
        ours, ours_p99 = measured(
            "elect-preferred-leaders", Load(deployment.bootstrap, partitions), lambda: by_playbook(deployment)
        )
        assert not away(kafka)
        print(f"  factor: longest {longest / ours:.1f}, producer p99 {p99 / ours_p99:.1f}", flush=True)
        kafka.close()
    finally:
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
