"""What an owner's object says of its topic, and what is so in Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.min_isr import MIN_ISR
from kafka_medic.cluster.owner_commands import REPLICAS
from kafka_medic.cluster.owners import OwnerObject, owner_object
from kafka_medic.cluster.snapshot import Snapshot, TopicOwner
from kafka_medic.playbook.effects import dynamic_value, topics_gone, unknown_settings
from kafka_medic.resources.remediation_plan import EditedBy, OwnedTopic, OwnedTopics, OwnerEdit, Plan


def value_of(owner: TopicOwner, name: str) -> str | None:
    """What the object says; None for nothing."""
    if name == MIN_ISR and owner.min_isr_text is not None:
        return owner.min_isr_text
    value = {REPLICAS: owner.factor, MIN_ISR: owner.min_isr}.get(name)
    return None if value is None else str(value)


def why_a_person(owner: TopicOwner) -> str | None:
    """Why kafka-medic does not edit the object; None where it may."""
    if owner.kept_by is not None:
        return f"{owner.kept_by} reverts it to Git's value; change it in Git"
    return owner.hindrance


def by_hand(owned: OwnedTopic, now: TopicOwner) -> bool:
    """Whether a person has to write the object. A plan that names the operator is no right to more than it has now."""
    return owned.by is EditedBy.PERSON or why_a_person(now) is not None


def due(owned: OwnedTopic, now: TopicOwner) -> tuple[OwnerEdit, ...]:
    """Edits whose value is still the one before. Any other one is somebody else's by now."""
    return tuple(e for e in owned.edits if value_of(now, e.name) == e.before)


def is_so(owned: OwnedTopic, edit: OwnerEdit, snapshot: Snapshot) -> bool | None:
    """Whether the topic in Kafka is as the edit says: only then may its owner say so. None: not known."""
    if edit.name != REPLICAS:
        key = ("TOPIC", owned.topic, edit.name)
        unread = unknown_settings(snapshot, [key]) and owned.topic not in topics_gone(snapshot, [key])
        return None if unread else dynamic_value(snapshot, key) == edit.after
    if snapshot.partitions is None:
        return None
    of_topic = pc.equal(snapshot.partitions["topic"], pa.scalar(owned.topic))
    counts = pc.list_value_length(snapshot.partitions.filter(of_topic)["replicas"]).unique().to_pylist()
    return None if None in counts else bool(counts == [int(edit.after)])


def objects(plan: Plan, snapshot: Snapshot) -> Iterator[tuple[OwnedTopic, TopicOwner | None]]:
    """Each owner of the plan as it is now; None: gone, or another one of that name."""
    for owned in plan.part(OwnedTopics).each():
        now = owner_object(snapshot, owned.kind, owned.name)
        yield owned, now if now is not None and now.uid == owned.uid and now.topic == owned.topic else None


def of_left(plan: Plan, snapshot: Snapshot) -> Iterator[tuple[OwnedTopic, TopicOwner | None]]:
    """The same without the owners of topics that were deleted since (`Plan.without`)."""
    changed = plan.changed_topics()
    return (each for each in objects(plan, snapshot) if each[0].edits or each[0].topic in changed)


def as_object(owned: OwnedTopic) -> OwnerObject:
    return OwnerObject(owned.kind, owned.name, owned.uid)
