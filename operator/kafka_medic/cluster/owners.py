"""Topics that an object of somebody else's describes, by the Snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafka_medic.cluster.snapshot import Snapshot, TopicOwner

SOURCE = "topic-owners"


@dataclass(frozen=True, slots=True)
class OwnerObject:
    """The very object of another operator that describes a topic."""

    kind: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def acting_owners(snapshot: Snapshot) -> Mapping[str, TopicOwner] | None:
    """By topic, whose owner would put back what others change; None where that could not be read. Empty where nobody
    owns topics here: then the source is not asked."""
    owners = _read(snapshot)
    return None if owners is None else {owner.topic: owner for owner in owners if owner.acts}


def owners_by_topic(snapshot: Snapshot) -> Mapping[str, TopicOwner] | None:
    """The owner of each topic that has one, acting ones first; None where that could not be read. An object that its
    operator does not manage at all is left out."""
    owners = _read(snapshot)
    if owners is None:
        return None
    managed = [owner for owner in owners if owner.acts or owner.paused]
    return {owner.topic: owner for owner in sorted(managed, key=lambda owner: owner.acts)}


def owner_object(snapshot: Snapshot, kind: str, name: str) -> TopicOwner | None:
    """None where there is none, and where the owners could not be read: ask `acting_owners` before."""
    return next((o for o in snapshot.owners or () if (o.kind, o.name) == (kind, name)), None)


def _read(snapshot: Snapshot) -> Iterable[TopicOwner] | None:
    if snapshot.owners is None:
        return () if snapshot.source(SOURCE) is None else None
    return snapshot.owners
