"""Topics that an object of somebody else's describes, by the Snapshot."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_medic.cluster.snapshot import Snapshot, TopicOwner

SOURCE = "topic-owners"


def acting_owners(snapshot: Snapshot) -> Mapping[str, TopicOwner] | None:
    """By topic, whose owner would put back what others change; None where that could not be read. Empty where nobody
    owns topics here: then the source is not asked."""
    if snapshot.owners is None:
        return {} if snapshot.source(SOURCE) is None else None
    return {owner.topic: owner for owner in snapshot.owners if owner.acts}
