"""Drift is believed when it lasts: one stale metadata answer must not throw away an approved plan."""

from __future__ import annotations

from datetime import datetime

from kafka_medic.resources.conditions import Condition, ConditionStatus, find_condition, set_condition
from kafka_medic.resources.remediation_status import RemediationStatus

CONFIRM_SECONDS = 10.0
"""Longer than a broker takes to hear of a change that the controller made; no effect is sent in the meantime."""


def drifted_long_enough(
    status: RemediationStatus, drift: str | None, now: datetime
) -> tuple[RemediationStatus, str | None]:
    """The status with its Drifted condition kept, and the drift once it has lasted `CONFIRM_SECONDS`."""
    before = find_condition(status.conditions, "Drifted")
    if drift is None:
        if before is None or before.status is ConditionStatus.FALSE:
            return status, None
        condition = Condition(
            type="Drifted", status=ConditionStatus.FALSE, reason="AsPlanned", last_transition_time=now
        )
        return status.model_copy(update={"conditions": set_condition(status.conditions, condition)}), None
    condition = Condition(
        type="Drifted",
        status=ConditionStatus.TRUE,
        reason="NotAsPlanned",
        message=drift[:8192],
        last_transition_time=now,
    )
    kept = status.model_copy(update={"conditions": set_condition(status.conditions, condition)})
    since = before.last_transition_time if before is not None and before.status is ConditionStatus.TRUE else now
    return kept, drift if (now - since).total_seconds() >= CONFIRM_SECONDS else None
