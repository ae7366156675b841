"""Strimzi's Cruise Control beside ours, on the cluster of dual.yaml."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.incident import operator, records
from tests.strimzi.case import StrimziCase, Timeline, nothing_of_ours, under_load
from tests.strimzi.conftest import NAMESPACE
from tests.strimzi.test_healthy import silent
from tests.strimzi.test_topics import raised
from tests.testbed import kubectl, load_image, strimzi, wait_for
from tests.testbed.strimzi import StrimziKafka
from tests.testbed.strimzi_images import CRUISE_CONTROL_IMAGE, cruise_control_image

WINDOW_MS = 60_000
"""Brokers report their metrics every minute, and Cruise Control proposes nothing before a window is over."""
MODEL_SECONDS = 600
UNEVEN = 60
"""Partitions on two of the three brokers. Cruise Control is content with a tenth more than the mean of replicas."""
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
    kafka, line = case.made_by_strimzi, Timeline("a roll while Cruise Control rebalances")
    uneven = case.topic(*([[0, 1]] * UNEVEN), suffix="uneven", config={"min.insync.replicas": "1"})
    for partition in range(UNEVEN):
        records.write(case.boot, uneven, ["x" * 100_000] * 3, partition)
    case.watch()
    try:
        rebalance(kafka)
        line.note("a KafkaRebalance")
        wait_for("a proposal", lambda: rebalance_is("ProposalReady"), MODEL_SECONDS, every=1)
        line.note("ProposalReady")
        case.ask("restart-broker", brokers="1")
        run = case.wait("AwaitingApproval")
        with under_load(case, line):
            kubectl("annotate", "kafkarebalance", "full", "-n", NAMESPACE, "strimzi.io/rebalance=approve")
            wait_for("Cruise Control to move replicas", lambda: rebalance_is("Rebalancing"), 120, every=0.5)
            line.note("Rebalancing")
            assert operator.approve(run, "alice").returncode == 0
            line.note("held: " + case.wait_for_guard("NoForeignRollout", 120)[:160])
            wait_for("the rebalance", lambda: rebalance_is("Ready"), 600, every=1)
            line.note("Ready")
            name = run["metadata"]["name"]
            done = operator.wait_for_run(case.namespace, "Succeeded", 300, line.run, case.name, name)
            line.journal(done)
    finally:
        kubectl("delete", "kafkarebalance", "full", "-n", NAMESPACE, "--ignore-not-found")
    nothing_of_ours(case)


def test_a_raise_with_and_without_a_kafka_topic(case: StrimziCase) -> None:
    """With Cruise Control the Topic Operator carries out a new number of replicas by itself: it has none to see."""
    raised(case, "there")
    log = kubectl("logs", "deployment/events-cruise-control", "-n", NAMESPACE, "--tail=-1").stdout
    assert "TOPIC_CONFIGURATION" not in log.upper().replace(" ", "_")


def test_a_healthy_cluster_is_silent(case: StrimziCase) -> None:
    silent(case)


def rebalance(kafka: StrimziKafka) -> None:
    """Slow enough to be seen. Each batch of moves takes Cruise Control half a minute, so there are few."""
    meta = {"name": "full", "namespace": NAMESPACE, "labels": {strimzi.CLUSTER_LABEL: kafka.name}}
    spec = {"replicationThrottle": 500_000, "concurrentPartitionMovementsPerBroker": 10, "skipHardGoalCheck": True,
            "goals": ["ReplicaDistributionGoal"]}  # fmt: skip
    operator.apply([{"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaRebalance", "metadata": meta, "spec": spec}])


def rebalance_is(state: str) -> bool:
    found = json.loads(kubectl("get", "kafkarebalance", "full", "-n", NAMESPACE, "-o", "json").stdout)
    conditions = found.get("status", {}).get("conditions", [])
    failed = [c for c in conditions if c["type"] == "NotReady"]
    assert failed == [], failed
    return any(c["type"] == state and c["status"] == "True" for c in conditions)
