"""What `drainFirst` does around each restart: what the broker leads goes to others before, and comes back after.

Each way has two parts, in the order in which a journal and a snapshot can tell them apart:

1. `order-away-B`, `order-back-B`: the replicas of the planned partitions stand in the other order, so that nothing
   moves their leaderships the wrong way by itself. One request; what it did not reach is asked for again.
2. `elect-away-B-N`, `elect-back-B-N`: the first of each order is elected, in batches that have to serve.

The broker whose entry is the last one in the journal is the one whose turn it is. Until its leaderships are back, no
other's begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from kafka_medic.cluster.snapshot import PartitionRow, Snapshot, TopicPartition
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.reorder import Orders
from kafka_medic.playbook.effects import Reorder
from kafka_medic.playbook.holding import ON_ITS_WAY
from kafka_medic.playbook.leadership import election_step, reorder_step
from kafka_medic.playbook.leadership.parameters import AWAY, BACK, ElectParameters
from kafka_medic.playbook.portions import followed_by, portion
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import Plan, Restarts
from kafka_medic.resources.remediation_status import IntentState, JournalEntry

JOURNAL = 198
"""Entries that a run's journal has room for, less one for a rescue and one for giving up."""
LEAST_BATCHES = 4
"""Each way: with fewer, leaderships would not go a few at a time any more."""


def orders(plan: Plan, broker: int | None = None) -> Orders:
    """By partition that this broker (None: any) leads: its replicas now, and while that broker is restarted."""
    drains = [d for d in plan.part(Restarts).drains if broker in (None, d.broker)]
    return {TopicPartition(d.topic, p): (d.replicas_before, d.replicas) for d in drains for p in d.partitions}


def other_orders(plan: Plan, snapshot: Snapshot) -> str | None:
    """Before anything is done: the first partition whose replicas are not as the plan saw them."""
    return reorder_step.other_orders({tp: (now, now) for tp, (now, _) in orders(plan).items()}, snapshot)


def turn_of(step: str, plan: Plan, journal: Mapping[str, JournalEntry]) -> int | None:
    """The broker whose turn has begun last; None before the first."""
    restarts = plan.part(Restarts).restarts
    ids = {f"{step}/{what}-{r.broker}": r.broker for r in restarts for what in (f"order-{AWAY}", "restart")}
    ids |= {f"{step}/elect-{AWAY}-{r.broker}-0": r.broker for r in restarts}
    return next((ids[id_] for id_ in reversed(list(journal)) if id_ in ids), None)


def begun(step: str, journal: Iterable[str], broker: int) -> bool:
    """Whether leaderships of this broker have been sent away, or may have been."""
    return not {f"{step}/order-{AWAY}-{broker}", f"{step}/elect-{AWAY}-{broker}-0"}.isdisjoint(journal)


def away_from(step: str, id_: str) -> int | None:
    """The broker whose turn begins with this journal id; None for any other entry."""
    number = id_.removeprefix(f"{step}/order-{AWAY}-")
    return int(number) if number.isdigit() else None


def moved(
    way: str,
    step: str,
    plan: Plan,
    broker: int,
    journal: Mapping[str, JournalEntry],
    snapshot: Snapshot,
    now: datetime,
) -> StepReport | None:
    """What is still to do until the broker's leaderships are AWAY, or BACK; None when nothing is."""
    own = plan.part(Restarts)
    planned = orders(plan, broker)
    if not planned:
        return None
    wanted = {tp: (there, here) if way == BACK else (here, there) for tp, (here, there) in sorted(planned.items())}
    id_ = f"{step}/order-{way}-{broker}"
    report = reorder_step.reorder(id_, wanted, journal, snapshot)
    if report.state is not StepState.REACHED:
        return report
    if report.observed and journal[id_].state is IntentState.INTENDED:
        return StepReport(StepState.WAIT, report.message, observed=report.observed, streak=0)
    first = [(tp, after[0]) for tp, (_, after) in wanted.items()]
    most = most_batches(len(own.restarts), len({d.broker for d in own.drains}))
    prefix = f"{step}/elect-{way}-{broker}"
    elected = election_step.elect(prefix, first, journal, snapshot, ElectParameters(), now, most)
    return None if elected.state is StepState.REACHED else elected


def most_batches(restarts: int, drained: int) -> int:
    """Each way of each broker that is drained, so that the journal has room for all: an entry for each restart, and two
    for the orders."""
    return (JOURNAL - restarts - 2 * drained) // (2 * drained)


def guarded(plan: Plan, intent: Reorder) -> Orders:
    """What the guards are asked about: each partition's other order, and the one that is wanted of it."""
    known = orders(plan)
    return {tp: (next((o for o in known[tp] if o != to), to), to) for tp, to in intent.orders.items() if tp in known}


def owed(entries: Sequence[JournalEntry]) -> bool:
    """Whether some orders may not be as they were before a restart."""
    known = {e.id: e.state for e in entries}
    away = [id_ for id_ in known if f"/order-{AWAY}-" in id_]
    return any(known.get(id_.replace(f"/order-{AWAY}-", f"/order-{BACK}-")) is not IntentState.DONE for id_ in away)


def undo(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """The clean end of a run that is given up: every order that is still as we left it is put back, whoever is down.
    Nobody is elected: that is for Kafka's own rebalancing, or for elect-preferred-leaders with its own guards. Once it
    is REACHED its message says what is left, and is empty where nothing is."""
    broker = turn_of(step, plan, journal)
    if broker is None or not begun(step, journal, broker):
        return StepReport(StepState.REACHED, "")
    planned = orders(plan, broker)
    if snapshot.partitions is None:
        return StepReport(StepState.UNKNOWN, "the order of the replicas could not be read", restores=True)
    rows = {row.tp: row for row in snapshot.rows(set(planned))}
    unknown = [tp for tp, row in rows.items() if row.replicas is None or row.reassigning is None]
    if unknown:
        message = f"not yet restored, and not readable: the replica order of {some(unknown, 3)}"
        return StepReport(StepState.UNKNOWN, message, restores=True)
    id_ = f"{step}/order-{BACK}-{broker}"
    # Put back once: an order that is there now is somebody else's.
    over = id_ in journal and journal[id_].state is IntentState.DONE
    ours = frozenset() if over else _as_we_left_it(planned, rows)
    due = {tp: planned[tp][0] for tp in sorted(ours)}
    if due:
        asked = portion(snapshot, list(due))
        return StepReport(
            StepState.ACT,
            f"restoring the replica order of {many(len(asked), 'partition')}{followed_by(asked, due)}",
            intent=Reorder(id_, {tp: due[tp] for tp in asked}),
            target=some(list(due), 5),
            restores=True,
        )
    if _may_still_come(journal.get(f"{step}/order-{AWAY}-{broker}"), snapshot):
        message = f"the new replica order for broker {broker} may still arrive, and must then be restored"
        return StepReport(StepState.WAIT, message, restores=True)
    return StepReport(StepState.REACHED, _left(planned, rows), observed=(id_,) if id_ in journal else ())


def _as_we_left_it(planned: Orders, rows: Mapping[TopicPartition, PartitionRow]) -> frozenset[TopicPartition]:
    """Partitions whose replicas stand in the order that is for the time of the restart, and that nobody moves."""
    changed = [tp for tp, (before, after) in planned.items() if tp in rows and before != after]
    return frozenset(tp for tp in changed if rows[tp].replicas == planned[tp][1] and not rows[tp].reassigning)


def _may_still_come(sent: JournalEntry | None, snapshot: Snapshot) -> bool:
    """Whether a request of ours that was not seen carried out may be on its way."""
    if sent is None or sent.state is not IntentState.INTENDED:
        return False
    return (snapshot.taken_at - sent.last_asked).total_seconds() < ON_ITS_WAY


def _left(planned: Orders, rows: Mapping[TopicPartition, PartitionRow]) -> str:
    """What is not as it was before, in words."""
    changed = [tp for tp, (before, after) in planned.items() if tp in rows and before != after]
    theirs = sorted(tp for tp in changed if rows[tp].reassigning or rows[tp].replicas != planned[tp][0])
    text = []
    if theirs:
        text.append(f"another client changed the replicas of {some(theirs, 5)}")
    elsewhere = [tp for tp, row in sorted(rows.items()) if tp not in theirs and row.leader != planned[tp][0][0]]
    if elsewhere:
        led = f"{many(len(elsewhere), 'partition')} still led by another broker ({some(elsewhere, 5)})"
        text.append(f"{led}; elect-preferred-leaders, or Kafka's own rebalancing, returns them")
    return "; ".join(text)
