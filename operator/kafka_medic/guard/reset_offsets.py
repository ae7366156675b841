"""May a group's committed offsets be set now?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.elements import group_unread
from kafka_medic.cluster.groups import EMPTY, GroupMember
from kafka_medic.cluster.names import printable
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.guard.evaluate import NamedGuard, evaluate, some
from kafka_medic.guard.freshness import MAX_AGE, SOURCES_FRESH, sources_fresh
from kafka_medic.guard.verdict import Judgement, Reason, Verdict
from kafka_medic.resources.vocabulary import Guard

NEEDED = ("kafka", "groups", "log-ends")
GROUP_EMPTY = Guard.GROUP_EMPTY
PARTITIONS_LED = Guard.PARTITIONS_LED
TARGET_WITHIN_LOG = Guard.TARGET_WITHIN_LOG
PREVIOUS_OFFSETS_KNOWN = Guard.PREVIOUS_OFFSETS_KNOWN
OFFSET_GUARDS = (GROUP_EMPTY, PARTITIONS_LED, PREVIOUS_OFFSETS_KNOWN)
"""What whoever sets offsets asks. TARGET_WITHIN_LOG besides, but where offsets are put back that were outside it."""
MAX_MEMBERS = 10


def offsets_beyond_log_end(snapshot: Snapshot, group: str) -> dict[TopicPartition, int]:
    """The reset that cures OffsetBeyondLogEnd: each such partition of the group to its log end."""
    committed = _committed(snapshot, group)
    rows = snapshot.rows(set(committed))
    ends = {r.tp: r.log_end for r in rows}
    return {
        tp: end
        for tp, offset in sorted(committed.items())
        if offset is not None and (end := ends.get(tp)) is not None and offset > end
    }


def judge_reset_offsets(
    snapshot: Snapshot,
    group: str,
    targets: Mapping[TopicPartition, int],
    now: datetime,
    *,
    max_age: float = MAX_AGE,
    members: Sequence[GroupMember] | None = None,
    within_log: bool = True,
) -> Judgement:
    """All guards on committing `targets` (the next record to read, for each partition) for `group`. The
    broker refuses offsets for a group with members as well; this says so before, and with the reason. `members`: who is
    in it, as far as that was asked. `within_log` False: offsets are put back as they were, wherever that was."""
    guards: list[NamedGuard] = [
        (SOURCES_FRESH, lambda: sources_fresh(snapshot, now, NEEDED, max_age=max_age)),
        (GROUP_EMPTY, lambda: _group_empty(snapshot, group, members)),
        (PARTITIONS_LED, lambda: _partitions_led(snapshot, targets)),
        (PREVIOUS_OFFSETS_KNOWN, lambda: _previous_known(snapshot, group, targets)),
    ]
    if within_log:
        guards.append((TARGET_WITHIN_LOG, lambda: _target_within_log(snapshot, targets)))
    return evaluate(guards)


def held_by(group: str, state: str | None, members: Sequence[GroupMember] | None) -> str:
    """Why a group that is not Empty is left alone, and the way out."""
    if members is None:
        who = "all of them"
    elif not members:
        who = "all of them; the group had no member at the last read, so it may be empty now"
    else:
        text = sorted({printable(str(m)) for m in members})
        who = f"{some(text, MAX_MEMBERS)} (for example, scale their Deployment or StatefulSet to 0)"
    return f"group {printable(group)} is {state or 'in an unknown state'}: stop its consumers first, {who}"


def _of_group(snapshot: Snapshot, group: str) -> list[dict[str, Any]]:
    if snapshot.groups is None:
        return []
    return snapshot.groups.filter(pc.equal(snapshot.groups["group"], pa.scalar(group))).to_pylist()


def _committed(snapshot: Snapshot, group: str) -> dict[TopicPartition, int | None]:
    return {TopicPartition(r["topic"], r["partition"]): r["committed"] for r in _of_group(snapshot, group)}


def _group_empty(snapshot: Snapshot, group: str, members: Sequence[GroupMember] | None) -> Reason:
    if snapshot.groups is None:
        return Reason(GROUP_EMPTY, Verdict.UNKNOWN, "the consumer groups are not known")
    rows = _of_group(snapshot, group)
    if why := group_unread(snapshot, group):
        return Reason(GROUP_EMPTY, Verdict.UNKNOWN, f"group {printable(group)} is not known: {why}")
    if not rows:
        return Reason(GROUP_EMPTY, Verdict.DENY, f"group {group} does not exist or has no committed offsets")
    states = {r["state"] for r in rows}
    if states == {EMPTY}:
        return Reason(GROUP_EMPTY, Verdict.ALLOW, f"group {group} has no members")
    if None in states or len(states) != 1:
        return Reason(GROUP_EMPTY, Verdict.UNKNOWN, f"the state of group {group} is not known")
    return Reason(GROUP_EMPTY, Verdict.DENY, held_by(group, states.pop(), members))


def _partitions_led(snapshot: Snapshot, targets: Mapping[TopicPartition, int]) -> tuple[Reason, ...]:
    if snapshot.partitions is None:
        return (Reason(PARTITIONS_LED, Verdict.UNKNOWN, "the partitions are not known"),)
    leaders = {r.tp: r.leader for r in snapshot.rows(set(targets))}
    reasons = []
    if missing := sorted(set(targets) - set(leaders)):
        reasons.append(Reason(PARTITIONS_LED, Verdict.DENY, f"partition {some(missing)} does not exist"))
    if unknown := sorted(tp for tp, leader in leaders.items() if leader is None):
        reasons.append(Reason(PARTITIONS_LED, Verdict.UNKNOWN, f"the leader is not known: {some(unknown)}"))
    if leaderless := sorted(tp for tp, leader in leaders.items() if leader is not None and leader < 0):
        message = f"{some(leaderless)} has no leader, so its log end is not known"
        reasons.append(Reason(PARTITIONS_LED, Verdict.WAIT, message))
    return tuple(reasons) or (Reason(PARTITIONS_LED, Verdict.ALLOW, "every partition has a leader"),)


def _target_within_log(snapshot: Snapshot, targets: Mapping[TopicPartition, int]) -> tuple[Reason, ...]:
    if snapshot.partitions is None:
        return (Reason(TARGET_WITHIN_LOG, Verdict.UNKNOWN, "the log bounds are not known"),)
    outside, unknown = [], []
    for row in snapshot.rows(set(targets)):
        if row.log_start is None or row.log_end is None:
            unknown.append(row.tp)
        elif not row.log_start <= targets[row.tp] <= row.log_end:
            outside.append(f"{row.tp} to {targets[row.tp]}, log is {row.log_start} to {row.log_end}")
    reasons = []
    if outside:
        reasons.append(Reason(TARGET_WITHIN_LOG, Verdict.DENY, f"outside the log: {some(outside)}"))
    if unknown:
        reasons.append(Reason(TARGET_WITHIN_LOG, Verdict.UNKNOWN, f"log bounds not known: {some(unknown)}"))
    text = "every target is within its log" if targets else "the plan resets no offset"
    return tuple(reasons) or (Reason(TARGET_WITHIN_LOG, Verdict.ALLOW, text),)


def _previous_known(snapshot: Snapshot, group: str, targets: Mapping[TopicPartition, int]) -> Reason:
    """The offsets before are what undo goes back to, and what compare-and-set compares."""
    if snapshot.groups is None:
        return Reason(PREVIOUS_OFFSETS_KNOWN, Verdict.UNKNOWN, "the committed offsets are not known")
    committed = _committed(snapshot, group)
    # A partition that the group has no row for has no committed offset, and that is known; a null is not.
    if unknown := sorted(tp for tp in targets if tp in committed and committed[tp] is None):
        message = f"the committed offset is not known, so undo could not restore it: {some(unknown)}"
        return Reason(PREVIOUS_OFFSETS_KNOWN, Verdict.UNKNOWN, message)
    return Reason(PREVIOUS_OFFSETS_KNOWN, Verdict.ALLOW, "the offsets to restore are known")
