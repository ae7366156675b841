"""A log that was lost under a group, and grew past its offset since: found all the same, set back, and read on from."""

from __future__ import annotations

import uuid

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from kafka_medic.cluster.snapshot import TopicPartition
from tests.e2e.conftest import Case, at_the_same_time
from tests.gameday import cluster
from tests.gameday.scenario import Scene
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, get, wait_for


def test_a_group_whose_log_was_lost_reads_on_from_where_the_new_one_begins(
    installed: None, steady: list[KafkaDeployment]
) -> None:
    at_the_same_time(lost_and_found, steady)


def lost_and_found(kafka: KafkaDeployment) -> None:
    operator.people(kafka.namespace)
    scene = Scene(kafka, f"lost-{uuid.uuid4().hex[:4]}")
    case = Case(kafka, scene.name)
    topic = case.topic([1], config={"min.insync.replicas": "1"})
    group, tp = f"{case.name}-billing", TopicPartition(topic, 0)
    case.watch(
        expectations={"topics": [{"pattern": ".*", "exempt": True}]},
        remediation={"limits": {"cooldown": "0s"}},
    )
    assert records.write(case.boot, topic, [f"order-{n}" for n in range(21)]) == 21
    assert len(records.read_group(case.boot, group, topic, 21)) == 21
    looked_at(case)

    cluster.lose_log(scene, topic, 1)
    case.condition("OffsetsConsistent", "False")
    assert records.write(case.boot, topic, [f"later-{n}" for n in range(30)]) == 30
    looked_at(case)
    assert any(f["type"] == "LogEndRegressed" for f in scene.findings()), "though 21 lies within the log by now"

    case.ask("reset-consumer-offsets", groups=group)
    run = case.wait("AwaitingApproval")
    (change,) = run["status"]["plan"]["offsets"]
    assert (change["before"], change["after"], change["logEnd"]) == (21, 0, 30)
    assert change["skipped"] == 0, change
    assert operator.approve(run, "alice").returncode == 0
    case.wait("Succeeded")
    read = records.read_group(case.boot, group, topic, 30)
    assert [value for _, value in read] == [f"later-{n}" for n in range(30)], "nothing skipped, nothing twice"
    client = RealKafka(Connection(case.boot))
    (found,) = client.groups(lambda name: name == group)
    assert found.committed[tp].offset == 30
    client.close()
    case.end()


def looked_at(case: Case) -> None:
    """The operator has looked twice more, so that it has seen what is there now."""
    for _ in range(2):
        before = _at(case)
        wait_for("another look", lambda b=before: _at(case) > b, 60)  # type: ignore[misc]


def _at(case: Case) -> str:
    return str(get("kafkaclusters", case.name, namespace=case.namespace).get("status", {}).get("lastObservedAt", ""))
