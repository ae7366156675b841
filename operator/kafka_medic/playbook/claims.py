"""What a run of another KafkaCluster does to the Kafka cluster, by its own status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kafka_medic.guard.namesakes import Namesake
from kafka_medic.playbook.holding import GIVE_UP, ON_ITS_WAY, SENT_WITHIN
from kafka_medic.resources.phases import ACTING_PHASES, TERMINAL_PHASES, Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_status import IntentState, RemediationStatus
from kafka_medic.resources.vocabulary import Guard

LAPSED = 2 * (SENT_WITHIN + ON_ITS_WAY)
"""Seconds after which a claim that led to nothing counts no more. Twice as long as its effect may be on its way: the
clocks of two operators date it and judge it."""
_NOT_BEGUN = (Phase.PLANNING, Phase.AWAITING_APPROVAL, Phase.APPROVED)


def has_begun(raw: Mapping[str, Any]) -> bool:
    """Whether a Remediation, which may not be readable as a whole, may have done something that it has not ended yet.
    A phase that this version does not know may be one in which it acts."""
    phase = _status(raw).get("phase")
    return phase is not None and phase not in {*TERMINAL_PHASES, *_NOT_BEGUN}


def truly_owes(status: RemediationStatus) -> bool:
    """Whether it has changed something, as was seen, and takes it back later."""
    return status.phase in ACTING_PHASES and status.restore_owed and _seen(status)


def namesake(name: str, older: bool, run: Remediation, now: datetime) -> Namesake | None:
    """What that run is to others; None: nothing, since it has not begun, holds nothing and waits for something else."""
    status = run.status
    if status.phase not in ACTING_PHASES:
        return None
    waits = {w.guard for w in status.waiting_for}
    holds = status.holds != "" or status.restore_owed
    claims = holds and not (Guard.NO_OTHER_KAFKA_CLUSTER in waits and not _seen(status) and _lapsed(status, now))
    wants = status.phase is not Phase.PAUSED and waits <= {Guard.NO_OTHER_KAFKA_CLUSTER}
    if not claims and not wants:
        return None
    return Namesake(name, run.name, older, claims, truly_owes(status), wants)


def unreadable_namesake(name: str, older: bool, raw: Mapping[str, Any]) -> Namesake | None:
    """The same of a run that this version cannot read: only one that has begun and holds something, as it says."""
    status = _status(raw)
    owes = status.get("restoreOwed") is True
    if not has_begun(raw) or (status.get("holds") == "" and not owes):
        return None
    return Namesake(name, str(raw["metadata"]["name"]), older, claims=True, owes=owes, readable=False)


def _status(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    status = raw.get("status")
    return status if isinstance(status, Mapping) else {}


def _seen(status: RemediationStatus) -> bool:
    return any(e.state is IntentState.DONE and e.id != GIVE_UP for e in status.journal)


def _lapsed(status: RemediationStatus, now: datetime) -> bool:
    return all((now - e.last_asked).total_seconds() > LAPSED for e in status.journal if e.id != GIVE_UP)
