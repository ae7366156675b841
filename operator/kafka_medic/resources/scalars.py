"""The bounded scalar types that the models are made of.

Every one has a bound: the API server refuses CEL rules whose cost it cannot bound, and an unbounded status
can outgrow what etcd stores (1.5 MiB a request, https://etcd.io/docs/latest/dev-guide/limit/).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AwareDatetime,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from .cel import rule, validations
from .durations import DURATION_MAX_LENGTH, DURATION_PATTERN, parse_duration
from .errors import ResourceError
from .name_patterns import refused

MAX_INT64 = 2**63 - 1
MAX_VALUE_LENGTH = 1024

_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_IDENTIFIER = r"^[A-Za-z][A-Za-z0-9]*$"

ObjectName = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=_SUBDOMAIN)]
"""Name of a Kubernetes object: a DNS-1123 subdomain."""
Uid = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9-]+$")]
"""uid of a Kubernetes object."""
StepName = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""Name of a playbook's step: a DNS-1123 label."""
CamelWord = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=_IDENTIFIER)]
"""One word such as ReplicationFactorLow. Not an enum: an older schema must not refuse a newer word."""
ParameterName = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[a-z][A-Za-z0-9]*$")]
"""Name of a playbook's parameter."""
Digest = Annotated[str, StringConstraints(min_length=71, max_length=71, pattern=r"^sha256:[a-f0-9]{64}$")]
"""As `digest.sha256_digest` writes it."""
ShortText = Annotated[str, StringConstraints(max_length=256)]
LineText = Annotated[str, StringConstraints(max_length=1024)]
LongText = Annotated[str, StringConstraints(max_length=8192)]
SummaryText = Annotated[str, StringConstraints(max_length=32768)]
UserName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
"""Name of a user as the API server knows it."""
GroupName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
"""Name of a group that the API server found the user in."""
Uri = Annotated[str, StringConstraints(min_length=1, max_length=2048)]
TopicName = Annotated[str, StringConstraints(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")]
"""249 is Kafka's own bound (org.apache.kafka.common.internals.Topic)."""


def _regular_expression(value: str) -> str:
    if (why := refused(value)) is not None:
        raise ValueError(f"is not a regular expression (RE2): {why}; write one such as orders-.*")
    return value


NamePattern = Annotated[
    str,
    StringConstraints(min_length=1, max_length=249),
    AfterValidator(_regular_expression),
    # CEL turns a pattern that RE2 cannot read into an evaluation error, and so into a refusal that quotes it.
    Field(
        json_schema_extra=validations(
            rule("''.matches(self) in [true, false]", "is not a regular expression (RE2); write one such as orders-.*"),
        )
    ),
]
"""A regular expression over a whole topic or group name."""
ConfigName = Annotated[str, StringConstraints(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")]
ConfigValue = Annotated[str, StringConstraints(max_length=4096)]
SecretKey = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
"""A key inside a Secret."""
BrokerId = Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)]
BigCount = Annotated[int, Field(ge=0, le=MAX_INT64, strict=True)]
"""Bytes, milliseconds, generations."""
Flag = Annotated[bool, Field(strict=True)]
"""Only true and false, as the API server has it: not "yes", not 1."""
Duration = Annotated[
    str,
    StringConstraints(min_length=2, max_length=DURATION_MAX_LENGTH, pattern=DURATION_PATTERN),
]
"""Any duration; `durations.parse_duration` gives its seconds."""


class Between:
    """Bounds of a Duration, as in `Annotated[Duration, Between("1s", "1h")]`.

    The API server (CEL) and this code check them alike.
    """

    def __init__(self, minimum: str, maximum: str) -> None:
        self.low, self.high = parse_duration(minimum), parse_duration(maximum)
        self.rule = rule(
            f"duration(self) >= duration('{minimum}') && duration(self) <= duration('{maximum}')",
            f"must be a duration from {minimum} to {maximum}",
        )

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(core) | validations(self.rule)

    def _check(self, value: str) -> str:
        try:
            parse_duration(value, minimum=self.low, maximum=self.high)
        except ResourceError as error:
            problem = error.problems[0]
            # pydantic turns a ValueError into an error with the field's path; a ResourceError would lose it
            raise ValueError(f"{problem.message}; {problem.way_out}") from None
        return value


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="auto").replace("+00:00", "Z")


Timestamp = Annotated[
    AwareDatetime,
    PlainSerializer(_rfc3339, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A moment with a zone; written as RFC 3339 in UTC."""


def _int_or_text(value: object, most: int = MAX_VALUE_LENGTH) -> int | str:
    # YAML reads `true` and `1.5` as types that Kubernetes' int-or-string refuses, so report them and convert nothing
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("is neither an integer nor a string; put booleans and fractions in quotes")
    if isinstance(value, str) and len(value) > most:
        raise ValueError(f"is too long; write at most {most} characters")
    if isinstance(value, int) and abs(value) > MAX_INT64:
        raise ValueError("does not fit into 64 bits; write a smaller number")
    return value


# PlainValidator rather than a union: a union would put the names of its branches into the error's path.
IntOrString = Annotated[
    int | str,
    PlainValidator(_int_or_text),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "maxLength": MAX_VALUE_LENGTH}),
]
"""`50000000` or `"50000000"`, `"true"`, `"5m"`: what an action's parameter is written as."""
MAX_SHORT_VALUE_LENGTH = 256
ShortIntOrString = Annotated[
    int | str,
    PlainValidator(lambda value: _int_or_text(value, MAX_SHORT_VALUE_LENGTH)),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "maxLength": MAX_SHORT_VALUE_LENGTH}),
]
"""The same where there may be many of them in one object."""
