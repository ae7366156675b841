"""Replicas and min.insync.replicas of topics that a KafkaTopic owns and of one that none owns; with the Topic Operator
there, and with it away meanwhile."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import Any

import pytest

from tests.incident import operator, records
from tests.strimzi.case import StrimziCase, Timeline, nothing_of_ours
from tests.testbed import apply, kubectl, strimzi, wait_for
from tests.testbed.steps import granted
from tests.testbed.strimzi import StrimziKafka

AFTERWARDS = 75
"""Seconds in which the Topic Operator, which looks every 30, has twice compared what was raised."""
BY_THE_PLAN = bool(os.environ.get("OWNERS_EDIT"))
"""Whether plans have the edits of KafkaTopics as steps. Else a person pauses, edits and resumes them."""
PAUSE = "strimzi.io/pause-reconciliation"


@pytest.mark.parametrize("topic_operator", ["there", "away"])
def test_a_raise_with_and_without_a_kafka_topic(case: StrimziCase, topic_operator: str) -> None:
    kafka, line = case.made_by_strimzi, Timeline(f"a raise of topics, the Topic Operator {topic_operator}")
    owned, strict, lax = (f"{case.name}.{name}" for name in ("owned", "strict", "lax"))
    free, mine = case.topic([0], [1], [2], suffix="free"), [owned, lax]
    apply([
        kafka_topic(kafka, owned, replicas=1, config={"min.insync.replicas": "1"}),
        kafka_topic(kafka, strict, replicas=3, config={"min.insync.replicas": "2"}),
        kafka_topic(kafka, lax, replicas=3, config={"min.insync.replicas": "1"}),
    ])  # fmt: skip
    case.topics += [owned, strict, lax]
    for name in (owned, strict, lax):
        wait_for(f"the KafkaTopic {name}", lambda name=name: ready(kafka, name) == "True", 60)
    case.watch()
    if not BY_THE_PLAN:
        run = planned(case, line, "raise-replication-factor")
        assert {c["topic"] for c in run["status"]["plan"]["changes"]} == {free}, "what its owner undoes is left out"
        told = wait_for_finding(case, "TopicOwnedElsewhere")
        assert set(told["affected"]) == {owned, lax}
        line.note("found: " + told["evidence"][0])
        done(case, line, run)
        for name in mine:
            kubectl("annotate", "kafkatopic", name, "-n", kafka.namespace, f"{PAUSE}=true")
        line.note("the KafkaTopics of both are paused")
    if topic_operator == "away":
        entity_operator(kafka, 0)
        line.note("the Topic Operator is away")
    with records.flowing(case.boot, free) as traffic:
        run = planned(case, line, "raise-replication-factor")
        done(case, line, run)
        case.ask("raise-min-insync-replicas")
        done(case, line, case.wait("AwaitingApproval"))
        assert {records.topic_setting(case.boot, name, "min.insync.replicas") for name in mine} == {"2"}
        if not BY_THE_PLAN:
            for name in mine:
                edit = {"spec": {"replicas": 3, "config": {"min.insync.replicas": 2}}}
                kubectl("patch", "kafkatopic", name, "-n", kafka.namespace, "--type=merge", "-p", json.dumps(edit))
                kubectl("annotate", "kafkatopic", name, "-n", kafka.namespace, f"{PAUSE}-")
            line.note("the KafkaTopics are edited and not paused any more")
        if topic_operator == "away":
            entity_operator(kafka, 1)
            line.note("the Topic Operator is back")
        watched(case, line, (owned, strict, lax, free))
    line.show()
    print(f"  {len(traffic.acked)} records acknowledged and read meanwhile, {len(traffic.lost)} lost")
    factors = operator.factors(case.boot)
    assert {name: factors[name] for name in case.topics} == {name: {3} for name in case.topics}
    assert {records.topic_setting(case.boot, name, "min.insync.replicas") for name in mine} == {"2"}
    assert [ready(kafka, name) for name in mine] == ["True", "True"]
    wait_for("no finding", lambda: case.firing() == [], 120)
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    assert operator.throttles(case.boot) == []
    nothing_of_ours(case)


def planned(case: StrimziCase, line: Timeline, playbook: str) -> operator.Object:
    run = operator.wait_for_run(case.namespace, "AwaitingApproval", 120, line.run, case.name, playbook=playbook)
    line.note("planned: " + run["status"]["plan"]["summary"].splitlines()[0])
    return run


def done(case: StrimziCase, line: Timeline, run: operator.Object) -> None:
    assert operator.approve(run, "alice").returncode == 0
    line.note("approved")
    ended = operator.wait_for_run(case.namespace, "Succeeded", 240, line.run, case.name, run["metadata"]["name"])
    line.journal(ended)


def wait_for_finding(case: StrimziCase, kind: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    def fires() -> bool:
        every = case.status().get("findings", [])
        found[:] = [f for f in every if f["type"] == kind and f["state"] == "Firing"]
        return bool(found)

    wait_for(kind, fires, 120)
    return found[0]


def entity_operator(kafka: StrimziKafka, replicas: int) -> None:
    """Strimzi starts it again by itself when it next reconciles, so the Kafka resource is paused meanwhile."""
    pause = f"{PAUSE}=true" if replicas == 0 else f"{PAUSE}-"
    kubectl("annotate", "kafka", kafka.name, "-n", kafka.namespace, pause)
    deployment = f"deployment/{kafka.name}-entity-operator"
    kubectl("scale", deployment, "-n", kafka.namespace, f"--replicas={replicas}")
    wait = ("rollout", "status", deployment, "-n", kafka.namespace, "--timeout=120s")
    kubectl(*wait, timeout=130)


def watched(case: StrimziCase, line: Timeline, topics: Sequence[str]) -> None:
    """What becomes of the topics while the Topic Operator looks."""
    end, last = granted() + AFTERWARDS, dict[str, str]()
    while granted() < end:
        now = {name: state(case, name) for name in topics}
        for name, told in now.items():
            if last.get(name) != told:
                line.note(f"{name.rpartition('.')[2]}: {told}")
        last = now
        time.sleep(1)


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
