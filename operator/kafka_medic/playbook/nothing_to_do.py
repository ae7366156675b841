"""A run whose playbook found nothing to do says so in its status, so that the same is not proposed again and again."""

from __future__ import annotations

from datetime import datetime

from kafka_medic.resources.conditions import Condition, ConditionStatus, find_condition, set_condition
from kafka_medic.resources.remediation_status import RemediationStatus

PLANNED, NOTHING_TO_DO = "Planned", "NothingToDo"


def with_nothing_to_do(status: RemediationStatus, why: str, now: datetime) -> RemediationStatus:
    """The status with the condition Planned, which is False."""
    condition = Condition(
        type=PLANNED, status=ConditionStatus.FALSE, reason=NOTHING_TO_DO, message=why[:8192], last_transition_time=now
    )
    return status.model_copy(update={"conditions": set_condition(status.conditions, condition)})


def had_nothing_to_do(status: RemediationStatus) -> bool:
    """Whether that is why the run has ended."""
    found = find_condition(status.conditions, PLANNED)
    return found is not None and found.status is ConditionStatus.FALSE and found.reason == NOTHING_TO_DO
