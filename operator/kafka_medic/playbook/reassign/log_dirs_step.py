"""AlterReplicaLogDirs: throttle, then batch after batch between the log directories of brokers, then the throttle back.

The order of what a journal and the brokers' log directories can say:

1. `throttle`: the rate of such copies on each broker of the plan. What was there before is in the journal first.
2. `batch-N`: one request to each broker of the batch. The next batch only once each replica of this one is current in
   the directory that it was to move to, and no future replica is left. A replica that no request reached is asked for
   again. A broker that restarts continues the copy (KIP-113).
3. `restore-throttle`: each setting back to what the journal holds.

A run that ends early asks for the directory in which a replica still is: Kafka then deletes the copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from kafka_medic.cluster.log_dirs import ReplicaDirs
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.diagnose.moves import LOG_DIR_RATE
from kafka_medic.guard.evaluate import some
from kafka_medic.playbook.effects import (
    AlterLogDirs,
    ChangeSettings,
    SettingKey,
    broker_gone,
    dynamic_value,
    setting_text,
    settings_observed,
)
from kafka_medic.playbook.holding import on_its_way, written_off
from kafka_medic.playbook.reassign import vanished
from kafka_medic.playbook.reassign.reassign_step import restore, saved_settings, unread_throttle, unsavable
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import LogDirMove, LogDirMoves, Plan
from kafka_medic.resources.remediation_status import IntentState, JournalEntry, Progress

GOAL = "every replica is in its new log directory"

Dirs = Mapping[int, ReplicaDirs | str]
"""By broker; a text says why its log directories could not be read."""


class Position(Enum):
    """Of one replica. DONE: it is current in its new directory, and no future replica is left."""

    BEFORE = "before"
    MOVING = "moving"
    DONE = "done"
    DRIFTED = "drifted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Standing:
    """One planned move and where its replica is; `reason` explains DRIFTED and UNKNOWN. `copied`: bytes of the future
    replica."""

    move: LogDirMove
    position: Position
    reason: str = ""
    copied: int = 0

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.move.topic, self.move.partition)

    @property
    def key(self) -> tuple[int, TopicPartition]:
        return self.move.broker, self.tp


def standings(moves: Iterable[LogDirMove], dirs: Dirs) -> tuple[Standing, ...]:
    """Every move in plan order."""
    return tuple(_standing(m, dirs.get(m.broker, "not read")) for m in moves)


def _standing(move: LogDirMove, told: ReplicaDirs | str) -> Standing:
    tp, who = TopicPartition(move.topic, move.partition), f"broker {move.broker}"
    if isinstance(told, str):
        reason = f"the log directories of {who} are not known: {told}"
        return Standing(move, Position.UNKNOWN, reason)
    current, future = told.current.get(tp), told.future.get(tp)
    if current is not None and current.path == move.target:
        if future is None:
            return Standing(move, Position.DONE)
        reason = f"another client moves {tp} of {who} to {future.path}"
        return Standing(move, Position.DRIFTED, reason)
    if lost := _lost(move, move.target, told):
        return lost
    if current is None:
        return _lost(move, move.source, told) or _without_replica(move, told)
    if current.path != move.source:
        reason = f"{tp} of {who} is in {current.path}; the plan has {move.source}"
        return Standing(move, Position.DRIFTED, reason)
    if future is None:
        return Standing(move, Position.BEFORE)
    if future.path == move.target:
        return Standing(move, Position.MOVING, copied=future.size)
    reason = f"another client moves {tp} of {who} to {future.path}"
    return Standing(move, Position.DRIFTED, reason)


def _lost(move: LogDirMove, path: str, told: ReplicaDirs) -> Standing | None:
    """Why this directory of the move cannot be used; None where it can."""
    name, directory = f"log directory {path} of broker {move.broker}", told.directory(path)
    if directory is None:
        return Standing(move, Position.DRIFTED, f"{name} does not exist any more")
    if directory.failed:
        return Standing(move, Position.DRIFTED, f"{name} has failed")
    if directory.error is not None:
        return Standing(move, Position.UNKNOWN, f"{name} could not be read: {directory.error}")
    return None


def _without_replica(move: LogDirMove, told: ReplicaDirs) -> Standing:
    """Of a replica that no directory lists: it may be in one that could not be read."""
    unread = [d.path for d in told.directories if d.error is not None]
    if unread:
        reason = f"log directory {some(unread, 3)} of broker {move.broker} could not be read"
        return Standing(move, Position.UNKNOWN, reason)
    reason = f"broker {move.broker} has no replica of {move.topic}-{move.partition} any more"
    return Standing(move, Position.DRIFTED, reason)


def assess(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot, dirs: Dirs) -> StepReport:
    """Where the step stands. Pure; `journal` by id."""
    own = plan.part(LogDirMoves)
    where = standings(own.each(), dirs)
    count = progress(where, own.log_dir_throttle_bytes_per_second)
    if drifted := drift(step, where, journal):
        return StepReport(StepState.DRIFTED, drifted, progress=count)
    if unknown := [s.reason for s in where if s.position is Position.UNKNOWN]:
        return StepReport(StepState.UNKNOWN, unknown[0], progress=count)
    if all(s.position is Position.DONE for s in where):
        return _restore(step, plan, journal, snapshot, count)
    batch = min(s.move.batch for s in where if s.position is not Position.DONE)
    at = _Batch(step, plan, journal, snapshot, where, count, batch)
    return _throttled(at) or _unthrottled(at) or _asked(at) or _copying(at)


def drift(step: str, where: Sequence[Standing], journal: Mapping[str, JournalEntry]) -> str | None:
    """What is not as planned. An empty journal is that of a plan that waits."""
    for s in where:
        if s.position is Position.DRIFTED:
            return s.reason
        batch = journal.get(f"{step}/batch-{s.move.batch}")
        if s.position is Position.MOVING and batch is None:
            return f"another client moves {s.tp} of broker {s.move.broker} to {s.move.target}"
        if s.position is Position.BEFORE and batch is not None and batch.state is IntentState.DONE:
            return f"the move of {s.tp} to {s.move.target} of broker {s.move.broker} was cancelled"
    return None


def progress(where: Sequence[Standing], throttle: int | None) -> Progress:
    left: dict[int, int] = {}
    for s in where:
        if s.position is not Position.DONE:
            left[s.move.broker] = left.get(s.move.broker, 0) + max(s.move.size_bytes - s.copied, 0)
    total = sum(s.move.size_bytes for s in where)
    return Progress(
        done=sum(s.position is Position.DONE for s in where),
        total=len(where),
        unit="replicas",
        bytes_done=total - sum(left.values()),
        bytes_total=total,
        seconds_left=-(-max(left.values()) // throttle) if throttle and left else None,
    )


@dataclass(frozen=True, slots=True)
class _Batch:
    """The first batch that is not over, with what `assess` was asked with."""

    step: str
    plan: Plan
    journal: Mapping[str, JournalEntry]
    snapshot: Snapshot
    where: Sequence[Standing]
    progress: Progress
    number: int

    @property
    def own(self) -> LogDirMoves:
        return self.plan.part(LogDirMoves)

    @property
    def name(self) -> str:
        return f"batch {self.number + 1} of {max(s.move.batch for s in self.where) + 1}"

    @property
    def id(self) -> str:
        return f"{self.step}/batch-{self.number}"

    @property
    def mine(self) -> list[Standing]:
        return [s for s in self.where if s.move.batch == self.number]

    def observed(self) -> tuple[str, ...]:
        """Journal ids of what stands by now."""
        before = (f"{self.step}/throttle", *(f"{self.step}/batch-{n}" for n in range(self.number)))
        return tuple(id_ for id_ in (*before, *vanished.seen(self.step, self.journal)) if id_ in self.journal)


def _throttled(at: _Batch) -> StepReport | None:
    """What is still to do until the throttle is in place; None when nothing is."""
    rate, entry = at.own.log_dir_throttle_bytes_per_second, at.journal.get(f"{at.step}/throttle")
    if rate is None or (entry is not None and entry.state is IntentState.DONE):
        # Once it was seen in place, a value that differs is a person's: it is not fought.
        return None
    saved = saved_settings(entry) if entry else present_rates(at.own, at.snapshot)
    wanted: dict[SettingKey, str | None] = dict.fromkeys(saved, str(rate))
    if why := unsaved_rates(at.own, at.snapshot):
        return StepReport(StepState.UNKNOWN, why, progress=at.progress)
    in_place = settings_observed(at.snapshot, wanted)
    if in_place is None:
        return StepReport(StepState.UNKNOWN, "the brokers' throttle settings could not be read", progress=at.progress)
    if in_place:
        return None
    return StepReport(
        StepState.ACT,
        f"throttling copies between log directories to {rate} bytes/s on broker {some(at.own.brokers)}",
        intent=ChangeSettings(f"{at.step}/throttle", wanted),
        target=f"{many(len(wanted), 'setting')}",
        saved={setting_text(key): value for key, value in saved.items()},
        progress=at.progress,
    )


def _unthrottled(at: _Batch) -> StepReport | None:
    """The throttle of what copies in this batch, set again where it has vanished; None where it stands."""
    rate, entry = at.own.log_dir_throttle_bytes_per_second, at.journal.get(f"{at.step}/throttle")
    copying = {str(s.move.broker) for s in at.mine if s.position is not Position.DONE}
    if rate is None or entry is None or f"{at.step}/restore-throttle" in at.journal:
        return None
    saved = saved_settings(entry)
    wanted: dict[SettingKey, str | None] = {key: str(rate) for key in saved if key[1] in copying}
    report = vanished.set_again(at.step, wanted, saved, at.journal, at.snapshot)
    return None if report is None else replace(report, progress=at.progress)


def _asked(at: _Batch) -> StepReport | None:
    """What of the batch is still to be asked for; None when all of it was."""
    due = [s for s in at.mine if s.position is Position.BEFORE]
    if not due:
        return None
    throttled = rate_keys(sorted({s.move.broker for s in due})) if at.own.log_dir_throttle_bytes_per_second else ()
    if why := unread_throttle(at.snapshot, throttled):
        return StepReport(StepState.UNKNOWN, why, progress=at.progress)
    return StepReport(
        StepState.ACT,
        f"{at.name}: moving {many(len(due), 'replica')} to other log directories",
        intent=AlterLogDirs(at.id, {s.key: s.move.target for s in due}),
        target=some(sorted({s.tp for s in due}), 5),
        observed=at.observed(),
        progress=at.progress,
    )


def _copying(at: _Batch) -> StepReport:
    left = sorted({s.tp for s in at.mine if s.position is not Position.DONE})
    return StepReport(
        StepState.WAIT,
        f"{at.name}: copying {many(len(left), 'replica')} to other log directories: {some(left, 5)}",
        observed=(*at.observed(), *((at.id,) if at.id in at.journal else ())),
        progress=at.progress,
    )


def undo(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot, dirs: Dirs) -> StepReport:
    """The clean end of a step that is given up: what is still being copied stays where it is, then the throttle goes.
    What has moved stays there. A copy whose source has failed is left to Kafka."""
    own = plan.part(LogDirMoves)
    sent = {e.id for e in journal.values() if e.step == step and e.kind == AlterLogDirs.__name__}
    where = [s for s in standings(own.each(), dirs) if f"{step}/batch-{s.move.batch}" in sent]
    lost = written_off(journal, snapshot)
    awaited = [s for s in where if s.move.broker not in lost and not broker_gone(snapshot, s.move.broker)]
    if unknown := [s for s in awaited if s.position is Position.UNKNOWN]:
        return StepReport(StepState.UNKNOWN, unknown[0].reason, restores=True)
    if moving := [s for s in where if s.position is Position.MOVING]:
        unseen = {s.move.batch for s in where if s.position is Position.BEFORE}
        arrived = {s.move.batch for s in moving} - unseen
        return StepReport(
            StepState.ACT,
            f"cancelling {many(len(moving), 'move')} between log directories",
            intent=AlterLogDirs(f"{step}/cancel", {s.key: s.move.source for s in moving}, gives_back=True),
            target=some(sorted({s.tp for s in moving}), 5),
            restores=True,
            observed=tuple(f"{step}/batch-{batch}" for batch in sorted(arrived)),
        )
    late = {e.id for e in journal.values() if e.id in sent and on_its_way(e, snapshot)}
    if any(s.position is Position.BEFORE and f"{step}/batch-{s.move.batch}" in late for s in where):
        message = "a move that was requested is not seen, and may still be carried out"
        return StepReport(StepState.WAIT, message, restores=True)
    return _restore(step, plan, journal, snapshot, None)


def _restore(
    step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot, count: Progress | None
) -> StepReport:
    rate = plan.part(LogDirMoves).log_dir_throttle_bytes_per_second
    ids = f"{step}/restore-throttle", f"{step}/throttle"
    return restore(plan, *ids, journal, snapshot, count, goal=GOAL, rates=frozenset({str(rate)}))


def rate_keys(brokers: Iterable[int]) -> list[SettingKey]:
    """The settings that throttle moves of these brokers."""
    return [("BROKER", str(b), LOG_DIR_RATE) for b in brokers]


def present_rates(own: LogDirMoves, snapshot: Snapshot) -> dict[SettingKey, str | None]:
    return {key: dynamic_value(snapshot, key) for key in rate_keys(own.brokers)}


def unsaved_rates(own: LogDirMoves, snapshot: Snapshot) -> str | None:
    """Why the throttle that is there now could not be restored later; None where it could."""
    if own.log_dir_throttle_bytes_per_second is None:
        return None
    return unread_throttle(snapshot, rate_keys(own.brokers)) or unsavable(present_rates(own, snapshot))
