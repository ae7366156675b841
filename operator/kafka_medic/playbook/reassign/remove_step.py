"""RemoveReplicas: batch after batch, partitions lose the replicas whose place others have taken.

A replica goes once every replica that remains was in sync, as many times in a row as the step before asks. Journal ids
are `remove-N`. The next batch follows once every partition of this one is led by a replica that remains.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from kafka_medic.cluster.snapshot import Mode, PartitionRow, Snapshot, TopicPartition
from kafka_medic.guard import fit
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.removal import Removals
from kafka_medic.guard.rows import troubled_rows
from kafka_medic.playbook.effects import DropReplicas
from kafka_medic.playbook.portions import followed_by, portion
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import PartitionChange, Plan, ReplicaMoves, ReplicaRemovals
from kafka_medic.resources.remediation_status import IntentState, JournalEntry, Progress
from kafka_medic.resources.vocabulary import Guard

GOAL = "no partition has a replica left that was to go"


class Standing(Enum):
    """Of one partition. GONE: the replicas are, and it is led and in sync."""

    BEFORE = "before"
    GOING = "going"
    GONE = "gone"
    DRIFTED = "drifted"
    UNKNOWN = "unknown"


def removals(plan: Plan) -> Removals:
    """By partition: its replicas before, and those that remain."""
    return {
        TopicPartition(c.topic, c.partition): (frozenset(c.replicas_before), frozenset(c.replicas))
        for c in plan.part(ReplicaRemovals).each()
    }


def assess(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """Where the step stands. Pure; `journal` by id."""
    changes = plan.part(ReplicaRemovals).each()
    if snapshot.partitions is None:
        return StepReport(StepState.UNKNOWN, "the partitions could not be read")
    rows = {row.tp: row for row in snapshot.rows({TopicPartition(c.topic, c.partition) for c in changes})}
    where = {
        tp: (c, _since(standing(c, rows.get(tp)), journal.get(f"{step}/remove-{c.wave}")))
        for c in changes
        for tp in (TopicPartition(c.topic, c.partition),)
    }
    gone = [c for c, s in where.values() if s is Standing.GONE]
    count = Progress(done=len(gone), total=len(changes), unit="partitions")
    for state, step_state, message in (
        (Standing.DRIFTED, StepState.DRIFTED, "another client changed the replicas of"),
        (Standing.UNKNOWN, StepState.UNKNOWN, "replicas, leader or ISR could not be read of"),
    ):
        if found := sorted(tp for tp, (_, s) in where.items() if s is state):
            return StepReport(step_state, f"{message} {some(found, 3)}", progress=count)
    if len(gone) == len(changes):
        observed = tuple(id_ for id_ in journal if id_.startswith(f"{step}/remove-"))
        return StepReport(StepState.REACHED, GOAL, observed=observed, progress=count)
    batch = min(c.wave for c, s in where.values() if s is not Standing.GONE)
    observed = tuple(id_ for n in range(batch) if (id_ := f"{step}/remove-{n}") in journal)
    mine = {tp: both for tp, both in where.items() if both[0].wave == batch}
    due = sorted(tp for tp, (_, s) in mine.items() if s is Standing.BEFORE)
    name = f"batch {batch + 1} of {max(c.wave for c in changes) + 1}"
    if not due:
        waits = sorted(tp for tp, (_, s) in mine.items() if s is Standing.GOING)
        message = f"{name}: waiting until {some(waits, 3)} is led and in sync"
        return StepReport(StepState.WAIT, message, observed=observed, progress=count)
    asked = portion(snapshot, due)
    return StepReport(
        StepState.ACT,
        f"{name}: removing replicas of {many(len(asked), 'partition')}{followed_by(asked, due)}",
        intent=DropReplicas(f"{step}/remove-{batch}", {tp: tuple(mine[tp][0].replicas) for tp in asked}),
        target=some(due, 5),
        observed=observed,
        progress=count,
    )


def _since(found: Standing, sent: JournalEntry | None) -> Standing:
    """Whoever gives a replica back that was seen gone is somebody else."""
    again = found is Standing.BEFORE and sent is not None and sent.state is IntentState.DONE
    return Standing.DRIFTED if again else found


def standing(change: PartitionChange, row: PartitionRow | None) -> Standing:
    """Where the partition stands between the plan's before and after."""
    if row is None:
        return Standing.DRIFTED
    if row.replicas is None or row.isr is None or row.leader is None or row.adding is None or row.removing is None:
        return Standing.UNKNOWN
    before, remain, have = set(change.replicas_before), set(change.replicas), set(row.replicas)
    if row.adding or row.removing:
        ours = not row.adding and set(row.removing) <= before - remain and have == remain | set(row.removing)
        return Standing.GOING if ours else Standing.DRIFTED
    if have == remain:
        return Standing.GONE if row.leader in remain and remain <= set(row.isr) else Standing.GOING
    return Standing.BEFORE if have == before else Standing.DRIFTED


def what_is_left(plan: Plan, snapshot: Snapshot) -> str:
    """Of the brokers that the run was to empty; empty where it was to empty none."""
    told = []
    for broker in plan.part(ReplicaRemovals).emptied:
        rows = troubled_rows(snapshot, broker)
        if rows is None or any(row.replicas is None for row in rows):
            told.append(f"whether broker {broker} holds a replica is not known")
        elif held := sorted(row.tp for row in rows if broker in (row.replicas or ())):
            verb = "replica is" if len(held) == 1 else "replicas are"
            told.append(f"{len(held)} {verb} still on broker {broker}, which has to stay for {some(held, 5)}")
        else:
            told.append(f"broker {broker} holds {_what_nobody_sees(broker, snapshot)}")
    return "; ".join(told)


def _what_nobody_sees(broker: int, snapshot: Snapshot) -> str:
    """Of a broker that holds no replica by the metadata, which names only the topics that the operator may see."""
    found = snapshot.broker(broker)
    unknown = None if found is None else found.unknown_topics
    if unknown is None:
        return (
            "no replica of a topic that the operator sees; whether it holds others is not known, since its log "
            "directories could not be read: its Pod has to stay until then"
        )
    if unknown:
        return (
            f"no replica of a topic that the operator sees, but lists replicas of topic {some(unknown, 5)}: its Pod "
            "has to stay for them"
        )
    return f"no replica any more, {_pod_may_go(broker, snapshot)}"


def _pod_may_go(broker: int, snapshot: Snapshot) -> str:
    """Not that of a broker which is a controller as well: the quorum would have a voter less that is up."""
    if snapshot.cluster.mode is Mode.ZOOKEEPER:
        return "so its Pod may go"
    if snapshot.quorum is None:
        return "so its Pod may go, unless it is a voter of the KRaft quorum as well, which is not known"
    if any(voter.id == broker for voter in snapshot.quorum.voters):
        return "but is a voter of the KRaft quorum: its Pod has to stay as long as it is"
    return "so its Pod may go"


def give_back(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """The clean end of a run that is given up before replicas have gone: those that were added go again, where every
    replica from before is in sync and knows the cluster as it is: with a removal the leader's epoch changes, and who
    does not hear of that falls out of the ISR, or does not know that it leads. Elsewhere a partition keeps more
    replicas than it had, which is never less safe."""
    last = {TopicPartition(c.topic, c.partition): c for c in plan.part(ReplicaRemovals).each()}
    if not last or not any(e.step == step and e.kind == "Reassign" for e in journal.values()):
        return StepReport(StepState.REACHED, "")
    if snapshot.partitions is None:
        return StepReport(StepState.UNKNOWN, "the partitions could not be read", restores=True)
    first = {TopicPartition(c.topic, c.partition): c.replicas_before for c in plan.part(ReplicaMoves).changes}
    current = _current(snapshot, {b for replicas in first.values() for b in replicas})
    due: dict[TopicPartition, tuple[int, ...]] = {}
    kept = []
    for row in snapshot.rows(set(last)):
        now = standing(last[row.tp], row)
        if now is Standing.UNKNOWN:
            return StepReport(StepState.UNKNOWN, f"replicas or ISR could not be read of {row.tp}", restores=True)
        if now is not Standing.BEFORE:
            continue
        if set(first[row.tp]) <= set(row.isr or ()) & current:
            due[row.tp] = tuple(first[row.tp])
        else:
            kept.append(row.tp)
    id_ = f"{step}/give-back"
    if due:
        asked = portion(snapshot, sorted(due))
        return StepReport(
            StepState.ACT,
            f"removing the added replicas of {many(len(asked), 'partition')}{followed_by(asked, due)}",
            intent=DropReplicas(id_, {tp: due[tp] for tp in asked}),
            target=some(sorted(due), 5),
            restores=True,
        )
    told = (
        f"{some(sorted(kept), 5)} keeps its added replicas, since not all from before are in sync and up to date"
        if kept
        else ""
    )
    return StepReport(StepState.REACHED, told, observed=(id_,) if id_ in journal else ())


def _current(snapshot: Snapshot, brokers: set[int]) -> set[int]:
    """Those whose own view of the cluster is as it is."""
    asked = Guard.REPLACEMENTS_IN_SYNC
    return {b for b in brokers if not any(fit.own_view(snapshot, b, asked, "so it would fall out of the ISR"))}
