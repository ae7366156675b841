"""What `decide` takes and gives, and the few ways in which a run's status moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from kafka_medic.cluster.clock import Skew
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.finding import Finding
from kafka_medic.guard.namesakes import Namesake
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.run import FleetUse
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.approval import Word
from kafka_medic.playbook.effects import Intent
from kafka_medic.playbook.extra_reads import ExtraReads
from kafka_medic.resources.admission import Standing
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_status import MAX_WAITING, RemediationStatus, Waiting
from kafka_medic.resources.vocabulary import Risk

SOON = 1.0
"""Seconds until the next reconcile after an effect was asked for: its outcome is to be seen quickly."""


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """Everything a decision may rest on, read afresh for this reconcile. None: it could not be read."""

    snapshot: Snapshot
    cluster: KafkaCluster
    playbook: Playbook | None
    approvals: Sequence[Word] | None
    policies: Standing | None
    others: Sequence[OtherRun] | None
    lease_held: bool | None
    namesakes: Sequence[Namesake] | None
    findings: Sequence[Finding]
    now: datetime
    reads: ExtraReads = field(default_factory=ExtraReads)
    fleet: FleetUse | None = None
    skew: Skew | None = None
    """Of the API server's clock, which dates approvals, to the one that `now` is by."""
    files: str | None = None
    """The directory for plans that are too long for a Remediation; None where there is none."""

    @property
    def risk(self) -> Risk | None:
        """Of the playbook as it is, which an approval is for; None when it is gone or cannot be read."""
        return self.playbook.spec.risk if self.playbook is not None else None

    @property
    def finding_ids(self) -> frozenset[str]:
        return frozenset(f.id for f in self.findings)

    @property
    def pending_ids(self) -> frozenset[str]:
        """Of those that have not lasted long enough yet to be more than something on its way."""
        return frozenset(f.id for f in self.findings if not f.firing())


@dataclass(frozen=True, slots=True)
class Decision:
    """The status to write first, then the one effect to carry out.

    `restores`: the effect only puts back what the run itself set. `requeue`: seconds until the next reconcile; None:
    when something changes, and at the cluster's probe interval.
    """

    status: RemediationStatus
    intent: Intent | None = None
    restores: bool = False
    requeue: float | None = None
    warning: tuple[str, str] | None = None
    """Reason word and sentence of an event, for what the phase does not say by itself."""


def being_deleted(run: Remediation, context: DecisionContext) -> str | None:
    """What is on its way out: a run then starts nothing more, and takes back what it has set."""
    going = next((r for r in (run, context.cluster) if r.metadata.deletion_timestamp is not None), None)
    return f"the {going.KIND} {going.name} is being deleted" if going is not None else None


def stay(status: RemediationStatus, requeue: float | None = None) -> Decision:
    return Decision(status, requeue=requeue)


def ended(status: RemediationStatus, phase: Phase, message: str, now: datetime) -> Decision:
    """A terminal phase, with why."""
    update = {
        "phase": phase,
        "message": message[:8192],
        "finished_at": now,
        "waiting_for": (),
        "restore_owed": False,
        "holds": "",
    }
    return Decision(status.model_copy(update=update))


def disowned(status: RemediationStatus, why: str, now: datetime) -> Decision:
    """The end of a run whose status somebody else wrote: nothing is sent on its word. What it may have left in Kafka is
    for the findings to name. Superseded, so that the operator proposes its own cure again."""
    seen = "LeftoverThrottle and the other findings show what it may have left behind"
    text = f"{why}; the operator wrote nothing, and {seen}"
    return replace(ended(status, Phase.SUPERSEDED, text, now), warning=("StatusForged", text))


def waiting(
    status: RemediationStatus,
    phase: Phase,
    message: str,
    reasons: Sequence[Reason],
    requeue: float | None = None,
) -> Decision:
    """Nothing is done now; every guard that refuses is named."""
    update = {"phase": phase, "message": message[:8192], "waiting_for": waiting_for(reasons)}
    return Decision(status.model_copy(update=update), requeue=requeue)


def refuse(status: RemediationStatus, phase: Phase, reasons: Sequence[Reason]) -> Decision:
    return waiting(status, phase, "; ".join(r.message for r in reasons if r.verdict is not Verdict.ALLOW), reasons)


def waiting_for(reasons: Sequence[Reason]) -> tuple[Waiting, ...]:
    """The refusals among `reasons`, as status holds them. Where there are too many, each guard that refuses is named
    before any of them is named twice."""
    refusals = [r for r in reasons if r.verdict is not Verdict.ALLOW]
    if len(refusals) > MAX_WAITING:
        firsts = list({r.guard: r for r in reversed(refusals)}.values())[::-1]
        refusals = [*firsts, *(r for r in refusals if not any(r is first for first in firsts))]
    return tuple(
        Waiting(guard=r.guard, verdict=r.verdict, message=r.message[:1024], remediation=r.remediation)
        for r in refusals[:MAX_WAITING]
    )
