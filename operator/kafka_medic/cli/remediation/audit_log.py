"""The audit log of a run: who requested it, who decided what, and its effects with what was there before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from kafka_medic.resources.approval import RemediationApproval
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_status import IntentState, JournalEntry

OPERATOR = "operator"
Event = dict[str, Any]
Timed = tuple[datetime | None, Event]


def audit_log(run: Remediation, approvals: Sequence[RemediationApproval] = ()) -> list[Event]:
    """`approvals`: the approvals that name this run, those of its earlier plans too, which its status no longer holds.

    Events `{at, who, what, detail}`, effects with `id`, `target` and `saved` besides; oldest first. Where two are of
    the same second, the one that had to come first comes first. A time that is not known stands last and is absent."""
    events = [*_requested(run), *_decided(run, approvals), *_done(run)]
    # Creation timestamps are in whole seconds; the operator's own moments are not.
    events.sort(key=lambda e: (e[0] is None, e[0].replace(microsecond=0).timestamp() if e[0] else 0.0))
    return [{"at": _text(at), **event} if at is not None else event for at, event in events]


def _requested(run: Remediation) -> Iterator[Timed]:
    spec, plan, created = run.spec, run.status.plan, run.metadata.creation_timestamp
    why = f"playbook {spec.playbook.name} ({spec.playbook.digest}) for KafkaCluster {spec.cluster_ref.name}"
    if spec.parameters:
        why += ", with " + ", ".join(f"{k}={v}" for k, v in sorted(spec.parameters.items()))
    if spec.cause is not None:
        yield _event(created, OPERATOR, "Proposed", f"{why}, finding {spec.cause.finding_id}")
    else:
        yield _event(created, spec.requested_by or "", "Requested", why)
    if plan is not None:
        first = plan.summary.split("\n", 1)[0]
        more = {"planDigest": plan.digest, "expiresAt": _text(plan.expires_at)}
        yield _event(plan.proposed_at, OPERATOR, "Planned", first, **more)


def _decided(run: Remediation, approvals: Sequence[RemediationApproval]) -> Iterator[Timed]:
    for record in run.status.approvals:
        fields = {"counted": record.counted, "approval": record.name, "approvalUid": record.uid}
        yield _event(record.at, record.approver, record.decision.value, record.reason, **fields)
    recorded = {record.uid for record in run.status.approvals}
    for approval in approvals:
        if approval.spec.remediation_ref.uid == run.uid and approval.uid not in recorded:
            unseen: Event = {"approval": approval.name, "approvalUid": approval.uid}
            if run.status.plan is not None and approval.spec.plan_digest == run.status.plan.digest:
                detail = f"{approval.spec.reason} (not yet read by the operator)".lstrip()
            else:
                detail, unseen["counted"] = f"about another plan, {approval.spec.plan_digest}", False
            yield _event(
                approval.metadata.creation_timestamp,
                approval.spec.approver,
                approval.spec.decision.value,
                detail,
                **unseen,
            )


def _done(run: Remediation) -> Iterator[Timed]:
    status = run.status
    if status.started_at is not None:
        yield _event(status.started_at, OPERATOR, "Started", f"approved by {status.approved_by or 'unknown'}")
    for step in status.steps:
        if step.started_at is not None:
            yield _event(step.started_at, OPERATOR, "StepStarted", step.name)
    for entry in status.journal:
        yield _event(entry.intended_at, OPERATOR, "Intended", _effect(entry), **_evidence(entry))
        if entry.state is not IntentState.INTENDED:
            yield _event(entry.done_at, OPERATOR, entry.state.value, _effect(entry), id=entry.id)
    for step in status.steps:
        if step.finished_at is not None:
            detail = f"{step.name}: {step.message}".rstrip(": ")
            yield _event(step.finished_at, OPERATOR, f"Step{step.phase.value}", detail)
    if status.finished_at is not None:
        yield _event(status.finished_at, OPERATOR, str(status.phase), status.message)


def _event(at: datetime | None, who: str, what: str, detail: str, **more: Any) -> Timed:
    return at, {"who": who, "what": what, "detail": detail, **more}


def _effect(entry: JournalEntry) -> str:
    return f"{entry.kind} {entry.target}".rstrip() + (f": {entry.detail}" if entry.detail else "")


def _evidence(entry: JournalEntry) -> Event:
    found: Event = {"id": entry.id, "step": entry.step, "target": entry.target}
    if entry.target_uid:
        found["targetUid"] = entry.target_uid
    if entry.saved:
        found["saved"] = entry.saved_values()
    return found


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
