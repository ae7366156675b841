"""May there be more partitions?"""

from __future__ import annotations

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.resources.vocabulary import Guard

NAME = Guard.FEW_PARTITIONS


def few_partitions(snapshot: Snapshot) -> Reason:
    """Not while the cluster has many already."""
    if snapshot.partitions is None:
        return Reason(NAME, Verdict.UNKNOWN, "the partitions are not known")
    many = snapshot.partitions.num_rows > 100
    return Reason(NAME, Verdict.WAIT if many else Verdict.ALLOW, f"{snapshot.partitions.num_rows} partitions")
