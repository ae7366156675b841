"""A plan that changes settings at run time, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.playbook.guards import CLUSTER_ID
from kafka_medic.playbook.plan_digest import sealed
from kafka_medic.playbook.refusal import NO_DIGEST
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import ConfigChange, Plan, PlanStep, Precondition


def settings_plan(
    run: Remediation,
    cluster: KafkaCluster,
    playbook: Playbook,
    snapshot: Snapshot,
    now: datetime,
    summary: Sequence[str],
    changes: Sequence[ConfigChange],
) -> Plan:
    """The whole plan, its digest included. summary: lines, the first of which is also what each step does."""
    plan = Plan(
        digest=NO_DIGEST,
        proposed_at=now,
        expires_at=now + timedelta(seconds=parse_duration(cluster.spec.remediation.approvals.expire_after)),
        summary="\n".join(summary)[:8000],
        moves=0,
        steps=tuple(PlanStep(name=s.name, action=s.action, description=summary[0][:1024]) for s in playbook.spec.steps),
        config_changes=tuple(changes),
        preconditions=(Precondition(name=CLUSTER_ID, value=snapshot.cluster.id or ""),),
    )
    return sealed(run, plan)
