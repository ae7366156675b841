"""Deleted while partitions move, on real parts: Kafka is as it was before, and the objects go."""

from __future__ import annotations

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from tests.e2e.conftest import Case
from tests.incident import operator, records
from tests.testbed import get, kubectl, wait_for


def test_the_kafkacluster_deleted_in_mid_run(zookeeper_case: Case) -> None:
    deleted_in_mid_run("kafkacluster", zookeeper_case)


def test_the_remediation_deleted_in_mid_run(kraft_case: Case) -> None:
    deleted_in_mid_run("remediation", kraft_case)


def deleted_in_mid_run(what: str, case: Case) -> None:
    topic = case.topic([1])
    # Large beside the smallest throttle that the playbook allows: copied for half a minute, while we look.
    records.write(case.boot, topic, ["x" * 500_000 for _ in range(60)])
    slow = {"name": "raise-replication-factor", "parameters": {"throttleBytesPerSecond": 1_000_000}}
    case.watch(remediation={"playbooks": [slow]})
    run = case.wait("AwaitingApproval")
    assert "finalizers" not in run["metadata"]
    assert operator.approve(run, "alice").returncode == 0
    kafka = RealKafka(Connection(case.boot))
    try:
        wait_for("the reassignment in flight", lambda: bool(kafka.reassignments()), 60)
        assert operator.throttles(case.boot)
        for kind, name in (("kafkacluster", case.name), ("remediation", run["metadata"]["name"])):
            held = get(kind, name, namespace=case.namespace)["metadata"].get("finalizers")
            assert held == ["kafkamedic.dev/restore"]
        gone = case.name if what == "kafkacluster" else run["metadata"]["name"]
        kubectl("delete", f"{what}s.kafkamedic.dev", gone, "-n", case.namespace, "--timeout=60s", timeout=70)
        assert kafka.reassignments() == {}
        assert operator.throttles(case.boot) == []
        assert case.factors() == {1}, "cancelled, and not finished in the meantime"
    finally:
        kafka.close()
    if what == "remediation":

        def let_go() -> bool:
            return "finalizers" not in get("kafkacluster", case.name, namespace=case.namespace)["metadata"]

        wait_for("the KafkaCluster let go", let_go, 30)
    else:
        wait_for("the Remediation gone with it", lambda: case.runs() == [], 60)
