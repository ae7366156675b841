"""Why there is no plan."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.resources.vocabulary import Guard

NO_DIGEST = "sha256:" + "0" * 64
"""Stands in a plan until it is complete enough to be digested."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no plan now. `permanent`: asking again later cannot help; `nothing_to_do`: it is already so."""

    message: str
    reasons: tuple[Reason, ...] = ()
    permanent: bool = False
    nothing_to_do: bool = False


def unread(snapshot: Snapshot) -> Refusal:
    """For a snapshot that lacks what a plan is made of: every source that failed, else what they could not report, and
    why."""
    failed = [s for s in snapshot.sources if not s.known] or [s for s in snapshot.sources if s.error]
    message = "; ".join(f"{s.name}: {s.error}" for s in failed) or "the cluster was not read in full"
    return Refusal(message, (Reason(Guard.SOURCES_FRESH, Verdict.UNKNOWN, message),))
