"""Brokers that are in other racks than when the plan was made, so that its replicas may share a rack after all."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_medic.guard.evaluate import some
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.action import StepContext
from kafka_medic.playbook.reassign.loads import rack_of
from kafka_medic.resources.remediation_plan import ReplicaMoves, ReplicaRemovals
from kafka_medic.resources.vocabulary import Guard


def other_racks(at: StepContext) -> str | None:
    """Of the brokers that are to hold the plan's partitions. None where there are none, racks are not used, or the plan
    does not show racks (it has more than 1,000 brokers). A broker that is down has no known rack."""
    own = at.plan.part(ReplicaMoves)
    if own.loads is None or not at.context.cluster.spec.expectations.rack_aware:
        return None
    finally_ = {(c.topic, c.partition): c.replicas for c in (*own.changes, *at.plan.part(ReplicaRemovals).each())}
    hold = {broker for replicas in finally_.values() for broker in replicas}
    planned = dict(zip(own.loads.brokers, own.loads.racks, strict=True))
    known = {b.id: rack_of(b) for b in at.snapshot.brokers or () if b.live and b.host is not None}
    other = [b for b in sorted(hold & planned.keys() & known.keys()) if known[b] != planned[b]]
    if not other:
        return None
    said = [f"broker {b} is in {_named(known[b])} (planned: {_named(planned[b])})" for b in other]
    return f"racks have changed since the plan: {some(said, 5)}"


def planned_racks(at: StepContext) -> Iterator[Reason]:
    """PreconditionsHold, for the racks."""
    if why := other_racks(at):
        yield Reason(Guard.PRECONDITIONS_HOLD, Verdict.DENY, why)


def _named(rack: str) -> str:
    return f"rack {rack}" if rack else "no rack"
