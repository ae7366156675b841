"""Strimzi's Cruise Control beside ours, on the cluster of dual.yaml."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest

from benchmarks.replace import LIVE, Load
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection, PartitionState
from kafka_medic.cluster.snapshot import TopicPartition
from tests.incident import operator, records
from tests.strimzi.case import SAFE, StrimziCase, Timeline, nothing_of_ours, under_load
from tests.strimzi.conftest import NAMESPACE
from tests.strimzi.executors import THROTTLE, CruiseControl, Executor, Ours
from tests.strimzi.test_healthy import silent
from tests.strimzi.test_topics import raised
from tests.testbed import kubectl, load_image, wait_for
from tests.testbed.strimzi import StrimziKafka
from tests.testbed.strimzi_images import CRUISE_CONTROL_IMAGE, cruise_control_image

WINDOW_MS = 60_000
"""Brokers report their metrics every minute, and Cruise Control proposes nothing before a window is over."""
UNEVEN = 60
"""Partitions on two of the three brokers. Cruise Control is content with a tenth more than the mean of replicas."""
RECORD, BYTES = 100_000, 8_000_000
"""Bytes of a record, and of each of those partitions in the comparison of executors."""
NEW, SOME = 2, 8
"""The third broker, and how many replicas it has got when somebody disturbs."""
AT_THE_LATEST, GIVEN_UP = 60.0, 420.0
"""Seconds from the first copies to the disturbance, and from the approval until nobody waits for the end any more."""
AFTERWARDS = 60.0
"""Seconds that an executor has to clear what it has left."""
ALL_EXEMPT = {"pattern": ".*", "exempt": True}
WITH = {
    "kafka": {"image": CRUISE_CONTROL_IMAGE},
    "cruiseControl": {
        "image": CRUISE_CONTROL_IMAGE,
        "jvmOptions": {"-Xms": "128m", "-Xmx": "384m"},
        "resources": {"requests": {"memory": "512Mi", "cpu": "50m"}},
        "livenessProbe": {"initialDelaySeconds": 60, "timeoutSeconds": 20},
        "readinessProbe": {"timeoutSeconds": 20},
        "config": {
            "partition.metrics.window.ms": WINDOW_MS,
            "broker.metrics.window.ms": WINDOW_MS,
            "metric.sampling.interval.ms": WINDOW_MS,
        },
    },
}
WITHOUT = {"kafka": {"image": None}, "cruiseControl": None}


@pytest.fixture(scope="module", autouse=True)
def cruise_control(installed: None, events: StrimziKafka) -> Iterator[None]:
    """Strimzi restarts each broker for it, and once more afterwards."""
    load_image(cruise_control_image())
    line = Timeline("Cruise Control")
    line.note("added to the Kafka resource")
    changed(events, WITH)
    line.note("Ready, and every broker reports its metrics")
    line.show()
    yield
    changed(events, WITHOUT)


def changed(kafka: StrimziKafka, spec: dict[str, object]) -> None:
    kubectl("patch", "kafka", kafka.name, "-n", NAMESPACE, "--type=merge", "-p", json.dumps({"spec": spec}))
    kafka.wait_ready()
    kafka.wait_settled()


def test_a_rebalance_holds_ours(case: StrimziCase) -> None:
    """A real one, which moves replicas: our roll waits until it is over, and goes on by itself."""
    theirs, line = CruiseControl(case), Timeline("a roll while Cruise Control rebalances")
    uneven = case.topic(*([[0, 1]] * UNEVEN), suffix="uneven", config={"min.insync.replicas": "1"})
    for partition in range(UNEVEN):
        records.write(case.boot, uneven, ["x" * 100_000] * 3, partition)
    case.watch()
    try:
        # Slow enough to be seen.
        theirs.propose(replicationThrottle=500_000)
        line.note("ProposalReady")
        case.ask("restart-broker", brokers="1")
        run = case.wait("AwaitingApproval")
        with under_load(case, line):
            theirs.approve()
            wait_for("Cruise Control to move replicas", lambda: theirs.said() == "Rebalancing", 120, every=0.5)
            line.note("Rebalancing")
            assert operator.approve(run, "alice").returncode == 0
            line.note("held: " + case.wait_for_guard("NoForeignRollout", 120)[:160])
            wait_for("the rebalance", theirs.is_over, 600, every=1)
            assert theirs.said() == "Ready"
            line.note("Ready")
            name = run["metadata"]["name"]
            done = operator.wait_for_run(case.namespace, "Succeeded", 300, line.run, case.name, name)
            line.journal(done)
    finally:
        theirs.forget()
    nothing_of_ours(case)


def test_a_raise_with_and_without_a_kafka_topic(case: StrimziCase) -> None:
    """With Cruise Control the Topic Operator carries out a new number of replicas by itself: it has none to see."""
    raised(case, "there")
    log = kubectl("logs", "deployment/events-cruise-control", "-n", NAMESPACE, "--tail=-1").stdout
    assert "TOPIC_CONFIGURATION" not in log.upper().replace(" ", "_")


def test_a_healthy_cluster_is_silent(case: StrimziCase) -> None:
    silent(case)


def test_its_executor_beside_ours(case: StrimziCase) -> None:
    """Each makes the brokers even at the same throttle under the same load: to its end, stopped in the middle, and with
    its process killed in the middle. What is left behind is counted, and has to be nothing of ours."""
    uneven = case.topic(*([[0, 1], [1, 0]] * (UNEVEN // 2)), suffix="uneven", config={"min.insync.replicas": "1"})
    live = case.topic(*[[n % 3, (n + 1) % 3, (n + 2) % 3] for n in range(LIVE)], suffix="live", config=SAFE)
    for partition in range(UNEVEN):
        assert records.write(case.boot, uneven, ["x" * RECORD] * (BYTES // RECORD), partition) == BYTES // RECORD
    quiet = [{"name": "elect-preferred-leaders", "mode": "Observe"}]
    # Replicas of exempt topics stay where they are.
    case.watch(
        expectations={"topics": [{"pattern": rf"(?:{case.name}\..*)", "replicationFactor": 2}, ALL_EXEMPT]},
        remediation={"limits": {"cooldown": "0s"}, "playbooks": quiet},
    )
    case.condition("Ready", "True")
    for disturb in (None, "stop", "kill"):
        for executor in (CruiseControl(case), Ours(case)):
            with closing(RealKafka(Connection(case.boot, timeout_seconds=20.0))) as kafka:
                left = moved(case, kafka, executor, disturb, live)
                assert executor.name != Ours.name or left == NOTHING
                as_it_was(case, kafka)


class Left(NamedTuple):
    """Behind an executor that has ended: partitions on their way, throttles, and how many have a replica too many."""

    on_their_way: int
    throttles: list[str]
    too_many: int

    def __str__(self) -> str:
        too_many = f"{self.too_many} with a replica too many"
        return f"{self.on_their_way} partitions on their way, {len(self.throttles)} throttles, {too_many}"


NOTHING = Left(0, [], 0)


def moved(case: StrimziCase, kafka: RealKafka, executor: Executor, disturb: str | None, live: str) -> Left:
    uneven = case.topics[0]

    def there() -> list[PartitionState]:
        view = kafka.views([0])[0]
        assert isinstance(view, BrokerView)
        return [p for p in view.partitions if p.topic == uneven and NEW in p.isr]

    load, notes = Load(case.boot, live), list[str]()
    executor.propose()
    try:
        with load.running():
            began = time.monotonic()
            executor.approve()
            try:
                wait_for("the first copies", lambda: bool(kafka.reassignments()), 120, every=0.2)
            except Exception as problem:
                raise AssertionError(f"{executor.name} is {executor.said()}: {executor.why()}") from problem
            notes.append(f"first copies after {time.monotonic() - began:.0f} s")
            if disturb is not None:
                late = time.monotonic() + AT_THE_LATEST
                wait_for("some to be in sync", lambda: len(there()) >= SOME or time.monotonic() > late, 240, every=0.2)
                notes.append(f"{disturb} after {time.monotonic() - began:.0f} s with {len(there())} in sync")
                getattr(executor, disturb)()
            most, grown, over = 0, 0.0, False
            while not over and time.monotonic() - began < GIVEN_UP:
                over, at = executor.is_over(), len(there())
                if at > most:
                    most, grown = at, time.monotonic() - began
                time.sleep(0.5)
            ended = time.monotonic() - began
        left, stay = left_by(case, kafka, uneven), len(there())
        notes.append(f"{most} in sync after {grown:.0f} s (the throttle's bound: {most * BYTES / THROTTLE:.0f} s)")
        notes.append(f"{executor.said()} after {ended:.0f} s with {stay} of them; left: {left}")
        if left != NOTHING:
            late, now = time.monotonic() + AFTERWARDS, [left]

            def cleared() -> bool:
                now[0] = left_by(case, kafka, uneven)
                return now[0] == NOTHING or time.monotonic() > late

            wait_for("it to clear what is left", cleared, 2 * AFTERWARDS, every=1)
            notes.append(f"{AFTERWARDS:.0f} s later, or as soon as nothing was left: {now[0]}")
    finally:
        executor.forget()
    cuts = statistics.quantiles(load.latencies, n=100)
    print(
        f"{executor.name}, {disturb or 'to its end'}: {'; '.join(notes)}; producer p50 {1000 * cuts[49]:.0f} ms, p99 "
        f"{1000 * cuts[98]:.0f} ms, at most {1000 * max(load.latencies):.0f} ms of {len(load.latencies)} records, "
        f"{load.failed} failed",
        flush=True,
    )
    assert load.failed == 0
    return left


def left_by(case: StrimziCase, kafka: RealKafka, topic: str) -> Left:
    view = kafka.views([0])[0]
    assert isinstance(view, BrokerView)
    many = sum(p.topic == topic and len(p.replicas) > 2 for p in view.partitions)
    return Left(len(kafka.reassignments()), operator.throttles(case.boot), many)


def as_it_was(case: StrimziCase, kafka: RealKafka) -> None:
    """On two brokers alone, without what the other one left."""
    uneven = case.topics[0]
    operator.remove_throttles(case.boot, [0, 1, 2])
    kafka.alter_reassignments(dict.fromkeys(kafka.reassignments()))
    kafka.alter_reassignments({TopicPartition(uneven, n): [n % 2, 1 - n % 2] for n in range(UNEVEN)})

    def back() -> bool:
        view = kafka.views([0])[0]
        return isinstance(view, BrokerView) and all(
            set(p.isr) == set(p.replicas) == {0, 1} for p in view.partitions if p.topic == uneven
        )

    wait_for("all of it on two brokers", back, 300, every=1)
