"""How often a broker was restarted, over every run there has been: from their journals, which outlive the operator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kafka_medic.resources.phases import TERMINAL_PHASES
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_status import IntentState, JournalEntry

_RESTART = re.compile(r"/restart-(\d+)(?:-again-\d+)?$")


def restarts(runs: Sequence[Remediation], broker: int | None = None) -> list[dict[str, Any]]:
    """One `{broker, at, remediation, namespace, cluster, playbook, podUid, backAfterSeconds, outcome}` for each restart
    that was begun, oldest first; of one broker or of all. `backAfterSeconds` is None when it was never seen back."""
    found = []
    for run in runs:
        for entry in run.status.journal:
            match = _RESTART.search(entry.id)
            if match is None or broker not in (None, int(match[1])):
                continue
            back = entry.state is not IntentState.INTENDED and entry.done_at is not None
            found.append(
                {
                    "broker": int(match[1]),
                    "at": entry.intended_at.isoformat().replace("+00:00", "Z"),
                    "remediation": run.name,
                    "namespace": run.namespace,
                    "cluster": run.spec.cluster_ref.name,
                    "playbook": run.spec.playbook.name,
                    "podUid": entry.target_uid,
                    "backAfterSeconds": _seconds(entry) if back else None,
                    "outcome": _outcome(run, entry),
                }
            )
    return sorted(found, key=lambda a: str(a["at"]))


def _seconds(entry: JournalEntry) -> float:
    assert entry.done_at is not None
    return round((entry.done_at - entry.intended_at).total_seconds(), 1)


def _outcome(run: Remediation, entry: JournalEntry) -> str:
    if entry.state is IntentState.VOID:
        return "back, with its old configuration"
    if entry.state is IntentState.DONE and entry.done_at is not None:
        return "back"
    if run.status.phase in TERMINAL_PHASES:
        return f"not back when the run ended as {run.status.phase}"
    return f"under way ({run.status.phase}): {run.status.message}".rstrip(": ")
