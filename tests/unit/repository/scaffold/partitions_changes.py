"""What people are shown of this room's part of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_medic.playbook.change import Change, Changes
from kafka_medic.resources.remediation_plan import AddedPartitions, Plan
from kafka_medic.resources.vocabulary import ActionName


def _added(plan: Plan) -> Iterator[Change]:
    for a in plan.part(AddedPartitions).added:
        yield Change(f"partitions of {a.topic}", str(a.before), str(a.after))


CHANGES: Changes = {ActionName.ADD_PARTITIONS: _added}
