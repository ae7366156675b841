"""Partitions that nobody serves until the target is restarted.

A controller elects a broker whose metadata is stale: it is registered and in the ISR. That broker does not know that it
leads, so nobody can write or read, and no follower can catch up. As soon as it has gone, another replica leads.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.agreement import agreement
from kafka_medic.cluster.snapshot import Broker, PartitionRow, Snapshot, TopicPartition
from kafka_medic.guard.context import RestartQuestion
from kafka_medic.guard.fit import unfit
from kafka_medic.guard.rows import known_ids
from kafka_medic.guard.stuck import could_lead
from kafka_medic.guard.succession import successor

_UNKNOWN_TO_IT = pc.field("kind").isin(["other incarnation", "missing"])
NONE: frozenset[TopicPartition] = frozenset()


def unserved(snapshot: Snapshot, question: RestartQuestion) -> frozenset[TopicPartition]:
    """What the target leads by what is decided and does not serve, and what a fit broker leads as soon as the target
    has gone. Empty unless the run restarts the target, alone, to cure its stale view."""
    if question.broker not in question.context.cures or question.context.together or question.rows is None:
        return NONE
    fit: dict[int | None, Broker] = {
        b.id: b for b in snapshot.brokers or () if b.id != question.broker and not any(unfit(snapshot, b.id))
    }
    return frozenset(
        row.tp
        for row in _unheard(snapshot, question, question.broker)
        if could_lead(fit.get(successor(row, {question.broker})), row)
    )


def not_served(snapshot: Snapshot, question: RestartQuestion) -> frozenset[TopicPartition]:
    """The same of every broker that the run restarts to cure it, whoever could lead: with what it does not serve nobody
    catches up before it is restarted."""
    cures = question.context.cures if question.broker in question.context.cures else ()
    return frozenset(row.tp for broker in cures for row in _unheard(snapshot, question, broker))


def cannot_catch_up(snapshot: Snapshot, question: RestartQuestion) -> dict[int, frozenset[TopicPartition]]:
    """By broker that the run restarts to cure it, the partitions of which it is out of the ISR and stays out of it
    before that: its stale view names another leader or an earlier epoch, so that it does not fetch from the leader."""
    return {
        broker: frozenset(_left_behind(snapshot, question, broker))
        for broker in (question.context.cures if question.broker in question.context.cures else ())
    }


def _left_behind(snapshot: Snapshot, question: RestartQuestion, broker: int) -> Iterator[TopicPartition]:
    found = agreement(snapshot).disagreements.get(broker)
    named = NONE if found is None else _named(found.beliefs.filter(pc.field("kind") != "gone"))
    for row in question.rows or ():
        isr = known_ids(row.isr)
        if row.tp in named and isr is not None and broker not in isr:
            yield row.tp


def _unheard(snapshot: Snapshot, question: RestartQuestion, broker: int) -> Iterator[PartitionRow]:
    """What this broker leads by what is decided, while it reports another leader from an earlier epoch and no end of
    its log, or reports another topic id, whose log it has under the same name, or no such partition. One that takes
    itself for the leader of this topic id, of any epoch, may have taken records."""
    found = agreement(snapshot).disagreements.get(broker)
    if found is None:
        return
    led = (pc.field("kind") == "behind") & (pc.field("leader") != broker)
    behind, unknown = _named(found.beliefs.filter(led)), _named(found.beliefs.filter(_UNKNOWN_TO_IT))
    for row in question.rows or ():
        if row.leader == broker and (row.tp in unknown or (row.tp in behind and row.log_end is None)):
            yield row


def _named(beliefs: pa.Table) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(row["topic"], row["partition"]) for row in beliefs.to_pylist())
