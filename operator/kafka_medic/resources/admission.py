"""Whether the admission policies in the API server are those that the chart rendered, and since when.

A policy counts from its creation only if nobody has edited it since: the API server raises `metadata.generation` with
each change of a spec, and nobody can write that number or `creationTimestamp` (docs/design/0035).
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from .base import Model

REQUIRED_POLICIES = ("approvals", "kafkaclusters", "operator", "remediations", "rights", "uses")
"""What the chart's policies are about; the operator acts only under all of them."""
AUTHORS = ("kafkaclusters",)
"""Of these the one under which a KafkaCluster names only Secrets that its author may get."""
SETTLED = timedelta(seconds=10)
"""After which every API server is taken to enforce a new policy: each watches them, and takes them in once a second."""

_MATCH = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
_ANEW = "delete it, then run helm upgrade"
_Raw = Mapping[str, Any]


class ExpectedPolicy(Model):
    """A ValidatingAdmissionPolicy and its binding, as the chart rendered them."""

    about: str = Field(min_length=1)
    name: str = Field(min_length=1)
    spec: dict[str, Any]
    binding: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Standing:
    """All admission policies. `since`: what was created from then on has passed all of them as they are now. None: they
    do not stand, and `why` names the first field that differs and the next command."""

    since: datetime | None
    why: str = ""

    def covers(self, created: datetime | None) -> bool:
        """Whether an object that was created then was checked by all policies."""
        return self.since is not None and created is not None and created >= self.since


def standing(
    expected: Sequence[ExpectedPolicy],
    found: Sequence[tuple[_Raw | None, _Raw | None]],
    required: Collection[str] = REQUIRED_POLICIES,
) -> Standing:
    """`found`: for each expected one the policy and the binding of its name, as the API server has them; None where it
    has none."""
    if not expected:
        return Standing(None, "the operator was started without the chart's policies (chart value admission.enabled)")
    lacking = sorted(set(required) - {policy.about for policy in expected})
    if lacking:
        return Standing(None, f"the chart renders no policy about {', '.join(lacking)}; upgrade the chart")
    newest: datetime | None = None
    for policy, (definition, binding) in zip(expected, found, strict=True):
        for kind, wanted, seen in (
            ("ValidatingAdmissionPolicy", policy.spec, definition),
            ("ValidatingAdmissionPolicyBinding", policy.binding, binding),
        ):
            what = f"{kind} {policy.name}"
            wrong = _wrong(wanted, seen)
            if wrong is not None:
                return Standing(None, f"{what}: {wrong}")
            assert seen is not None
            created = datetime.fromisoformat(seen["metadata"]["creationTimestamp"])
            newest = created if newest is None else max(newest, created)
    assert newest is not None
    return Standing(newest + SETTLED)


def _wrong(wanted: _Raw, seen: _Raw | None) -> str | None:
    if seen is None:
        return "not installed; run helm upgrade"
    if "deletionTimestamp" in seen["metadata"]:
        return "being deleted"
    differs = _difference("spec", _with_defaults(wanted), _with_defaults(seen.get("spec") or {}))
    if differs is not None:
        return f"{differs} is not what the chart rendered; {_ANEW}"
    generation = seen["metadata"].get("generation")
    if generation != 1:
        return (
            f"edited after its creation (generation {generation}, limit 1), so what it let pass is not known; {_ANEW}"
        )
    return None


def _with_defaults(spec: _Raw) -> dict[str, Any]:
    """With what the API server fills in (Kubernetes, pkg/apis/admissionregistration/v1/defaults.go)."""
    filled = copy.deepcopy(dict(spec))
    if "policyName" not in filled:
        filled.setdefault("failurePolicy", "Fail")
    for key in ("matchConstraints", "matchResources"):
        if key in filled:
            filled[key] = {**_MATCH, **filled[key]}
            for rules in ("resourceRules", "excludeResourceRules"):
                for rule in filled[key].get(rules) or ():
                    rule.setdefault("scope", "*")
    return filled


def _difference(path: str, wanted: Any, seen: Any) -> str | None:
    """The path of the first field that differs."""
    if isinstance(wanted, dict) and isinstance(seen, dict):
        for key in sorted({*wanted, *seen}):
            if key not in wanted or key not in seen:
                return f"{path}.{key}"
            found = _difference(f"{path}.{key}", wanted[key], seen[key])
            if found is not None:
                return found
        return None
    if isinstance(wanted, list) and isinstance(seen, list) and len(wanted) == len(seen):
        differing = (_difference(f"{path}[{n}]", a, b) for n, (a, b) in enumerate(zip(wanted, seen, strict=True)))
        return next((d for d in differing if d is not None), None)
    return None if type(wanted) is type(seen) and wanted == seen else path
