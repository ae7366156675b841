"""PodIdentityMismatch: what a Pod has answered as against what it is called; and the twins that are none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import Quorum, Voter
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.finding import FindingState, Severity
from tests.unit.cluster import worlds


def crossed():
    pods = {f"b{n}": {"pod": worlds.pod(n, answers_as=other)} for n, other in ((2, 3), (3, 2))}
    return worlds.healthy(brokers=worlds.brokers(**pods))


def found(snapshot, **more):
    return {f.id: f for f in diagnose(snapshot, **more)}


def test_crossed_pods_are_named_each_with_both_accounts():
    findings = found(crossed())
    assert set(findings) == {"PodIdentityMismatch/broker-2", "PodIdentityMismatch/broker-3"}
    finding = findings["PodIdentityMismatch/broker-2"]
    assert finding.severity is Severity.CRITICAL
    assert finding.affected == ("broker-2", "broker-3")
    evidence = "; ".join(finding.evidence)
    assert "Pod kafka-2 (uid uid-2) is broker 2 by its name or label" in evidence
    assert "broker 3 answered at the Pod's own address 10.0.0.2" in evidence
    assert "broker 2 answered in Pod kafka-3" in evidence
    assert finding.playbook is None


def test_it_fires_once_it_has_lasted():
    assert found(crossed())["PodIdentityMismatch/broker-2"].state is FindingState.PENDING
    since = {id_: worlds.later(-31) for id_ in found(crossed())}
    assert found(crossed(), remembered=since)["PodIdentityMismatch/broker-2"].state is FindingState.FIRING


def test_a_pod_whose_broker_answers_nowhere_else_says_so():
    off = worlds.healthy(brokers=worlds.brokers(b3={"pod": worlds.pod(3, answers_as=4)}))
    assert "no Pod has answered as broker 3" in found(off)["PodIdentityMismatch/broker-3"].evidence


def test_crossed_controllers_are_named_too():
    pods = {n: worlds.pod(1, name=f"controller-{n}", uid=f"uid-{n}", answers_as=n) for n in (10, 11, 12)}
    pods[10], pods[11] = replace(pods[10], answers_as=11), replace(pods[11], answers_as=10)
    quorum = Quorum(12, tuple(Voter(n, 0, 0, pod) for n, pod in pods.items()))
    assert {"PodIdentityMismatch/broker-10", "PodIdentityMismatch/broker-11"} <= set(
        found(worlds.healthy(quorum=quorum))
    )


@pytest.mark.parametrize(
    "pod",
    [
        {"answers_as": None},
        {"answers_as": None, "ready": False},  # it starts
        {"answers_as": None, "ip": None},
        {"answers_as": 2, "name": "a-pod-of-another-name"},  # by label
    ],
)
def test_what_has_not_answered_otherwise_is_no_mismatch(pod):
    snapshot = worlds.healthy(brokers=worlds.brokers(b2={"pod": worlds.pod(2, **pod)}))
    assert [id_ for id_ in found(snapshot) if id_.startswith("PodIdentityMismatch")] == []


def test_a_node_that_goes_takes_the_broker_that_runs_there():
    pods = {f"b{n}": {"pod": worlds.pod(n, answers_as=other, cordoned=n == 2)} for n, other in ((2, 3), (3, 2))}
    findings = found(worlds.healthy(brokers=worlds.brokers(**pods)))
    assert "NodeMaintenance/broker-3" in findings
    assert "NodeMaintenance/broker-2" not in findings
    assert "node node-2 of Pod kafka-2 is cordoned" in findings["NodeMaintenance/broker-3"].evidence[0]
