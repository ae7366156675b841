"""Whether policies stand is read off their content, their creation and their generation, never off their names."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from kafka_medic.resources.admission import REQUIRED_POLICIES, SETTLED, ExpectedPolicy, Standing, standing

Object = dict[str, Any]
RULE = {"apiGroups": ["kafkamedic.dev"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["remediations"]}
EXPECTED = tuple(
    ExpectedPolicy(
        about=about,
        name=f"{about}-1.kafkamedic.dev",
        spec={
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [RULE]},
            "validations": [{"expression": about}],
        },
        binding={"policyName": f"{about}-1.kafkamedic.dev", "validationActions": ["Deny"]},
    )
    for about in REQUIRED_POLICIES
)


def stored() -> list[tuple[Object, Object]]:
    """As the API server has them: with what it fills in."""
    found = []
    for number, policy in enumerate(EXPECTED):
        meta = {"name": policy.name, "creationTimestamp": f"2026-01-01T12:00:0{number}Z", "generation": 1}
        spec = copy.deepcopy(policy.spec)
        spec["matchConstraints"] |= {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
        spec["matchConstraints"]["resourceRules"][0]["scope"] = "*"
        binding = {"metadata": copy.deepcopy(meta), "spec": copy.deepcopy(policy.binding)}
        found.append(({"metadata": meta, "spec": spec}, binding))
    return found


def test_they_stand_since_the_last_of_them_was_created() -> None:
    last = datetime(2026, 1, 1, 12, 0, len(EXPECTED) - 1, tzinfo=UTC)
    now = standing(EXPECTED, stored())
    assert now == Standing(last + SETTLED)
    assert now.covers(last + SETTLED)
    assert not now.covers(last)
    assert not now.covers(None)


def test_without_what_the_chart_rendered_nothing_stands() -> None:
    assert standing((), ()).why.startswith("the operator was started without the chart's policies")
    assert standing(EXPECTED[1:], stored()[1:]).why == "the chart renders no policy about approvals; upgrade the chart"


def narrowed(binding: bool, **fields: Any) -> Callable[[list[tuple[Object, Object]]], None]:
    return lambda found: found[0][binding]["spec"].update(fields)


def constrained(**fields: Any) -> Callable[[list[tuple[Object, Object]]], None]:
    return lambda found: found[0][0]["spec"]["matchConstraints"].update(fields)


def edited_back(found: list[tuple[Object, Object]]) -> None:
    found[2][1]["metadata"]["generation"] = 3


def going(found: list[tuple[Object, Object]]) -> None:
    found[0][0]["metadata"]["deletionTimestamp"] = "2026-01-01T13:00:00Z"


def gone(found: list[tuple[Object, Object]]) -> None:
    found[1] = (found[1][0], None)  # type: ignore[assignment]


NEVER = [{"name": "never", "expression": "false"}]
NOWHERE = {"namespaceSelector": {"matchLabels": {"none": "none"}}}
SKIPPED = {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (narrowed(False, validations=[{"expression": "true || approvals"}]), "spec.validations[0].expression"),
        (narrowed(False, validations=[]), "spec.validations"),
        (narrowed(False, matchConditions=NEVER), "spec.matchConditions"),
        (narrowed(False, failurePolicy="Ignore"), "spec.failurePolicy"),
        (narrowed(False, paramKind={"apiVersion": "v1", "kind": "ConfigMap"}), "spec.paramKind"),
        (narrowed(False, variables=[{"name": "operators", "expression": "['mallory']"}]), "spec.variables"),
        (constrained(namespaceSelector=NOWHERE["namespaceSelector"]), "matchConstraints.namespaceSelector.matchLabels"),
        (constrained(objectSelector=SKIPPED), "spec.matchConstraints.objectSelector.matchExpressions"),
        (constrained(excludeResourceRules=[RULE]), "spec.matchConstraints.excludeResourceRules"),
        (constrained(resourceRules=[{**RULE, "scope": "Cluster"}]), "spec.matchConstraints.resourceRules[0].scope"),
        (constrained(matchPolicy="Exact"), "spec.matchConstraints.matchPolicy"),
        (narrowed(True, policyName="something-else"), "spec.policyName"),
        (narrowed(True, validationActions=["Audit"]), "spec.validationActions[0]"),
        (narrowed(True, validationActions=["Deny", "Audit"]), "spec.validationActions"),
        (narrowed(True, matchResources=NOWHERE), "spec.matchResources"),
        (narrowed(True, paramRef={"name": "gone", "parameterNotFoundAction": "Allow"}), "spec.paramRef"),
        (edited_back, "Binding operator-1.kafkamedic.dev: edited after its creation (generation 3"),
        (going, "ValidatingAdmissionPolicy approvals-1.kafkamedic.dev: being deleted"),
        (gone, "ValidatingAdmissionPolicyBinding kafkaclusters-1.kafkamedic.dev: not installed; run helm upgrade"),
    ],
)  # fmt: skip
def test_whatever_narrows_one_is_named(change: Callable[[list[tuple[Object, Object]]], None], why: str) -> None:
    found = stored()
    change(found)
    answer = standing(EXPECTED, found)
    assert answer.since is None
    assert why in answer.why
