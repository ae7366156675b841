"""What Kafka's configuration says of the metadata quorum."""

from __future__ import annotations

FETCH_TIMEOUT_MS = 2000
"""Default of `controller.quorum.fetch.timeout.ms` (Kafka broker configs, KIP-595), in milliseconds: a voter
that has not caught up for longer would be voting for a new leader."""
