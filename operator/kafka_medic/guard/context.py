"""What a restart is asked about, besides the snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_medic.cluster.snapshot import PartitionRow

FETCH_TIMEOUT_MS = 2000
"""Default of `controller.quorum.fetch.timeout.ms` (KIP-595), in milliseconds."""


@dataclass(frozen=True, slots=True)
class RestartContext:
    """What the run knows about itself. The defaults ask about one broker alone, by itself, in Kubernetes."""

    remaining: frozenset[int] = frozenset()
    """Other brokers that this run has still to restart: the active controller waits for them."""
    together: frozenset[int] = frozenset()
    """Other brokers that this run has restarted and that are not back yet: they count as away."""
    cures: frozenset[int] = frozenset()
    """Brokers whose stale view is what this run is there to cure."""
    replaces_controller: bool = False
    """The run's purpose is another controller: what a stuck one leaves undone does not stand against it."""
    cordon_is_cause: bool = False
    """The node is cordoned, and moving the broker off it is the purpose."""
    asked_for: frozenset[str] = frozenset()
    """uids of the Pods whose restart this run has asked Strimzi for: what they carry is nobody else's."""
    outside_kubernetes: bool = False
    """The owner says that the brokers do not run as Pods, so that there is no Pod or node to look at."""
    fetch_timeout_ms: int = FETCH_TIMEOUT_MS
    """A voter caught up longer ago than this, in milliseconds, does not count."""


@dataclass(frozen=True, slots=True)
class RestartQuestion:
    """The broker, the context, and the partitions that matter, read once for all guards."""

    broker: int
    context: RestartContext
    rows: tuple[PartitionRow, ...] | None
