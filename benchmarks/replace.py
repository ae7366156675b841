"""A lost broker replaced by the operator, beside Kafka's own tool, on the same cluster under the same load.

One of three brokers goes with its volume, of 1 GB in two replicas. Its replicas come to the others: by the playbook
replace-broker, from its approval on, and by kafka-reassign-partitions.sh, with the plan that it makes itself. Both copy
at the same rate. A producer writes to every broker meanwhile (acks=all, idempotent). Then everything goes back to
where it was, and the broker is lost again.

    make bench-replace          both kinds of cluster
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import ConfigChange, Connection
from tests.e2e.conftest import Case
from tests.gameday.test_lost_broker import BYTES, GONE, PARTITIONS, TWO, begun, fill, lose, rows, run_of
from tests.incident import operator
from tests.testbed import Shape, build, deployed, wait_for
from tests.testbed.preflight import java_home

SLOTS: dict[Shape, int] = {"kraft": 5, "zookeeper": 6}
LIVE = 6
THROTTLE = 10_000_000
"""Bytes per second and broker."""
PER_SECOND = 50
TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@dataclass
class Load:
    """PER_SECOND records a second, in turn to each partition; how long each waited for its acknowledgement."""

    bootstrap: str
    topic: str
    latencies: list[float] = field(default_factory=list)
    failed: int = 0
    _stopping: threading.Event = field(default_factory=threading.Event)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        latency = message.latency()
        if error is not None or latency is None:
            self.failed += 1
        else:
            self.latencies.append(latency)

    def _run(self) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        producer, number = Producer(settings), 0
        while not self._stopping.is_set():
            producer.produce(self.topic, b"x" * 1000, partition=number % LIVE, on_delivery=self._delivered)
            number += 1
            producer.poll(1 / PER_SECOND)
        producer.flush(60)

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join()


def tool(case: Case, *words: str) -> str:
    home = java_home()
    assert home is not None, "the preflight has asked for a Java"
    options = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{build.kafka(case.kafka.shape)}/*"]
    command = [f"{home}/bin/java", *options, TOOL, "--bootstrap-server", case.boot, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def by_operator(case: Case, _: Path, measured: Callable[[], None]) -> list[str]:
    """What is left set once it has ended."""
    begun(case, "replace-broker", brokers=str(GONE), throttleBytesPerSecond=str(THROTTLE))
    measured()
    case.wait("Succeeded", 120)
    run = run_of(case)["status"]
    since = datetime.fromisoformat(run["startedAt"])
    sent = [
        f"{e['kind']} {(datetime.fromisoformat(e['intendedAt']) - since).total_seconds():+.0f}" for e in run["journal"]
    ]
    print(f"    seconds after its start: {', '.join(sent)}", flush=True)
    return operator.throttles_on(case.boot, [0, 1])


def by_tool(case: Case, folder: Path, measured: Callable[[], None]) -> list[str]:
    """The same. The tool's own --throttle also goes to the broker that is gone, and fails; so a person sets the rates
    of the other brokers, and has to remove them again."""
    topics, plan = folder / "topics.json", folder / "plan.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic} for topic in case.topics]}))
    told = tool(case, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "0,1")
    plan.write_text(told.split("Proposed partition reassignment configuration\n")[1])
    rates = [ConfigChange("BROKER", str(b), f"{side}.replication.throttled.rate", str(THROTTLE))
             for b in (0, 1) for side in ("leader", "follower")]  # fmt: skip
    rates += [ConfigChange("TOPIC", topic, f"{side}.replication.throttled.replicas", "*")
              for topic in case.topics for side in ("leader", "follower")]  # fmt: skip
    with closing(RealKafka(Connection(case.boot))) as kafka:
        kafka.alter_configs(rates)
        tool(case, "--reassignment-json-file", str(plan), "--execute")
        measured()
        left = operator.throttles_on(case.boot, [0, 1])
        kafka.alter_configs([ConfigChange(c.resource_type, c.resource, c.name, None) for c in rates])
    assert operator.throttles_on(case.boot, [0, 1]) == []
    return left


def own_throttle(case: Case, folder: Path) -> str:
    """What becomes of the tool's own --throttle while a broker is gone, with a reassignment that changes nothing."""
    plan, one = folder / "same.json", next(p for p in rows(case) if set(p.replicas) == {1, GONE})
    same = [{"topic": one.topic, "partition": one.partition, "replicas": list(one.replicas)}]
    plan.write_text(json.dumps({"version": 1, "partitions": same}))
    began = time.monotonic()
    try:
        tool(case, "--reassignment-json-file", str(plan), "--execute", "--throttle", str(THROTTLE))
    except AssertionError as failed:
        why = next((line for line in str(failed).splitlines() if line.startswith("Error:")), str(failed)[:200])
    else:
        why = "it worked"
    left = operator.throttles_on(case.boot, [0, 1])
    operator.remove_throttles(case.boot, [0, 1])
    return f"after {time.monotonic() - began:.0f} s: {why}; throttles left: {len(left)}"


def bench(shape: Shape, folder: Path) -> None:
    with deployed(f"bench-replace-{shape}", shape, TWO, SLOTS[shape]) as kafka:
        operator.people(kafka.namespace)
        case = Case(kafka, f"replace-{shape}")
        minimum = {"min.insync.replicas": "1", "segment.bytes": "16777216"}
        topic = case.topic(*[[n % 3, (n + 1) % 3] for n in range(PARTITIONS)], config=minimum)
        live = case.topic(*[[n % 3, (n + 1) % 3] for n in range(LIVE)], suffix="live", config=minimum)
        fill(case.boot, topic)
        two = {"pattern": rf"(?:{case.name}\..*)", "replicationFactor": 2}
        quiet = [{"name": n, "mode": "Observe"} for n in ("rebalance", "elect-preferred-leaders")]
        case.watch(
            remediation={"limits": {"cooldown": "0s"}, "playbooks": quiet},
            expectations={"topics": [two, {"pattern": ".*", "exempt": True}]},
        )
        before = {(p.topic, p.partition): p.replicas for p in rows(case)}
        print(f"{shape}: one of three brokers lost with 1 GB, throttle {THROTTLE / 1e6:.0f} MB/s", flush=True)
        for who, act in (("replace-broker", by_operator), ("kafka-reassign-partitions", by_tool)):
            lose(case)
            wait_for("the others to lead", lambda: all(p.leader in (0, 1) for p in rows(case)), 60)
            if act is by_tool:
                print(f"  its own --throttle, {own_throttle(case, folder)}", flush=True)
            round_of(case, who, act, folder, live)
            back(case, folder, before)


def round_of(
    case: Case, who: str, act: Callable[[Case, Path, Callable[[], None]], list[str]], folder: Path, live: str
) -> None:
    load, took = Load(case.boot, live), [0.0]

    def until_in_sync() -> None:
        wait_for("every replica in sync", lambda: all(set(p.isr) == {0, 1} for p in rows(case)), 600, every=0.5)
        took[0] = time.monotonic() - began

    def bytes_held() -> int:
        return sum(BYTES for p in rows(case) for b in p.replicas if b != GONE and p.topic != live)

    held = bytes_held()
    with load.running():
        began = time.monotonic()
        left = act(case, folder, until_in_sync)
        ended = time.monotonic() - began
    copied = bytes_held() - held
    bound = copied / 2 / THROTTLE  # each of the two brokers that are left copies half
    cuts = statistics.quantiles(load.latencies, n=100)
    print(
        f"  {who:<26} {copied / 1e6:.0f} MB, in sync after {took[0]:.0f} s ({took[0] / bound:.2f} times the throttle's "
        f"{bound:.0f} s), ended after {ended:.0f} s; producer p50 {1000 * cuts[49]:.0f} ms, p99 {1000 * cuts[98]:.0f} "
        f"ms, at most {1000 * max(load.latencies):.0f} ms of {len(load.latencies)} records, {load.failed} failed; "
        f"throttles left: {len(left)}",
        flush=True,
    )


def back(case: Case, folder: Path, before: dict[tuple[str, int], tuple[int, ...]]) -> None:
    """The broker returns, empty, and gets what it had."""
    case.kafka.start_broker(GONE)
    plan = folder / "back.json"
    parts = [{"topic": t, "partition": p, "replicas": list(replicas)} for (t, p), replicas in before.items()]
    plan.write_text(json.dumps({"version": 1, "partitions": parts}))
    tool(case, "--reassignment-json-file", str(plan), "--execute")

    def there() -> bool:
        return all(set(p.isr) == set(before[p.topic, p.partition]) for p in rows(case))

    wait_for("every replica back", there, 300)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=("kraft", "zookeeper"), action="append")
    options = parser.parse_args()
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}", flush=True)
    operator.uninstall()
    operator.install()
    try:
        for shape in options.mode or ("kraft", "zookeeper"):
            with tempfile.TemporaryDirectory() as folder:
                bench(shape, Path(folder))
    finally:
        operator.uninstall()


if __name__ == "__main__":
    main()
