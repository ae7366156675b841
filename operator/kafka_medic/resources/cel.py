"""CEL validation rules, carried as metadata on the models and written into the CustomResourceDefinitions.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
"""

from __future__ import annotations

from typing import Any

VALIDATIONS = "x-kubernetes-validations"


def rule(expression: str, message: str, *, field_path: str | None = None) -> dict[str, str]:
    """One rule: what must be true of `self`, and the message when it is not."""
    built = {"rule": expression, "message": message}
    if field_path is not None:
        built["fieldPath"] = field_path
    return built


def validations(*rules: dict[str, str]) -> dict[str, Any]:
    """The rules as extra JSON schema, for `json_schema_extra`."""
    return {VALIDATIONS: list(rules)}


def literal(value: str) -> str:
    """`value` as a CEL string."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
