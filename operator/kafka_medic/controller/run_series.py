"""The series of single Remediations: those that have not ended, and those that ended a short time ago."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kafka_medic.resources.phases import TERMINAL_PHASES, StepPhase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_status import StepStatus

KEPT_AFTER_END = timedelta(hours=1)
"""So that a scrape sees how the run ended."""
RUN = ["namespace", "cluster", "remediation", "playbook"]


@dataclass(frozen=True, slots=True)
class Family:
    """Series of one name: labels, and samples as label values and number."""

    name: str
    text: str
    labels: tuple[str, ...]
    samples: list[tuple[list[str], float]] = field(default_factory=list)

    def add_metric(self, labels: list[str], value: float) -> None:
        """One sample."""
        self.samples.append((labels, value))


def shown(runs: Iterable[Remediation], now: datetime) -> tuple[Remediation, ...]:
    """The runs that have series of their own, without what may be long: they are kept in memory."""
    return tuple(_slim(r) for r in runs if r.status.phase not in TERMINAL_PHASES or _ended_lately(r, now))


def _slim(run: Remediation) -> Remediation:
    return run.model_copy(update={"status": run.status.model_copy(update={"plan": None, "journal": ()})})


def _ended_lately(run: Remediation, now: datetime) -> bool:
    ended = run.status.finished_at
    return ended is not None and now - ended <= KEPT_AFTER_END


def run_families(runs: Sequence[tuple[tuple[str, str], Remediation]]) -> tuple[Family, ...]:
    """`runs`: each with the namespace and name of its KafkaCluster."""
    phase = _family("phase", "Always 1; the label says where the run stands.", "phase")
    started = _family("started_timestamp_seconds", "When the run began to act.")
    done = _family(
        "step_done", "How much of its current step the run has done, in the step's own unit.", "step", "unit"
    )
    total = _family("step_total", "How much the run's current step has to do, in the step's own unit.", "step", "unit")
    left_bytes = _family("remaining_bytes", "Bytes that the run still has to copy, as large as the plan saw them.")
    left_seconds = _family("remaining_seconds", "What is left takes at least so long at the plan's throttle.")
    waits = _family("waiting", "Always 1; the labels name a guard that the run waits for.", "guard", "verdict")
    for key, run in runs:
        labels = [*key, run.name, run.spec.playbook.name]
        status = run.status
        phase.add_metric([*labels, status.phase.value if status.phase else "New"], 1)
        if status.started_at is not None:
            started.add_metric(labels, status.started_at.timestamp())
        for guard, verdict in dict.fromkeys((w.guard.value, w.verdict.value) for w in status.waiting_for):
            waits.add_metric([*labels, guard, verdict], 1)
        step = _current(run)
        if step is None or (progress := step.progress) is None:
            continue
        done.add_metric([*labels, step.name, progress.unit], progress.done)
        total.add_metric([*labels, step.name, progress.unit], progress.total)
        if progress.bytes_total is not None:
            left_bytes.add_metric(labels, max(0, progress.bytes_total - (progress.bytes_done or 0)))
        if progress.seconds_left is not None:
            left_seconds.add_metric(labels, progress.seconds_left)
    return phase, started, done, total, left_bytes, left_seconds, waits


def _current(run: Remediation) -> StepStatus | None:
    named = run.status.current_step
    ended = {StepPhase.SUCCEEDED, StepPhase.SKIPPED}
    return next((s for s in run.status.steps if s.name == named and s.phase not in ended), None)


def _family(name: str, text: str, *labels: str) -> Family:
    return Family(f"kafka_medic_remediation_{name}", text, (*RUN, *labels))
