"""A healthy cluster of Strimzi's: nothing is found, nothing is proposed, nothing is touched."""

from __future__ import annotations

import os
import time

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection
from kafka_medic.cluster.snapshot import TopicPartition
from tests.incident import operator, records
from tests.strimzi.case import StrimziCase
from tests.testbed import wait_for
from tests.testbed.steps import granted

SILENT_SECONDS = float(os.environ.get("SILENT_SECONDS", "60"))


def test_a_healthy_cluster_is_silent(case: StrimziCase) -> None:
    silent(case)


def silent(case: StrimziCase) -> None:
    """For SILENT_SECONDS under load: no finding, no run, no event, and nothing of Strimzi's is changed."""
    topic = case.topic([0, 1, 2], [1, 2, 0], [2, 0, 1])
    kafka = case.made_by_strimzi
    lead_as_preferred(case)
    before, generation = kafka.uids(), kafka.resource()["metadata"]["generation"]
    case.watch()
    case.condition("Ready", "True")
    with records.flowing(case.boot, topic) as traffic:
        end, found, untrue = granted() + SILENT_SECONDS, set[str](), set[str]()
        while granted() < end:
            found |= set(case.firing())
            seen = [c for c in case.status()["conditions"] if c["type"] != "CanaryHealthy"]  # there is no canary
            untrue |= {c["message"] for c in seen if c["status"] != "True"}
            time.sleep(1)
    assert found == set()
    assert untrue == set()
    assert case.runs() == []
    assert [event for event in case.events() if event[0] != "Normal"] == []
    assert kafka.uids() == before
    assert kafka.asked_to_roll() == []
    assert kafka.resource()["metadata"]["generation"] == generation
    print(
        f"\nhealthy: {SILENT_SECONDS:.0f} s, {len(traffic.acked)} records acknowledged and read, no finding, no event"
    )
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    assert operator.restarts() == 0


def lead_as_preferred(case: StrimziCase) -> None:
    """Kafka gives leaders back by itself only within five minutes of a roll."""
    client = RealKafka(Connection(case.boot, timeout_seconds=20.0))

    def so() -> bool:
        view = client.views([0])[0]
        if not isinstance(view, BrokerView):
            return False
        others = [TopicPartition(p.topic, p.partition) for p in view.partitions if p.leader != p.replicas[0]]
        if others:
            client.elect_preferred(others)
        return not others

    try:
        wait_for("the preferred leaders", so, 120, every=1)
    finally:
        client.close()


def test_what_was_derived_for_each_kind_of_user(case: StrimziCase) -> None:
    """The listeners of dual.yaml: nobody, a certificate, a password. A wrong one is refused with the way out."""
    wanted = {None: ("plain", "PLAINTEXT"), "medic": ("tls", "SSL"), "medic-scram": ("scram", "SASL_PLAINTEXT")}
    for user, (listener, protocol) in wanted.items():
        case.watch(user=user)
        operator.wait_for(f"{listener}", lambda name=listener: _listener(case) == name, 60)
        case.condition("Ready", "True")
        derived = case.status()["strimzi"]
        assert derived["protocol"] == protocol
        assert derived["rackKey"] == "topology.kubernetes.io/zone"
        assert [(pool["name"], pool["ids"]) for pool in derived["pools"]] == [("dual", [0, 1, 2])]
        assert case.status()["brokers"] == {"expected": 3, "registered": 3, "reachable": 3}
        print(f"\n  {user}: {derived}")
    case.watch(user="nobody-of-that-name")
    told = case.condition("Ready", "False", "StrimziNotUsable")
    assert told["message"] == "there is no KafkaUser nobody-of-that-name in this namespace: correct spec.strimzi.user"


def _listener(case: StrimziCase) -> str | None:
    found = case.status().get("strimzi", {}).get("listener")
    return str(found) if found else None
