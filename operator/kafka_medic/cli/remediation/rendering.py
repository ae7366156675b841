"""A Remediation as text for a terminal. Text of others is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from kafka_medic.cli import output
from kafka_medic.cli.remediation.changes import as_line, changes
from kafka_medic.cluster.names import printable
from kafka_medic.playbook.plan_file import without_file
from kafka_medic.resources.phases import ACTING_PHASES, TERMINAL_PHASES, Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan, ReplicaMoves
from kafka_medic.resources.remediation_status import Progress

MAX_LINES = 40
"""Of a plan's changes, unless all of them are wanted."""
MAX_SUMMARY = 120
BAR = 20
"""Characters of a bar of progress."""


def moment(at: datetime | None, now: datetime) -> str:
    """`2026-01-31 08:00:00 UTC (in 23h)`."""
    if at is None:
        return "-"
    distance = f"in {span(at - now)}" if at > now else f"{span(now - at)} ago"
    return f"{at:%Y-%m-%d %H:%M:%S} UTC ({distance})"


def span(length: timedelta) -> str:
    """Roughly, in the largest unit of which there are two."""
    seconds = int(length.total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def origin(run: Remediation) -> str:
    """Who or what asked for it."""
    if run.spec.cause is not None:
        return f"the operator, for the finding {run.spec.cause.finding_id}"
    return run.spec.requested_by or "nobody named"


def head(run: Remediation, now: datetime, required: int | None) -> str:
    """What it is and how it stands. `required`: approvals that the KafkaCluster asks for; None: not known."""
    status, plan = run.status, run.status.plan
    rows = [
        ("Remediation", f"{run.namespace}/{run.name}"),
        ("cluster", run.spec.cluster_ref.name),
        ("playbook", run.spec.playbook.name),
        ("asked by", origin(run)),
        ("parameters", ", ".join(f"{k}={v}" for k, v in sorted(run.spec.parameters.items())) or "-"),
        ("phase", f"{status.phase or 'not seen by the operator yet'}: {status.message}".rstrip(": ")),
        ("risk", status.risk.value if status.risk else "-"),
    ]
    if status.cures is not None:
        rows.append(("cures", f"{status.cures.finding_id} ({status.cures.severity.value})"))
    if status.holds:
        rows.append(("holds", status.holds))
    if plan is not None:
        rows.append(("plan", plan.digest))
        rows.append(("proposed", moment(plan.proposed_at, now)))
        if status.started_at is None and status.phase not in TERMINAL_PHASES:
            rows.append(("expires", moment(plan.expires_at, now)))
    decisions = [
        f"{a.decision.value} by {a.approver}{'' if a.counted else f' (does not count: {a.reason})'}"
        for a in status.approvals
    ]
    needed = f"{required} needed; " if required is not None else ""
    rows.append(("approvals", needed + (", ".join(decisions) or "none yet")))
    if status.started_at is not None:
        rows.append(("started", moment(status.started_at, now)))
    if status.finished_at is not None:
        rows.append(("finished", moment(status.finished_at, now)))
    return fields(rows)


def fields(rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows) + 2
    return "".join(f"{output.paint(name.ljust(width), 'grey')}{printable(text)}\n" for name, text in rows)


def plan_text(plan: Plan, *, every: bool = False, read: Plan | None = None) -> str:
    """The plan's summary, its steps and what it changes. `read`: with what its file holds, where that was read."""
    parts = [output.paint("What would be done", "bold") + "\n"]
    summary = plan.summary.split("\n")
    parts += [f"  {printable(line)}\n" for line in summary[:MAX_SUMMARY]]
    if len(summary) > MAX_SUMMARY:
        parts.append(f"  and {len(summary) - MAX_SUMMARY} more lines\n")
    for step in plan.steps:
        if step.description and step.description in plan.summary:
            continue
        parts.append(f"  step {printable(step.name)} ({step.action.value}): {printable(step.description)}\n")
    lines = [as_line(change) for change in changes(read or without_file(plan))]
    if lines:
        parts.append(output.paint("Before and after", "bold") + "\n")
        kept = lines if every else lines[:MAX_LINES]
        parts += [f"  {line}\n" for line in kept]
        if len(lines) > len(kept):
            parts.append(f"  and {len(lines) - len(kept)} more: `diff` shows all\n")
    moves = plan.part(ReplicaMoves)
    if moves.throttle_bytes_per_second is not None:
        parts.append(f"  replication throttled to {moves.throttle_bytes_per_second} bytes per second on each broker\n")
    if moves.artifact is not None:
        parts.append(f"  the changes lie at {printable(moves.artifact.uri)} (SHA-256 {moves.artifact.sha256})\n")
    for held in plan.preconditions:
        parts.append(f"  only while: {printable(held.name)} is {printable(held.value)}\n")
    return "".join(parts)


def saved_text(run: Remediation) -> str:
    """What a run that has begun may put back, as its journal has it; empty for nothing."""
    saved = {v.name: v.value for entry in run.status.journal for v in entry.saved if v.name.count("/") > 1}
    if not saved or run.status.phase not in ACTING_PHASES:
        return ""
    lines = [f"  {printable(name)}: {printable(value or 'not set')}" for name, value in sorted(saved.items())]
    more = [f"  and {len(lines) - MAX_LINES} more: `history -o json` has all"] if len(lines) > MAX_LINES else []
    title = output.paint("What it may put back", "bold")
    return "\n".join((title, *lines[:MAX_LINES], *more)) + "\n"


def guards_text(run: Remediation) -> str:
    """The refusals of the guards in the operator's last reconcile."""
    rows = [(w.verdict.value, w.guard.value, w.message) for w in run.status.waiting_for]
    if not rows:
        judged = run.status.phase not in (None, Phase.PLANNING, Phase.AWAITING_APPROVAL)
        return "No guard refuses.\n" if judged else "The guards have not been asked about it yet.\n"
    return output.table(("VERDICT", "GUARD", "REASON"), rows)


def steps_text(run: Remediation) -> str:
    rows = [
        (step.phase.value, step.name, step.progress.describe() if step.progress else "", step.message)
        for step in run.status.steps
    ]
    return output.table(("STEP", "NAME", "PROGRESS", "MESSAGE"), rows) if rows else ""


def bar(progress: Progress) -> str:
    """`[######..............]`"""
    full = int(progress.share * BAR)
    return f"[{'#' * full}{'.' * (BAR - full)}]"


def progress_line(run: Remediation) -> str:
    """How it stands, in one line: what `--watch` prints whenever it differs."""
    status = run.status
    step = next((s for s in status.steps if s.name == status.current_step), None)
    parts = [str(status.phase or "not seen yet")]
    if step is not None and status.phase not in TERMINAL_PHASES:
        parts.append(f"{step.name} {bar(step.progress)} {step.progress.describe()}" if step.progress else step.name)
    elif status.phase is Phase.AWAITING_APPROVAL and status.plan is not None:
        parts.append(status.plan.digest)
    if status.message:
        parts.append(status.message)
    return printable("  ".join(parts))
