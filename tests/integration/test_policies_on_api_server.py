"""The admission policies count as what they are, and from then on, on a real API server and with the real chart.

The operator's own reconciles with its own rights; only Kafka is in memory.
"""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kafka_medic.clients.kubernetes_api import KubernetesApi
from kafka_medic.controller.store import Store
from kafka_medic.resources.admission import Standing
from kafka_medic.resources.phases import Phase
from tests.integration.operated_cluster import OperatedCluster, Person, chart_rules, nothing_is_done, persons
from tests.integration.people import RELEASE, RELEASE_NAMESPACE, WITHOUT_AN_IMAGE, Object, create, helm, people, settled
from tests.testbed import kubectl, wait_for
from tests.unit.resources.sources import CHART

NAMESPACE = "policies"
POLICY, BINDING = "validatingadmissionpolicy", "validatingadmissionpolicybinding"
Who = Callable[[str], Person]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operator")


@pytest.fixture(scope="module")
def who(role: str, operator: str, folder: Path) -> Iterator[Who]:
    """alice approves, bob asks; mallory creates Remediations and approvals, and may approve none."""
    if role != RELEASE or RELEASE_NAMESPACE not in operator:
        pytest.skip("installs and uninstalls the chart, which somebody else has installed here")
    mallory = ("mallory-asks", f"--clusterrole={role}-operator-user", "mallory")
    known = persons(folder, operator, "admin", "alice", "bob", "mallory")
    with people(NAMESPACE, role, mallory):
        yield known.__getitem__


@pytest.fixture
def cluster(who: Who) -> Iterator[OperatedCluster]:
    standing()
    it = OperatedCluster(who("operator"), who("admin"), NAMESPACE, f"orders-{uuid.uuid4().hex[:6]}")
    yield it
    it.close()
    it.leave()


def standing() -> None:
    """The chart as it is, and anew what an earlier test has touched."""
    install()
    found = Store(KubernetesApi(), policies=chart_rules().policies).policies()
    if found is not None and found.since is None:
        kubectl("delete", f"{POLICY},{BINDING}", "-l", "app.kubernetes.io/part-of=kafka-medic")
        install()
    settled()


def install(*options: str) -> None:
    """With these values and none from before."""
    anew = ("--reset-values", "--force-conflicts", *WITHOUT_AN_IMAGE)
    helm("upgrade", "--install", RELEASE, str(CHART), "-n", RELEASE_NAMESPACE, *anew, *options)


def seen(who: Who) -> Standing:
    found = Store(who("operator"), policies=chart_rules().policies).policies()
    assert found is not None
    return found


def test_what_the_real_chart_installs_is_what_the_operator_expects(cluster: OperatedCluster, who: Who) -> None:
    """As the API server has it, with what it fills in; and in force since their creation."""
    found = seen(who)
    assert found.why == ""
    assert found.since is not None
    assert found.since <= datetime.now(UTC)


def named(about: str) -> str:
    return next(policy.name for policy in chart_rules().policies if policy.about == about)


NOWHERE = {"matchLabels": {"none": "none"}}
RULE = {"apiGroups": ["kafkamedic.dev"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["remediations"]}
NAMES = ("annotations", "oldAnnotations", "topic", "oldTopic", "least", "oldLeast", "sameLeast")
EMPTY = [{"name": name, "expression": "dyn({})"} for name in NAMES]
NARROWED: list[tuple[str, str, Object, str]] = [
    (POLICY, "approvals", {"validations": [{"expression": "true"}]}, "spec.validations"),
    (POLICY, "remediations", {"matchConditions": [{"name": "never", "expression": "false"}]}, "spec.matchConditions"),
    (POLICY, "operator", {"failurePolicy": "Ignore"}, "spec.failurePolicy"),
    (POLICY, "rights", {"variables": EMPTY}, "spec.variables"),
    (POLICY, "kafkaclusters", {"matchConstraints": {"namespaceSelector": NOWHERE}}, "namespaceSelector.matchLabels"),
    (POLICY, "approvals", {"matchConstraints": {"objectSelector": NOWHERE}}, "objectSelector.matchLabels"),
    (POLICY, "remediations", {"matchConstraints": {"excludeResourceRules": [RULE]}}, "excludeResourceRules"),
    (POLICY, "operator", {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}, "spec.paramKind"),
    (BINDING, "approvals", {"validationActions": ["Audit"]}, "spec.validationActions[0]"),
    (BINDING, "remediations", {"policyName": "another"}, "spec.policyName"),
    (BINDING, "operator", {"matchResources": {"namespaceSelector": NOWHERE}}, "spec.matchResources"),
    (BINDING, "rights", {"matchResources": {"objectSelector": NOWHERE}}, "spec.matchResources"),
]


def test_whatever_narrows_a_policy_or_its_binding_counts_as_not_installed(cluster: OperatedCluster, who: Who) -> None:
    """An administrator's edits, each in its turn; and edited back, none of them is as if nothing had been."""
    for kind, about, change, field in NARROWED:
        name = named(about)
        stored: Object = json.loads(kubectl("get", kind, name, "-o", "json").stdout)
        kubectl("patch", kind, name, "--type=merge", "-p", json.dumps({"spec": change}))
        narrowed = seen(who)
        assert narrowed.since is None, (kind, about, change)
        assert f"{name}: spec." in narrowed.why
        assert field in narrowed.why, narrowed.why
        back = copy.deepcopy(stored)
        del back["metadata"]["resourceVersion"]
        kubectl("replace", "-f", "-", input=json.dumps(back))
        edited = seen(who)
        assert edited.since is None
        assert "edited after its creation (generation 3, limit 1)" in edited.why
        again(stored)
        assert seen(who).since is not None


def again(stored: Object) -> None:
    """Deleted and created, as the message says."""
    kept = copy.deepcopy(stored)
    for server in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        kept["metadata"].pop(server, None)
    kubectl("delete", stored["kind"].lower(), stored["metadata"]["name"], "--ignore-not-found")
    kubectl("create", "-f", "-", input=json.dumps(kept))


@pytest.mark.parametrize("kind", [POLICY, BINDING])
def test_while_one_is_gone_nobodys_word_counts_and_after_it_none_from_before(
    cluster: OperatedCluster, who: Who, kind: str
) -> None:
    name = cluster.ask(who("bob"))
    cluster.until(name, Phase.AWAITING_APPROVAL)
    with cluster.approved_but_paused(who("alice"), name):
        stored: Object = json.loads(kubectl("get", kind, named("approvals"), "-o", "json").stdout)
        kubectl("delete", kind, named("approvals"))
    nothing_is_done(cluster, name, f"{named('approvals')}: not installed; run helm upgrade")
    found = cluster.admin.get(cluster.path("kafkaclusters", cluster.name))["status"]["conditions"]
    (allowed,) = (c for c in found if c["type"] == "RemediationAllowed")
    assert (allowed["status"], allowed["reason"]) == ("False", "PoliciesMissing")
    again(stored)
    settled()
    cluster.reconcile(3)
    assert cluster.kafka.writes == []
    ended = cluster.run(name)
    assert ended.status.phase is Phase.SUPERSEDED
    assert "so its requester is not proven" in (ended.status.message or "")


def off() -> None:
    """As an administrator who finds the policies in the way, for a while."""
    install("--set", "admission.enabled=false")


def test_an_approval_forged_while_admission_was_off(cluster: OperatedCluster, who: Who) -> None:
    """mallory writes alice's name under it while nothing checks names. What a person asks for afterwards is done."""
    name = cluster.ask(who("bob"))
    cluster.until(name, Phase.AWAITING_APPROVAL)
    off()
    forged = cluster.word(name, approver="alice")
    wait_for("the policies to go", lambda: create(forged, user="mallory").returncode == 0, seconds=30)
    cluster.reconcile(3)
    assert cluster.kafka.writes == []
    standing()
    cluster.reconcile(4)
    assert cluster.kafka.writes == []
    assert cluster.run(name).status.phase is Phase.SUPERSEDED
    assert "so its requester is not proven" in cluster.why(name)
    honest = cluster.ask(who("bob"))
    cluster.until(honest, Phase.AWAITING_APPROVAL)
    cluster.say(who("alice"), honest)
    cluster.until(honest, Phase.SUCCEEDED, 40)
    assert cluster.run(honest).status.approved_by == "alice"


def test_a_cause_forged_while_admission_was_off_is_nothing_that_auto_does(cluster: OperatedCluster, who: Who) -> None:
    """mallory makes up a finding, for which Auto needs nobody."""
    cluster.rule(mode="Auto")
    off()
    cause = {"findingId": "ReplicationFactorLow/topics", "findingType": "ReplicationFactorLow"}
    made: list[str] = []

    def forged() -> bool:
        try:
            made.append(cluster.ask(who("mallory"), requestedBy=None, cause=cause))
        except Exception:  # noqa: BLE001 - as long as the policies are still in force
            return False
        return True

    wait_for("the policies to go", forged, seconds=30)
    cluster.reconcile(3)
    assert cluster.kafka.writes == []
    standing()
    cluster.reconcile(1)
    assert cluster.run(made[0]).status.phase is Phase.SUPERSEDED


def test_an_upgrade_that_changes_a_policy_asks_for_the_approval_anew(
    cluster: OperatedCluster, who: Who, operator: str, tmp_path: Path
) -> None:
    """The operator of the chart before may not even read policies of other names, and the new one finds the run older
    than its own."""
    name = approved_but_paused(cluster, who)
    install("--set", "admission.operatorUsers={somebody}")
    settled()
    cluster.rule(paused=None)
    nothing_is_done(cluster, name, "could not be read, so no approval can be trusted")
    cluster.starts(persons(tmp_path, operator)["operator"])
    superseded(cluster, name)


def test_an_upgrade_that_changes_no_policy_leaves_approvals_as_they_are(cluster: OperatedCluster, who: Who) -> None:
    name = approved_but_paused(cluster, who)
    install("--set", "log.format=full")
    cluster.rule(paused=None)
    cluster.until(name, Phase.SUCCEEDED, 40)


# The last one: with the release goes its ServiceAccount.


def test_what_was_approved_before_an_uninstall_counts_for_nothing_after_the_install(
    cluster: OperatedCluster, who: Who, operator: str, tmp_path: Path
) -> None:
    name = approved_but_paused(cluster, who)
    cluster.close()  # its ServiceAccount goes
    helm("uninstall", RELEASE, "-n", RELEASE_NAMESPACE, "--wait")
    standing()
    cluster.starts(persons(tmp_path, operator)["operator"])
    superseded(cluster, name)


def approved_but_paused(cluster: OperatedCluster, who: Who) -> str:
    name = cluster.ask(who("bob"))
    cluster.until(name, Phase.AWAITING_APPROVAL)
    cluster.rule(paused=True)
    cluster.say(who("alice"), name)
    return name


def superseded(cluster: OperatedCluster, name: str) -> None:
    cluster.rule(paused=None)
    cluster.reconcile(4)
    assert cluster.kafka.writes == []
    assert cluster.run(name).status.phase is Phase.SUPERSEDED
    assert "so its requester is not proven" in cluster.why(name)
