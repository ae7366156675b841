"""Playbook: a guarded procedure that treats one type of finding, in a closed vocabulary.

Here a Playbook is checked as far as the document alone allows. The package `playbook` has the actions, and checks their
parameters and guards.
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
    """Type of a parameter's value."""

    INTEGER = "integer"
    STRING = "string"
    BOOLEAN = "boolean"
    DURATION = "duration"


_INTEGERS_ONLY = "minimum and maximum need the type integer; remove them, or change type"
_IN_ORDER = "minimum is above maximum; swap them"


class Parameter(Model):
    """A value that a KafkaCluster or a run may set. The actions of the steps read it by name."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule(
                "self.type == 'integer' || (!has(self.minimum) && !has(self.maximum))",
                _INTEGERS_ONLY,
            ),
            rule(
                "!has(self.minimum) || !has(self.maximum) || self.minimum <= self.maximum",
                _IN_ORDER,
                field_path=".minimum",
            ),
        )
    )

    name: ParameterName = Field(description="The parameter's name, in camelCase.")
    type: ParameterType = Field(description="Type of the value.")
    default: ShortIntOrString | None = Field(
        default=None,
        description='Default value, booleans as "true" or "false". Absent: no default.',
    )
    minimum: Bound | None = Field(default=None, description="Smallest allowed integer. Absent: no limit.")
    maximum: Bound | None = Field(default=None, description="Largest allowed integer. Absent: no limit.")
    description: LineText = Field(default="", description="What the parameter does.")

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.type is not ParameterType.INTEGER and (self.minimum is not None or self.maximum is not None):
            raise ValueError(_INTEGERS_ONLY)
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(_IN_ORDER)
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
    """When the operator proposes the playbook."""

    finding: FindingType = Field(description="Type of the finding that the playbook treats.")
    for_: Annotated[Duration, Between("0s", "24h")] = Field(
        alias="for",
        default="0s",
        description="How long the finding must last before the operator proposes the playbook.",
    )
    clusters: LabelSelector | None = Field(
        default=None,
        description="Selects the KafkaClusters by label for which the operator proposes the playbook. Absent: all.",
    )
    order: Annotated[int, Field(ge=0, le=10000, strict=True)] | None = Field(
        default=None,
        description="Rank among the playbooks for the same finding, the smallest first. Absent: 100, for shipped "
        "playbooks 1000.",
    )


class Verify(Model):
    """How the operator verifies a step."""

    probe: VerifyProbe = Field(description="Observation that verifies the step.")
    consecutive: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(
        default=1, description="Number of observations in a row that must verify the step."
    )
    within: Annotated[Duration, Between("1s", "168h")] = Field(
        description="Timeout of the step. Holds by people, such as a pause or a closed window, do not count."
    )


class Step(Model):
    """One action, with the guards before and the verification after it."""

    name: StepName = Field(description="The step's name, unique in the playbook.")
    action: ActionName = Field(description="Action of the step, from a closed list.")
    with_: Annotated[dict[ParameterName, IntOrString], Field(max_length=8)] = Field(
        alias="with",
        default_factory=dict,
        description="Constants for the action, for names that are no parameter of the playbook. Booleans are text.",
    )
    guards: Annotated[tuple[Guard, ...], Field(max_length=32, json_schema_extra={"x-kubernetes-list-type": "set"})] = (
        Field(
            default=(), description="Guards that must allow each effect, in addition to those that the action demands."
        )
    )
    verify: Verify = Field(description="How the operator verifies the step.")
    on_failure: OnFailure = Field(
        default=OnFailure.PAUSE,
        description="Pause: wait for a person. Abort: revert temporary changes and end the run.",
    )

    @model_validator(mode="after")
    def _guards_once(self) -> Self:
        if len(set(self.guards)) != len(self.guards):
            raise ValueError("guards names a guard twice; name it once")
        return self


class PlaybookSpec(Model):
    """The finding that the playbook treats, and the steps that treat it."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule(
                "!has(self.parameters) || self.steps.all(s, !has(s.with)"
                " || self.parameters.all(p, !(p.name in s.with)))",
                "a step's with and a parameter have the same name; remove one of them",
                field_path=".steps",
            )
        )
    )

    description: LongText = Field(description="What the playbook does, for its approvers.")
    runbook: Uri | None = Field(default=None, description="URI of the instructions to do the same by hand.")
    risk: Risk = Field(description="Risk to the cluster while the playbook runs.")
    trigger: Trigger = Field(description="When the operator proposes the playbook.")
    parameters: Annotated[tuple[Parameter, ...], Field(max_length=32, json_schema_extra=LIST_MAP_BY_NAME)] = Field(
        default=(), description="Parameters that a KafkaCluster or a run may set."
    )
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=20, json_schema_extra=LIST_MAP_BY_NAME)] = Field(
        description="Steps of the playbook, in order."
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
                    f"with of step {step.name} and a parameter have the same name ({', '.join(both)}); remove one"
                )
        return self

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name, or None."""
        return next((parameter for parameter in self.parameters if parameter.name == name), None)


class PlaybookStatus(Model):
    """Whether the operator can run the playbook."""

    observed_generation: BigCount | None = Field(
        default=None, description="metadata.generation from which the operator computed this status."
    )
    digest: Digest | None = Field(default=None, description="Digest of the playbook. A Remediation pins it.")
    conditions: Conditions = Field(default=(), description="Accepted: whether the operator can run the playbook.")


class Playbook(Resource):
    """A guarded procedure that treats one type of finding."""

    KIND: ClassVar[str] = "Playbook"
    PLURAL: ClassVar[str] = "playbooks"

    api_version: Literal["kafkamedic.dev/v1alpha1"] = API_VERSION
    kind: Literal["Playbook"] = "Playbook"
    metadata: LabelNamedMeta
    spec: PlaybookSpec
    status: PlaybookStatus = Field(default_factory=PlaybookStatus)

    def digest(self) -> str:
        """The digest that a Remediation pins: of the playbook's name and its whole spec with every default in place."""
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
