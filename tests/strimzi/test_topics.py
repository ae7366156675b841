"""A raise of the replication factor, of topics that a KafkaTopic owns and of topics that none owns."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.incident import operator, records
from tests.strimzi.case import StrimziCase, Timeline
from tests.testbed import apply, kubectl, strimzi, wait_for
from tests.testbed.steps import granted
from tests.testbed.strimzi import StrimziKafka

AFTERWARDS = 75
"""Seconds in which the Topic Operator, which looks every 30, has twice compared what was raised."""


def test_a_raise_with_and_without_a_kafka_topic(case: StrimziCase) -> None:
    kafka = case.made_by_strimzi
    owned, free = f"{case.name}.owned", case.topic([0], [1], [2], suffix="free")
    strict = f"{case.name}.strict"
    line = Timeline("a raise of topics with and without a KafkaTopic")
    apply([
        kafka_topic(kafka, owned, replicas=1, config={"min.insync.replicas": "1"}),
        kafka_topic(kafka, strict, replicas=3, config={"min.insync.replicas": "2"}),
    ])  # fmt: skip
    case.topics += [owned, strict]
    for name in (owned, strict):
        wait_for(f"the KafkaTopic {name}", lambda name=name: ready(kafka, name) == "True", 60)
    case.watch()
    run = case.wait("AwaitingApproval")
    line.note("proposed: " + run["status"]["plan"]["summary"])
    with records.flowing(case.boot, free) as traffic:
        assert operator.approve(run, "alice").returncode == 0
        line.note("approved")
        done = operator.wait_for_run(case.namespace, "Succeeded", 180, line.run, case.name, run["metadata"]["name"])
        line.journal(done)
        end = granted() + AFTERWARDS
        last: dict[str, str] = {}
        while granted() < end:
            now = {name: state(case, name) for name in (owned, strict, free)}
            for name, told in now.items():
                if last.get(name) != told:
                    line.note(f"{name.rpartition('.')[2]}: {told}")
            last = now
            time.sleep(1)
    line.show()
    for run in case.runs():
        print("  run", run["metadata"]["name"], run["spec"]["playbook"]["name"], operator.phase(run))
    factors = operator.factors(case.boot)
    assert factors[free] == {3}
    assert factors[strict] == {3}
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    print(f"  {len(traffic.acked)} records acknowledged and read meanwhile")


def kafka_topic(kafka: StrimziKafka, name: str, replicas: int, config: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaTopic",
        "metadata": {"name": name, "namespace": kafka.namespace, "labels": {strimzi.CLUSTER_LABEL: kafka.name}},
        "spec": {"partitions": 3, "replicas": replicas, "config": config},
    }


def ready(kafka: StrimziKafka, name: str) -> str:
    """The Ready condition's status, with its reason when it is not True."""
    conditions = kafka.resource("kafkatopic", name).get("status", {}).get("conditions", [])
    found = next((c for c in conditions if c["type"] == "Ready"), {"status": "Unknown"})
    return " ".join(str(found[key]) for key in ("status", "reason", "message") if key in found)


def state(case: StrimziCase, name: str) -> str:
    """What Kafka has of a topic, and what its KafkaTopic says."""
    factor = sorted(operator.factors(case.boot)[name])
    minimum = records.topic_setting(case.boot, name, "min.insync.replicas")
    found = kubectl("get", "kafkatopic", name, "-n", case.namespace, "-o", "json", check=False)
    told = "no KafkaTopic"
    if found.returncode == 0:
        spec = json.loads(found.stdout)["spec"]
        wanted = f"replicas {spec['replicas']} {spec.get('config', {})}"
        told = f"KafkaTopic {wanted}, Ready {ready(case.made_by_strimzi, name)}"
    return f"factor {factor}, min.insync.replicas {minimum}; {told}"
