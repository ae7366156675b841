"""The phases of a Remediation and the one table of the ways between them.

`schema` writes the same table into the CustomResourceDefinition as a CEL rule, so that the API server holds
even the operator to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Phase(StrEnum):
    """Where a Remediation stands."""

    PLANNING = "Planning"
    AWAITING_APPROVAL = "AwaitingApproval"
    APPROVED = "Approved"
    RUNNING = "Running"
    PAUSED = "Paused"
    BLOCKED = "Blocked"
    VERIFYING = "Verifying"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ABORTED = "Aborted"
    REJECTED = "Rejected"
    EXPIRED = "Expired"
    SUPERSEDED = "Superseded"


class StepPhase(StrEnum):
    """Where one step of a Remediation stands."""

    PENDING = "Pending"
    RUNNING = "Running"
    VERIFYING = "Verifying"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SKIPPED = "Skipped"


TERMINAL_PHASES: frozenset[Phase] = frozenset(
    {Phase.SUCCEEDED, Phase.FAILED, Phase.ABORTED, Phase.REJECTED, Phase.EXPIRED, Phase.SUPERSEDED}
)
"""Nothing leaves these."""

ACTING_PHASES: frozenset[Phase] = frozenset({Phase.RUNNING, Phase.VERIFYING, Phase.PAUSED, Phase.BLOCKED})
"""An effect may have been sent: temporary settings may be in place, and the cluster's lease belongs to
this run."""

LEGAL_TRANSITIONS: Mapping[Phase, frozenset[Phase]] = MappingProxyType(
    {
        # A plan that cannot be made says so (Failed); one that nobody needs any more is Superseded.
        Phase.PLANNING: frozenset({Phase.AWAITING_APPROVAL, Phase.FAILED, Phase.ABORTED, Phase.SUPERSEDED}),
        # Back to Planning when what was observed has drifted: a new plan, a new digest, every approval void.
        Phase.AWAITING_APPROVAL: frozenset(
            {Phase.PLANNING, Phase.APPROVED, Phase.REJECTED, Phase.EXPIRED, Phase.ABORTED, Phase.SUPERSEDED}
        ),
        # Nothing has been done yet, so drift may still re-plan, a person may still reject, and a revoked
        # approval puts the plan back to where it waits for one.
        Phase.APPROVED: frozenset(
            {
                Phase.PLANNING,
                Phase.AWAITING_APPROVAL,
                Phase.RUNNING,
                Phase.BLOCKED,
                Phase.PAUSED,
                Phase.REJECTED,
                Phase.EXPIRED,
                Phase.ABORTED,
                Phase.SUPERSEDED,
            }
        ),
        # From here on something may have been done: never back to Planning within the same run.
        Phase.RUNNING: frozenset(
            {Phase.VERIFYING, Phase.PAUSED, Phase.BLOCKED, Phase.FAILED, Phase.ABORTED, Phase.SUPERSEDED}
        ),
        Phase.VERIFYING: frozenset(
            {
                Phase.RUNNING,
                Phase.SUCCEEDED,
                Phase.PAUSED,
                Phase.BLOCKED,
                Phase.FAILED,
                Phase.ABORTED,
                Phase.SUPERSEDED,
            }
        ),
        # A run that was paused or blocked before its first effect may expire or be rejected; the
        # controller sends it there only when its journal is empty.
        Phase.PAUSED: frozenset(
            {
                Phase.RUNNING,
                Phase.VERIFYING,
                Phase.BLOCKED,
                Phase.FAILED,
                Phase.ABORTED,
                Phase.REJECTED,
                Phase.EXPIRED,
                Phase.SUPERSEDED,
            }
        ),
        Phase.BLOCKED: frozenset(
            {
                Phase.RUNNING,
                Phase.VERIFYING,
                Phase.PAUSED,
                Phase.FAILED,
                Phase.ABORTED,
                Phase.REJECTED,
                Phase.EXPIRED,
                Phase.SUPERSEDED,
            }
        ),
        Phase.SUCCEEDED: frozenset(),
        Phase.FAILED: frozenset(),
        Phase.ABORTED: frozenset(),
        Phase.REJECTED: frozenset(),
        Phase.EXPIRED: frozenset(),
        Phase.SUPERSEDED: frozenset(),
    }
)


def may_transition(before: Phase | None, after: Phase) -> bool:
    """Whether a Remediation may go from `before` (None: it has no phase yet) to `after`. Staying is
    always legal."""
    if before is None:
        return after is Phase.PLANNING
    return before is after or after in LEGAL_TRANSITIONS[before]
