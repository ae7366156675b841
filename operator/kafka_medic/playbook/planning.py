"""From a playbook and a Snapshot to a plan that a person can read and a digest that they approve."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.decision import Answers
from kafka_medic.playbook.leadership.drain_plan import drain_plan
from kafka_medic.playbook.leadership.election_plan import election_plan
from kafka_medic.playbook.offsets.reset_plan import reset_plan
from kafka_medic.playbook.offsets.undo_plan import undo_plan
from kafka_medic.playbook.parameters import (
    adds_replicas,
    brings_leaders,
    check,
    check_values,
    raises_defaults,
    raises_minimums,
    removes_throttles,
    sets_offsets,
)
from kafka_medic.playbook.planned_topics import identified
from kafka_medic.playbook.reassign.raise_plan import raise_plan
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.playbook.restart.restart_plan import restart_plan
from kafka_medic.playbook.settings.defaults_plan import defaults_plan
from kafka_medic.playbook.settings.min_isr_plan import min_isr_plan
from kafka_medic.playbook.settings.throttle_plan import throttle_plan
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.vocabulary import Action, Guard


def restarts(playbook: Playbook) -> bool:
    """Whether it is a playbook that restarts brokers."""
    return any(step.action is Action.RESTART_BROKERS for step in playbook.spec.steps)


def propose(
    run: Remediation,
    cluster: KafkaCluster,
    playbook: Playbook,
    snapshot: Snapshot,
    now: datetime,
    others: Sequence[OtherRun] | None = (),
    pending: Collection[str] = (),
    answers: Answers | None = None,
    files: str | None = None,
) -> Plan | Refusal:
    """The whole plan, or why there is none. What the playbook's steps do decides which kind of plan it is. `pending`:
    ids of findings that have not lasted yet. `answers`: what a plan about offsets asked for. `files`: the directory for
    plans that are too long for a Remediation."""
    try:
        check(playbook)
        check_values(playbook, run.spec.parameters)
    except ResourceError as problem:
        return Refusal(str(problem), permanent=True)
    if not snapshot.cluster.id:
        message = "the cluster did not tell its id, without which a plan cannot say which cluster it is for"
        return Refusal(message, (Reason(Guard.PRECONDITIONS_HOLD.value, Verdict.UNKNOWN, message),))
    found = _plan(run, cluster, playbook, snapshot, now, others, pending, answers or Answers(), files)
    return found if isinstance(found, Refusal) else identified(run, found, snapshot)


def _plan(
    run: Remediation,
    cluster: KafkaCluster,
    playbook: Playbook,
    snapshot: Snapshot,
    now: datetime,
    others: Sequence[OtherRun] | None,
    pending: Collection[str],
    answers: Answers,
    files: str | None,
) -> Plan | Refusal:
    if raises_defaults(playbook):
        return defaults_plan(run, cluster, playbook, snapshot, now, pending)
    if raises_minimums(playbook):
        return min_isr_plan(run, cluster, playbook, snapshot, now)
    if removes_throttles(playbook):
        return throttle_plan(run, cluster, playbook, snapshot, now)
    if brings_leaders(playbook) is not None:
        return drain_plan(run, cluster, playbook, snapshot, others, now)
    offsets = sets_offsets(playbook)
    if offsets is not None and offsets.action is Action.RESET_OFFSETS:
        return reset_plan(run, cluster, playbook, snapshot, answers, now)
    if offsets is not None:
        return undo_plan(run, cluster, playbook, snapshot, others, answers, now)
    if adds_replicas(playbook):
        return raise_plan(run, cluster, playbook, snapshot, now, files)
    if any(step.action is Action.ELECT_PREFERRED_LEADERS for step in playbook.spec.steps):
        return election_plan(run, cluster, playbook, snapshot, now)
    if restarts(playbook):
        return restart_plan(run, cluster, playbook, snapshot, now, pending)
    return raise_plan(run, cluster, playbook, snapshot, now)
