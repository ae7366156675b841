"""Other Remediations of the same cluster, as far as a run has to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import OffsetChange, PartitionChange, Plan, Reorders
from kafka_medic.resources.remediation_status import Cure
from kafka_medic.resources.vocabulary import Guard, Severity

_GRAVITY = {Severity.INFO: 1, Severity.WARNING: 2, Severity.CRITICAL: 3}


@dataclass(frozen=True, slots=True)
class OtherRun:
    """`cause`: the finding that it was proposed for; None for one that a person asked for. `offsets`: the committed
    offsets that it has set, or may have. `cures`, `holds`: as its status has them. `owes`: it has
    something to take back, and others wait for that. `waits_for`: the guards that refused when it was last decided."""

    name: str
    phase: Phase | None
    started_at: datetime | None
    finished_at: datetime | None
    created_at: datetime | None = None
    playbook: str = ""
    cause: str | None = None
    plan: Plan | None = None
    offsets: tuple[OffsetChange, ...] = ()
    cures: Cure | None = None
    holds: str | None = None
    owes: bool = False
    waits_for: frozenset[Guard] = frozenset()
    uid: str = ""

    @classmethod
    def of(cls, run: Remediation, offsets: tuple[OffsetChange, ...] = ()) -> Self:
        status, cause = run.status, run.spec.cause
        return cls(
            name=run.name,
            phase=status.phase,
            started_at=status.started_at,
            finished_at=status.finished_at,
            created_at=run.metadata.creation_timestamp,
            playbook=run.spec.playbook.name,
            cause=cause.finding_id if cause is not None else None,
            plan=status.plan_left,
            offsets=offsets,
            cures=status.cures,
            holds=status.holds,
            owes=status.restore_owed and status.holds != "",
            waits_for=frozenset(w.guard for w in status.waiting_for),
            uid=run.uid or "",
        )

    @property
    def gravity(self) -> int:
        """Of the finding that it cures; 0 for none. A run that an earlier version began does not name the finding, and
        counts as the gravest: nothing overtakes it."""
        if self.cures is None:
            return 0 if self.cause is None else max(_GRAVITY.values())
        return _GRAVITY[self.cures.severity]

    @property
    def reorders(self) -> tuple[PartitionChange, ...]:
        """Of one that succeeded: the orders of replicas that it changed, for the time of a piece of maintenance."""
        return () if self.plan is None or self.phase is not Phase.SUCCEEDED else self.plan.drained()


def standing_drains(runs: Sequence[OtherRun]) -> dict[tuple[str, int], PartitionChange]:
    """By partition: the order that a drain left, unless a later run has changed it."""
    found: dict[tuple[str, int], PartitionChange] = {}
    ended = [r for r in runs if r.phase is Phase.SUCCEEDED and r.plan is not None and r.finished_at is not None]
    for run in sorted(ended, key=lambda r: (r.finished_at, r.name)):
        assert run.plan is not None
        for change in run.plan.part(Reorders).reorders:
            found.pop((change.topic, change.partition), None)
        found |= {(change.topic, change.partition): change for change in run.reorders}
    return found
