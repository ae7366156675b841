"""A broker that does not come back from its restart, because it crash-loops or because its node takes no Pod: the roll
pauses, says what it waits for, touches nothing else, and goes on by itself once the broker is back."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable

from tests.e2e.conftest import Case, at_the_same_time
from tests.incident import operator, records
from tests.incident.watcher import Watcher
from tests.testbed import KafkaDeployment, follow, get, kubectl, wait_for

WITHIN = "20s"
BROKEN = "process.roles=nonsense\nbroker.id=nonsense\n"


def test_a_broker_that_does_not_come_back(installed: None, steady: list[KafkaDeployment]) -> None:
    at_the_same_time(rolled_in_spite, steady)


def rolled_in_spite(kafka: KafkaDeployment) -> None:
    operator.people(kafka.namespace)
    case = Case(kafka, f"stuck-{uuid.uuid4().hex[:4]}")
    topic = case.topic([0, 1, 2], [1, 2, 0], [2, 0, 1], config={"min.insync.replicas": "2"})
    operator.apply([operator.kafka_cluster(kafka, case.name, remediation={"limits": {"cooldown": "0s"}})])
    traffic, watcher = records.Traffic(case.boot, topic), Watcher(kafka)
    traffic.start()
    watcher.start()
    try:
        crash_looping(kafka, case)
        never_scheduled(kafka, case)
    finally:
        watcher.stop()
        traffic.stop()
    assert watcher.most_away == 1
    assert watcher.thinnest >= 2
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    case.end()


def crash_looping(kafka: KafkaDeployment, case: Case) -> None:
    """What its next start will read is broken before; nobody sees that on a broker that runs."""
    run = asked(case)
    first, *rest = [r["broker"] for r in run["status"]["plan"]["restarts"]]
    name = f"{first}.properties"
    whole = get("configmap", "kafka-settings", namespace=kafka.namespace)["data"][name]
    settings(kafka, name, BROKEN)
    before = uids(kafka)
    assert operator.approve(run, "alice").returncode == 0

    def restarts() -> int:
        told = kafka.pod(first)["status"].get("containerStatuses") or [{"restartCount": 0}]
        return int(told[0]["restartCount"])

    def paused() -> None:
        wait_for(f"broker {first} to crash three times", lambda: restarts() >= 3, 120)
        told(case, first, f"Pod kafka-{first} is not Ready yet", "not registered yet")
        assert {b: uids(kafka)[b] for b in rest} == {b: before[b] for b in rest}, "nobody else was touched"
        settings(kafka, name, whole)

    finished(case, before, paused)


def never_scheduled(kafka: KafkaDeployment, case: Case) -> None:
    """Its node is cordoned in the moment in which its Pod is told to go."""
    run = asked(case)
    first, *rest = [r["broker"] for r in run["status"]["plan"]["restarts"]]
    node, before = kafka.node_of(first), uids(kafka)
    leaving = follow(
        "get", "pod", kafka.pod_name(first), "-n", kafka.namespace, "--watch-only", "-o",
        'jsonpath={.metadata.deletionTimestamp}{"\\n"}',
    )  # fmt: skip

    def cordon() -> None:
        assert leaving.stdout is not None
        if any(line.strip() for line in leaving.stdout):
            kubectl("cordon", node)

    watching = threading.Thread(target=cordon)
    watching.start()
    try:
        assert operator.approve(run, "alice").returncode == 0
        watching.join(120)

        def paused() -> None:
            told(case, first, "not registered yet", "it has no Pod yet", "is not Ready yet")
            pod = kafka.pod(first)
            assert pod["status"]["phase"] == "Pending", pod["status"]
            assert {b: uids(kafka)[b] for b in rest} == {b: before[b] for b in rest}, "nobody else was touched"
            kubectl("uncordon", node)

        finished(case, before, paused)
    finally:
        leaving.terminate()
        leaving.wait(10)
        kubectl("uncordon", node)


def asked(case: Case) -> operator.Object:
    case.ask("rolling-restart", brokerWithin=WITHIN)
    return case.wait("AwaitingApproval")


def told(case: Case, broker: int, *lacking: str) -> None:
    """What a person on call reads."""
    message = case.wait("Paused", 120)["status"]["message"]
    assert f"broker {broker} is not back" in message
    assert f"(limit {WITHIN})" in message
    assert any(words in message for words in lacking), message
    print(f"\n{case.kafka.shape}: {message}")


def finished(case: Case, before: dict[int, str], paused: Callable[[], None]) -> None:
    case.wait("Paused", 180)
    paused()
    done = case.wait("Succeeded", 300)
    assert [e["state"] for e in done["status"]["journal"]] == ["Done"] * 3, "each broker once"
    after = uids(case.kafka)
    assert all(after[b] != before[b] for b in before)


def uids(kafka: KafkaDeployment) -> dict[int, str]:
    return {b: kafka.pod(b)["metadata"]["uid"] for b in (0, 1, 2)}


def settings(kafka: KafkaDeployment, name: str, text: str) -> None:
    patch = json.dumps({"data": {name: text}})
    kubectl("patch", "configmap", "kafka-settings", "-n", kafka.namespace, "--type=merge", "-p", patch)
