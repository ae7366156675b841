"""What people are shown of this room's part of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_medic.guard.evaluate import some
from kafka_medic.playbook.change import Change, Changes
from kafka_medic.resources.remediation_plan import Plan, Rescues, Resignations, Restarts
from kafka_medic.resources.vocabulary import ActionName


def _restarts(plan: Plan) -> Iterator[Change]:
    own = plan.part(Restarts)
    for d in own.drains:
        note = f"{list(d.replicas_before)}, and {list(d.replicas)} while broker {d.broker} is restarted"
        yield Change(f"order of {d.topic}, partitions {some(d.partitions, 20)}", None, None, note)
    for r in plan.part(Resignations).resignations:
        note = f"its registration is deleted in ZooKeeper (controller epoch {r.epoch}); no broker restarts"
        yield Change("controller", f"broker {r.broker}", "another broker", note)
    for s in own.static_settings:
        what = f"{s.name} in the configuration of broker {some(s.brokers, 20)}"
        yield Change(what, s.before, s.after, "changed by you before you approve, read at the restart")
    for b in own.restarts:
        why = f": {b.reason}" if b.reason else ""
        yield Change(f"broker {b.broker}", None, None, f"restart Pod {b.pod} (uid {b.pod_uid}){why}")


def _rescues(plan: Plan) -> Iterator[Change]:
    own = plan.part(Rescues)
    for r in own.rescues:
        where = f"{r.topic}-{r.partition} on broker {r.broker}"
        records = f"copy offsets {r.from_offset} to {r.to_offset} to topic {own.rescue_topic}"
        yield Change(f"records of {where}", None, None, records)


CHANGES: Changes = {
    ActionName.RESTART_BROKERS: _restarts,
    ActionName.RESCUE_RECORDS: _rescues,
}
