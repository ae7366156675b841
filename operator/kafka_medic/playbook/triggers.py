"""Which findings a Playbook treats, and which of several Playbooks comes first.

A shipped Playbook treats the findings that name it: the diagnosis knows which cure fits. A Playbook of any other name
is the owner's own, and treats every finding of the type in its trigger.
"""

from __future__ import annotations

from datetime import datetime

from kafka_medic.diagnose.finding import Finding
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.playbook import Playbook

SHIPPED = frozenset(
    {
        "drain-broker",
        "elect-preferred-leaders",
        "evacuate-broker",
        "raise-defaults",
        "raise-min-insync-replicas",
        "raise-replication-factor",
        "rebalance",
        "rebalance-leaders",
        "relieve-disk",
        "remove-leftover-throttles",
        "replace-broker",
        "reset-consumer-offsets",
        "reset-offsets-of-workload",
        "restart-broker",
        "restart-controller",
        "restore-log-dir",
        "rolling-restart",
        "spread-racks",
        "undo-offset-reset",
        "undrain-broker",
    }
)
"""The names of the Playbooks that come with the operator."""
OWN_ORDER, SHIPPED_ORDER = 100, 1000


def place(playbook: Playbook) -> tuple[int, str]:
    """Smallest first."""
    order = playbook.spec.trigger.order
    if order is None:
        order = SHIPPED_ORDER if playbook.name in SHIPPED else OWN_ORDER
    return order, playbook.name


def covers(playbook: Playbook, cluster: KafkaCluster) -> bool:
    """Whether its trigger selects that KafkaCluster."""
    clusters = playbook.spec.trigger.clusters
    return clusters is None or clusters.matches(cluster.metadata.labels)


def is_for(playbook: Playbook, finding: Finding) -> bool:
    """Whether it is a cure for that finding, however long that has lasted."""
    named = playbook.name not in SHIPPED or finding.playbook == playbook.name
    return named and finding.type == playbook.spec.trigger.finding.value


def is_due(playbook: Playbook, finding: Finding, now: datetime) -> bool:
    """And the finding is Firing, for as long as the playbook's own `for` asks."""
    if not is_for(playbook, finding) or not finding.firing() or finding.since is None:
        return False
    return (now - finding.since).total_seconds() >= parse_duration(playbook.spec.trigger.for_)
