"""What only a stale leader holds: records that it accepted and that the cluster's own log does not have.

A broker that still thinks that it leads a partition takes writes (with acks=1 all of them) that are thrown away when it
comes back to the cluster and truncates to the leader's log. How many they are is measured before anything restarts it:
its own log end, beyond its high watermark, against the end of that leader epoch in the log of whoever leads by the
authority (KIP-101: where the epochs part, the logs part). Where it leads by the authority too, only under an epoch that
it has not heard of, nobody can follow it: then it is what the others in the ISR have, since one of them leads next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import BrokerView, KafkaReads
from kafka_medic.cluster.snapshot import NO_LEADER, DivergedLog, TopicPartition
from kafka_medic.report.units import many

MAX_PARTITIONS = 5000
"""Of one broker, as many as are measured at once; more is a failed read, not a smaller number."""


@dataclass(frozen=True, slots=True)
class StaleLeadership:
    """A partition that a broker believes it leads under `epoch`, while by the authority `leader` does under a newer.
    `others`: who else is in the ISR."""

    tp: TopicPartition
    epoch: int
    leader: int
    others: tuple[int, ...] = ()


def stale_leaderships(
    answers: Mapping[int, BrokerView | ReadFailed], decided: pa.Table
) -> dict[int, tuple[StaleLeadership, ...]]:
    """By broker. `decided`: the decided partitions, with STATES_SCHEMA."""
    views = [a for a in answers.values() if isinstance(a, BrokerView) and a.states is not None]
    if len({id(view.states) for view in views}) <= 1:
        return {}  # equal views are one table: everybody tells the same
    newest = {
        TopicPartition(topic, partition): (leader, epoch, isr or (), topic_id)
        for topic, partition, leader, epoch, isr, topic_id in _rows(decided)
        if leader is not None and epoch is not None
    }
    found = {}
    for view in views:
        assert view.states is not None
        mine = view.states.filter(pc.equal(view.states["leader"], pa.scalar(view.broker, pa.int32())))
        stale = [
            StaleLeadership(tp, epoch, newest[tp][0], tuple(b for b in newest[tp][2] if b != view.broker))
            for topic, partition, _, epoch, _, topic_id in _rows(mine)
            if epoch is not None
            and (tp := TopicPartition(topic, partition)) in newest
            and newest[tp][1] > epoch
            and (view.covers is None or topic in view.covers)
            # Epochs and offsets of a deleted topic say nothing of the one that has its name now.
            if None in (topic_id, newest[tp][3]) or topic_id == newest[tp][3]
        ]
        if stale:
            found[view.broker] = tuple(sorted(stale, key=lambda s: s.tp))
    return found


def diverged_logs(
    kafka: KafkaReads, broker: int, stale: tuple[StaleLeadership, ...], silent: Mapping[int, ReadFailed]
) -> tuple[DivergedLog, ...]:
    """Where the broker's log of each of these partitions parts from the cluster's. Where nobody else leads or is in
    sync the end of the common part is not known. Raises ReadFailed, for a broker that has just been `silent` without
    asking it once more."""
    if len(stale) > MAX_PARTITIONS:
        raise ReadFailed(
            FailureKind.OTHER, f"broker {broker} is stale on {many(len(stale), 'partition')}; at most {MAX_PARTITIONS}"
        )
    by_leader = _by_leader(broker, stale)
    by_replica = _by_replica(broker, stale)
    for other in sorted({*by_leader, *by_replica} & set(silent)):
        raise silent[other]
    own_ends = kafka.own_log_ends(broker, [s.tp for s in stale])
    shared: dict[TopicPartition, int] = {}
    for leader, epochs in sorted(by_leader.items()):
        shared |= kafka.epoch_ends(leader, epochs)
    for replica, held in sorted(by_replica.items()):
        for tp, end in kafka.own_log_ends(replica, held).items():
            shared[tp] = min(end, shared.get(tp, end))
    return tuple(DivergedLog(s.tp.topic, s.tp.partition, s.epoch, own_ends.get(s.tp), shared.get(s.tp)) for s in stale)


def _by_leader(broker: int, stale: Iterable[StaleLeadership]) -> dict[int, dict[TopicPartition, int]]:
    """By another leader, the partitions that it leads, with the epochs under which `broker` takes itself for it."""
    found: dict[int, dict[TopicPartition, int]] = {}
    for one in stale:
        if one.leader not in (broker, NO_LEADER):
            found.setdefault(one.leader, {})[one.tp] = one.epoch
    return found


def _by_replica(broker: int, stale: Iterable[StaleLeadership]) -> dict[int, list[TopicPartition]]:
    """By another replica in sync, the partitions that `broker` leads under a later epoch too."""
    found: dict[int, list[TopicPartition]] = {}
    for one in stale:
        for other in one.others if one.leader == broker else ():
            found.setdefault(other, []).append(one.tp)
    return found


def _rows(states: pa.Table) -> Any:
    return zip(
        *(states[name].to_pylist() for name in ("topic", "partition", "leader", "leaderEpoch", "isr", "topicId")),
        strict=True,
    )
