"""The rights that the chart gives the operator are those that it uses: none too many, none missing.

Comes last, and reads in the API server's audit log what the operator asked for in the whole run. Only `make test` has
it judge that: part of the suite uses part of the rights.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from kafka_medic.resources.admission import REQUIRED_POLICIES
from tests.incident import operator
from tests.testbed import audit, external_kubeconfig

EVERYTHING = (
    "strimzi.enabled=true",
    "strimzi.topics=edit",
    "mostAtOnce=1",
    "watchNamespaces={kafka}",
    "secretNamespaces={kafka}",
    "scalableWorkloads[0].namespace=kafka",
    "scalableWorkloads[0].deployments={billing}",
    "scalableWorkloads[0].statefulSets={audit}",
)
"""Each value with which the chart gives the operator a right more."""
ROLES = tuple(f"{operator.RELEASE}-{of}" for of in ("cluster", "watched", "starts", "secrets", "workloads"))
POLICIES = "admissionregistration.k8s.io"
Right = tuple[str, str, str, str]
"""(API group, resource, verb, name); the name only of policies, which the chart itself names."""

STOLEN: frozenset[Right] = frozenset(
    {
        ("", "namespaces", "create", ""),
        ("", "pods", "create", ""),
        ("", "pods", "patch", ""),
        ("", "secrets", "create", ""),
        ("", "secrets", "list", ""),
        ("kafkamedic.dev", "kafkaclusters", "create", ""),
        ("kafkamedic.dev", "remediationapprovals", "create", ""),
        ("kafka.strimzi.io", "kafkatopics", "delete", ""),
    }
)
"""What tests try with the operator's own token (test_stolen_token_on_api_server.py, test_strimzi_pods.py)."""
BEFORE: frozenset[Right] = frozenset(
    (POLICIES, kind, "get", f"{about}.kafkamedic.dev")
    for kind in ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    for about in REQUIRED_POLICIES
)
"""An operator of the chart before may not read the policies of the chart after (test_policies_on_api_server.py)."""
REFUSED_ON_PURPOSE: frozenset[Right] = (
    STOLEN
    | BEFORE
    | {
        ("", "secrets", "get", ""),
        ("apps", "deployments/scale", "get", ""),
        ("apps", "statefulsets/scale", "get", ""),
    }
)
"""Besides, what the chart's values secretNamespaces and scalableWorkloads do not name."""


EVERYBODY: frozenset[Right] = frozenset(
    ("authorization.k8s.io", kind, "create", "") for kind in ("selfsubjectrulesreviews", "selfsubjectaccessreviews")
)
"""What Kubernetes itself lets everybody ask about themselves (system:basic-user)."""


def granted() -> set[Right]:
    options = [word for value in EVERYTHING for word in ("--set", value)]
    chart = operator.helm("template", operator.RELEASE, str(operator.ROOT / "charts" / "kafka-medic"), *options)
    roles = [o for o in yaml.safe_load_all(chart) if o and o["kind"] in ("Role", "ClusterRole")]
    rules = [rule for role in roles if role["metadata"]["name"] in ROLES for rule in role["rules"]]
    return {right for rule in rules for right in _rights(rule)}


def _rights(rule: dict[str, Any]) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule["resourceNames"] if group == POLICIES else [""]:
                    yield group, resource, verb, _about(name)


def _about(policy: str) -> str:
    """Without the digest of its spec, which the chart's values are part of."""
    return re.sub(r"-[0-9a-f]{10}\.", ".", policy)


def test_granted_is_what_is_used() -> None:
    if not os.environ.get("WHOLE_SUITE"):
        pytest.skip("says something of the whole suite alone: make test sets WHOLE_SUITE")
    if external_kubeconfig() is not None:
        pytest.skip("only the testbed's API server shows what it was asked")
    may = granted()
    used, refused = set[Right](), set[Right]()
    for one in audit.asked_by(f":{operator.RELEASE}"):
        if one.resource:
            name = _about(one.name) if one.group == POLICIES else ""
            (used if one.allowed else refused).add((one.group, one.resource, one.verb, name))
    wrong = {
        "given and not used": may - used,
        "refused": refused - REFUSED_ON_PURPOSE,
        "done with a right that the chart does not give": used - may - EVERYBODY,
    }
    assert not any(wrong.values()), {what: sorted(rights) for what, rights in wrong.items() if rights}
