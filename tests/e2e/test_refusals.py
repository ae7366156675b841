"""What must not be done is not done, and is said: a condition, an event, no write, no crash.

Where the metadata is kept plays no part in it, so each is shown on one kind of cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import ConfigChange, Connection
from kafka_medic.cluster.snapshot import TopicPartition
from tests.e2e.conftest import Case, at_the_same_time
from tests.incident import operator, records
from tests.testbed import Shape, get, kubectl, secured, wait_for

Story = Callable[[Case], None]


def test_refused_with_every_broker_up(cases_on: Callable[[Shape, int], list[Case]]) -> None:
    stories: list[Story] = [
        fewer_live_brokers_than_the_factor,
        an_exempt_topic,
        a_wrong_address,
        wrong_credentials,
        a_missing_secret,
    ]
    tell(zip(stories, cases_on("kraft", len(stories)), strict=True))


def test_refused_for_what_else_happens(cases_on: Callable[[Shape, int], list[Case]]) -> None:
    """On a Kafka of its own each: of two KafkaClusters for the same one only the first acts."""
    tell([(somebody_elses_reassignment, cases_on("zookeeper", 1)[0]), (a_dead_target, cases_on("kraft", 1)[0])])


def tell(stories: Iterable[tuple[Story, Case]]) -> None:
    """Each on its own KafkaCluster, all at the same time."""
    at_the_same_time(lambda told: told[0](told[1]), list(stories))


def fewer_live_brokers_than_the_factor(case: Case) -> None:
    case.topic([1])
    mine = {"pattern": rf"(?:{case.name}\..*)", "replicationFactor": 4}
    case.watch(expectations={"topics": [mine, {"pattern": ".*", "exempt": True}]})
    message = case.wait_for_guard("EnoughLiveBrokers", 120)
    assert "4" in message
    assert case.factors() == {1}
    case.condition("RemediationAllowed", "False", "Waiting")
    assert any("EnoughLiveBrokers" in text or "live" in text for _, text in case.events())
    assert operator.phase(case.runs()[0]) == "Planning"


def an_exempt_topic(case: Case) -> None:
    case.topic([1])
    case.watch(expectations={"topics": [{"pattern": ".*", "exempt": True}]})
    case.condition("Reachable", "True")
    seen = get("kafkacluster", case.name, namespace=case.namespace)["status"]["lastObservedAt"]
    wait_for(
        "several more looks",
        lambda: get("kafkacluster", case.name, namespace=case.namespace)["status"]["lastObservedAt"] > seen,
        60,
    )
    found = get("kafkacluster", case.name, namespace=case.namespace)["status"].get("findings", [])
    assert not [f for f in found if f["id"] == "ReplicationFactorLow/topics"]
    assert case.runs() == []
    assert case.factors() == {1}


def somebody_elses_reassignment(case: Case) -> None:
    case.topic([1])
    theirs = case.topic([0], suffix="theirs")
    records.write(case.boot, theirs, ["x" * 50_000 for _ in range(60)])
    case.watch()
    run = case.wait("AwaitingApproval")
    kafka = RealKafka(Connection(case.boot))
    slow = [
        ConfigChange("BROKER", "0", "leader.replication.throttled.rate", "20000"),
        ConfigChange("TOPIC", theirs, "leader.replication.throttled.replicas", "0:0"),
    ]
    moved = TopicPartition(theirs, 0)
    try:
        kafka.alter_configs(slow)
        assert kafka.alter_reassignments({moved: [0, 2]}) == {}
        assert moved in kafka.reassignments()
        assert operator.approve(run, "alice").returncode == 0
        # The plan holds this partition too, so it is void; had it not, the guard would wait for the other to end.
        replanned = case.wait_for_guard("NoForeignReassignment", 90)
        assert theirs in replanned
        assert moved in kafka.reassignments(), "theirs is left alone"
    finally:
        kafka.alter_configs([ConfigChange(c.resource_type, c.resource, c.name, None) for c in slow])
    wait_for("their reassignment", lambda: moved not in kafka.reassignments(), 60)
    kafka.close()
    # The guard shows as well while the first plan awaits its approval, so that plan may be there for a moment longer.
    first = run["status"]["plan"]["digest"]

    def planned_anew() -> bool:
        return case.wait("AwaitingApproval", 90)["status"]["plan"]["digest"] != first

    wait_for("a plan for what is so now", planned_anew, 90)
    fresh = case.wait("AwaitingApproval", 90)
    assert operator.approve(fresh, "alice").returncode == 0
    case.wait("Succeeded", 120)
    assert case.factors() == {3}


def a_dead_target(case: Case) -> None:
    case.topic([1])
    case.watch()
    run = case.wait("AwaitingApproval")
    case.kafka.stop_broker(2)
    try:
        assert operator.approve(run, "alice").returncode == 0
        message = case.wait_for_guard("TargetsAlive", 60)
        assert "2" in message
        assert case.factors() == {1}
        assert operator.throttles_on(case.boot, [0, 1]) == []
    finally:
        case.kafka.start_broker(2)
    case.wait("Succeeded", 120)
    assert case.factors() == {3}


def a_wrong_address(case: Case) -> None:
    before = operator.restarts()
    host = case.boot.split(":", maxsplit=1)[0]
    body = operator.kafka_cluster(case.kafka, case.name)
    body["spec"]["bootstrapServers"] = f"{host}:9999"
    operator.apply([body])
    found = case.condition("Reachable", "False")
    assert found["reason"] in ("Unreachable", "ClusterUnreachable", "OperatorIsolated")
    wait_for("an event", lambda: any(r in ("ClusterUnreachable", "OperatorIsolated") for r, _ in case.events()), 90)
    assert case.runs() == []
    assert operator.restarts() == before


def wrong_credentials(case: Case) -> None:
    operator.may_read_secrets(case.namespace)
    before = operator.restarts()
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{case.name}-user", "namespace": case.namespace},
        "stringData": {"username": "admin", "password": "hunter2-is-wrong"},
    }
    operator.apply([secret])
    body = operator.kafka_cluster(case.kafka, case.name)
    body["spec"]["bootstrapServers"] = secured.bootstrap(case.kafka, "SASL")
    reference = {"mechanism": "PLAIN", "secretRef": {"name": f"{case.name}-user"}}
    body["spec"]["security"] = {"protocol": "SASL_PLAINTEXT", "sasl": reference, "allowPlaintextPassword": True}
    operator.apply([body])
    found = case.condition("Reachable", "False", "AuthenticationFailed", 90)
    assert case.runs() == []
    assert operator.restarts() == before
    everything = json.dumps([found, case.events(), get("kafkacluster", case.name, namespace=case.namespace)])
    everything += operator.logs(2000)
    assert "hunter2" not in everything, "a secret is in no condition, event, status or log"
    kubectl("delete", "secret", f"{case.name}-user", "-n", case.namespace)


def a_missing_secret(case: Case) -> None:
    body = operator.kafka_cluster(case.kafka, case.name)
    reference = {"mechanism": "PLAIN", "secretRef": {"name": "no-such-secret"}}
    body["spec"]["security"] = {"protocol": "SASL_PLAINTEXT", "sasl": reference, "allowPlaintextPassword": True}
    operator.apply([body])
    found = case.condition("Reachable", "False")
    assert "no-such-secret" in found["message"]
