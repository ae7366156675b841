"""A KafkaCluster that is not observed reports it, with the reason, in its conditions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kafka_medic.clients.kubernetes_api import custom_path
from kafka_medic.resources.kafkacluster import KafkaCluster


def write_not_ready(api: Any, namespace: str, name: str, reason: str, message: str) -> None:
    """Ready is False, every other condition Unknown. Nothing is written where that stands. Raises ApiFailure."""
    raw = api.get(custom_path(KafkaCluster.PLURAL, namespace, name))
    status = raw.setdefault("status", {})
    conditions = status.get("conditions") or []
    if any((c.get("type"), c.get("reason"), c.get("message")) == ("Ready", reason, message) for c in conditions):
        return
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    # What the others said was true when it was observed.
    others = [
        {**c, "status": "Unknown", "reason": reason, "lastTransitionTime": now}
        for c in conditions
        if c.get("type") != "Ready"
    ]
    ready = {"type": "Ready", "status": "False", "reason": reason, "message": message, "lastTransitionTime": now}
    status["conditions"] = [*others, ready]
    api.replace(custom_path(KafkaCluster.PLURAL, namespace, name, "status"), raw)
