"""What every resource model has in common, and how a raw object becomes one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from .durations import DURATION_PATTERN, NOT_A_DURATION
from .errors import Problem, ResourceError
from .scalars import BigCount, ObjectName, Timestamp, Uid
from .vocabulary import RESTORE_FINALIZER


class Model(BaseModel):
    """One object of a resource: immutable, closed (an unknown key is an error), camelCase outside."""

    model_config = ConfigDict(
        # A command needs few of the kinds: each is built when the first object of it is read.
        defer_build=True,
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        # validation errors may reach logs; a secret pasted into the wrong field must not
        hide_input_in_errors=True,
        regex_engine="rust-regex",
    )

    @classmethod
    def document_fields(cls) -> Mapping[str, FieldInfo]:
        """By name. A class whose document is not laid out as the object is says so here."""
        return cls.model_fields

    def to_kubernetes(self) -> dict[str, Any]:
        """The object as the API server has it: camelCase, plain JSON types, nothing that is None."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class OwnerReference(Model):
    """Who owns an object (`metadata.ownerReferences`)."""

    model_config = ConfigDict(extra="ignore")

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Model):
    """The part of an object's metadata that the operator reads; the rest is dropped."""

    model_config = ConfigDict(extra="ignore")

    name: ObjectName
    namespace: str | None = None
    uid: Uid | None = None
    generation: BigCount | None = None
    resource_version: str | None = None
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class LabelNamedMeta(ObjectMeta):
    """Metadata of an object whose name becomes a label's value."""

    name: Annotated[ObjectName, Field(max_length=63)]


class Resource(Model):
    """A whole object with metadata. Each kind adds apiVersion, kind, spec and status."""

    KIND: ClassVar[str]
    PLURAL: ClassVar[str]

    metadata: ObjectMeta

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.metadata.name

    @property
    def namespace(self) -> str | None:
        """`metadata.namespace`; None for what is cluster-wide or was read from a file."""
        return self.metadata.namespace

    @property
    def uid(self) -> str | None:
        """`metadata.uid`; None for what was read from a file."""
        return self.metadata.uid

    @property
    def held(self) -> bool:
        """Whether our finalizer keeps it from being deleted."""
        return RESTORE_FINALIZER in self.metadata.finalizers

    @classmethod
    def parse(cls, raw: object) -> Self:
        """The typed object, or a ResourceError with every field that is wrong."""
        return parse(cls, raw)


AnyModel = TypeVar("AnyModel", bound=Model)


def parse(model: type[AnyModel], raw: object, *, kind: str = "") -> AnyModel:
    """`raw` (as YAML or the Kubernetes API gives it) as a `model`; a ResourceError with every wrong field."""
    name = _name_of(raw)
    label = kind or getattr(model, "KIND", "") or model.__name__
    if not isinstance(raw, Mapping):
        problem = Problem("", "is not a mapping", "write apiVersion, kind, metadata and spec")
        raise ResourceError(label, name, (problem,))
    try:
        # by_name=False: only the spelling that the API server accepts is accepted from outside
        # dict(): kopf hands out a read-only view, which pydantic does not take for a mapping
        return model.model_validate(dict(raw), by_alias=True, by_name=False)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        problems = tuple(dict.fromkeys(_problem(model, detail) for detail in details if not _echo(detail, details)))
    # outside the except block: the original error must not be chained into a traceback
    raise ResourceError(label, name, problems)


def _name_of(raw: object) -> str:
    metadata = raw.get("metadata") if isinstance(raw, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name[:253] if isinstance(name, str) else ""


def _echo(detail: ErrorDetails, details: list[ErrorDetails]) -> bool:
    """Whether this only says that a list is too short because its items were refused one by one."""
    where = detail["loc"]
    return detail["type"] == "too_short" and any(
        len(other["loc"]) > len(where) and other["loc"][: len(where)] == where for other in details
    )


_WAYS_OUT = {
    "missing": ("is missing", "add it"),
    "int_type": ("is not a whole number", "write digits, without quotes"),
    "bool_type": ("is not a boolean", "write true or false, without quotes"),
    "string_type": ("is not text", "put it in quotes"),
    "tuple_type": ("is not a list", "write a list"),
    "dict_type": ("is not a mapping", "write key: value pairs"),
    "model_type": ("is not a mapping", "write key: value pairs"),
    "timezone_aware": ("has no time zone", "write it like 2026-01-31T08:00:00Z"),
    "datetime_from_date_parsing": ("is not a date and time", "write it like 2026-01-31T08:00:00Z"),
}


def _problem(model: type[Model], detail: ErrorDetails) -> Problem:
    path = _path(detail["loc"])
    context = detail.get("ctx", {})
    match detail["type"]:
        case known if known in _WAYS_OUT:
            return Problem(path, *_WAYS_OUT[known])
        case "extra_forbidden":
            return Problem(path, "is not a known field", _nearest(model, detail["loc"]))
        case "enum" | "literal_error":
            return Problem(path, "is not an allowed value", f"write {context.get('expected')}")
        case "value_error":
            message, _, way_out = str(context.get("error", detail["msg"])).partition("; ")
            return Problem(path, message, way_out)
        case "string_pattern_mismatch" if context.get("pattern") == DURATION_PATTERN:
            return Problem(path, *NOT_A_DURATION)
        case "string_pattern_mismatch":
            return Problem(path, "does not have the right form", f"write text that matches {context.get('pattern')}")
        case _:
            message = detail["msg"]
            return Problem(path, message[:1].lower() + message[1:], "")


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


def _nearest(model: type[Model], location: tuple[int | str, ...]) -> str:
    """`did you mean` for an unknown key, from the fields of the model that the location leads to."""
    fields: Mapping[str, type[Model]] | None = _fields(model)
    for part in location[:-1]:
        if isinstance(part, int) or fields is None:
            continue
        inner = fields.get(str(part))
        fields = _fields(inner) if inner is not None else None
    if not fields:
        return "remove it"
    close = difflib.get_close_matches(str(location[-1]), list(fields), n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else "remove it, or use one of " + ", ".join(sorted(fields))


def _fields(model: type[Any] | None) -> dict[str, Any]:
    """Alias -> the model inside that field's type, when there is one."""
    if model is None or not (isinstance(model, type) and issubclass(model, Model)):
        return {}
    return {field.alias or name: _model_in(field.annotation) for name, field in model.document_fields().items()}


def _model_in(annotation: Any) -> type[Model] | None:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
