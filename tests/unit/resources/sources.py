"""Where the files are that the resources' tests read, and a smallest good object of each kind."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "kafka-medic"
API_VERSION = "kafkamedic.dev/v1alpha1"
DIGEST = "sha256:" + "0" * 64
NOW = "2026-01-31T08:00:00Z"

SPECS: dict[str, dict[str, Any]] = {
    "KafkaCluster": {"bootstrapServers": "kafka-0.kafka:9092"},
    "Playbook": {
        "description": "Adds replicas.",
        "risk": "Medium",
        "trigger": {"finding": "ReplicationFactorLow", "for": "30s"},
        "parameters": [{"name": "throttleBytesPerSecond", "type": "integer", "default": 50, "minimum": 1}],
        "steps": [
            {
                "name": "add-replicas",
                "action": "ReassignPartitions",
                "guards": ["SourcesFresh"],
                "verify": {"probe": "TargetReplicasInSync", "consecutive": 3, "within": "4h"},
            }
        ],
    },
    "Remediation": {
        "clusterRef": {"name": "orders", "uid": "c-1"},
        "playbook": {"name": "raise-replication-factor", "digest": DIGEST},
        "requestedBy": "anna",
    },
    "RemediationApproval": {
        "remediationRef": {"name": "run", "uid": "r-1"},
        "planDigest": DIGEST,
        "decision": "Approve",
        "approver": "anna",
    },
    "PlanPart": {
        "remediationRef": {"name": "run", "uid": "r-1"},
        "sha256": "a" * 64,
        "part": 0,
        "parts": 1,
        "data": "AAAA",
    },
}


def smallest(kind: str) -> dict[str, Any]:
    """The smallest good object of that kind."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": "orders"},
        "spec": copy.deepcopy(SPECS[kind]),
    }


def changed(kind: str, path: str, value: object) -> dict[str, Any]:
    """`smallest` with one field set; a path as in `spec.steps.0.action`."""
    built = smallest(kind)
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    target: Any = built
    for part in way:
        target = target[part] if isinstance(part, int) else target.setdefault(part, {})
    target[last] = value
    return built


def documents(path: Path) -> list[dict[str, Any]]:
    """The objects in a YAML file."""
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]
