"""No object can pass what etcd takes in one request, by the bounds of its schema and of what the operator writes."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_medic.controller.status_room import CUT, MAX_BYTES, MAX_RUN_BYTES, fitted_run, size
from kafka_medic.playbook.plan_file import MAX_PLAN_BYTES
from kafka_medic.resources.definitions import DEFINITIONS, Definition
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_status import RemediationStatus

ETCD = 1_572_864
"""--max-request-bytes, https://etcd.io/docs/latest/dev-guide/limit/"""
METADATA = 150_000
"""Name, labels, annotations that people may add, and managedFields, which names each field of each writer once."""
UTF8 = 4
"""Bytes of a character that no pattern holds to ASCII."""
WRITTEN = {KafkaCluster: MAX_BYTES, Remediation: MAX_RUN_BYTES}
"""Status whose lists are cut to fit in bytes, whatever their single bounds."""


def largest(schema: dict[str, Any]) -> int:
    """Bytes of the longest JSON that the schema takes."""
    match schema.get("type"):
        case "string" if "enum" in schema:
            return 2 + max(map(len, schema["enum"]))
        case "string" if schema.get("format") == "date-time":
            return 34
        case "string" | None:
            return 2 + schema["maxLength"] * (1 if "pattern" in schema else UTF8)
        case "integer":
            return 11 if schema["format"] == "int32" else 20
        case "boolean":
            return 5
        case "array":
            return 2 + schema["maxItems"] * (1 + largest(schema["items"]))
        case "object" if "properties" in schema:
            return 2 + sum(len(name) + 4 + largest(one) for name, one in schema["properties"].items())
        case "object":
            return 2 + schema["maxProperties"] * (64 + 4 + largest(schema["additionalProperties"]))
        case other:
            raise AssertionError(f"type {other} has no bound here")


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda d: d.resource.KIND)
def test_the_largest_object_fits(definition: Definition) -> None:
    properties = definition.schema()["properties"]
    status = WRITTEN.get(definition.resource) or (largest(properties["status"]) if "status" in properties else 0)
    assert largest(properties["spec"]) + status + METADATA <= ETCD


def test_patterns_are_of_ascii() -> None:
    """So that a character of a string with a pattern is one byte."""

    def patterns(schema: dict[str, Any]) -> set[str]:
        found = {schema["pattern"]} if "pattern" in schema else set()
        for child in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
            found |= patterns(child) if isinstance(child, dict) else set()
        return found

    for definition in DEFINITIONS:
        for pattern in patterns(definition.schema()):
            outside = pattern.replace(r"\.", "").replace(r"\\", "")
            while "[" in outside:
                before, _, rest = outside.partition("[")
                assert not rest.startswith("^"), pattern
                outside = before + rest.partition("]")[2]
            assert "." not in outside, pattern


def test_a_run_whose_prose_is_long_loses_prose_alone() -> None:
    plan = {
        "digest": f"sha256:{'a' * 64}", "proposedAt": "2026-01-01T12:00:00Z", "expiresAt": "2026-01-02T12:00:00Z",
        "summary": "s" * 32_768,
    }  # fmt: skip
    entry = {"step": "s", "kind": "K", "state": "Done", "intendedAt": "2026-01-01T12:00:00Z", "target": "t" * 1024,
             "detail": "\N{GRINNING FACE}" * 8192, "saved": [{"name": "n" * 320, "value": "v"}]}  # fmt: skip
    waits = [{"guard": "WithinWindow", "verdict": "Wait", "message": "w" * 1024}] * 40
    body = {"plan": plan, "journal": [entry | {"id": f"e{n}"} for n in range(200)], "waitingFor": waits, "message": "m"}
    status = RemediationStatus.model_validate(body)
    assert size(status) > ETCD
    kept = fitted_run(status)
    assert size(kept) + MAX_PLAN_BYTES - size(RemediationStatus(plan=status.plan)) <= MAX_RUN_BYTES
    assert kept.plan == status.plan
    for before, after in zip(status.journal, kept.journal, strict=True):
        assert after == before.model_copy(update={"detail": before.detail[:CUT]})
    small = status.model_copy(update={"journal": status.journal[:3]})
    assert fitted_run(small) is small


def test_of_very_many_deleted_topics_a_run_keeps_as_many_as_the_schema_takes():
    status = RemediationStatus().model_copy(update={"deleted_topics": tuple(f"t{n}" for n in range(2000))})
    assert RemediationStatus.model_validate(fitted_run(status).to_kubernetes()).deleted_topics[-1] == "t499"
