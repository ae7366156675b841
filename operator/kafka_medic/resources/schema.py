"""From a model to a structural OpenAPI v3 schema, as CustomResourceDefinitions take it.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema

pydantic's JSON schema has references, titles and unions with null, which a structural schema may not have.
Here they are folded away, and a schema with anything unbounded or undescribed is refused at generation
time: the API server bounds the cost of CEL rules by the bounds of what they read, and etcd bounds the
object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .base import Model

INT_OR_STRING = "x-kubernetes-int-or-string"
INT32_MAX = 2**31 - 1

_KEPT = (
    "description",
    "type",
    "format",
    "default",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "maxProperties",
    "required",
    "items",
    "properties",
    "additionalProperties",
)
"""Keys in the order in which they are written. What is neither here nor an x-kubernetes extension is an
error."""
_DROPPED = {"title", "propertyNames", "const"}
"""JSON schema that a structural schema has no place for; the models check it."""


class SchemaError(Exception):
    """A model that no good structural schema can be made of: a mistake in this package, never in
    anybody's input."""


def structural_schema(model: type[Model], *, with_defaults: bool = True) -> dict[str, Any]:
    """The schema of one model, every reference inlined.

    `with_defaults=False` is for status: the API server must not fill in what the operator did not write.
    """
    raw = model.model_json_schema(by_alias=True, mode="validation")
    return _Fold(raw.get("$defs", {}), with_defaults).fold(raw, model.__name__)


class _Fold:
    def __init__(self, definitions: Mapping[str, Any], with_defaults: bool) -> None:
        self._definitions = definitions
        self._with_defaults = with_defaults

    def fold(self, node: Mapping[str, Any], path: str, *, described: bool = False) -> dict[str, Any]:
        """`node` without references, unions with null, titles; bounded and described, or a SchemaError."""
        resolved, optional = self._resolve(node, path)
        unknown = {
            key for key in resolved if key not in _KEPT and key not in _DROPPED and not key.startswith("x-kubernetes-")
        }
        if unknown:
            raise SchemaError(f"{path}: no structural schema for {sorted(unknown)}")
        schema = {key: resolved[key] for key in _KEPT if key in resolved}
        schema |= {key: value for key, value in sorted(resolved.items()) if key.startswith("x-kubernetes-")}
        self._fold_children(schema, path)
        self._default(schema, optional)
        if schema.get("type") == "integer":
            # maximum > 2**53 has no exact JSON number; int64 says the same
            fits = schema.get("maximum", 0) <= INT32_MAX and schema.get("minimum", 0) >= -INT32_MAX
            schema["format"] = "int32" if fits else "int64"
            for bound in ("minimum", "maximum"):
                if abs(schema.get(bound, 0)) >= 2**53:
                    del schema[bound]
        if described and not schema.get("description"):
            raise SchemaError(f"{path}: has no description")
        if isinstance(schema.get("description"), str):
            schema["description"] = re.sub(r"\s*\n\s*", " ", schema["description"].strip())
        _check_bounds(schema, path)
        return {key: schema[key] for key in sorted(schema, key=_rank)}

    def _resolve(self, node: Mapping[str, Any], path: str) -> tuple[dict[str, Any], bool]:
        """Follow references and drop `or null`; what stands beside a reference wins over what it leads to."""
        resolved = {key: value for key, value in node.items() if key != "$defs"}
        optional = False
        while "$ref" in resolved or "anyOf" in resolved or "allOf" in resolved:
            if "$ref" in resolved:
                target = self._definitions[resolved.pop("$ref").rsplit("/", 1)[-1]]
            elif "allOf" in resolved:
                (target,) = resolved.pop("allOf")
            else:
                branches = [branch for branch in resolved.pop("anyOf") if branch.get("type") != "null"]
                optional = True
                if len(branches) != 1:
                    raise SchemaError(f"{path}: a union of {len(branches)} types is not structural")
                (target,) = branches
            resolved = dict(target) | resolved
        if "patternProperties" in resolved:
            # a structural schema has no place for what keys look like; the models check it
            (resolved["additionalProperties"],) = resolved.pop("patternProperties").values()
        return resolved, optional

    def _fold_children(self, schema: dict[str, Any], path: str) -> None:
        if "properties" in schema:
            schema.pop("additionalProperties", None)  # closed by the server's pruning and strict validation
            schema["properties"] = {
                name: self.fold(child, f"{path}.{name}", described=True) for name, child in schema["properties"].items()
            }
        elif isinstance(schema.get("additionalProperties"), Mapping):
            schema["additionalProperties"] = self.fold(schema["additionalProperties"], f"{path}.*")
        if "items" in schema:
            schema["items"] = self.fold(schema["items"], f"{path}[]")

    def _default(self, schema: dict[str, Any], optional: bool) -> None:
        if not self._with_defaults:
            schema.pop("default", None)
            return
        if schema.get("default") in (None, [], {}, ""):
            schema.pop("default", None)
        properties = schema.get("properties", {})
        filled = {name: child["default"] for name, child in properties.items() if "default" in child}
        if not optional and filled and not schema.get("required"):
            # Where the whole object was left out, its defaults must be filled in all the same. Written out
            # rather than {}: the API server evaluates the object's CEL rules on this very value.
            schema["default"] = filled


def _rank(key: str) -> tuple[int, str]:
    return (_KEPT.index(key), "") if key in _KEPT else (len(_KEPT), key)


def _check_bounds(schema: Mapping[str, Any], path: str) -> None:
    match schema.get("type"):
        case "string":
            if "enum" not in schema and schema.get("format") != "date-time" and "maxLength" not in schema:
                raise SchemaError(f"{path}: a string without maxLength")
        case "array":
            if "maxItems" not in schema or "items" not in schema:
                raise SchemaError(f"{path}: a list without maxItems or items")
        case "object":
            if "additionalProperties" in schema and "maxProperties" not in schema:
                raise SchemaError(f"{path}: a map without maxProperties")
            if "additionalProperties" not in schema and "properties" not in schema:
                raise SchemaError(f"{path}: an object that says nothing about its content")
        case "integer" | "boolean":
            pass
        case None if schema.get(INT_OR_STRING) is True:
            pass
        case other:
            raise SchemaError(f"{path}: type {other} is not used in these resources")
