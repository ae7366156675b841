"""Partitions whose leader refuses `acks=all`, by the minimum that this leader enforces and as its version does.

Since Kafka 3.7.0 a leader asks for no more in-sync replicas than the partition has replicas (KAFKA-15583,
`Partition.effectiveMinIsr`). Where the leader's version is not known, what both ways refuse is named and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_medic.cluster.min_isr import UNKNOWN, Minimums
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.cluster.software_version import parse_version, within
from kafka_medic.diagnose.columns import Ints, Mask, is_any, partitions_of

CAPPED_SINCE = "3.7.0"
"""The first release that asks for no more than there are: a 3.6.2 broker refuses what a 3.7.0 one acknowledges."""
REFUSING = "refusing"
"""Where a Snapshot keeps them (`Snapshot.worked_out`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Refusing:
    """`rows`: the partitions that refuse `acks=all`. `needed`: the in-sync replicas that each leader asks for."""

    rows: Mask
    needed: Ints


def refusing(snapshot: Snapshot) -> Refusing | None:
    """None where the partitions are not known."""
    if snapshot.partitions is not None and REFUSING not in snapshot.worked_out:
        snapshot.worked_out[REFUSING] = _refusing(snapshot)
    found: Refusing | None = snapshot.worked_out.get(REFUSING)
    return found


def _refusing(snapshot: Snapshot) -> Refusing:
    p, table = partitions_of(snapshot), snapshot.partitions
    assert p is not None  # the caller saw to it
    assert table is not None
    minimums = Minimums.of_snapshot(snapshot)
    needed = minimums.column(table["topic"], table["leader"])
    configured = np.array([t in minimums.own or t in minimums.fall_back for t in p.topics], dtype=np.bool_)[p.topic]
    needed = np.where(~configured & p.min_isr.known, p.min_isr.values, needed)
    before = parse_version(CAPPED_SINCE)
    old = [b.id for b in snapshot.brokers or () if (v := parse_version(b.version)) and within(v, None, before)]
    uncapped = is_any(p.leader.values, old)
    most = np.where(p.replicas.known, p.replicas.counts, 0)
    needed = np.where(uncapped, needed, np.minimum(needed, most))
    led = p.leader.known & (p.leader.values >= 0)
    return Refusing(led & p.isr.known & (needed != UNKNOWN) & (p.isr.counts < needed), needed)
