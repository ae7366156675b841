"""ReassignPartitions: throttle, then wave after wave, then the throttle back to what it was.

The order of what a journal and a snapshot can say:

1. `throttle`: rates on the brokers that send or receive, lists on the topics of the wave that is next. What was there
   before, on every topic of the plan, is in the journal before anything is changed. No partition moves until its
   throttle is seen on every such broker.
2. `wave-N`: one request, or several where one would be long (`portions`); the next wave only once every replica of
   this one is in its ISR. A partition that no request reached is simply asked for again: the request is the wish, not
   a step. Meanwhile `rate-N-RATE`: a lower rate while others fall behind; `throttle-again-N`: what somebody removed.
3. `restore-throttle`: each setting back to what the journal holds.

The step's goal is reached when every target replica is in sync and the throttle is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kafka_medic.cluster.elements import failed_directories, on_failed_directory, resource_name, settings_unread
from kafka_medic.cluster.incarnations import topic_ids
from kafka_medic.cluster.snapshot import Broker, Snapshot, TopicPartition
from kafka_medic.guard.evaluate import some
from kafka_medic.playbook.effects import (
    ChangeSettings,
    DropReplicas,
    Reassign,
    SettingKey,
    broker_gone,
    dynamic_value,
    setting_key,
    setting_text,
    settings_observed,
    unknown_settings,
)
from kafka_medic.playbook.holding import on_its_way, written_off
from kafka_medic.playbook.portions import followed_by, portion
from kafka_medic.playbook.reassign import rate, vanished
from kafka_medic.playbook.reassign.copying import copied
from kafka_medic.playbook.reassign.positions import Position, Standing, standings
from kafka_medic.playbook.reassign.rate import RATES
from kafka_medic.playbook.reassign.throttle_lists import FOLLOWER_LIST, LEADER_LIST, listed
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import PartitionChange, Plan, ReplicaMoves
from kafka_medic.resources.remediation_status import IntentState, JournalEntry, Progress

MAX_SAVED_CHARACTERS = 4096
"""Of one setting's value in the journal (SavedValue)."""


def assess(
    step: str,
    plan: Plan,
    journal: Mapping[str, JournalEntry],
    snapshot: Snapshot,
    now: datetime,
    *,
    directories: bool = False,
) -> StepReport:
    """Where the step stands. Pure; `journal` by id. directories: as in `came_back`."""
    own = plan.part(ReplicaMoves)
    where = standings(own.changes, snapshot)
    throttled = own.throttle_bytes_per_second is not None
    count = copied(where, int(rate.in_force(step, plan, journal)) if throttled else None)
    drifted = came_back(own.replaced, snapshot, where, directories=directories) or _drift(step, where, journal)
    if drifted:
        return StepReport(StepState.DRIFTED, drifted, progress=count)
    unknown = [s.reason for s in where if s.position is Position.UNKNOWN]
    if unknown:
        return StepReport(StepState.UNKNOWN, unknown[0], progress=count)
    if all(s.position is Position.DONE for s in where):
        return _restored(step, plan, journal, snapshot, count)
    wave = _Wave(step, plan, journal, snapshot, where, count)
    return _throttled(wave) or _unthrottled(wave) or _asked(wave, now) or _copying(wave, now)


@dataclass(frozen=True, slots=True)
class _Wave:
    """The first wave that is not over, with what `assess` was asked with."""

    step: str
    plan: Plan
    journal: Mapping[str, JournalEntry]
    snapshot: Snapshot
    where: tuple[Standing, ...]
    progress: Progress

    @property
    def number(self) -> int:
        return min(s.change.wave for s in self.where if s.position is not Position.DONE)

    @property
    def name(self) -> str:
        return f"wave {self.number + 1} of {max(s.change.wave for s in self.where) + 1}"

    @property
    def id(self) -> str:
        """Of the journal entry that asks for it."""
        return f"{self.step}/wave-{self.number}"

    @property
    def last_asked(self) -> int | None:
        """The wave whose throttle is in place: an earlier one is not over while a replica of it has fallen behind."""
        return max((n for s in self.where if f"{self.step}/wave-{(n := s.change.wave)}" in self.journal), default=None)

    @property
    def mine(self) -> list[Standing]:
        number = self.number
        return [s for s in self.where if s.change.wave == number]

    def observed(self) -> tuple[str, ...]:
        """Journal ids of what stands by now: the throttle, and the waves before."""
        before = (f"{self.step}/throttle", *(f"{self.step}/wave-{w}" for w in range(self.number)))
        before = (*before, *vanished.seen(self.step, self.journal))
        return tuple(id_ for id_ in before if id_ in self.journal)


def _throttled(wave: _Wave) -> StepReport | None:
    """What is still to do until the wave's throttle is in place; None when nothing is."""
    plan, snapshot, rate_wanted = wave.plan, wave.snapshot, wave.plan.part(ReplicaMoves).throttle_bytes_per_second
    if rate_wanted is None:
        return None
    id_ = f"{wave.step}/throttle"
    entry = wave.journal.get(id_)
    saved = saved_settings(entry) if entry else present_settings(plan, snapshot)
    wanted = _throttle(plan, saved, wave.number)
    asks = any(s.position is Position.BEFORE for s in wave.mine)
    if why := unsaved(plan, snapshot) if entry is None else unread_throttle(snapshot, wanted if asks else ()):
        return StepReport(StepState.UNKNOWN, why, progress=wave.progress)
    if entry is not None and entry.state is IntentState.DONE:
        # Once it was seen in place, a value that differs is a person's: it is not fought.
        wanted = {} if wave.id in wave.journal else _moved_on(plan, saved, wanted, snapshot)
    in_place = settings_observed(snapshot, wanted)
    if in_place is None:
        return StepReport(StepState.UNKNOWN, "the brokers' throttle settings could not be read", progress=wave.progress)
    if in_place:
        return None
    if long := unsavable(saved):
        return StepReport(StepState.UNKNOWN, long, progress=wave.progress)
    return StepReport(
        StepState.ACT,
        f"{wave.name}: throttling its replication to {rate_wanted} bytes/s on each broker involved",
        intent=ChangeSettings(id_, wanted),
        target=f"{many(len(wanted), 'setting')}",
        saved={setting_text(key): value for key, value in saved.items()},
        progress=wave.progress,
    )


def _unthrottled(wave: _Wave) -> StepReport | None:
    """The throttle of what is copying at this moment, set again where it has vanished; None where it stands."""
    entry = wave.journal.get(f"{wave.step}/throttle")
    rate_wanted = wave.plan.part(ReplicaMoves).throttle_bytes_per_second
    asked = wave.last_asked
    under_way = [s for s in wave.where if s.position in (Position.MOVING, Position.CATCHING_UP)]
    topics = {s.change.topic for s in under_way if s.change.wave == asked}
    # Everything was copied once: what is missing we have removed ourselves, and a second restore would not follow.
    restored = f"{wave.step}/restore-throttle" in wave.journal
    if entry is None or rate_wanted is None or asked is None or not topics or restored:
        return None
    saved = saved_settings(entry)
    brokers = rate.in_force(wave.step, wave.plan, wave.journal)
    wanted = {
        key: brokers if key[0] == "BROKER" else value
        for key, value in _throttle(wave.plan, saved, asked).items()
        if key[0] == "BROKER" or key[1] in topics
    }
    report = vanished.set_again(wave.step, wanted, saved, wave.journal, wave.snapshot)
    return None if report is None else replace(report, progress=wave.progress)


def _asked(wave: _Wave, now: datetime) -> StepReport | None:
    """What of the wave is still to be asked for; None when all of it was."""
    due = [s for s in wave.mine if s.position is Position.BEFORE]
    if not due:
        return None
    now_asked = portion(wave.snapshot, due)
    return StepReport(
        StepState.ACT,
        f"{wave.name}: starting {many(len(now_asked), 'reassignment')}{followed_by(now_asked, due)}",
        intent=Reassign(wave.id, {s.tp: tuple(s.change.replicas) for s in now_asked}),
        target=_names([s.tp for s in due]),
        observed=wave.observed(),
        progress=wave.progress,
        stuck=vanished.removed_again(wave.step, wave.journal, now),
    )


def _copying(wave: _Wave, now: datetime) -> StepReport:
    """The wave is on its way, perhaps at another rate from now on."""
    mine, observed = wave.mine, wave.observed() + ((wave.id,) if wave.id in wave.journal else ())
    behind = [s for s in mine if s.position is not Position.DONE]
    copying = StepReport(
        StepState.WAIT,
        f"{wave.name}: copying {len(behind)} of {many(len(mine), 'partition')}: {_names([s.tp for s in behind])}",
        observed=(*observed, *rate.settled(wave.step, wave.plan, wave.journal, wave.snapshot)),
        progress=wave.progress,
        stuck=vanished.removed_again(wave.step, wave.journal, now) or _never_in_sync(behind, wave.snapshot),
    )
    change = rate.due(wave.step, wave.plan, wave.journal, wave.snapshot, wave.where, now)
    if change is None:
        return copying
    return StepReport(
        StepState.ACT,
        change.message,
        intent=ChangeSettings(change.id, change.settings, change.message),
        target=f"{many(len(change.settings), 'setting')}",
        observed=observed,
        # To copy more slowly takes back some of what was allowed: no guard of going on holds it up.
        restores=change.lowers,
        progress=wave.progress,
        otherwise=None if change.lowers else copying,
    )


def _never_in_sync(behind: Sequence[Standing], snapshot: Snapshot) -> str | None:
    """Why the wave has no end: a replica that it waits for is on a log directory that has failed."""
    offline = {b.id: on_failed_directory(b) for b in snapshot.brokers or ()}
    for s in behind:
        for broker in s.change.replicas:
            if s.tp in offline.get(broker, ()):
                return (
                    f"a log directory of broker {broker} has failed, so its replica of {s.tp} cannot be in sync. "
                    "Repair the directory, or reject the run: restore-log-dir then replaces what it can"
                )
    return None


def undo(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """The clean end of a step that is given up: cancel what is ours and in flight, then the throttle back. What was
    already added stays; a replica set never shrinks, except that a cancelled reassignment never became one."""
    sent = any(e.step == step and e.kind == "Reassign" for e in journal.values())
    where = standings(plan.part(ReplicaMoves).changes, snapshot)
    if sent:
        if any(s.position is Position.UNKNOWN for s in where):
            return StepReport(StepState.UNKNOWN, "the reassignments in flight could not be read", restores=True)
        unseen = {s.change.wave for s in where if s.position is Position.BEFORE}
        arrived = {s.change.wave for s in where if s.position is Position.MOVING} - unseen
        seen = tuple(id_ for wave in sorted(arrived) if (id_ := f"{step}/wave-{wave}") in journal)
        moving = [s for s in where if s.position is Position.MOVING and f"{step}/wave-{s.change.wave}" in journal]
        needed = [s for s in moving if _needed(s)]
        if cancelled := [s for s in moving if s not in needed]:
            now_cancelled = portion(snapshot, cancelled)
            return StepReport(
                StepState.ACT,
                f"cancelling {many(len(now_cancelled), 'reassignment')} of this "
                f"run{followed_by(now_cancelled, cancelled)}",
                intent=Reassign(f"{step}/cancel", dict.fromkeys((s.tp for s in now_cancelled), None)),
                target=_names([s.tp for s in cancelled]),
                restores=True,
                observed=seen,
            )
        if needed:
            message = (
                f"not cancelled yet, since fewer replicas than min.insync.replicas would be left in sync: "
                f"{_names([s.tp for s in needed])}"
            )
            return StepReport(StepState.UNKNOWN, message, restores=True)
        late = {e.id for e in journal.values() if e.step == step and e.kind == "Reassign" and on_its_way(e, snapshot)}
        if any(s.position is Position.BEFORE and f"{step}/wave-{s.change.wave}" in late for s in where):
            message = "a reassignment that was requested is not seen, and may still be carried out"
            return StepReport(StepState.WAIT, message, restores=True)
    return _restored(step, plan, journal, snapshot, None)


def _restored(
    step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot, count: Progress | None
) -> StepReport:
    ids, rates = (f"{step}/restore-throttle", f"{step}/throttle"), rate.rates_set(step, plan, journal)
    return restore(plan, *ids, journal, snapshot, count, goal="every target replica is in sync", rates=rates)


def _needed(standing: Standing) -> bool:
    """Whether the partition needs a replica that a cancel would take: those from before that are in sync are fewer than
    its min.insync.replicas, or than all of them."""
    row, before = standing.row, set(standing.change.replicas_before)
    assert row is not None  # it is moving
    in_sync = set(row.isr or ())
    enough = len(before) if row.min_isr is None else min(row.min_isr, len(before))
    return not in_sync <= before and len(in_sync & before) < enough


def came_back(
    replaced: Iterable[int], snapshot: Snapshot, where: tuple[Standing, ...], *, directories: bool
) -> str | None:
    """A broker that is replaced and has come back, or one of its log directories has, while it still has replicas to
    catch up: it needs less data for that than whoever would copy them anew. directories: log directories are replaced,
    so that a broker that is up says nothing."""
    left = [s for s in where if s.position is not Position.DONE]
    up = [b for b in snapshot.brokers or () if b.id in set(replaced) and b.live]
    back = sorted(b.id for b in up if _serves(b, left, directories=directories))
    if not back or not left:
        return None
    which = "a log directory of broker" if directories else "broker"
    return f"{which} {some(back)} is back, and {many(len(left), 'partition')} of {len(where)} not replaced yet"


def _serves(broker: Broker, left: Sequence[Standing], *, directories: bool) -> bool:
    """Whether it has one of these replicas on a log directory that is well. While a reassignment removes a replica, its
    directory is not known."""
    held = [s for s in left if broker.id in s.change.replicas_before]
    if broker.directories is None:
        return bool(held) and not directories
    if not failed_directories(broker):
        return bool(held)
    if broker.offline_replicas is None:
        return False
    offline = on_failed_directory(broker)
    removed = {s.tp for s in held if s.row is not None and broker.id in (s.row.removing or ())}
    return any(s.tp not in offline and s.tp not in removed for s in held)


def _drift(step: str, where: tuple[Standing, ...], journal: Mapping[str, JournalEntry]) -> str | None:
    for s in where:
        if s.position is Position.DRIFTED:
            return s.reason
        # Once a wave's effect was seen, a partition of it that is back where it was has been cancelled by somebody.
        wave = journal.get(f"{step}/wave-{s.change.wave}")
        if s.position is Position.MOVING and wave is None:
            return f"another client is reassigning {s.tp}"
        if s.position is Position.BEFORE and wave is not None and wave.state is IntentState.DONE:
            return f"another client cancelled the reassignment of {s.tp}"
    return None


def restore(
    plan: Plan,
    restore_id: str,
    throttle_id: str,
    journal: Mapping[str, JournalEntry],
    snapshot: Snapshot,
    count: Progress | None,
    *,
    goal: str,
    rates: frozenset[str],
) -> StepReport:
    """The settings of a throttle back to what the journal holds. `goal`: what else has been reached. `rates`: those
    that the step may have set."""
    entry = journal.get(throttle_id)
    if entry is None:
        return StepReport(StepState.REACHED, goal, progress=count)
    observed = tuple(i for i in _ids_of_step(throttle_id, journal) if i != restore_id)
    over = journal.get(restore_id)
    if over is not None and over.state is IntentState.DONE:
        # Restored once: a throttle that is there now is somebody else's.
        return StepReport(StepState.REACHED, goal, observed=observed, progress=count)
    if snapshot.configs is None:
        return StepReport(
            StepState.UNKNOWN,
            "the throttle settings could not be read",
            restores=True,
            observed=observed,
            progress=count,
        )
    lost = written_off(journal, snapshot)
    owed, silent = _owed(plan, saved_settings(entry), snapshot, rates, lost)
    if owed:
        return StepReport(
            StepState.ACT,
            "restoring the throttle settings",
            intent=ChangeSettings(restore_id, owed),
            target=f"{many(len(owed), 'setting')}",
            restores=True,
            observed=observed,
            progress=count,
        )
    if silent:
        return StepReport(
            StepState.UNKNOWN,
            f"the throttle of {some(silent)} is still set, because its settings are not known; the operator removes it "
            "when they are",
            restores=True,
            observed=observed,
            progress=count,
        )
    if restore_id in journal:
        observed += (restore_id,)
    return StepReport(
        StepState.REACHED,
        f"{goal} and the throttle is restored",
        observed=observed,
        progress=count,
    )


def kept_throttle(step: str, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> str:
    """What the clean-up of a run that was given up leaves on brokers that it awaits no more."""
    entry, lost = journal.get(f"{step}/throttle"), written_off(journal, snapshot)
    kept = {int(key[1]) for key in (saved_settings(entry) if entry else ()) if key[0] == "BROKER"} & lost
    if not kept:
        return ""
    return f"broker {some(sorted(kept))} is down and keeps its throttle: once it is back, LeftoverThrottle reports it"


def _owed(
    plan: Plan,
    saved: Mapping[SettingKey, str | None],
    snapshot: Snapshot,
    rates: frozenset[str],
    lost: frozenset[int],
) -> tuple[dict[SettingKey, str | None], list[str]]:
    """What is still to be put back, and whose settings have to be read first: brokers that do not answer, topics and
    brokers with an error, topics that do not show though they may be there. Only settings that still hold what we set:
    a value that somebody gave them since is theirs. The settings of a topic that is deleted went with it. Those of a
    broker that is `lost` stay."""
    ours = _lists(plan, saved)
    live = {str(b.id) for b in snapshot.brokers or () if b.live}
    shown = topic_ids(snapshot, {resource for kind, resource, _ in ours})
    owed: dict[SettingKey, str | None] = {}
    silent: dict[str, None] = {}
    for key, before in saved.items():
        kind, resource, _ = key
        if key not in ours if kind == "TOPIC" else int(resource) in lost or broker_gone(snapshot, int(resource)):
            continue
        if resource not in (live if kind == "BROKER" else shown) or settings_unread(snapshot, kind, resource):
            silent[resource_name(kind, resource)] = None
        else:
            value = dynamic_value(snapshot, key)
            if before != value and value in (rates if kind == "BROKER" else ours[key]):
                owed[key] = before
    return owed, list(silent)


def _ids_of_step(throttle_id: str, journal: Mapping[str, JournalEntry]) -> tuple[str, ...]:
    """All but removals, of which the throttle says nothing."""
    prefix = throttle_id.removesuffix("throttle")
    return tuple(i for i, e in journal.items() if i.startswith(prefix) and e.kind != DropReplicas.__name__)


def saved_settings(entry: JournalEntry) -> dict[SettingKey, str | None]:
    """What the journal holds of a throttle, as it was before."""
    return {setting_key(text): value for text, value in entry.saved_values().items()}


def unsavable(settings: Mapping[SettingKey, str | None]) -> str | None:
    """Why what is there now cannot be kept, to be restored later; None when it can."""
    for key, value in settings.items():
        if value is not None and len(value) > MAX_SAVED_CHARACTERS:
            return (
                f"{setting_text(key)} is set to {len(value)} characters (limit {MAX_SAVED_CHARACTERS}) and cannot be "
                "saved for the restore; remove that throttle, or use * instead"
            )
    return None


def unsaved(plan: Plan, snapshot: Snapshot) -> str | None:
    """Why what is there now is not known, so that it could not be restored later; None when it is."""
    return unread_throttle(snapshot, _keys(plan))


def unread_throttle(snapshot: Snapshot, keys: Iterable[SettingKey]) -> str | None:
    """Why the throttle settings of one of these are not known; None when all are."""
    unknown = unknown_settings(snapshot, keys)
    return next((f"the throttle settings of {name} could not be read: {why}" for name, why in unknown.items()), None)


def present_settings(plan: Plan, snapshot: Snapshot) -> dict[SettingKey, str | None]:
    return {key: dynamic_value(snapshot, key) for key in _keys(plan)}


def _keys(plan: Plan) -> list[SettingKey]:
    changes = plan.part(ReplicaMoves).changes
    brokers = sorted({b for c in changes for b in c.replicas})
    topics = sorted({c.topic for c in changes})
    keys: list[SettingKey] = [("BROKER", str(b), rate) for b in brokers for rate in RATES]
    return keys + [("TOPIC", t, name) for t in topics for name in (LEADER_LIST, FOLLOWER_LIST)]


def _throttle(plan: Plan, saved: Mapping[SettingKey, str | None], wave: int) -> dict[SettingKey, str | None]:
    """What is to be set while this wave is copied: the rate on every broker of the plan, and on each topic of the wave
    the lists of its replicas."""
    own = plan.part(ReplicaMoves)
    by_topic: dict[str, list[PartitionChange]] = {}
    for change in own.changes:
        if change.wave == wave:
            by_topic.setdefault(change.topic, []).append(change)
    wanted: dict[SettingKey, str | None] = {}
    for key, before in saved.items():
        if key[0] == "BROKER":
            wanted[key] = str(own.throttle_bytes_per_second)
        elif key[1] in by_topic:
            wanted[key] = listed(by_topic[key[1]], key[2], before)
    return wanted


def _lists(plan: Plan, saved: Mapping[SettingKey, str | None]) -> dict[SettingKey, set[str | None]]:
    """By topic and list: all that the waves of this plan set there. A topic that is deleted has none."""
    by_topic: dict[str, dict[int, list[PartitionChange]]] = {}
    for change in plan.part(ReplicaMoves).changes:
        by_topic.setdefault(change.topic, {}).setdefault(change.wave, []).append(change)
    return {
        key: {listed(changes, key[2], before) for changes in by_topic[key[1]].values()}
        for key, before in saved.items()
        if key[0] == "TOPIC" and key[1] in by_topic
    }


def _moved_on(
    plan: Plan,
    saved: Mapping[SettingKey, str | None],
    wanted: Mapping[SettingKey, str | None],
    snapshot: Snapshot,
) -> dict[SettingKey, str | None]:
    """The lists that are as another wave left them, or as they were at first, and have to be this wave's, or as they
    were."""
    due: dict[SettingKey, str | None] = {}
    for key, ours in _lists(plan, saved).items():
        present, next_ = dynamic_value(snapshot, key), wanted.get(key, saved[key])
        if present != next_ and present in {*ours, saved[key]}:
            due[key] = next_
    return due


def _names(partitions: list[TopicPartition]) -> str:
    shown = ", ".join(str(tp) for tp in partitions[:5])
    return shown if len(partitions) <= 5 else f"{shown} and {len(partitions) - 5} more"
