"""RestartBrokers: one broker after the other, the next only when the last one is back in everything it was in.

For each broker the journal and a snapshot can say:

1. no entry: its turn has not come, or it is the next; its Pod is the one that was planned.
2. an entry `restart-B`, and the planned Pod is still there: sent and unseen, or never sent. It is asked for again; the
   Pod's uid makes that harmless.
3. an entry, and another Pod, or none: it has happened. Until the broker is registered and answers, its log recovered,
   every view agrees, and it is in the ISR of every partition it has a replica of, so many times in a row, nothing else
   is touched.
4. the entry is Done: it was seen so. Never again in this run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kafka_medic.cluster.snapshot import Broker, Snapshot
from kafka_medic.guard.context import RestartContext, RestartQuestion
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.rows import known_ids, target_of, troubled_rows
from kafka_medic.guard.verdict import Verdict
from kafka_medic.guard.views import views_agree
from kafka_medic.playbook.intents import RestartPod
from kafka_medic.playbook.parameters import RestartParameters
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.playbook.restart_order import next_broker
from kafka_medic.resources.durations import format_duration
from kafka_medic.resources.remediation_plan import BrokerRestart, Plan
from kafka_medic.resources.remediation_status import IntentState, JournalEntry, Progress


@dataclass(frozen=True, slots=True)
class Watch:
    """How long a broker is watched after its restart: `seen` observations in a row so far of `needed`."""

    seen: int
    needed: int
    now: datetime


def intent_id(step: str, broker: int) -> str:
    """The journal id of a broker's restart."""
    return f"{step}/restart-{broker}"


def assess(
    step: str,
    plan: Plan,
    journal: Mapping[str, JournalEntry],
    snapshot: Snapshot,
    settings: RestartParameters,
    watch: Watch,
) -> StepReport:
    """Where the step stands. At most one broker is ever between its restart and its recovery."""
    entries = {r.broker: journal.get(intent_id(step, r.broker)) for r in plan.restarts}
    done = [r for r in plan.restarts if _is(entries[r.broker], IntentState.DONE)]
    progress = Progress(done=len(done), total=len(plan.restarts), unit="brokers")
    if not plan.restarts:
        return StepReport(StepState.REACHED, "no broker is to be restarted")
    if snapshot.brokers is None or (snapshot.source("kubernetes") is None or _unread(snapshot, "kubernetes")):
        return StepReport(StepState.UNKNOWN, "the brokers' Pods could not be read", progress=progress)
    left = [r for r in plan.restarts if entries[r.broker] is None]
    begun = next((r for r in plan.restarts if _is(entries[r.broker], IntentState.INTENDED)), None)
    if begun is not None:
        entry = entries[begun.broker]
        assert entry is not None
        still_stale = frozenset(r.broker for r in left if r.stale)
        return _begun(step, begun, entry, still_stale, snapshot, settings, watch, progress)
    if not left:
        return StepReport(StepState.REACHED, f"{len(done)} brokers were restarted and are back", progress=progress)
    if moved := next(iter(other_pods(left, snapshot)), None):
        return StepReport(StepState.DRIFTED, moved, progress=progress)
    target = next_broker(snapshot, [r.broker for r in left])
    return _due(step, next(r for r in left if r.broker == target), progress)


def other_pods(restarts: Sequence[BrokerRestart], snapshot: Snapshot) -> list[str]:
    """Brokers whose Pod somebody else replaced since the plan was made. One whose Pod is not there at all is for the
    guards: nothing is restarted while it is away."""
    found = []
    for restart in restarts:
        broker = snapshot.broker(restart.broker)
        pod = broker.pod if broker else None
        if pod is not None and pod.uid is not None and pod.uid != restart.pod_uid:
            found.append(f"broker {restart.broker} runs in another Pod now (uid {pod.uid}) than the plan saw")
    return found


def context(step: str, plan: Plan, journal: Mapping[str, JournalEntry], broker: int) -> RestartContext:
    """What the guards are told of the run: who else is still to come, and whose stale view it is there to cure."""
    left = {r.broker: r for r in plan.restarts if not _is(journal.get(intent_id(step, r.broker)), IntentState.DONE)}
    return RestartContext(
        remaining=frozenset(b for b in left if b != broker),
        cures=frozenset(b for b, restart in left.items() if restart.stale),
    )


def not_back(snapshot: Snapshot, broker: int, still_stale: frozenset[int]) -> str | None:
    """What a restarted broker still lacks; None when it is back in everything. What cannot be told is lacking."""
    found = snapshot.broker(broker)
    if found is None:
        return "not registered yet"
    lacking = _process(found)
    if lacking:
        return lacking
    rows = troubled_rows(snapshot, broker)
    if rows is None:
        return "its partitions could not be read"
    behind = []
    for row in rows:
        replicas, isr = target_of(row), known_ids(row.isr)
        if replicas is None or isr is None:
            return f"the ISR of {row.tp} could not be read"
        if broker in replicas and broker not in isr:
            behind.append(row.tp)
    if behind:
        return f"not in the ISR of {len(behind)} partitions yet: {some(behind, 3)}"
    # Asked in the name of one that is still stale: its kind may differ, the broker that is back may not.
    question = RestartQuestion(min(still_stale, default=broker), RestartContext(cures=still_stale), rows)
    differing = [r.message for r in views_agree(snapshot, question) if r.verdict is not Verdict.ALLOW]
    mine = next((v for v in snapshot.views or () if v.broker == broker), None)
    if mine is None or mine.members is None or mine.leaders is None:
        return "it has not told its view of the cluster yet"
    if differing:
        return f"the views do not agree yet: {differing[0]}"
    return None


def _begun(
    step: str,
    restart: BrokerRestart,
    entry: JournalEntry,
    still_stale: frozenset[int],
    snapshot: Snapshot,
    settings: RestartParameters,
    watch: Watch,
    progress: Progress,
) -> StepReport:
    found = snapshot.broker(restart.broker)
    pod = found.pod if found else None
    since = (watch.now - entry.intended_at).total_seconds()
    late = None
    if since > settings.broker_within:
        limit = format_duration(settings.broker_within)
        late = f"broker {restart.broker} is not back {since:.0f} s after its restart was begun (limit {limit})"
    if pod is not None and pod.uid == restart.pod_uid:
        if pod.deleting is not True:
            return _due(step, restart, progress)
        message = f"broker {restart.broker}: Pod {restart.pod} is stopping"
        return StepReport(StepState.WAIT, message, progress=progress, streak=0, stuck=late)
    id_ = intent_id(step, restart.broker)
    lacking = not_back(snapshot, restart.broker, still_stale)
    if lacking:
        message = f"broker {restart.broker} was restarted: {lacking}"
        return StepReport(StepState.WAIT, message, progress=progress, streak=0, stuck=late and f"{late}: {lacking}")
    seen = watch.seen + 1
    message = f"broker {restart.broker} is back, seen {seen} of {watch.needed} times in a row"
    if seen < watch.needed:
        return StepReport(StepState.WAIT, message, progress=progress, streak=seen)
    ahead = progress.model_copy(update={"done": progress.done + 1})
    return StepReport(StepState.WAIT, message, progress=ahead, observed=(id_,), streak=0)


def _due(step: str, restart: BrokerRestart, progress: Progress) -> StepReport:
    intent = RestartPod(intent_id(step, restart.broker), restart.broker, restart.pod, restart.pod_uid)
    words = f": {restart.reason}" if restart.reason else ""
    return StepReport(
        StepState.ACT,
        f"restarting broker {restart.broker} (Pod {restart.pod}){words}",
        intent=intent,
        target=restart.pod,
        progress=progress,
    )


def _process(broker: Broker) -> str | None:
    pod = broker.pod
    if pod is None or pod.deleting:
        return "it has no Pod yet"
    if broker.registered is not True or broker.reachable is not True:
        return "not registered yet" if broker.registered is not True else "it does not answer yet"
    if broker.recovering is not False:
        return "recovering its log" if broker.recovering else "whether it is recovering its log is not known"
    if pod.ready is not True:
        return f"Pod {pod.name} is not Ready yet"
    return None


def _is(entry: JournalEntry | None, state: IntentState) -> bool:
    return entry is not None and entry.state is state


def _unread(snapshot: Snapshot, name: str) -> bool:
    source = snapshot.source(name)
    return source is None or not source.known
