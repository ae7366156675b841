"""The timeout of a change. It grows with the number of partitions or topics; a read has the connection's timeout."""

from __future__ import annotations

EACH_SECONDS = 0.1
"""For each partition or topic. A ZooKeeper cluster works on one after the other, with some writes to ZooKeeper for each
(KafkaController.onPartitionReassignment)."""
MOST_SECONDS = 20.0
"""What is left of the Lease, at least, when a change is sent (`controller.lease.ROOM`)."""


def change_timeout(timeout: float, things: int) -> float:
    """`timeout` is the connection's, and the least: a longer one is kept."""
    return max(timeout, min(timeout + things * EACH_SECONDS, MOST_SECONDS))
