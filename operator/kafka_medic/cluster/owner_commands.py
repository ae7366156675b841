"""What a person types to pause, edit and resume an object that describes a topic, by its kind."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kafka_medic.cluster.snapshot import ClusterInfo

REPLICAS = "replicas"
"""The name of the number of replicas among edits; every other name is a setting's."""
SETTINGS = {"KafkaTopic.platform.confluent.io": "configs"}
"""The field of spec that holds a topic's settings, where it is not `config`."""
PAUSE = {
    "KafkaTopic.kafka.banzaicloud.io": ("managedBy", "kafka-medic"),
    "KafkaTopic.platform.confluent.io": ("platform.confluent.io/block-reconcile", "true"),
}
STRIMZI_PAUSE = ("strimzi.io/pause-reconciliation", "true")
"""The annotation by which its operator leaves the topic alone."""


def patch_of(kind: str, edits: Mapping[str, str]) -> dict[str, object]:
    """The merge patch (RFC 7386) that gives the object these values."""
    spec: dict[str, object] = {}
    settings = {name: _plain(value) for name, value in edits.items() if name != REPLICAS}
    if REPLICAS in edits:
        spec[REPLICAS] = int(edits[REPLICAS])
    if settings:
        spec[SETTINGS.get(kind, "config")] = settings
    return {"spec": spec}


def pause_command(cluster: ClusterInfo, kind: str, name: str) -> str:
    key, value = PAUSE.get(kind, STRIMZI_PAUSE)
    return f"kubectl annotate {kind.lower()} {name} -n {cluster.in_commands} {key}={value}"


def edit_command(cluster: ClusterInfo, kind: str, name: str, edits: Mapping[str, str]) -> str:
    patch = json.dumps(patch_of(kind, edits), separators=(",", ":"))
    return f"kubectl patch {kind.lower()} {name} -n {cluster.in_commands} --type merge -p '{patch}'"


def resume_command(cluster: ClusterInfo, kind: str, name: str) -> str:
    key, _ = PAUSE.get(kind, STRIMZI_PAUSE)
    return f"kubectl annotate {kind.lower()} {name} -n {cluster.in_commands} {key}-"


def _plain(value: str) -> int | str:
    """A number as people write it into YAML."""
    return int(value) if value.isdigit() else value
