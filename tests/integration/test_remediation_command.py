"""`kubectl kafka-medic` against a real API server, as people with tokens and rights of their own.

The operator's part is played by hand: its Pod need not run, and the KafkaCluster that most runs name is not there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kafka_medic.cli.main import main
from kafka_medic.playbook.plan_digest import plan_digest
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from tests.integration.people import Object, as_status, created, patch, people, placed, remediation
from tests.testbed import external_kubeconfig, kubectl, own_state, wait_for

NAMESPACE = "remediation-command"
DRESSING = "\x1b[2J\x1b]0;owned\x07"


@pytest.fixture(scope="module")
def namespace(role: str, operator: str) -> Iterator[str]:
    """alice approves, bob asks, mallory creates approvals that count for nothing, carol edits KafkaClusters."""
    if external_kubeconfig() is not None:
        pytest.skip("the command never impersonates, and a caller's cluster has no kubeconfigs of the testbed's people")
    editors = ("editors", f"--clusterrole={role}-editor", "carol")
    status = ("too-much", "--clusterrole=cluster-admin", operator)
    with people(NAMESPACE, role, editors, status) as name:
        every = ("auth", "can-i", "*", "*", "-n", name, f"--as={operator}")
        wait_for("the operator's rights", lambda: kubectl(*every, check=False).returncode == 0, seconds=30)
        yield name


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


Medic = Callable[..., Answer]


@pytest.fixture
def medic(namespace: str, capsys: pytest.CaptureFixture[str]) -> Medic:
    """The command as one of the people: `medic("alice", "show", NAME)`."""

    def ask(user: str, command: str, *words: str) -> Answer:
        file = str(own_state().kubeconfig(user))
        code = main(["remediation", command, *words, "-n", namespace, "--kubeconfig", file])
        told = capsys.readouterr()
        return Answer(code, told.out, told.err)

    return ask


def planned(run: Object, operator: str, lasts: timedelta = timedelta(hours=1), **plan: object) -> str:
    """Write, as the operator does, that the run's plan waits for approval; the plan's digest."""
    now = datetime.now(UTC)
    status: Object = {
        "phase": "AwaitingApproval",
        "risk": "Medium",
        "message": f"waits for approval{DRESSING}",
        "waitingFor": [{"guard": "ApprovalValid", "verdict": "Wait", "message": "waits for 1 approval"}],
        "plan": {
            "digest": "sha256:" + "0" * 64,
            "proposedAt": (now - timedelta(hours=1)).isoformat(),
            "expiresAt": (now + lasts).isoformat(),
            "summary": f"raise 1 partition of 1 topic to 3 replicas: orders{DRESSING}",
            "steps": [{"name": "add-replicas", "action": "ReassignPartitions", "description": "copy 2 replicas"}],
            "changes": [
                {"topic": "orders", "partition": 0, "replicasBefore": [1], "replicas": [1, 0, 2], "sizeBytes": 366}
            ],
            "preconditions": [{"name": "Kafka cluster id", "value": "abc"}],
            **plan,
        },
    }
    typed = Remediation.parse({**run, "status": status})
    assert typed.status.plan is not None
    digest = plan_digest(typed, typed.status.plan)
    status["plan"]["digest"] = digest
    present = json.loads(
        kubectl("get", "kmr", run["metadata"]["name"], "-n", run["metadata"]["namespace"], "-o", "json").stdout
    )
    if "status" not in present:
        assert patch(run, {"status": {"phase": "Planning"}}, *as_status(operator)).returncode == 0
    done = patch(run, {"status": status}, *as_status(operator))
    assert done.returncode == 0, done.stderr
    return digest


def approvals(run: Object) -> list[Object]:
    items = json.loads(kubectl("get", "kmra", "-n", run["metadata"]["namespace"], "-o", "json").stdout)["items"]
    return [item for item in items if item["spec"]["remediationRef"]["uid"] == run["metadata"]["uid"]]


def test_what_is_read_is_what_is_approved_in_ones_own_name(namespace: str, operator: str, medic: Medic) -> None:
    run = remediation(namespace)
    digest, name = planned(run, operator), run["metadata"]["name"]
    assert name in medic("alice", "list").out
    shown = medic("alice", "show", name)
    assert shown.code == 0, shown.err
    for needed in (digest, "Medium", "replicas of orders-0: [1] -> [1, 0, 2]", "you may approve  yes", "ApprovalValid"):
        assert needed in shown.out, needed
    assert "\x1b" not in shown.out
    assert "you may approve  no" in medic("bob", "show", name).out
    assert "+ [1, 0, 2]" in medic("alice", "diff", name).out
    assert "waits for 1 approval" in medic("alice", "explain", name).out
    done = medic("alice", "approve", name, "--yes", "--digest", digest, "--reason", "read it", "-o", "json")
    assert done.code == 0, done.err
    (word,) = approvals(run)
    assert word["metadata"]["name"] == json.loads(done.out)["approval"]
    assert (word["spec"]["approver"], word["spec"]["planDigest"]) == ("alice", digest)
    assert "system:authenticated" in word["spec"]["approverGroups"]
    events = json.loads(medic("bob", "history", name, "-o", "json").out)["events"]
    assert [e["who"] for e in events if e["what"] in ("Requested", "Approve")] == ["bob", "alice"]
    assert digest in medic("bob", "report", name).out
    assert medic("alice", "reject", name, "--yes").code == 0
    assert [w["spec"]["decision"] for w in approvals(run)].count("Reject") == 1


@pytest.mark.parametrize(
    ("user", "told"),
    [("mallory", "mallory may not"), ("carol", "carol may not decide"), ("bob", "bob may not decide")],
)
def test_nobody_decides_without_the_verb(
    namespace: str, operator: str, medic: Medic, user: str, told: str, role: str
) -> None:
    run = remediation(namespace)
    planned(run, operator)
    if user == "mallory":  # may read nothing but who she is
        kubectl("-n", namespace, "create", "rolebinding", "mallory-reads", f"--clusterrole={role}-viewer",
                "--user=mallory")  # fmt: skip
        wait_for("mallory's reading", lambda: medic("mallory", "list").code == 0, seconds=30)
    for command in ("approve", "reject", "abort"):
        answer = medic(user, command, run["metadata"]["name"], "--yes")
        assert answer.code == 1, answer.err
        assert told in answer.err
        assert "verb approve" in answer.err
    assert approvals(run) == []


def test_who_asked_does_not_approve(namespace: str, operator: str, medic: Medic, role: str) -> None:
    asked = created(placed("Remediation", namespace, requestedBy="bob"), user="bob")
    planned(asked, operator)
    kubectl("-n", namespace, "create", "rolebinding", "bob-too", f"--clusterrole={role}-approver", "--user=bob")
    try:
        may = ("auth", "can-i", "approve", "remediations.kafkamedic.dev", "-n", namespace, "--as=bob")
        wait_for("bob's right", lambda: kubectl(*may, check=False).returncode == 0, seconds=30)
        answer = medic("bob", "approve", asked["metadata"]["name"], "--yes")
        assert answer.code == 1
        assert "so may not approve it" in answer.err
        assert approvals(asked) == []
    finally:
        kubectl("-n", namespace, "delete", "rolebinding", "bob-too")


def test_older_expired_forged_and_ended_plans_are_not_approved(namespace: str, operator: str, medic: Medic) -> None:
    run = remediation(namespace)
    name, older = run["metadata"]["name"], planned(run, operator, throttleBytesPerSecond=1)
    present = planned(run, operator, throttleBytesPerSecond=2)
    assert present != older
    answer = medic("alice", "approve", name, "--yes", "--digest", older)
    assert answer.code == 1
    assert f"is {present}, not " in answer.err
    planned(run, operator, lasts=timedelta(seconds=-1), throttleBytesPerSecond=2)
    answer = medic("alice", "approve", name, "--yes")
    assert answer.code == 1
    assert "expired at" in answer.err
    planned(run, operator, throttleBytesPerSecond=2)
    forged = patch(run, {"status": {"plan": {"throttleBytesPerSecond": 7}}}, *as_status(operator))
    assert forged.returncode == 0, forged.stderr
    answer = medic("alice", "approve", name, "--yes")
    assert answer.code == 1
    assert "does not match the digest in its status" in answer.err
    assert patch(run, {"status": {"phase": "Expired"}}, *as_status(operator)).returncode == 0
    answer = medic("alice", "approve", name, "--yes")
    assert answer.code == 1
    assert "ended as Expired" in answer.err
    assert approvals(run) == []


def test_asking_pausing_and_going_on(namespace: str, medic: Medic) -> None:
    cluster = placed("KafkaCluster", namespace, bootstrapServers="127.0.0.1:1")
    cluster["metadata"] = {"name": "orders", "namespace": namespace}
    created(cluster)
    try:
        asked = ("run", "raise-replication-factor", "--cluster", "orders", "--yes", "-o", "json")
        refused = medic("alice", *asked)
        assert refused.code == 1
        assert "alice may not request" in refused.err
        done = medic("bob", *asked)
        assert done.code == 0, done.err
        run = json.loads(
            kubectl("get", "kmr", json.loads(done.out)["remediation"], "-n", namespace, "-o", "json").stdout
        )
        assert run["spec"]["requestedBy"] == "bob"
        playbook = json.loads(kubectl("get", "playbook", "raise-replication-factor", "-o", "json").stdout)
        assert run["spec"]["playbook"]["digest"] == Playbook.parse(playbook).digest()
        assert medic("alice", "pause", "orders", "--reason", "not mine to say").code == 1
        assert medic("carol", "pause", "orders", "--reason", "until Monday").code == 0

        def policy() -> Object:
            told = kubectl("get", "kmc", "orders", "-n", namespace, "-o", "json").stdout
            found: Object = json.loads(told)["spec"]["remediation"]
            return found

        assert (policy()["paused"], policy()["pauseReason"]) == (True, "until Monday (paused by carol)")
        assert medic("alice", "resume", "orders", "--yes").code == 1
        assert medic("carol", "resume", "orders", "--yes").code == 0
        assert policy()["paused"] is False
        assert "pauseReason" not in policy()
    finally:
        kubectl("delete", "kmc", "orders", "-n", namespace, "--wait=false")


def test_status_has_what_is_wrong_and_what_waits(namespace: str, operator: str, medic: Medic) -> None:
    """The KafkaCluster's status is the operator's, written with its own rights; nobody observes this one."""
    cluster = placed("KafkaCluster", namespace, bootstrapServers="127.0.0.1:1")
    cluster["metadata"] = {"name": "watched", "namespace": namespace}
    cluster["spec"]["probes"] = {"interval": "5m"}  # it is not called stale before this test is over
    stored = created(cluster)
    try:
        now = datetime.now(UTC)
        finding = {
            "id": "PartitionUnderMinIsr/orders", "type": "PartitionUnderMinIsr", "severity": "Critical",
            "state": "Firing", "since": (now - timedelta(minutes=12)).isoformat(), "affectedCount": 1,
            "evidence": [f"orders-3 has 1 replica in sync, min.insync.replicas is 2{DRESSING}"],
        }  # fmt: skip
        seen = {
            "lastObservedAt": now.isoformat(), "findings": [finding], "findingsTotal": 1, "controller": 2,
            "metadata": "KRaft", "version": "4.1.0", "brokers": {"expected": 3, "registered": 3, "reachable": 2},
        }  # fmt: skip
        assert patch(stored, {"status": seen}, *as_status(operator)).returncode == 0
        run = placed("Remediation", namespace, requestedBy="bob")
        run["spec"]["clusterRef"] = {"name": "watched", "uid": stored["metadata"]["uid"]}
        asked = created(run, user="bob")
        planned(asked, operator)
        told = medic("alice", "status", "watched")
        assert told.code == 0, told.err
        for needed in (
            "1 cluster: 1 Critical; 1 run waits", "watched  Approve  KRaft 4.1.0  2/3 brokers  controller 2",
            "Critical  PartitionUnderMinIsr/orders  for 12m", "orders-3 has 1 replica in sync",
            f"run {asked['metadata']['name']}  AwaitingApproval", "waits for a person who may approve",
        ):  # fmt: skip
            assert needed in told.out, (needed, told.out)
        assert "\x1b" not in told.out
        assert json.loads(medic("bob", "status", "-o", "json").out)["summary"]["Critical"] >= 1
        assert medic("alice", "status", "watchd").code == 4
        assert "kafkacluster.kafkamedic.dev/watched" in medic("bob", "status", "-o", "name").out
    finally:
        kubectl("delete", "kmc", "watched", "-n", namespace, "--wait=false")


def test_kubectl_finds_the_command_and_hands_over_its_answer(
    namespace: str, operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = remediation(namespace)
    planned(run, operator)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    listed = kubectl("kafka-medic", "list", "-n", namespace, user="alice")
    assert run["metadata"]["name"] in listed.stdout
    unread = kubectl("kafka-medic", "show", "no-such-run", "-n", namespace, user="alice", check=False)
    assert unread.returncode == 4
    assert "not found" in unread.stderr
