"""Chart.yaml and the values say what the project is, without a difference to where it says so itself."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import yaml

from kafka_medic.resources.definitions import DEFINITIONS
from tests.unit.resources.sources import CHART, ROOT


def chart() -> dict[str, Any]:
    return yaml.safe_load((CHART / "Chart.yaml").read_text())


def test_versions_are_the_projects_own():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart()["version"], chart()["appVersion"]) == (version, version)


def test_what_a_catalogue_of_charts_shows():
    told = chart()
    assert {"home", "icon", "sources", "maintainers", "keywords", "description"} <= told.keys()
    notes = told["annotations"]
    kinds = yaml.safe_load(notes["artifacthub.io/crds"])
    assert [(k["kind"], k["name"]) for k in kinds] == [
        (d.resource.KIND, f"{d.resource.PLURAL}.kafkamedic.dev") for d in DEFINITIONS
    ]
    for definition, kind in zip(DEFINITIONS, kinds, strict=True):
        assert kind["description"] == (definition.resource.__doc__ or "").strip()
    images = yaml.safe_load(notes["artifacthub.io/images"])
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    named = {"operator": values["image"], "spark": values["spark"]["image"]}
    assert {i["name"]: i["image"] for i in images} == {
        n: f"{v['repository']}:{told['appVersion']}" for n, v in named.items()
    }


def test_each_value_has_its_place_in_the_schema_and_no_other_has():
    def compare(values: Any, schema: dict[str, Any], path: str) -> None:
        if "$ref" in schema:
            schema = definitions[schema["$ref"].rsplit("/", 1)[-1]]
        if not values or not isinstance(values, dict) or "properties" not in schema:
            return
        assert set(values) == set(schema["properties"]) - {"global"}, path
        for name, value in values.items():
            compare(value, schema["properties"][name], f"{path}.{name}")

    schema = json.loads((CHART / "values.schema.json").read_text())
    definitions = schema["definitions"]
    compare(yaml.safe_load((CHART / "values.yaml").read_text()), schema, "values")
