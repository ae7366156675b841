"""How long a step may take: `within`, less the time in which people kept it from going on."""

from __future__ import annotations

from datetime import datetime, timedelta

from kafka_medic.cluster.clock import Skew
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.playbook import Step
from kafka_medic.resources.remediation_status import RemediationStatus, StepStatus
from kafka_medic.resources.vocabulary import Decision, Guard

HOLDS = frozenset(
    (
        Guard.NOT_PAUSED,
        Guard.WITHIN_WINDOW,
        Guard.NO_FOREIGN_REASSIGNMENT,
        Guard.NO_FOREIGN_ROLLOUT,
        Guard.OWNERS_PAUSED,
    )
)
"""Guards by which people keep a step waiting, by a word or by what they do themselves; it is no fault of the step's."""


def held_by_people(reasons: tuple[Reason, ...]) -> bool:
    return any(r.guard in HOLDS and r.verdict is not Verdict.ALLOW for r in reasons)


def note_hold(status: RemediationStatus, step: str, held: bool, now: datetime) -> RemediationStatus:
    """The status with the step's hold begun, going on, or added up and over."""
    found = _of(status, step)
    if held == (found.held_since is not None):
        return status
    if held:
        return _with(status, step, {"held_since": now})
    so_far = int(_held(found, now).total_seconds())
    return _with(status, step, {"held_since": None, "held_seconds": so_far})


def lateness(
    status: RemediationStatus, step: Step, required: int, now: datetime, skew: Skew | None
) -> tuple[RemediationStatus, str | None]:
    """Why the step may start nothing more; None while it has time. As many people as the plan needed give it as much
    time again by approving the very same plan once more, after it ran out. `skew`: of the clock that dates approvals;
    None: not known, and then nobody is known to have come after it. In the second that this cannot tell it came after
    it: whoever approves a second time means that."""
    found = _of(status, step.name)
    since = found.extended_at or found.started_at
    if since is None:
        return status, None
    end = since + timedelta(seconds=parse_duration(step.verify.within)) + _held(found, now)
    if now < end:
        return status, None
    again = {
        r.approver
        for r in status.approvals
        if r.counted and r.decision is Decision.APPROVE and skew is not None and skew.latest(r.at) >= end
    }
    if len(again) >= max(required, 1):
        return _with(status, step.name, {"extended_at": now, "held_seconds": None, "held_since": None}), None
    return status, (
        f"step {step.name} did not reach its goal within {step.verify.within}, so the operator starts nothing more. "
        "To resume, approve the same plan again with a new RemediationApproval; this restarts the step's timeout. "
        "Reject ends the run and restores what it set"
    )


def _held(step: StepStatus, now: datetime) -> timedelta:
    going_on = now - step.held_since if step.held_since is not None else timedelta()
    # Another operator, whose clock was ahead, may have written down since when.
    return timedelta(seconds=step.held_seconds or 0) + max(going_on, timedelta())


def _of(status: RemediationStatus, step: str) -> StepStatus:
    return next(s for s in status.steps if s.name == step)


def _with(status: RemediationStatus, step: str, update: dict[str, object]) -> RemediationStatus:
    steps = tuple(s.model_copy(update=update) if s.name == step else s for s in status.steps)
    return status.model_copy(update={"steps": steps})
