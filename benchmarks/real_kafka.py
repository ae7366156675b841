"""What it costs to observe a real Kafka with many partitions: three brokers of bare processes in the testbed's network.

    python3 -m tests.testbed run .venv/bin/python -m benchmarks.real_kafka --partitions 10000

Topics have 100 partitions and one replica each, since files and memory of one machine are what bounds their number.
`quiet` and `acting` as in `benchmarks/observe.py`. Figures are medians of --runs observations after a first one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

from benchmarks.observe import machine
from benchmarks.observer import ACTING, QUIET
from benchmarks.observing import ObserverProcess
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection, NewTopic
from tests.testbed.kafka_processes import KafkaProcesses
from tests.testbed.steps import wait_for

OF_A_TOPIC, BROKERS = 100, 3
PATIENCE = 300.0
TIMEOUT = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000, help="of all topics together (default: 10000)")
    parser.add_argument("--runs", type=int, default=3, help="measurements of each figure (default: 3)")
    parser.add_argument("--json", action="store_true", help="print every figure as JSON")
    options = parser.parse_args()
    cluster = KafkaProcesses("kraft", {})
    try:
        began = time.monotonic()
        kafka = RealKafka(Connection(cluster.bootstrap, timeout_seconds=TIMEOUT))
        made(kafka, options.partitions)
        kafka.close()
        ready = time.monotonic() - began
        found = {mode: observed(cluster.bootstrap, mode, options.runs) for mode in (QUIET, ACTING)}
    finally:
        cluster.close()
    if options.json:
        print(json.dumps({"machine": machine(), "ready": ready, "observations": found}))
        return
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    print(f"{options.partitions} partitions on {BROKERS} brokers, made in {ready:.0f} s; medians of {options.runs}")
    for mode, observations in found.items():
        wall, processor, memory = (
            statistics.median(one[key] for one in observations) for key in ("wall", "processor", "megabytes")
        )
        last = observations[-1]
        print(
            f"{mode:<10} {wall:.2f} s, {processor:.2f} s of a processor, {memory:.0f} MB, "
            f"{last['partitions']} partitions, {last['views']} whole views, "
            f"not read: {last['unknown'] | last['partly']}"
        )


def made(kafka: RealKafka, partitions: int) -> None:
    """Every partition has a leader in every broker's view."""
    topics = -(-partitions // OF_A_TOPIC)
    wait_for("all brokers", lambda: len(kafka.describe_cluster().nodes) == BROKERS, PATIENCE)
    for number in range(topics):
        count = min(OF_A_TOPIC, partitions - number * OF_A_TOPIC)
        kafka.create_topic(NewTopic(f"many-{number:04}", tuple(((number + n) % BROKERS,) for n in range(count)), {}))

    def led() -> bool:
        views = kafka.views(range(BROKERS)).values()
        return all(isinstance(v, BrokerView) and sum(p.leader >= 0 for p in v.partitions) >= partitions for v in views)

    wait_for(f"{partitions} partitions to be led", led, PATIENCE, every=2.0)


def observed(bootstrap: str, mode: str, runs: int) -> list[dict[str, float]]:
    with ObserverProcess(bootstrap, TIMEOUT, mode) as observer:
        found = [observer.do("observe", PATIENCE) for _ in range(runs + 1)]
    return found[1:]


if __name__ == "__main__":
    main()
