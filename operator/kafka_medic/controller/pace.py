"""How soon a KafkaCluster's next reconcile is due, at the earliest and at the latest."""

from __future__ import annotations

from datetime import timedelta

from kafka_medic.cluster.snapshot import Snapshot

INVALID_SECONDS = 60.0
"""Until a KafkaCluster that this version cannot read is read again; a change of it wakes the worker sooner."""
STRIMZI_SECONDS = 5.0
"""Until Strimzi's resources are read again, when they do not say enough yet."""
NOT_OURS_SECONDS = 5.0
"""At most, until the operator tries again to take a Lease that another operator holds."""
SHORTEST_PAUSE = 0.05
"""Between two reconciles, however urgent the second is."""
PAUSE_FOR_EACH_PARTITION = 0.00005
"""Seconds between two reconciles that follow on each other. Of 30 brokers and 20,000 partitions, an observation with
every whole view takes 0.015 ms of the operator's processor for each partition, and each broker makes a response of
0.9 MB. Brokers have clients to serve, most of all while leaders change."""
LONGEST_SHORT_PAUSE = 5.0
REWRITTEN_SECONDS, REWRITTEN_INTERVALS = 5.0, 2.5
"""A status of which only the time of the observation has changed is written again after so many seconds or intervals,
whichever is longer. The Lease shows that an operator observes (compare KEP-589 of Kubernetes, for nodes)."""


def rewritten_after(interval: float) -> timedelta:
    """`interval`: seconds between two observations."""
    return timedelta(seconds=max(REWRITTEN_SECONDS, REWRITTEN_INTERVALS * interval))


def shortest_pause(snapshot: Snapshot) -> float:
    """Seconds from the end of a reconcile that saw this to the next one, however urgent that is."""
    partitions = 0 if snapshot.partitions is None else snapshot.partitions.num_rows
    return min(max(SHORTEST_PAUSE, partitions * PAUSE_FOR_EACH_PARTITION), LONGEST_SHORT_PAUSE)
