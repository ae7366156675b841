"""A plan is about the very Kafka cluster and the very topics that it was made for, by their ids: bootstrap servers can
come to name another cluster, and a topic can be deleted and created again."""

from __future__ import annotations

from collections.abc import Collection

from kafka_medic.cluster.incarnations import deleted, topic_ids
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
    ids = topic_ids(snapshot, plan.changed_topics())
    topics = tuple(PlannedTopic(topic=topic, id=of) for topic, of in sorted(ids.items()) if of is not None)
    if not topics:
        return plan
    plan = plan.model_copy(update={"topics": topics})
    return sealed(run, plan)


def recreated(plan: Plan, snapshot: Snapshot) -> str | None:
    """Topics of the plan that were deleted and created again since, in words; None where there are none."""
    now = topic_ids(snapshot, {t.topic for t in plan.topics})
    others = [t.topic for t in plan.topics if now.get(t.topic) not in (None, t.id)]
    return f"deleted and recreated since the plan was made: topic {some(others, 5)}" if others else None


def deleted_topics(plan: Plan, snapshot: Snapshot) -> frozenset[str]:
    """Topics that the plan can do without and that were deleted since it was made, whether or not another one has the
    name."""
    if same_cluster(plan, snapshot).verdict is not Verdict.ALLOW:
        return frozenset()
    return frozenset(topic for topic, gone in _deleted(plan, snapshot).items() if gone)


def shown_again(plan: Plan, snapshot: Snapshot, topics: Collection[str]) -> frozenset[str]:
    """Of topics that counted as deleted, those that are there under the planned id: an id does not come back, so they
    never were."""
    ids = {t.topic: t.id for t in plan.topics if t.topic in topics}
    now = topic_ids(snapshot, ids)
    return frozenset(topic for topic, id_ in ids.items() if now.get(topic) == id_)


def unsure(plan: Plan, snapshot: Snapshot) -> str | None:
    """Of which of these topics it is not known whether they were deleted; None: of none, or no topic could be read."""
    if snapshot.partitions is None:
        return None
    left = sorted(topic for topic, gone in _deleted(plan, snapshot).items() if gone is None)
    if not left:
        return None
    return (
        f"whether topic {some(left, 5)} was deleted is not known. More than half of the brokers must report it gone, "
        "and their log directories must be readable and list no replica of it"
    )


def _deleted(plan: Plan, snapshot: Snapshot) -> dict[str, bool | None]:
    ids, named = {t.topic: t.id for t in plan.topics}, plan.changed_topics()
    able = named - plan.without(named).changed_topics()
    return deleted(snapshot, {topic: ids.get(topic) for topic in able}, plan.holders())


def same_topics(plan: Plan, snapshot: Snapshot) -> tuple[Reason, ...]:
    """PreconditionsHold, for the ids of the plan's topics. A topic that is gone is for each action to judge."""
    guard = Guard.PRECONDITIONS_HOLD
    if message := recreated(plan, snapshot):
        return (Reason(guard, Verdict.DENY, message),)
    now = topic_ids(snapshot, {t.topic for t in plan.topics})
    if unknown := [t.topic for t in plan.topics if t.topic in now and now[t.topic] is None]:
        message = f"topic ids not known, so these may not be the plan's topics: {some(unknown, 5)}"
        return (Reason(guard, Verdict.UNKNOWN, message),)
    return ()
