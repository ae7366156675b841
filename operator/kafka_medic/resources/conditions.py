"""Conditions, in the shape that all of Kubernetes uses.

https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#typical-status-properties
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from .base import Model
from .scalars import BigCount, LongText, Timestamp

MAX_CONDITIONS = 12
LIST_MAP_BY_TYPE = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}

ConditionType = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
ConditionReason = Annotated[
    str, StringConstraints(min_length=1, max_length=256, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
]


class ConditionStatus(StrEnum):
    """Unknown is a value of its own: neither True nor False."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """One aspect of an object's state."""

    type: ConditionType = Field(description="Type of the condition.")
    status: ConditionStatus = Field(description="Status of the condition: True, False or Unknown.")
    reason: ConditionReason = Field(description="Reason for the status, as one word for programs.")
    message: LongText = Field(default="", description="Explanation of the status, in one sentence.")
    last_transition_time: Timestamp = Field(description="Time when the status last changed.")
    observed_generation: BigCount | None = Field(
        default=None, description="metadata.generation from which the operator computed the condition."
    )


Conditions = Annotated[
    tuple[Condition, ...],
    Field(max_length=MAX_CONDITIONS, json_schema_extra=LIST_MAP_BY_TYPE),
]


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """The condition of that type, or None."""
    return next((condition for condition in conditions if condition.type == type_), None)


def set_condition(conditions: Iterable[Condition], new: Condition) -> tuple[Condition, ...]:
    """`conditions` with `new` in it, in its place if its type was there.

    lastTransitionTime stays as it was while the status stays as it was, whatever `new` says: a condition
    that is re-stated every few seconds has not changed.
    """
    existing = tuple(conditions)
    old = find_condition(existing, new.type)
    if old is None:
        return (*existing, new)
    if old.status is new.status:
        new = new.model_copy(update={"last_transition_time": old.last_transition_time})
    return tuple(new if condition.type == new.type else condition for condition in existing)
