"""People with rights of their own on a real API server, and what each of them asks of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from kafka_medic.clients.kubernetes_api import KubernetesApi
from kafka_medic.controller.rules import Rules
from kafka_medic.controller.store import Store
from kafka_medic.resources.definitions import DEFINITIONS
from tests.incident.operator import rules
from tests.testbed import StepFailedError, kubectl, wait_for
from tests.unit.resources.sources import ROOT, smallest

RELEASE = "kafka-medic"
RELEASE_NAMESPACE = "kafka-medic-resources-test"
CRDS = [f"{definition.resource.PLURAL}.kafkamedic.dev" for definition in DEFINITIONS]

Object = dict[str, Any]
Done = subprocess.CompletedProcess[str]


WITHOUT_AN_IMAGE = ("--set", "crds.enabled=false", "--set", "uninstallCheck=false")
"""No Pod of this release ever runs, so no hook may need one. The definitions are applied beside it."""


def helm(*arguments: str, check: bool = True) -> Done:
    """helm in the cluster's network."""
    command = [sys.executable, "-m", "tests.testbed", "enter", "helm", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 or not check, done.stderr
    return done


def definitions() -> None:
    """As people without the chart apply them."""
    kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds"))
    kubectl("wait", "crd", *CRDS, "--for=condition=Established", "--timeout=30s")


def no_definitions() -> None:
    """Delete them, with all that is left of their kinds. The API server tries for a minute, and then anew: in one of
    many runs it took more than two."""
    kubectl("delete", "crd", *CRDS, "--ignore-not-found", "--wait=false")
    try:
        wait_for("the definitions to go", lambda: not _still_there(), seconds=300, every=0.5)
    except StepFailedError as late:
        left = {name: kubectl("get", name, "-A", "-o", "yaml", check=False).stdout for name in _still_there()}
        why = kubectl("get", "crd", *CRDS, "--ignore-not-found", "-o", "yaml").stdout.rpartition("conditions:")[2]
        raise AssertionError(f"{late}; left: {left}; the last definition's conditions: {why}") from late


def _still_there() -> list[str]:
    found = kubectl("get", "crd", *CRDS, "--ignore-not-found", "-o", "name").stdout.split()
    return [name.rpartition("/")[2] for name in found]


def settled(release: str = RELEASE, namespace: str = RELEASE_NAMESPACE) -> None:
    """Wait until what is created has passed the admission policies for certain."""
    store = Store(KubernetesApi(), policies=installed_rules(release, namespace).policies)

    def stand() -> bool:
        policies = store.policies()
        assert policies is None or not policies.why, policies
        return policies is not None and policies.covers(datetime.now(UTC))

    wait_for("the admission policies to be in force everywhere", stand, seconds=30)


def installed_rules(release: str = RELEASE, namespace: str = RELEASE_NAMESPACE) -> Rules:
    return Rules.model_validate_json(rules(release, namespace))


@contextmanager
def people(name: str, role: str, *bindings: tuple[str, str, str]) -> Iterator[str]:
    """A namespace with restarts allowed: alice approves, bob asks, and mallory may create approvals but not approve."""
    # the leftover of a killed run
    kubectl("delete", "namespace", name, "--ignore-not-found", "--timeout=60s")
    kubectl("create", "namespace", name)
    kubectl("label", "namespace", name, "kafkamedic.dev/restarts=allowed")
    try:
        resources = "--resource=remediationapprovals.kafkamedic.dev"
        kubectl("-n", name, "create", "role", "creators", "--verb=create", resources)
        for binding, of, who in (
            ("approvers", f"--clusterrole={role}-approver", "alice"),
            ("askers", f"--clusterrole={role}-operator-user", "bob"),
            ("creators", "--role=creators", "mallory"),
            *bindings,
        ):
            kubectl("-n", name, "create", "rolebinding", binding, of, f"--user={who}")
        # roles and policies come into force a moment after they are written
        wait_for("the people's roles", lambda: _in_force(name), seconds=30)
        yield name
    finally:
        kubectl("delete", "namespace", name, "--wait=false")


def _in_force(namespace: str) -> bool:
    """Whether alice's word is taken, and bob may ask for a remediation, but not in another's name."""
    word = placed("RemediationApproval", namespace, approver="alice")
    lie = placed("Remediation", namespace, requestedBy="somebody-else")
    taken = create(word, "--dry-run=server", user="alice").returncode == 0
    return taken and "must be your own user name" in create(lie, "--dry-run=server", user="bob").stderr


def create(value: Mapping[str, Any], *extra: str, user: str | None = None) -> Done:
    return kubectl("create", "-f", "-", "-o", "json", *extra, user=user, input=json.dumps(value), check=False)


def created(value: Mapping[str, Any], *extra: str, user: str | None = None) -> Object:
    done = create(value, *extra, user=user)
    assert done.returncode == 0, done.stderr
    stored: Object = json.loads(done.stdout)
    return stored


def placed(kind: str, namespace: str, **spec: object) -> Object:
    value = smallest(kind)
    value["metadata"] = (
        {"generateName": "test-"}
        if kind == "Playbook"
        else {
            "generateName": "test-",
            "namespace": namespace,
        }
    )
    value["spec"] = {name: field for name, field in (value["spec"] | spec).items() if field is not None}
    return value


def patch(stored: Object, change: Object, *extra: str) -> Done:
    name = f"{stored['kind'].lower()}s.kafkamedic.dev/{stored['metadata']['name']}"
    place = ["-n", stored["metadata"]["namespace"]] if "namespace" in stored["metadata"] else []
    arguments = ["patch", name, *place, "--type=merge", "-p", json.dumps(change), "-o", "json", *extra]
    return kubectl(*arguments, check=False)


def as_status(user: str) -> tuple[str, ...]:
    return ("--subresource=status", f"--as={user}")


def refused(done: Done, *words: str) -> None:
    assert done.returncode != 0, done.stdout
    for word in words:
        assert word in done.stderr


def remediation(namespace: str) -> Object:
    return created(placed("Remediation", namespace, requestedBy="bob"), user="bob")


def approval(run: Object, **spec: object) -> Object:
    ref = {"name": run["metadata"]["name"], "uid": run["metadata"]["uid"]}
    return placed("RemediationApproval", run["metadata"]["namespace"], remediationRef=ref, **spec)


def can(verb: str, resource: str, *where: str) -> bool:
    return kubectl("auth", "can-i", verb, f"{resource}.kafkamedic.dev", *where, check=False).stdout.strip() == "yes"
