"""A plan is about the very Kafka cluster and the very topics that it was made for, by their ids: bootstrap servers can
come to name another cluster, and a topic can be deleted and created again."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.plan_digest import sealed
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan, PlannedTopic
from kafka_medic.resources.vocabulary import Guard

CLUSTER_ID = "Kafka cluster id"
"""Name of the precondition that holds which Kafka cluster a plan was made for."""


def same_cluster(plan: Plan | None, snapshot: Snapshot) -> Reason:
    """Whether what answers is the cluster that the plan was made for: bootstrap servers can come to name another."""
    guard, present = Guard.PRECONDITIONS_HOLD, snapshot.cluster.id
    planned = next((p.value for p in plan.preconditions if p.name == CLUSTER_ID), None) if plan else None
    if planned is None:
        return Reason(guard, Verdict.DENY, "no plan names its Kafka cluster")
    if present is None:
        return Reason(guard, Verdict.UNKNOWN, f"the id of the Kafka cluster is not known (planned: {planned})")
    if present != planned:
        message = f"the plan is for Kafka cluster {planned}, but cluster {present} answers"
        return Reason(guard, Verdict.DENY, message)
    return Reason(guard, Verdict.ALLOW, f"the Kafka cluster is {planned}, as planned")


def identified(run: Remediation, plan: Plan, snapshot: Snapshot) -> Plan:
    """The plan with the ids of its topics, which its digest covers. Offsets name the id of each topic themselves."""
    ids = _ids(snapshot, {topic for part in plan.parts for topic in part.topics()})
    topics = tuple(PlannedTopic(topic=topic, id=of) for topic, of in sorted(ids.items()) if of is not None)
    if not topics:
        return plan
    plan = plan.model_copy(update={"topics": topics})
    return sealed(run, plan)


def recreated_topics(plan: Plan, snapshot: Snapshot) -> list[str]:
    """Topics of the plan that were deleted and created again since."""
    now = _ids(snapshot, {t.topic for t in plan.topics})
    return [t.topic for t in plan.topics if now.get(t.topic) not in (None, t.id)]


def recreated(plan: Plan, snapshot: Snapshot) -> str | None:
    """The same in words; None where there are none."""
    others = recreated_topics(plan, snapshot)
    return f"deleted and recreated since the plan was made: topic {some(others, 5)}" if others else None


def same_topics(plan: Plan, snapshot: Snapshot) -> tuple[Reason, ...]:
    """PreconditionsHold, for the ids of the plan's topics. A topic that is gone is for each action to judge."""
    guard = Guard.PRECONDITIONS_HOLD
    if message := recreated(plan, snapshot):
        return (Reason(guard, Verdict.DENY, message),)
    now = _ids(snapshot, {t.topic for t in plan.topics})
    if unknown := [t.topic for t in plan.topics if t.topic in now and now[t.topic] is None]:
        message = f"topic ids not known, so these may not be the plan's topics: {some(unknown, 5)}"
        return (Reason(guard, Verdict.UNKNOWN, message),)
    return ()


def _ids(snapshot: Snapshot, topics: set[str]) -> dict[str, str | None]:
    """By topic that is there."""
    if snapshot.partitions is None or not topics:
        return {}
    wanted = pa.array(sorted(topics), pa.string())
    mine = snapshot.partitions.filter(pc.is_in(snapshot.partitions["topic"], value_set=wanted))
    return {row["topic"]: row["topicId"] for row in mine.select(["topic", "topicId"]).to_pylist()}
