"""The CustomResourceDefinitions: up to date, structural, bounded, described; and the chart's copies."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from kafka_medic.resources import generate
from kafka_medic.resources.admission import REQUIRED_POLICIES
from kafka_medic.resources.definitions import DEFINITIONS, SCHEMA_DIGEST_ANNOTATION, Definition
from kafka_medic.resources.phases import LEGAL_TRANSITIONS
from kafka_medic.resources.scalars import MAX_INT64
from tests.unit.resources.sources import CHART, ROOT, documents

NOT_STRUCTURAL = {"$ref", "$defs", "anyOf", "oneOf", "allOf", "not", "title", "const", "patternProperties"}
BY_KIND = pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: one.resource.KIND)


def test_generated_files_are_up_to_date() -> None:
    assert generate.stale(ROOT) == [], "run `python -m kafka_medic.resources.generate`"


def test_the_generator_writes_repairs_and_removes(tmp_path) -> None:
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks" / "one.yaml").write_text("kind: Playbook\n")
    files = generate.wanted(tmp_path)
    assert sorted(generate.write(tmp_path)) == sorted(files)
    assert generate.stale(tmp_path) == []
    left_over = tmp_path / "crds" / "old.yaml"
    left_over.write_text("")
    first = next(iter(files))
    (tmp_path / first).write_text("edited by hand")
    assert {path.name for path in generate.write(tmp_path)} == {"old.yaml", first.name}
    assert not left_over.exists()
    assert generate.stale(tmp_path) == []


def test_check_is_quiet_about_a_good_tree(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"]) == 0
    assert capsys.readouterr().out == ""


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}.*")


@functools.cache
def schema(short_name: str) -> dict[str, Any]:
    """Worked out once for all who look at it."""
    return next(one for one in DEFINITIONS if one.short_name == short_name).schema()


def inner(definition: Definition) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, node in nodes(schema(definition.short_name)):
        if path.startswith((".spec", ".status")):
            yield path, node


@BY_KIND
def test_schemas_are_structural(definition: Definition) -> None:
    for path, node in inner(definition):
        assert not NOT_STRUCTURAL & set(node), path
        assert "type" in node or node.get("x-kubernetes-int-or-string"), path
        assert node.get("additionalProperties") is not True, path
        assert "x-kubernetes-preserve-unknown-fields" not in node, path
        assert not ("properties" in node and "additionalProperties" in node), path
        assert node.get("nullable") is None, f"{path}: absent says unknown, null says nothing"


@BY_KIND
def test_everything_is_bounded(definition: Definition) -> None:
    for path, node in inner(definition):
        match node.get("type"):
            case "string":
                assert "maxLength" in node or "enum" in node or node.get("format") == "date-time", path
            case "array":
                assert "maxItems" in node, path
            case "object":
                assert "properties" in node or "maxProperties" in node, path
            case "integer":
                assert "minimum" in node or node["format"] == "int64", path
                assert node.get("maximum", MAX_INT64) <= 2**31 - 1 or node["format"] == "int64", path


@BY_KIND
def test_every_field_is_described(definition: Definition) -> None:
    for path, node in inner(definition):
        for name, child in node.get("properties", {}).items():
            assert child.get("description", "").endswith((".", ",")) or ":" in child["description"], f"{path}.{name}"


@BY_KIND
def test_lists_of_objects_with_a_key_are_maps(definition: Definition) -> None:
    for path, node in inner(definition):
        if path.endswith(".conditions"):
            assert node["x-kubernetes-list-type"] == "map"
            assert node["x-kubernetes-list-map-keys"] == ["type"]
        for key in node.get("x-kubernetes-list-map-keys", []):
            assert key in node["items"]["required"], path


@BY_KIND
def test_status_is_a_subresource_and_invents_nothing(definition: Definition) -> None:
    (version,) = definition.to_kubernetes()["spec"]["versions"]
    assert ("status" in version["schema"]["openAPIV3Schema"]["properties"]) == ("subresources" in version)
    for path, node in inner(definition):
        assert not (path.startswith(".status") and "default" in node), path


def test_names_columns_and_category() -> None:
    short = {definition.resource.KIND: definition.short_name for definition in DEFINITIONS}
    kinds = {"KafkaCluster": "kmc", "Playbook": "kmp", "Remediation": "kmr", "RemediationApproval": "kmra"}
    assert short == kinds | {"PlanPart": "kmpp"}
    (remediation,) = (one for one in DEFINITIONS if one.short_name == "kmr")
    shown = [column.name for column in remediation.columns if column.priority == 0]
    assert shown == ["Cluster", "Playbook", "Risk", "Phase", "Step", "Approved By", "Expires", "Age"]
    for definition in DEFINITIONS:
        crd = definition.to_kubernetes()
        assert crd["spec"]["names"]["categories"] == ["kafka-medic"]
        assert crd["metadata"]["annotations"][SCHEMA_DIGEST_ANNOTATION] == definition.schema_digest()


def test_columns_lead_to_fields_that_exist() -> None:
    for definition in DEFINITIONS:
        known = {path for path, _ in nodes(schema(definition.short_name))}
        for column in definition.columns:
            path = re.sub(r'\[\?\(@\.\w+=="\w+"\)\]', "[]", column.path)
            assert path in known or path.startswith(".metadata."), column.path


def test_specs_that_are_words_of_people_cannot_change() -> None:
    for definition in DEFINITIONS:
        rules = schema(definition.short_name)["properties"]["spec"].get("x-kubernetes-validations", [])
        immutable = any(rule["rule"] == "self == oldSelf" for rule in rules)
        assert immutable == (definition.resource.KIND in {"Remediation", "RemediationApproval"})


def test_the_api_server_holds_the_table_of_transitions() -> None:
    (rule,) = schema("kmr")["properties"]["status"]["properties"]["phase"]["x-kubernetes-validations"]
    for before, after in LEGAL_TRANSITIONS.items():
        listed = ", ".join(f"'{phase}'" for phase in sorted(after))
        assert f"'{before}': [{listed}]" in rule["rule"]


def test_the_charts_policies_are_about_what_the_operator_requires() -> None:
    text = (CHART / "templates" / "_policies.tpl").read_text()
    assert tuple(re.findall(r"^(\w+):$", text, re.MULTILINE)) == REQUIRED_POLICIES


def test_the_charts_playbooks_can_be_labelled() -> None:
    for path in (CHART / "files" / "playbooks").glob("*.yaml"):
        assert path.read_text().count("\nmetadata:\n  name: ") == 1, "the template puts labels after that line"
        (playbook,) = documents(path)
        assert "labels" not in playbook["metadata"]


def test_the_charts_rights_do_not_include_approving() -> None:
    rights = (CHART / "templates" / "operator-rbac.yaml").read_text()
    assert "[approve" not in rights
    assert "approve]" not in rights
    assert "*" not in rights
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["name"] == "kafka-medic"
