"""Partitions that nobody serves until the target is restarted.

A controller elects a broker whose metadata is stale: it is registered and in the ISR. That broker does not know that it
leads, so nobody can write or read, and no follower can catch up. As soon as it has gone, another replica leads.
"""

from __future__ import annotations

import pyarrow.compute as pc

from kafka_medic.cluster.agreement import agreement
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.guard.context import RestartQuestion
from kafka_medic.guard.fit import unfit
from kafka_medic.guard.rows import known_ids

NONE: frozenset[TopicPartition] = frozenset()


def unserved(snapshot: Snapshot, question: RestartQuestion) -> frozenset[TopicPartition]:
    """What the target leads by what is decided, while it reports another leader from an earlier epoch of the same topic
    id, and what a fit broker in the ISR could lead instead. Empty unless the run restarts the target, alone, to cure
    its stale view. A target that takes itself for the leader, of whatever epoch, may have taken records."""
    target, context = question.broker, question.context
    if target not in context.cures or context.together or question.rows is None:
        return NONE
    found = agreement(snapshot).disagreements.get(target)
    if found is None:
        return NONE
    believed = found.beliefs.filter((pc.field("kind") == "behind") & (pc.field("leader") != target))
    behind = {TopicPartition(row["topic"], row["partition"]) for row in believed.to_pylist()}
    fit = {b.id for b in snapshot.brokers or () if b.id != target and not any(unfit(snapshot, b.id))}
    return frozenset(
        row.tp
        for row in question.rows
        if row.leader == target and row.tp in behind and (known_ids(row.isr) or frozenset()) & fit
    )
