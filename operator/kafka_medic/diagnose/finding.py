"""A named thing that is wrong, with who said so and when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from kafka_medic.resources.vocabulary import FindingState, Severity

__all__ = ["Finding", "FindingState", "Severity"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `id` is stable while the trouble lasts (type and scope, never a time), `affected` names
    brokers, partitions, topics or settings, `evidence` says what was read from whom, and `playbook` is the
    cure that is shipped."""

    id: str
    type: str
    severity: Severity
    message: str
    affected: tuple[str, ...]
    evidence: tuple[str, ...]
    for_seconds: float = 0.0
    playbook: str | None = None
    since: datetime | None = None
    state: FindingState = FindingState.PENDING
    counted: int | None = None
    """How many are affected, where `affected` was cut; None: as many as it names."""

    def firing(self) -> bool:
        return self.state is FindingState.FIRING

    def seen(self, *, since: datetime, now: datetime) -> Finding:
        """The same finding with its age: Firing once it has lasted `for_seconds`."""
        lasted = (now - since).total_seconds() >= self.for_seconds
        return replace(self, since=since, state=FindingState.FIRING if lasted else FindingState.PENDING)
