"""Label selectors, as Kubernetes has them, with the matching in pure code.

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from .base import Model
from .cel import rule, validations

LabelKey = Annotated[
    str,
    StringConstraints(min_length=1, max_length=317, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$"),
]
"""A prefix of up to 253 characters, a slash, and a name of up to 63."""
LabelValue = Annotated[str, StringConstraints(max_length=63, pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")]


class SelectorOperator(StrEnum):
    """How a requirement compares a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelExpression(Model):
    """One requirement on one label."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule(
                "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
                "values do not fit the operator; In and NotIn need values, Exists and DoesNotExist take none",
                field_path=".values",
            )
        )
    )

    key: LabelKey = Field(description="Key of the label.")
    operator: SelectorOperator = Field(
        description="In and NotIn compare the label with values. Exists and DoesNotExist take no values."
    )
    values: Annotated[tuple[LabelValue, ...], Field(max_length=64)] = Field(
        default=(), description="The values for In and NotIn."
    )

    @model_validator(mode="after")
    def _values_fit(self) -> Self:
        needs = self.operator in {SelectorOperator.IN, SelectorOperator.NOT_IN}
        if needs != bool(self.values):
            raise ValueError(
                "values do not fit the operator; In and NotIn need values, Exists and DoesNotExist take none"
            )
        return self

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels meets the requirement. NotIn holds for an absent label, as
        in Kubernetes."""
        match self.operator:
            case SelectorOperator.IN:
                return labels.get(self.key) in self.values
            case SelectorOperator.NOT_IN:
                return labels.get(self.key) not in self.values
            case SelectorOperator.EXISTS:
                return self.key in labels
            case SelectorOperator.DOES_NOT_EXIST:
                return self.key not in labels


class LabelSelector(Model):
    """A selection of objects by label. An empty selector would match every object, so it is rejected."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule(
                "(has(self.matchLabels) && self.matchLabels.size() > 0)"
                " || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",
                "the selector is empty and would match everything; add a label to matchLabels",
            )
        )
    )

    match_labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] = Field(
        default_factory=dict, description="Labels that the object must have, with exactly these values."
    )
    match_expressions: Annotated[tuple[LabelExpression, ...], Field(max_length=8)] = Field(
        default=(), description="Further requirements. All must hold."
    )

    @model_validator(mode="after")
    def _selects_something(self) -> Self:
        if not self.match_labels and not self.match_expressions:
            raise ValueError("is empty and would match everything; add a label to matchLabels")
        return self

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            expression.matches(labels) for expression in self.match_expressions
        )

    def to_query(self) -> str:
        """The `labelSelector` query parameter of the Kubernetes API."""
        parts = [f"{key}={value}" for key, value in sorted(self.match_labels.items())]
        for expression in self.match_expressions:
            values = ",".join(expression.values)
            match expression.operator:
                case SelectorOperator.IN:
                    parts.append(f"{expression.key} in ({values})")
                case SelectorOperator.NOT_IN:
                    parts.append(f"{expression.key} notin ({values})")
                case SelectorOperator.EXISTS:
                    parts.append(expression.key)
                case SelectorOperator.DOES_NOT_EXIST:
                    parts.append(f"!{expression.key}")
        return ",".join(parts)
