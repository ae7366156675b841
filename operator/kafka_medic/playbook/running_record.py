"""What a run keeps for its report: which guards held it and for how long, and how the canary fared meanwhile.

Nothing is decided by either. Both change seldom, so that a reconcile in which nothing happens writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.resources.phases import ACTING_PHASES
from kafka_medic.resources.remediation_status import MAX_WAITS, CanaryEffect, RemediationStatus, Wait, Waiting

__all__ = ["recorded"]

_WORDS = 256
"""Characters of a wait's reason."""


def recorded(
    before: RemediationStatus, after: RemediationStatus, canary: pa.Table | None, now: datetime
) -> RemediationStatus:
    """The status after a decision, with both. `canary`: as the snapshot has it; None: not known."""
    update: dict[str, object] = {}
    waits = _waits(before.waits, after.waiting_for, now)
    if waits != before.waits:
        update["waits"] = waits
    if after.phase in ACTING_PHASES and canary is not None:
        effect = _effect(before.canary, canary, now)
        if effect != before.canary:
            update["canary"] = effect
    return after.model_copy(update=update) if update else after


def _waits(known: Sequence[Wait], waiting: Sequence[Waiting], now: datetime) -> tuple[Wait, ...]:
    """Each guard with its verdict is one wait, from when it first refused until it no longer does."""
    refusing = {(w.guard, w.verdict): w.message for w in reversed(waiting)}
    found = [w if w.until is not None or (w.guard, w.verdict) in refusing else _over(w, now) for w in known]
    held = {(w.guard, w.verdict) for w in found if w.until is None}
    found += [
        Wait(guard=guard, verdict=verdict, message=message[:_WORDS], since=now)
        for (guard, verdict), message in refusing.items()
        if (guard, verdict) not in held
    ]
    while len(found) > MAX_WAITS:
        found.remove(min(found, key=lambda w: (w.until is None, (w.until or now) - w.since)))
    return tuple(found)


def _over(wait: Wait, now: datetime) -> Wait:
    return wait.model_copy(update={"until": max(now, wait.since)})


def _effect(known: CanaryEffect | None, canary: pa.Table, now: datetime) -> CanaryEffect | None:
    """The first reading is that from before the run's first effect."""
    slowest, read = (pc.max(canary[name]).as_py() for name in ("produceMs", "consumeMs"))
    failing = sum(1 for failures in canary["consecutiveFailures"].to_pylist() if failures)
    if known is None:
        if slowest is None:
            return None
        return CanaryEffect(
            before_ms=slowest, worst_ms=slowest, at=now, consume_before_ms=read, consume_worst_ms=read, failing=failing
        )
    worse = slowest is not None and slowest > known.worst_ms
    update: dict[str, object] = {"worst_ms": slowest, "at": now} if worse else {}
    if read is not None and (known.consume_worst_ms is None or read > known.consume_worst_ms):
        update["consume_worst_ms"] = read
    update |= {"failing": failing} if failing > known.failing else {}
    return known.model_copy(update=update) if update else known
