"""The owner changes the configuration and restarts one broker after the other, in good order: nothing is said of it."""

from __future__ import annotations

import uuid

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection
from tests.e2e.conftest import Case, at_the_same_time
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, get, kubectl, wait_for

SETTINGS = ("min.insync.replicas", "default.replication.factor")
BEFORE = {"min.insync.replicas": "2", "default.replication.factor": "3"}
AFTER = {"min.insync.replicas": "1", "default.replication.factor": "2"}
STAYING = {"VersionAdvisory", "LeadersImbalanced"}
"""ZooKeeper's time is over, and leaders come home by an election of somebody's."""
RESTARTING = STAYING | {"BrokerDown", "PartitionUnderReplicated", "ControllerMissing", "QuorumDegraded"}
"""What a restart may show for a while."""


def test_a_rolling_change_of_configuration(steady: list[KafkaDeployment], installed: None) -> None:
    at_the_same_time(changed, steady)


def changed(kafka: KafkaDeployment) -> None:
    operator.people(kafka.namespace)
    case = Case(kafka, f"rolling-{uuid.uuid4().hex[:5]}")
    orders = case.topic([0, 1, 2], [1, 2, 0], config={"min.insync.replicas": "2"})
    traffic = records.Traffic(case.boot, orders)
    case.watch(expectations={"minInSyncReplicas": 1, "replicationFactor": 2})
    said = set[str]()
    traffic.start()
    try:
        wait_for("a first look", lambda: bool(conditions(case)), 60)
        write_down(kafka, BEFORE, AFTER)
        for broker in (0, 1, 2):
            said |= restarted(kafka, case, broker, orders)
        wait_for("quiet", lambda: types(findings(case)) <= STAYING, 180)
        assert types(said) <= RESTARTING, said
        assert {r["spec"]["playbook"]["name"] for r in case.runs()} <= {"elect-preferred-leaders"}
    finally:
        traffic.stop()
        write_down(kafka, AFTER, BEFORE)
        for broker in (0, 1, 2):
            kafka.restart_broker(broker)
        case.end()
    assert (traffic.lost, traffic.doubled) == (set(), [])
    print(f"\n{kafka.shape}: {sorted(said)}")


def restarted(kafka: KafkaDeployment, case: Case, broker: int, topic: str) -> set[str]:
    """By its owner. What was said meanwhile."""
    said = set[str]()
    kubectl("delete", "pod", kafka.pod_name(broker), "-n", kafka.namespace, "--wait=true", "--timeout=60s")

    def back() -> bool:
        said.update(findings(case))
        return kafka.is_ready(broker)

    wait_for(kafka.pod_name(broker), back, 120)
    wait_for("its replicas", lambda: in_sync(case, topic), 60)
    return said | findings(case)


def write_down(kafka: KafkaDeployment, before: dict[str, str], after: dict[str, str]) -> None:
    """In the file that the next start of each broker reads."""
    found = get("configmap", "kafka-settings", namespace=kafka.namespace)
    for number in (0, 1, 2):
        text = found["data"][f"{number}.properties"]
        for setting in SETTINGS:
            assert f"\n{setting}={before[setting]}\n" in text
            text = text.replace(f"\n{setting}={before[setting]}\n", f"\n{setting}={after[setting]}\n")
        found["data"][f"{number}.properties"] = text
    for field in ("managedFields", "resourceVersion"):
        found["metadata"].pop(field, None)
    operator.apply([found])


def in_sync(case: Case, topic: str) -> bool:
    client = RealKafka(Connection(case.boot, timeout_seconds=10.0))
    try:
        views = [v for v in client.views([0, 1, 2]).values() if isinstance(v, BrokerView)]
    finally:
        client.close()
    return len(views) == 3 and all(len(p.isr) == 3 for v in views for p in v.partitions if p.topic == topic)


def findings(case: Case) -> set[str]:
    """Those that fire."""
    status = get("kafkacluster", case.name, namespace=case.namespace).get("status", {})
    return {f["id"] for f in status.get("findings", []) if f["state"] == "Firing"}


def types(ids: set[str]) -> set[str]:
    return {name.partition("/")[0] for name in ids}


def conditions(case: Case) -> list[object]:
    return list(get("kafkacluster", case.name, namespace=case.namespace).get("status", {}).get("conditions", []))
