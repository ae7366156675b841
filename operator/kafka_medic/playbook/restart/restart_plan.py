"""The plan of a playbook that restarts brokers: which Pods, in which order, and what stands against it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from kafka_medic.cluster.agreement import agreement
from kafka_medic.cluster.elements import on_failed_directory
from kafka_medic.cluster.snapshot import Broker, Mode, Snapshot, TopicPartition
from kafka_medic.guard.context import RestartContext
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.restart import judge_restart
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.playbook.restart import drain_first_plan, resign_step
from kafka_medic.playbook.restart.order import active_controller, restart_order, stale_brokers, why
from kafka_medic.playbook.restart.parameters import CONTROLLER, RestartParameters, rescue_topic, restart_parameters
from kafka_medic.report.units import many
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import (
    MAX_INLINE_CHANGES,
    MAX_RESTARTS,
    BrokerRestart,
    Plan,
    Rescue,
    Rescues,
    Restarts,
)
from kafka_medic.resources.vocabulary import ActionName, Guard


def restart_plan(request: PlanRequest, *, only: frozenset[int] | None = None) -> Plan | Refusal:
    """The whole plan, its digest included, or why not. What no wait can cure (a topic with no replica to spare, a
    quorum of one) is said now; what only has to be waited for is asked again before each restart. `only`: which
    brokers, where no parameter says so."""
    run, playbook, snapshot = request.run, request.playbook, request.snapshot
    if snapshot.partitions is None or snapshot.brokers is None:
        return unread(snapshot)
    if request.cluster.spec.brokers is None:
        return Refusal(
            "the KafkaCluster has no spec.brokers.podSelector, so the brokers' Pods are not known; set it",
            permanent=True,
        )
    step = next(s for s in playbook.spec.steps if s.action is ActionName.RESTART_BROKERS)
    settings = restart_parameters(playbook, step, run.spec.parameters)
    if resign_step.resigns(run, settings, snapshot):
        return resign_step.resignation_plan(request)
    wanted = _wanted(run, settings, snapshot) if only is None else only
    if isinstance(wanted, Refusal):
        return wanted
    restarts = _restarts(request, wanted)
    if isinstance(restarts, Refusal):
        return restarts
    against = _against(restarts, settings, snapshot, request.now)
    if against:
        return Refusal("; ".join(r.message for r in against[:3]), against)
    rescues = _rescues(playbook, snapshot, wanted)
    if isinstance(rescues, Refusal):
        return rescues
    topic = _rescue_topic(run, playbook) if rescues else None
    drains = drain_first_plan.drains(run, settings, snapshot, restarts)
    if isinstance(drains, Refusal):
        return drains
    plan = request.draft(
        Restarts(restarts=tuple(restarts), drains=drains),
        Rescues(rescues=rescues, rescue_topic=topic),
        words={
            ActionName.RESCUE_RECORDS: _rescue_sentence(rescues, topic),
            ActionName.RESTART_BROKERS: _restart_sentence(restarts, settings),
        },
    )
    text = [drain_first_plan.meanwhile(run, settings, r, drains) for r in restarts]
    plan = plan.model_copy(update={"summary": _summary(restarts, text, settings, rescues, topic)})
    return request.sealed(plan)


def _restarts(request: PlanRequest, wanted: frozenset[int]) -> list[BrokerRestart] | Refusal:
    """In order, each with the Pod that it is in now."""
    snapshot = request.snapshot
    stale = stale_brokers(snapshot)
    if passing := sorted(b for b in stale & wanted if any(_names(finding, b) for finding in request.pending)):
        # An election that is on its way looks like this: a plan would save records that are nobody's alone.
        message = f"the view of broker {some(passing)} became stale recently; the plan follows if it lasts"
        return Refusal(message, (Reason(Guard.VIEWS_AGREE, Verdict.WAIT, message),))
    restarts = []
    for broker_id in restart_order(snapshot, wanted):
        pod = snapshot.pod_of(broker_id)
        if pod is None or pod.uid is None:
            message = f"the Pod of broker {broker_id} is not known, so it cannot be restarted"
            return Refusal(message, unread(snapshot).reasons)
        if pod.hindrance:
            return Refusal(f"broker {broker_id} cannot be restarted: {pod.hindrance}")
        restarts.append(
            BrokerRestart(
                broker=broker_id,
                pod=pod.name,
                pod_uid=pod.uid,
                node=pod.node,
                stale=broker_id in stale,
                reason=why(snapshot, broker_id),
            )
        )
    return restarts


def _names(finding: str, broker: int) -> bool:
    """Whether the finding of that id says that this broker is on the wrong side."""
    return finding in (f"ViewDiverged/broker-{broker}", f"BrokerZombie/broker-{broker}")


def _wanted(run: Remediation, settings: RestartParameters, snapshot: Snapshot) -> frozenset[int] | Refusal:
    """The brokers that the parameter `brokers` stands for."""
    controllers = snapshot.controllers_apart()
    present = frozenset(b.id for b in snapshot.brokers or ()) | {v.id for v in controllers}
    match settings.brokers:
        case "all":
            # Controllers whose Pods the KafkaCluster does not name are somebody else's to restart.
            wanted = present - {v.id for v in controllers if v.pod is None}
        case "controller":
            controller = active_controller(snapshot)
            if controller is None:
                return Refusal("active controller unknown")
            wanted = frozenset({controller})
        case "cause":
            named = run.spec.cause.finding_id.rpartition("/broker-")[2] if run.spec.cause else ""
            if not named.isdigit():
                message = "the run names no finding about one broker; set the parameter brokers to a broker's id"
                return Refusal(message, permanent=True)
            wanted = frozenset({int(named)})
        case ids:
            parts = [part.strip() for part in ids.split(",")]
            if not all(part.isdigit() for part in parts):
                message = f"parameter brokers is {ids!r}; write all, controller, cause, or broker ids such as 1,3"
                return Refusal(message, permanent=True)
            wanted = frozenset(map(int, parts))
    if strangers := sorted(wanted - present):
        known = ", ".join(map(str, sorted(present)))
        message = f"broker {', '.join(map(str, strangers))} does not exist; the brokers are {known}"
        return Refusal(message, permanent=settings.brokers not in ("cause", "controller"))
    if not wanted:
        return Refusal("the cluster has no brokers to restart", nothing_to_do=True)
    if len(wanted) > MAX_RESTARTS:
        message = f"{len(wanted)} brokers exceed the limit of {MAX_RESTARTS} per run; name some in brokers"
        return Refusal(message, permanent=True)
    return wanted


def _against(
    restarts: list[BrokerRestart], settings: RestartParameters, snapshot: Snapshot, now: datetime
) -> tuple[Reason, ...]:
    """What denies the first restart as things stand, and any later one as things will stand when its turn comes: those
    before it back in everything and every replica in sync, since nothing goes on before that."""
    stale = frozenset(r.broker for r in restarts if r.stale)
    asked = RestartContext(cures=stale, replaces_controller=settings.brokers == CONTROLLER)
    found: dict[str, Reason] = {}
    for index, restart in enumerate(restarts):
        then = snapshot if index == 0 else _by_then(snapshot, frozenset(r.broker for r in restarts[:index]))
        judged = judge_restart(then, restart.broker, now, context=asked)
        for reason in judged.refusals:
            # A divergence that one restart is there to cure stands against the others only until it is cured.
            if reason.verdict is Verdict.DENY and not (stale and reason.guard is Guard.VIEWS_AGREE):
                found.setdefault(reason.message, reason)
    return tuple(found.values())


def _rescues(playbook: Playbook, snapshot: Snapshot, wanted: frozenset[int]) -> tuple[Rescue, ...] | Refusal:
    """What only the brokers that are to be restarted hold. Without a step that saves it there is nothing to count; with
    one, what cannot be measured holds the plan back: a restart would throw it away unseen."""
    if not any(step.action is ActionName.RESCUE_RECORDS for step in playbook.spec.steps):
        return ()
    found = []
    for view in snapshot.views or ():
        if view.broker not in wanted or view.leaders is None:
            continue
        if view.diverged is None:
            return Refusal(
                f"which records only broker {view.broker} holds could not be measured", unread(snapshot).reasons
            )
        for log in view.diverged:
            if log.records is None:
                why_not = _unserved(snapshot, log.tp)
                message = f"how many records of {log.tp} only broker {view.broker} holds is not known: {why_not}"
                return Refusal(message, (Reason(Guard.PRECONDITIONS_HOLD, Verdict.UNKNOWN, message),))
            if log.records and log.shared_end is not None and log.log_end is not None:
                found.append(
                    Rescue(
                        broker=view.broker,
                        topic=log.topic,
                        partition=log.partition,
                        epoch=log.epoch,
                        from_offset=log.shared_end,
                        to_offset=log.log_end,
                    )
                )
    if len(found) > MAX_INLINE_CHANGES:
        return Refusal(
            f"{many(len(found), 'partition has', 'partitions have')} records that only a stale broker holds; first "
            "save them by hand"
        )
    return tuple(found)


def _unserved(snapshot: Snapshot, tp: TopicPartition) -> str:
    leader = next((row.leader for row in snapshot.rows({tp})), None)
    if leader in agreement(snapshot).disagreements:
        return f"broker {leader} is leader but stale; delete its Pod"
    return "it has no leader"


def _rescue_topic(run: Remediation, playbook: Playbook) -> str:
    """A topic of its own for each run, so that what is in it tells whether this run is done."""
    step = next(s for s in playbook.spec.steps if s.action is ActionName.RESCUE_RECORDS)
    return f"{rescue_topic(playbook, step, run.spec.parameters)}.{(run.uid or run.name)[:8]}"


def _by_then(snapshot: Snapshot, restarted: frozenset[int]) -> Snapshot:
    """What a later restart waits for: these are registered again, answer, and have caught up; every replica is in
    sync that is not on a failed log directory."""
    assert snapshot.partitions is not None  # restart_plan saw to it
    column = snapshot.partitions.schema.get_field_index("isr")
    field = snapshot.partitions.schema.field(column)
    brokers, quorum, views = snapshot.brokers, snapshot.quorum, snapshot.views
    if brokers is not None:
        back = {b.id for b in brokers if b.id in restarted and not b.registered}
        views = views and tuple(v if v.members is None else replace(v, members=_with(v.members, back)) for v in views)
        brokers = tuple(_back(b) if b.id in restarted else b for b in brokers)
    if quorum is not None:
        voters = (replace(v, lag=0, last_caught_up_ms=0) if v.id in restarted else v for v in quorum.voters)
        quorum = replace(quorum, voters=tuple(voters)) if snapshot.cluster.mode is Mode.KRAFT else quorum
    partitions = snapshot.partitions.set_column(column, field, _in_sync_by_then(snapshot))
    return replace(snapshot, partitions=partitions, brokers=brokers, quorum=quorum, views=views)


def _with(members: tuple[int, ...], back: set[int]) -> tuple[int, ...]:
    return tuple(sorted({*members, *back}))


def _in_sync_by_then(snapshot: Snapshot) -> pa.ChunkedArray[Any] | pa.Array[Any]:
    assert snapshot.partitions is not None  # restart_plan saw to it
    replicas: pa.ChunkedArray[Any] = snapshot.partitions["replicas"]
    lost = {(*tp, b.id) for b in snapshot.brokers or () for tp in on_failed_directory(b)}
    if not lost:
        return replicas
    columns: list[list[Any]] = [snapshot.partitions[name].to_pylist() for name in ("topic", "partition")]
    rows = zip(*columns, replicas.to_pylist(), strict=True)
    kept = [ids and [b for b in ids if (topic, number, b) not in lost] for topic, number, ids in rows]
    column: pa.Array[Any] = pa.array(kept, replicas.type)
    return column


def _back(broker: Broker) -> Broker:
    pod = broker.pod and replace(broker.pod, ready=True)
    return replace(broker, registered=True, reachable=True, recovering=False, pod=pod)


def sentence_for_reading(plan: Plan) -> str:
    """What the restarts of a plan do that are there for brokers to read their configuration."""
    own = plan.part(Restarts)
    if not own.restarts:
        return "no broker has to be restarted"
    ids = ", ".join(str(r.broker) for r in own.restarts)
    return (
        f"restart broker {ids}, one at a time, each only when the broker before is back in every ISR and has read "
        "its new configuration"
    )


def _rescue_sentence(rescues: tuple[Rescue, ...], topic: str | None) -> str:
    if not rescues:
        return "no broker holds records that the others lack"
    return f"copy {many(_records(rescues), 'record')} that only a stale broker holds into topic {topic}"


def _restart_sentence(restarts: list[BrokerRestart], settings: RestartParameters) -> str:
    ids = ", ".join(str(r.broker) for r in restarts)
    if settings.max_parallel > 1:
        most = f"at most {settings.max_parallel} at a time"
        return f"restart broker {ids}, {most}, the next only when the brokers before are back in every ISR"
    return f"restart broker {ids}, one at a time, each only when the broker before is back in every ISR"


def _records(rescues: tuple[Rescue, ...]) -> int:
    return sum(r.to_offset - r.from_offset for r in rescues)


def _summary(
    restarts: list[BrokerRestart],
    text: list[str],
    settings: RestartParameters,
    rescues: tuple[Rescue, ...],
    topic: str | None,
) -> str:
    """`told`: for each restart, what becomes of what the broker leads."""
    most = settings.max_parallel
    pace = "one at a time" if most == 1 else f"at most {most} at a time if every partition can spare all of them"
    lines = [
        f"restart {many(len(restarts), 'broker')}, {pace}: {', '.join(str(r.broker) for r in restarts)}",
        "the operator evaluates every guard again right before each restart; the active controller of that "
        "moment restarts last",
    ]
    for restart, moved in zip(restarts, text, strict=True):
        where = f" on {restart.node}" if restart.node else ""
        why = f"; {restart.reason}" if restart.reason else ""
        lines += [f"  broker {restart.broker}: Pod {restart.pod}{where}{why}", *([moved] if moved else [])]
    if rescues:
        lines.append(
            f"first the operator copies {many(_records(rescues), 'record')} that only a stale broker holds into topic "
            f"{topic}; records that this broker accepts after that, until it stops, are lost"
        )
    lines += [
        f"  {r.topic}-{r.partition}: offsets {r.from_offset}..{r.to_offset - 1} of broker {r.broker} (epoch {r.epoch})"
        for r in rescues[:20]
    ]
    return "\n".join(lines)[:8000]
