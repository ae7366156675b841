"""For how long a change is waited for. It may cost more the more it is about; a read is the connection's timeout."""

from __future__ import annotations

EACH_SECONDS = 0.1
"""For each partition or topic. A ZooKeeper cluster works on one after the other, with some writes to ZooKeeper for each
(KafkaController.onPartitionReassignment)."""
MOST_SECONDS = 20.0
"""What is left of the Lease, at least, when a change is sent (`controller.lease.ROOM`)."""


def seconds_for(timeout: float, things: int) -> float:
    """`timeout` is the connection's; one that is longer than all this holds."""
    return max(timeout, min(timeout + things * EACH_SECONDS, MOST_SECONDS))
