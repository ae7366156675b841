"""The resources, the chart and its policies on a real API server, with real users.

Needs the testbed (`make up`) or a KUBECONFIG whose user may do everything. If the chart is not installed yet it is,
and goes again at the end; its Pod need not run for any of this.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafka_medic.resources.definitions import DEFINITIONS, SCHEMA_DIGEST_ANNOTATION
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.playbook import Playbook
from tests.integration.operated_cluster import PLAYBOOK
from tests.integration.people import (
    CRDS,
    RELEASE,
    RELEASE_NAMESPACE,
    Done,
    Object,
    approval,
    as_status,
    can,
    create,
    created,
    definitions,
    helm,
    patch,
    people,
    placed,
    refused,
    remediation,
)
from tests.testbed import kubectl, wait_for
from tests.unit.resources.refused import REFUSED
from tests.unit.resources.sources import CHART, NOW, ROOT, documents, smallest

NAMESPACE = "resources-on-api-server"


@pytest.fixture(scope="module")
def namespace(role: str) -> Iterator[str]:
    with people(NAMESPACE, role) as name:
        yield name


@pytest.fixture(scope="module")
def careless(role: str, operator: str) -> Iterator[str]:
    """A namespace in which somebody gave the operator every right there is."""
    with people(f"{NAMESPACE}-careless", role, ("too-much", "--clusterrole=cluster-admin", operator)) as name:
        every = ("auth", "can-i", "*", "*", "-n", name, f"--as={operator}")
        wait_for("the operator's rights", lambda: kubectl(*every, check=False).returncode == 0, seconds=30)
        yield name


def test_the_types_are_served_as_generated(chart: None) -> None:
    found = json.loads(kubectl("get", "crd", *CRDS, "-o", "json").stdout)["items"]
    digests = {f"{one.resource.PLURAL}.kafkamedic.dev": one.schema_digest() for one in DEFINITIONS}
    for crd in found:
        conditions = {one["type"]: one["status"] for one in crd["status"]["conditions"]}
        assert conditions["Established"] == "True"
        assert conditions.get("NonStructuralSchema", "False") == "False"
        assert crd["metadata"]["annotations"][SCHEMA_DIGEST_ANNOTATION] == digests.pop(crd["metadata"]["name"])
    assert not digests


def test_bad_objects_are_refused_by_the_server_with_the_fields_name(namespace: str) -> None:
    cases = [case for case in REFUSED if case.by_server]

    def answer(index: int) -> Done:
        value = cases[index].object
        if value["kind"] != "Playbook":
            value["metadata"]["namespace"] = namespace
        return create(value, "--dry-run=server")

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(answer, range(len(cases))))
    wrong = {
        str(case): done.stderr or "accepted"
        for case, done in zip(cases, answers, strict=True)
        if done.returncode == 0 or case.named not in done.stderr
    }
    assert not wrong


def test_each_example_is_taken(namespace: str) -> None:
    me = json.loads(kubectl("auth", "whoami", "-o", "json").stdout)["status"]["userInfo"]["username"]
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        # This API server has none of Strimzi's types.
        for value in (one for one in documents(path) if not one["apiVersion"].startswith("kafka.strimzi.io/")):
            value["metadata"]["namespace"] = namespace
            if value["kind"] == "RemediationApproval":
                value["spec"]["approver"] = me
            created(value, "--dry-run=server")


def test_defaults_are_the_same_on_the_server_and_here(namespace: str) -> None:
    value = placed("KafkaCluster", namespace)
    stored = created(value)
    assert KafkaCluster.parse(stored).spec == KafkaCluster.parse(smallest("KafkaCluster")).spec
    assert stored["spec"]["remediation"]["approvals"] == {
        "required": 1,
        "allowRequester": False,
        "expireAfter": "24h",
    }
    assert "status" not in stored


def test_the_installed_playbook_has_the_digest_of_its_file(chart: None) -> None:
    for path in (ROOT / "playbooks").glob("*.yaml"):
        (raw,) = documents(path)
        name = raw["metadata"]["name"]
        stored = json.loads(kubectl("get", "playbooks.kafkamedic.dev", name, "-o", "json").stdout)
        assert Playbook.parse(stored).digest() == Playbook.parse(raw).digest()


def test_what_people_asked_and_approved_cannot_be_changed(namespace: str) -> None:
    run = remediation(namespace)
    refused(patch(run, {"spec": {"parameters": {"a": "b"}}}), "spec is immutable")
    word = created(approval(run, approver="alice"), user="alice")
    refused(patch(word, {"spec": {"decision": "Reject"}}), "spec is immutable")


def test_status_is_the_operators_alone_and_follows_the_table(careless: str, operator: str) -> None:
    run = remediation(careless)
    refused(patch(run, {"status": {"phase": "Planning"}}, "--subresource=status"), "only the operator writes status")
    refused(patch(run, {"status": {"phase": "Approved"}}, *as_status(operator)), "first status.phase must be Planning")
    for phase in ("Planning", "AwaitingApproval"):
        assert patch(run, {"status": {"phase": phase}}, *as_status(operator)).returncode == 0
    refused(
        patch(run, {"status": {"phase": "Running"}}, *as_status(operator)),
        "status.phase may not change from the present phase",
    )
    refused(patch(run, {"status": {"phase": None}}, *as_status(operator)), "status.phase cannot be removed")
    refused(patch(run, {"status": None}, *as_status(operator)), "status cannot be removed")
    assert patch(run, {"status": {"phase": "Expired"}}, *as_status(operator)).returncode == 0
    refused(
        patch(run, {"status": {"phase": "Planning"}}, *as_status(operator)),
        "status.phase may not change from the present phase",
    )


def test_a_merge_patch_drops_null_inside_lists_so_absent_means_unset(careless: str, operator: str) -> None:
    run = remediation(careless)
    saved = [{"name": "rate", "value": None}, {"name": "replicas", "value": ""}]
    entry = {"id": "1", "step": "a", "kind": "K", "state": "Intended", "intendedAt": NOW, "saved": saved}
    done = patch(run, {"status": {"phase": "Planning", "journal": [entry]}}, *as_status(operator))
    assert done.returncode == 0, done.stderr
    (stored,) = json.loads(done.stdout)["status"]["journal"]
    assert stored["saved"] == [{"name": "rate"}, {"name": "replicas", "value": ""}]


def test_the_operator_stays_out_of_peoples_specs(careless: str, operator: str) -> None:
    cluster = created(placed("KafkaCluster", careless))
    change = {"spec": {"remediation": {"mode": "Auto"}}}
    refused(patch(cluster, change, f"--as={operator}"), "may not change spec; only people write spec")
    note = {"metadata": {"annotations": {"kafkamedic.dev/handled": "1"}}}
    refused(patch(cluster, note, f"--as={operator}"), "no metadata except its finalizer")
    assert patch(cluster, change).returncode == 0


def test_the_operator_holds_with_its_own_finalizer_and_with_no_other(namespace: str, operator: str) -> None:
    for stored in (created(placed("KafkaCluster", namespace)), remediation(namespace)):
        ours, theirs = "kafkamedic.dev/restore", "example.com/theirs"
        assert patch(stored, {"metadata": {"finalizers": [theirs]}}).returncode == 0

        def put(*finalizers: str, stored: Object = stored) -> Done:
            return patch(stored, {"metadata": {"finalizers": finalizers}}, f"--as={operator}")

        assert put(theirs, ours).returncode == 0
        refused(put(ours), "no metadata except its finalizer")
        refused(put(theirs, ours, "example.com/more"), "no metadata except its finalizer")
        assert put(theirs).returncode == 0
        assert patch(stored, {"metadata": {"finalizers": None}}).returncode == 0


def test_only_who_may_approve_approves_and_only_by_their_own_name(namespace: str) -> None:
    run = remediation(namespace)
    refused(
        create(approval(run, approver="mallory"), user="mallory"),
        "user mallory may not decide on Remediation",
        "verb approve",
    )
    refused(
        create(approval(run, approver="bob"), user="alice"), "spec.approver must be your own user name, alice, not bob"
    )
    refused(create(approval(run, approver="carol"), user="carol"), "cannot create resource")
    assert created(approval(run, approver="alice"), user="alice")["spec"]["approver"] == "alice"


def test_groups_are_recorded_and_nobody_names_one_that_they_are_not_in(namespace: str, role: str) -> None:
    kubectl("-n", namespace, "create", "rolebinding", "oncall", f"--clusterrole={role}-approver", "--group=oncall")
    run = remediation(namespace)
    dora = ("--as=dora", "--as-group=oncall", "--as-group=system:authenticated")

    def may() -> bool:
        return (
            kubectl("auth", "can-i", "approve", "remediations.kafkamedic.dev", "-n", namespace, *dora).returncode == 0
        )

    wait_for("the group's right", may, seconds=30)
    plain = created(approval(run, approver="dora"), *dora)
    assert sorted(plain["spec"]["approverGroups"]) == ["oncall", "system:authenticated"], "filled in by the API server"
    said = created(approval(run, approver="dora", approverGroups=["oncall"]), *dora)
    assert said["spec"]["approverGroups"] == ["oncall"]
    again = kubectl("apply", "-f", "-", *dora, input=json.dumps(approval(run, approver="dora") | {"metadata": {
        "name": plain["metadata"]["name"], "namespace": namespace}}), check=False)  # fmt: skip
    assert "is immutable" not in again.stderr
    word = approval(run, approver="alice", approverGroups=["oncall", "system:authenticated"])
    refused(create(word, user="alice"), "only your own groups", "system:authenticated")
    refused(create(approval(run, approver="dora", approverGroups=["system:masters"]), *dora), "only your own groups")
    refused(patch(said, {"spec": {"approverGroups": ["system:masters"]}}), "spec is immutable")


def test_peoples_roles(namespace: str, role: str) -> None:
    """Bound in one namespace: what each may do there, and that Playbooks, which are in none, can be read by all."""
    for who in ("viewer", "editor"):
        kubectl("-n", namespace, "create", "rolebinding", who, f"--clusterrole={role}-{who}", f"--user={who}")
    kubectl("-n", namespace, "create", "rolebinding", "plain-view", "--clusterrole=view", "--user=plain-view")
    rights = {
        "viewer": set(),
        "plain-view": set(),
        "bob": {("create", "remediations")},
        "alice": {("approve", "remediations"), ("create", "remediationapprovals")},
        "editor": {
            *((verb, "kafkaclusters") for verb in ("create", "update", "patch", "delete")),
            ("create", "remediations"),
            ("delete", "remediations"),
        },
    }
    wait_for("the roles", lambda: can("delete", "remediations", "-n", namespace, "--as=editor"), seconds=30)
    every = set.union(*rights.values())
    for who, may in rights.items():
        here = ("-n", namespace, f"--as={who}", "--as-group=system:authenticated")
        assert {right for right in every if can(*right, *here)} == may, who
        for kind in ("kafkaclusters", "remediations", "remediationapprovals"):
            assert can("list", kind, *here), (who, kind)
            assert not can("list", kind, "-n", "default", *here[2:]), (who, kind)
        for verb in ("create", "update", "patch", "delete"):
            assert not can(verb, "playbooks", *here[2:]), (who, verb)
    for who in (*rights, "nobody-in-particular"):
        assert can("get", "playbooks", f"--as={who}", "--as-group=system:authenticated"), who
    assert not can("get", "playbooks", "--as=system:anonymous", "--as-group=system:unauthenticated")


def test_the_operator_approves_nothing(namespace: str, careless: str, operator: str) -> None:
    word = approval(remediation(namespace), approver=operator)
    refused(create(word, f"--as={operator}"), "cannot create resource")
    word = approval(remediation(careless), approver=operator)
    refused(create(word, f"--as={operator}"), "the operator may not approve or reject a plan")


def test_a_remediation_is_asked_for_in_ones_own_name(namespace: str, operator: str) -> None:
    cause = {"findingId": "rf-low", "findingType": "ReplicationFactorLow"}
    refused(
        create(placed("Remediation", namespace, requestedBy="alice"), user="bob"),
        "spec.requestedBy must be your own user name, bob, not alice",
    )
    refused(
        create(placed("Remediation", namespace, requestedBy=None, cause=cause), user="bob"),
        "only the operator may set spec.cause; set spec.requestedBy to bob instead",
    )
    refused(create(placed("Remediation", namespace, requestedBy="carol"), user="carol"), "cannot create resource")
    created(placed("Remediation", namespace, requestedBy=None, cause=cause), f"--as={operator}")


@pytest.mark.parametrize(
    ("verb", "resource", "allowed"),
    [
        ("watch", "kafkaclusters.kafkamedic.dev", True),
        ("update", "kafkaclusters.kafkamedic.dev/status", True),
        ("update", "remediations.kafkamedic.dev/status", True),
        ("update", "playbooks.kafkamedic.dev/status", True),
        ("create", "remediations.kafkamedic.dev", True),
        ("watch", "remediationapprovals.kafkamedic.dev", True),
        ("list", "pods", True),
        ("get", "nodes", True),
        ("create", "events", True),
        ("create", "subjectaccessreviews.authorization.k8s.io", True),
        ("list", "validatingadmissionpolicies.admissionregistration.k8s.io", False),
        ("approve", "remediations.kafkamedic.dev", False),
        ("create", "remediationapprovals.kafkamedic.dev", False),
        ("delete", "remediations.kafkamedic.dev", False),
        ("update", "kafkaclusters.kafkamedic.dev", False),
        ("patch", "kafkaclusters.kafkamedic.dev", True),
        ("patch", "remediations.kafkamedic.dev", True),
        ("update", "remediations.kafkamedic.dev", False),
        ("create", "playbooks.kafkamedic.dev", False),
        ("patch", "playbooks.kafkamedic.dev", False),
        ("get", "secrets", False),
        ("delete", "pods", False),
        ("update", "leases.coordination.k8s.io", True),
        ("delete", "leases.coordination.k8s.io", False),
        ("patch", "nodes", False),
        ("list", "nodes", False),
    ],
)
def test_the_operators_rights(namespace: str, operator: str, verb: str, resource: str, allowed: bool) -> None:
    path, _, name = resource.partition("/")
    what = [f"{path}/{name}"] if name and name != "status" else [path]
    sub = ["--subresource=status"] if name == "status" else []
    done = kubectl("auth", "can-i", verb, *what, *sub, "-n", namespace, f"--as={operator}", check=False)
    assert done.stdout.strip() == ("yes" if allowed else "no"), done.stderr


def test_the_chart_can_be_upgraded_types_included(chart: None) -> None:
    """Also by the chart alone, once it owns the definitions that were applied beside it."""
    definitions()
    if helm("status", RELEASE, "-n", RELEASE_NAMESPACE, check=False).returncode != 0:
        return
    own = ("upgrade", RELEASE, str(CHART), "-n", RELEASE_NAMESPACE, "--set", "uninstallCheck=false")
    first = helm(*own, check=False)
    assert first.returncode != 0
    assert "cannot be imported into the current release" in first.stderr
    helm(*own, "--take-ownership", "--force-conflicts")
    kubectl("label", "--overwrite", "crd", CRDS[0], "app.kubernetes.io/version=0")
    changed = ("--force-conflicts", "--set", "crds.annotations.changed=here")
    helm(*own, *changed)
    found = json.loads(kubectl("get", "crd", CRDS[0], "-o", "json").stdout)["metadata"]
    assert found["annotations"]["changed"] == "here"
    assert found["annotations"]["helm.sh/resource-policy"] == "keep"
    assert found["labels"]["app.kubernetes.io/version"] != "0"
    helm(*own, *changed, "--set", "crds.keep=false")
    found = json.loads(kubectl("get", "crd", CRDS[0], "-o", "json").stdout)["metadata"]
    assert "helm.sh/resource-policy" not in found["annotations"]
    away = helm(*own, "--set", "crds.enabled=false", check=False)
    assert away.returncode != 0
    assert "would make helm delete the definitions" in away.stderr
    assert json.loads(kubectl("get", "crd", CRDS[0], "-o", "json").stdout)["metadata"]["uid"] == found["uid"]
    helm(*own, *changed)
    helm(*own, "--set", "crds.enabled=false")
    kubectl("get", "crd", *CRDS)  # they stay, though they are part of the release no more


HOSTILE = {
    "an unknown key": (
        "  steps:",
        "  steps:\n    - {name: more, action: ReassignPartitions, shell: rm -rf /}",
        "shell",
    ),
    "a tag": ("  risk: Medium", "  risk: !!python/object/apply:os.system [rm -rf /]", "risk"),
    "a template": ("  risk: Medium", "  risk: '{{ .Values.risk }}'", "risk"),
    "a shell string": ("action: ReassignPartitions", "action: $(rm -rf /)", "action"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_playbook(chart: None, what: str, tmp_path: Path) -> None:
    before, after, named = HOSTILE[what]
    text = (ROOT / "playbooks" / f"{PLAYBOOK}.yaml").read_text()
    assert before in text
    bad = tmp_path / "playbook.yaml"
    bad.write_text(text.replace(before, after, 1).replace(f"name: {PLAYBOOK}\n", "name: hostile\n", 1))
    done = kubectl("create", "-f", str(bad), check=False)
    assert done.returncode != 0
    assert named in done.stderr
    nobody_has_it()


def test_an_anchor_bomb(chart: None, tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    bomb = tmp_path / "playbook.yaml"
    bomb.write_text("apiVersion: kafkamedic.dev/v1alpha1\nkind: Playbook\nmetadata: {name: hostile}\nspec:\n  "
                    + "\n  ".join(lines) + "\n")  # fmt: skip
    done = kubectl("create", "-f", str(bomb), check=False, timeout=60)
    assert done.returncode != 0
    assert "hostile" in done.stderr or "yaml" in done.stderr.lower()
    nobody_has_it()


def nobody_has_it() -> None:
    assert kubectl("get", "playbook", "hostile", "--ignore-not-found").stdout == ""
