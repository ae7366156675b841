"""ResetOffsets and RestoreOffsets: the committed offsets of one group after the other, each group in one request.

For each offset of the plan a snapshot can say:

1. it is what the plan saw: it is to be set.
2. it is what the plan wants: it is done. Once all of a group have been seen so, the group may go on from there.
3. it is something else: somebody has committed since, and what the plan says of it is not true any more. Nothing more
   is sent, whatever of the plan is done stays done, and what was there before stays in the plan.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.elements import group_unread
from kafka_medic.cluster.groups import EMPTY, Committed
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.playbook.effects import SetOffsets
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import OffsetChange, OffsetChanges, Plan
from kafka_medic.resources.remediation_status import IntentState, JournalEntry, Progress
from kafka_medic.resources.vocabulary import ActionName


def partition_of(change: OffsetChange) -> TopicPartition:
    return TopicPartition(change.topic, change.partition)


def saved(change: OffsetChange) -> Committed:
    """What was committed before."""
    return Committed(change.before, change.before_epoch, change.before_metadata)


def wanted(change: OffsetChange) -> Committed:
    return Committed(change.after, change.after_epoch, change.after_metadata)


def keeps_within_log(plan: Plan) -> bool:
    """Whether a target has to be in the log: not where offsets are put back."""
    return not any(s.action is ActionName.RESTORE_OFFSETS for s in plan.steps)


def set_by(run: Remediation) -> tuple[OffsetChange, ...]:
    """What a run has set, or may have, for the run that puts it back: of the groups in its journal."""
    plan = run.status.plan
    offsets = plan.part(OffsetChanges).offsets if plan is not None else ()
    if plan is None or not offsets:
        return ()
    begun = {e.id for e in run.status.journal if e.kind == SetOffsets.__name__}
    groups = {group for step in plan.steps for id_, group in _entries(step.name, plan).items() if id_ in begun}
    return tuple(c for c in offsets if c.group in groups)


def _entries(step: str, plan: Plan) -> dict[str, str]:
    """Journal id -> group. A group's name may hold what an id may not, so it is known by its place."""
    offsets = plan.part(OffsetChanges).offsets
    return {f"{step}/group-{n}": group for n, group in enumerate(dict.fromkeys(c.group for c in offsets))}


def committed_now(snapshot: Snapshot, groups: Collection[str]) -> dict[tuple[str, TopicPartition], Committed | None]:
    """By group and partition; None where it is not known. Nothing for what has no committed offset."""
    return {
        (r["group"], TopicPartition(r["topic"], r["partition"])): None
        if r["committed"] is None
        else Committed(r["committed"], r["leaderEpoch"], r["metadata"] or "")
        for r in _rows(snapshot, groups)
    }


def planned_now(plan: Plan, snapshot: Snapshot) -> dict[tuple[str, TopicPartition], Committed | None]:
    """`committed_now` of the plan's groups; None for what it plans of a group that was not read."""
    offsets = plan.part(OffsetChanges).offsets
    groups = {c.group for c in offsets}
    untold = {group for group in groups if group_unread(snapshot, group)}
    missing = {(c.group, partition_of(c)): None for c in offsets if c.group in untold}
    return missing | committed_now(snapshot, groups)


def states(snapshot: Snapshot, groups: Collection[str]) -> dict[str, str | None]:
    """By group, of those that have committed offsets."""
    return {r["group"]: r["state"] for r in _rows(snapshot, groups)}


def _rows(snapshot: Snapshot, groups: Collection[str]) -> list[dict[str, Any]]:
    table = snapshot.groups
    if table is None:
        return []
    return table.filter(pc.is_in(table["group"], value_set=pa.array(sorted(groups), pa.string()))).to_pylist()


def void(plan: Plan, snapshot: Snapshot, over: Collection[str] = ()) -> str | None:
    """The first offset of which the plan is not true any more. `over`: groups that are done, and may have gone on."""
    left = [c for c in plan.part(OffsetChanges).offsets if c.group not in over]
    if not left or snapshot.groups is None or snapshot.partitions is None:
        return None
    present = planned_now(plan, snapshot)
    ids = _topic_ids(snapshot, {c.topic for c in left})
    rows = {row.tp: row for row in snapshot.rows({partition_of(c) for c in left})}
    for c in left:
        tp = partition_of(c)
        now = present.get((c.group, tp), Committed(-1))
        if now is None or now == wanted(c):
            continue
        if now != saved(c):
            text = "nothing" if now.offset < 0 else f"{now.offset} (leader epoch {now.leader_epoch})"
            return f"group {c.group} has committed {text} on {tp}; the plan has {c.before} ({c.before_epoch})"
        if tp not in rows:
            return f"{tp} no longer exists"
        if c.topic_id is not None and ids.get(c.topic) not in (None, c.topic_id):
            return f"topic {c.topic} was deleted and recreated"
        start, end = rows[tp].log_start, rows[tp].log_end
        if keeps_within_log(plan) and start is not None and end is not None and not start <= c.after <= end:
            return f"{tp}: offset {c.after} is outside the log ({start} to {end})"
    return None


def _topic_ids(snapshot: Snapshot, topics: Collection[str]) -> dict[str, str | None]:
    table = snapshot.partitions
    assert table is not None  # void saw to it
    mine = table.filter(pc.is_in(table["topic"], value_set=pa.array(sorted(topics), pa.string())))
    return {r["topic"]: r["topicId"] for r in mine.select(["topic", "topicId"]).to_pylist()}


def done_groups(step: str, plan: Plan, journal: Mapping[str, JournalEntry]) -> frozenset[str]:
    """Groups all of whose offsets have been seen as wanted."""
    entries = _entries(step, plan)
    return frozenset(g for i, g in entries.items() if i in journal and journal[i].state is IntentState.DONE)


def next_group(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> str | None:
    """The first with something left to do, one without members before one that has some; None: nothing is left."""
    offsets = plan.part(OffsetChanges).offsets
    over, present = done_groups(step, plan, journal), planned_now(plan, snapshot)
    left = [c.group for c in offsets if c.group not in over and present.get((c.group, partition_of(c))) != wanted(c)]
    standing = states(snapshot, set(left))
    return next((g for g in left if standing.get(g) == EMPTY), left[0] if left else None)


def assess(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """Where the step stands."""
    offsets = plan.part(OffsetChanges).offsets
    if snapshot.groups is None or snapshot.partitions is None:
        return StepReport(StepState.UNKNOWN, "the consumer groups could not be read")
    over = done_groups(step, plan, journal)
    present = planned_now(plan, snapshot)
    left = [c for c in offsets if c.group not in over and present.get((c.group, partition_of(c))) != wanted(c)]
    progress = Progress(done=len(offsets) - len(left), total=len(offsets), unit="offsets")
    open_ = over | {c.group for c in left}
    observed = tuple(i for i, g in _entries(step, plan).items() if g not in open_ and i in journal)
    if drift := void(plan, snapshot, over):
        return StepReport(StepState.DRIFTED, drift, observed=observed, progress=progress)
    group = next_group(step, plan, journal, snapshot)
    if group is None:
        words = many(len(offsets), "offset committed as planned", "offsets committed as planned")
        return StepReport(StepState.REACHED, words, observed=observed, progress=progress)
    mine = [c for c in left if c.group == group]
    unknown = [c for c in mine if (group, partition_of(c)) in present and present[group, partition_of(c)] is None]
    if unknown:
        why = group_unread(snapshot, group)
        message = f"what group {group} has committed on {partition_of(unknown[0])} could not be read"
        message = f"{message}: {why}" if why else message
        return StepReport(StepState.UNKNOWN, message, observed=observed, progress=progress)
    due = {partition_of(c): (saved(c), wanted(c)) for c in mine}
    id_ = next(i for i, g in _entries(step, plan).items() if g == group)
    return StepReport(
        StepState.ACT,
        f"setting {many(len(due), 'committed offset')} of group {group}",
        intent=SetOffsets(id_, group, due),
        target=f"{group} on {many(len(mine), 'partition')}",
        observed=observed,
        progress=progress,
    )
