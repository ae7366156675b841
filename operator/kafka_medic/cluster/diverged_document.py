"""The records that only a stale broker holds, as the snapshot document writes them."""

from __future__ import annotations

from typing import Any

from kafka_medic.cluster.fields import SnapshotDocumentError, mapping, optional, required, whole
from kafka_medic.cluster.snapshot import DivergedLog


def diverged_out(log: DivergedLog) -> dict[str, Any]:
    return {
        "topic": log.topic,
        "partition": log.partition,
        "epoch": log.epoch,
        "logEnd": log.log_end,
        "sharedEnd": log.shared_end,
    }


def diverged_in(value: Any, path: str) -> DivergedLog:
    item = mapping(value, path)
    topic = required(item, "topic", path)
    if not isinstance(topic, str):
        raise SnapshotDocumentError(f"{path}.topic", f"must be text, not {topic!r}")
    return DivergedLog(
        topic,
        whole(required(item, "partition", path), f"{path}.partition"),
        whole(required(item, "epoch", path), f"{path}.epoch"),
        optional(item, "logEnd", path, int),
        optional(item, "sharedEnd", path, int),
    )
