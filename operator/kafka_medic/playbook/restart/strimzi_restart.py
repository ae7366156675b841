"""Restarts that Strimzi is asked for by an annotation on the Pod. Strimzi acts on it when it next reconciles, minutes
later or never, so the annotation is something that the run holds: from its intent on, until the Pod is another one or
the annotation is seen to be off. However the run ends, the annotation is taken off first.

Strimzi lists the annotated Pods once a reconcile and restarts them afterwards, without a second look at the annotation
(KafkaReconciler.manualRollingUpdate). So a restart may still come for a while after the annotation was taken off.

The journal has room for the entry of that: while a restart is pending, what was to follow it has no entries yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_medic.cluster.snapshot import Pod, Snapshot
from kafka_medic.guard.evaluate import some
from kafka_medic.playbook.effects import CallOffRestarts, RestartPod
from kafka_medic.playbook.holding import ON_ITS_WAY, SENT_WITHIN
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.resources.kafkacluster import STRIMZI_ROLL
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.remediation_status import IntentState, JournalEntry


def saved(pod: str, now: Pod | None) -> dict[str, str | None]:
    """What the journal keeps of a Pod that Strimzi is about to be asked to restart: the annotation as it was."""
    return {annotation(pod): "true" if now is not None and now.restart_asked else None}


def by_annotation(entry: JournalEntry) -> bool:
    """Whether it is a restart that Strimzi is asked for."""
    return annotation(entry.target) in entry.saved_values()


def asked_for(journal: Iterable[JournalEntry]) -> frozenset[str]:
    """uids of the Pods that carry the annotation because of this run."""
    return frozenset(e.target_uid for e in journal if _ours(e) and e.target_uid)


def owed(journal: Iterable[JournalEntry]) -> bool:
    """Whether a Pod may carry an annotation of ours."""
    entries = {e.id: e for e in journal}
    pending = [e for e in entries.values() if _ours(e)]
    return any((off := entries.get(_off(e.step))) is None or off.state is not IntentState.DONE for e in pending)


def undo(step: str, _: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """The clean end of a run that is given up. Once it is REACHED its message says what was called off and what had
    begun, and is empty where nothing was asked for."""
    pending = [e for e in journal.values() if e.step == step and _ours(e)]
    off = journal.get(_off(step))
    if not pending or (off is not None and off.state is IntentState.DONE):
        return StepReport(StepState.REACHED, "")
    source = snapshot.source("kubernetes")
    if source is None or not source.known or snapshot.brokers is None:
        message = f"the restart annotation of {_names(pending)} is not yet removed: the Pods could not be read"
        return StepReport(StepState.UNKNOWN, message, restores=True)
    there = {e.id: pod for e in pending if (pod := _as_planned(e, snapshot)) is not None}
    if due := [e for e in pending if e.id in there and there[e.id].restart_asked is not False]:
        return StepReport(
            StepState.ACT,
            f"removing the restart annotation of {_names(due)}",
            intent=CallOffRestarts(_off(step), tuple((e.target, e.target_uid or "") for e in due)),
            target=_names(due),
            restores=True,
        )
    seen = () if off is None else (off.id,)
    for entry in pending:
        if entry.id not in there:
            continue
        sent = (snapshot.taken_at - entry.last_asked).total_seconds()
        if off is None and sent < SENT_WITHIN + ON_ITS_WAY:
            message = f"the restart annotation of Pod {entry.target} may still arrive"
            return StepReport(StepState.WAIT, message, restores=True)
        if off is not None and (snapshot.taken_at - off.last_asked).total_seconds() < ON_ITS_WAY:
            message = f"the restart annotation of {_names(pending)} is removed, but Strimzi may have read it"
            return StepReport(StepState.WAIT, message, restores=True)
    told = []
    if off is not None and there:
        told.append(f"the restart annotation of {_names(e for e in pending if e.id in there)} is removed")
    if len(there) < len(pending):
        told.append(f"{_names(e for e in pending if e.id not in there)} had begun to restart")
    return StepReport(StepState.REACHED, "; ".join(told), observed=seen)


def _ours(entry: JournalEntry) -> bool:
    asked = entry.kind == RestartPod.__name__ and entry.state is IntentState.INTENDED
    return asked and by_annotation(entry) and entry.saved_values()[annotation(entry.target)] is None


def _as_planned(entry: JournalEntry, snapshot: Snapshot) -> Pod | None:
    """The very Pod, if it is there and stays."""
    return next((p for p in snapshot.every_pod() if p.uid == entry.target_uid and not p.deleting), None)


def annotation(pod: str) -> str:
    """The journal's name for the annotation of that Pod."""
    return f"POD/{pod}/{STRIMZI_ROLL}"


def _off(step: str) -> str:
    return f"{step}/call-off"


def _names(entries: Iterable[JournalEntry]) -> str:
    return f"Pod {some(sorted(e.target for e in entries), 5)}"
