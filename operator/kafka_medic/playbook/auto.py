"""What the mode Auto may do without a person's word. Beyond it, it asks.

Counted from what the plan's digest covers, not from the figures that the plan tells of itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.guard.run import within_window
from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook.plan_digest import covers_sizes
from kafka_medic.report.units import many
from kafka_medic.resources.kafkacluster_remediation import AutoBounds
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.vocabulary import Risk

_RISKS = list(Risk)


@dataclass(frozen=True, slots=True)
class Cost:
    """What the mode Auto counts of a plan. `copied` bytes: None where a size is not known. `asks`: why a person has to
    be asked, whatever the counts are."""

    partitions: frozenset[TopicPartition] = frozenset()
    moves: int = 0
    restarts: int = 0
    copied: int | None = 0
    asks: tuple[str, ...] = ()


def beyond_auto(
    run: Remediation, plan: Plan, cost: Cost, bounds: AutoBounds, risk: Risk | None, now: datetime, *, started: bool
) -> tuple[str, ...]:
    """Every bound that the plan passes; empty: it needs nobody's word. `risk`: the playbook's, None: not known. A
    window that closes on a run under way does not count here, nor a digest of an earlier version: the run is better
    finished than left half-way."""
    return tuple(_passed(run, plan, cost, bounds, risk, now, started))


def _passed(
    run: Remediation, plan: Plan, cost: Cost, bounds: AutoBounds, risk: Risk | None, now: datetime, started: bool
) -> Iterator[str]:
    yield from _asked_for(run, bounds, risk)
    yield from cost.asks
    for name, count, limit in (
        ("partitions", len(cost.partitions), bounds.max_partitions),
        ("moves", cost.moves, bounds.max_moves),
        ("restarts", cost.restarts, bounds.max_restarts),
    ):
        if count > limit:
            yield f"{many(count, name[:-1])}, auto.max{name.capitalize()} is {limit}"
    size = cost.copied
    if size is None:
        yield "the number of bytes to copy is not known"
    elif size and not started and not covers_sizes(run, plan):
        yield "its digest is from an earlier version, which does not cover sizes"
    elif size > bounds.max_bytes:
        yield f"{many(size, 'byte')} to copy, auto.maxBytes is {bounds.max_bytes}"
    window = within_window(bounds.windows, now)
    if not started and window.verdict is not Verdict.ALLOW:
        yield window.message.replace("spec.remediation.windows", "spec.remediation.auto.windows")


def _asked_for(run: Remediation, bounds: AutoBounds, risk: Risk | None) -> Iterator[str]:
    """What of the run itself, whatever its plan is."""
    cause = run.spec.cause
    if cause is None:
        yield f"{run.spec.requested_by} requested it, and Auto covers runs of findings only"
    elif bounds.findings and cause.finding_type not in {f.value for f in bounds.findings}:
        yield f"{cause.finding_type} is not among auto.findings"
    if risk is None:
        yield "the playbook's risk is not known"
    elif _RISKS.index(risk) > _RISKS.index(bounds.max_risk):
        yield f"its risk is {risk.value}, auto.maxRisk is {bounds.max_risk.value}"
