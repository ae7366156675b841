"""Snapshots and KafkaClusters as files, for the command to read."""

from __future__ import annotations

import json

import pytest
import yaml

from kafka_medic.cluster.document import to_document

CLUSTER = {
    "apiVersion": "kafkamedic.dev/v1alpha1",
    "kind": "KafkaCluster",
    "metadata": {"name": "demo"},
    "spec": {"bootstrapServers": "kafka:9092"},
}


@pytest.fixture
def save(tmp_path):
    def write(snapshot, name="now.json"):
        path = tmp_path / name
        document = snapshot if isinstance(snapshot, dict) else to_document(snapshot)
        path.write_text(yaml.safe_dump(document) if name.endswith("yaml") else json.dumps(document))
        return str(path)

    return write
