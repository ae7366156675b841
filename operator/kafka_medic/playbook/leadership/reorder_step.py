"""ReorderReplicas: another replica becomes the preferred one. No data moves, and nobody leads who did not before; that
is for the elections that follow."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.reorder import Orders
from kafka_medic.playbook.effects import Reorder
from kafka_medic.playbook.portions import followed_by, portion
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import Plan, Reorders
from kafka_medic.resources.remediation_status import IntentState, JournalEntry, Progress


def planned_orders(plan: Plan) -> Orders:
    """By partition: its replicas before and after."""
    reorders = plan.part(Reorders).reorders
    return {TopicPartition(c.topic, c.partition): (tuple(c.replicas_before), tuple(c.replicas)) for c in reorders}


def other_orders(orders: Orders, snapshot: Snapshot) -> str | None:
    """The first partition whose replicas are neither as the plan saw them nor as it wants them."""
    for row in snapshot.rows(set(orders)) if orders else ():
        if row.adding or row.removing:
            return f"another client is reassigning {row.tp}"
        if row.replicas is not None and row.replicas not in orders[row.tp]:
            before = list(orders[row.tp][0])
            return f"{row.tp} has replicas {list(row.replicas)}; the plan has {before}"
    return None


def assess(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """Where the step stands."""
    return reorder(f"{step}/reorder", planned_orders(plan), journal, snapshot)


def reorder(id_: str, orders: Orders, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """Where a change of orders stands whose journal id is `id_`. A partition that is gone by now counts as done."""
    if not orders:
        return StepReport(StepState.REACHED, "every partition has the planned replica order")
    if snapshot.partitions is None:
        return StepReport(StepState.UNKNOWN, "the partitions could not be read")
    drifted = other_orders(orders, snapshot)
    if drifted:
        return StepReport(StepState.DRIFTED, drifted)
    rows = {row.tp: row for row in snapshot.rows(set(orders))}
    due = {tp: after for tp, (_, after) in orders.items() if tp in rows and rows[tp].replicas != after}
    progress = Progress(done=len(orders) - len(due), total=len(orders), unit="partitions")
    unknown = [tp for tp in due if rows[tp].replicas is None]
    if unknown:
        message = f"the replicas could not be read: {some(unknown, 3)}"
        return StepReport(StepState.UNKNOWN, message, progress=progress)
    if not due:
        seen = (id_,) if id_ in journal else ()
        return StepReport(
            StepState.REACHED, "every partition has the planned replica order", observed=seen, progress=progress
        )
    if id_ in journal and journal[id_].state is IntentState.DONE:
        message = f"another client changed the replica order of {some(sorted(due), 3)}"
        return StepReport(StepState.DRIFTED, message, progress=progress)
    asked = portion(snapshot, sorted(due))
    return StepReport(
        StepState.ACT,
        f"changing the replica order of {many(len(asked), 'partition')}{followed_by(asked, due)}",
        intent=Reorder(id_, {tp: due[tp] for tp in asked}),
        target=some(sorted(due), 5),
        progress=progress,
    )
