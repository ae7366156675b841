"""The factor-1 incident healed by the installed operator, on both kinds of cluster, with records in flight."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.e2e.conftest import Case, at_the_same_time
from tests.incident import operator, records
from tests.testbed import wait_for


def test_healed_with_records_in_flight(both_cases: list[Case]) -> None:
    at_the_same_time(healed, both_cases)


def healed(case: Case) -> None:
    topic = case.topic([1])
    busy = case.topic([0], [1], [2], suffix="busy")
    assert records.write(case.boot, topic, [f"order-{n}" for n in range(21)]) == 21
    group = f"{case.name}-billing"
    assert len(records.read_group(case.boot, group, topic, 10)) == 10
    case.watch(expectations={"topics": []})  # internal topics too, as in the incident
    run = case.wait("AwaitingApproval")
    traffic = records.Traffic(case.boot, busy)
    traffic.start()
    try:
        for user in ("bob", "mallory"):
            refused = operator.approve(run, user)
            assert refused.returncode != 0, f"{user} may not approve"
        assert operator.approve(run, "alice", approver="carol").returncode != 0, "nobody speaks for another"
        taken = operator.approve(run, "alice")
        assert taken.returncode == 0, taken.stderr
        done = case.wait("Succeeded", 180)
        assert done["status"]["approvedBy"] == "alice"
        assert operator.throttles(case.boot) == []
        assert case.factors() == {3}
        assert operator.factors(case.boot)["__consumer_offsets"] == {3}

        case.kafka.stop_broker(1)
        wait_for("another leader", lambda: records.leader(case.boot, topic) in (0, 2), 60)
        every = records.read_from(case.boot, topic, 0, 21, seconds=60)
        assert [value for _, value in every] == [f"order-{n}" for n in range(21)]
        rest = records.read_group(case.boot, group, topic, 11)
        assert [offset for offset, _ in rest] == list(range(10, 21))
    finally:
        traffic.stop()
        case.kafka.start_broker(1)
    assert traffic.acked
    assert traffic.lost == set()
    assert traffic.doubled == []
    assert traffic.failed == []


def test_the_command_sees_the_same_without_kubernetes(case: Case, tmp_path) -> None:
    topic = case.topic([1])
    program = [sys.executable, "-m", "kafka_medic.cli.main"]
    where = ["--bootstrap-servers", case.boot]
    if case.kafka.zookeeper_connect:
        where += ["--zookeeper", case.kafka.zookeeper_connect]
    taken = subprocess.run(
        [*program, "snapshot", *where, "-o", "json"], capture_output=True, text=True, timeout=60, check=False
    )
    assert taken.returncode == 0, taken.stderr
    snapshot = json.loads(taken.stdout)
    assert snapshot["cluster"]["mode"] == ("ZooKeeper" if case.kafka.zookeeper_connect else "KRaft")
    assert {b["rack"] for b in snapshot["brokers"]} == {"zone-1", "zone-2", "zone-3"}
    assert all(s["state"] == "Known" for s in snapshot["sources"])
    saved = tmp_path / "snapshot.json"
    saved.write_text(taken.stdout)
    told = subprocess.run(
        [*program, "diagnose", "--snapshot", str(saved), "-o", "json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    low = [f for f in json.loads(told.stdout)["findings"] if f["type"] == "ReplicationFactorLow"]
    assert any(topic in a for f in low for a in f["affected"])
    check = [*program, "check", "restart", "--broker", "1", "--snapshot", str(saved), "-o", "json"]
    judged = subprocess.run(check, capture_output=True, text=True, timeout=60, check=False)
    assert judged.returncode == 1, "the only replica is on broker 1"
    assert json.loads(judged.stdout)["verdict"] == "Deny"
