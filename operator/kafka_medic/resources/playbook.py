"""Playbook: a guarded way to treat one kind of finding, in a closed vocabulary.

Here a Playbook is checked for what can be told from the document alone. Which parameters an action knows
and which guards it demands is the business of the `playbook` room, which has the actions.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from .base import LabelNamedMeta, Model, Resource
from .cel import rule, validations
from .conditions import Conditions
from .digest import sha256_digest
from .durations import parse_duration
from .errors import ResourceError
from .scalars import (
    MAX_INT64,
    Between,
    BigCount,
    Digest,
    Duration,
    IntOrString,
    LineText,
    LongText,
    ParameterName,
    ShortIntOrString,
    StepName,
    Uri,
)
from .selectors import LabelSelector
from .vocabulary import API_VERSION, ActionName, FindingType, Guard, OnFailure, Risk, VerifyProbe

LIST_MAP_BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
Bound = Annotated[int, Field(ge=-MAX_INT64, le=MAX_INT64, strict=True)]
ParameterValue = int | str | bool


class ParameterType(StrEnum):
    """What a parameter's value is."""

    INTEGER = "integer"
    STRING = "string"
    BOOLEAN = "boolean"
    DURATION = "duration"


class Parameter(Model):
    """Something about the playbook that a cluster or a run may set. Steps' actions read it by its name."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule(
                "self.type == 'integer' || (!has(self.minimum) && !has(self.maximum))",
                "minimum and maximum are for the type integer",
            ),
            rule(
                "!has(self.minimum) || !has(self.maximum) || self.minimum <= self.maximum",
                "minimum must not be above maximum",
                field_path=".minimum",
            ),
        )
    )

    name: ParameterName = Field(description="The parameter's name, in camelCase.")
    type: ParameterType = Field(description="What its value is.")
    default: ShortIntOrString | None = Field(
        default=None,
        description='The value when nobody sets one, booleans as "true" and "false". Absent: must be set.',
    )
    minimum: Bound | None = Field(default=None, description="The smallest integer allowed.")
    maximum: Bound | None = Field(default=None, description="The largest integer allowed.")
    description: LineText = Field(default="", description="What it does.")

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.type is not ParameterType.INTEGER and (self.minimum is not None or self.maximum is not None):
            raise ValueError("minimum and maximum are for the type integer; remove them")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError("minimum is above maximum; swap them")
        if self.default is not None:
            self.read(self.default)
        return self

    def read(self, value: int | str) -> ParameterValue:
        """`value` as this parameter's type; a ValueError that names the parameter when it does not fit.

        Durations stay text, checked: `parse_duration` turns them into seconds where they are used.
        """
        match self.type:
            case ParameterType.INTEGER:
                return self._integer(value)
            case ParameterType.BOOLEAN:
                if value not in ("true", "false"):
                    raise ValueError(f'parameter {self.name} is not a boolean; write "true" or "false"')
                return value == "true"
            case ParameterType.DURATION:
                try:
                    parse_duration(str(value))
                except ResourceError as error:
                    problem = error.problems[0]
                    raise ValueError(f"parameter {self.name} {problem.message}; {problem.way_out}") from None
                return str(value)
            case ParameterType.STRING:
                return str(value)

    def _integer(self, value: int | str) -> int:
        try:
            number = int(value)
        except ValueError:
            raise ValueError(f"parameter {self.name} is not an integer; write digits only") from None
        if self.minimum is not None and number < self.minimum:
            raise ValueError(f"parameter {self.name} is too small; write {self.minimum} or more")
        if self.maximum is not None and number > self.maximum:
            raise ValueError(f"parameter {self.name} is too large; write {self.maximum} or less")
        return number


class Trigger(Model):
    """What sets the playbook going."""

    finding: FindingType = Field(description="The kind of finding that the playbook treats.")
    for_: Annotated[Duration, Between("0s", "24h")] = Field(
        alias="for",
        default="0s",
        description="How long the finding must hold before the playbook is proposed.",
    )
    clusters: LabelSelector | None = Field(
        default=None, description="The KafkaClusters in which the playbook is proposed, by their labels. Absent: all."
    )
    order: Annotated[int, Field(ge=0, le=10000, strict=True)] | None = Field(
        default=None,
        description="Of several playbooks for a finding the smallest comes first. Absent: 100; of shipped ones, 1000.",
    )


class Verify(Model):
    """How a step shows that it has really been done."""

    probe: VerifyProbe = Field(description="What is observed.")
    consecutive: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(
        default=1, description="How many observations in a row must say so."
    )
    within: Annotated[Duration, Between("1s", "168h")] = Field(description="How long that may take.")


class Step(Model):
    """One action, with what must hold before it and what must be seen after it."""

    name: StepName = Field(description="The step's name, unique in the playbook.")
    action: ActionName = Field(description="What is done: one of a closed list, never code.")
    with_: Annotated[dict[ParameterName, IntOrString], Field(max_length=8)] = Field(
        alias="with",
        default_factory=dict,
        description=("Constants for the action, where the playbook has no parameter of that name; booleans as text."),
    )
    guards: Annotated[tuple[Guard, ...], Field(max_length=32, json_schema_extra={"x-kubernetes-list-type": "set"})] = (
        Field(default=(), description="Checked right before each effect, in addition to those the action demands.")
    )
    verify: Verify = Field(description="How the step shows that it has really been done.")
    on_failure: OnFailure = Field(
        default=OnFailure.PAUSE,
        description="Pause: hold and wait for a person. Abort: restore and end the run.",
    )

    @model_validator(mode="after")
    def _guards_once(self) -> Self:
        if len(set(self.guards)) != len(self.guards):
            raise ValueError("guards names a guard twice; name it once")
        return self


class PlaybookSpec(Model):
    """What is treated, and how."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule(
                "!has(self.parameters) || self.steps.all(s, !has(s.with)"
                " || self.parameters.all(p, !(p.name in s.with)))",
                "a step's with must not set what a parameter of the same name sets",
                field_path=".steps",
            )
        )
    )

    description: LongText = Field(description="What the playbook does, for the person who approves it.")
    runbook: Uri | None = Field(default=None, description="Where the same is written down for people to do by hand.")
    risk: Risk = Field(description="What it may cost while it runs.")
    trigger: Trigger = Field(description="What sets the playbook going.")
    parameters: Annotated[tuple[Parameter, ...], Field(max_length=32, json_schema_extra=LIST_MAP_BY_NAME)] = Field(
        default=(), description="What a cluster or a run may set."
    )
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=20, json_schema_extra=LIST_MAP_BY_NAME)] = Field(
        description="What is done, in order."
    )

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        parameters = {parameter.name for parameter in self.parameters}
        if len(parameters) != len(self.parameters):
            raise ValueError("two parameters have the same name; rename one")
        if len({step.name for step in self.steps}) != len(self.steps):
            raise ValueError("two steps have the same name; rename one")
        for step in self.steps:
            both = sorted(parameters & set(step.with_))
            if both:
                raise ValueError(
                    f"step {step.name} sets {', '.join(both)} that a parameter of the same name "
                    f"sets; remove one of them"
                )
        return self

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name, or None."""
        return next((parameter for parameter in self.parameters if parameter.name == name), None)


class PlaybookStatus(Model):
    """Whether the operator can run the playbook."""

    observed_generation: BigCount | None = Field(
        default=None, description="The metadata.generation that this status was computed from."
    )
    digest: Digest | None = Field(default=None, description="What a Remediation pins when it starts.")
    conditions: Conditions = Field(default=(), description="Accepted: whether the operator can run the playbook.")


class Playbook(Resource):
    """A guarded way to treat one kind of finding."""

    KIND: ClassVar[str] = "Playbook"
    PLURAL: ClassVar[str] = "playbooks"

    api_version: Literal["kafkamedic.dev/v1alpha1"] = API_VERSION
    kind: Literal["Playbook"] = "Playbook"
    metadata: LabelNamedMeta
    spec: PlaybookSpec
    status: PlaybookStatus = Field(default_factory=PlaybookStatus)

    def digest(self) -> str:
        """What a Remediation pins: the playbook's name and its whole spec with every default in place."""
        name, spec, digest = self._digested
        # A copy with another spec has been handed what was worked out of this one.
        return digest if spec is self.spec and name == self.name else self._digest()

    @cached_property
    def _digested(self) -> tuple[str, PlaybookSpec, str]:
        return self.name, self.spec, self._digest()

    def _digest(self) -> str:
        return sha256_digest(
            {
                "apiVersion": API_VERSION,
                "kind": self.KIND,
                "name": self.name,
                "spec": self.spec.to_kubernetes(),
            }
        )
