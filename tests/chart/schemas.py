"""JSON Schemas as kubeconform takes them, from Kubernetes's own description and from CustomResourceDefinitions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

REFERENCE = "#/definitions/"


class _Loader(yaml.CSafeLoader):
    """Reads `=` as the word that it is in an enum of the Prometheus Operator's."""


_Loader.add_constructor("tag:yaml.org,2002:value", lambda loader, node: node.value)


def write_schemas(kubernetes: Path, definitions: Iterable[Path], folder: Path) -> None:
    """One file for each kind, by the names that kubeconform derives. An unknown field is an error."""
    (folder / "all.json").write_text(json.dumps({"definitions": _of_kubernetes(kubernetes)}))
    for name, model in _of_kubernetes(kubernetes).items():
        for kind in model.get("x-kubernetes-group-version-kind", ()):
            _write(folder, kind, {"$ref": f"all.json{REFERENCE}{name}"})
    for file in definitions:
        for crd in yaml.load_all(file.read_text(), _Loader):
            for version in crd["spec"]["versions"]:
                kind = {"group": crd["spec"]["group"], "version": version["name"], "kind": crd["spec"]["names"]["kind"]}
                schema = _closed(version["schema"]["openAPIV3Schema"])
                schema["properties"] |= {"metadata": {"$ref": f"all.json{REFERENCE}{META}"}}
                _write(folder, kind, schema)


META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def _of_kubernetes(file: Path) -> dict[str, Any]:
    models: dict[str, Any] = json.loads(file.read_text())["definitions"]
    return {name: _closed(model) for name, model in models.items()}


def _closed(schema: Any) -> Any:
    """The schema with no other fields than those that it names, and what is an integer or a string."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    found = {key: _closed(value) for key, value in schema.items() if key not in ("properties", "default", "enum")}
    found |= {key: schema[key] for key in ("default", "enum") if key in schema}
    if isinstance(schema.get("properties"), dict):
        # names of fields, some of which are words of JSON Schema too
        found["properties"] = {name: _closed(one) for name, one in schema["properties"].items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        found["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    return found


def _write(folder: Path, kind: dict[str, str], schema: dict[str, Any]) -> None:
    group = kind["group"].split(".", maxsplit=1)[0]
    name = "-".join(filter(None, (kind["kind"], group, kind["version"]))).lower()
    (folder / f"{name}.json").write_text(json.dumps(schema))
