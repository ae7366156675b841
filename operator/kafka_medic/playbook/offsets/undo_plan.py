"""The plan that puts committed offsets back as they were before an earlier run set them."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_medic.cluster.elements import group_unread
from kafka_medic.cluster.groups import EMPTY
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.reset_offsets import GROUP_EMPTY, held_by
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.offsets.costs import lines, warnings
from kafka_medic.playbook.offsets.offset_step import committed_now, partition_of, saved, states
from kafka_medic.playbook.offsets.parameters import restored_run
from kafka_medic.playbook.offsets.reset_plan import MAX_HELD, bounded, finished
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.report.units import many
from kafka_medic.resources.playbook import Step
from kafka_medic.resources.remediation_plan import OffsetChange, Plan
from kafka_medic.resources.vocabulary import Guard


def undo_plan(request: PlanRequest, step: Step) -> Plan | Refusal:
    """The whole plan, its digest included, or why not. What an offset was is in the plan of the run that set it,
    metadata and leader epoch included; it goes back there also where the log does not have it."""
    snapshot, answers = request.snapshot, request.reads
    if snapshot.groups is None or snapshot.partitions is None:
        return unread(snapshot)
    name = restored_run(request.playbook, step, request.run.spec.parameters)
    earlier = _earlier(request, name)
    if isinstance(earlier, Refusal):
        return earlier
    if untold := untold_groups(snapshot, earlier.offsets):
        message = f"what these groups have committed could not be read: {some(untold, 3)}"
        return Refusal(message, (Reason(Guard.SOURCES_FRESH, Verdict.UNKNOWN, message),))
    wanted, gone = changes(snapshot, earlier.offsets)
    standing = states(snapshot, {c.group for c in wanted})
    live = {g: s for g, s in standing.items() if s != EMPTY}
    due = [c for c in wanted if c.group not in live]
    text = [held_by(g, s, answers.members.get(g)) for g, s in list(live.items())[:MAX_HELD]]
    if not due and text:
        return Refusal("; ".join(text), tuple(Reason(GROUP_EMPTY, Verdict.WAIT, t) for t in text))
    if not due:
        return Refusal(f"every offset that {name} set is already restored or no longer exists", nothing_to_do=True)
    planned, left = bounded(due)
    groups = len({c.group for c in planned})
    words = [
        f"put {many(len(planned), 'committed offset')} of {many(groups, 'group')} back to their values before {name}"
    ]
    outside = [partition_of(c) for c in planned if c.log_end is not None and c.after > c.log_end]
    if outside:
        words.append(f"restored to offsets outside the log, as before: {some(outside, 5)}")
    if gone:
        words.append(f"not planned, because the partition or its committed offset no longer exists: {some(gone, 5)}")
    if left:
        words.append(f"{many(left, 'more offset')} left for a further run")
    words += [*warnings(planned, snapshot), *text, *lines(planned, answers.paces)]
    return finished(request, planned, words)


def _earlier(request: PlanRequest, name: str) -> OtherRun | Refusal:
    """The run whose offsets are to be put back."""
    if not name:
        return Refusal("parameters.remediation: name the Remediation whose offsets to restore", permanent=True)
    if request.others is None:
        message = "what the other Remediations of this cluster have set could not be read"
        return Refusal(message, (Reason(Guard.PRECONDITIONS_HOLD, Verdict.UNKNOWN, message),))
    earlier = next((o for o in request.others if o.name == name), None)
    if earlier is None or not earlier.offsets:
        message = f"parameters.remediation: {name} is not a Remediation of this KafkaCluster that set offsets"
        return Refusal(message, permanent=True)
    return earlier


def untold_groups(snapshot: Snapshot, before: Sequence[OffsetChange]) -> list[str]:
    """Of these groups those that were not read, and why."""
    groups = sorted({c.group for c in before})
    return [f"{group}: {why}" for group in groups if (why := group_unread(snapshot, group))]


def changes(snapshot: Snapshot, before: Sequence[OffsetChange]) -> tuple[list[OffsetChange], list[str]]:
    """From what is committed now to what was, and what cannot be put back."""
    present = committed_now(snapshot, {c.group for c in before})
    rows = {row.tp: row for row in snapshot.rows({partition_of(c) for c in before})}
    found, gone = [], []
    for c in before:
        tp, was = partition_of(c), saved(c)
        row, now = rows.get(tp), present.get((c.group, tp))
        if row is None or now is None:
            gone.append(f"{c.group} on {tp}")
        elif now != was:
            start, end = row.log_start, row.log_end
            readable = start is not None and end is not None
            low, high = (start or 0, end or 0) if readable else (0, 0)
            found.append(
                c.model_copy(
                    update={
                        "before": now.offset,
                        "before_epoch": now.leader_epoch,
                        "before_metadata": now.metadata,
                        "after": was.offset,
                        "after_epoch": was.leader_epoch,
                        "after_metadata": was.metadata,
                        "log_start": start,
                        "log_end": end,
                        "skipped": max(0, min(was.offset, high) - max(now.offset, low)),
                        "read_again": max(0, min(now.offset, high) - max(was.offset, low)),
                        "reason": "offset before the reset"
                        + ("" if now.offset == c.after else f"; the group has moved since it was set to {c.after}"),
                    }
                )
            )
    return found, gone
