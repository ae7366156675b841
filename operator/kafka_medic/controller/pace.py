"""How soon a KafkaCluster's next turn is due, at the earliest and at the latest."""

from __future__ import annotations

from datetime import timedelta

from kafka_medic.cluster.snapshot import Snapshot

INVALID_SECONDS = 60.0
"""Until a KafkaCluster that this version cannot read is looked at again; a change of it wakes the worker sooner."""
NOT_OURS_SECONDS = 5.0
"""At most, until a Lease that somebody else holds is asked for again."""
SHORTEST_PAUSE = 0.05
"""Between two turns, however urgent the second is."""
PAUSE_FOR_EACH_PARTITION = 0.00025
"""Seconds between two turns that follow on each other: a look takes 0.2 ms of processor for each partition, ours and
the brokers' together, who have clients to serve, most of all while leaders change."""
LONGEST_SHORT_PAUSE = 5.0
RETOLD = timedelta(seconds=5)
"""After which a status of which only the time of the look has changed is written again."""


def shortest_pause(snapshot: Snapshot) -> float:
    """Seconds from the end of a turn that saw this to the next one, however urgent that is."""
    partitions = 0 if snapshot.partitions is None else snapshot.partitions.num_rows
    return min(max(SHORTEST_PAUSE, partitions * PAUSE_FOR_EACH_PARTITION), LONGEST_SHORT_PAUSE)
