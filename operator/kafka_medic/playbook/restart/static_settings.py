"""Whether a restarted broker has read what it is to read. Only its owner can change its configuration, so one that
comes back as it was is a question to a person, and never a reason to restart the next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kafka_medic.cluster.clock import Skew
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.defaults import broker_defaults
from kafka_medic.resources.remediation_plan import Plan, Restarts
from kafka_medic.resources.remediation_status import ApprovalRecord, JournalEntry
from kafka_medic.resources.vocabulary import Decision

JOURNAL = 197
"""Entries beyond which no broker is restarted once more: what comes at the end has to find room as well."""


def not_read(plan: Plan, snapshot: Snapshot, broker: int) -> str | None:
    """`NAME=VALUE, ...`: what that broker has read that is below the plan; None when nothing is. Empty when it is not
    known."""
    wanted = {s.name: int(s.after) for s in plan.part(Restarts).static_settings if broker in s.brokers}
    defaults = broker_defaults(snapshot)
    if any((name, broker) not in defaults for name in wanted):
        return ""
    low = [f"{name}={defaults[name, broker]}" for name, least in wanted.items() if defaults[name, broker] < least]
    return ", ".join(low) or None


def to_do(plan: Plan, broker: int, read: str) -> str:
    """What a person is told of a broker that came back as it was."""
    wanted = ", ".join(f"{s.name}={s.after}" for s in plan.part(Restarts).static_settings if broker in s.brokers)
    return (
        f"broker {broker} came back with {read}: its configuration still has the old value. Change it ({wanted}), "
        "then approve the same plan again with a new RemediationApproval to restart it again, or reject"
    )


def approved_again(
    void: Sequence[JournalEntry], approvals: Sequence[ApprovalRecord], required: int, skew: Skew | None
) -> bool:
    """Whether as many people as a plan needs have said, since the last of these restarts was seen to be for nothing,
    that the configuration is another one now. Each of them once for every such restart, besides the word that began it
    all. `skew`: of the API server's clock, which dates what they said, to the operator's, which dates what was seen;
    None: not known, and then nobody is known to have come after it. In the second that this cannot tell it came after
    it: the number of words already keeps an old one from counting twice."""
    seen = void[-1].done_at
    if seen is None or skew is None:
        return False
    approved: dict[str, list[datetime]] = {}
    for word in approvals:
        if word.counted and word.decision is Decision.APPROVE:
            approved.setdefault(word.approver, []).append(word.at)
    again = [who for who, at in approved.items() if len(at) > len(void) and skew.latest(max(at)) >= seen]
    return len(again) >= max(required, 1)
