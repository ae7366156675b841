"""A plan that changes settings at run time, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_medic.playbook.action import PlanRequest
from kafka_medic.resources.remediation_plan import ConfigChange, Plan, SettingChanges


def settings_plan(request: PlanRequest, summary: Sequence[str], changes: Sequence[ConfigChange]) -> Plan:
    """The whole plan, its digest included. summary: lines, the first of which is also what each step does."""
    words = {s.action: summary[0] for s in request.playbook.spec.steps}
    return request.sealed(
        request.draft(
            SettingChanges(config_changes=tuple(changes)), words=words, summary="\n".join(summary)[:8000], moves=0
        )
    )
