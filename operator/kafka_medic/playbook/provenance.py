"""Whether a status is the operator's own, and whether an effect is among what its plan names.

A digest is no secret: whoever may write a status can write a plan with the digest that fits it. So a status counts for
as much as what keeps others from writing it: the admission policy for statuses, if it stood before the run was there,
or else a person who has approved that very plan since.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.approval import ApprovalJudgement
from kafka_medic.playbook.effects import (
    CallOffRestarts,
    ChangeSettings,
    ElectPreferred,
    Intent,
    Reassign,
    Reorder,
    RescueRecords,
    ResignController,
    RestartPod,
    ScaleWorkload,
    SetOffsets,
    SettingKey,
    setting_text,
)
from kafka_medic.playbook.plan_digest import digest_fits
from kafka_medic.playbook.plan_file import is_missing
from kafka_medic.playbook.reassign.rate import RATES
from kafka_medic.playbook.reassign.throttle_lists import FOLLOWER_LIST, LEADER_LIST
from kafka_medic.playbook.restart import drain_first
from kafka_medic.playbook.restart.strimzi_restart import annotation
from kafka_medic.resources.admission import Standing
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.vocabulary import Decision, Guard


def forged(run: Remediation) -> str | None:
    """Why the operator cannot have written this status; None where nothing says so."""
    plan = run.status.plan
    if plan is None:
        return "its status has no plan, which somebody else has removed"
    if not digest_fits(run, plan):
        return "the plan in its status is not the one its digest was taken of: somebody else wrote it"
    if [(s.name, s.action) for s in run.status.steps] != [(s.name, s.action) for s in plan.steps]:
        return "the steps in its status are not those of its plan: somebody else wrote them"
    beyond = [] if is_missing(plan) else sorted(_saved(run) - _restorable(plan))
    if beyond:
        return f"its journal would put back {some(beyond, 3)}, which is not in its plan: somebody else wrote it"
    return None


def _saved(run: Remediation) -> set[str]:
    """Settings and annotations; an election's places, say, are nothing that is put back."""
    names = (value.name for entry in run.status.journal for value in entry.saved)
    return {name for name in names if name.startswith(("TOPIC/", "BROKER/", "POD/"))}


def _restorable(plan: Plan) -> set[str]:
    return {setting_text(key) for key in _settings(plan)} | {annotation(r.pod) for r in plan.restarts}


def own_status(run: Remediation, judged: ApprovalJudgement, policies: Standing | None) -> Reason:
    """Whether the status may be believed: else nothing is taken back on its word, nor begun. `judged`: what people say
    about its plan. `policies`: None where they cannot be read."""
    guard = Guard.APPROVAL_VALID.value
    if policies is None:
        return Reason(guard, Verdict.UNKNOWN, "the admission policies could not be read, so its status is not believed")
    if policies.since is None:
        message = (
            "its status is not believed, and nothing is taken back on its word: without the admission policies anybody "
            f"with the right may write it ({policies.why}). Install them again, and approve its plan anew"
        )
        return Reason(guard, Verdict.WAIT, message)
    if policies.covers(run.metadata.creation_timestamp):
        return Reason(guard, Verdict.ALLOW, "nobody but the operator could write its status")
    said = [r for r in judged.records if r.counted and r.decision is Decision.APPROVE]
    if any(policies.covers(record.at) for record in said):
        return Reason(
            guard, Verdict.ALLOW, "its plan was approved while nobody but the operator could write its status"
        )
    way_out = "approve its plan anew"
    if run.status.journal:
        way_out = f"read in `history -o json` what its journal has saved, then {way_out} to have that put back"
    younger = "the admission policies are younger than the run, so others could write its status"
    return Reason(guard, Verdict.WAIT, f"its status is not believed: {younger}; {way_out}")


def beyond_plan(intent: Intent, plan: Plan) -> str | None:
    """What the effect would write that the plan does not name; None: nothing."""
    match intent:
        case ChangeSettings() | ScaleWorkload() | SetOffsets():
            found = _values(intent, plan)
        case Reassign() | Reorder() | ElectPreferred() | RescueRecords():
            found = _partitions(intent, plan)
        case RestartPod() | CallOffRestarts() | ResignController():
            found = _brokers(intent, plan)
        case _:
            assert_never(intent)
    beyond = list(found)
    return f"{intent.describe()}: {some(beyond, 3)} is not in its plan" if beyond else None


def _values(intent: ChangeSettings | ScaleWorkload | SetOffsets, plan: Plan) -> Iterator[str]:
    match intent:
        case ChangeSettings(settings=settings):
            named = set(_settings(plan))
            yield from (setting_text(key) for key in settings if key not in named)
        case ScaleWorkload(name=name, uid=uid, before=before, after=after):
            stopped = plan.workload
            if stopped is None or stopped.uid != uid or {before, after} != {0, stopped.replicas}:
                yield f"workload {name}"
        case SetOffsets(group=group, offsets=offsets):
            commits = {(o.group, TopicPartition(o.topic, o.partition)): o.after for o in plan.offsets}
            asked = ((tp, after.offset) for tp, (_, after) in offsets.items())
            yield from (f"{group} on {tp}" for tp, offset in asked if commits.get((group, tp)) != offset)


def _partitions(intent: Reassign | Reorder | ElectPreferred | RescueRecords, plan: Plan) -> Iterator[str]:
    match intent:
        case Reassign(targets=targets):
            planned = {TopicPartition(c.topic, c.partition): c.replicas for c in plan.changes}
            yield from (str(tp) for tp, to in targets.items() if tp not in planned or to not in (None, planned[tp]))
        case Reorder(orders=wanted):
            orders = {TopicPartition(c.topic, c.partition): (c.replicas_before, c.replicas) for c in plan.reorders}
            orders |= drain_first.orders(plan)
            yield from (str(tp) for tp, to in wanted.items() if to not in orders.get(tp, ()))
        case ElectPreferred(preferred=preferred):
            leaders = {(TopicPartition(e.topic, n), e.broker) for e in plan.elections for n in e.partitions}
            leaders |= {(tp, order[0]) for tp, both in drain_first.orders(plan).items() for order in both}
            yield from (f"{tp} on broker {broker}" for tp, broker in preferred.items() if (tp, broker) not in leaders)
        case RescueRecords(topic=topic, parts=parts):
            known = {(r.broker, TopicPartition(r.topic, r.partition), r.epoch) for r in plan.rescues}
            ours = topic == plan.rescue_topic
            yield from (str(p.tp) for p in parts if not ours or (p.broker, p.tp, p.epoch) not in known)


def _brokers(intent: RestartPod | CallOffRestarts | ResignController, plan: Plan) -> Iterator[str]:
    match intent:
        # A broker that came back as it was is restarted again in the Pod that it has by then.
        case RestartPod(broker=broker, pod=pod):
            if (broker, pod) not in {(r.broker, r.pod) for r in plan.restarts}:
                yield f"Pod {pod}"
        case CallOffRestarts(pods=pods):
            ours = {r.pod for r in plan.restarts}
            yield from (f"Pod {name}" for name, _ in pods if name not in ours)
        case ResignController(broker=broker, epoch=epoch):
            if (broker, epoch) not in {(r.broker, r.epoch) for r in plan.resignations}:
                yield f"controller {broker}"


def _settings(plan: Plan) -> Iterator[SettingKey]:
    """Those that it changes, and those that throttle what it moves."""
    yield from ((c.resource_type.value, c.resource_name, c.name) for c in plan.config_changes)
    brokers = {b for c in plan.changes for b in (*c.replicas, *c.replicas_before)}
    yield from (("BROKER", str(broker), name) for broker in brokers for name in RATES)
    topics = {c.topic for c in plan.changes}
    yield from (("TOPIC", topic, name) for topic in topics for name in (LEADER_LIST, FOLLOWER_LIST))
