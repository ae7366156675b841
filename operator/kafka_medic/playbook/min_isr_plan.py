"""The plan of the playbook that raises min.insync.replicas of topics which have the replicas for it."""

from __future__ import annotations

from datetime import datetime

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.defaults import MIN_ISR
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.min_isr import low_minimums
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.playbook.settings_plan import settings_plan
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import ConfigChange, ConfigResourceType, Plan

MAX_TOPICS = 256
"""Of one run: its journal entry holds what each was set to before."""


def min_isr_plan(
    run: Remediation, cluster: KafkaCluster, playbook: Playbook, snapshot: Snapshot, now: datetime
) -> Plan | Refusal:
    """The whole plan, its digest included, or why not. The step asks again, for every partition, whether a replica more
    than the new minimum is in sync."""
    low = low_minimums(snapshot, Expectations.from_spec(cluster.spec.expectations))
    if low is None:
        return unread(snapshot)
    if not low:
        return Refusal(f"no topic that has its replicas has a lower {MIN_ISR} than expected", nothing_to_do=True)
    found = (minimum_change(snapshot, topic, wanted) for topic, (_, wanted) in list(low.items())[:MAX_TOPICS])
    changes = tuple(change for change in found if change is not None)
    lines = [
        f"set {MIN_ISR} on {len(changes)} topics: {', '.join(c.resource_name for c in changes[:8])}"
        + (f" and {len(changes) - 8} more" if len(changes) > 8 else ""),
        "every partition of theirs has a replica to spare; from then on acks=all waits for that many brokers, and is "
        "refused while fewer are in sync",
        *(f"  {c.resource_name}: {low[c.resource_name][0]} -> {c.after}" for c in changes[:20]),
    ]
    if len(low) > len(changes):
        lines.append(f"{len(low) - len(changes)} more topics follow in a later plan: one holds {MAX_TOPICS}")
    return settings_plan(run, cluster, playbook, snapshot, now, lines, changes)


def minimum_change(snapshot: Snapshot, topic: str, wanted: int) -> ConfigChange | None:
    """What brings the topic's min.insync.replicas up to `wanted`; None where it is there already, or not known."""
    present = snapshot.config("TOPIC", topic, MIN_ISR)
    if present is None or present.value is None or int(present.value) >= wanted:
        return None
    return ConfigChange(
        resource_type=ConfigResourceType.TOPIC,
        resource_name=topic,
        name=MIN_ISR,
        before=present.value if present.dynamic else None,
        after=str(wanted),
    )
