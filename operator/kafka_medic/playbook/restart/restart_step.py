"""RestartBrokers: one broker after the other, the next only when the last one is back in everything it was in. With
`maxParallel` above 1, up to so many at a time, if every guard permits the next while the others count as away.

For each broker the journal and a snapshot can say:

1. no entry: its turn has not come, or it is the next; its Pod is the one that was planned.
2. an entry `restart-B`, and the planned Pod is still there: sent and unseen, or never sent. It is asked for again; the
   Pod's uid makes that harmless.
3. an entry, and another Pod, or none: it has happened. Until the broker is registered and answers, its log recovered,
   every view agrees, and it is in the ISR of every partition it has a replica of, so many times in a row, and, where
   there is a canary, a record of it has gone through since, nothing else is touched.
4. the entry is Done: it was seen so. Never again in this run.

Where the plan says what a broker is to read when it starts, one that is back and has not read it makes its entry Void,
and the run waits for a person. Once the plan is approved anew that broker alone is restarted again, as
`restart-B-again-N`, in whatever Pod it is by then; nobody else is touched before it has read it.

Where the plan says what a broker is not to lead meanwhile, that is moved off it before its entry is written and back
once that is Done (`drain_first`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kafka_medic.cluster.clock import Skew
from kafka_medic.cluster.elements import on_failed_directory
from kafka_medic.cluster.fields import parse_timestamp
from kafka_medic.cluster.snapshot import Broker, PartitionRow, Pod, Snapshot, TopicPartition, Voter
from kafka_medic.guard.context import FETCH_TIMEOUT_MS, RestartContext, RestartQuestion
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.restart import judge_restart
from kafka_medic.guard.rows import known_ids, led_by, target_of, troubled_rows
from kafka_medic.guard.unserved import not_served
from kafka_medic.guard.verdict import Verdict
from kafka_medic.guard.views import agree_but_for
from kafka_medic.playbook.effects import RestartPod
from kafka_medic.playbook.leadership import reorder_step
from kafka_medic.playbook.leadership.parameters import AWAY, BACK
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.playbook.restart import drain_first, rescue_step, static_settings, strimzi_restart
from kafka_medic.playbook.restart.attempts import attempts, due, is_in, latest, other_pods, replaced_by_others
from kafka_medic.playbook.restart.order import next_broker
from kafka_medic.playbook.restart.parameters import CONTROLLER, RestartParameters
from kafka_medic.report.units import many
from kafka_medic.resources.durations import format_duration
from kafka_medic.resources.remediation_plan import BrokerRestart, Plan, Restarts
from kafka_medic.resources.remediation_status import ApprovalRecord, IntentState, JournalEntry, Progress

NEVER_SENT = 60.0
"""Seconds after which a restart that was begun, and whose Pod is as it was, is not on its way to the API server any
more: the operator died before it sent it."""


@dataclass(frozen=True, slots=True)
class Watch:
    """How long brokers are watched after their restart: `seen` observations in a row so far of `needed`, `since` the
    first of those (None: there is none)."""

    seen: int
    needed: int
    now: datetime
    since: datetime | None = None
    approvals: Sequence[ApprovalRecord] = ()
    required: int = 1  # people that a plan needs
    skew: Skew | None = None  # of the clock that dates approvals
    strimzi: bool = False  # is asked to restart brokers
    strimzi_apart: bool = False  # and controllers that are none


def assess(
    step: str,
    plan: Plan,
    journal: Mapping[str, JournalEntry],
    snapshot: Snapshot,
    settings: RestartParameters,
    watch: Watch,
) -> StepReport:
    """Where the step stands. At most `max_parallel` brokers are ever between their restart and their recovery."""
    restarts = plan.part(Restarts).restarts
    entries = {r.broker: latest(step, r.broker, journal) for r in restarts}
    done = [r for r in restarts if is_in(entries[r.broker], IntentState.DONE)]
    begun = [r for r in restarts if is_in(entries[r.broker], IntentState.INTENDED, IntentState.VOID)]
    left = [r for r in restarts if entries[r.broker] is None]
    progress = Progress(done=len(done), total=len(restarts), unit="brokers")
    if not restarts:
        return StepReport(StepState.REACHED, "no broker is to be restarted")
    if snapshot.brokers is None or _unread(snapshot, "kubernetes"):
        return StepReport(StepState.UNKNOWN, "the brokers' Pods could not be read", progress=progress)
    roll = _Roll(step, plan, journal, snapshot, settings, watch, progress)
    if not begun:
        return _next(roll, left, ())
    report = _watched(roll, begun, left)
    if report.state is StepState.WAIT and not report.observed and len(begun) < settings.max_parallel:
        return _another(roll, left, report) or report
    if not {e.id for r in begun if (e := entries[r.broker]) is not None}.issubset(report.observed):
        return report
    # What is back in this look is done with in it, and the next one is judged by the very same look.
    later = {
        e.id: e.model_copy(update={"state": IntentState.DONE}) for e in journal.values() if e.id in report.observed
    }
    ahead = progress.model_copy(update={"done": progress.done + len(begun)})
    roll = replace(roll, journal={**journal, **later}, progress=ahead)
    after = _next(roll, left, report.observed)
    # The goal has been seen so many times in a row by now; another broker's own count begins at nothing.
    return replace(after, streak=watch.needed) if after.state is StepState.REACHED else after


def context(
    step: str, plan: Plan, journal: Mapping[str, JournalEntry], broker: int, now: datetime, *, replaces_controller: bool
) -> RestartContext:
    """What the guards are told of the run: who else is still to come or on its way, and whose stale view it is there to
    cure. `replaces_controller`: the run's purpose is another controller."""
    restarts = plan.part(Restarts).restarts
    left = {r.broker: r for r in restarts if not is_in(latest(step, r.broker, journal), IntentState.DONE)}
    begun = {b for b in left if is_in(latest(step, b, journal), IntentState.INTENDED)}
    # One that was begun and never sent, that leads nothing any more, or that is restarted once more, goes before all
    # others, also if it has become the controller since: nobody else is begun before it is back.
    entry = latest(step, broker, journal)
    first = begun == {broker} and entry is not None and (now - entry.intended_at).total_seconds() > NEVER_SENT
    first = first or any(e.state is IntentState.VOID for e in attempts(step, broker, journal))
    first = first or drain_first.begun(step, journal, broker)
    return RestartContext(
        remaining=frozenset() if first else frozenset(b for b in left if b != broker),
        together=frozenset(begun - {broker}),
        cures=frozenset(b for b, restart in left.items() if restart.stale),
        replaces_controller=replaces_controller,
        asked_for=strimzi_restart.asked_for(journal.values()),
    )


def not_back(snapshot: Snapshot, broker: int, still_stale: frozenset[int]) -> str | None:
    """What a restarted broker still lacks; None when it is back in everything that is not on a failed log directory.
    What cannot be told is lacking."""
    apart = next((v for v in snapshot.controllers_apart() if v.id == broker), None)
    found = snapshot.broker(broker)
    if found is None and apart is None:
        return "not registered yet"
    lacking = _voter(apart, snapshot) if found is None or apart is not None else _process(found, snapshot)
    if lacking:
        return lacking
    rows = troubled_rows(snapshot, broker)
    if rows is None:
        return "its partitions could not be read"
    if behind := _behind(snapshot, broker, rows, on_failed_directory(found), still_stale):
        return behind
    mine = next((v for v in snapshot.views or () if v.broker == broker), None)
    if apart is None and (mine is None or mine.members is None or mine.leaders is None):
        return "it has not reported its view of the cluster yet"
    question = RestartQuestion(broker, RestartContext(), rows)
    differing = [r.message for r in agree_but_for(snapshot, question, still_stale) if r.verdict is not Verdict.ALLOW]
    return f"the views do not agree yet: {differing[0]}" if differing else None


def _behind(
    snapshot: Snapshot,
    broker: int,
    rows: tuple[PartitionRow, ...],
    lost: frozenset[TopicPartition],
    still_stale: frozenset[int],
) -> str | None:
    """Of what partitions it is not in the ISR yet. `lost`: on a failed log directory, which nobody waits for."""
    behind = []
    for row in rows:
        replicas, isr = target_of(row), known_ids(row.isr)
        if replicas is None or isr is None:
            return f"the ISR of {row.tp} could not be read"
        if broker in replicas - isr and row.tp not in lost:
            behind.append(row.tp)
    # With what one that is still stale is to lead and does not serve, nobody catches up before that one is restarted.
    stale = RestartQuestion(min(still_stale, default=broker), RestartContext(cures=still_stale), rows)
    behind = [tp for tp in behind if tp not in not_served(snapshot, stale)]
    return f"not in the ISR of {many(len(behind), 'partition')} yet: {some(behind, 3)}" if behind else None


@dataclass(frozen=True, slots=True)
class _Roll:
    """What `assess` was asked with, for its parts."""

    step: str
    plan: Plan
    journal: Mapping[str, JournalEntry]
    snapshot: Snapshot
    settings: RestartParameters
    watch: Watch
    progress: Progress

    def entry(self, restart: BrokerRestart) -> JournalEntry:
        """Of a broker that was begun."""
        found = latest(self.step, restart.broker, self.journal)
        assert found is not None
        return found

    def asked(self, broker: int) -> RestartContext:
        controller = self.settings.brokers == CONTROLLER
        return context(self.step, self.plan, self.journal, broker, self.watch.now, replaces_controller=controller)


def _next(roll: _Roll, left: Sequence[BrokerRestart], observed: tuple[str, ...]) -> StepReport:
    """Nobody is on the way: what the last one led, the next one, or the end."""
    last = drain_first.turn_of(roll.step, roll.plan, roll.journal)
    if last is not None and all(r.broker != last for r in left) and (home := _led(roll, BACK, last)) is not None:
        return replace(home, observed=(*observed, *home.observed))
    if not left:
        message = f"{many(roll.progress.done, 'broker')} were restarted and are back"
        return StepReport(StepState.REACHED, message, progress=roll.progress, observed=observed)
    if moved := replaced_by_others(left, roll.journal, roll.snapshot):
        return StepReport(StepState.DRIFTED, moved, progress=roll.progress, observed=observed)
    ids = [r.broker for r in left]
    number = last if last in ids else next_broker(roll.snapshot, ids, {r.broker for r in left if r.stale})
    if moved := _moved(roll, [b for b in ids if b != last]):
        return StepReport(StepState.DRIFTED, moved, progress=roll.progress, observed=observed)
    target = next(r for r in left if r.broker == number)
    report = _sparing(roll, target) or _led(roll, AWAY, target.broker) or _due(roll, target)
    return replace(report, observed=(*observed, *report.observed))


def _led(roll: _Roll, way: str, broker: int) -> StepReport | None:
    """What is still to do until what the broker leads is away, or back again; None when nothing is."""
    watch = roll.watch
    report = drain_first.moved(way, roll.step, roll.plan, broker, roll.journal, roll.snapshot, watch.now)
    if report is None:
        return None
    where = "before its restart" if way == AWAY else "after its restart"
    stuck = report.stuck and f"broker {broker}, {where}: {report.stuck}"
    message = f"broker {broker}, {where}: {report.message}"
    return replace(report, message=message, stuck=stuck, progress=roll.progress)


def _moved(roll: _Roll, brokers: Sequence[int]) -> str | None:
    """The first partition of these brokers' whose order is not the one before: none of theirs has been touched yet."""
    planned = {tp: (now, now) for b in brokers for tp, (now, _) in drain_first.orders(roll.plan, b).items()}
    return reorder_step.other_orders(planned, roll.snapshot)


def _sparing(roll: _Roll, restart: BrokerRestart) -> StepReport | None:
    """Why the broker is not restarted yet: it holds records that nobody else has and that are not to be lost."""
    if lost := rescue_step.unsaved(roll.plan, roll.snapshot, {restart.broker}):
        return StepReport(StepState.DRIFTED, lost, progress=roll.progress)
    if unknown := rescue_step.unmeasured(roll.plan, roll.snapshot, restart.broker):
        return StepReport(StepState.UNKNOWN, unknown, progress=roll.progress)
    return None


def _another(roll: _Roll, left: Sequence[BrokerRestart], meanwhile: StepReport) -> StepReport | None:
    """One more while others are on their way: the first that every guard permits though they all count as away."""
    if meanwhile.stuck or other_pods(left, roll.snapshot):
        return None
    for restart in left:
        judged = judge_restart(roll.snapshot, restart.broker, roll.watch.now, context=roll.asked(restart.broker))
        if judged.verdict is Verdict.ALLOW and _sparing(roll, restart) is None:
            return replace(_due(roll, restart), otherwise=meanwhile)
    return None


def _watched(roll: _Roll, begun: Sequence[BrokerRestart], left: Sequence[BrokerRestart]) -> StepReport:
    """Those that were begun: asked for again, on their way, or all back, which is when `observed` names them."""
    still_stale = frozenset(r.broker for r in left if r.stale)
    waits: list[str] = []
    asked: list[str] = []
    stuck: list[str] = []
    again: list[BrokerRestart] = []
    for restart in begun:
        pod, entry = roll.snapshot.pod_of(restart.broker), roll.entry(restart)
        stopping = pod is not None and pod.uid == (entry.target_uid or restart.pod_uid)
        if stopping and pod is not None and pod.deleting is not True:
            if not (pod.restart_asked and strimzi_restart.by_annotation(entry)):
                again.append(restart)
                continue
            asked.append(f"broker {restart.broker}: Strimzi has not yet restarted Pod {pod.name}")
            if late := _late(roll, restart):
                stuck.append(f"{late}: {asked[-1]}")
            continue
        lacking = None if stopping else not_back(roll.snapshot, restart.broker, still_stale)
        if not stopping and lacking is None:
            continue
        waits.append(
            f"broker {restart.broker}: Pod {restart.pod} is stopping"
            if stopping
            else f"broker {restart.broker} was restarted: {lacking}"
        )
        late = _late(roll, restart)
        if entry.state is IntentState.VOID:
            stuck.append(f"broker {restart.broker} came back with the old configuration, and is down again: {lacking}")
        elif late:
            stuck.append(late if lacking is None else f"{late}: {lacking}")
    # Of Strimzi nothing is to be expected in a moment.
    streak, waits = 0 if waits else None, [*waits, *asked]
    message, late = "; ".join(waits), "; ".join(stuck) or None
    meanwhile = StepReport(StepState.WAIT, message, progress=roll.progress, streak=streak, stuck=late)
    if again:
        spared = _sparing(roll, again[0]) or _led(roll, AWAY, again[0].broker)
        if spared is not None:
            return meanwhile if waits else spared
        return replace(_due(roll, again[0]), otherwise=meanwhile if waits else None)
    return meanwhile if waits else _misread(roll, begun) or _back(roll, begun)


def _misread(roll: _Roll, begun: Sequence[BrokerRestart]) -> StepReport | None:
    """Of those that are back: the first that has not read what it is to read; None when all have. Two looks have to say
    so, since the first may have seen the new Pod, and the settings of the process before."""
    for restart in begun:
        read, entry = static_settings.not_read(roll.plan, roll.snapshot, restart.broker), roll.entry(restart)
        if read is None:
            continue
        text = f"broker {restart.broker} is back with {read or 'unknown settings'}"
        seen = StepReport(StepState.WAIT, text, progress=roll.progress, streak=1, stuck=_late(roll, restart))
        if not read:
            return replace(seen, streak=0)
        made = attempts(roll.step, restart.broker, roll.journal)
        again = entry.state is IntentState.VOID and len(roll.journal) < static_settings.JOURNAL
        if again and static_settings.approved_again(made, roll.watch.approvals, roll.watch.required, roll.watch.skew):
            return _sparing(roll, restart) or _due(roll, restart)
        to_do = static_settings.to_do(roll.plan, restart.broker, read)
        held = replace(seen, message=to_do, streak=None, stuck=to_do)
        if entry.state is IntentState.VOID:
            return held
        return seen if not roll.watch.seen else replace(held, void=(entry.id,))
    return None


def _back(roll: _Roll, begun: Sequence[BrokerRestart]) -> StepReport:
    """All that were begun are back in this look."""
    watch, ids = roll.watch, some([r.broker for r in begun])
    seen = watch.seen + 1
    message = f"broker {ids} is back, seen {min(seen, watch.needed)} of {many(watch.needed, 'time')} in a row"
    untold = _canary(roll.snapshot, {r.broker for r in begun}, watch.since)
    late = next((late for r in begun if (late := _late(roll, r))), None) if untold else None
    if untold:
        message = f"{message}; {untold}"
    if seen < watch.needed or untold:
        stuck = late and f"{late}: {untold}"
        streak = min(seen, watch.needed)
        return StepReport(StepState.WAIT, message, progress=roll.progress, streak=streak, stuck=stuck)
    ids_done = tuple(roll.entry(r).id for r in begun)
    return StepReport(StepState.WAIT, message, progress=roll.progress, observed=ids_done, streak=0)


def _canary(snapshot: Snapshot, brokers: set[int], since: datetime | None) -> str | None:
    """What the canary has not shown yet: a record through every partition of its own that these brokers have a replica
    of, later than `since`, when they were first seen back. None: it has, or the KafkaCluster asks for no canary."""
    source = snapshot.source("canary")
    if source is None:
        return None
    if not source.known or snapshot.canary is None:
        return f"the canary could not be read: {source.error or 'no reason given'}"
    probes = {TopicPartition(r["topic"], r["partition"]): r for r in snapshot.canary.to_pylist()}
    if not probes:
        return "the canary has measured no partition yet"
    for row in snapshot.rows(set(probes)):
        replicas = known_ids(row.replicas)
        if replicas is not None and not replicas & brokers:
            continue
        probe = probes[row.tp]
        if probe["consecutiveFailures"]:
            return f"the canary fails through {row.tp}: {probe['lastError'] or 'no reason given'}"
        through = probe["lastOkAt"]
        if since is None or through is None or parse_timestamp(through) < since:
            return f"no canary record has succeeded on {row.tp} since then"
    return None


def _late(roll: _Roll, restart: BrokerRestart) -> str | None:
    passed = (roll.watch.now - roll.entry(restart).intended_at).total_seconds()
    if passed <= roll.settings.broker_within:
        return None
    limit = format_duration(roll.settings.broker_within)
    return f"broker {restart.broker} is not back {passed:.0f} s after the start of its restart (limit {limit})"


def _due(roll: _Roll, restart: BrokerRestart) -> StepReport:
    id_, uid = due(roll.step, restart, roll.journal, roll.snapshot)
    entry = roll.journal.get(id_)
    apart = any(v.id == restart.broker for v in roll.snapshot.controllers_apart())
    asks = roll.watch.strimzi_apart if apart else roll.watch.strimzi
    strimzi = asks if entry is None else strimzi_restart.by_annotation(entry)
    words = f": {restart.reason}" if restart.reason else ""
    if roll.plan.part(Restarts).drains and (led := sum(1 for _ in led_by(roll.snapshot, {restart.broker}))):
        words = f"{words}; {many(led, 'leadership')} outside the plan moves when it stops"
    return StepReport(
        StepState.ACT,
        f"restarting broker {restart.broker} (Pod {restart.pod}){words}",
        intent=RestartPod(id_, restart.broker, restart.pod, uid, strimzi),
        target=restart.pod,
        saved=strimzi_restart.saved(restart.pod, roll.snapshot.pod_of(restart.broker)) if strimzi else {},
        progress=roll.progress,
    )


def _voter(voter: Voter | None, snapshot: Snapshot) -> str | None:
    """What a controller that is no broker lacks: it is back when it follows the quorum's leader, or leads it."""
    pod = voter.pod if voter else None
    if voter is None or pod is None or pod.deleting:
        return _podless(snapshot.unplaced_controllers)
    if pod.ready is not True:
        return f"Pod {pod.name} is not Ready yet"
    leader = snapshot.quorum.leader if snapshot.quorum else None
    if leader is None or leader < 0:
        return "the quorum's leader is not known"
    if voter.id != leader and (voter.last_caught_up_ms is None or voter.last_caught_up_ms >= FETCH_TIMEOUT_MS):
        return "not caught up with the quorum's leader yet"
    return None


def _podless(unplaced: Sequence[Pod]) -> str:
    silent = some([pod.name for pod in unplaced], 3)
    return f"no Pod has answered as it yet (silent: {silent})" if unplaced else "it has no Pod yet"


def _process(broker: Broker, snapshot: Snapshot) -> str | None:
    pod = broker.pod
    if pod is None or pod.deleting:
        return _podless(snapshot.unplaced)
    if broker.registered is not True or broker.reachable is not True:
        return "not registered yet" if broker.registered is not True else "it does not answer yet"
    if broker.recovering is not False:
        return "recovering its log" if broker.recovering else "whether it is recovering its log is not known"
    if pod.ready is not True:
        return f"Pod {pod.name} is not Ready yet"
    return None


def _unread(snapshot: Snapshot, name: str) -> bool:
    source = snapshot.source(name)
    return source is None or not source.known
