"""What people are shown of this room's part of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_medic.playbook.change import Change, Changes
from kafka_medic.resources.remediation_plan import Elections, Plan, Reorders
from kafka_medic.resources.vocabulary import ActionName


def _elections(plan: Plan) -> Iterator[Change]:
    for e in plan.part(Elections).elections:
        more = f" and {len(e.partitions) - 20} more" if len(e.partitions) > 20 else ""
        note = f"partitions {', '.join(map(str, e.partitions[:20]))}{more}"
        yield Change(f"leaders of {e.topic}", None, f"broker {e.broker}", note)


def _orders(plan: Plan) -> Iterator[Change]:
    for c in plan.part(Reorders).reorders:
        before, after = str(list(c.replicas_before)), str(list(c.replicas))
        yield Change(f"order of {c.topic}-{c.partition}", before, after, "no data moves")


CHANGES: Changes = {
    ActionName.ELECT_PREFERRED_LEADERS: _elections,
    ActionName.REORDER_REPLICAS: _orders,
}
