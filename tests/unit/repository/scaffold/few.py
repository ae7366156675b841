"""PartitionsFew: a topic has fewer partitions than it should."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene
from kafka_medic.resources.vocabulary import FindingType, Severity


def detect(scene: Scene) -> Iterator[Finding]:
    count = sum(row.topic == "orders" for row in scene.snapshot.rows())
    if 0 < count < 4:
        message = f"topic orders has {count} partitions"
        named = FindingType.PARTITIONS_FEW.value
        yield Finding(f"{named}/orders", named, Severity.WARNING, message, ("orders",), (), playbook="add-partitions")
