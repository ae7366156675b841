"""A plan as people read it: each thing that it touches, in the order in which it would happen."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_medic.playbook.change import Change, Changes
from kafka_medic.playbook.leadership import changes as leadership
from kafka_medic.playbook.offsets import changes as offsets
from kafka_medic.playbook.owners import changes as owners
from kafka_medic.playbook.reassign import changes as reassign
from kafka_medic.playbook.restart import changes as restart
from kafka_medic.playbook.settings import changes as settings
from kafka_medic.resources.remediation_plan import Plan

CHANGES: Changes = {
    **reassign.CHANGES,
    **settings.CHANGES,
    **restart.CHANGES,
    **leadership.CHANGES,
    **owners.CHANGES,
    **offsets.CHANGES,
}


def changes(plan: Plan) -> Iterator[Change]:
    """Those of the plan's steps."""
    return (change for step in plan.steps for change in CHANGES[step.action](plan))
