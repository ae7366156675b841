"""A Deployment of consumers that is stopped for a reset of their offsets, and started again, whatever comes between."""

from __future__ import annotations

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from kafka_medic.cluster.groups import Committed, GroupOffsets
from kafka_medic.cluster.snapshot import TopicPartition
from tests.e2e.conftest import Case
from tests.gameday.scenario import Scene
from tests.incident import operator, records
from tests.testbed import apply, get, kubectl, wait_for

SHOP, REPLICAS = "shop", 2
IMPOSSIBLE = Committed(5000, 0, "of the application")
CONSUMER = """
import signal, sys
from confluent_kafka import Consumer
boot, group, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": boot, "group.id": group, "client.id": "shop", "enable.auto.commit": False,
                     "auto.offset.reset": "error", "log_level": 0})
signal.signal(signal.SIGTERM, lambda *_: (consumer.close(), sys.exit(0)))
consumer.subscribe([topic])
while True:
    message = consumer.poll(0.5)
    if message is not None and not message.error():
        consumer.commit(message=message, asynchronous=False)
"""
"""As an application that does not guess: it reads nothing from an offset that the log does not have."""


def test_stopped_for_the_reset_and_started_again_at_any_end(story: tuple[Scene, Case]) -> None:
    _, case = story
    topic, group = case.topic([0, 1, 2]), f"{case.name}-billing"
    tp = TopicPartition(topic, 0)
    assert records.write(case.boot, topic, [f"order-{n}" for n in range(21)]) == 21
    records.commit_offset(case.boot, group, topic, 10)
    kafka = RealKafka(Connection(case.boot))
    assert kafka.commit_offsets(group, {tp: IMPOSSIBLE}) == {}

    def now() -> GroupOffsets:
        (found,) = kafka.groups(lambda name: name == group).offsets
        return found

    def replicas() -> int:
        return int(get("deployment", SHOP, namespace=case.namespace)["spec"]["replicas"])

    apply([deployment(case.namespace, [case.boot, group, topic])])
    try:
        wait_for("the consumers in their group", lambda: now().state == "Stable", 120)
        case.ask("reset-offsets-of-workload", groups=group, workload=f"Deployment/{SHOP}")
        assert "forbidden" in case.wait_for_guard("PreconditionsHold"), "the operator may scale what it is given alone"
        operator.may_scale(case.namespace, SHOP)
        run = case.wait("AwaitingApproval")
        assert run["status"]["plan"]["workload"]["replicas"] == REPLICAS

        with records.joined(case.boot, group, topic, "a stranger"):
            assert operator.approve(run, "alice").returncode == 0
            wait_for("the consumers to be stopped", lambda: replicas() == 0, 90)
            wait_for(
                "the stranger to be noticed",
                lambda: "until its session times out" in message(case.asked, case.namespace),
                90,
            )
            pods = ("pods", "-l", "app.kubernetes.io/name=kafka-medic", "-n", operator.NAMESPACE)
            kubectl("delete", *pods, "--grace-period=0", "--force")
            assert operator.approve(run, "alice", "Reject").returncode == 0
            case.wait("Aborted", 180)
            assert replicas() == REPLICAS
            assert now().committed == {tp: IMPOSSIBLE}

        wait_for("the consumers in their group again", lambda: now().state == "Stable", 120)
        case.ask("reset-offsets-of-workload", groups=group, workload=f"Deployment/{SHOP}")
        run = case.wait("AwaitingApproval")
        assert operator.approve(run, "alice").returncode == 0
        done = case.wait("Succeeded", 180)
        assert [e["kind"] for e in done["status"]["journal"]] == ["ScaleWorkload", "SetOffsets", "ScaleWorkload"]
        assert replicas() == REPLICAS
        assert records.write(case.boot, topic, ["next", "after that"]) == 2
        wait_for("the consumers to go on", lambda: now().committed[tp].offset == 23, 120)
    finally:
        kubectl("delete", "deployment", SHOP, "-n", case.namespace, "--ignore-not-found")
        kafka.close()


def deployment(namespace: str, arguments: list[str]) -> operator.Object:
    """Of the operator's own image, which brings a client."""
    found = get("deployment", operator.RELEASE, namespace=operator.NAMESPACE)
    ours = found["spec"]["template"]["spec"]["containers"][0]
    container = {
        "name": SHOP,
        "image": ours["image"],
        "imagePullPolicy": ours["imagePullPolicy"],
        "command": ["python", "-c", CONSUMER, *arguments],
    }
    labels = {"app": SHOP}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": SHOP, "namespace": namespace},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "automountServiceAccountToken": False},
            },
        },
    }


def message(run: str | None, namespace: str) -> str:
    assert run is not None
    return str(get("remediation", run, namespace=namespace).get("status", {}).get("message", ""))
