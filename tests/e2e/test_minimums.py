"""A raise that is stopped half-way leaves a topic with all its replicas and the minimum of before: it is named, and
cured by a plan of its own."""

from __future__ import annotations

from typing import Any

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from kafka_medic.cluster.snapshot import ConfigValue
from tests.e2e.conftest import Case, at_the_same_time
from tests.incident import operator, records
from tests.testbed import get, wait_for

MIN_ISR = "min.insync.replicas"
SLOW = {"name": "raise-replication-factor", "parameters": {"throttleBytesPerSecond": 1_000_000}}
MEGABYTES = 40
"""Of the partition whose copying is stopped."""


def named(case: Case) -> dict[str, Any] | None:
    status = get("kafkacluster", case.name, namespace=case.namespace).get("status", {})
    found = [f for f in status.get("findings", []) if f["type"] == "MinInsyncReplicasLow"]
    return found[0] if found else None


def test_what_a_stopped_raise_leaves_is_cured(both_cases: list[Case]) -> None:
    at_the_same_time(stopped_and_cured, both_cases)


def stopped_and_cured(case: Case) -> None:
    small = case.topic([1], suffix="small", config={MIN_ISR: "1"})
    large = case.topic([0], suffix="large", config={MIN_ISR: "1"})
    assert records.write(case.boot, small, [f"order-{n}" for n in range(21)]) == 21
    assert records.write(case.boot, large, ["x" * 500_000] * (2 * MEGABYTES)) == 2 * MEGABYTES
    client = RealKafka(Connection(case.boot, timeout_seconds=30.0))
    case.watch(remediation={"limits": {"cooldown": "0s"}, "playbooks": [SLOW]})
    raising = case.wait("AwaitingApproval")
    assert operator.approve(raising, "alice").returncode == 0

    def half_way() -> bool:
        moving = {tp.topic for tp in client.reassignments()}
        return large in moving and small not in moving and operator.factors(case.boot)[small] == {3}

    wait_for("one topic with its replicas, and one without", half_way, 60)
    assert operator.approve(raising, "alice", "Reject").returncode == 0
    case.wait("Aborted")
    assert client.topic_configs([small])[small][MIN_ISR].value == "1"
    wait_for("the finding", lambda: (named(case) or {}).get("state") == "Firing", 90)
    finding = named(case)
    assert finding is not None
    assert finding["affected"] == [small], "the other lacks replicas, which come first"
    case.ask("raise-min-insync-replicas")
    run = case.wait("AwaitingApproval")
    planned = [(c["resourceName"], c["before"], c["after"]) for c in run["status"]["plan"]["configChanges"]]
    assert planned == [(small, "1", "2")]
    assert operator.approve(run, "alice").returncode == 0
    case.wait("Succeeded")
    settings = client.topic_configs([small, large])
    assert settings[small][MIN_ISR] == ConfigValue("2", True)
    assert settings[large][MIN_ISR] == ConfigValue("1", True)
    wait_for("nothing said any more", lambda: named(case) is None, 30)
    assert records.write(case.boot, small, ["once more"]) == 1
    client.close()
