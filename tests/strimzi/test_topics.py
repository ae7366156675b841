"""Replicas and min.insync.replicas of topics that a KafkaTopic owns and of one that none owns; with the Topic Operator
there, and with it away meanwhile."""

from __future__ import annotations

import json
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
PAUSE = "strimzi.io/pause-reconciliation"


@pytest.mark.parametrize("topic_operator", ["there", "away"])
def test_a_raise_with_and_without_a_kafka_topic(case: StrimziCase, topic_operator: str) -> None:
    raised(case, topic_operator)


def raised(case: StrimziCase, topic_operator: str) -> None:
    """Factor and min.insync.replicas, of a topic with a KafkaTopic and of one without, under load."""
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
    had = without_topic_operator(kafka) if topic_operator == "away" else None
    line.note(f"the Topic Operator is {topic_operator}")
    with records.flowing(case.boot, free) as traffic:
        run = planned(case, line, "raise-replication-factor")
        assert {c["topic"] for c in run["status"]["plan"]["changes"]} == {free, owned}
        (handed,) = run["status"]["plan"]["ownedTopics"]
        assert (handed["topic"], handed["by"]) == (owned, "Operator")
        if had is not None:
            assert operator.approve(run, "alice").returncode == 0
            name = run["metadata"]["name"]
            wait_for(
                "the run to wait", lambda: "has not yet confirmed the pause" in case.run(name)["status"]["message"], 60
            )
            assert operator.factors(case.boot)[owned] == {1}, "nothing is copied while nobody has seen the pause"
            with_topic_operator(kafka, had)
            line.note("the Topic Operator is back")
            ended = operator.wait_for_run(case.namespace, "Succeeded", 240, line.run, case.name, name)
            line.journal(ended)
        else:
            done(case, line, run)
        case.ask("raise-min-insync-replicas")
        done(case, line, case.wait("AwaitingApproval"))
        assert {records.topic_setting(case.boot, name, "min.insync.replicas") for name in mine} == {"2"}
        for name in mine:
            found = kafka.resource("kafkatopic", name)
            assert PAUSE not in found["metadata"].get("annotations", {})
            assert (found["spec"]["replicas"], found["spec"]["config"]["min.insync.replicas"]) == (3, 2)
        watched(case, line, (owned, strict, lax, free))
    line.show()
    print(f"  {len(traffic.acked)} records acknowledged and read meanwhile, {len(traffic.lost)} lost")
    factors = operator.factors(case.boot)
    assert {name: factors[name] for name in case.topics} == {name: {3} for name in case.topics}
    assert {records.topic_setting(case.boot, name, "min.insync.replicas") for name in mine} == {"2"}
    assert [ready(kafka, name) for name in mine] == ["True", "True"]
    # Leaders of the rolls before are given back by Kafka itself, within five minutes.
    wait_for("no finding", lambda: set(case.firing()) <= {"LeadersImbalanced"}, 120)
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


def without_topic_operator(kafka: StrimziKafka) -> dict[str, Any]:
    """The Kafka resource has none any more; what it had."""
    had: dict[str, Any] = kafka.resource()["spec"]["entityOperator"]["topicOperator"]
    with_topic_operator(kafka, None)
    return had


def with_topic_operator(kafka: StrimziKafka, had: dict[str, Any] | None) -> None:
    patch = {"spec": {"entityOperator": {"topicOperator": had}}}
    kubectl("patch", "kafka", kafka.name, "-n", kafka.namespace, "--type=merge", "-p", json.dumps(patch))
    kafka.wait_ready()


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
        topic = json.loads(found.stdout)
        wanted = f"replicas {topic['spec']['replicas']} {topic['spec'].get('config', {})}"
        told = f"KafkaTopic {wanted}, Ready {ready(case.made_by_strimzi, name)}"
        if asked := topic.get("status", {}).get("replicasChange"):
            told = f"{told}, Cruise Control is asked for {asked}"
    return f"factor {factor}, min.insync.replicas {minimum}; {told}"
