"""The rights that the chart gives the operator are those that it uses: none too many, none missing.

Comes last, and reads in the API server's audit log what the operator asked for in the whole run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.incident import operator
from tests.testbed import audit, external_kubeconfig

TESTS = Path(__file__).parents[1]
EVERYTHING = (
    "strimzi.enabled=true",
    "mostAtOnce=1",
    "watchNamespaces={kafka}",
    "secretNamespaces={kafka}",
    "scalableWorkloads[0].namespace=kafka",
    "scalableWorkloads[0].deployments={billing}",
)
"""Each value with which the chart gives the operator a right more. That to scale a StatefulSet is the one to scale a
Deployment in other words, and is left out."""
ROLES = tuple(f"{operator.RELEASE}-{of}" for of in ("cluster", "watched", "starts", "secrets", "workloads"))
POLICIES = "admissionregistration.k8s.io"
Right = tuple[str, str, str, str]
"""(API group, resource, verb, name); the name only of policies, which the chart itself names."""

ONLY_IN_GAME_DAYS: frozenset[Right] = frozenset(("apps", "deployments/scale", v, "") for v in ("get", "update"))
"""What no test of `make test` has the operator do: the game days do."""
REFUSED_ON_PURPOSE: frozenset[Right] = frozenset({("", "secrets", "get", ""), ("apps", "deployments/scale", "get", "")})
"""What the chart's values secretNamespaces and scalableWorkloads do not name."""


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
                    yield group, resource, verb, name


def whole(items: list[pytest.Item], *folders: str) -> bool:
    """Whether every test file of those folders is part of this run."""
    run = {item.path for item in items}
    return all(set((TESTS / folder).glob("test_*.py")) <= run for folder in folders)


def test_granted_is_what_is_used(request: pytest.FixtureRequest) -> None:
    everyday = whole(request.session.items, "integration", "contract", "e2e")
    if external_kubeconfig() is not None or not (everyday or whole(request.session.items, "gameday")):
        pytest.skip("says something of a whole run on the testbed alone")
    may = granted()
    used, refused = set[Right](), set[Right]()
    for one in audit.asked_by(f":{operator.RELEASE}"):
        if one.resource:
            name = one.name if one.group == POLICIES else ""
            (used if one.allowed else refused).add((one.group, one.resource, one.verb, name))
    refused -= REFUSED_ON_PURPOSE
    assert not refused, f"refused: {sorted(refused)}"
    beyond = used - may
    assert not beyond, f"done with a right that the chart does not give: {sorted(beyond)}"
    unused = may - used - ONLY_IN_GAME_DAYS if everyday else ONLY_IN_GAME_DAYS - used
    assert not unused, f"given and not used: {sorted(unused)}"
