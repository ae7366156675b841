"""A right that is held through a group, on real parts: recorded by the API server, asked for by the operator."""

from __future__ import annotations

import json

from tests.e2e.conftest import Case
from tests.incident import operator
from tests.testbed import kubectl

DORA = ("--as=dora", "--as-group=oncall", "--as-group=system:authenticated")


def bind(case: Case) -> None:
    rbac = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{case.name}-oncall", "namespace": case.namespace},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": f"{operator.RELEASE}-approver"},
        "subjects": [{"apiGroup": rbac, "kind": "Group", "name": "oncall"}],
    }
    operator.apply([binding])


def unbind(case: Case) -> None:
    kubectl("delete", "rolebinding", f"{case.name}-oncall", "-n", case.namespace, "--ignore-not-found")


def test_an_approver_through_a_group_counts_as_long_as_the_group_may(kraft_case: Case) -> None:
    case = kraft_case
    bind(case)
    try:
        case.topic([1])
        # Held by a pause, so that the right can be taken away between approval and start.
        case.watch(remediation={"paused": True})
        run = case.wait("AwaitingApproval")
        word = operator.approval(run, "dora")
        assert "approverGroups" not in word["spec"]
        created = kubectl("create", "-f", "-", "-o", "json", *DORA, input=json.dumps(word))
        assert "oncall" in json.loads(created.stdout)["spec"]["approverGroups"]
        case.wait("Approved", 60)
        unbind(case)
        case.wait("AwaitingApproval", 60)
        (record,) = case.runs()[0]["status"]["approvals"]
        assert not record["counted"]
        bind(case)
        case.wait("Approved", 60)
        go_on = '{"spec":{"remediation":{"paused":false}}}'
        kubectl("patch", "kafkacluster", case.name, "-n", case.namespace, "--type=merge", "-p", go_on)
        done = case.wait("Succeeded", 120)
        assert done["status"]["approvedBy"] == "dora"
        assert case.factors() == {3}
    finally:
        unbind(case)
