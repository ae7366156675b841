"""Which run of a KafkaCluster acts. The answer rests on what the runs' status says and on nothing else, so every
operator, after any crash and in whatever order it decides the runs, gives the same one.

Runs that may act stand in one order:

1. A run that has something to take back goes before one that has not.
2. Then the cure of the graver finding goes before the cure of the lighter one.
3. Then a run that has begun goes before one that has not.
4. Then the older one goes first.

The first one acts, once no other run holds anything: what a run has sent is seen settled before another one acts.

A run that has not begun takes part once it is approved and its status names no other guard that refuses. A cure that
cannot start anyway, because a topic has no replica to spare say, thus never holds up the run that would change that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.resources.phases import ACTING_PHASES, Phase
from kafka_medic.resources.vocabulary import Guard

_GUARD = Guard.NO_OTHER_REMEDIATION
_NEVER = datetime.max.replace(tzinfo=UTC)


def goes_first(itself: OtherRun | None, others: Sequence[OtherRun]) -> Reason:
    """Whether that run may act. A run that is not approved yet is told what would be if it were. None: a run of which
    nothing is known waits for all that have begun."""
    begun = [o for o in others if o.phase in ACTING_PHASES]
    if itself is None:
        return _wait(_acts(begun[0]), begun[0]) if begun else _allow(begun)
    if itself.phase not in {*ACTING_PHASES, Phase.APPROVED}:
        itself = replace(itself, phase=Phase.APPROVED, waits_for=frozenset())
    ahead = _ahead(itself, others)
    if ahead is not None:
        return _wait(_why(ahead, itself), ahead)
    holder = next((o for o in begun if o.holds != ""), None)
    if holder is not None:
        return _wait(_acts(holder), holder)
    return _allow(begun)


def _ahead(itself: OtherRun, others: Sequence[OtherRun]) -> OtherRun | None:
    """The run that goes before that one, which is approved or has begun; None when it is the first."""
    rivals = [o for o in others if _takes_part(o)]
    if _takes_part(itself):
        return min((o for o in rivals if _place(o) < _place(itself)), key=_place, default=None)
    approved = (o for o in others if o.phase is Phase.APPROVED and _place(o) < _place(itself))
    return min(rivals, key=_place, default=None) or min(approved, key=_place, default=None)


def _takes_part(run: OtherRun) -> bool:
    if run.phase is Phase.APPROVED:
        return run.waits_for <= {Guard.NO_OTHER_REMEDIATION}
    return run.phase in ACTING_PHASES


def _place(run: OtherRun) -> tuple[bool, int, bool, datetime, str]:
    """Smallest first."""
    begun = run.phase in ACTING_PHASES
    return not (begun and run.owes), -run.gravity, not begun, run.created_at or _NEVER, run.name


def _why(ahead: OtherRun, itself: OtherRun) -> str:
    begun = ahead.phase in ACTING_PHASES
    if ahead.gravity > itself.gravity and ahead.cures is not None and not (begun and ahead.owes):
        return f"gives way to {ahead.name}, which cures {ahead.cures.finding_id} ({ahead.cures.severity.value})"
    return _acts(ahead) if begun else f"{ahead.name} is also approved and starts first; one at a time"


def _acts(run: OtherRun) -> str:
    return f"{run.name} is acting on this cluster; one at a time" + (f". It holds: {run.holds}" if run.holds else "")


def _wait(message: str, whom: OtherRun) -> Reason:
    return Reason(_GUARD, Verdict.WAIT, message, remediation=whom.name)


def _allow(aside: Sequence[OtherRun]) -> Reason:
    if aside:
        return Reason(_GUARD, Verdict.ALLOW, f"{', '.join(o.name for o in aside)} gives way")
    return Reason(_GUARD, Verdict.ALLOW, "no other remediation is acting on this cluster")
