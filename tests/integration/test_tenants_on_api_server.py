"""Tenants who do not trust each other, on a real API server: what they try, what refuses it, and what the honest do.

The operator's own reconciles with its own rights; only Kafka is in memory.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kafka_medic.cli.remediation.access import Access
from kafka_medic.clients.kubernetes_api import ApiFailure, custom_path
from kafka_medic.controller import plan_parts
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Artifact, ReplicaMoves
from kafka_medic.resources.vocabulary import API_VERSION
from tests.incident.operator import account_kubeconfig
from tests.integration.operated_cluster import PLAYBOOK, OperatedCluster, Person, chart_rules, nothing_is_done, persons
from tests.integration.people import Object, people, settled
from tests.integration.test_policies_on_api_server import BINDING, POLICY, again
from tests.testbed import kubectl, wait_for

NAMESPACE = "tenants"
ROBOT = f"system:serviceaccount:{NAMESPACE}:robot"
RATE = "leader.replication.throttled.rate"
Who = Callable[[str], Person]


@pytest.fixture(scope="module")
def who(role: str, operator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Who]:
    """alice approves; bob asks; carol may do everything in the namespace; mallory asks by a role of her own, which
    names no playbook. robot is a ServiceAccount that approves and asks."""
    folder = tmp_path_factory.mktemp("people")
    known = persons(folder, operator, "admin", "alice", "bob", "carol", "mallory")
    everything = ("everything", "--clusterrole=cluster-admin", "carol")
    with people(NAMESPACE, role, everything):
        kubectl("-n", NAMESPACE, "create", "role", "asks", "--verb=create", "--resource=remediations.kafkamedic.dev")
        kubectl("-n", NAMESPACE, "create", "rolebinding", "asks", "--role=asks", "--user=mallory")
        kubectl("-n", NAMESPACE, "create", "serviceaccount", "robot")
        for binding in ("approver", "operator-user"):
            bound = (f"robot-{binding}", f"--clusterrole={role}-{binding}", f"--serviceaccount={NAMESPACE}:robot")
            kubectl("-n", NAMESPACE, "create", "rolebinding", *bound)
        known["robot"] = Person.named(account_kubeconfig(_file(folder), "robot", NAMESPACE))
        may = ("auth", "can-i", "use", "playbooks.kafkamedic.dev", "-n", NAMESPACE, f"--as={ROBOT}")
        wait_for("robot's rights", lambda: kubectl(*may, check=False).returncode == 0, seconds=30)
        yield known.__getitem__


def _file(folder: Path) -> Path:
    return folder / "robot"


@pytest.fixture
def cluster(who: Who, request: pytest.FixtureRequest) -> Iterator[OperatedCluster]:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_"))[:40].strip("-")
    it = OperatedCluster(who("operator"), who("admin"), NAMESPACE, name, limits={"cooldown": "0s"})
    yield it
    it.close()
    it.leave()


def runs(cluster: OperatedCluster, *, own: bool) -> list[Remediation]:
    found = cluster.admin.list(cluster.path("remediations"))
    mine = [r for r in found if r["spec"]["clusterRef"]["uid"] == cluster.uid]
    return [Remediation.parse(r) for r in mine if ("cause" in r["spec"]) == own]


def proposed(cluster: OperatedCluster) -> Remediation:
    for _ in range(20):
        for run in runs(cluster, own=True):
            if run.status.phase is Phase.AWAITING_APPROVAL:
                return run
        cluster.reconcile(1)
    raise AssertionError("nothing was proposed")


def refused(why: str, attempt: Callable[..., object], *args: Any, **spec: Any) -> None:
    with pytest.raises(ApiFailure) as found:
        attempt(*args, **spec)
    assert found.value.status == 403, found.value
    assert why in found.value.message, found.value.message


def use(*resources: str, names: tuple[str, ...] = (PLAYBOOK,)) -> None:
    """The role by which mallory uses these, instead of what it said before."""
    rule: Object = {
        "apiGroups": ["kafkamedic.dev"],
        "resources": list(resources),
        "verbs": ["use"],
        "resourceNames": [*names],
    }
    body: Object = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": [rule]}
    body["metadata"] = {"name": "uses", "namespace": NAMESPACE}
    kubectl("apply", "-f", "-", input=json.dumps(body))
    kubectl("-n", NAMESPACE, "delete", "rolebinding", "uses", "--ignore-not-found")
    kubectl("-n", NAMESPACE, "create", "rolebinding", "uses", "--role=uses", "--user=mallory")
    kind, _, sub = resources[-1].partition("/")
    asked = ("auth", "can-i", "use", f"{kind}.kafkamedic.dev/{names[0]}", "-n", NAMESPACE, "--as=mallory")
    extra = ("--subresource", sub) if sub else ()
    wait_for("mallory's role", lambda: kubectl(*asked, *extra, check=False).returncode == 0, seconds=30)


def test_which_playbook_with_which_parameters(cluster: OperatedCluster, who: Who) -> None:
    def ask(playbook: str = PLAYBOOK, **parameters: str) -> str:
        return cluster.ask(who("mallory"), playbook, requestedBy="mallory", parameters=parameters)

    refused(f"user mallory may not request playbook {PLAYBOOK} in namespace {NAMESPACE}", ask)
    use("playbooks")
    ask()
    refused("may not request playbook rolling-restart", ask, "rolling-restart")
    refused("you need the verb use on playbooks/throttleBytesPerSecond", ask, throttleBytesPerSecond="1000000")
    use("playbooks", "playbooks/throttleBytesPerSecond")
    ask(throttleBytesPerSecond="1000000")
    many = {"throttleBytesPerSecond": "1000000"} | {f"p{n}": "1" for n in range(14)}
    refused(f"user mallory may not set parameter p0 of playbook {PLAYBOOK}", lambda: ask(**many))
    use("playbooks", *(f"playbooks/{name}" for name in many))
    ask(**many)
    refused("may not set parameter zzz of playbook", lambda: ask(**many, zzz="1"))
    refused("more than 16 parameters", lambda: ask(**many, zzz="1", zzzz="1"))
    use("playbooks", "playbooks/*")
    ask(**many, zzz="1", zzzz="1")
    refused("may not request playbook rolling-restart", ask, "rolling-restart")
    # The chart's own role has it for all of them.
    for playbook in (PLAYBOOK, "rolling-restart"):
        cluster.ask(who("bob"), playbook)
    cluster.ask(who("bob"), parameters={f"p{n}": "1" for n in range(32)})


def test_a_service_account_approves_nothing_unless_it_is_listed(cluster: OperatedCluster, who: Who) -> None:
    run = proposed(cluster)
    cluster.rule(paused=True)
    cluster.say(who("robot"), run.name, approver=ROBOT)
    why = f"{ROBOT} is a ServiceAccount, and approvals.serviceAccounts does not list it"
    nothing_is_done(cluster, run.name, "waits for 1 approval", why)
    cluster.rule(approvals={"serviceAccounts": [ROBOT]})
    assert cluster.until(run.name, Phase.APPROVED).status.approved_by == ROBOT


def test_who_holds_a_machines_token_is_not_two_people(cluster: OperatedCluster, who: Who) -> None:
    """alice may have made the robot ask, and then approves."""
    run = cluster.ask(who("robot"), requestedBy=ROBOT)
    cluster.until(run, Phase.AWAITING_APPROVAL)
    cluster.rule(paused=True)
    cluster.say(who("alice"), run)
    nothing_is_done(cluster, run, "waits for 1 more approval", "because a ServiceAccount requested the run")
    cluster.say(who("carol"), run, approver="carol")
    assert cluster.until(run, Phase.APPROVED).status.approved_by == "alice, carol"


def test_a_request_that_nobody_approves_keeps_no_proposal_back(cluster: OperatedCluster, who: Who) -> None:
    asked = cluster.ask(who("bob"))
    cluster.until(asked, Phase.AWAITING_APPROVAL)
    run = proposed(cluster)
    cluster.say(who("alice"), run.name)
    cluster.until(run.name, Phase.SUCCEEDED, 60)


def test_a_name_that_was_taken_beforehand(cluster: OperatedCluster, who: Who) -> None:
    """Whoever knows how names are made takes the next one; here it is seen once before."""
    first = proposed(cluster)
    cluster.admin.delete(cluster.path("remediations", first.name))
    body = cluster.admin.get(cluster.path("kafkaclusters", cluster.name))
    squat: Object = {
        "apiVersion": body["apiVersion"],
        "kind": "Remediation",
        "metadata": {"name": first.name, "namespace": NAMESPACE},
        "spec": {
            "clusterRef": {"name": "nobody", "uid": "nobody"},
            "playbook": {"name": PLAYBOOK, "digest": first.spec.playbook.digest},
            "requestedBy": "bob",
        },
    }
    who("bob").create(cluster.path("remediations"), squat)
    run = proposed(cluster)
    assert run.name != first.name
    events = cluster.admin.list(f"/api/v1/namespaces/{NAMESPACE}/events")
    mine = [e["message"] for e in events if (e["reason"], e["involvedObject"]["name"]) == ("NameTaken", cluster.name)]
    assert mine == [
        f"the name of a proposal of {PLAYBOOK} is taken by {first.name} (created by bob); proposed as {run.name}"
    ]
    cluster.say(who("alice"), run.name)
    cluster.until(run.name, Phase.SUCCEEDED, 60)


def test_a_forged_journal_while_the_policies_are_away(cluster: OperatedCluster, who: Who) -> None:
    """carol may write every status, once nothing refuses it: what she writes there is never sent."""
    run = proposed(cluster)
    path = cluster.path("remediations", run.name, "status")
    at = run.status.plan.proposed_at.isoformat().replace("+00:00", "Z") if run.status.plan else ""
    step = "add-replicas"
    entry = {"step": step, "state": "Intended", "intendedAt": at}
    saved = [{"name": f"BROKER/1/{RATE}", "value": "1"}]
    journal = [
        entry | {"id": f"{step}/throttle", "kind": "ChangeSettings", "saved": saved},
        entry | {"id": f"{step}/rate-0-1048588", "kind": "ChangeSettings"},
        entry | {"id": "give-up", "kind": "GiveUp", "target": "Aborted", "detail": "x"},
    ]
    cluster.kafka.dynamic["BROKER", "1", RATE] = "1048588"

    def forge() -> None:
        found = cluster.admin.get(cluster.path("remediations", run.name))
        begun = {"phase": "Running", "startedAt": at}
        # As the type's own table of phases lets it.
        for phase in ("Approved", "Blocked") if found["status"]["phase"] != "Blocked" else ("Blocked",):
            steps = [one | begun if one["name"] == step else one for one in found["status"]["steps"]]
            forged = {"phase": phase, "startedAt": at, "currentStep": step, "journal": journal, "steps": steps}
            found = who("carol").replace(path, found | {"status": found["status"] | forged})

    refused("may not write status; only the operator writes status", forge)
    gone = [without(kind, policy.name) for policy in chart_rules().policies for kind in (BINDING, POLICY)]
    try:
        wait_for("the policies to go", lambda: _passes(forge), seconds=30)
        nothing_is_done(cluster, run.name, "its status is not trusted")
    finally:
        for one in reversed(gone):
            again(one)
    wait_for("the policies", lambda: not _passes(forge), seconds=30)
    settled()
    nothing_is_done(cluster, run.name, "are younger than the run")
    assert cluster.kafka.dynamic["BROKER", "1", RATE] == "1048588"


def without(kind: str, name: str) -> Object:
    """What the policy or binding was before it went."""
    stored: Object = json.loads(kubectl("get", kind, name, "-o", "json").stdout)
    kubectl("delete", kind, name)
    return stored


def _passes(attempt: Callable[[], None]) -> bool:
    try:
        attempt()
    except ApiFailure as problem:
        if problem.status != 403:
            raise
        return False
    return True


def test_another_namespaces_kafkacluster_holds_up_nothing_by_a_finalizer(cluster: OperatedCluster, who: Who) -> None:
    """carol's KafkaCluster for the same Kafka, older or not, with the operator's finalizer on it."""
    other = OperatedCluster(who("operator"), who("admin"), NAMESPACE, f"{cluster.name[:30]}-twin")
    try:
        other.kafka.cluster_id = cluster.kafka.cluster_id
        other.rule(mode="Observe")
        other.reconcile(2)
        finalizer = {"metadata": {"finalizers": ["kafkamedic.dev/restore"]}}
        path = custom_path("kafkaclusters", NAMESPACE, other.name)
        run = proposed(cluster)
        cluster.say(who("alice"), run.name)
        for _ in range(60):
            who("carol").merge(path, finalizer)
            cluster.reconcile(1)
            if cluster.run(run.name).status.phase is Phase.SUCCEEDED:
                return
        raise AssertionError(cluster.why(run.name))
    finally:
        other.close()
        other.leave()


def test_an_approver_reads_a_long_plan_with_their_own_rights(
    cluster: OperatedCluster, who: Who, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of a megabyte in pieces that the API server takes; whoever may not read the run may not read them."""
    run = proposed(cluster)
    assert run.status.plan is not None
    data = random.Random(1).randbytes(1_000_000)
    sha256 = hashlib.sha256(data).hexdigest()
    plan = run.status.plan.with_parts(ReplicaMoves(artifact=Artifact(uri="file:///x", sha256=sha256)))
    monkeypatch.setattr(plan_parts, "contents", lambda _: data)
    for _ in range(2):  # again, as after a crash
        assert plan_parts.publish(who("admin"), run, plan) is None

    def read(name: str) -> bytes | None:
        return Access(who(name), NAMESPACE, lambda: datetime.now(UTC)).plan_file(run, sha256)

    assert read("alice") == read("bob") == data
    assert read("mallory") is None
    refused("planparts", who("bob").create, cluster.path("planparts"), smallest_part(run, sha256))


def smallest_part(run: Remediation, sha256: str) -> Object:
    spec = {"remediationRef": {"name": run.name, "uid": run.uid}, "sha256": sha256, "part": 0, "parts": 1, "data": ""}
    return {"apiVersion": API_VERSION, "kind": "PlanPart", "metadata": {"name": "forged"}, "spec": spec}
