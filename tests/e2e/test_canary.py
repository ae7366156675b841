"""The canary on real parts: what it measures, and what it says of one broker."""

from __future__ import annotations

from typing import Any

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection
from kafka_medic.controller.canary_topic import recognised
from tests.e2e.conftest import Case
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, faults, get, kubectl, wait_for

ROUND_SECONDS = 1


def watch(case: Case) -> str:
    """A KafkaCluster with a canary of its own; the name of its topic."""
    topic = f"{case.name}.canary"
    if topic not in case.topics:
        case.topics.append(topic)
    probes = {
        "interval": f"{ROUND_SECONDS}s",
        "timeout": "2s",
        "canary": {"enabled": True, "topic": topic, "timeout": "1s"},
    }
    case.watch(probes=probes, remediation={"mode": "Observe"})
    return topic


def operator_pod() -> Any:
    (pod,) = get("pods", namespace=operator.NAMESPACE, selector="app.kubernetes.io/name=kafka-medic")["items"]
    return pod


def metrics() -> dict[str, float]:
    """Series by name and labels, through the chart's Service."""
    path = f"/api/v1/namespaces/{operator.NAMESPACE}/services/{operator.RELEASE}-metrics:metrics/proxy/metrics"
    lines = kubectl("get", "--raw", path).stdout.splitlines()
    return {k: float(v) for k, _, v in (line.rpartition(" ") for line in lines if line and not line.startswith("#"))}


def finding(case: Case, kind: str) -> dict[str, Any] | None:
    status = get("kafkacluster", case.name, namespace=case.namespace).get("status", {})
    return next((f for f in status.get("findings", []) if f["type"] == kind), None)


def firing(case: Case, kind: str) -> bool:
    found = finding(case, kind)
    return found is not None and found["state"] == "Firing"


def leaders(case: Case, topic: str) -> dict[int, tuple[int, tuple[int, ...]]]:
    """Partition -> leader and ISR, as broker 0 tells them."""
    kafka = RealKafka(Connection(case.boot))
    try:
        view = kafka.views([0])[0]
        assert isinstance(view, BrokerView)
        return {p.partition: (p.leader, tuple(sorted(p.isr))) for p in view.partitions if p.topic == topic}
    finally:
        kafka.close()


def broker_address(kafka: KafkaDeployment, broker: int) -> str:
    return faults.pod_address(kafka.namespace, kafka.pod_name(broker))


def test_one_brokers_client_listener_cut(case: Case) -> None:
    topic = watch(case)
    case.condition("CanaryHealthy", "True", seconds=90)
    led = leaders(case, topic)
    assert sorted(leader for leader, _ in led.values()) == [0, 1, 2], "each broker leads one partition"
    of_one = next(p for p, (leader, _) in led.items() if leader == 1)

    latencies = {
        f'kafka_medic_canary_latency_seconds_count{{broker="{leader}",cluster="{case.name}",'
        f'namespace="{case.namespace}",partition="{partition}",stage="{stage}"}}'
        for partition, (leader, _) in led.items()
        for stage in ("produce", "consume")
    }
    wait_for("latencies of each broker", lambda: latencies <= metrics().keys(), 30)
    told = metrics()
    me = f'{{cluster="{case.name}",namespace="{case.namespace}"}}'
    assert told[f"kafka_medic_lease_held{me}"] == 1
    assert told[f"kafka_medic_last_reconcile_timestamp_seconds{me}"] > 1.7e9

    pod = operator_pod()["status"]["podIP"]
    with faults.link_cut(pod, broker_address(case.kafka, 1), 9092):
        wait_for("CanaryFailing", lambda: firing(case, "CanaryFailing"), 180)
        found = finding(case, "CanaryFailing")
        assert found is not None
        assert found["id"] == "CanaryFailing/broker-1"
        assert found["affected"] == ["broker-1", f"{topic}-{of_one}"]
        assert any("all failing partitions are led by broker 1; records through brokers 0, 2 succeed" in e
                   for e in found["evidence"])  # fmt: skip
        case.condition("CanaryHealthy", "False", "CanaryFailing")
        assert leaders(case, topic)[of_one] == (1, (0, 1, 2)), "it is in every ISR all the while"
    case.condition("CanaryHealthy", "True", seconds=90)
    assert finding(case, "CanaryFailing") is None

    kubectl("delete", "kafkacluster", case.name, "-n", case.namespace)
    wait_for("its series to be gone", lambda: not any(f'cluster="{case.name}"' in name for name in metrics()), 60)


def test_a_topic_of_somebody_elses(kraft_case: Case) -> None:
    case = kraft_case
    theirs = case.topic([0], suffix="canary")
    records.write(case.boot, theirs, ["theirs"])
    watch(case)
    found = case.condition("CanaryHealthy", "Unknown", "SourceUnknown")
    wait_for(
        "the topic's owner to be told",
        lambda: (
            "was not made by kafka-medic" in operator.condition(case.namespace, case.name, "CanaryHealthy")["message"]
        ),
        60,
    )
    assert found["status"] == "Unknown"
    assert records.log_end(case.boot, theirs) == 1, "nothing was written to it"
    kafka = RealKafka(Connection(case.boot))
    try:
        assert not recognised(kafka.topic_configs([theirs])[theirs])
    finally:
        kafka.close()
