"""What happened in a run, in order: decisions, steps, effects, and the guards that held it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from kafka_medic.cli.remediation.audit_log import audit_log
from kafka_medic.report.model import Event, Tone
from kafka_medic.report.units import duration, moment
from kafka_medic.resources.approval import RemediationApproval
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_status import IntentState, JournalEntry, Wait
from kafka_medic.resources.vocabulary import Verdict

__all__ = ["OF_VERDICT", "OF_WORD", "spoken", "timeline"]

OF_WORD = {
    "Approve": Tone.GOOD, "Succeeded": Tone.GOOD, "StepSucceeded": Tone.GOOD, "Reject": Tone.BAD, "Failed": Tone.BAD,
    "Aborted": Tone.BAD, "StepFailed": Tone.BAD, "Rejected": Tone.BAD, "Expired": Tone.WARN,
}  # fmt: skip
OF_VERDICT = {Verdict.DENY: Tone.BAD, Verdict.WAIT: Tone.WARN, Verdict.UNKNOWN: Tone.WARN}


def timeline(run: Remediation, approvals: Sequence[RemediationApproval], now: datetime) -> list[Event]:
    began = run.status.started_at
    timed = [
        (_moment(e.get("at")), _told(e, began)) for e in audit_log(run, approvals) if "step" not in e and "id" not in e
    ]
    timed += [(entry.intended_at, _entry(entry, began)) for entry in run.status.journal]
    timed += [(wait.since, _wait(wait, began, now)) for wait in run.status.waits]
    timed.sort(key=lambda pair: (pair[0] is None, pair[0] or now))
    return [event for _, event in timed]


def spoken(word: str) -> str:
    """`AwaitingApproval` as `Awaiting approval`."""
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in word)
    return words.strip().capitalize()


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)


def _told(event: Mapping[str, str], began: datetime | None) -> Event:
    at, what = _moment(event.get("at")), event["what"]
    counted = "" if event.get("counted", True) else " (does not count)"
    return Event(
        moment(at), _after(at, began), event["who"], f"{spoken(what)}{counted}",
        [line for line in event["detail"].split("\n") if line], OF_WORD.get(what, Tone.PLAIN),
    )  # fmt: skip


def _entry(entry: JournalEntry, began: datetime | None) -> Event:
    """An effect, and when it was observed."""
    lines = [line for line in (entry.target, entry.detail) if line]
    tone = Tone.PLAIN
    if entry.state is IntentState.INTENDED:
        lines.append("Not observed yet.")
    elif entry.done_at is not None:
        took = duration((entry.done_at - entry.intended_at).total_seconds())
        lines.append(f"Observed after {took}." if entry.state is IntentState.DONE else f"Void after {took}.")
        tone = Tone.WARN if entry.state is IntentState.VOID else Tone.PLAIN
    return Event(
        moment(entry.intended_at), _after(entry.intended_at, began), "operator", spoken(entry.kind), lines, tone
    )


def _wait(wait: Wait, began: datetime | None, now: datetime) -> Event:
    held = duration(((wait.until or now) - wait.since).total_seconds())
    lines = [wait.message, f"Held for {held}." if wait.until else f"Has held for {held}."]
    return Event(
        moment(wait.since), _after(wait.since, began), "guard", f"{wait.guard.value}: {wait.verdict.value}",
        [line for line in lines if line], OF_VERDICT.get(wait.verdict, Tone.PLAIN),
    )  # fmt: skip


def _after(at: datetime | None, began: datetime | None) -> str:
    """`+2 min 5 s`, from the run's begin."""
    if at is None or began is None or at < began:
        return ""
    return f"+{duration((at - began).total_seconds())}"
