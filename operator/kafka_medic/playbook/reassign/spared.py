"""Brokers that are to hold no replica, so that no plan moves one onto them unasked."""

from __future__ import annotations

from kafka_medic.guard.leaving import leaving_brokers
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.resources.vocabulary import Guard


def spared_brokers(request: PlanRequest, *, runs: bool) -> dict[int, str] | Refusal:
    """Each of them, and who says so: their node pool is to lose them or, with `runs`, a run has emptied them."""
    if runs and request.others is None:
        unknown = "which brokers other runs have emptied is not known"
        return Refusal(unknown, (Reason(Guard.NO_OTHER_REMEDIATION, Verdict.UNKNOWN, unknown),))
    known = {b.id for b in request.snapshot.brokers or ()}
    status = request.cluster.status
    found = leaving_brokers(status.strimzi, (request.others or ()) if runs else (), status.departed_brokers)
    return {broker: why for broker, why in sorted(found.items()) if broker in known}


def spared_unasked(request: PlanRequest) -> dict[int, str] | Refusal:
    """For a plan that names no receivers: a person who asks for it may want a broker filled again that a run has
    emptied."""
    return spared_brokers(request, runs=request.run.spec.cause is not None)
