"""The file of a long plan, in pieces beside its Remediation: who approves it can read it with their own rights."""

from __future__ import annotations

import base64
from typing import Any

from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi, custom_path
from kafka_medic.playbook.plan_file import artifact_of, contents, is_missing
from kafka_medic.resources.plan_part import MAX_PART_BYTES, MAX_PARTS, PlanPart, part_name
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.remediation_status import RemediationStatus
from kafka_medic.resources.vocabulary import API_VERSION


def to_publish(before: RemediationStatus, after: RemediationStatus) -> Plan | None:
    """The plan that is new in the status and lies in a file; None where there is none."""
    plan = after.plan
    if plan is None or artifact_of(plan) is None or is_missing(plan):
        return None
    return plan if before.plan is None or before.plan.digest != plan.digest else None


def publish(api: KubernetesApi, run: Remediation, plan: Plan) -> str | None:
    """Write the pieces, over those of an earlier plan of the run. Why that was not done; None: it was."""
    data = contents(plan)
    pieces = [data[i : i + MAX_PART_BYTES] for i in range(0, len(data), MAX_PART_BYTES)]
    if len(pieces) > MAX_PARTS:
        return f"its file has {len(data)} bytes (limit {MAX_PARTS * MAX_PART_BYTES})"
    path = custom_path(PlanPart.PLURAL, run.namespace)
    try:
        for number, piece in enumerate(pieces):
            _write(api, path, _body(run, plan, number, len(pieces), piece))
    except ApiFailure as problem:
        return f"PlanPart: the API server: {problem.status}: {problem.message}"
    return None


def _write(api: KubernetesApi, path: str, body: dict[str, Any]) -> None:
    try:
        api.create(path, body)
    except ApiFailure as problem:
        if not problem.conflict:
            raise
        there = f"{path}/{body['metadata']['name']}"
        found = api.get(there)
        if found.get("spec") != body["spec"]:
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            api.replace(there, {**body, "metadata": body["metadata"] | version})


def _body(run: Remediation, plan: Plan, number: int, count: int, piece: bytes) -> dict[str, Any]:
    artifact = artifact_of(plan)
    assert artifact is not None  # to_publish saw to it
    owner = {"apiVersion": API_VERSION, "kind": run.KIND, "name": run.name, "uid": run.uid}
    return {
        "apiVersion": API_VERSION,
        "kind": PlanPart.KIND,
        "metadata": {
            "name": part_name(run.uid or "", number),
            "namespace": run.namespace,
            "labels": {"app.kubernetes.io/managed-by": "kafka-medic"},
            "ownerReferences": [owner],
        },
        "spec": {
            "remediationRef": {"name": run.name, "uid": run.uid},
            "sha256": artifact.sha256,
            "part": number,
            "parts": count,
            "data": base64.b64encode(piece).decode("ascii"),
        },
    }
