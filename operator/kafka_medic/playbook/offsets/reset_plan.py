"""The plan of a playbook that sets committed offsets: of which groups, from where to where, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.elements import groups_unread
from kafka_medic.cluster.groups import EMPTY, Committed
from kafka_medic.cluster.names import printable, shown
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.cluster.workloads import Workload
from kafka_medic.diagnose.columns import numbers, partitions_of, strings
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.reset_offsets import GROUP_EMPTY, TARGET_WITHIN_LOG, held_by
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.extra_reads import ExtraReads
from kafka_medic.playbook.offsets.consumers_step import name_of
from kafka_medic.playbook.offsets.costs import SECONDS_A_GROUP, lines, notes
from kafka_medic.playbook.offsets.parameters import ResetParameters, reset_parameters, stopped_workload
from kafka_medic.playbook.offsets.targets import Aim, How, Spot, read_aim, target
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.report.units import many
from kafka_medic.resources.kafkacluster_status import KafkaClusterStatus
from kafka_medic.resources.name_patterns import NameFilter, refused
from kafka_medic.resources.playbook import Step
from kafka_medic.resources.remediation_plan import (
    MAX_ALL_METADATA,
    MAX_INLINE_CHANGES,
    MAX_METADATA,
    OffsetChange,
    OffsetChanges,
    Plan,
    StoppedConsumers,
    StoppedWorkload,
)
from kafka_medic.resources.vocabulary import ActionName, Guard

MAX_GROUPS_SET = 150
"""Of one run: its journal holds 200 entries, one for each group."""
MAX_PATTERN = 1024
"""Characters of a pattern."""
MAX_HELD = 10
"""Groups with members that a plan names, and asks the members of."""
MAX_EPOCHS = 5_000
"""Leader epochs of which one look asks where they end."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The committed offsets that a request is about. `unread`: partitions whose log is not known; `unfit`: groups whose
    name a plan cannot hold; `untold`: what was not read of groups that the request may be about, and why."""

    spots: tuple[Spot, ...]
    unread: tuple[TopicPartition, ...]
    unfit: tuple[str, ...]
    untold: tuple[str, ...] = ()


def reset_plan(request: PlanRequest, step: Step) -> Plan | Refusal:
    """The whole plan, its digest included, or why not. Groups that have members are not planned: what they commit would
    make the plan void at once. They are named, and left for when they are stopped."""
    snapshot, answers = request.snapshot, request.reads
    if snapshot.groups is None or snapshot.partitions is None:
        return unread(snapshot)
    settings = reset_parameters(request.playbook, step, request.run.spec.parameters)
    asked = aim_of(settings)
    if isinstance(asked, Refusal):
        return asked
    stopped = to_stop(request, settings)
    if isinstance(stopped, Refusal):
        return stopped
    if asked.since(request.now) is not None and answers.at is None:
        return Refusal("which offsets belong to that time could not be read")
    found = chosen(snapshot, settings, asked, request.cluster.status)
    wanted = changes(found.spots, asked, answers)
    live = {} if stopped is not None else held(found.spots, wanted)
    due = [c for c in wanted if c.group not in live]
    missed = not_told(found.spots, asked, answers)
    if not due:
        return _none(found, live, answers, missed)
    planned, left = bounded(due)
    words = [
        f"set {many(len(planned), 'committed offset')} of {many(len({c.group for c in planned}), 'group')}: "
        f"{settings.to}"
    ]
    if stopped is not None:
        words.append(
            f"{name_of(stopped)} stops before and runs {many(stopped.replicas, 'replica')} again afterwards, "
            "however the run ends"
        )
    words += [*notes(planned, snapshot), *_left(left, found), *missed, *_live(live, answers)]
    words += lines(planned, answers.paces)
    return finished(request, planned, words, stopped)


def to_stop(request: PlanRequest, settings: ResetParameters) -> StoppedWorkload | Refusal | None:
    """What is to be stopped meanwhile; None for a playbook that stops nothing. Only for groups that are named: who asks
    for it has to say whose consumers these are."""
    step = request.step(ActionName.STOP_CONSUMERS)
    if step is None:
        return None
    try:
        kind, name = stopped_workload(request.playbook, step, request.run.spec.parameters)
    except ValueError as problem:
        return Refusal(str(problem), permanent=True)
    if settings.groups is None:
        return Refusal("groups: name the groups whose consumers are to be stopped", permanent=True)
    guard, now = Guard.PRECONDITIONS_HOLD, request.reads.workload
    if not isinstance(now, Workload):
        message = f"{kind.value} {name} could not be read: {now or 'it was not read'}"
        return Refusal(message, (Reason(guard, Verdict.UNKNOWN, message),))
    if now.uid is None:
        message = f"{kind.value} {name} does not exist in {request.run.namespace}"
        return Refusal(message, (Reason(guard, Verdict.DENY, message),))
    if now.replicas == 0:
        message = f"{kind.value} {name} is already stopped; use reset-consumer-offsets"
        return Refusal(message, permanent=True)
    return StoppedWorkload(kind=kind, name=name, uid=now.uid, replicas=now.replicas)


def aim_of(settings: ResetParameters) -> Aim | Refusal:
    """What was asked for, if it can be understood. Only what heals may be asked for all groups at once."""
    try:
        aim = read_aim(settings.to)
        for name, pattern in (
            ("groups", settings.groups),
            ("excludeGroups", settings.exclude_groups),
            ("topics", settings.topics),
        ):
            _pattern(name, pattern)
    except ValueError as problem:
        return Refusal(str(problem), permanent=True)
    if aim.how is not How.LAST_KNOWN_GOOD and settings.groups is None:
        message = f"groups: {aim.how} also moves valid offsets; name the groups"
        return Refusal(message, permanent=True)
    return aim


def _pattern(name: str, text: str | None) -> tuple[str, ...]:
    """Raises ValueError for what is no regular expression, or a very long one."""
    if text is None:
        return ()
    if len(text) > MAX_PATTERN:
        raise ValueError(f"{name} is a pattern of {len(text)} characters (limit {MAX_PATTERN})")
    if (why := refused(text)) is not None:
        raise ValueError(f"{name} is not a regular expression (RE2): {why}; write one such as orders-.*")
    return (text,)


def selects(settings: ResetParameters) -> NameFilter:
    """Whether a group of that name is asked for. Raises ValueError for what is no regular expression."""
    return NameFilter(_pattern("groups", settings.groups), _pattern("excludeGroups", settings.exclude_groups or None))


def selects_topic(settings: ResetParameters) -> NameFilter:
    """The same of a topic."""
    return NameFilter(_pattern("topics", settings.topics))


def chosen(snapshot: Snapshot, settings: ResetParameters, aim: Aim, status: KafkaClusterStatus) -> Chosen:
    """The committed offsets of the groups and topics that were asked for; of what heals, those that may need it. Found
    on columns. status: what is remembered of logs that became shorter and of topics that were made anew."""
    p, table = partitions_of(snapshot), snapshot.groups
    assert p is not None  # both were seen to
    assert table is not None
    untold = groups_unread(snapshot, selects(settings))
    if not len(p):
        return Chosen((), (), (), untold)
    names = selects(settings).of(strings(pc.unique(table["group"])))
    titles = selects_topic(settings).of(strings(pc.unique(table["topic"])))
    mask = np.asarray(_among(table["group"], names)) & np.asarray(_among(table["topic"], titles))
    row_of = p.rows_of(table["topic"], numbers(table["partition"]).values)
    ended = {TopicPartition(r.topic, r.partition): r for r in status.log_end_regressions}
    anew = {t.topic: t.at for t in status.recreated_topics}
    if aim.how is How.LAST_KNOWN_GOOD:
        beyond = p.log_end.known[row_of] & (numbers(table["committed"]).values > p.log_end.values[row_of])
        doubtful = beyond | np.asarray(_among(table["topic"], [tp.topic for tp in ended]))
        if settings.groups is not None:  # of groups that are named, what was lost while nobody watched is found as well
            epoch = numbers(table["leaderEpoch"])
            doubtful |= epoch.known & p.leader_epoch.known[row_of] & (epoch.values < p.leader_epoch.values[row_of])
        mask &= (row_of >= 0) & doubtful
    at = np.flatnonzero(mask)
    spots, missing, unfit = [], set(), set()
    for row, r in zip(row_of[at].tolist(), table.take(at).to_pylist(), strict=True):
        group, tp = r["group"], TopicPartition(r["topic"], r["partition"])
        if len(group) > 256 or not group or printable(group) != group or len(r["metadata"] or "") > MAX_METADATA:
            unfit.add(group)
        elif row < 0 or r["committed"] is None or not (p.log_start.known[row] and p.log_end.known[row]):
            missing.add(tp)
        else:
            committed = Committed(r["committed"], r["leaderEpoch"], r["metadata"] or "")
            at_epoch = int(p.leader_epoch.values[row]) if p.leader_epoch.known[row] else None
            topic_id: Any = snapshot.partitions["topicId"][row].as_py()  # type: ignore[index]
            bounds = int(p.log_start.values[row]), int(p.log_end.values[row])
            led = int(p.leader.values[row]) if p.leader.known[row] else None
            log = Spot(group, r["state"], tp, committed, *bounds, at_epoch, topic_id, ended.get(tp), led)
            spots.append(replace(log, recreated=anew.get(tp.topic)))
    spots = sorted(spots, key=lambda s: (s.group, s.tp))
    return Chosen(tuple(spots), tuple(sorted(missing)), tuple(sorted(unfit)), untold)


def _among(column: Any, names: Sequence[str]) -> Any:
    return pc.is_in(column, value_set=pa.array(names, pa.string())).to_numpy()


def changes(spots: Sequence[Spot], aim: Aim, answers: ExtraReads) -> list[OffsetChange]:
    """Those that would not stay as they are."""
    found, at = [], answers.at or {}
    for spot in (s for s in spots if s.tp not in _untimed(spots, aim, answers)):
        epoch = spot.committed.leader_epoch
        ended = None if epoch is None else answers.epoch_ends.get((spot.tp, epoch))
        goal = target(aim, replace(spot, epoch_end=ended), at.get(spot.tp))
        if goal is not None:
            found.append(
                OffsetChange(
                    group=spot.group,
                    topic=spot.tp.topic,
                    partition=spot.tp.partition,
                    topic_id=spot.topic_id,
                    before=spot.committed.offset,
                    before_epoch=spot.committed.leader_epoch,
                    before_metadata=spot.committed.metadata,
                    after=goal.offset,
                    log_start=spot.log_start,
                    log_end=spot.log_end,
                    skipped=goal.skipped,
                    read_again=goal.read_again,
                    reason=goal.reason,
                )
            )
    return found


def _untimed(spots: Sequence[Spot], aim: Aim, answers: ExtraReads) -> frozenset[TopicPartition]:
    """Where it is not known which offset belongs to the time that decides."""
    timed = aim.how in (How.DATETIME, How.DURATION) and answers.at is not None
    return frozenset(s.tp for s in spots if s.tp not in answers.at) if timed and answers.at is not None else frozenset()


def epoch_questions(spots: Sequence[Spot]) -> list[tuple[int, TopicPartition, int]]:
    """Leader, partition and leader epoch whose end tells whether records were lost under a commit. Those of offsets
    that no log has first."""
    by_need = sorted(spots, key=lambda s: not s.beyond)
    asked = ((s.leader, s.tp, e) for s in by_need if s.leader is not None and (e := s.asked_epoch) is not None)
    return list(dict.fromkeys(asked))


def not_told(spots: Sequence[Spot], aim: Aim, answers: ExtraReads) -> list[str]:
    """Why a loss that new writes have hidden may have stayed unseen."""
    words: list[str] = []
    if aim.how is How.LAST_KNOWN_GOOD and (count := len(epoch_questions(spots))) > MAX_EPOCHS:
        words.append(f"only {MAX_EPOCHS} of {many(count, 'leader epoch')} could be read at once; name fewer groups")
    if untimed := _untimed(spots, aim, answers):
        words.append(f"which offset belongs to that time could not be read: {some(sorted(untimed), 5)}")
    if answers.silent:
        where = some(sorted(answers.silent), 5)
        words.append(
            f"whether records below commits were lost is not known, because the leader does not answer: {where}"
        )
    return words


def held(spots: Sequence[Spot], wanted: Sequence[OffsetChange]) -> dict[str, str | None]:
    """The groups that have members, or of which that is not known, with their state."""
    concerned = {c.group for c in wanted}
    return {s.group: s.state for s in spots if s.group in concerned and s.state != EMPTY}


def bounded(due: Sequence[OffsetChange]) -> tuple[tuple[OffsetChange, ...], int]:
    """As many as one plan holds, and how many are left for a further run."""
    planned: list[OffsetChange] = []
    groups: set[str] = set()
    room = MAX_ALL_METADATA
    for change in due:
        groups.add(change.group)
        room -= len(change.before_metadata) + len(change.after_metadata)
        if len(planned) == MAX_INLINE_CHANGES or len(groups) > MAX_GROUPS_SET or room < 0:
            break
        planned.append(change)
    return tuple(planned), len(due) - len(planned)


def _none(found: Chosen, live: Mapping[str, str | None], answers: ExtraReads, missed: Sequence[str]) -> Refusal:
    if live:
        words = _live(live, answers)
        return Refusal("; ".join(words), tuple(Reason(GROUP_EMPTY, Verdict.WAIT, w) for w in words))
    if found.unread or found.unfit or found.untold or missed:
        message = "; ".join([*_left(0, found), *missed])
        return Refusal(message, (Reason(TARGET_WITHIN_LOG, Verdict.UNKNOWN, message),))
    return Refusal("every matching committed offset is already at its target", nothing_to_do=True)


def finished(
    request: PlanRequest,
    planned: tuple[OffsetChange, ...],
    words: Sequence[str],
    stopped: StoppedWorkload | None = None,
) -> Plan:
    """The plan with its digest."""
    groups = len({c.group for c in planned})
    setting = (
        f"commit {many(len(planned), 'offset')} for {many(groups, 'group')} without members, one group after the other"
    )
    sentences = {
        ActionName.STOP_CONSUMERS: f"scale {name_of(stopped)} to 0 and wait until its members have left"
        if stopped
        else "",
        ActionName.RESET_OFFSETS: setting,
        ActionName.RESTORE_OFFSETS: setting,
        ActionName.START_CONSUMERS: f"scale it back to {stopped.replicas}" if stopped else "",
    }
    plan = request.draft(
        OffsetChanges(offsets=planned),
        StoppedConsumers(workload=stopped),
        words=sentences,
        summary="\n".join(words)[:16_000],
        partitions=len({(c.topic, c.partition) for c in planned}),
        moves=0,
        estimated_seconds=groups * SECONDS_A_GROUP,
    )
    return request.sealed(plan)


def _left(left: int, found: Chosen) -> Iterator[str]:
    if left:
        yield f"{many(left, 'more offset')} left for a further run"
    if found.unread:
        yield (
            f"not planned, because log start and log end are not known: {some(found.unread, 5)}; an offset does no "
            "harm there without a leader"
        )
    if found.untold:
        yield f"not planned, because it could not be read: {some([printable(told) for told in found.untold], 3)}"
    if found.unfit:
        names = some([shown(g) for g in found.unfit], 5)
        yield f"not planned, because a plan cannot hold the name or the metadata: {names}"


def _live(live: Mapping[str, str | None], answers: ExtraReads) -> list[str]:
    told = [held_by(group, state, answers.members.get(group)) for group, state in list(live.items())[:MAX_HELD]]
    return [*told, *([f"and {many(len(live) - MAX_HELD, 'more group')} with members"] if len(live) > MAX_HELD else [])]
