"""Topics that no plan changes, since the operator of somebody's object would change them back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kafka_medic.cluster.owners import acting_owners
from kafka_medic.cluster.snapshot import Snapshot, TopicOwner
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.resources.vocabulary import Guard

PAUSE = "annotate these with strimzi.io/pause-reconciliation=true until the run has ended"


def held_by_owners(snapshot: Snapshot, topics: Collection[str]) -> Mapping[str, TopicOwner] | Refusal:
    """Those of the topics that have an owner, by name. A refusal where that is not known, and where nothing is left."""
    acting = acting_owners(snapshot)
    if acting is None:
        return unread(snapshot)
    held = {topic: acting[topic] for topic in sorted(topics) if topic in acting}
    if len(held) < len(topics):
        return held
    message = "; ".join(left_to_owners(held))
    return Refusal(message, (Reason(Guard.PRECONDITIONS_HOLD, Verdict.WAIT, message),))


def left_to_owners(held: Mapping[str, TopicOwner]) -> Sequence[str]:
    """What a plan says of them."""
    if not held:
        return ()
    named = some([f"{topic} ({owner.kind} {owner.name})" for topic, owner in held.items()], 5)
    return (f"left out, since their owner would change them back: {named}. To have them planned, {PAUSE}",)
