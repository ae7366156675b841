"""What people are shown of this room's part of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_medic.playbook.change import Change, Changes
from kafka_medic.resources.remediation_plan import EditedBy, OwnedTopic, OwnedTopics, Plan
from kafka_medic.resources.vocabulary import ActionName


def named(owned: OwnedTopic) -> str:
    return f"{owned.kind} {owned.name}"


def _pauses(plan: Plan) -> Iterator[Change]:
    for owned in plan.part(OwnedTopics).each():
        who = "by the operator" if owned.by is EditedBy.OPERATOR else "by you"
        if not owned.paused:
            yield Change(named(owned), None, None, f"paused {who}, until the last step")


def _edits(plan: Plan) -> Iterator[Change]:
    for owned in plan.part(OwnedTopics).each():
        who = "by the operator" if owned.by is EditedBy.OPERATOR else f"by you, since {owned.reason}"
        for edit in owned.edits:
            yield Change(f"{edit.name} of {named(owned)}", edit.before, edit.after, who)


CHANGES: Changes = {ActionName.PAUSE_OWNERS: _pauses, ActionName.RETURN_TO_OWNERS: _edits}
