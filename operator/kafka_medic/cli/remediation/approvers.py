"""Who may approve, as far as the cluster's roles tell. Other authorisers may give more, and the API server decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.vocabulary import APPROVE_VERB, GROUP

Object = Mapping[str, Any]


def approvers(roles: Sequence[Object], bindings: Sequence[Object], run: str) -> list[str]:
    """`User anna`, `Group oncall`, `ServiceAccount NAMESPACE/NAME`: each subject that a role gives the verb approve on
    the Remediation of that name."""
    granting = {
        _key(r["metadata"].get("namespace"), r) for r in roles if any(_grants(x, run) for x in r.get("rules") or ())
    }
    found = set()
    for binding in bindings:
        reference, here = binding.get("roleRef") or {}, binding["metadata"].get("namespace")
        namespace = here if reference.get("kind") == "Role" else None
        if (namespace, reference.get("name")) in granting:
            found |= {_subject(s, here) for s in binding.get("subjects") or ()}
    return sorted(found)


def _key(namespace: str | None, role: Object) -> tuple[str | None, str]:
    return namespace, role["metadata"]["name"]


def _grants(rule: Object, run: str) -> bool:
    names = rule.get("resourceNames") or ()
    return (
        _among(APPROVE_VERB, rule.get("verbs"))
        and _among(GROUP, rule.get("apiGroups"))
        and _among(Remediation.PLURAL, rule.get("resources"))
        and (not names or run in names)
    )


def _among(word: str, words: Iterable[str] | None) -> bool:
    return bool({word, "*"} & set(words or ()))


def _subject(subject: Object, here: str | None) -> str:
    if subject.get("kind") == "ServiceAccount":
        return f"ServiceAccount {subject.get('namespace') or here}/{subject.get('name')}"
    return f"{subject.get('kind')} {subject.get('name')}"
