"""A Remediation as text for a terminal. Text of others is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from kafka_medic.cli import output
from kafka_medic.cli.remediation.change_text import as_line
from kafka_medic.cluster.names import printable
from kafka_medic.playbook.change import Change
from kafka_medic.playbook.changes import changes
from kafka_medic.playbook.plan_file import without_file
from kafka_medic.resources.durations import format_bytes
from kafka_medic.resources.phases import ACTING_PHASES, TERMINAL_PHASES, Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan, ReplicaMoves
from kafka_medic.resources.remediation_status import Progress, StepStatus

MAX_LINES = 40
"""Of a plan's changes, unless all of them are wanted."""
MAX_SUMMARY = 120
_FIELD = len("you may approve")
"""Characters of the names of fields, at least: what stands below each other begins below each other."""
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


def until(left: timedelta) -> str:
    """`23h`, or `expired`."""
    return span(left) if left > timedelta() else "expired"


def this_plan(sentence: str, run: Remediation) -> str:
    """The sentence without the plan's digest, which stands in a line of its own."""
    plan = run.status.plan
    return sentence if plan is None else sentence.replace(plan.digest, "this plan")


def origin(run: Remediation) -> str:
    """Who or what asked for it."""
    if run.spec.cause is not None:
        return f"the operator, for the finding {run.spec.cause.finding_id}"
    return run.spec.requested_by or "unknown"


def head(run: Remediation, now: datetime, required: int | None) -> str:
    """What it is and how it stands. `required`: approvals that the KafkaCluster asks for; None: not known."""
    status, plan = run.status, run.status.plan
    rows = [
        ("Remediation", f"{run.namespace}/{run.name}"),
        ("cluster", run.spec.cluster_ref.name),
        ("playbook", run.spec.playbook.name),
        ("asked by", origin(run)),
        ("parameters", ", ".join(f"{k}={v}" for k, v in sorted(run.spec.parameters.items())) or "-"),
        ("phase", f"{status.phase or 'not yet seen by the operator'}: {this_plan(status.message, run)}".rstrip(": ")),
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
    """On a terminal, a long text goes on below where it began."""
    width = max(_FIELD, *(len(name) for name, _ in rows)) + 2
    lines = []
    for name, text in rows:
        first, *more = output.folded(printable(text), width)
        lines += [f"{output.paint(name.ljust(width), 'grey')}{first}\n", *(f"{' ' * width}{line}\n" for line in more)]
    return "".join(lines)


def plan_text(plan: Plan, *, every: bool = False, read: Plan | None = None) -> str:
    """The plan's summary, its steps and what it changes. `read`: with what its file holds, where that was read."""
    found = list(changes(read or without_file(plan)))
    summary = _without_changes(plan.summary.split("\n"), found)
    parts = [output.paint("Planned changes", "bold") + "\n"]
    parts += [_line(printable(line)) for line in summary[:MAX_SUMMARY]]
    if len(summary) > MAX_SUMMARY:
        parts.append(f"  and {output.counted(len(summary) - MAX_SUMMARY, 'more line')}\n")
    for step in plan.steps:
        if step.description and step.description in plan.summary:
            continue
        parts.append(_line(printable(f"step {step.name} ({step.action.value}): {step.description}")))
    moves = plan.part(ReplicaMoves)
    if moves.throttle_bytes_per_second is not None:
        throttle = f"{format_bytes(moves.throttle_bytes_per_second)}/s"
        if throttle not in plan.summary:
            parts.append(f"  replication is throttled to {throttle} on each broker\n")
    for held in plan.preconditions:
        parts.append(f"  only while: {printable(held.name)} is {printable(held.value)}\n")
    if found:
        parts.append(output.paint("Before and after", "bold") + "\n")
        kept = found if every else found[:MAX_LINES]
        parts += [_line(as_line(change)) for change in kept]
        if len(found) > len(kept):
            parts.append(f"  and {len(found) - len(kept):,} more: `diff` shows all\n")
    if moves.artifact is not None:
        parts.append(f"  the changes are at {printable(moves.artifact.uri)} (SHA-256 {moves.artifact.sha256})\n")
    return "".join(parts)


def _line(text: str) -> str:
    """Indented, and on a terminal folded with what follows indented further."""
    first, *more = output.folded(text, 6)
    return "".join((f"  {first}\n", *(f"      {line}\n" for line in more)))


def _without_changes(summary: Sequence[str], found: Sequence[Change]) -> list[str]:
    """The summary's lines but for those that a change says as well: `  orders-0: [1] -> [1, 2] (5.0 MB)`."""
    named = {change.what.rpartition(" ")[2] for change in found}
    return [line for line in summary if not (line.startswith("  ") and line.strip().partition(": ")[0] in named)]


def saved_text(run: Remediation) -> str:
    """What a run that has begun may put back, as its journal has it; empty for nothing."""
    saved = {v.name: v.value for entry in run.status.journal for v in entry.saved if v.name.count("/") > 1}
    if not saved or run.status.phase not in ACTING_PHASES:
        return ""
    lines = [f"  {printable(name)}: {printable(value or 'not set')}" for name, value in sorted(saved.items())]
    more = [f"  and {len(lines) - MAX_LINES} more: `history -o json` has all"] if len(lines) > MAX_LINES else []
    title = output.paint("What it may restore", "bold")
    return "\n".join((title, *lines[:MAX_LINES], *more)) + "\n"


def guards_text(run: Remediation) -> str:
    """The refusals of the guards in the operator's last reconcile."""
    rows = [(w.verdict.value, w.guard.value, this_plan(w.message, run)) for w in run.status.waiting_for]
    if not rows:
        judged = run.status.phase not in (None, Phase.PLANNING, Phase.AWAITING_APPROVAL)
        return "No guard refuses.\n" if judged else "The operator has not evaluated the guards yet.\n"
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


def progress_line(run: Remediation, *, counted: bool = True) -> str:
    """How it stands, in one line: what `--watch` prints whenever it differs. `counted`: with how far its step is."""
    status = run.status
    step = _present(run)
    parts = [str(status.phase or "not seen yet")]
    if step is not None:
        known = step.progress if counted else None
        parts.append(f"{step.name} {bar(known)} {known.describe()}" if known else step.name)
    elif status.phase is Phase.AWAITING_APPROVAL and status.plan is not None:
        parts.append(status.plan.digest)
    if status.message and (counted or step is None):
        parts.append(this_plan(status.message, run) if status.phase is Phase.AWAITING_APPROVAL else status.message)
    return printable("  ".join(parts))


def progress_figures(run: Remediation, now: datetime) -> tuple[str, int | None, int | None]:
    """What a bar says, and how much of how much is done: bytes where they are known."""
    step = _present(run)
    if step is None:
        return str(run.status.phase or "not started yet"), None, None
    progress = step.progress
    if progress is None:
        return step.name, None, None
    text = f"{step.name} {progress.done}/{progress.total} {progress.unit}".rstrip()
    if not progress.bytes_total:
        return text, progress.done, progress.total
    speed = rate(step, now)
    text += f", {format_bytes(progress.bytes_done or 0)} of {format_bytes(progress.bytes_total)}"
    return text + (f", {format_bytes(round(speed))}/s" if speed else ""), progress.bytes_done or 0, progress.bytes_total


def rate(step: StepStatus, now: datetime) -> float | None:
    """Bytes a second since the step began, without the time that it was held; None where it is not known."""
    progress = step.progress
    if progress is None or not progress.bytes_done or step.started_at is None:
        return None
    seconds = (now - step.started_at).total_seconds() - (step.held_seconds or 0)
    if step.held_since is not None:
        seconds -= (now - step.held_since).total_seconds()
    return progress.bytes_done / seconds if seconds >= 1 else None


def _present(run: Remediation) -> StepStatus | None:
    """The step that runs."""
    status = run.status
    if status.phase in TERMINAL_PHASES:
        return None
    return next((s for s in status.steps if s.name == status.current_step), None)
