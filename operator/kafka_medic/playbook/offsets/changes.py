"""What people are shown of this room's part of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_medic.playbook.change import Change, Changes, nothing
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import OffsetChanges, Plan, StoppedConsumers
from kafka_medic.resources.vocabulary import ActionName


def _offsets(plan: Plan) -> Iterator[Change]:
    for o in plan.part(OffsetChanges).offsets:
        what = f"offset of group {o.group} in {o.topic}-{o.partition}"
        why = f"; {o.reason}" if o.reason else ""
        note = f"{many(o.skipped, 'offset')} skipped, up to {o.read_again} read again{why}"
        yield Change(what, str(o.before), str(o.after), note)


def _consumers(plan: Plan) -> Iterator[Change]:
    workload = plan.part(StoppedConsumers).workload
    if workload is not None:
        note = f"{many(workload.replicas, 'replica')}, and 0 while the offsets are set (uid {workload.uid})"
        yield Change(f"{workload.kind.value} {workload.name}", None, None, note)


CHANGES: Changes = {
    ActionName.RESET_OFFSETS: _offsets,
    ActionName.RESTORE_OFFSETS: _offsets,
    ActionName.STOP_CONSUMERS: _consumers,
    ActionName.START_CONSUMERS: nothing,
}
