"""Every way to have something done that nobody approved: refused, nothing sent to Kafka, and the reason to be read.

Real users on the real API server, and the operator's own reconciles with its own rights; only Kafka is in memory.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure, custom_path
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation_plan import ReplicaMoves
from tests.integration.operated_cluster import PLAYBOOK, OperatedCluster, Person, nothing_is_done, persons
from tests.integration.people import as_status, can, create, patch, people, refused
from tests.testbed import kubectl, wait_for
from tests.unit.resources.sources import ROOT, documents

NAMESPACE, ELSEWHERE = "refusals", "refusals-elsewhere"
Who = Callable[[str], Person]


@pytest.fixture(scope="module")
def who(role: str, operator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Who]:
    """alice approves; bob asks, and may approve too; carol may do everything in the namespace; mallory may create
    approvals that count for nothing. `operator` is the operator's own ServiceAccount."""
    known = persons(tmp_path_factory.mktemp("operator"), operator, "admin", "alice", "bob", "carol", "mallory")
    bob = ("bob-too", f"--clusterrole={role}-approver", "bob")
    everything = ("everything", "--clusterrole=cluster-admin", "carol")
    dave = ("dave-reads", f"--clusterrole={role}-viewer", "dave")
    also = ("also", f"--clusterrole={role}-approver", "mallory")
    with people(NAMESPACE, role, bob, everything, dave), people(ELSEWHERE, role, also):
        wait_for("carol's rights", lambda: can("*", "*", "-n", NAMESPACE, "--as=carol"), seconds=30)
        yield known.__getitem__


@pytest.fixture(scope="module")
def cluster(who: Who) -> Iterator[OperatedCluster]:
    it = OperatedCluster(who("operator"), who("admin"), NAMESPACE, "orders")
    yield it
    it.close()


@pytest.fixture(scope="module")
def asked(cluster: OperatedCluster, who: Who) -> str:
    """A run that bob asked for and that waits for approval."""
    name = cluster.ask(who("bob"))
    cluster.until(name, Phase.AWAITING_APPROVAL)
    return name


@pytest.fixture
def run(asked: str, cluster: OperatedCluster) -> Iterator[str]:
    """The same one for every attempt; whatever an attempt said is taken back after it."""
    yield asked
    cluster.unsay()
    cluster.rule(paused=None, approvals=None)
    cluster.reconcile()
    assert cluster.run(asked).status.phase is Phase.AWAITING_APPROVAL


def held_back(why: str, attempt: Callable[..., object], *args: Any, **spec: Any) -> None:
    """By the API server, which says why."""
    with pytest.raises(ApiFailure) as refused:
        attempt(*args, **spec)
    assert refused.value.status in (400, 403, 422), refused.value
    assert why in refused.value.message


def test_who_asked_approves_it(cluster: OperatedCluster, who: Who, run: str) -> None:
    cluster.say(who("bob"), run, approver="bob")
    nothing_is_done(cluster, run, "bob: bob requested this run, and approvals.allowRequester is false")


def test_somebody_without_the_verb(cluster: OperatedCluster, who: Who, run: str) -> None:
    held_back("you need the verb approve", cluster.say, who("mallory"), run, approver="mallory")
    nothing_is_done(cluster, run, "waits for 1 approval")


def test_every_verb_on_approvals_and_on_status(cluster: OperatedCluster, run: str) -> None:
    """dave's role has wildcards, and none of them is for the verb approve on remediations."""
    resources = "--resource=remediationapprovals.kafkamedic.dev,remediations.kafkamedic.dev/status"
    kubectl("-n", NAMESPACE, "create", "role", "wild", "--verb=*", resources)
    kubectl("-n", NAMESPACE, "create", "rolebinding", "wild", "--role=wild", "--user=dave")
    try:
        may = ("patch", "remediationapprovals", "-n", NAMESPACE, "--as=dave")
        wait_for("dave's rights", lambda: can(*may), seconds=30)
        refused(create(cluster.word(run, approver="dave"), "--as=dave"), "you need the verb approve")
        forged = {"metadata": {"name": run, "namespace": NAMESPACE}, "kind": "Remediation"}
        refused(patch(forged, {"status": {"phase": "Approved"}}, *as_status("dave")), "only the operator writes status")
        nothing_is_done(cluster, run, "waits for 1 approval")
    finally:
        kubectl("-n", NAMESPACE, "delete", "rolebinding,role", "wild")


def test_in_anothers_name(cluster: OperatedCluster, who: Who, run: str) -> None:
    for liar in ("bob", "carol"):
        held_back(f"your own user name, {liar}, not alice", cluster.say, who(liar), run, approver="alice")
    held_back("your own user name, carol, not bob", cluster.ask, who("carol"))
    nothing_is_done(cluster, run, "waits for 1 approval")


def test_the_same_person_twice(cluster: OperatedCluster, who: Who, run: str) -> None:
    """Where two are asked for, a second person counts and alice's second word does not."""
    cluster.rule(paused=True, approvals={"required": 2})
    for _ in range(2):
        cluster.say(who("alice"), run)
    nothing_is_done(cluster, run, "waits for 1 more approval")
    cluster.say(who("carol"), run, approver="carol")
    assert cluster.until(run, Phase.APPROVED).status.approved_by == "alice, carol"


def test_another_digest_than_the_plans(cluster: OperatedCluster, who: Who, run: str) -> None:
    digest = cluster.word(run)["spec"]["planDigest"]
    cluster.say(who("alice"), run, planDigest=digest[:-1] + ("0" if digest[-1] != "0" else "1"))
    nothing_is_done(cluster, run, "alice: it names another plan", "waits for 1 approval")


def test_another_run_of_the_same_name(cluster: OperatedCluster, who: Who, run: str) -> None:
    cluster.say(who("alice"), run, remediationRef={"name": run, "uid": "an-earlier-one"})
    nothing_is_done(cluster, run, "alice: it names another Remediation of the same name")


def test_an_approval_is_edited(cluster: OperatedCluster, who: Who, run: str) -> None:
    """A No becomes no Yes, whoever writes it."""
    word = cluster.say(who("alice"), run, planDigest="sha256:" + "1" * 64)
    path = cluster.path("remediationapprovals", word["metadata"]["name"])
    change = {"spec": {"planDigest": cluster.word(run)["spec"]["planDigest"]}}
    for person in ("carol", "admin"):
        held_back("is immutable", who(person).merge, path, change)
    held_back("cannot patch", who("alice").merge, path, change)
    nothing_is_done(cluster, run, "alice: it names another plan")


def test_the_approver_loses_the_right(cluster: OperatedCluster, who: Who, run: str, role: str) -> None:
    try:
        with cluster.approved_but_paused(who("alice"), run):
            kubectl("-n", NAMESPACE, "delete", "rolebinding", "approvers")
            may = ("approve", "remediations", "-n", NAMESPACE, "--as=alice")
            wait_for("the right to go", lambda: not can(*may), seconds=30)
        nothing_is_done(cluster, run, "alice: alice may not approve by name", "waits for 1 approval")
    finally:
        kubectl("-n", NAMESPACE, "create", "rolebinding", "approvers", f"--clusterrole={role}-approver", "--user=alice")
        wait_for("the right", lambda: can("approve", "remediations", "-n", NAMESPACE, "--as=alice"), seconds=30)


def test_a_status_that_people_forge(cluster: OperatedCluster, who: Who, run: str) -> None:
    """Neither carol, whose role is all wildcards, nor the administrator writes status."""
    stored = cluster.admin.get(cluster.path("remediations", run))
    forged = {**stored, "status": stored["status"] | {"phase": "Approved", "approvedBy": "alice"}}
    changed = {"spec": {"parameters": {"throttleBytesPerSecond": "1"}}}
    for person in ("carol", "admin"):
        held_back(
            "only the operator writes status", who(person).replace, cluster.path("remediations", run, "status"), forged
        )
        held_back("is immutable", who(person).merge, cluster.path("remediations", run), changed)
    nothing_is_done(cluster, run, "waits for 1 approval")


def test_a_status_forged_with_the_operators_own_token(cluster: OperatedCluster, who: Who, run: str) -> None:
    """It says approved, and by whom: nothing in status is believed."""
    stored = cluster.admin.get(cluster.path("remediations", run))
    record = {"name": "made-up", "uid": "u-1", "approver": "alice", "decision": "Approve", "counted": True}
    record["at"] = stored["status"]["plan"]["proposedAt"]
    forged = stored["status"] | {"phase": "Approved", "approvedBy": "alice", "approvals": [record]}
    who("operator").replace(cluster.path("remediations", run, "status"), {**stored, "status": forged})
    nothing_is_done(cluster, run, "waits for 1 approval")
    assert cluster.run(run).status.approved_by is None


def test_a_plan_changed_by_one_byte(cluster: OperatedCluster, who: Who, run: str) -> None:
    """After its approval, by somebody with the operator's own token: its digest is of another plan, so it is made anew.
    What is made is what alice has approved."""
    kept = cluster.run(run).status.plan
    assert kept is not None
    with cluster.approved_but_paused(who("alice"), run):
        stored = cluster.admin.get(cluster.path("remediations", run))
        stored["status"]["plan"]["throttleBytesPerSecond"] += 1
        who("operator").replace(cluster.path("remediations", run, "status"), stored)
        nothing_is_done(cluster, run)
        again = cluster.run(run).status.plan
        assert again is not None
        assert again.digest == kept.digest
        assert again.part(ReplicaMoves) == kept.part(ReplicaMoves)
        events = cluster.admin.list(f"/api/v1/namespaces/{NAMESPACE}/events")
        assert any(e["reason"] == "StatusForged" and "does not match its digest" in e["message"] for e in events)
        cluster.unsay()
    nothing_is_done(cluster, run, "waits for 1 approval")


def test_the_kafkacluster_is_edited_after_approval(cluster: OperatedCluster, who: Who, run: str) -> None:
    """Its rules, and which Kafka it is for: what counts is what they say when something is to be done."""
    planned = cluster.kafka.cluster_id
    try:
        with cluster.approved_but_paused(who("alice"), run):
            cluster.rule(approvals={"required": 2})
        nothing_is_done(cluster, run, "waits for 1 more approval")
        cluster.rule(approvals=None, mode="Observe")
        nothing_is_done(cluster, run, "the KafkaCluster's mode is Observe, so the operator carries out no plan")
        cluster.kafka.cluster_id = "another-kafka"
        cluster.rule(mode=None)
        nothing_is_done(cluster, run, f"the plan is for Kafka cluster {planned}, but cluster another-")
        cluster.unsay()
    finally:
        cluster.kafka.cluster_id = planned


def test_forged_annotations(cluster: OperatedCluster, who: Who, run: str) -> None:
    """What kopf would keep its progress in, and what somebody may hope to be an approval."""
    words = {
        "kafkamedic.dev/last-handled-configuration": json.dumps({"spec": {"approved": True}}),
        "kafkamedic.dev/approved-by": "alice",
        "kopf.zalando.org/last-handled-configuration": "{}",
        "kopf.zalando.org/approve": json.dumps({"started": "2020-01-01T00:00:00", "success": True}),
    }
    notes = {"metadata": {"annotations": words}}
    for path in (cluster.path("remediations", run), cluster.path("kafkaclusters", cluster.name)):
        who("carol").merge(path, notes)
    nothing_is_done(cluster, run, "waits for 1 approval")


def test_the_operator_approves_nothing(cluster: OperatedCluster, run: str, operator: str) -> None:
    """It lacks the right; and where somebody gave it every right there is, the policy refuses it."""
    for name in (operator, "alice"):
        refused(create(cluster.word(run, approver=name), f"--as={operator}"), "cannot create resource")
    everything = (f"--as={operator}", "--as-group=system:masters")
    refused(create(cluster.word(run, approver=operator), *everything), "the operator may not approve or reject a plan")
    nothing_is_done(cluster, run, "waits for 1 approval")


def test_an_approval_in_another_namespace(cluster: OperatedCluster, who: Who, run: str) -> None:
    """mallory may approve there, and names the run that is here."""
    word = cluster.word(run, approver="mallory")
    word["metadata"]["namespace"] = ELSEWHERE
    who("mallory").create(custom_path("remediationapprovals", ELSEWHERE), word)
    nothing_is_done(cluster, run, "waits for 1 approval")


def test_a_run_in_one_namespace_for_a_cluster_in_another(cluster: OperatedCluster, who: Who, run: str) -> None:
    """There is a KafkaCluster of that name there too: it is not the one that the run means."""
    twin = OperatedCluster(who("operator"), who("admin"), ELSEWHERE, cluster.name)
    try:
        lost = twin.ask(who("bob"), clusterRef={"name": cluster.name, "uid": cluster.uid})
        twin.until(lost, Phase.SUPERSEDED)
        assert "its KafkaCluster was replaced (other uid)" in twin.why(lost)
        assert twin.kafka.writes == cluster.kafka.writes == []
    finally:
        twin.close()


def test_what_a_person_types_into_a_parameter_is_no_code(cluster: OperatedCluster, who: Who, run: str) -> None:
    """A template and a shell string are values that the plan's own reading refuses."""
    for hostile in ("$(touch /tmp/owned)", "{{ 7 * 7 }}", "!!python/name:os.system"):
        name = cluster.ask(who("bob"), parameters={"throttleBytesPerSecond": hostile})
        failed = cluster.until(name, Phase.FAILED)
        assert "throttleBytesPerSecond" in (failed.status.message or "")
    assert cluster.kafka.writes == []


# From here on runs end: each asks for its own.


@pytest.fixture
def another(cluster: OperatedCluster, who: Who) -> Iterator[OperatedCluster]:
    """A KafkaCluster and a Kafka for one test. What is left of one before goes in its own time."""
    it = OperatedCluster(who("operator"), who("admin"), NAMESPACE, f"payments-{uuid.uuid4().hex[:6]}")
    yield it
    it.close()
    it.leave()


def test_after_expiry(another: OperatedCluster, who: Who) -> None:
    name = another.ask(who("bob"))
    another.until(name, Phase.AWAITING_APPROVAL)
    with another.approved_but_paused(who("alice"), name):
        another.ahead += 24 * 3600
    nothing_is_done(another, name, "the plan expired without approval")
    assert another.run(name).status.phase is Phase.EXPIRED
    another.say(who("alice"), name)
    nothing_is_done(another, name)
    assert another.run(name).status.phase is Phase.EXPIRED


def test_the_digest_of_an_older_plan(another: OperatedCluster, who: Who) -> None:
    """Approved, and then the cluster changes: what was approved would not be what runs."""
    name = another.ask(who("bob"))
    old = another.until(name, Phase.AWAITING_APPROVAL).status.plan
    with another.approved_but_paused(who("alice"), name):
        moved = next(p for tp, p in another.kafka.partitions.items() if tp.topic == "orders")
        moved.replicas, moved.isr, moved.leader = [2], [2], 2
        for _ in range(20):
            another.reconcile(1)
            plan = another.run(name).status.plan
            if plan is not None and old is not None and plan.digest != old.digest:
                break
    nothing_is_done(another, name, "alice: it names another plan; read the current plan and approve again")


def test_a_playbook_is_edited_between_approval_and_run(another: OperatedCluster, who: Who) -> None:
    (own,) = documents(ROOT / "playbooks" / f"{PLAYBOOK}.yaml")
    own["metadata"] = {"name": "of-this-test"}
    own["spec"]["trigger"]["clusters"] = {"matchLabels": {"kafkamedic.dev/proposed": "never"}}  # people ask for it
    playbooks = custom_path("playbooks")
    another.admin.create(playbooks, own)
    try:
        name = another.ask(who("bob"), "of-this-test")
        another.until(name, Phase.AWAITING_APPROVAL)
        with another.approved_but_paused(who("alice"), name):
            another.admin.merge(f"{playbooks}/of-this-test", {"spec": {"steps": own["spec"]["steps"][:-1]}})
        nothing_is_done(another, name, "playbook of-this-test changed since then")
        assert another.run(name).status.phase is Phase.SUPERSEDED
    finally:
        another.admin.delete(f"{playbooks}/of-this-test")


def test_the_right_is_lost_halfway(another: OperatedCluster, who: Who, role: str) -> None:
    """What is approved runs, up to the moment at which its approver may not approve any more: nothing is added, and
    what is temporary can still be taken back."""
    another.kafka.copies_per_tick = 0
    name = another.ask(who("bob"))
    another.until(name, Phase.AWAITING_APPROVAL)
    another.say(who("alice"), name)
    for _ in range(20):
        another.reconcile(1)
        if another.kafka.writes:
            break
    (throttle,) = another.kafka.writes
    assert throttle.startswith("configs"), "this test wants to come between the throttle and the moves"
    kubectl("-n", NAMESPACE, "delete", "rolebinding", "approvers")
    try:
        wait_for("the right to go", lambda: not can("approve", "remediations", "-n", NAMESPACE, "--as=alice"), 30)
        another.reconcile(4)
        assert not [w for w in another.kafka.writes if w.startswith("reassign")]
        assert "alice may not approve by name" in another.why(name)
    finally:
        kubectl("-n", NAMESPACE, "create", "rolebinding", "approvers", f"--clusterrole={role}-approver", "--user=alice")
        wait_for("the right", lambda: can("approve", "remediations", "-n", NAMESPACE, "--as=alice"), seconds=30)
    another.kafka.copies_per_tick = 20
    another.until(name, Phase.SUCCEEDED, 40)
    kinds = [w.split(" ", 1)[0] for w in another.kafka.writes]
    assert kinds[:2] == ["configs", "reassign"], "approved again, it does what was approved"
    assert kinds.count("reassign") == 1
    assert another.run(name).status.approved_by == "alice"
