"""What the mode Auto may do without a person's word. Beyond it, it asks.

Counted from what the plan's digest covers, not from the figures that the plan tells of itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from kafka_medic.guard.run import within_window
from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook.plan_digest import covers_sizes
from kafka_medic.resources.kafkacluster_remediation import AutoBounds
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.vocabulary import Risk

_RISKS = list(Risk)


def beyond_auto(
    run: Remediation, plan: Plan, bounds: AutoBounds, risk: Risk | None, now: datetime, *, started: bool
) -> tuple[str, ...]:
    """Every bound that the plan passes; empty: it needs nobody's word. `risk`: the playbook's, None: not known. A
    window that closes on a run under way does not count here, nor a digest of an earlier version: the run is better
    finished than left half-way."""
    return tuple(_passed(run, plan, bounds, risk, now, started))


def _passed(
    run: Remediation, plan: Plan, bounds: AutoBounds, risk: Risk | None, now: datetime, started: bool
) -> Iterator[str]:
    cause = run.spec.cause
    if cause is None:
        yield f"{run.spec.requested_by} asked for it, and Auto is for what findings ask for"
    elif bounds.findings and cause.finding_type not in {f.value for f in bounds.findings}:
        yield f"{cause.finding_type} is not among auto.findings"
    if risk is None:
        yield "the playbook's risk is not known"
    elif _RISKS.index(risk) > _RISKS.index(bounds.max_risk):
        yield f"its risk is {risk.value}, auto.maxRisk is {bounds.max_risk.value}"
    if plan.static_settings:
        yield "only a person can say that the brokers' configuration has been changed"
    if plan.artifact is not None:
        yield "its changes are not in the object"
    for name, count, limit in (
        ("partitions", _partitions(plan), bounds.max_partitions),
        ("moves", _moves(plan), bounds.max_moves),
        ("restarts", len(plan.restarts), bounds.max_restarts),
    ):
        if count > limit:
            yield f"{count} {name}, auto.max{name.capitalize()} is {limit}"
    size = _bytes(plan)
    if size is None:
        yield "how many bytes would be copied is not known"
    elif size and not started and not covers_sizes(run, plan):
        yield "its digest is an earlier version's, which does not stand for sizes"
    elif size > bounds.max_bytes:
        yield f"{size} bytes to copy, auto.maxBytes is {bounds.max_bytes}"
    window = within_window(bounds.windows, now)
    if not started and window.verdict is not Verdict.ALLOW:
        yield window.message.replace("spec.remediation.windows", "spec.remediation.auto.windows")


def _partitions(plan: Plan) -> int:
    touched = {(c.topic, c.partition) for c in (*plan.changes, *plan.reorders)}
    touched |= {(o.topic, o.partition) for o in plan.offsets}
    touched |= {(e.topic, n) for e in plan.elections for n in e.partitions}
    touched |= {(d.topic, n) for d in plan.drains for n in d.partitions}
    return len(touched)


def _moves(plan: Plan) -> int:
    return sum(len(set(c.replicas) - set(c.replicas_before)) for c in plan.changes)


def _bytes(plan: Plan) -> int | None:
    """None when the size of one of them is not known."""
    total = 0
    for change in plan.changes:
        added = len(set(change.replicas) - set(change.replicas_before))
        if added and change.size_bytes is None:
            return None
        total += added * (change.size_bytes or 0)
    return total
