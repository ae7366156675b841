"""What each broker holds before and after a plan, for people to see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kafka_medic.cluster.snapshot import Broker, Snapshot
from kafka_medic.plan.lists import Array, flatten
from kafka_medic.plan.model import Move
from kafka_medic.resources.remediation_plan import MAX_LOADS, BrokerLoads, PartitionChange

__all__ = ["broker_loads", "rack_of"]

_RACK = 64
"""Characters of a rack's name."""


def broker_loads(snapshot: Snapshot, moves: Sequence[Move], reorders: Sequence[PartitionChange]) -> BrokerLoads | None:
    """Over all partitions of the snapshot. None where brokers or replicas are not known, or brokers are too many."""
    if snapshot.brokers is None or snapshot.partitions is None or snapshot.partitions["replicas"].null_count:
        return None
    racks = {broker.id: rack_of(broker) for broker in snapshot.brokers}
    held = flatten(snapshot.partitions["replicas"])
    ids = np.array(sorted(racks), dtype=np.int64)
    if not len(ids) or len(ids) > MAX_LOADS:
        return None
    orders = {(change.topic, change.partition): change.replicas for change in reorders}
    came = (broker for move in moves for broker in set(move.replicas) - set(move.replicas_before))
    went = (broker for move in moves for broker in set(move.replicas_before) - set(move.replicas))
    leads = (orders.get((move.topic, move.partition), move.replicas)[0] for move in moves)
    led = (move.replicas_before[0] for move in moves if move.replicas_before)
    replicas, leaders = _counted(ids, held.values), _counted(ids, held.values[held.start[held.length > 0]])
    after = replicas + _of(ids, came) - _of(ids, went), leaders + _of(ids, leads) - _of(ids, led)
    return BrokerLoads(
        brokers=tuple(ids.tolist()),
        racks=tuple(racks[broker] for broker in ids.tolist()),
        replicas_before=_counts(replicas),
        replicas_after=_counts(after[0]),
        leaders_before=_counts(leaders),
        leaders_after=_counts(after[1]),
    )


def rack_of(broker: Broker) -> str:
    """As a plan shows it; empty for none."""
    return (broker.rack or "")[:_RACK]


def _of(ids: Array, brokers: Iterable[int]) -> Array:
    return _counted(ids, np.fromiter(brokers, dtype=np.int64))


def _counted(ids: Array, brokers: Array) -> Array:
    """int64[B]: how often each id is there; what is no broker of the cluster counts for none."""
    known = brokers[np.isin(brokers, ids)]
    return np.bincount(np.searchsorted(ids, known), minlength=len(ids))


def _counts(values: Array) -> tuple[int, ...]:
    return tuple(max(int(value), 0) for value in values)
