"""A cluster that was grown from one broker and never told of it: topics first, then the brokers' own defaults, with a
person who forgets the configuration, and then does not. Records are written with acks=all all the while."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from kafka_medic.cluster.snapshot import ConfigValue
from tests.conftest import one_of_each_kind
from tests.e2e.conftest import Case, at_the_same_time
from tests.gameday.test_unfinished_roll import uids
from tests.incident import operator, records
from tests.incident.watcher import Watcher
from tests.testbed import FACTOR_ONE, KafkaDeployment, Shape, apply, get, kubectl, wait_for

SLOTS: dict[Shape, int] = {"kraft": 11, "zookeeper": 12}
MIN_ISR = "min.insync.replicas"
RIGHT = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
"""The file's own min.insync.replicas stays 1: that one is set at run time."""


@pytest.fixture(scope="module")
def grown(request: pytest.FixtureRequest, installed: None) -> list[KafkaDeployment]:
    return one_of_each_kind(request, "defaults", FACTOR_ONE, SLOTS)


@pytest.fixture
def sooner(installed: None) -> Iterator[None]:
    """Proposed after two seconds; other tests have no use for it."""
    patch = ("patch", "playbook", "raise-defaults", "--type=merge", "-p")
    kubectl(*patch, '{"spec":{"trigger":{"for":"2s"}}}')
    yield
    kubectl(*patch, '{"spec":{"trigger":{"for":"1h"}}}')


def test_defaults_of_one_are_corrected(grown: list[KafkaDeployment], sooner: None) -> None:
    at_the_same_time(corrected, grown)


def corrected(kafka: KafkaDeployment) -> None:
    operator.people(kafka.namespace)
    case = Case(kafka, f"defaults-{uuid.uuid4().hex[:4]}")
    plain = case.topic([0, 1, 2], [1, 2, 0], [2, 0, 1], suffix="plain")
    assert records.write(case.boot, plain, ["first"]) == 1
    assert records.read_group(case.boot, f"{case.name}-group", plain, 1), "so that the offsets topic is there, with 1"
    assert operator.factors(case.boot)["__consumer_offsets"] == {1}
    operator.apply([operator.kafka_cluster(kafka, case.name, remediation={"limits": {"cooldown": "0s"}})])
    topics_first(case)
    before = uids(kafka)
    traffic, watcher = records.Traffic(case.boot, plain), Watcher(kafka)
    traffic.start()
    watcher.start()
    try:
        first = forgotten(case, before)
        configured(kafka)
        assert operator.approve(wait(case, "Paused"), "alice").returncode == 0
        done = wait(case, "Succeeded", 600)
    finally:
        watcher.stop()
        traffic.stop()
    after, ids = uids(kafka), [e["id"].rpartition("/")[2] for e in done["status"]["journal"]]
    assert all(after[b] != before[b] for b in before)
    assert ids[:2] == [f"restart-{first}", f"restart-{first}-again-1"]
    assert len(ids) == 5, "the others once, and the minimum"
    assert [e["state"] for e in done["status"]["journal"]] == ["Void", "Done", "Done", "Done", "Done"]
    everything_reads_it(case)
    gone = [f["id"] for f in get("kafkacluster", case.name, namespace=case.namespace)["status"].get("findings", [])]
    assert not [f for f in gone if f.startswith("ReplicationFactorLow")]
    assert watcher.most_away == 1
    assert watcher.thinnest >= 2
    assert traffic.acked
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    print(f"\n{kafka.shape}: {len(traffic.acked)} records acknowledged and read meanwhile; {', '.join(ids)}")
    case.end()


def topics_first(case: Case) -> None:
    """Two runs are proposed; that of the defaults has no plan before the other is through."""
    raise_ = {"cluster": case.name, "playbook": "raise-replication-factor"}
    run = operator.wait_for_run(case.namespace, "AwaitingApproval", **raise_)
    wait_for("the run about defaults to say what it waits for", lambda: "come first" in message(case), 60)
    assert operator.approve(run, "alice").returncode == 0
    operator.wait_for_run(case.namespace, "Succeeded", 240, **raise_)


def forgotten(case: Case, before: dict[int, str]) -> int:
    """Approved though nobody has changed a file: one restart is for nothing. Which broker it was."""
    run = wait(case, "AwaitingApproval")
    plan = run["status"]["plan"]
    told = {(s["name"], s["before"], s["after"], tuple(s["brokers"])) for s in plan["staticSettings"]}
    assert told == {(name, "1", value, (0, 1, 2)) for name, value in RIGHT.items()}
    assert "BEFORE YOU APPROVE" in plan["summary"]
    assert operator.approve(run, "alice").returncode == 0
    said = wait(case, "Paused", 240)["status"]["message"]
    found = re.match(
        r"broker (\d) came back with default.replication.factor=1, .*its configuration still has the old value", said
    )
    assert found, said
    print(f"\n{case.kafka.shape}: {said}")
    for _ in range(2):
        last = looked(case)
        wait_for("another look", lambda last=last: looked(case) > last, 60)  # type: ignore[misc]
    now = uids(case.kafka)
    assert [b for b in before if now[b] != before[b]] == [int(found[1])], "nobody else was touched"
    assert cluster_wide(case) != "2"
    return int(found[1])


def looked(case: Case) -> str:
    return str(get("kafkacluster", case.name, namespace=case.namespace)["status"]["lastObservedAt"])


def configured(kafka: KafkaDeployment) -> None:
    """As the owner of the brokers' configuration would, for all of them; nothing rolls them out."""
    settings = get("configmap", "kafka-settings", namespace=kafka.namespace)
    for number in (0, 1, 2):
        text = settings["data"][f"{number}.properties"]
        for name, value in RIGHT.items():
            text, count = re.subn(rf"^{re.escape(name)}=.*$", f"{name}={value}", text, flags=re.MULTILINE)
            assert count == 1, name
        settings["data"][f"{number}.properties"] = text
    apply([{k: settings[k] for k in ("apiVersion", "kind", "data")} | {"metadata": _meta(settings)}])


def everything_reads_it(case: Case) -> None:
    kafka = RealKafka(Connection(case.boot))
    try:
        for broker, told in kafka.broker_configs([0, 1, 2]).items():
            assert {name: told[name].value for name in RIGHT} == RIGHT, broker
            assert told[MIN_ISR].value == "2"
        assert kafka.cluster_configs()[MIN_ISR] == ConfigValue("2", True)
        admin, name = AdminClient({"bootstrap.servers": case.boot}), f"{case.name}.born"
        case.topics.append(name)
        admin.create_topics([NewTopic(name, 1, -1)])[name].result(30)
        wait_for("a topic born with the defaults", lambda: operator.factors(case.boot).get(name) == {3}, 30)
        assert kafka.topic_configs([name])[name][MIN_ISR] == ConfigValue("2", False)
        assert records.write(case.boot, name, ["first"]) == 1
    finally:
        kafka.close()


def cluster_wide(case: Case) -> str | None:
    kafka = RealKafka(Connection(case.boot))
    try:
        found = kafka.cluster_configs().get(MIN_ISR)
        return found.value if found else None
    finally:
        kafka.close()


def wait(case: Case, phase: str, seconds: float = 120) -> operator.Object:
    return operator.wait_for_run(case.namespace, phase, seconds, cluster=case.name, playbook="raise-defaults")


def message(case: Case) -> str:
    mine = [r for r in case.runs() if r["spec"]["playbook"]["name"] == "raise-defaults"]
    return str(mine[-1].get("status", {}).get("message", "")) if mine else ""


def _meta(found: dict[str, Any]) -> dict[str, Any]:
    return {k: found["metadata"][k] for k in ("name", "namespace", "labels")}
